/* serve/exchange/access.h - what a client may ask for: the checks of a request's header. */
#ifndef SERVE_ACCESS_H
#define SERVE_ACCESS_H
#include "serve/exchange/exchange.h"

/* Checks the header. length: of the body, 0 = none or unknown. exchange->code != 0: the request is refused; with 413
 * the body must not be read. */
void exchange_begin(struct exchange *exchange, uint64_t length, bool is_trusted);
/* browser.c: checks Host and Origin. false: the exchange has its failure. */
bool browser_is_allowed(struct exchange *exchange);
/* Counts a wrong token of this client. Returns the delay of the reply in milliseconds. Any thread. */
uint32_t server_wrong_token(struct server *server, const struct sockaddr *client);
#endif
