/* serve/schedule/otlp.h - exports the times of sampled requests as spans of OpenTelemetry: OTLP over HTTP, as JSON.
 *
 * A request has a span "infer MODEL"; its parent is the span that the client's traceparent names. Below it are the
 * spans "receive", "queue" and "run". Below "run" is a span for each region, and below that a span for each kernel, if
 * the library knows them. Measuring regions and kernels takes several times as long as a run of a small model, so after
 * the first 256 runs only one run a second is measured. A request only writes a record to a queue of fixed size, which
 * a thread sends. A full queue drops the record, and a batch that the collector does not take is not sent again. */
#ifndef SERVE_OTLP_H
#define SERVE_OTLP_H
#include "serve/model/model.h"

struct otlp;

/* endpoint, ca: see collector_create(); endpoint "": *out_otlp is NULL, nothing is exported. sample: one in this many
 * requests is exported. counts: of this process; borrowed. */
INLAY_NODISCARD inlay_status otlp_create(const char *endpoint, const char *ca, uint32_t sample, board_counts *counts,
                                         struct otlp **out_otlp, inlay_diag *diag);
/* Sends the records in the queue, unless the collector does not answer, and ends the thread. NULL is a no-op. */
void otlp_destroy(struct otlp *otlp);
/* Decides whether a request is exported (job->sampled), and whether its run is profiled, before it is queued.
 * traceparent: that of the client, NULL or "" = none; if its sampled flag is off, the request is not exported. otlp
 * NULL is a no-op. Any thread. */
void otlp_sample(struct otlp *otlp, struct job *job, const char *traceparent);
/* A request has been answered. failure: NULL = none. Takes job->run.profile. otlp NULL is a no-op. Any thread. */
void otlp_add(struct otlp *otlp, struct job *job, const char *traceparent, uint64_t answered_ns,
              const inlay_diag *failure);
#endif
