/* serve/rollout/trial.h - a request that runs on both versions of a rollout: one run answers the client; when the reply
 * is written, a copy of the request is made, which runs on the other version, and the outputs are compared.
 *
 * In the order of a request's life: trial_choose(), trial_check(), trial_submit(); from finish() either trial_retry()
 * or trial_keep(); trial_end(). Each does nothing for a job without a trial, except what its name says. The memory of
 * copies is limited (server_hold_copy()); a copy waits a second at most, and is dropped if other requests wait. */
#ifndef SERVE_TRIAL_H
#define SERVE_TRIAL_H
#include "serve/base/server.h"
#include "serve/schedule/sched.h"

/* Counts a request that names no version. If the rollout of job->model chooses the request, sets job->trial, and for
 * rollout canary also sets job->model to the candidate. A request of a sequence is never chosen. */
void trial_choose(struct server *server, struct job *job);
/* model_check(). A request that only the stable version accepts gets that one. */
INLAY_NODISCARD inlay_status trial_check(struct job *job, inlay_diag *diag);
/* sched_submit(). If the queue of the candidate is full, the stable version gets the request. */
sched_result trial_submit(struct server *server, struct job *job, void (*suspend)(void *user), void *user);
/* Whether the run failed on a candidate, and the stable version should answer; then trial_retry() submits the job
 * again.
 * false: it cannot, and the caller reports the failure. */
bool trial_can_retry(const struct job *job, const inlay_diag *failure);
bool trial_retry(struct server *server, struct job *job, const inlay_diag *failure, void (*suspend)(void *user),
                 void *user);
/* The run has failed, or has these outputs: keeps what the comparison needs. */
void trial_keep(struct job *job, const inlay_diag *failure, const infer_output *outputs, uint32_t output_count);
/* Called once the reply is written, or if there will be no reply: submits the copy of the request, or counts why there
 * is no copy, and takes the trial from the job. */
void trial_end(struct job *job);
#endif
