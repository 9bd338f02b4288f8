/* serve/load.h - how busy the server is, for who balances requests over several: ORCA's per-request reports. */
#ifndef SERVE_LOAD_H
#define SERVE_LOAD_H
#include <stdbool.h>
#include <stddef.h>

struct server;
enum { LOAD_BYTES = 160 };

/* Follows runs and requests; to be called every 10 ms or so, by one thread. */
void load_follow(struct server *server);
/* "TEXT application_utilization=0.5, ..." or "JSON {...}": the value of the header endpoint-load-metrics. */
void load_report(const struct server *server, bool json, char out[LOAD_BYTES]);
#endif
