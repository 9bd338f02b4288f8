/* serve/chat/tokenize.h - POST /tokenize and /detokenize. */
#ifndef SERVE_TOKENIZE_H
#define SERVE_TOKENIZE_H
#include "serve/exchange/exchange.h"

void answer_tokens(struct exchange *exchange);
#endif
