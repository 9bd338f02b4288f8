/* Loops of type conversions, see convert_loops.h. */
#include "simd/convert_loops.h"
#include "simd/convert_cases.h"
#include "simd/vec.h"

static void unpack_nibbles(int8_t *dst, const uint8_t *src, int64_t pairs, bool is_signed)
{
    const int flip = is_signed ? 8 : 0;
    for (int64_t i = 0; i < pairs; i++) {
        dst[2 * i] = (int8_t)(((src[i] & 15) ^ flip) - flip);
        dst[2 * i + 1] = (int8_t)(((src[i] >> 4) ^ flip) - flip);
    }
}

#define CASE READ_CASE
#define PACKED READ_PACKED
#define FROM_F32(x) (x)
#define FROM_F64(x) ((float)(x))
#define TO_F32(name, cases)                                                                                            \
    static void name(float *restrict dst, inlay_dtype from, const void *restrict src, int64_t first, int64_t count)    \
    {                                                                                                                  \
        switch (from) {                                                                                                \
            cases(float) default : break;                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    KERNEL_PART(void, name, float *dst, inlay_dtype from, const void *src, int64_t first, int64_t count)               \
    {                                                                                                                  \
        name(dst, from, src, first, count);                                                                            \
    }
TO_F32(numbers_to_f32, TO_NUMBERS)
TO_F32(odd_to_f32, TO_ODD)
#undef TO_F32

#undef FROM_F64
#undef FROM_F32
#define FROM_F32(x) f32_to_i64(x)
#define FROM_F64(x) f64_to_i64(x)
#undef CASE
/* Casts of float to int64 must use the saturating conversion. */
#define CASE(NAME, T, EXPR)                                                                                            \
    case INLAY_##NAME: {                                                                                               \
        const T *p = (const T *)src + first;                                                                           \
        for (int64_t i = 0; i < count; i++)                                                                            \
            dst[i] = _Generic((T)0, float : f32_to_i64((float)p[i]), default : EXPR);                                  \
        break;                                                                                                         \
    }
static void to_i64(int64_t *restrict dst, inlay_dtype from, const void *restrict src, int64_t first, int64_t count)
{
    switch (from) {
        TO_CASES(int64_t)
    default:
        break;
    }
}
#undef CASE
#undef PACKED
#undef FROM_F32
#undef FROM_F64

#define CASE WRITE_CASE
#define NIBBLE WRITE_NIBBLE
#define PAIR WRITE_PAIR
#define AS_F32(x) (x)
#define AS_ODD(x) (x)
#define AS_I32(x) f32_to_i32(x)
#define AS_I64(x) f32_to_i64(x)
#define AS_U64(x) f64_to_u64((double)(x))
#define FROM_F32_AS(name, cases)                                                                                       \
    static void name(inlay_dtype to, void *restrict dst, int64_t first, int64_t count, const float *restrict src,      \
                     uint32_t how)                                                                                     \
    {                                                                                                                  \
        const bool saturate = (how & CONVERT_SATURATE) != 0;                                                           \
        const uint32_t mode = how >> CONVERT_E8M0_SHIFT & 3;                                                           \
                                                                                                                       \
        (void)saturate, (void)mode;                                                                                    \
        switch (to) {                                                                                                  \
            cases default : break;                                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    KERNEL_PART(void, name, inlay_dtype to, void *dst, int64_t first, int64_t count, const float *src, uint32_t how)   \
    {                                                                                                                  \
        name(to, dst, first, count, src, how);                                                                         \
    }
FROM_F32_AS(numbers_from_f32, FROM_NUMBERS)
FROM_F32_AS(odd_from_f32, FROM_ODD)
#undef FROM_F32_AS

static bool small_from_f32(inlay_dtype to, void *restrict dst, int64_t first, int64_t count, const float *restrict src)
{
    uint32_t largest = 0;

    for (int64_t i = 0; i < count; i++) {
        const uint32_t magnitude = f32_bits(src[i]) & 0x7fffffffu;

        largest = magnitude > largest ? magnitude : largest;
    }
    if (largest >= 0x4f000000u) /* 2^31, infinity and NaN */
        return false;
    switch (to) {
        CASE(UINT8, uint8_t, (uint8_t)(int32_t)src[i])
        CASE(INT8, int8_t, (int8_t)(int32_t)src[i])
        CASE(INT32, int32_t, (int32_t)src[i])
        CASE(INT64, int64_t, (int32_t)src[i])
    default:
        return false;
    }
    return true;
}

static bool small_from_f64(inlay_dtype to, void *restrict dst, int64_t first, int64_t count, const double *restrict src)
{
    int64_t largest = 0;

    for (int64_t i = 0; i < count; i++) {
        const int64_t magnitude = (int64_t)(f64_bits(src[i]) & UINT64_MAX >> 1);

        largest = magnitude > largest ? magnitude : largest;
    }
    if (largest >= INT64_C(0x41e0000000000000)) /* 2^31, infinity and NaN */
        return false;
    switch (to) { /* signed and unsigned integers have the same low bits */
    case INLAY_INT8:
        CASE(UINT8, uint8_t, (uint8_t)(int32_t)src[i])
    case INLAY_INT16:
        CASE(UINT16, uint16_t, (uint16_t)(int32_t)src[i])
        CASE(INT32, int32_t, (int32_t)src[i])
        CASE(INT64, int64_t, (int32_t)src[i])
    default:
        return false;
    }
    return true;
}
KERNEL_PART(bool, small_from_f64, inlay_dtype to, void *dst, int64_t first, int64_t count, const double *src)
{
    return small_from_f64(to, dst, first, count, src);
}

/* Blocks of integers in the range of int32 are converted from int32: most instruction sets convert no int64, and the
 * results are the same, because each of the two conversions rounds once. */
static void i64_to_f32(float *restrict dst, const int64_t *restrict src, int64_t count)
{
    enum { BLOCK = 512 };

    for (int64_t first = 0; first < count; first += BLOCK) {
        const int64_t end = count - first < BLOCK ? count : first + BLOCK;
        uint64_t high = 0;

        for (int64_t i = first; i < end; i++)
            high |= ((uint64_t)src[i] + 0x80000000u) >> 32;
        if (high == 0)
            for (int64_t i = first; i < end; i++)
                dst[i] = (float)(int32_t)src[i];
        else
            for (int64_t i = first; i < end; i++)
                dst[i] = (float)src[i];
    }
}

const convert_loops KERNEL(convert_loops) = {
    .nibbles = unpack_nibbles,
    .numbers_to_f32 = KERNEL_PART_OF(numbers_to_f32),
    .odd_to_f32 = KERNEL_PART_OF(odd_to_f32),
    .to_i64 = to_i64,
    .numbers_from_f32 = KERNEL_PART_OF(numbers_from_f32),
    .odd_from_f32 = KERNEL_PART_OF(odd_from_f32),
    .small_from_f32 = small_from_f32,
    .small_from_f64 = KERNEL_PART_OF(small_from_f64),
    .i64_to_f32 = i64_to_f32,
};
