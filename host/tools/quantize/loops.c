/* Hot loops of quantization, see loops.h. */
#include "quantize/loops.h"
#include "simd/vec.h"
#include <math.h>
#include <string.h>

enum { WIDE = 16, TALL = 8 }; /* tile held in registers */
typedef float lanes __attribute__((vector_size(WIDE * sizeof(float))));

/* Computes a full tile. */
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

/* Computes the columns of one row that no tile covers. */
static inline __attribute__((always_inline)) void add_rest(const struct blockmul *blockmul, int64_t i, int64_t from,
                                                           int64_t to)
{
    float *c = blockmul->c + i * blockmul->c_row;

    for (int64_t k = 0; k < blockmul->depth; k++) {
        const float factor = blockmul->factor * blockmul->a[i * blockmul->a_row + k * blockmul->a_step],
                    *row = blockmul->b + k * blockmul->b_row;

        for (int64_t j = from; j < to; j++)
            c[j] += factor * row[j];
    }
}

static void add_product(const struct blockmul *blockmul)
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

/* Are all weights of the channel multiples of the scale, up to rounding of the last bits? */
static inline bool are_multiples(const float *weights, int64_t outer, int64_t step, int64_t inner, float scale)
{
    for (int64_t outer_index = 0; outer_index < outer; outer_index++)
        for (int64_t i = 0; i < inner; i++) {
            const float weight = weights[outer_index * step + i];

            if (!(fabsf(nearbyintf(weight / scale) * scale - weight) <= fabsf(weight) * 0x1p-21F))
                return false;
        }
    return true;
}

/* The scale of a channel. Weights that were integers before get their original scale, so that the codes are exact;
 * other weights fail the test after one or two elements. */
static inline float find_step(const float *weights, int64_t outer, int64_t step, int64_t inner, float largest,
                              int limit)
{
    for (int k = limit; k > 0; k--)
        if (are_multiples(weights, outer, step, inner, largest / (float)k))
            return largest / (float)k;
    return largest / (float)limit;
}

static void round_bytes(const float *weights, int64_t outer, int64_t channels, int64_t inner, int limit, int8_t *out,
                        float *scales)
{
    for (int64_t channel = 0; channel < channels; channel++) {
        float largest = 0;

        for (int64_t outer_index = 0; outer_index < outer; outer_index++)
            for (int64_t i = 0; i < inner; i++) {
                const float magnitude = fabsf(weights[(outer_index * channels + channel) * inner + i]);

                largest = magnitude > largest ? magnitude : largest;
            }
        scales[channel] = find_step(weights + channel * inner, outer, channels * inner, inner, largest, limit);
        if (!(scales[channel] >= 1e-30F)) /* zeros, or 1 / scale would overflow */
            scales[channel] = 1;
        for (int64_t outer_index = 0; outer_index < outer; outer_index++)
            for (int64_t i = 0; i < inner; i++) {
                const int64_t at = (outer_index * channels + channel) * inner + i;
                const float code = nearbyintf(weights[at] / scales[channel]);

                out[at] = (int8_t)(code > (float)limit ? limit : code < (float)-limit ? -limit : (int)code);
            }
    }
}

enum { SHRINKS = 12, REFINEMENTS = 2 }; /* widths of the range that are tried; refinements of each */

/* The squared error of a block; *out receives the grid with the best scale for the same codes. Written in vector lanes:
 * this is the hottest loop. */
static inline float try_grid(const weight_block *block, weight_grid grid, weight_grid *out)
{
    float error[WEIGHTS_LANES] = { 0 }, top[WEIGHTS_LANES] = { 0 }, bottom[WEIGHTS_LANES] = { 0 },
          sums[3] = { 0, 0, 0 };
    const float inverse = 1 / grid.scale, low = (float)-grid.zero, high = (float)(WEIGHTS_MOST_CODE - grid.zero);

    for (int64_t i = 0; i < block->n; i += WEIGHTS_LANES) /* the padding has importance 0 */
        for (int k = 0; k < WEIGHTS_LANES; k++) {
            const float weight = block->w[i + k], importance = block->h[i + k];
            float code = nearbyintf(weight * inverse), difference;

            code = code < low ? low : code;
            code = code > high ? high : code;
            difference = code * grid.scale - weight;
            error[k] += difference * difference * importance;
            top[k] += code * weight * importance;
            bottom[k] += code * code * importance;
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
    for (int step = 0; step < SHRINKS; step++) {
        const float share = 1 - 0.03F * (float)step;
        weight_grid grid = { weights_storable((high - low) * share / WEIGHTS_MOST_CODE, block->halves), 0 };

        grid.zero = (int)nearbyintf(-low * share / grid.scale);
        grid.zero = grid.zero > WEIGHTS_MOST_CODE ? WEIGHTS_MOST_CODE : grid.zero;
        for (int refinement = 0; refinement <= REFINEMENTS; refinement++) {
            weight_grid next;
            const float error = try_grid(block, grid, &next);

            if (error < least) {
                least = error;
                *out = grid;
            }
            grid = next;
        }
    }
    if (!(least < INFINITY)) { /* the squares overflowed: use the whole range */
        out->scale = weights_storable(high / WEIGHTS_MOST_CODE - low / WEIGHTS_MOST_CODE, block->halves);
        out->zero = (int)nearbyintf(-low / out->scale);
        out->zero = out->zero > WEIGHTS_MOST_CODE ? WEIGHTS_MOST_CODE : out->zero;
    }
}

/* Adds `by` to weight k of the block and updates the gradients. */
static inline __attribute__((always_inline)) void move_weight(struct refinement *refinement, int k, float by)
{
    const float *row = refinement->moments + k * refinement->row;

    refinement->change[k] += by;
    for (int j = 0; j < refinement->n; j++)
        refinement->gradient[j] += by * row[j];
}

static void refine(struct refinement *refinement)
{
    float down = 0, curve = 0, step;

    for (int k = 0; k < refinement->n; k++) {
        const float *row = refinement->moments + k * refinement->row;
        float sum = 0;

        for (int j = 0; j < refinement->n; j++)
            sum += row[j] * refinement->codes[j];
        curve += sum * refinement->codes[k];
        down += refinement->gradient[k] * refinement->codes[k];
    }
    step = curve > 0 ? weights_storable(refinement->step - down / curve, refinement->halves) : refinement->step;
    if (step > 1e-30F && isfinite(step)) {
        /* A scale rounded to float16 may overshoot the optimum and increase the error. */
        const float by = step - refinement->step;

        if (by * (down + by * curve / 2) < 0) {
            refinement->step = step;
            for (int k = 0; k < refinement->n; k++)
                move_weight(refinement, k, by * refinement->codes[k]);
        }
    }
    for (int k = 0; k < refinement->n; k++) {
        const float own = refinement->moments[k * refinement->row + k];
        float code = nearbyintf(refinement->codes[k] - refinement->gradient[k] / (own * refinement->step));

        code = code < refinement->low ? refinement->low : code > refinement->high ? refinement->high : code;
        if (code != refinement->codes[k] && own > 0 && isfinite(code)) {
            move_weight(refinement, k, (code - refinement->codes[k]) * refinement->step);
            refinement->codes[k] = code;
        }
    }
}

const quantize_loops KERNEL(quantize_loops) = {
    .add_product = add_product, .round_bytes = round_bytes, .find_grid = find_grid, .refine = refine
};
