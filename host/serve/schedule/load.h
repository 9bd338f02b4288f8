/* serve/schedule/load.h - load reports for load balancers: ORCA's per-request reports. */
#ifndef SERVE_LOAD_H
#define SERVE_LOAD_H
#include <stdbool.h>
#include <stddef.h>

struct server;
enum { LOAD_BYTES = 160 };

/* Samples the active runs and the requests. One thread calls it about every 10 ms. */
void load_sample(struct server *server);
/* "TEXT application_utilization=0.5, ..." or "JSON {...}": the value of the header endpoint-load-metrics. */
void load_report(const struct server *server, bool json, char out[LOAD_BYTES]);
#endif
