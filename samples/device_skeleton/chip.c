/* See chip.h. This file does not depend on inlay. */
#include "chip.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Added to addresses, so that reading device memory as host memory crashes. */
#define WINDOW (UINT64_C(1) << 62)
enum { WORK_BETWEEN_STOPS = 1 << 20 }; /* multiplications, about a millisecond */

struct queue {
    struct chip *chip;
    pthread_t thread;
    chip_job *first, *last;
    bool busy;
};

struct chip {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct queue queues[CHIP_QUEUES];
    uint32_t thread_count;
    uint64_t used_bytes, memory_bytes;
    int64_t lose_after;
    bool closing, lost;
};

/* Precedes each buffer. */
struct header {
    uint64_t bytes;
};

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)(address >= WINDOW ? address - WINDOW : address);
}

uint64_t chip_alloc(struct chip *chip, uint64_t bytes)
{
    const uint64_t rounded = (bytes + CHIP_ALIGNMENT - 1) / CHIP_ALIGNMENT * CHIP_ALIGNMENT;
    char *memory = NULL;

    (void)pthread_mutex_lock(&chip->mutex);
    if (rounded >= bytes && rounded <= chip->memory_bytes - chip->used_bytes)
        memory = aligned_alloc(CHIP_ALIGNMENT, (size_t)rounded + CHIP_ALIGNMENT);
    if (memory != NULL)
        chip->used_bytes += rounded;
    (void)pthread_mutex_unlock(&chip->mutex);
    if (memory == NULL)
        return 0;
    ((struct header *)(void *)memory)->bytes = rounded;
    return WINDOW + (uintptr_t)memory + CHIP_ALIGNMENT;
}

void chip_free(struct chip *chip, uint64_t address)
{
    char *memory = (char *)at(address) - CHIP_ALIGNMENT;

    (void)pthread_mutex_lock(&chip->mutex);
    chip->used_bytes -= ((struct header *)(void *)memory)->bytes;
    (void)pthread_mutex_unlock(&chip->mutex);
    free(memory);
}

void chip_write(struct chip *chip, uint64_t address, const void *data, uint64_t bytes)
{
    (void)chip;
    if (bytes > 0)
        memcpy(at(address), data, bytes);
}

static bool multiply(chip_job *job, const chip_op *op, const float *a, const float *b, float *y)
{
    int64_t done = 0;

    for (int64_t i = 0; i < op->m; i++, y += op->n, a += op->k) {
        memset(y, 0, (size_t)op->n * sizeof *y);
        for (int64_t inner = 0; inner < op->k; inner++) {
            for (int64_t j = 0; j < op->n; j++)
                y[j] += a[inner] * b[inner * op->n + j];
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
static bool is_lost(struct chip *chip)
{
    bool lost;

    (void)pthread_mutex_lock(&chip->mutex);
    if (chip->lose_after > 0 && --chip->lose_after == 0)
        chip->lost = true;
    lost = chip->lost;
    (void)pthread_mutex_unlock(&chip->mutex);
    return lost;
}

static void run_job(struct chip *chip, chip_job *job)
{
    chip_result result = CHIP_DONE;

    if (!job->ready(job))
        result = CHIP_STOPPED;
    else if (is_lost(chip))
        result = CHIP_LOST;
    for (uint32_t i = 0; result == CHIP_DONE && i < job->copy_count; i++)
        if (job->bytes[i] > 0)
            memcpy(at(job->bound[2 * i + 1]), at(job->bound[2 * i]), job->bytes[i]);
    for (uint32_t i = 0; result == CHIP_DONE && i < job->op_count; i++)
        if (job->stop(job) || !run_op(job, &job->ops[i]))
            result = CHIP_STOPPED;
    job->end(job, result);
}

static void *work(void *arg)
{
    struct queue *queue = arg;
    struct chip *chip = queue->chip;

    (void)pthread_mutex_lock(&chip->mutex);
    while (!chip->closing || queue->first != NULL) {
        chip_job *job = queue->first;

        if (job == NULL) {
            (void)pthread_cond_wait(&chip->changed, &chip->mutex);
            continue;
        }
        queue->first = job->next;
        queue->busy = true;
        (void)pthread_mutex_unlock(&chip->mutex);
        run_job(chip, job);
        (void)pthread_mutex_lock(&chip->mutex);
        queue->busy = false;
        (void)pthread_cond_broadcast(&chip->changed);
    }
    (void)pthread_mutex_unlock(&chip->mutex);
    return NULL;
}

void chip_submit(struct chip *chip, chip_queue which, chip_job *job)
{
    struct queue *queue = &chip->queues[which];

    job->next = NULL;
    (void)pthread_mutex_lock(&chip->mutex);
    if (queue->first != NULL)
        queue->last->next = job;
    else
        queue->first = job;
    queue->last = job;
    (void)pthread_cond_broadcast(&chip->changed);
    (void)pthread_mutex_unlock(&chip->mutex);
}

static bool is_idle(const struct chip *chip)
{
    bool idle = true;

    for (int i = 0; i < CHIP_QUEUES; i++)
        idle = idle && chip->queues[i].first == NULL && !chip->queues[i].busy;
    return idle;
}

void chip_drain(struct chip *chip)
{
    (void)pthread_mutex_lock(&chip->mutex);
    while (!is_idle(chip))
        (void)pthread_cond_wait(&chip->changed, &chip->mutex);
    (void)pthread_mutex_unlock(&chip->mutex);
}

struct chip *chip_open(uint64_t memory_bytes, int64_t lose_after)
{
    struct chip *chip = calloc(1, sizeof *chip);

    if (chip == NULL)
        return NULL;
    chip->memory_bytes = memory_bytes;
    chip->lose_after = lose_after;
    (void)pthread_mutex_init(&chip->mutex, NULL);
    (void)pthread_cond_init(&chip->changed, NULL);
    for (; chip->thread_count < CHIP_QUEUES; chip->thread_count++) {
        struct queue *queue = &chip->queues[chip->thread_count];

        queue->chip = chip;
        if (pthread_create(&queue->thread, NULL, work, queue) != 0) {
            chip_close(chip);
            return NULL;
        }
    }
    return chip;
}

void chip_close(struct chip *chip)
{
    (void)pthread_mutex_lock(&chip->mutex);
    chip->closing = true;
    (void)pthread_cond_broadcast(&chip->changed);
    (void)pthread_mutex_unlock(&chip->mutex);
    for (uint32_t i = 0; i < chip->thread_count; i++)
        (void)pthread_join(chip->queues[i].thread, NULL);
    (void)pthread_cond_destroy(&chip->changed);
    (void)pthread_mutex_destroy(&chip->mutex);
    free(chip);
}
