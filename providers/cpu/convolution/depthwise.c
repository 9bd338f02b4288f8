/* Blocks of convolutions of single channels, see depthwise.h. */
#include "convolution/depthwise.h"
#include "simd/vec.h"

enum { GROUP = 16 }; /* channels whose weights lie together */

#define LOAD(p) (full ? vec_load(p) : vec_load_some(mask, p))

/* What all sums begin with, and what becomes of them. */
VEC_INLINE void begin(const int pixels, const depthwise_block *b, int64_t c, const bool full, const vmask mask,
                      vec *sum)
{
    const vec first = b->bias != NULL ? LOAD(b->bias + c) : vec_zero();

    VEC_UNROLL
    for (int p = 0; p < pixels; p++)
        sum[p] = first;
    if (b->add != NULL) {
        VEC_UNROLL
        for (int p = 0; p < pixels; p++)
            sum[p] = vec_add(first, LOAD(b->add + p * b->add_step + c));
    }
}

VEC_INLINE void end(const int pixels, const depthwise_block *b, int64_t c, const bool full, const vmask mask, vec *sum)
{
    const vec low = vec_set(b->low), high = vec_set(b->high);

    if (b->clamp) {
        VEC_UNROLL
        for (int p = 0; p < pixels; p++) /* this way round, NaN stays NaN */
            sum[p] = vec_min(high, vec_max(low, sum[p]));
    }
    VEC_UNROLL
    for (int p = 0; p < pixels; p++)
        if (full)
            vec_store(b->output + p * b->y_step + c, sum[p]);
        else
            vec_store_some(b->output + p * b->y_step + c, mask, sum[p]);
}

/* Each pixel of a row of the input goes into all the sums that it is a part of. */
VEC_INLINE void reused(const int width, const int stride, const int pixels, const depthwise_block *b, int64_t c,
                       const bool full)
{
    const vmask mask = vec_first(b->channels - c);
    const float *weights = b->weights + c / GROUP * b->w_step + c % GROUP;
    vec sum[DEPTHWISE_PIXELS];

    begin(pixels, b, c, full, mask, sum);
    for (int64_t r = 0; r < b->rows; r++) {
        const float *const *x = b->x[r];
        const bool fetch = r >= b->rows - b->fetch;
        vec tap[DEPTHWISE_REUSED];

        VEC_UNROLL
        for (int k = 0; k < width; k++, weights += GROUP)
            tap[k] = vec_load(weights);
        VEC_UNROLL
        for (int i = 0; i < (pixels - 1) * stride + width; i++) {
            const vec v = LOAD(x[i] + c);

            if (fetch)
                vec_fetch_near(x[i] + c + b->ahead);
            VEC_UNROLL
            for (int k = 0; k < width; k++)
                if (i >= k && (i - k) % stride == 0 && (i - k) / stride < pixels)
                    sum[(i - k) / stride] = vec_fma(v, tap[k], sum[(i - k) / stride]);
        }
    }
    end(pixels, b, c, full, mask, sum);
}

/* Any window. */
VEC_INLINE void plain(const int pixels, const depthwise_block *b, int64_t c, const bool full)
{
    const int64_t stride = b->stride;
    const vmask mask = vec_first(b->channels - c);
    const float *weights = b->weights + c / GROUP * b->w_step + c % GROUP;
    vec sum[DEPTHWISE_PIXELS];

    begin(pixels, b, c, full, mask, sum);
    for (int64_t r = 0; r < b->rows; r++) {
        const float *const *x = b->x[r];

        for (int64_t k = 0; k < b->width; k++, weights += GROUP, x += b->dilation) {
            const vec tap = vec_load(weights);

            VEC_UNROLL
            for (int p = 0; p < pixels; p++)
                sum[p] = vec_fma(LOAD(x[p * stride] + c), tap, sum[p]);
        }
    }
    end(pixels, b, c, full, mask, sum);
}

/* width 0: any window. Vectors of all lanes, then the last. */
VEC_INLINE void channels(const int width, const int stride, const int pixels, const depthwise_block *b)
{
    int64_t c = 0;

    for (; !VEC_HAS_MASKS && c + VEC_LANES <= b->channels; c += VEC_LANES)
        if (width != 0)
            reused(width, stride, pixels, b, c, true);
        else
            plain(pixels, b, c, true);
    for (; c < b->channels; c += VEC_LANES)
        if (width != 0)
            reused(width, stride, pixels, b, c, false);
        else
            plain(pixels, b, c, false);
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

    (b->reused ? of_reused[b->width / 2 - 1][b->stride - 1] : of_plain)[b->pixels](b);
}
