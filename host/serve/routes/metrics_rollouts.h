/* serve/routes/metrics_rollouts.h - the rollouts in the reply of GET /metrics. */
#ifndef SERVE_METRICS_ROLLOUTS_H
#define SERVE_METRICS_ROLLOUTS_H
#include "base/strbuf.h"
#include "serve/base/board.h"

/* Writes the series of the last rollout of each model; none if there was no rollout. */
void metrics_write_rollouts(struct strbuf *to, struct board *board);
#endif
