#include "quantize/weights.h"
#include "quantize/blockmul.h"
#include "quantize/levels.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { MOST_CODE = 15, SHRINKS = 12, REFINEMENTS = 2, LANES = 16 };

/* Are all weights of the channel multiples of the step, but for the last bits? */
static inline bool are_multiples(const float *w, int64_t outer, int64_t step, int64_t inner, float scale)
{
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            const float x = w[o * step + i];

            if (!(fabsf(nearbyintf(x / scale) * scale - x) <= fabsf(x) * 0x1p-21F))
                return false;
        }
    return true;
}

/* The step of a channel: that of weights which were integers before, so that they are the same again; others are hardly
 * ever taken for such after two of them. */
static inline float find_step(const float *w, int64_t outer, int64_t step, int64_t inner, float largest, int limit)
{
    for (int k = limit; k > 0; k--)
        if (are_multiples(w, outer, step, inner, largest / (float)k))
            return largest / (float)k;
    return largest / (float)limit;
}

LEVELS_BODY weights_bytes_loops(const float *w, int64_t outer, int64_t channels, int64_t inner, int limit, int8_t *out,
                                float *scales)
{
    for (int64_t c = 0; c < channels; c++) {
        float largest = 0;

        for (int64_t o = 0; o < outer; o++)
            for (int64_t i = 0; i < inner; i++) {
                const float x = fabsf(w[(o * channels + c) * inner + i]);

                largest = x > largest ? x : largest;
            }
        scales[c] = find_step(w + c * inner, outer, channels * inner, inner, largest, limit);
        if (!(scales[c] >= 1e-30F)) /* zeros, and what 1 / scale would overflow of */
            scales[c] = 1;
        for (int64_t o = 0; o < outer; o++)
            for (int64_t i = 0; i < inner; i++) {
                const int64_t at = (o * channels + c) * inner + i;
                const float q = nearbyintf(w[at] / scales[c]);

                out[at] = (int8_t)(q > (float)limit ? limit : q < (float)-limit ? -limit : (int)q);
            }
    }
}

LEVELS(, weights_bytes,
       (const float *w, int64_t outer, int64_t channels, int64_t inner, int limit, int8_t *out, float *scales),
       (w, outer, channels, inner, limit, out, scales))

/* ------------------------------------------------------------------ four bits */

/* One block, gathered: n weights and how much each error counts; zeros up to whole lanes. */
typedef struct block {
    float w[WEIGHTS_MOST_BLOCK + LANES], h[WEIGHTS_MOST_BLOCK + LANES];
    int64_t n;
    bool halves;
} block;

typedef struct grid {
    float scale;
    int zero;
} grid;

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

static inline int code_of(float w, grid g)
{
    const float q = nearbyintf(w / g.scale) + (float)g.zero;

    return q < 0 ? 0 : q > MOST_CODE ? MOST_CODE : (int)q;
}

/* The squares of errors of a block, and with *out the scale that has the least of them for the same codes. In lanes:
 * this is where the time goes. */
static inline float try_grid(const block *b, grid g, grid *out)
{
    float error[LANES] = { 0 }, top[LANES] = { 0 }, bottom[LANES] = { 0 }, sums[3] = { 0, 0, 0 };
    const float inverse = 1 / g.scale, low = (float)-g.zero, high = (float)(MOST_CODE - g.zero);

    for (int64_t i = 0; i < b->n; i += LANES) /* what is beyond n counts nothing */
        for (int k = 0; k < LANES; k++) {
            const float w = b->w[i + k], h = b->h[i + k];
            float q = nearbyintf(w * inverse), e;

            q = q < low ? low : q;
            q = q > high ? high : q;
            e = q * g.scale - w;
            error[k] += e * e * h;
            top[k] += q * w * h;
            bottom[k] += q * q * h;
        }
    for (int k = 0; k < LANES; k++) {
        sums[0] += error[k];
        sums[1] += top[k];
        sums[2] += bottom[k];
    }
    *out = g;
    if (sums[2] > 0 && sums[1] / sums[2] > 1e-30F)
        out->scale = weights_storable(sums[1] / sums[2], b->halves);
    return sums[0];
}

LEVELS_BODY find_grid_loops(const block *b, grid *out)
{
    float low = 0, high = 0, least = INFINITY;

    *out = (grid){ 1, 8 };
    for (int64_t i = 0; i < b->n; i++) {
        low = b->w[i] < low ? b->w[i] : low;
        high = b->w[i] > high ? b->w[i] : high;
    }
    if (high - low < 1e-30F)
        return;
    for (int s = 0; s < SHRINKS; s++) {
        const float share = 1 - 0.03F * (float)s;
        grid g = { weights_storable((high - low) * share / MOST_CODE, b->halves), 0 };

        g.zero = (int)nearbyintf(-low * share / g.scale);
        g.zero = g.zero > MOST_CODE ? MOST_CODE : g.zero;
        for (int r = 0; r <= REFINEMENTS; r++) {
            grid next;
            const float error = try_grid(b, g, &next);

            if (error < least) {
                least = error;
                *out = g;
            }
            g = next;
        }
    }
    if (!(least < INFINITY)) { /* squares of what is that large are none: the whole range */
        out->scale = weights_storable(high / MOST_CODE - low / MOST_CODE, b->halves);
        out->zero = (int)nearbyintf(-low / out->scale);
        out->zero = out->zero > MOST_CODE ? MOST_CODE : out->zero;
    }
}

LEVELS(static, find_grid, (const block *b, grid *out), (b, out))

/* Weights from .. of a row. order: where the importance of each stands; NULL: as the weights do. */
static void gather(const weight_rows *m, const float *row, int64_t step, const float *importance, const int32_t *order,
                   int64_t from, block *b)
{
    b->halves = m->halves;
    b->n = m->depth - from < m->block ? m->depth - from : m->block;
    for (int64_t i = 0; i < b->n; i++) {
        b->w[i] = row[(from + i) * step];
        b->h[i] = importance == NULL ? 1 : importance[order != NULL ? order[from + i] : from + i];
    }
    for (int64_t i = b->n; i < b->n + LANES; i++)
        b->w[i] = b->h[i] = 0;
}

void weights_nibbles(const weight_rows *m, const float *importance, uint8_t *codes, float *scales, uint8_t *zeros)
{
    const int64_t blocks = weight_blocks(m);
    block b;

    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t k = 0; k < blocks; k++) {
            grid g;

            gather(m, m->w + r * m->row_step, m->step, importance, NULL, k * m->block, &b);
            find_grid(&b, &g);
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
    block b;
    grid g;

    gather(m, left, 1, in->importance, in->order, from, &b);
    find_grid(&b, &g);
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
            blockmul_add(&(blockmul){ .c = scratch + to,
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
