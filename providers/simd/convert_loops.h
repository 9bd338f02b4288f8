/* convert_loops.h - the loops of convert.h from and to float, to int64, and from double to integers. */
#ifndef SIMD_CONVERT_LOOPS_H
#define SIMD_CONVERT_LOOPS_H
#include "simd/convert.h"
#include "simd/instances.h"

/* Convert elements [first, first + count) of a tensor from or to the other type. `odd`: rare types, whose loops are
 * left out of programs of `inlay bundle` that do not use them. */
typedef struct convert_loops {
    /* Pairs of nibbles to bytes, sign-extended if is_signed. */
    void (*nibbles)(int8_t *dst, const uint8_t *src, int64_t pairs, bool is_signed);
    void (*numbers_to_f32)(float *dst, inlay_dtype from, const void *src, int64_t first, int64_t count);
    void (*odd_to_f32)(float *dst, inlay_dtype from, const void *src, int64_t first, int64_t count);
    void (*to_i64)(int64_t *restrict dst, inlay_dtype from, const void *restrict src, int64_t first, int64_t count);
    void (*numbers_from_f32)(inlay_dtype to, void *dst, int64_t first, int64_t count, const float *src, uint32_t how);
    void (*odd_from_f32)(inlay_dtype to, void *dst, int64_t first, int64_t count, const float *src, uint32_t how);
    /* Floats in the range of int32 to integers of up to 64 bits, for which every instruction set has an instruction.
     * false: src has other values, or the type is not supported; dst is unchanged. */
    bool (*small_from_f32)(inlay_dtype to, void *restrict dst, int64_t first, int64_t count, const float *restrict src);
    /* The same from double. */
    bool (*small_from_f64)(inlay_dtype to, void *dst, int64_t first, int64_t count, const double *src);
    void (*i64_to_f32)(float *restrict dst, const int64_t *restrict src, int64_t count);
} convert_loops;

KERNEL_INSTANCES(convert_loops, convert_loops)
#endif
