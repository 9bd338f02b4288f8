/* Loops over staged inputs, see conv_loops.h. */
#include "operators/conv/conv_loops.h"
#include "simd/vec.h"
#include <string.h>

#define WIDE_COPY(T, name)                                                                                             \
    static void name(const T *base, const int64_t *offset, int64_t depth, const position_run *runs,                    \
                     uint32_t run_count, uint32_t width, T *to)                                                        \
    {                                                                                                                  \
        enum { STEP = 64 / sizeof(T) };                                                                                \
        for (int64_t k = 0; k < depth; k++, to += width) {                                                             \
            const T *x = base + offset[k];                                                                             \
            for (uint32_t r = 0; r < run_count; r++) {                                                                 \
                const T *from = x + runs[r].from;                                                                      \
                for (int32_t i = 0; i < runs[r].count; i += STEP)                                                      \
                    memcpy(to + runs[r].to + i, from + i, 64);                                                         \
            }                                                                                                          \
        }                                                                                                              \
    }
WIDE_COPY(uint32_t, copy_32)
WIDE_COPY(uint64_t, copy_64)

static void copy_pairs(const int16_t *base, const int64_t *offset, int64_t depth, const position_run *runs,
                       uint32_t run_count, uint32_t width, int16_t *to)
{
    for (int64_t k = 0; k < depth; k += 2, to += 2 * width) {
        const int16_t *x = base + offset[k], *output = k + 1 < depth ? base + offset[k + 1] : NULL;
        for (uint32_t r = 0; r < run_count; r++) {
            const int16_t *a = x + runs[r].from, *b = output != NULL ? output + runs[r].from : NULL;
            int16_t *out = to + 2 * runs[r].to;
            for (int32_t i = 0; i < runs[r].count; i++) {
                out[2 * i] = a[i];
                out[2 * i + 1] = b != NULL ? b[i] : 0;
            }
        }
    }
}

#define T float
#define NAME(name) f32_##name
#include "operators/conv/depthwise.inc"
#undef T
#undef NAME
#define T double
#define NAME(name) f64_##name
#include "operators/conv/depthwise.inc"
#undef T
#undef NAME

const conv_loops KERNEL(conv_loops) = {
    .copy_32 = copy_32, .copy_64 = copy_64, .copy_pairs = copy_pairs, .f32_row = f32_row, .f64_row = f64_row
};
