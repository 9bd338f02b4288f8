#include "quantize/refine.h"
#include "quantize/loops.h"
#include <math.h>
#include <string.h>

enum { PASSES = 3 };

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
    blockmul_add(&(struct blockmul){ .c = s->slopes,
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
    struct settling one = { .n = (int)(to - from),
                            .moments = moments + from * m->depth + from,
                            .row = m->depth,
                            .low = (float)-s->zeros[b],
                            .high = (float)(WEIGHTS_MOST_CODE - s->zeros[b]),
                            .step = s->scales[b],
                            .change = s->changes + i * m->block,
                            .halves = m->halves };

    for (int k = 0; k < one.n; k++) {
        one.codes[k] = (float)(s->codes[r * m->depth + place(s->in, from + k)] - s->zeros[b]);
        one.slope[k] = s->slopes[i * m->depth + from + k];
        one.change[k] = 0;
    }
    KERNEL_BEST(quantize_loops)->settle(&one);
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
            blockmul_add(&(struct blockmul){ .c = s.slopes,
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
