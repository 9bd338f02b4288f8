/* serve/routes/routes.h - the table of routes: what answers each path. */
#ifndef SERVE_ROUTES_H
#define SERVE_ROUTES_H
#include "serve/exchange/exchange.h"

/* Answers a complete request. true: it has its reply; false: exchange->request.task is resumed later. */
bool routes_run(struct exchange *exchange);
#endif
