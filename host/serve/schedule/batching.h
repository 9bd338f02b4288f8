/* serve/schedule/batching.h - dynamic batching: which requests form a batch, and how long they wait for each other.
 * Called under the scheduler's lock. */
#ifndef SERVE_BATCHING_H
#define SERVE_BATCHING_H
#include "serve/model/model.h"

/* Time from which the requests in the model's queue may run: 0 = now. Requests wait only if they can still meet their
 * deadline or the target p99. */
uint64_t batching_ready_at(const struct model *model);
/* Whether two requests can be batched: equal shapes except for their rows and for the padded axis. */
bool batching_fits(const struct job *first, const struct job *second);
/* Best number of rows of a batch with this request: fewer than usual if the request would be late. */
uint64_t batching_rows(const struct job *job, uint64_t now);
#endif
