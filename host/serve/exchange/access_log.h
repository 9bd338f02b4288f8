/* serve/exchange/access_log.h - one line of JSON for each request. */
#ifndef SERVE_ACCESS_LOG_H
#define SERVE_ACCESS_LOG_H
#include "serve/exchange/exchange.h"

void access_log_write(const struct exchange *exchange);
#endif
