#include "quantize/weights.h"
#include "quantize/loops.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

void weights_bytes(const float *w, int64_t outer, int64_t channels, int64_t inner, int limit, int8_t *out,
                   float *scales)
{
    KERNEL_BEST(quantize_loops)->bytes(w, outer, channels, inner, limit, out, scales);
}

/* ------------------------------------------------------------------ four bits */

float weights_storable(float scale, bool halves)
{
    uint32_t bits;

    if (!halves)
        return scale;
    scale = scale < 0x1p-14F ? 0x1p-14F : scale > 65504.0F ? 65504.0F : scale;
    memcpy(&bits, &scale, sizeof bits);
    bits += 0xfff + (bits >> 13 & 1); /* ten bits of the mantissa stay, ties to even */
    bits &= ~UINT32_C(0x1fff);
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

static inline int code_of(float w, weight_grid g)
{
    const float q = nearbyintf(w / g.scale) + (float)g.zero;

    return q < 0 ? 0 : q > WEIGHTS_MOST_CODE ? WEIGHTS_MOST_CODE : (int)q;
}

/* Weights from .. of a row. order: where the importance of each stands; NULL: as the weights do. */
static void gather(const weight_rows *m, const float *row, int64_t step, const float *importance, const int32_t *order,
                   int64_t from, weight_block *b)
{
    b->halves = m->halves;
    b->n = m->depth - from < m->block ? m->depth - from : m->block;
    for (int64_t i = 0; i < b->n; i++) {
        b->w[i] = row[(from + i) * step];
        b->h[i] = importance == NULL ? 1 : importance[order != NULL ? order[from + i] : from + i];
    }
    for (int64_t i = b->n; i < b->n + WEIGHTS_LANES; i++)
        b->w[i] = b->h[i] = 0;
}

void weights_nibbles(const weight_rows *m, const float *importance, uint8_t *codes, float *scales, uint8_t *zeros)
{
    const int64_t blocks = weight_blocks(m);
    weight_block b;

    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t k = 0; k < blocks; k++) {
            weight_grid g;

            gather(m, m->w + r * m->row_step, m->step, importance, NULL, k * m->block, &b);
            KERNEL_BEST(quantize_loops)->find_grid(&b, &g);
            scales[r * blocks + k] = g.scale;
            zeros[r * blocks + k] = (uint8_t)g.zero;
            for (int64_t i = 0; i < b.n; i++)
                codes[r * m->depth + k * m->block + i] = (uint8_t)code_of(b.w[i], g);
        }
}

/* Codes of a block of one row, in the order of rounding, whose weights are left[from ..], for what is left of them by
 * then; errors are in units of the factor's pivots. */
static double settle_block(const weight_rows *m, const weight_inputs *in, float *left, int64_t r, int64_t from,
                           float *errors, uint8_t *codes, float *scales, uint8_t *zeros)
{
    const int64_t at = r * weight_blocks(m) + (in->order != NULL ? in->order[from] : from) / m->block;
    double loss = 0;
    weight_block b;
    weight_grid g;

    gather(m, left, 1, in->importance, in->order, from, &b);
    KERNEL_BEST(quantize_loops)->find_grid(&b, &g);
    scales[at] = g.scale;
    zeros[at] = (uint8_t)g.zero;
    for (int64_t p = from; p < from + b.n; p++) {
        const float *row = in->factor + p * m->depth;
        const int code = code_of(left[p], g);
        const float error = (left[p] - (float)(code - g.zero) * g.scale) / row[p];

        codes[r * m->depth + (in->order != NULL ? in->order[p] : p)] = (uint8_t)code;
        errors[p - from] = error;
        loss += (double)error * error;
        for (int64_t j = p + 1; j < from + b.n; j++)
            left[j] -= error * row[j];
    }
    return loss;
}

/* A few rows at a time, for the factor is larger than the caches; what follows a block hears of its errors at once. */
double weights_nibbles_compensated(const weight_rows *m, const weight_inputs *in, int64_t first, int64_t count,
                                   uint8_t *codes, float *scales, uint8_t *zeros, float *scratch)
{
    const int64_t n = m->depth;
    float *errors = scratch + WEIGHTS_TOGETHER * n;
    double loss = 0;

    for (int64_t i = 0; i < count; i++)
        for (int64_t p = 0; p < n; p++)
            scratch[i * n + p] = m->w[(first + i) * m->row_step + (in->order != NULL ? in->order[p] : p) * m->step];
    for (int64_t from = 0; from < n; from += m->block) {
        const int64_t to = from + m->block < n ? from + m->block : n;

        for (int64_t i = 0; i < count; i++)
            loss += settle_block(m, in, scratch + i * n, first + i, from, errors + i * m->block, codes, scales, zeros);
        if (to < n)
            blockmul_add(&(struct blockmul){ .c = scratch + to,
                                             .a = errors,
                                             .b = in->factor + from * n + to,
                                             .rows = count,
                                             .columns = n - to,
                                             .depth = to - from,
                                             .c_row = n,
                                             .a_row = m->block,
                                             .a_step = 1,
                                             .b_row = n,
                                             .factor = -1 });
    }
    return loss;
}
