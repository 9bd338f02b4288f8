#include "serve/model/batch_cost.h"
#include "inlay/check.h"

static const double larger_factor = 0.97; /* a larger size must be 3 % better: its rows wait for more other rows */

static uint32_t floor_log2(uint64_t rows)
{
    uint32_t log2 = 0;

    while (rows >>= 1)
        log2++;
    return log2;
}

static void choose(batch_cost *cost)
{
    double least = 0;

    cost->best = 0;
    for (uint32_t size = 0; size < BATCH_SIZES; size++) {
        double row = cost->ns[size] / (double)(UINT64_C(1) << size);

        if (row > 0 && (cost->best == 0 || row < least * larger_factor)) {
            cost->best = 1u << size;
            least = row;
        }
    }
}

/* Estimates the 99th percentile of measured time / expected time: a run above the estimate raises it by 99 steps, any
 * other run lowers it by one step. */
static void update_p99(batch_cost *cost, double expected, double ns)
{
    static const double step = 0.002, limit = 100;
    double ratio = ns / expected;

    if (cost->p99_ratio == 0)
        cost->p99_ratio = 1;
    cost->p99_ratio *= ratio > cost->p99_ratio ? 1 + 99 * step : 1 - step;
    cost->p99_ratio = cost->p99_ratio < 1 ? 1 : cost->p99_ratio > limit ? limit : cost->p99_ratio;
}

void batch_cost_add(batch_cost *cost, uint64_t rows, double ns)
{
    uint32_t size = floor_log2(rows);
    double expected = batch_cost_of(cost, rows);

    if (rows > 0 && expected > 0 && ns > 0)
        update_p99(cost, expected, ns);
    if (rows == 0 || size >= BATCH_SIZES || rows != UINT64_C(1) << size || ns <= 0)
        return;
    /* A shorter time replaces the stored one; a longer one raises it by 1/64 of the difference, because disturbances
     * only make a run longer. */
    cost->ns[size] = cost->ns[size] == 0 || ns < cost->ns[size] ? ns : cost->ns[size] + (ns - cost->ns[size]) / 64;
    choose(cost);
}

double batch_cost_of(const batch_cost *cost, uint64_t rows)
{
    uint32_t below = floor_log2(rows > 0 ? rows : 1), above = below;
    double from, part;

    if (below >= BATCH_SIZES)
        return 0;
    while (below > 0 && cost->ns[below] == 0)
        below--;
    from = (double)(UINT64_C(1) << below);
    for (above++; above < BATCH_SIZES && cost->ns[above] == 0; above++)
        ;
    if (above >= BATCH_SIZES || cost->ns[below] == 0)
        return cost->ns[below] * (double)rows / from;
    INLAY_CHECK(below < above);
    part = ((double)rows - from) / ((double)(UINT64_C(1) << above) - from);
    return cost->ns[below] + part * (cost->ns[above] - cost->ns[below]);
}

double batch_cost_latest(const batch_cost *cost, uint64_t rows)
{
    return batch_cost_of(cost, rows) * (cost->p99_ratio > 1 ? cost->p99_ratio : 1);
}

double batch_cost_gain(const batch_cost *cost)
{
    return cost->best > 1 && cost->ns[0] > 0 ? cost->ns[0] - cost->ns[floor_log2(cost->best)] / (double)cost->best : 0;
}

bool batch_cost_is_worth(const batch_cost *cost)
{
    static const double change_ns = 20000;

    return batch_cost_gain(cost) >= change_ns;
}
