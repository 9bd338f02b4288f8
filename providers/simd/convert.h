/* convert.h - conversion of element types to and from float, double and int64.
 *
 * There are two layers. The inline functions convert one element without branches that depend on data, so loops over
 * them vectorise; kernels use them as LOAD and STORE. The convert_* functions convert ranges of a packed tensor of any
 * element type, including sub-byte types; kernels that compute in float for every type use them block by block.
 *
 * Rounding is to nearest, ties to even, except in FLOAT8E8M0. The formats are those of ONNX's pages "Float stored in 8
 * bits", "4 bit floating point" and "4/2 bit integer". */
#ifndef CONVERT_H
#define CONVERT_H
#include "inlay/types.h"
#include <stdbool.h>
#include <string.h>

static inline uint32_t f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline float f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
static inline uint64_t f64_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline double f64_from_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* input[i] * weight; 0 for i = -1. Has no branches, so a loop over it compiles to gathers. */
static inline float convert_picked(const float *input, int32_t i, float weight)
{
    const uint32_t outside = (uint32_t)(i >> 31);

    return f32_from_bits(f32_bits(input[i & (int32_t)~outside] * weight) & ~outside);
}

/* double to float, rounded to odd: the lowest bit is set if the conversion is inexact, so that a second rounding to a
 * format of at most 22 significant bits gives the same result as one rounding of the double. */
static inline float f64_to_f32_odd(double x)
{
    float f = (float)x;
    double back = (double)f;
    uint32_t u = f32_bits(f);
    bool inexact = back != x && back == back;
    bool above = (x < 0 ? -back : back) > (x < 0 ? -x : x);

    u -= inexact && above;
    return f32_from_bits(inexact ? u | 1 : u);
}

static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, m = h & 0x7fffu;
    uint32_t normal = (m << 13) + (112u << 23);
    uint32_t special = (m << 13) + (224u << 23);
    /* A subnormal m is m * 2^-24: added to the bits of 0.5 it is 0.5 + m * 2^-24, exactly. */
    uint32_t subnormal = f32_bits(f32_from_bits(m + 0x3f000000u) - 0.5f);
    uint32_t u = m < 0x400u ? subnormal : m < 0x7c00u ? normal : special;

    return f32_from_bits(u | sign);
}

static inline uint16_t f32_to_f16(float x)
{
    uint32_t u = f32_bits(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    uint32_t normal = (a + 0xc8000fffu + (a >> 13 & 1u)) >> 13;
    uint32_t subnormal = f32_bits(f32_from_bits(a < 0x38800000u ? a : 0u) + 0.5f) - 0x3f000000u;
    uint32_t special = a > 0x7f800000u ? 0x7e00u : 0x7c00u;
    uint32_t h = a < 0x38800000u ? subnormal : a < 0x47800000u ? normal : special;

    return (uint16_t)(h | sign);
}

static inline float bf16_to_f32(uint16_t b)
{
    return f32_from_bits((uint32_t)b << 16);
}

static inline uint16_t f32_to_bf16(float x)
{
    uint32_t u = f32_bits(x);
    uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    uint32_t nan = u >> 16 | 0x40u;

    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

/* 8 and 4 bits.
 *
 * One routine decodes and one encodes a sign-magnitude format; calls with constants fold. man is the number of mantissa
 * bits; the code of a magnitude is exponent << man | mantissa, exponent 0 being subnormal. */

static inline float small_to_f32(uint32_t code, uint32_t man, uint32_t bias)
{
    uint32_t normal = (code << (23u - man)) + ((127u - bias) << 23);
    float subnormal = (float)(int32_t)code * f32_from_bits((128u - bias - man) << 23);

    return code >> man == 0 ? subnormal : f32_from_bits(normal);
}

/* The code of |x| without saturation: NaN, infinity and values out of range give a code above the maximum. */
static inline uint32_t f32_to_small(float x, uint32_t man, uint32_t bias)
{
    uint32_t a = f32_bits(x) & 0x7fffffffu, first_normal = (128u - bias) << 23;
    uint32_t normal = (a + (1u << (22u - man)) - 1u + (a >> (23u - man) & 1u)) >> (23u - man);
    /* Scaled so that one step of the subnormals is 1, and rounded by adding 2^23. */
    float steps = f32_from_bits(a < first_normal ? a : 0u) * f32_from_bits((126u + bias + man) << 23);
    uint32_t subnormal = f32_bits(steps + 8388608.0f) - 0x4b000000u;

    return a < first_normal ? subnormal : normal - ((127u - bias) << man);
}

static inline float f8e4m3fn_to_f32(uint8_t b)
{
    uint32_t u = f32_bits(small_to_f32(b & 0x7fu, 3, 7));
    u = (b & 0x7fu) == 0x7fu ? 0x7fc00000u : u;
    return f32_from_bits(u | (uint32_t)(b & 0x80u) << 24);
}
static inline float f8e5m2_to_f32(uint8_t b)
{
    uint32_t m = b & 0x7fu, u = f32_bits(small_to_f32(m, 2, 15));
    u = m > 0x7cu ? 0x7fc00000u : m == 0x7cu ? 0x7f800000u : u;
    return f32_from_bits(u | (uint32_t)(b & 0x80u) << 24);
}
static inline float f8e4m3fnuz_to_f32(uint8_t b)
{
    uint32_t u = f32_bits(small_to_f32(b & 0x7fu, 3, 8)) | (uint32_t)(b & 0x80u) << 24;
    return f32_from_bits(b == 0x80u ? 0x7fc00000u : u);
}
static inline float f8e5m2fnuz_to_f32(uint8_t b)
{
    uint32_t u = f32_bits(small_to_f32(b & 0x7fu, 2, 16)) | (uint32_t)(b & 0x80u) << 24;
    return f32_from_bits(b == 0x80u ? 0x7fc00000u : u);
}
static inline float f8e8m0_to_f32(uint8_t b)
{
    uint32_t u = b == 0 ? 0x00400000u : (uint32_t)b << 23;
    return f32_from_bits(b == 0xffu ? 0x7fc00000u : u);
}
static inline float f4e2m1_to_f32(uint8_t nibble)
{
    uint32_t u = f32_bits(small_to_f32(nibble & 7u, 1, 1));
    return f32_from_bits(u | (uint32_t)(nibble & 8u) << 28);
}

/* saturate: values out of range become the largest finite value; otherwise NaN, in E5M2 infinity (Cast-19). */
static inline uint8_t f32_to_f8e4m3fn(float x, bool saturate)
{
    uint32_t code = f32_to_small(x, 3, 7), sign = f32_bits(x) >> 24 & 0x80u;
    code = code > 0x7eu ? (saturate ? 0x7eu : 0x7fu) : code;
    return (uint8_t)((x != x ? 0x7fu : code) | sign);
}
static inline uint8_t f32_to_f8e5m2(float x, bool saturate)
{
    uint32_t code = f32_to_small(x, 2, 15), sign = f32_bits(x) >> 24 & 0x80u;
    code = code > 0x7bu ? (saturate ? 0x7bu : 0x7cu) : code;
    return (uint8_t)((x != x ? 0x7eu : code) | sign);
}
static inline uint8_t small_fnuz(float x, uint32_t code, bool saturate)
{
    uint32_t sign = f32_bits(x) >> 24 & 0x80u;
    uint32_t value = code > 0x7fu ? (saturate ? 0x7fu | sign : 0x80u) : code == 0 ? 0u : code | sign;
    return (uint8_t)(x != x ? 0x80u : value);
}
static inline uint8_t f32_to_f8e4m3fnuz(float x, bool saturate)
{
    return small_fnuz(x, f32_to_small(x, 3, 8), saturate);
}
static inline uint8_t f32_to_f8e5m2fnuz(float x, bool saturate)
{
    return small_fnuz(x, f32_to_small(x, 2, 16), saturate);
}
/* Powers of two without sign. Cast-24: `up` away from zero (the default), `down` towards it, `nearest` ties up. */
enum { E8M0_UP = 0, E8M0_DOWN = 1, E8M0_NEAREST = 2 };
static inline uint8_t f32_to_f8e8m0(float x, bool saturate, uint32_t mode)
{
    uint32_t a = f32_bits(x) & 0x7fffffffu;
    /* Below 2^-126 the mantissa is the value: 2^-127 (code 0) is 0x400000, halfway to 2^-126 is 0x600000. */
    uint32_t low = a > (mode == E8M0_UP ? 0x400000u : mode == E8M0_DOWN ? 0x7fffffu : 0x5fffffu);
    uint32_t add = mode == E8M0_UP ? 0x7fffffu : mode == E8M0_DOWN ? 0u : 0x400000u;
    uint32_t code = a < 0x00800000u ? low : (a + add) >> 23;

    code = code > 0xfeu ? (saturate ? 0xfeu : 0xffu) : code;
    return (uint8_t)(x != x ? 0xffu : code);
}
/* Returns a nibble. The format has no infinity and no NaN: values out of range become 6, NaN becomes -0. */
static inline uint8_t f32_to_f4e2m1(float x)
{
    uint32_t code = f32_to_small(x, 1, 1), sign = f32_bits(x) >> 28 & 8u;
    code = code > 7u ? 7u : code;
    return (uint8_t)(x != x ? 8u : code | sign);
}

/* Element i of a tensor of 4-bit or 2-bit elements, zero-extended. */
static inline uint8_t get_u4(const void *data, int64_t i)
{
    return (uint8_t)(((const uint8_t *)data)[i >> 1] >> (i & 1) * 4 & 15);
}
static inline uint8_t get_u2(const void *data, int64_t i)
{
    return (uint8_t)(((const uint8_t *)data)[i >> 2] >> (i & 3) * 2 & 3);
}
/* Sets element i without changing the other elements of the byte. Two threads must not share a byte. */
static inline void set_u4(void *data, int64_t i, uint8_t value)
{
    uint8_t *p = (uint8_t *)data + (i >> 1);
    int shift = (int)(i & 1) * 4;
    *p = (uint8_t)((*p & ~(15 << shift)) | (value & 15) << shift);
}
static inline void set_u2(void *data, int64_t i, uint8_t value)
{
    uint8_t *p = (uint8_t *)data + (i >> 2);
    int shift = (int)(i & 3) * 2;
    *p = (uint8_t)((*p & ~(3 << shift)) | (value & 3) << shift);
}
/* Sign extension of the results of get_u4 and get_u2. */
static inline int8_t s4(uint8_t nibble)
{
    return (int8_t)((nibble ^ 8) - 8);
}
static inline int8_t s2(uint8_t pair)
{
    return (int8_t)((pair ^ 2) - 2);
}

/* Floats to integers.
 *
 * Truncation towards zero. ONNX does not define values out of range; here they saturate at 32 and 64 bits and NaN gives
 * 0, so that no behaviour is undefined. Narrower types are truncated from these and wrap, as on common CPUs. */

static inline int32_t f32_to_i32(float x)
{
    float low = x > -2147483648.0f ? x : -2147483648.0f; /* NaN gives the bound */
    int32_t i = (int32_t)(low < 2147483520.0f ? low : 2147483520.0f);
    i = x >= 2147483648.0f ? INT32_MAX : i;
    return x != x ? 0 : i;
}
static inline int64_t f64_to_i64(double x)
{
    double low = x > -9223372036854775808.0 ? x : -9223372036854775808.0;
    int64_t i = (int64_t)(low < 9223372036854774784.0 ? low : 9223372036854774784.0);
    i = x >= 9223372036854775808.0 ? INT64_MAX : i;
    return x != x ? 0 : i;
}
static inline int64_t f32_to_i64(float x)
{
    return f64_to_i64((double)x);
}
/* Negative values wrap like their int64. */
static inline uint64_t f64_to_u64(double x)
{
    double high = x >= 9223372036854775808.0 ? x - 9223372036854775808.0 : 0.0;
    uint64_t upper = high >= 9223372036854775808.0 ? UINT64_MAX : (uint64_t)f64_to_i64(high) + (UINT64_C(1) << 63);
    return x >= 9223372036854775808.0 ? upper : (uint64_t)f64_to_i64(x);
}

/* Ranges.
 *
 * Convert elements [first, first + count) of a dense tensor of any type; nothing happens for STRING and COMPLEX*.
 * Sub-byte outputs may share a byte with an adjacent range, so ranges of different threads must start at multiples of
 * 4. */

/* Bits of how: */
enum {
    CONVERT_SATURATE = 1u << 0, /* float8: the largest value instead of NaN or infinity */
    CONVERT_E8M0_SHIFT = 1      /* how >> 1 & 3 is E8M0_* */
};
void convert_to_f32(float *dst, inlay_dtype from, const void *src, int64_t first, int64_t count);
void convert_to_f64(double *dst, inlay_dtype from, const void *src, int64_t first, int64_t count);
void convert_to_i64(int64_t *dst, inlay_dtype from, const void *src, int64_t first, int64_t count);
void convert_from_f32(inlay_dtype to, void *dst, int64_t first, int64_t count, const float *src, uint32_t how);
void convert_from_f64(inlay_dtype to, void *dst, int64_t first, int64_t count, const double *src, uint32_t how);
void convert_from_i64(inlay_dtype to, void *dst, int64_t first, int64_t count, const int64_t *src, uint32_t how);

/* Converts one element, for scalar parameters of a kernel. */
static inline double convert_get_f64(inlay_dtype from, const void *src, int64_t i)
{
    double x = 0;
    convert_to_f64(&x, from, src, i, 1);
    return x;
}
static inline int64_t convert_get_i64(inlay_dtype from, const void *src, int64_t i)
{
    int64_t x = 0;
    convert_to_i64(&x, from, src, i, 1);
    return x;
}
#endif
