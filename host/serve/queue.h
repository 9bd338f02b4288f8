/* serve/queue.h - requests that wait: those of each model by level and arrival, and those behind others of their
 * sequence. All under the scheduler's lock. */
#ifndef SERVE_QUEUE_H
#define SERVE_QUEUE_H
#include "serve/model.h"

struct queues {
    struct model *models; /* that have requests, by queue.next */
    uint32_t count;       /* of these requests */
    struct job *held;     /* behind others of their sequence, by next_held */
};

/* Behind the others of its level. */
void queues_push(struct queues *all, struct job *job);
/* Takes a request out; before is the one in front of it, NULL = it is the first of its level. */
void queues_take(struct queues *all, struct job *job, struct job *before);
/* The model's next request, by level and arrival; NULL: it has none. */
struct job *queue_first(const struct model *model);
/* Puts a request behind the others of its sequence, and takes it from there. */
void queues_hold(struct queues *all, struct job *job);
void queues_unhold(struct queues *all, struct job *job);
/* A request of the sequence is over: the next may run. sequence may be NULL. */
void queues_advance(struct queues *all, struct sequence *sequence);
#endif
