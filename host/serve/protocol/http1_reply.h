/* serve/protocol/http1_reply.h - the head of a reply over HTTP/1.1. */
#ifndef SERVE_HTTP1_REPLY_H
#define SERVE_HTTP1_REPLY_H
#include "serve/exchange/exchange.h"

/* Appends the status line and the header. is_1_0: the client's version. */
void http1_write_head(struct strbuf *to, const exchange_reply *reply, bool is_1_0, bool keep_alive);
#endif
