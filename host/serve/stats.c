#include "serve/stats.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

const uint64_t stats_bounds_ns[STATS_BUCKETS] = { 25 * US,   50 * US,  100 * US,  250 * US,  500 * US,  1 * MS,
                                                  2500 * US, 5 * MS,   10 * MS,   25 * MS,   50 * MS,   100 * MS,
                                                  250 * MS,  500 * MS, 1000 * MS, 2500 * MS, 5000 * MS, 10000 * MS };

static void add(atomic_uint_fast64_t *to, uint64_t n)
{
    (void)atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

void stats_add_time(stats_time *t, uint64_t ns)
{
    uint32_t i = 0;

    while (i < STATS_BUCKETS && ns > stats_bounds_ns[i])
        i++;
    add(&t->buckets[i], 1);
    add(&t->count, 1);
    add(&t->ns, ns);
}

void stats_add_request(model_stats *s, uint64_t ns, uint64_t target_us)
{
    stats_add_time(&s->request, ns);
    if (target_us > 0 && ns / US >= target_us)
        add(&s->over_target, 1);
}

/* The counters of runs with that number of rows; NULL: there are none. */
static stats_batch *batch_of(const model_stats *s, uint64_t rows)
{
    return rows > 0 && rows <= s->batch_count ? &s->batches[rows - 1] : NULL;
}

void stats_add_run(model_stats *s, uint64_t rows, uint64_t input_ns, uint64_t infer_ns)
{
    stats_batch *b = batch_of(s, rows);
    struct timespec now;
    uint32_t i = 0;

    while (i < STATS_BATCH_BUCKETS && rows > UINT64_C(1) << i)
        i++;
    add(&s->batch_buckets[i], 1);
    add(&s->batch_rows, rows);
    add(&s->input_ns, input_ns);
    stats_add_time(&s->compute, infer_ns);
    if (b != NULL) {
        add(&b->count, 1);
        add(&b->input_ns, input_ns);
        add(&b->infer_ns, infer_ns);
    }
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    atomic_store_explicit(&s->last_ms, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / MS, memory_order_relaxed);
}

void stats_add_output(model_stats *s, uint64_t rows, uint64_t ns)
{
    stats_batch *b = batch_of(s, rows);

    add(&s->output_ns, ns);
    if (b != NULL)
        add(&b->output_ns, ns);
}

void stats_add_error(model_stats *s, uint32_t error, uint64_t ns)
{
    add(&s->errors[error], 1);
    add(&s->fail_ns, ns);
}

uint32_t stats_error_of(inlay_status status)
{
    switch (status) {
    case INLAY_INVALID_ARGUMENT:
    case INLAY_SHAPE_MISMATCH:
        return STATS_INVALID;
    case INLAY_BUSY:
        return STATS_REJECTED;
    case INLAY_DEADLINE_EXCEEDED:
        return STATS_DEADLINE;
    case INLAY_CANCELLED:
        return STATS_CANCELLED;
    default:
        return STATS_FAILED;
    }
}
