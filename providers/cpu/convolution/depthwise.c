/* Blocks of depthwise convolutions, see depthwise.h. */
#include "cpu/convolution/depthwise.h"
#include "inlay/check.h"
#include "simd/vec.h"

enum { GROUP = 16 }; /* channels whose weights are stored together */

#define LOAD(p) (full ? vec_load(p) : vec_load_some(mask, p))

/* Initializes the sums with bias and added operand; `end` clamps and stores them. */
VEC_INLINE void begin(const int pixels, const depthwise_block *block, int64_t c, const bool full, const vmask mask,
                      vec *sum)
{
    const vec first = block->bias != NULL ? LOAD(block->bias + c) : vec_zero();

    VEC_UNROLL
    for (int pixel = 0; pixel < pixels; pixel++)
        sum[pixel] = first;
    if (block->add != NULL) {
        VEC_UNROLL
        for (int pixel = 0; pixel < pixels; pixel++)
            sum[pixel] = vec_add(first, LOAD(block->add + pixel * block->add_step + c));
    }
}

VEC_INLINE void end(const int pixels, const depthwise_block *block, int64_t c, const bool full, const vmask mask,
                    vec *sum)
{
    const vec low = vec_set(block->low), high = vec_set(block->high);

    if (block->clamp) {
        VEC_UNROLL
        for (int pixel = 0; pixel < pixels; pixel++) /* this order of min and max keeps NaN */
            sum[pixel] = vec_min(high, vec_max(low, sum[pixel]));
    }
    VEC_UNROLL
    for (int pixel = 0; pixel < pixels; pixel++)
        if (full)
            vec_store(block->output + pixel * block->y_step + c, sum[pixel]);
        else
            vec_store_some(block->output + pixel * block->y_step + c, mask, sum[pixel]);
}

/* Each input pixel of a row is read once and added to all sums that it contributes to. */
VEC_INLINE void reused(const int width, const int stride, const int pixels, const depthwise_block *block, int64_t c,
                       const bool full)
{
    const vmask mask = vec_first(block->channels - c);
    const float *weights = block->weights + c / GROUP * block->w_step + c % GROUP;
    vec sum[DEPTHWISE_PIXELS];

    begin(pixels, block, c, full, mask, sum);
    for (int64_t row = 0; row < block->rows; row++) {
        const float *const *x = block->x[row];
        const bool fetch = row >= block->rows - block->fetch;
        vec tap[DEPTHWISE_REUSED];

        VEC_UNROLL
        for (int k = 0; k < width; k++, weights += GROUP)
            tap[k] = vec_load(weights);
        VEC_UNROLL
        for (int column = 0; column < (pixels - 1) * stride + width; column++) {
            const vec value = LOAD(x[column] + c);

            if (fetch)
                vec_fetch_near(x[column] + c + block->ahead);
            VEC_UNROLL
            for (int k = 0; k < width; k++)
                if (column >= k && (column - k) % stride == 0 && (column - k) / stride < pixels)
                    sum[(column - k) / stride] = vec_fma(value, tap[k], sum[(column - k) / stride]);
        }
    }
    end(pixels, block, c, full, mask, sum);
}

/* Computes a block for any kernel size. */
VEC_INLINE void any_width(const int pixels, const depthwise_block *block, int64_t c, const bool full)
{
    const int64_t stride = block->stride;
    const vmask mask = vec_first(block->channels - c);
    const float *weights = block->weights + c / GROUP * block->w_step + c % GROUP;
    vec sum[DEPTHWISE_PIXELS];

    begin(pixels, block, c, full, mask, sum);
    for (int64_t row = 0; row < block->rows; row++) {
        const float *const *x = block->x[row];

        for (int64_t column = 0; column < block->width; column++, weights += GROUP, x += block->dilation) {
            const vec tap = vec_load(weights);

            VEC_UNROLL
            for (int pixel = 0; pixel < pixels; pixel++)
                sum[pixel] = vec_fma(LOAD(x[pixel * stride] + c), tap, sum[pixel]);
        }
    }
    end(pixels, block, c, full, mask, sum);
}

/* width 0: any kernel size. Full vectors first, then the last one. */
VEC_INLINE void channels(const int width, const int stride, const int pixels, const depthwise_block *block)
{
    int64_t c = 0;

    for (; !VEC_HAS_MASKS && c + VEC_LANES <= block->channels; c += VEC_LANES)
        if (width != 0)
            reused(width, stride, pixels, block, c, true);
        else
            any_width(pixels, block, c, true);
    for (; c < block->channels; c += VEC_LANES)
        if (width != 0)
            reused(width, stride, pixels, block, c, false);
        else
            any_width(pixels, block, c, false);
}

#define SIZES(X, ...) X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(4, __VA_ARGS__) X(7, __VA_ARGS__) X(8, __VA_ARGS__)
#define WINDOWS(X) X(3, 1) X(3, 2) X(5, 1) X(5, 2) X(7, 1) X(7, 2)
#define CELL(pixels, width, stride)                                                                                    \
    KERNEL_PART(void, reused_##width##_##stride##_##pixels, const depthwise_block *b)                                  \
    {                                                                                                                  \
        channels(width, stride, pixels, b);                                                                            \
    }
#define CELLS(width, stride) SIZES(CELL, width, stride)
WINDOWS(CELLS)
#undef CELL
#undef CELLS
#define CELL(pixels, any)                                                                                              \
    KERNEL_PART(void, plain_##pixels, const depthwise_block *b)                                                        \
    {                                                                                                                  \
        channels(0, 1, pixels, b);                                                                                     \
    }
SIZES(CELL, )
#undef CELL

void KERNEL(depthwise_block)(const depthwise_block *b)
{
    static void (*const of_reused[DEPTHWISE_REUSED / 2][2][DEPTHWISE_PIXELS + 1])(const depthwise_block *) = {
#define CELL(pixels, width, stride)                                                                                    \
    [(width) / 2 - 1][(stride)-1][pixels] = KERNEL_PART_OF(reused_##width##_##stride##_##pixels),
#define CELLS(width, stride) SIZES(CELL, width, stride)
        WINDOWS(CELLS)
#undef CELL
#undef CELLS
    };
    static void (*const of_plain[DEPTHWISE_PIXELS + 1])(const depthwise_block *) = {
#define CELL(pixels, any) [pixels] = KERNEL_PART_OF(plain_##pixels),
        SIZES(CELL, )
#undef CELL
    };

    INLAY_CHECK(b->rows >= 0 && b->rows <= DEPTHWISE_ROWS && b->pixels > 0 && b->pixels <= DEPTHWISE_PIXELS);
    (b->reused ? of_reused[b->width / 2 - 1][b->stride - 1] : of_plain)[b->pixels](b);
}
