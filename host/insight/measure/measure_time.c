#include "measure/measure_time.h"
#include "inlay/check.h"
#include "base/clock.h"
#include "base/order.h"
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { MAX_RUNS = 200 };

struct times {
    double ns[MAX_RUNS];
    uint32_t count;
};

uint64_t measure_switches(void)
{
    struct rusage used;

    return getrusage(RUSAGE_SELF, &used) == 0 && used.ru_nivcsw > 0 ? (uint64_t)used.ru_nivcsw : 0;
}

/* at_quantile: see measure_runs; MEASURE_SHORTEST: the shortest run. */
static void summarize(struct times *times, uint32_t at_quantile, struct measurement *out)
{
    double median;

    INLAY_CHECK(times->count > 0 && times->count <= MAX_RUNS);
    qsort(times->ns, times->count, sizeof *times->ns, order_doubles);
    median = times->ns[times->count / 2];
    out->ns = fmax(at_quantile == MEASURE_SHORTEST ? times->ns[0] : times->ns[times->count / at_quantile], 1);
    out->spread = fabs(1 - (at_quantile == 2 ? times->ns[times->count / 4] : median) / out->ns);
    out->samples = times->count;
}

/* Returns whether enough runs were measured or the limit of retries is reached. */
static bool is_done(const measure_plan *plan, const struct times *calm, const struct times *all, double took_ns)
{
    const uint32_t max_runs = plan->max_runs < MAX_RUNS ? plan->max_runs : MAX_RUNS;
    const uint32_t min_runs = plan->min_runs < max_runs ? plan->min_runs : max_runs;

    if (calm->count >= max_runs || all->count >= MAX_RUNS)
        return true;
    if (calm->count >= min_runs)
        return took_ns >= plan->budget_ns;
    return all->count >= min_runs &&
           (took_ns >= MEASURE_RETRY_FACTOR * plan->budget_ns || all->count >= MEASURE_RETRY_FACTOR * max_runs);
}

inlay_status measure_runs(measure_fn run, void *ctx, const measure_plan *plan, uint32_t at_quantile,
                          struct measurement *out, inlay_diag *diag)
{
    struct times calm = { .count = 0 }, all = { .count = 0 };
    bool was_calm;
    double ns;
    inlay_status status = run(ctx, &ns, &was_calm);
    uint64_t begin = clock_ns();

    while (status == INLAY_OK && !is_done(plan, &calm, &all, (double)(clock_ns() - begin))) {
        if (plan->stop != NULL && plan->stop(plan->stop_ctx))
            return inlay_fail(diag, INLAY_CANCELLED, "cancelled while measuring");
        status = run(ctx, &ns, &was_calm);
        if (status != INLAY_OK)
            break;
        all.ns[all.count++] = ns;
        if (was_calm)
            calm.ns[calm.count++] = ns;
    }
    if (status != INLAY_OK || all.count == 0)
        return status;
    out->calm = calm.count >= plan->min_runs || calm.count == all.count;
    if (calm.count > 0)
        summarize(&calm, at_quantile, out);
    else
        summarize(&all, MEASURE_SHORTEST, out);
    return INLAY_OK;
}
