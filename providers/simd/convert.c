/* convert.c - conversion of ranges of any element type.
 *
 * The loops from and to float, to int64, and from double to common integers, are compiled for each instruction set
 * (convert_loops.c). The others from and to double and from int64 are compiled once: with two dozen types each, and
 * rarely used, they would be a twentieth of the plugin. */
#include "simd/convert_cases.h"
#include "inlay/check.h"
#include "simd/convert_loops.h"
#include "simd/row_set.h"
#include <string.h>

enum { NIBBLES = 256 };

/* Converts whole bytes of 4-bit integers to float; returns the number of elements converted. */
static int64_t nibbles_to_f32(float *dst, const void *src, int64_t first, int64_t count, bool is_signed)
{
    int8_t bytes[NIBBLES] = { 0 };
    int64_t done = 0;

    INLAY_CHECK(first >= 0 && count >= 0);
    for (; first % 2 == 0 && count - done >= 2;) {
        int64_t n = count - done < NIBBLES ? (count - done) / 2 * 2 : NIBBLES;
        KERNEL_BEST(convert_loops)->nibbles(bytes, (const uint8_t *)src + (first + done) / 2, n / 2, is_signed);
        for (int64_t i = 0; i < n; i++)
            dst[done + i] = (float)bytes[i];
        done += n;
    }
    return done;
}

/* Separate functions for rare types, so that programs of `inlay bundle` include only those that their model uses. */
void part_to_f64(double *dst, inlay_dtype from, const void *src, int64_t first, int64_t count);
void part_from_f64(inlay_dtype to, void *dst, int64_t first, int64_t count, const double *src, uint32_t how);
void part_odd_from_f64(inlay_dtype to, void *dst, int64_t first, int64_t count, const double *src, uint32_t how);

static bool is_number(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT || dtype == INLAY_DOUBLE || dtype == INLAY_BOOL || dtype == INLAY_UINT8 ||
           dtype == INLAY_INT8 || dtype == INLAY_UINT16 || dtype == INLAY_INT16 || dtype == INLAY_INT32 ||
           dtype == INLAY_INT64 || dtype == INLAY_UINT32 || dtype == INLAY_UINT64;
}

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
        (is_number(from) ? KERNEL_BEST(convert_loops)->numbers_to_f32
                         : KERNEL_BEST(convert_loops)->odd_to_f32)(dst, from, src, first, count);
    else if (count > 0)
        memcpy(dst, (const float *)src + first, (size_t)count * sizeof *dst);
}
#define CASE READ_CASE
#define PACKED READ_PACKED
#define FROM_F32(x) (x)
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
#undef CASE
#undef PACKED
#undef FROM_F64
#undef FROM_F32

void convert_to_i64(int64_t *restrict dst, inlay_dtype from, const void *restrict src, int64_t first, int64_t count)
{
    KERNEL_BEST(convert_loops)->to_i64(dst, from, src, first, count);
}

static void numbers_by_blocks(inlay_dtype to, void *restrict dst, int64_t first, int64_t count,
                              const float *restrict src, uint32_t how)
{
    enum { BLOCK = 1024 };
    const convert_loops *const loops = KERNEL_BEST(convert_loops);

    /* Only some data need this function, but programs of `inlay bundle` include what a first run calls. */
    loops->numbers_from_f32(to, dst, first, 0, src, how);
    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t n = count - i < BLOCK ? count - i : BLOCK;

        if (!loops->small_from_f32(to, dst, first + i, n, src + i))
            loops->numbers_from_f32(to, dst, first + i, n, src + i, how);
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
        (is_number(to) ? KERNEL_BEST(convert_loops)->numbers_from_f32
                       : KERNEL_BEST(convert_loops)->odd_from_f32)(to, dst, first, count, src, how);
    else if (count > 0)
        memcpy((float *)dst + first, src, (size_t)count * sizeof *src);
}
#define CASE WRITE_CASE
#define NIBBLE WRITE_NIBBLE
#define PAIR WRITE_PAIR
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

/* Optimised for size: few models convert double to 8-bit floats or 4-bit types. */
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

static void halves_from_f64(uint16_t *dst, const double *src, int64_t count)
{
    enum { BLOCK = 256 };
    float odd[BLOCK];

    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < BLOCK ? count - i : BLOCK;
        for (int64_t k = 0; k < n; k++)
            odd[k] = f64_to_f32_odd(src[i + k]);
        KERNEL_BEST(rows)->to_half(odd, dst + i, n);
    }
}

static void integers_from_f64(inlay_dtype to, void *restrict dst, int64_t first, int64_t count,
                              const double *restrict src, uint32_t how)
{
    enum { BLOCK = 1024 };

    part_from_f64(to, dst, first, 0, src, how); /* as above */
    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t n = count - i < BLOCK ? count - i : BLOCK;

        if (!KERNEL_BEST(convert_loops)->small_from_f64(to, dst, first + i, n, src + i))
            part_from_f64(to, dst, first + i, n, src + i, how);
    }
}

void convert_from_f64(inlay_dtype to, void *restrict dst, int64_t first, int64_t count, const double *restrict src,
                      uint32_t how)
{
    if (to == INLAY_FLOAT16)
        halves_from_f64((uint16_t *)dst + first, src, count);
    else if (to == INLAY_UINT8 || to == INLAY_INT8 || to == INLAY_UINT16 || to == INLAY_INT16 || to == INLAY_INT32 ||
             to == INLAY_INT64)
        integers_from_f64(to, dst, first, count, src, how);
    else if (to != INLAY_FLOAT && to != INLAY_DOUBLE)
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

    if (to == INLAY_FLOAT) {
        KERNEL_BEST(convert_loops)->i64_to_f32((float *)dst + first, src, count);
        return;
    }
    switch (to) {
        FROM_CASES
    default:
        break;
    }
}
