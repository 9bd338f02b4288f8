/* serve/join.h - which requests are joined into one run, and how long they wait for one another. Called under the
 * scheduler's lock. */
#ifndef SERVE_JOIN_H
#define SERVE_JOIN_H
#include "serve/model.h"

/* When the requests in the model's queue may run: 0 = now. None waits for others so long that its run would be late. */
uint64_t join_ready_at(const struct model *model);
/* Whether two requests differ in nothing but their rows, and in the length of what is padded. */
bool join_fits(const struct job *a, const struct job *b);
/* Rows that are worth joining to the request: fewer than usual where it would be late. */
uint64_t join_rows(const struct job *job, uint64_t now);
#endif
