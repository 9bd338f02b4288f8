#include "serve/batch_cost.h"

static const double worth =
    0.97; /* a larger size has to be better by so much: each of its rows waits for more others */

static uint32_t floor_log2(uint64_t rows)
{
    uint32_t n = 0;

    while (rows >>= 1)
        n++;
    return n;
}

static void choose(batch_cost *c)
{
    double least = 0;

    c->best = 0;
    for (uint32_t n = 0; n < BATCH_SIZES; n++) {
        double row = c->ns[n] / (double)(UINT64_C(1) << n);

        if (row > 0 && (c->best == 0 || row < least * worth)) {
            c->best = 1u << n;
            least = row;
        }
    }
}

void batch_cost_add(batch_cost *c, uint64_t rows, double ns)
{
    uint32_t n = floor_log2(rows);

    if (rows == 0 || n >= BATCH_SIZES || rows != UINT64_C(1) << n || ns <= 0)
        return;
    /* Down at once, up slowly: what disturbs a run makes it longer. */
    c->ns[n] = c->ns[n] == 0 || ns < c->ns[n] ? ns : c->ns[n] + (ns - c->ns[n]) / 64;
    choose(c);
}

double batch_cost_of(const batch_cost *c, uint64_t rows)
{
    uint32_t below = floor_log2(rows > 0 ? rows : 1), above = below;
    double from, part;

    if (below >= BATCH_SIZES)
        return 0;
    while (below > 0 && c->ns[below] == 0)
        below--;
    from = (double)(UINT64_C(1) << below);
    for (above++; above < BATCH_SIZES && c->ns[above] == 0; above++)
        ;
    if (above >= BATCH_SIZES || c->ns[below] == 0)
        return c->ns[below] * (double)rows / from;
    part = ((double)rows - from) / ((double)(UINT64_C(1) << above) - from);
    return c->ns[below] + part * (c->ns[above] - c->ns[below]);
}

double batch_cost_gain(const batch_cost *c)
{
    return c->best > 1 && c->ns[0] > 0 ? c->ns[0] - c->ns[floor_log2(c->best)] / (double)c->best : 0;
}
