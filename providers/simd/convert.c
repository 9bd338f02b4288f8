/* convert.c - ranges of any element type; no kernels here.
 *
 * The loops around float, and the one to int64, are compiled per instruction-set level. Those around double and from
 * int64 are not: two dozen types each, seldom on a model's way, they would be a twentieth of the plugin. */
#include "simd/convert.h"
#include "inlay/kit.h"
#include "simd/row_set.h"
#include <string.h>

/* One loop per type and direction. EXPR reads element i (of type T, at p[i]) or, for packed types, first + i. */
#define TO_NUMBERS(D)                                                                                                  \
    CASE(FLOAT, float, (D)p[i])                                                                                        \
    CASE(DOUBLE, double, FROM_F64(p[i]))                                                                               \
    CASE(UINT8, uint8_t, (D)p[i])                                                                                      \
    CASE(INT8, int8_t, (D)p[i])                                                                                        \
    CASE(UINT16, uint16_t, (D)p[i])                                                                                    \
    CASE(INT16, int16_t, (D)p[i])                                                                                      \
    CASE(INT32, int32_t, (D)p[i])                                                                                      \
    CASE(INT64, int64_t, (D)p[i])                                                                                      \
    CASE(UINT32, uint32_t, (D)p[i])                                                                                    \
    CASE(UINT64, uint64_t, (D)p[i])                                                                                    \
    CASE(BOOL, uint8_t, (D)(p[i] != 0))
/* Types that few models have. */
#define TO_ODD(D)                                                                                                      \
    CASE(FLOAT16, uint16_t, FROM_F32(f16_to_f32(p[i])))                                                                \
    CASE(BFLOAT16, uint16_t, FROM_F32(bf16_to_f32(p[i])))                                                              \
    CASE(FLOAT8E4M3FN, uint8_t, FROM_F32(f8e4m3fn_to_f32(p[i])))                                                       \
    CASE(FLOAT8E4M3FNUZ, uint8_t, FROM_F32(f8e4m3fnuz_to_f32(p[i])))                                                   \
    CASE(FLOAT8E5M2, uint8_t, FROM_F32(f8e5m2_to_f32(p[i])))                                                           \
    CASE(FLOAT8E5M2FNUZ, uint8_t, FROM_F32(f8e5m2fnuz_to_f32(p[i])))                                                   \
    CASE(FLOAT8E8M0, uint8_t, FROM_F32(f8e8m0_to_f32(p[i])))                                                           \
    PACKED(UINT4, (D)get_u4(src, first + i))                                                                           \
    PACKED(INT4, (D)s4(get_u4(src, first + i)))                                                                        \
    PACKED(FLOAT4E2M1, FROM_F32(f4e2m1_to_f32(get_u4(src, first + i))))                                                \
    PACKED(UINT2, (D)get_u2(src, first + i))                                                                           \
    PACKED(INT2, (D)s2(get_u2(src, first + i)))
#define TO_CASES(D) TO_NUMBERS(D) TO_ODD(D)

#define CASE(NAME, T, EXPR)                                                                                            \
    case INLAY_##NAME: {                                                                                               \
        const T *p = (const T *)src + first;                                                                           \
        for (int64_t i = 0; i < count; i++)                                                                            \
            dst[i] = EXPR;                                                                                             \
        break;                                                                                                         \
    }
#define PACKED(NAME, EXPR)                                                                                             \
    case INLAY_##NAME:                                                                                                 \
        for (int64_t i = 0; i < count; i++)                                                                            \
            dst[i] = EXPR;                                                                                             \
        break;

#define FROM_F32(x) (x)
#define FROM_F64(x) ((float)(x))
enum { NIBBLES = 256 };

/* Nibbles to bytes, two at a time, sign-extended or not. */
static KIT_MULTIVERSION void unpack_nibbles(int8_t *dst, const uint8_t *src, int64_t pairs, bool is_signed)
{
    const int flip = is_signed ? 8 : 0;
    for (int64_t i = 0; i < pairs; i++) {
        dst[2 * i] = (int8_t)(((src[i] & 15) ^ flip) - flip);
        dst[2 * i + 1] = (int8_t)(((src[i] >> 4) ^ flip) - flip);
    }
}

/* Whole bytes of 4-bit integers to float; returns how many elements that were. */
static int64_t nibbles_to_f32(float *dst, const void *src, int64_t first, int64_t count, bool is_signed)
{
    int8_t bytes[NIBBLES] = { 0 };
    int64_t done = 0;

    for (; first % 2 == 0 && count - done >= 2;) {
        int64_t n = count - done < NIBBLES ? (count - done) / 2 * 2 : NIBBLES;
        unpack_nibbles(bytes, (const uint8_t *)src + (first + done) / 2, n / 2, is_signed);
        for (int64_t i = 0; i < n; i++)
            dst[done + i] = (float)bytes[i];
        done += n;
    }
    return done;
}

/* Types that few models have, apart from the others: programs of `inlay bundle` leave out those that theirs lacks. */
void part_numbers_to_f32(float *dst, inlay_dtype from, const void *src, int64_t first, int64_t count);
void part_odd_to_f32(float *dst, inlay_dtype from, const void *src, int64_t first, int64_t count);
void part_to_f64(double *dst, inlay_dtype from, const void *src, int64_t first, int64_t count);
void part_numbers_from_f32(inlay_dtype to, void *dst, int64_t first, int64_t count, const float *src, uint32_t how);
void part_odd_from_f32(inlay_dtype to, void *dst, int64_t first, int64_t count, const float *src, uint32_t how);
void part_from_f64(inlay_dtype to, void *dst, int64_t first, int64_t count, const double *src, uint32_t how);
void part_odd_from_f64(inlay_dtype to, void *dst, int64_t first, int64_t count, const double *src, uint32_t how);

static bool is_number(inlay_dtype t)
{
    return t == INLAY_FLOAT || t == INLAY_DOUBLE || t == INLAY_BOOL || t == INLAY_UINT8 || t == INLAY_INT8 ||
           t == INLAY_UINT16 || t == INLAY_INT16 || t == INLAY_INT32 || t == INLAY_INT64 || t == INLAY_UINT32 ||
           t == INLAY_UINT64;
}

#define TO_F32(name, cases)                                                                                            \
    static KIT_MULTIVERSION void name(float *restrict dst, inlay_dtype from, const void *restrict src, int64_t first,  \
                                      int64_t count)                                                                   \
    {                                                                                                                  \
        switch (from) {                                                                                                \
            cases(float) default : break;                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    void part_##name(float *dst, inlay_dtype from, const void *src, int64_t first, int64_t count)                      \
    {                                                                                                                  \
        name(dst, from, src, first, count);                                                                            \
    }
TO_F32(numbers_to_f32, TO_NUMBERS)
TO_F32(odd_to_f32, TO_ODD)
#undef TO_F32

void convert_to_f32(float *restrict dst, inlay_dtype from, const void *restrict src, int64_t first, int64_t count)
{
    if (from == INLAY_INT4 || from == INLAY_UINT4) {
        int64_t done = nibbles_to_f32(dst, src, first, count, from == INLAY_INT4);
        dst += done;
        first += done;
        count -= done;
    }
    if (from == INLAY_FLOAT16)
        KERNEL_BEST(rows)->from_half((const uint16_t *)src + first, dst, count);
    else if (from != INLAY_FLOAT)
        (is_number(from) ? part_numbers_to_f32 : part_odd_to_f32)(dst, from, src, first, count);
    else if (count > 0)
        memcpy(dst, (const float *)src + first, (size_t)count * sizeof *dst);
}
#undef FROM_F64
#define FROM_F64(x) (x)
void part_to_f64(double *dst, inlay_dtype from, const void *src, int64_t first, int64_t count)
{
    switch (from) {
        TO_CASES(double)
    default:
        break;
    }
}

void convert_to_f64(double *restrict dst, inlay_dtype from, const void *restrict src, int64_t first, int64_t count)
{
    if (from != INLAY_FLOAT && from != INLAY_DOUBLE)
        part_to_f64(dst, from, src, first, count);
    else if (from == INLAY_FLOAT)
        for (int64_t i = 0; i < count; i++)
            dst[i] = (double)((const float *)src)[first + i];
    else if (count > 0)
        memcpy(dst, (const double *)src + first, (size_t)count * sizeof *dst);
}
#undef FROM_F64
#undef FROM_F32
#define FROM_F32(x) f32_to_i64(x)
#define FROM_F64(x) f64_to_i64(x)
#undef CASE
/* The cast of a float to int64 must be the checked one. */
#define CASE(NAME, T, EXPR)                                                                                            \
    case INLAY_##NAME: {                                                                                               \
        const T *p = (const T *)src + first;                                                                           \
        for (int64_t i = 0; i < count; i++)                                                                            \
            dst[i] = _Generic((T)0, float : f32_to_i64((float)p[i]), default : EXPR);                                  \
        break;                                                                                                         \
    }
KIT_MULTIVERSION
void convert_to_i64(int64_t *restrict dst, inlay_dtype from, const void *restrict src, int64_t first, int64_t count)
{
    switch (from) {
        TO_CASES(int64_t)
    default:
        break;
    }
}
#undef CASE
#undef PACKED

#define FROM_NUMBERS                                                                                                   \
    CASE(FLOAT, float, AS_F32(src[i]))                                                                                 \
    CASE(DOUBLE, double, (double)src[i])                                                                               \
    CASE(UINT8, uint8_t, (uint8_t)AS_I32(src[i]))                                                                      \
    CASE(INT8, int8_t, (int8_t)AS_I32(src[i]))                                                                         \
    CASE(UINT16, uint16_t, (uint16_t)AS_I32(src[i]))                                                                   \
    CASE(INT16, int16_t, (int16_t)AS_I32(src[i]))                                                                      \
    CASE(INT32, int32_t, AS_I32(src[i]))                                                                               \
    CASE(INT64, int64_t, AS_I64(src[i]))                                                                               \
    CASE(UINT32, uint32_t, (uint32_t)AS_I64(src[i]))                                                                   \
    CASE(UINT64, uint64_t, AS_U64(src[i]))                                                                             \
    CASE(BOOL, uint8_t, src[i] != 0)
#define FROM_ODD                                                                                                       \
    CASE(FLOAT16, uint16_t, f32_to_f16(AS_ODD(src[i])))                                                                \
    CASE(BFLOAT16, uint16_t, f32_to_bf16(AS_ODD(src[i])))                                                              \
    CASE(FLOAT8E4M3FN, uint8_t, f32_to_f8e4m3fn(AS_ODD(src[i]), saturate))                                             \
    CASE(FLOAT8E4M3FNUZ, uint8_t, f32_to_f8e4m3fnuz(AS_ODD(src[i]), saturate))                                         \
    CASE(FLOAT8E5M2, uint8_t, f32_to_f8e5m2(AS_ODD(src[i]), saturate))                                                 \
    CASE(FLOAT8E5M2FNUZ, uint8_t, f32_to_f8e5m2fnuz(AS_ODD(src[i]), saturate))                                         \
    CASE(FLOAT8E8M0, uint8_t, f32_to_f8e8m0(AS_ODD(src[i]), saturate, mode))                                           \
    NIBBLE(UINT4, (uint8_t)AS_I32(src[i]))                                                                             \
    NIBBLE(INT4, (uint8_t)AS_I32(src[i]))                                                                              \
    NIBBLE(FLOAT4E2M1, f32_to_f4e2m1(AS_ODD(src[i])))                                                                  \
    PAIR(UINT2, (uint8_t)AS_I32(src[i]))                                                                               \
    PAIR(INT2, (uint8_t)AS_I32(src[i]))
#define FROM_CASES FROM_NUMBERS FROM_ODD

#define CASE(NAME, T, EXPR)                                                                                            \
    case INLAY_##NAME: {                                                                                               \
        T *p = (T *)dst + first;                                                                                       \
        for (int64_t i = 0; i < count; i++)                                                                            \
            p[i] = EXPR;                                                                                               \
        break;                                                                                                         \
    }
#define NIBBLE(NAME, EXPR)                                                                                             \
    case INLAY_##NAME:                                                                                                 \
        for (int64_t i = 0; i < count; i++)                                                                            \
            set_u4(dst, first + i, EXPR);                                                                              \
        break;
#define PAIR(NAME, EXPR)                                                                                               \
    case INLAY_##NAME:                                                                                                 \
        for (int64_t i = 0; i < count; i++)                                                                            \
            set_u2(dst, first + i, EXPR);                                                                              \
        break;

#define AS_F32(x) (x)
#define AS_ODD(x) (x)
#define AS_I32(x) f32_to_i32(x)
#define AS_I64(x) f32_to_i64(x)
#define AS_U64(x) f64_to_u64((double)(x))
#define FROM_F32_AS(name, cases)                                                                                       \
    static KIT_MULTIVERSION void name(inlay_dtype to, void *restrict dst, int64_t first, int64_t count,                \
                                      const float *restrict src, uint32_t how)                                         \
    {                                                                                                                  \
        const bool saturate = (how & CONVERT_SATURATE) != 0;                                                           \
        const uint32_t mode = how >> CONVERT_E8M0_SHIFT & 3;                                                           \
                                                                                                                       \
        (void)saturate, (void)mode;                                                                                    \
        switch (to) {                                                                                                  \
            cases default : break;                                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    void part_##name(inlay_dtype to, void *dst, int64_t first, int64_t count, const float *src, uint32_t how)          \
    {                                                                                                                  \
        name(to, dst, first, count, src, how);                                                                         \
    }
FROM_F32_AS(numbers_from_f32, FROM_NUMBERS)
FROM_F32_AS(odd_from_f32, FROM_ODD)
#undef FROM_F32_AS

/* Integers of at most 64 bits of floats that int32 holds, for which every level has an instruction. False: src has
 * others. */
static KIT_MULTIVERSION bool small_from_f32(inlay_dtype to, void *restrict dst, int64_t first, int64_t count,
                                            const float *restrict src)
{
    uint32_t large = 0;

    for (int64_t i = 0; i < count; i++)
        large |= (f32_bits(src[i]) & 0x7fffffffu) >= 0x4f000000u; /* 2^31, infinity and NaN */
    if (large != 0)
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

static void numbers_by_blocks(inlay_dtype to, void *restrict dst, int64_t first, int64_t count,
                              const float *restrict src, uint32_t how)
{
    enum { BLOCK = 1024 };

    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t n = count - i < BLOCK ? count - i : BLOCK;

        if (!small_from_f32(to, dst, first + i, n, src + i))
            part_numbers_from_f32(to, dst, first + i, n, src + i, how);
    }
}

void convert_from_f32(inlay_dtype to, void *restrict dst, int64_t first, int64_t count, const float *restrict src,
                      uint32_t how)
{
    if (to == INLAY_FLOAT16)
        KERNEL_BEST(rows)->to_half(src, (uint16_t *)dst + first, count);
    else if (to == INLAY_UINT8 || to == INLAY_INT8 || to == INLAY_INT32 || to == INLAY_INT64)
        numbers_by_blocks(to, dst, first, count, src, how);
    else if (to != INLAY_FLOAT)
        (is_number(to) ? part_numbers_from_f32 : part_odd_from_f32)(to, dst, first, count, src, how);
    else if (count > 0)
        memcpy((float *)dst + first, src, (size_t)count * sizeof *src);
}
#undef AS_F32
#undef AS_ODD
#undef AS_I32
#undef AS_I64
#undef AS_U64
#define AS_F32(x) ((float)(x))
#define AS_ODD(x) f64_to_f32_odd((double)(x))
#define AS_I32(x) f64_to_i32(x)
#define AS_I64(x) f64_to_i64(x)
#define AS_U64(x) f64_to_u64(x)

static inline int32_t f64_to_i32(double x)
{
    double low = x > -2147483648.0 ? x : -2147483648.0;
    int32_t i = (int32_t)(low < 2147483647.0 ? low : 2147483647.0);
    return x != x ? 0 : i;
}

void part_from_f64(inlay_dtype to, void *dst, int64_t first, int64_t count, const double *src, uint32_t how)
{
    (void)how;
    switch (to) {
        FROM_NUMBERS
    default:
        break;
    }
}

/* Small rather than fast: few models make eighths and nibbles of doubles. */
__attribute__((cold)) void part_odd_from_f64(inlay_dtype to, void *dst, int64_t first, int64_t count, const double *src,
                                             uint32_t how)
{
    bool saturate = (how & CONVERT_SATURATE) != 0;
    uint32_t mode = how >> CONVERT_E8M0_SHIFT & 3;

    switch (to) {
        FROM_ODD
    default:
        break;
    }
}

void convert_from_f64(inlay_dtype to, void *restrict dst, int64_t first, int64_t count, const double *restrict src,
                      uint32_t how)
{
    if (to != INLAY_FLOAT && to != INLAY_DOUBLE)
        (is_number(to) ? part_from_f64 : part_odd_from_f64)(to, dst, first, count, src, how);
    else if (to == INLAY_FLOAT)
        for (int64_t i = 0; i < count; i++)
            ((float *)dst)[first + i] = (float)src[i];
    else if (count > 0)
        memcpy((double *)dst + first, src, (size_t)count * sizeof *src);
}
#undef AS_I32
#undef AS_I64
#undef AS_U64
#define AS_I32(x) ((int32_t)(x))
#define AS_I64(x) (x)
#define AS_U64(x) ((uint64_t)(x))
void convert_from_i64(inlay_dtype to, void *restrict dst, int64_t first, int64_t count, const int64_t *restrict src,
                      uint32_t how)
{
    bool saturate = (how & CONVERT_SATURATE) != 0;
    uint32_t mode = how >> CONVERT_E8M0_SHIFT & 3;

    switch (to) {
        FROM_CASES
    default:
        break;
    }
}
