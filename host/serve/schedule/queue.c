#include "serve/schedule/queue.h"
#include "serve/model/sequence.h"
#include "inlay/check.h"

static void list_model(struct queues *all, struct model *model)
{
    uint64_t least = UINT64_MAX;

    if (model->queue.listed)
        return;
    /* An idle model has no credit: it starts with the least used time of the models that have requests. */
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

    INLAY_CHECK(model->queue.listed);
    while (*at != model)
        at = &(*at)->queue.next;
    *at = model->queue.next;
    model->queue.listed = false;
}

void queues_push(struct queues *all, struct job *job)
{
    job_queue *queue = &job->model->queue;
    uint32_t level = job->level - 1;

    INLAY_CHECK(job->level >= 1 && job->level <= PRIORITY_LEVELS && !job->queued);
    job->next = NULL;
    if (queue->last[level] != NULL)
        queue->last[level]->next = job;
    else
        queue->first[level] = job;
    queue->last[level] = job;
    queue->count++;
    all->count++;
    queue->rows += job->size.rows;
    job->queued = true;
    list_model(all, job->model);
}

void queues_take(struct queues *all, struct job *job, struct job *before)
{
    job_queue *queue = &job->model->queue;
    uint32_t level = job->level - 1;

    INLAY_CHECK(job->queued && queue->count > 0 && all->count > 0 && queue->rows >= job->size.rows);
    INLAY_CHECK(before == NULL ? queue->first[level] == job : before->next == job);
    if (before != NULL)
        before->next = job->next;
    else
        queue->first[level] = job->next;
    if (queue->last[level] == job)
        queue->last[level] = before;
    queue->count--;
    all->count--;
    queue->rows -= job->size.rows;
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

    INLAY_CHECK(!job->held && !job->queued);
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

    INLAY_CHECK(job->held && job->model->queue.held > 0);
    for (struct job *other = sequence->first; other != job; other = other->next)
        before = other;
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
