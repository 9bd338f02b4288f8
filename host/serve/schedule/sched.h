/* serve/schedule/sched.h - schedules requests: bounded queues, dynamic batching, fairness among models.
 *
 * Runs happen on `runners` threads, which also limits the concurrent runs of all models. If a model's runs are short
 * and no request waits, sched_submit() runs the request itself: a change of thread would take longer than the run.
 *
 * Of the models that have a request and an idle instance, the next model is the one whose first request has the best
 * level; among models of the same level, the one with the least run time so far. If all runners have been busy with
 * their runs for some milliseconds, a model that has requests and no run gets an extra thread, so that the long runs of
 * one model do not stop the others. There are at most as many extra threads as runners. A model with dynamic batching
 * waits until it has the best batch size, or until its first request has waited for batch_delay_us. */
#ifndef SERVE_SCHED_H
#define SERVE_SCHED_H
#include "serve/model/model.h"

struct sched;

/* Called around a run on the thread that received the request: lend() before it, since it may take longer than
 * expected; take_back() after it, unless lend() returned false. */
typedef struct sched_lending {
    bool (*lend)(void);
    void (*take_back)(void);
} sched_lending;
INLAY_NODISCARD inlay_status sched_create(uint32_t runners, sched_lending lending, struct sched **out_sched,
                                          inlay_diag *diag);
/* All queues must be empty. NULL is a no-op. */
void sched_destroy(struct sched *sched);

typedef enum sched_result {
    SCHED_DONE,   /* ran here; the job is finished */
    SCHED_QUEUED, /* another thread will call finish, or has called it already */
    SCHED_FULL    /* the queue of the model is full; the caller keeps the job */
} sched_result;
/* suspend(user) is called before the job can be finished by another thread. */
sched_result sched_submit(struct sched *sched, struct job *job, void (*suspend)(void *user), void *user);

/* A job whose results no client gets. It runs alone, on a separate thread, and begins only while no request waits and a
 * runner is idle. No request waits for the end of its run, unless it needs its instance. As soon as requests need all
 * runners, or its instance, the run is asked to stop, which fails the job with INLAY_BUSY. Its deadline limits its
 * wait, not its run.
 * false: requests wait, or many such jobs; the caller keeps the job. Otherwise finish is called on the separate thread,
 * or by sched_expire(), sched_end() or sched_destroy(). */
bool sched_submit_spare(struct sched *sched, struct job *job);
/* Whether sched_submit_spare() would take a job now. */
bool sched_has_room(struct sched *sched);
/* Whether a job of sched_submit_spare() runs; then sched_destroy() waits for the end of its run. */
bool sched_is_spare_running(struct sched *sched);

/* The client no longer waits for the job, which must not be finished yet. true: it was removed from the queue, and the
 * caller owns it again. false: it runs or is about to; the run is asked to stop, and finish will be called. */
bool sched_cancel(struct sched *sched, struct job *job);
/* Trims the idle instances of the model, see instance_trim(). */
void sched_trim(struct sched *sched, struct model *model);
/* Finishes requests whose deadline passed while they waited. */
void sched_expire(struct sched *sched);
/* The server ends: finishes the requests that wait with INLAY_BUSY, and asks all runs, and those that begin later, to
 * stop, which fails their requests in the same way. */
void sched_end(struct sched *sched);

uint32_t sched_queued(struct sched *sched, const struct model *model);
/* Best batch size, as measured; 0 = unknown. */
uint32_t sched_best_rows(struct sched *sched, const struct model *model);
/* Runs that have not ended some seconds after their deadline, or after they were asked to stop. */
uint32_t sched_stuck(struct sched *sched);
/* Runs on extra threads. */
uint32_t sched_extra(struct sched *sched);
/* Runs of requests on runners. */
uint32_t sched_running(struct sched *sched);
/* Estimated seconds until a full queue has room again; at least 1. */
uint32_t sched_retry_after(struct sched *sched, const struct model *model);
#endif
