/* convert_loops.h - the loops of convert.h around float, and the one to int64. */
#ifndef SIMD_CONVERT_LOOPS_H
#define SIMD_CONVERT_LOOPS_H
#include "simd/convert.h"
#include "simd/instances.h"

/* Elements [first, first + count) of a tensor of the other type. `odd`: of types that few models have, which programs
 * of `inlay bundle` leave out where theirs lacks them. */
typedef struct convert_loops {
    /* Nibbles to bytes, two at a time, sign-extended or not. */
    void (*nibbles)(int8_t *dst, const uint8_t *src, int64_t pairs, bool is_signed);
    void (*numbers_to_f32)(float *dst, inlay_dtype from, const void *src, int64_t first, int64_t count);
    void (*odd_to_f32)(float *dst, inlay_dtype from, const void *src, int64_t first, int64_t count);
    void (*to_i64)(int64_t *restrict dst, inlay_dtype from, const void *restrict src, int64_t first, int64_t count);
    void (*numbers_from_f32)(inlay_dtype to, void *dst, int64_t first, int64_t count, const float *src, uint32_t how);
    void (*odd_from_f32)(inlay_dtype to, void *dst, int64_t first, int64_t count, const float *src, uint32_t how);
    /* Integers of at most 64 bits of floats that int32 holds, for which every level has an instruction. False: src has
     * others. */
    bool (*small_from_f32)(inlay_dtype to, void *restrict dst, int64_t first, int64_t count, const float *restrict src);
} convert_loops;

KERNEL_INSTANCES(convert_loops, convert_loops)
#endif
