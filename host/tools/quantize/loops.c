/* Loops of the quantizer, see loops.h. */
#include "quantize/loops.h"
#include "simd/vec.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

/* ------------------------------------------------------------------ products */

enum { WIDE = 16, TALL = 8 }; /* of the tile that stays in registers */
typedef float lanes __attribute__((vector_size(WIDE * sizeof(float))));

/* A whole tile; what it reads of a and b goes on by whole rows. */
static inline __attribute__((always_inline)) void add_tile(const struct blockmul *blockmul, int64_t i, int64_t j)
{
    const float *a = blockmul->a + i * blockmul->a_row, *b = blockmul->b + j;
    lanes sums[TALL] = { { 0 } };

    for (int64_t k = 0; k < blockmul->depth; k++) {
        lanes row;

        memcpy(&row, b + k * blockmul->b_row, sizeof row);
#pragma GCC unroll 8
        for (int t = 0; t < TALL; t++)
            sums[t] += row * a[t * blockmul->a_row + k * blockmul->a_step];
    }
#pragma GCC unroll 8
    for (int t = 0; t < TALL; t++) {
        float *c = blockmul->c + (i + t) * blockmul->c_row + j;
        lanes sum;

        memcpy(&sum, c, sizeof sum);
        sum += sums[t] * blockmul->factor;
        memcpy(c, &sum, sizeof sum);
    }
}

/* What no tile covers. */
static inline __attribute__((always_inline)) void add_rest(const struct blockmul *blockmul, int64_t i, int64_t from,
                                                           int64_t to)
{
    float *c = blockmul->c + i * blockmul->c_row;

    for (int64_t k = 0; k < blockmul->depth; k++) {
        const float x = blockmul->factor * blockmul->a[i * blockmul->a_row + k * blockmul->a_step],
                    *row = blockmul->b + k * blockmul->b_row;

        for (int64_t j = from; j < to; j++)
            c[j] += x * row[j];
    }
}

static void add(const struct blockmul *blockmul)
{
    const int64_t whole = blockmul->columns / WIDE * WIDE, tall = blockmul->rows / TALL * TALL;

    for (int64_t j = 0; j < whole; j += WIDE)
        for (int64_t i = 0; i < tall; i += TALL)
            add_tile(blockmul, i, j);
    for (int64_t i = 0; i < tall && whole < blockmul->columns; i++)
        add_rest(blockmul, i, whole, blockmul->columns);
    for (int64_t i = tall; i < blockmul->rows; i++)
        add_rest(blockmul, i, 0, blockmul->columns);
}

/* ------------------------------------------------------------------ eight bits */

/* Are all weights of the channel multiples of the step, but for the last bits? */
static inline bool are_multiples(const float *weights, int64_t outer, int64_t step, int64_t inner, float scale)
{
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            const float x = weights[o * step + i];

            if (!(fabsf(nearbyintf(x / scale) * scale - x) <= fabsf(x) * 0x1p-21F))
                return false;
        }
    return true;
}

/* The step of a channel: that of weights which were integers before, so that they are the same again; others are hardly
 * ever taken for such after two of them. */
static inline float find_step(const float *weights, int64_t outer, int64_t step, int64_t inner, float largest,
                              int limit)
{
    for (int k = limit; k > 0; k--)
        if (are_multiples(weights, outer, step, inner, largest / (float)k))
            return largest / (float)k;
    return largest / (float)limit;
}

static void bytes(const float *weights, int64_t outer, int64_t channels, int64_t inner, int limit, int8_t *out,
                  float *scales)
{
    for (int64_t c = 0; c < channels; c++) {
        float largest = 0;

        for (int64_t o = 0; o < outer; o++)
            for (int64_t i = 0; i < inner; i++) {
                const float x = fabsf(weights[(o * channels + c) * inner + i]);

                largest = x > largest ? x : largest;
            }
        scales[c] = find_step(weights + c * inner, outer, channels * inner, inner, largest, limit);
        if (!(scales[c] >= 1e-30F)) /* zeros, and what 1 / scale would overflow of */
            scales[c] = 1;
        for (int64_t o = 0; o < outer; o++)
            for (int64_t i = 0; i < inner; i++) {
                const int64_t at = (o * channels + c) * inner + i;
                const float q = nearbyintf(weights[at] / scales[c]);

                out[at] = (int8_t)(q > (float)limit ? limit : q < (float)-limit ? -limit : (int)q);
            }
    }
}

/* ------------------------------------------------------------------ four bits */

enum { SHRINKS = 12, REFINEMENTS = 2 };

/* The squares of errors of a block, and with *out the scale that has the least of them for the same codes. In lanes:
 * this is where the time goes. */
static inline float try_grid(const weight_block *block, weight_grid grid, weight_grid *out)
{
    float error[WEIGHTS_LANES] = { 0 }, top[WEIGHTS_LANES] = { 0 }, bottom[WEIGHTS_LANES] = { 0 },
          sums[3] = { 0, 0, 0 };
    const float inverse = 1 / grid.scale, low = (float)-grid.zero, high = (float)(WEIGHTS_MOST_CODE - grid.zero);

    for (int64_t i = 0; i < block->n; i += WEIGHTS_LANES) /* what is beyond n counts nothing */
        for (int k = 0; k < WEIGHTS_LANES; k++) {
            const float w = block->w[i + k], h = block->h[i + k];
            float q = nearbyintf(w * inverse), e;

            q = q < low ? low : q;
            q = q > high ? high : q;
            e = q * grid.scale - w;
            error[k] += e * e * h;
            top[k] += q * w * h;
            bottom[k] += q * q * h;
        }
    for (int k = 0; k < WEIGHTS_LANES; k++) {
        sums[0] += error[k];
        sums[1] += top[k];
        sums[2] += bottom[k];
    }
    *out = grid;
    if (sums[2] > 0 && sums[1] / sums[2] > 1e-30F)
        out->scale = weights_storable(sums[1] / sums[2], block->halves);
    return sums[0];
}

static void find_grid(const weight_block *block, weight_grid *out)
{
    float low = 0, high = 0, least = INFINITY;

    *out = (weight_grid){ 1, 8 };
    for (int64_t i = 0; i < block->n; i++) {
        low = block->w[i] < low ? block->w[i] : low;
        high = block->w[i] > high ? block->w[i] : high;
    }
    if (high - low < 1e-30F)
        return;
    for (int s = 0; s < SHRINKS; s++) {
        const float share = 1 - 0.03F * (float)s;
        weight_grid grid = { weights_storable((high - low) * share / WEIGHTS_MOST_CODE, block->halves), 0 };

        grid.zero = (int)nearbyintf(-low * share / grid.scale);
        grid.zero = grid.zero > WEIGHTS_MOST_CODE ? WEIGHTS_MOST_CODE : grid.zero;
        for (int r = 0; r <= REFINEMENTS; r++) {
            weight_grid next;
            const float error = try_grid(block, grid, &next);

            if (error < least) {
                least = error;
                *out = grid;
            }
            grid = next;
        }
    }
    if (!(least < INFINITY)) { /* squares of what is that large are none: the whole range */
        out->scale = weights_storable(high / WEIGHTS_MOST_CODE - low / WEIGHTS_MOST_CODE, block->halves);
        out->zero = (int)nearbyintf(-low / out->scale);
        out->zero = out->zero > WEIGHTS_MOST_CODE ? WEIGHTS_MOST_CODE : out->zero;
    }
}

/* The weights of the block change along q by as much: slopes follow. */
static inline __attribute__((always_inline)) void move_one(struct settling *settling, int k, float by)
{
    const float *row = settling->moments + k * settling->row;

    settling->change[k] += by;
    for (int j = 0; j < settling->n; j++)
        settling->slope[j] += by * row[j];
}

static void settle(struct settling *settling)
{
    float down = 0, curve = 0, step;

    for (int k = 0; k < settling->n; k++) {
        const float *row = settling->moments + k * settling->row;
        float sum = 0;

        for (int j = 0; j < settling->n; j++)
            sum += row[j] * settling->codes[j];
        curve += sum * settling->codes[k];
        down += settling->slope[k] * settling->codes[k];
    }
    step = curve > 0 ? weights_storable(settling->step - down / curve, settling->halves) : settling->step;
    if (step > 1e-30F && isfinite(step)) {
        /* A step that is stored rounded may lie on the other side of the best one, and be worse. */
        const float by = step - settling->step;

        if (by * (down + by * curve / 2) < 0) {
            settling->step = step;
            for (int k = 0; k < settling->n; k++)
                move_one(settling, k, by * settling->codes[k]);
        }
    }
    for (int k = 0; k < settling->n; k++) {
        const float own = settling->moments[k * settling->row + k];
        float code = nearbyintf(settling->codes[k] - settling->slope[k] / (own * settling->step));

        code = code < settling->low ? settling->low : code > settling->high ? settling->high : code;
        if (code != settling->codes[k] && own > 0 && isfinite(code)) {
            move_one(settling, k, (code - settling->codes[k]) * settling->step);
            settling->codes[k] = code;
        }
    }
}

const quantize_loops KERNEL(quantize_loops) = { .add = add, .bytes = bytes, .find_grid = find_grid, .settle = settle };
