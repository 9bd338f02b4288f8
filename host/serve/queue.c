#include "serve/queue.h"
#include "serve/sequence.h"

static void list_model(struct queues *all, struct model *m)
{
    uint64_t least = UINT64_MAX;

    if (m->queue.listed)
        return;
    /* Who had nothing to do has saved nothing up: it starts level with those that are waiting. */
    for (const struct model *other = all->models; other != NULL; other = other->queue.next)
        least = other->queue.used_ns < least ? other->queue.used_ns : least;
    if (least != UINT64_MAX && m->queue.used_ns < least)
        m->queue.used_ns = least;
    m->queue.listed = true;
    m->queue.next = all->models;
    all->models = m;
}

static void unlist_model(struct queues *all, struct model *m)
{
    struct model **at = &all->models;

    while (*at != m)
        at = &(*at)->queue.next;
    *at = m->queue.next;
    m->queue.listed = false;
}

void queues_push(struct queues *all, struct job *j)
{
    job_queue *q = &j->model->queue;
    uint32_t level = j->level - 1;

    j->next = NULL;
    if (q->last[level] != NULL)
        q->last[level]->next = j;
    else
        q->first[level] = j;
    q->last[level] = j;
    q->count++;
    all->count++;
    q->rows += j->rows;
    j->queued = true;
    list_model(all, j->model);
}

void queues_take(struct queues *all, struct job *j, struct job *before)
{
    job_queue *q = &j->model->queue;
    uint32_t level = j->level - 1;

    if (before != NULL)
        before->next = j->next;
    else
        q->first[level] = j->next;
    if (q->last[level] == j)
        q->last[level] = before;
    q->count--;
    all->count--;
    q->rows -= j->rows;
    j->queued = false;
    j->next = NULL;
    if (q->count == 0)
        unlist_model(all, j->model);
}

struct job *queue_first(const struct model *m)
{
    for (uint32_t level = 0; level < PRIORITY_LEVELS; level++)
        if (m->queue.first[level] != NULL)
            return m->queue.first[level];
    return NULL;
}

void queues_hold(struct queues *all, struct job *j)
{
    struct sequence *q = j->sequence;

    j->next = NULL;
    if (q->last != NULL)
        q->last->next = j;
    else
        q->first = j;
    q->last = j;
    j->held = true;
    j->next_held = all->held;
    all->held = j;
    j->model->queue.held++;
}

void queues_unhold(struct queues *all, struct job *j)
{
    struct sequence *q = j->sequence;
    struct job *before = NULL, **at = &all->held;

    for (struct job *k = q->first; k != j; k = k->next)
        before = k;
    if (before != NULL)
        before->next = j->next;
    else
        q->first = j->next;
    if (q->last == j)
        q->last = before;
    while (*at != j)
        at = &(*at)->next_held;
    *at = j->next_held;
    j->held = false;
    j->model->queue.held--;
}

void queues_advance(struct queues *all, struct sequence *s)
{
    struct job *j = s != NULL ? s->first : NULL;

    if (s == NULL)
        return;
    s->busy = j != NULL;
    if (j == NULL)
        return;
    queues_unhold(all, j);
    queues_push(all, j);
}
