/* See chip.h. This file does not depend on inlay. */
#include "chip.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Added to addresses, so that reading device memory as host memory crashes. */
#define WINDOW (UINT64_C(1) << 62)
enum { WORK_BETWEEN_STOPS = 1 << 20 }; /* multiplications, about a millisecond */

typedef struct queue {
    chip *chip;
    pthread_t thread;
    chip_job *first, *last;
    bool busy;
} queue;

struct chip {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    queue queues[CHIP_QUEUES];
    uint32_t thread_count;
    uint64_t used_bytes, memory_bytes;
    int64_t lose_after;
    bool closing, lost;
};

/* ------------------------------------------------------------------ memory */

/* Precedes each buffer. */
typedef struct header {
    uint64_t bytes;
} header;

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)(address >= WINDOW ? address - WINDOW : address);
}

uint64_t chip_alloc(chip *c, uint64_t bytes)
{
    const uint64_t rounded = (bytes + CHIP_ALIGNMENT - 1) / CHIP_ALIGNMENT * CHIP_ALIGNMENT;
    char *memory = NULL;

    (void)pthread_mutex_lock(&c->mutex);
    if (rounded >= bytes && rounded <= c->memory_bytes - c->used_bytes)
        memory = aligned_alloc(CHIP_ALIGNMENT, (size_t)rounded + CHIP_ALIGNMENT);
    if (memory != NULL)
        c->used_bytes += rounded;
    (void)pthread_mutex_unlock(&c->mutex);
    if (memory == NULL)
        return 0;
    ((header *)(void *)memory)->bytes = rounded;
    return WINDOW + (uintptr_t)memory + CHIP_ALIGNMENT;
}

void chip_free(chip *c, uint64_t address)
{
    char *memory = (char *)at(address) - CHIP_ALIGNMENT;

    (void)pthread_mutex_lock(&c->mutex);
    c->used_bytes -= ((header *)(void *)memory)->bytes;
    (void)pthread_mutex_unlock(&c->mutex);
    free(memory);
}

void chip_write(chip *c, uint64_t address, const void *data, uint64_t bytes)
{
    (void)c;
    if (bytes > 0)
        memcpy(at(address), data, bytes);
}

/* ------------------------------------------------------------------ work */

static bool multiply(chip_job *job, const chip_op *op, const float *a, const float *b, float *y)
{
    int64_t done = 0;

    for (int64_t i = 0; i < op->m; i++, y += op->n, a += op->k) {
        memset(y, 0, (size_t)op->n * sizeof *y);
        for (int64_t p = 0; p < op->k; p++) {
            for (int64_t j = 0; j < op->n; j++)
                y[j] += a[p] * b[p * op->n + j];
            done += op->n;
            if (done >= WORK_BETWEEN_STOPS) {
                if (job->stop(job))
                    return false;
                done = 0;
            }
        }
    }
    return true;
}

static void clip(const chip_job *job, const chip_op *op, const float *a, float *y)
{
    for (int64_t i = 0; i < op->n; i++)
        y[i] = a[i];
    for (int upper = 0; upper < 2; upper++) {
        const uint32_t which = upper != 0 ? op->high : op->low;
        float bound;

        if (which == CHIP_MOST_BOUND)
            continue;
        memcpy(&bound, at(job->bound[which]), sizeof bound); /* may be misaligned in host memory */
        for (int64_t i = 0; i < op->n; i++)
            y[i] = upper != 0 ? (y[i] > bound ? bound : y[i]) : (y[i] < bound ? bound : y[i]);
    }
}

static bool run_op(chip_job *job, const chip_op *op)
{
    const float *a = at(job->bound[op->a]), *b = at(job->bound[op->b]);
    float *y = at(job->bound[op->y]);

    switch (op->kind) {
    case CHIP_ADD:
        for (int64_t i = 0; i < op->n; i++)
            y[i] = a[i] + b[i];
        break;
    case CHIP_MUL:
        for (int64_t i = 0; i < op->n; i++)
            y[i] = a[i] * b[i];
        break;
    case CHIP_RELU:
        for (int64_t i = 0; i < op->n; i++)
            y[i] = a[i] < 0 ? 0 : a[i];
        break;
    case CHIP_CLIP:
        clip(job, op, a, y);
        break;
    default:
        return multiply(job, op, a, b, y);
    }
    return true;
}

/* Counts the job; true if the chip has failed. */
static bool is_lost(chip *c)
{
    bool lost;

    (void)pthread_mutex_lock(&c->mutex);
    if (c->lose_after > 0 && --c->lose_after == 0)
        c->lost = true;
    lost = c->lost;
    (void)pthread_mutex_unlock(&c->mutex);
    return lost;
}

static void run_job(chip *c, chip_job *job)
{
    chip_result result = CHIP_DONE;

    if (!job->ready(job))
        result = CHIP_STOPPED;
    else if (is_lost(c))
        result = CHIP_LOST;
    else if (job->op_count == 0 && job->bytes > 0)
        memcpy(at(job->bound[1]), at(job->bound[0]), job->bytes);
    for (uint32_t i = 0; result == CHIP_DONE && i < job->op_count; i++)
        if (job->stop(job) || !run_op(job, &job->ops[i]))
            result = CHIP_STOPPED;
    job->end(job, result);
}

/* ------------------------------------------------------------------ queues */

static void *work(void *arg)
{
    queue *q = arg;
    chip *c = q->chip;

    (void)pthread_mutex_lock(&c->mutex);
    while (!c->closing || q->first != NULL) {
        chip_job *job = q->first;

        if (job == NULL) {
            (void)pthread_cond_wait(&c->changed, &c->mutex);
            continue;
        }
        q->first = job->next;
        q->busy = true;
        (void)pthread_mutex_unlock(&c->mutex);
        run_job(c, job);
        (void)pthread_mutex_lock(&c->mutex);
        q->busy = false;
        (void)pthread_cond_broadcast(&c->changed);
    }
    (void)pthread_mutex_unlock(&c->mutex);
    return NULL;
}

void chip_submit(chip *c, chip_queue which, chip_job *job)
{
    queue *q = &c->queues[which];

    job->next = NULL;
    (void)pthread_mutex_lock(&c->mutex);
    if (q->first != NULL)
        q->last->next = job;
    else
        q->first = job;
    q->last = job;
    (void)pthread_cond_broadcast(&c->changed);
    (void)pthread_mutex_unlock(&c->mutex);
}

static bool is_idle(const chip *c)
{
    bool idle = true;

    for (int i = 0; i < CHIP_QUEUES; i++)
        idle = idle && c->queues[i].first == NULL && !c->queues[i].busy;
    return idle;
}

void chip_drain(chip *c)
{
    (void)pthread_mutex_lock(&c->mutex);
    while (!is_idle(c))
        (void)pthread_cond_wait(&c->changed, &c->mutex);
    (void)pthread_mutex_unlock(&c->mutex);
}

chip *chip_open(uint64_t memory_bytes, int64_t lose_after)
{
    chip *c = calloc(1, sizeof *c);

    if (c == NULL)
        return NULL;
    c->memory_bytes = memory_bytes;
    c->lose_after = lose_after;
    (void)pthread_mutex_init(&c->mutex, NULL);
    (void)pthread_cond_init(&c->changed, NULL);
    for (; c->thread_count < CHIP_QUEUES; c->thread_count++) {
        queue *q = &c->queues[c->thread_count];

        q->chip = c;
        if (pthread_create(&q->thread, NULL, work, q) != 0) {
            chip_close(c);
            return NULL;
        }
    }
    return c;
}

void chip_close(chip *c)
{
    (void)pthread_mutex_lock(&c->mutex);
    c->closing = true;
    (void)pthread_cond_broadcast(&c->changed);
    (void)pthread_mutex_unlock(&c->mutex);
    for (uint32_t i = 0; i < c->thread_count; i++)
        (void)pthread_join(c->queues[i].thread, NULL);
    (void)pthread_cond_destroy(&c->changed);
    (void)pthread_mutex_destroy(&c->mutex);
    free(c);
}
