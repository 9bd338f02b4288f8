/* serve/queue.h - requests that wait: those of each model by level and arrival, and those behind others of their
 * sequence. All under the scheduler's lock. */
#ifndef SERVE_QUEUE_H
#define SERVE_QUEUE_H
#include "serve/model.h"

typedef struct queues {
    model *models;  /* that have requests, by queue.next */
    uint32_t count; /* of these requests */
    job *held;      /* behind others of their sequence, by next_held */
} queues;

/* Behind the others of its level. */
void queues_push(queues *all, job *j);
/* Takes a request out; before is the one in front of it, NULL = it is the first of its level. */
void queues_take(queues *all, job *j, job *before);
/* The model's next request, by level and arrival; NULL: it has none. */
job *queue_first(const model *m);
/* Puts a request behind the others of its sequence, and takes it from there. */
void queues_hold(queues *all, job *j);
void queues_unhold(queues *all, job *j);
/* A request of the sequence is over: the next may run. sequence may be NULL. */
void queues_advance(queues *all, sequence *s);
#endif
