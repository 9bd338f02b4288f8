/* resize_loops.h - loops of Resize over the elements of a row, compiled for each instruction level. */
#ifndef RESIZE_LOOPS_H
#define RESIZE_LOOPS_H
#include "common/resize_rows.h"
#include "simd/instances.h"

/* Integers are truncated towards zero. The sum of an area of one colour is that colour, but computed with rounding
 * errors it may be slightly smaller; a sum that is as close to an integer as this is taken as that integer. */
#define RESIZE_ERROR 0x1p-10f
#define WHOLE(sum) ((sum) + ((sum) < 0 ? -RESIZE_ERROR : RESIZE_ERROR))
/* Truncates v towards zero and clamps it to [least, most], which must be exactly representable; NaN gives 0. */
#define CLAMP_CAST(type, v, least, most)                                                                               \
    ((type)((v) >= (most) ? (most) : (v) > (least) ? (v) : (v) == (v) ? (least) : 0))

/* Elements of type T, sums in ACC. */
#define RESIZE_LOOPS(suffix, T, ACC)                                                                                   \
    typedef struct resize_loops_##suffix {                                                                             \
        /* to = row resampled along the last axis, `inner` elements at a time */                                       \
        void (*across)(const resize_plan *plan, const ACC *restrict row, ACC *restrict to);                            \
        /* sum = row * w if fresh, otherwise sum + row * w */                                                          \
        void (*add)(ACC *restrict sum, const T *restrict row, int64_t n, ACC w, bool fresh);                           \
        /* y = the weighted sum of up to RESIZE_SLOTS rows; sum: buffer of one row */                                  \
        void (*blend)(T *restrict y, const ACC *const *rows, const ACC *w, uint32_t count, int64_t n,                  \
                      ACC *restrict sum);                                                                              \
        /* y = row, converted; NULL if T is ACC */                                                                     \
        void (*store)(T *restrict y, const ACC *restrict row, int64_t n);                                              \
        /* an output row directly from the input rows; NULL if T is not ACC */                                         \
        void (*direct)(const resize_plan *plan, const T *const *rows, const ACC *w, uint32_t count, T *restrict y);    \
    } resize_loops_##suffix;                                                                                           \
    KERNEL_INSTANCES(resize_loops_##suffix, resize_##suffix)
RESIZE_LOOPS(f32, float, float)
RESIZE_LOOPS(f64, double, double)
RESIZE_LOOPS(f16, uint16_t, float)
RESIZE_LOOPS(bf16, uint16_t, float)
RESIZE_LOOPS(u8, uint8_t, float)
RESIZE_LOOPS(i8, int8_t, float)
#undef RESIZE_LOOPS
#endif
