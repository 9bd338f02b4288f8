#include "serve/base/stats.h"
#include "inlay/check.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

const uint64_t stats_bounds_ns[STATS_BUCKETS] = { 25 * US,   50 * US,  100 * US,  250 * US,  500 * US,  1 * MS,
                                                  2500 * US, 5 * MS,   10 * MS,   25 * MS,   50 * MS,   100 * MS,
                                                  250 * MS,  500 * MS, 1000 * MS, 2500 * MS, 5000 * MS, 10000 * MS };

static void add(atomic_uint_fast64_t *to, uint64_t amount)
{
    (void)atomic_fetch_add_explicit(to, amount, memory_order_relaxed);
}

void stats_add_time(stats_time *time, uint64_t ns)
{
    uint32_t i = 0;

    while (i < STATS_BUCKETS && ns > stats_bounds_ns[i])
        i++;
    add(&time->buckets[i], 1);
    add(&time->count, 1);
    add(&time->ns, ns);
}

void stats_add_request(model_stats *stats, uint64_t ns, uint64_t receive_ns, uint64_t target_us)
{
    stats_add_time(&stats->request, ns);
    stats_add_time(&stats->receive, receive_ns);
    if (target_us > 0 && (ns - receive_ns) / US >= target_us)
        add(&stats->over_target, 1);
}

void stats_add_run(model_stats *stats, stats_batch *batch, uint64_t rows, uint64_t input_ns, uint64_t infer_ns)
{
    struct timespec now;
    uint32_t i = 0;

    while (i < STATS_BATCH_BUCKETS && rows > UINT64_C(1) << i)
        i++;
    add(&stats->batch_buckets[i], 1);
    add(&stats->batch_rows, rows);
    add(&stats->input_ns, input_ns);
    stats_add_time(&stats->compute, infer_ns);
    if (batch != NULL) {
        add(&batch->count, 1);
        add(&batch->input_ns, input_ns);
        add(&batch->infer_ns, infer_ns);
    }
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    atomic_store_explicit(&stats->last_ms, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / MS,
                          memory_order_relaxed);
}

void stats_add_output(model_stats *stats, stats_batch *batch, uint64_t ns)
{
    add(&stats->output_ns, ns);
    if (batch != NULL)
        add(&batch->output_ns, ns);
}

void stats_add_error(model_stats *stats, uint32_t error, uint64_t ns)
{
    INLAY_CHECK(error < STATS_ERROR_COUNT);
    add(&stats->errors[error], 1);
    add(&stats->fail_ns, ns);
}

uint32_t stats_error_of(inlay_status status)
{
    switch (status) {
    case INLAY_INVALID_ARGUMENT:
    case INLAY_SHAPE_MISMATCH:
    case INLAY_INVALID_MODEL: /* of a run: with these inputs, such as a negative size */
        return STATS_INVALID;
    case INLAY_BUSY:
        return STATS_REJECTED;
    case INLAY_DEADLINE_EXCEEDED:
        return STATS_DEADLINE;
    case INLAY_CANCELLED:
        return STATS_CANCELLED;
    case INLAY_RESULTS_DIFFER: /* of runs, only check_finite returns it */
        return STATS_NON_FINITE;
    default:
        return STATS_FAILED;
    }
}
