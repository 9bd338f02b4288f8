/* serve/schedule/collector.h - the collector of trace_endpoint: messages are posted to it over HTTP/1.1, with TLS if
 * its URL begins with https. Used by one thread. */
#ifndef SERVE_COLLECTOR_H
#define SERVE_COLLECTOR_H
#include "base/strbuf.h"
#include "inlay/status.h"
#include <stdbool.h>

enum { COLLECTOR_WHY_BYTES = 300 };

struct collector;

/* endpoint: http[s]://HOST[:PORT][/PATH]. ca: PEM file of the authorities of its certificate, "" = those of the
 * system. */
INLAY_NODISCARD inlay_status collector_create(const char *endpoint, const char *ca, struct collector **out_collector,
                                              inlay_diag *diag);
void collector_destroy(struct collector *collector); /* NULL is a no-op */
/* The URL, complete with port and path. */
const char *collector_url(const struct collector *collector);
/* Posts JSON. false: the collector has not taken it, for the reason in `why`. */
bool collector_post(const struct collector *collector, const struct strbuf *message, char why[COLLECTOR_WHY_BYTES]);
#endif
