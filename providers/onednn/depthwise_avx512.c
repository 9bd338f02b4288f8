/* Blocks of convolutions of single channels for x86-64-v4; compiled with that -march, called where the CPU has it. */
#include "depthwise.h"
#include <immintrin.h>

enum { LANES = 16 };

#define UNROLL _Pragma("GCC unroll 32")

/* What all sums begin with, and what becomes of them. */
static inline __attribute__((always_inline)) void begin(const int pixels, const dw_block *b, int64_t c, __mmask16 mask,
                                                        __m512 *sum)
{
    const __m512 first = b->bias != NULL ? _mm512_maskz_loadu_ps(mask, b->bias + c) : _mm512_setzero_ps();

    UNROLL
    for (int p = 0; p < pixels; p++)
        sum[p] = first;
    if (b->add != NULL)
        UNROLL
        for (int p = 0; p < pixels; p++)
            sum[p] = _mm512_add_ps(first, _mm512_maskz_loadu_ps(mask, b->add + p * b->add_step + c));
}

static inline __attribute__((always_inline)) void end(const int pixels, const dw_block *b, int64_t c, __mmask16 mask,
                                                      __m512 *sum)
{
    const __m512 low = _mm512_set1_ps(b->low), high = _mm512_set1_ps(b->high);

    if (b->clamp)
        UNROLL
        for (int p = 0; p < pixels; p++) /* this way round, NaN stays NaN */
            sum[p] = _mm512_min_ps(high, _mm512_max_ps(low, sum[p]));
    UNROLL
    for (int p = 0; p < pixels; p++)
        _mm512_mask_storeu_ps(b->y + p * b->y_step + c, mask, sum[p]);
}

static inline __mmask16 mask_at(const dw_block *b, int64_t c)
{
    return b->channels - c >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << (b->channels - c)) - 1);
}

/* Each pixel of a row of the input goes into all the sums that it is a part of. */
static inline __attribute__((always_inline)) void reused(const int width, const int stride, const int pixels,
                                                         const dw_block *b)
{
    for (int64_t c = 0; c < b->channels; c += LANES) {
        const __mmask16 mask = mask_at(b, c);
        const float *w = b->w + c / LANES * b->w_step;
        __m512 sum[DW_PIXELS];

        begin(pixels, b, c, mask, sum);
        for (int64_t r = 0; r < b->rows; r++) {
            const float *const *x = b->x[r];
            const bool fetch = r >= b->rows - b->fetch;
            __m512 tap[DW_REUSED];

            UNROLL
            for (int k = 0; k < width; k++, w += LANES)
                tap[k] = _mm512_loadu_ps(w);
            UNROLL
            for (int i = 0; i < (pixels - 1) * stride + width; i++) {
                const __m512 v = _mm512_maskz_loadu_ps(mask, x[i] + c);

                if (fetch)
                    _mm_prefetch((const char *)(x[i] + c + b->ahead), _MM_HINT_T0);
                UNROLL
                for (int k = 0; k < width; k++)
                    if (i >= k && (i - k) % stride == 0 && (i - k) / stride < pixels)
                        sum[(i - k) / stride] = _mm512_fmadd_ps(v, tap[k], sum[(i - k) / stride]);
            }
        }
        end(pixels, b, c, mask, sum);
    }
}

/* Any window. */
static inline __attribute__((always_inline)) void plain(const int pixels, const dw_block *b)
{
    const int64_t stride = b->stride;

    for (int64_t c = 0; c < b->channels; c += LANES) {
        const __mmask16 mask = mask_at(b, c);
        const float *w = b->w + c / LANES * b->w_step;
        __m512 sum[DW_PIXELS];

        begin(pixels, b, c, mask, sum);
        for (int64_t r = 0; r < b->rows; r++) {
            const float *const *x = b->x[r];

            for (int64_t k = 0; k < b->width; k++, w += LANES, x += b->dilation) {
                const __m512 tap = _mm512_loadu_ps(w);

                UNROLL
                for (int p = 0; p < pixels; p++)
                    sum[p] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, x[p * stride] + c), tap, sum[p]);
            }
        }
        end(pixels, b, c, mask, sum);
    }
}

#define SIZES(X, ...) X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(4, __VA_ARGS__) X(7, __VA_ARGS__) X(8, __VA_ARGS__)
#define WINDOWS(X) X(3, 1) X(3, 2) X(5, 1) X(5, 2) X(7, 1) X(7, 2)
#define CELL(pixels, width, stride)                                      \
    static void reused_##width##_##stride##_##pixels(const dw_block *b)  \
    {                                                                    \
        reused(width, stride, pixels, b);                                \
    }
#define CELLS(width, stride) SIZES(CELL, width, stride)
WINDOWS(CELLS)
#undef CELL
#undef CELLS
#define CELL(pixels, any)                         \
    static void plain_##pixels(const dw_block *b) \
    {                                             \
        plain(pixels, b);                         \
    }
SIZES(CELL, )
#undef CELL

void dw_block_avx512(const dw_block *b)
{
    static void (*const of_reused[DW_REUSED / 2][2][DW_PIXELS + 1])(const dw_block *) = {
#define CELL(pixels, width, stride) [(width) / 2 - 1][(stride) - 1][pixels] = reused_##width##_##stride##_##pixels,
#define CELLS(width, stride) SIZES(CELL, width, stride)
        WINDOWS(CELLS)
#undef CELL
#undef CELLS
    };
    static void (*const of_plain[DW_PIXELS + 1])(const dw_block *) = {
#define CELL(pixels, any) [pixels] = plain_##pixels,
        SIZES(CELL, )
#undef CELL
    };

    (b->reused ? of_reused[b->width / 2 - 1][b->stride - 1] : of_plain)[b->pixels](b);
}
