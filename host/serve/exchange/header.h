/* serve/exchange/header.h - the checks of a request's header. */
#ifndef SERVE_HEADER_H
#define SERVE_HEADER_H
#include "serve/exchange/exchange.h"

/* Checks the header. length: of the body, 0 = none or unknown. exchange->code != 0: the request is refused; with 413
 * the body must not be read. */
void exchange_begin(struct exchange *exchange, uint64_t length);
/* browser.c: checks Host and Origin. false: the exchange has its failure. */
bool browser_is_allowed(struct exchange *exchange);
#endif
