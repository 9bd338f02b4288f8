/* serve/sched.h - which request runs when: bounded queues, requests joined into runs, fairness among models.
 *
 * Runs happen on `runners` threads, at most so many at once over all models, and in sched_submit() itself where a model
 * is quick and nothing waits: a change of thread would take longer than the run.
 *
 * Of the models that have a request and an idle instance, the next is the one whose first request has the best level,
 * and among those the one whose runs have taken the least time so far. A model that joins requests waits until it has
 * max_batch rows, or until its first request is batch_delay_us old. */
#ifndef SERVE_SCHED_H
#define SERVE_SCHED_H
#include "serve/model.h"

struct sched;

INLAY_NODISCARD inlay_status sched_create(uint32_t runners, struct sched **out_sched, inlay_diag *diag);
/* All queues must be empty. NULL is a no-op. */
void sched_destroy(struct sched *sched);

typedef enum sched_answer {
    SCHED_DONE,   /* ran here; the job is finished */
    SCHED_QUEUED, /* finish will be called by another thread, perhaps already was */
    SCHED_FULL    /* the queue of the model is full; the job is the caller's */
} sched_answer;
/* suspend(user) is called before the job can be finished by another thread. */
sched_answer sched_submit(struct sched *sched, struct job *job, void (*suspend)(void *user), void *user);

/* Nobody wants the job any more; it must not be finished yet. true: it was taken from the queue and is the caller's
 * again. false: it runs, or is about to; its run is told to stop, and finish will be called. */
bool sched_cancel(struct sched *sched, struct job *job);
/* Finishes requests whose time was up while they waited. */
void sched_expire(struct sched *sched);

uint32_t sched_queued(struct sched *sched, const struct model *model);
/* Rows that are worth joining, as measured; 0 = not known. */
uint32_t sched_best_rows(struct sched *sched, const struct model *model);
uint32_t sched_running(struct sched *sched);
/* Seconds until a full queue will have room again, as far as that is known; at least 1. */
uint32_t sched_retry_after(struct sched *sched, const struct model *model);
#endif
