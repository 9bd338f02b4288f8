#include "serve/queue.h"
#include "serve/sequence.h"

static void list_model(struct queues *all, struct model *model)
{
    uint64_t least = UINT64_MAX;

    if (model->queue.listed)
        return;
    /* Who had nothing to do has saved nothing up: it starts level with those that are waiting. */
    for (const struct model *other = all->models; other != NULL; other = other->queue.next)
        least = other->queue.used_ns < least ? other->queue.used_ns : least;
    if (least != UINT64_MAX && model->queue.used_ns < least)
        model->queue.used_ns = least;
    model->queue.listed = true;
    model->queue.next = all->models;
    all->models = model;
}

static void unlist_model(struct queues *all, struct model *model)
{
    struct model **at = &all->models;

    while (*at != model)
        at = &(*at)->queue.next;
    *at = model->queue.next;
    model->queue.listed = false;
}

void queues_push(struct queues *all, struct job *job)
{
    job_queue *queue = &job->model->queue;
    uint32_t level = job->level - 1;

    job->next = NULL;
    if (queue->last[level] != NULL)
        queue->last[level]->next = job;
    else
        queue->first[level] = job;
    queue->last[level] = job;
    queue->count++;
    all->count++;
    queue->rows += job->rows;
    job->queued = true;
    list_model(all, job->model);
}

void queues_take(struct queues *all, struct job *job, struct job *before)
{
    job_queue *queue = &job->model->queue;
    uint32_t level = job->level - 1;

    if (before != NULL)
        before->next = job->next;
    else
        queue->first[level] = job->next;
    if (queue->last[level] == job)
        queue->last[level] = before;
    queue->count--;
    all->count--;
    queue->rows -= job->rows;
    job->queued = false;
    job->next = NULL;
    if (queue->count == 0)
        unlist_model(all, job->model);
}

struct job *queue_first(const struct model *model)
{
    for (uint32_t level = 0; level < PRIORITY_LEVELS; level++)
        if (model->queue.first[level] != NULL)
            return model->queue.first[level];
    return NULL;
}

void queues_hold(struct queues *all, struct job *job)
{
    struct sequence *sequence = job->sequence;

    job->next = NULL;
    if (sequence->last != NULL)
        sequence->last->next = job;
    else
        sequence->first = job;
    sequence->last = job;
    job->held = true;
    job->next_held = all->held;
    all->held = job;
    job->model->queue.held++;
}

void queues_unhold(struct queues *all, struct job *job)
{
    struct sequence *sequence = job->sequence;
    struct job *before = NULL, **at = &all->held;

    for (struct job *k = sequence->first; k != job; k = k->next)
        before = k;
    if (before != NULL)
        before->next = job->next;
    else
        sequence->first = job->next;
    if (sequence->last == job)
        sequence->last = before;
    while (*at != job)
        at = &(*at)->next_held;
    *at = job->next_held;
    job->held = false;
    job->model->queue.held--;
}

void queues_advance(struct queues *all, struct sequence *sequence)
{
    struct job *job = sequence != NULL ? sequence->first : NULL;

    if (sequence == NULL)
        return;
    sequence->busy = job != NULL;
    if (job == NULL)
        return;
    queues_unhold(all, job);
    queues_push(all, job);
}
