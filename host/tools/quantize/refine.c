#include "quantize/refine.h"
#include "quantize/blockmul.h"
#include "quantize/levels.h"
#include <math.h>
#include <string.h>

enum { PASSES = 3, MOST_CODE = 15 };

void refine_moments(const weight_inputs *in, int64_t depth, float *out)
{
    double mean = 0;

    for (int64_t i = 0; i < depth; i++)
        mean += (double)in->importance[i] / (double)depth;
    for (int64_t i = 0; i < depth; i++) {
        for (int64_t k = 0; k < i; k++)
            out[i * depth + k] = out[k * depth + i] = in->factor[i * depth + k];
        out[i * depth + i] = in->importance[in->order != NULL ? in->order[i] : i] + (float)(WEIGHTS_DAMP * mean);
    }
}

/* One block of one row: codes and zero point, the step, and the slope of half the squared error at each of its weights.
 * change is what became of the weights. */
typedef struct settling {
    int n;
    const float *moments; /* of its first weight with itself; rows of `row` floats */
    int64_t row;
    float codes[WEIGHTS_MOST_BLOCK], slope[WEIGHTS_MOST_BLOCK]; /* codes less the zero point */
    float low, high, step;
    float *change; /* [n] */
    bool halves;
} settling;

/* The weights of the block change along q by as much: slopes follow. */
static inline __attribute__((always_inline)) void move_one(settling *s, int k, float by)
{
    const float *row = s->moments + k * s->row;

    s->change[k] += by;
    for (int j = 0; j < s->n; j++)
        s->slope[j] += by * row[j];
}

LEVELS_BODY settle_loops(settling *s)
{
    float down = 0, curve = 0, step;

    for (int k = 0; k < s->n; k++) {
        const float *row = s->moments + k * s->row;
        float sum = 0;

        for (int j = 0; j < s->n; j++)
            sum += row[j] * s->codes[j];
        curve += sum * s->codes[k];
        down += s->slope[k] * s->codes[k];
    }
    step = curve > 0 ? weights_storable(s->step - down / curve, s->halves) : s->step;
    if (step > 1e-30F && isfinite(step)) {
        /* A step that is stored rounded may lie on the other side of the best one, and be worse. */
        const float by = step - s->step;

        if (by * (down + by * curve / 2) < 0) {
            s->step = step;
            for (int k = 0; k < s->n; k++)
                move_one(s, k, by * s->codes[k]);
        }
    }
    for (int k = 0; k < s->n; k++) {
        const float own = s->moments[k * s->row + k];
        float code = nearbyintf(s->codes[k] - s->slope[k] / (own * s->step));

        code = code < s->low ? s->low : code > s->high ? s->high : code;
        if (code != s->codes[k] && own > 0 && isfinite(code)) {
            move_one(s, k, (code - s->codes[k]) * s->step);
            s->codes[k] = code;
        }
    }
}

LEVELS(static, settle, (settling * s), (s))

/* Rows side by side: what they are off, [count, depth] in the order of rounding, and its product with the moments. */
typedef struct side_by_side {
    const weight_rows *m;
    const weight_inputs *in;
    int64_t first, count;
    uint8_t *codes;
    float *scales;
    const uint8_t *zeros;
    float *off, *slopes, *changes;
} side_by_side;

static int64_t place(const weight_inputs *in, int64_t p)
{
    return in->order != NULL ? in->order[p] : p;
}

static void find_off(const side_by_side *s)
{
    const weight_rows *m = s->m;

    for (int64_t i = 0; i < s->count; i++)
        for (int64_t p = 0; p < m->depth; p++) {
            const int64_t r = s->first + i, k = place(s->in, p), b = r * weight_blocks(m) + k / m->block;

            s->off[i * m->depth + p] =
                (float)(s->codes[r * m->depth + k] - s->zeros[b]) * s->scales[b] - m->w[r * m->row_step + k * m->step];
        }
}

static void find_slopes(const side_by_side *s, const float *moments)
{
    const int64_t n = s->m->depth;

    find_off(s);
    memset(s->slopes, 0, (size_t)(s->count * n) * sizeof *s->slopes);
    blockmul_add(&(blockmul){ .c = s->slopes,
                              .a = s->off,
                              .b = moments,
                              .rows = s->count,
                              .columns = n,
                              .depth = n,
                              .c_row = n,
                              .a_row = n,
                              .a_step = 1,
                              .b_row = n,
                              .factor = 1 });
}

static void settle_row(const side_by_side *s, const float *moments, int64_t i, int64_t from, int64_t to)
{
    const weight_rows *m = s->m;
    const int64_t r = s->first + i, b = r * weight_blocks(m) + place(s->in, from) / m->block;
    settling one = { .n = (int)(to - from),
                     .moments = moments + from * m->depth + from,
                     .row = m->depth,
                     .low = (float)-s->zeros[b],
                     .high = (float)(MOST_CODE - s->zeros[b]),
                     .step = s->scales[b],
                     .change = s->changes + i * m->block,
                     .halves = m->halves };

    for (int k = 0; k < one.n; k++) {
        one.codes[k] = (float)(s->codes[r * m->depth + place(s->in, from + k)] - s->zeros[b]);
        one.slope[k] = s->slopes[i * m->depth + from + k];
        one.change[k] = 0;
    }
    settle(&one);
    s->scales[b] = one.step;
    for (int k = 0; k < one.n; k++)
        s->codes[r * m->depth + place(s->in, from + k)] = (uint8_t)((int)one.codes[k] + s->zeros[b]);
}

double refine_nibbles(const weight_rows *m, const weight_inputs *in, const float *moments, int64_t first, int64_t count,
                      uint8_t *codes, float *scales, const uint8_t *zeros, float *scratch)
{
    const int64_t n = m->depth;
    const side_by_side s = { m,
                             in,
                             first,
                             count,
                             codes,
                             scales,
                             zeros,
                             scratch,
                             scratch + WEIGHTS_TOGETHER * n,
                             scratch + 2 * WEIGHTS_TOGETHER * n };
    double loss = 0;

    find_slopes(&s, moments);
    for (int pass = 0; pass < PASSES; pass++)
        for (int64_t from = 0; from < n; from += m->block) {
            const int64_t to = from + m->block < n ? from + m->block : n;

            for (int64_t i = 0; i < count; i++)
                settle_row(&s, moments, i, from, to);
            blockmul_add(&(blockmul){ .c = s.slopes,
                                      .a = s.changes,
                                      .b = moments + from * n,
                                      .rows = count,
                                      .columns = n,
                                      .depth = to - from,
                                      .c_row = n,
                                      .a_row = m->block,
                                      .a_step = 1,
                                      .b_row = n,
                                      .factor = 1 });
        }
    find_off(&s);
    for (int64_t i = 0; i < count * n; i++)
        loss += (double)s.off[i] * (double)s.slopes[i];
    return loss;
}
