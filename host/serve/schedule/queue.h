/* serve/schedule/queue.h - waiting requests: a list for each model, by level and arrival, and a list of requests that
 * wait for an earlier request of their sequence. Guarded by the scheduler's lock. */
#ifndef SERVE_QUEUE_H
#define SERVE_QUEUE_H
#include "serve/model/model.h"

struct queues {
    struct model *models; /* models with requests, linked by queue.next */
    uint32_t count;       /* requests of these models */
    struct job *held;     /* requests that wait for their sequence, linked by next_held */
};

/* Appends a request to its level. */
void queues_push(struct queues *all, struct job *job);
/* Removes a request; before: the request in front of it, NULL = the request is the first of its level. */
void queues_take(struct queues *all, struct job *job, struct job *before);
/* The model's next request, by level and arrival; NULL: none. */
struct job *queue_first(const struct model *model);
/* Appends a request to those that wait for an earlier request of the same sequence. */
void queues_hold(struct queues *all, struct job *job);
/* Removes such a request. */
void queues_unhold(struct queues *all, struct job *job);
/* A request of the sequence has ended: queues the next one. sequence may be NULL. */
void queues_advance(struct queues *all, struct sequence *sequence);
#endif
