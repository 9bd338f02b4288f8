/* vecmath.h - elementary functions of float for loops that vectorise.
 *
 * Each function is a short branch-free sequence of additions, multiplications and selects, so GCC and Clang vectorise
 * loops over it on any instruction set; from AVX2 on, multiplications and additions are fused. Errors are given in
 * units in the last place (ulp), measured over all floats of the stated range (tests/ops/vecmath.c). Special values
 * follow C's Annex F: NaN gives NaN; the result is infinite where the limit is. Subnormal results of vm_exp are
 * rounded to a multiple of 2^-149; the functions do not depend on a floating-point mode of the CPU.
 *
 * The coefficients are weighted minimax fits made for this file. */
#ifndef VECMATH_H
#define VECMATH_H
#include "simd/convert.h"
#include <math.h>

/* Rounds to the nearest integer by pushing the fraction out of the mantissa; |x| below 2^22. */
static inline float vm_round(float x)
{
    return (x + 12582912.0f) - 12582912.0f;
}

/* 2^n for integer n in [-126, 127], as float. */
static inline float vm_pow2i(float n)
{
    return f32_from_bits((uint32_t)((int32_t)n + 127) << 23);
}

static inline float vm_abs(float x)
{
    return f32_from_bits(f32_bits(x) & 0x7fffffffu);
}
/* |magnitude| with the sign of sign. */
static inline float vm_copysign(float magnitude, float sign)
{
    return f32_from_bits((f32_bits(magnitude) & 0x7fffffffu) | (f32_bits(sign) & 0x80000000u));
}

/* ln 2 in two parts; n times the first is exact for |n| < 2^9. */
#define VM_LN2_HIGH 0.693145751953125f
#define VM_LN2_LOW 1.42860682e-06f
#define VM_INFINITY f32_from_bits(0x7f800000u)
#define VM_NAN f32_from_bits(0x7fc00000u)

/* (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2. */
static inline float vm_exp_tail(float r)
{
    float p = 1.9739558e-4f;
    p = p * r + 1.39350968e-3f;
    p = p * r + 8.33357126e-3f;
    p = p * r + 4.1666463e-2f;
    p = p * r + 1.66666657e-1f;
    return p * r + 0.5f;
}

/* e^x, 1 ulp. 0 below -103.98, infinity above 88.72. */
static inline float vm_exp(float x)
{
    float c = x < 89.0f ? x : 89.0f;
    c = c > -104.0f ? c : -104.0f;
    float n = vm_round(c * 1.44269504f);
    float r = c - n * VM_LN2_HIGH;
    r = r - n * VM_LN2_LOW;
    float y = vm_exp_tail(r) * (r * r) + r + 1.0f;
    /* 2^n in two factors, as n reaches from -150 to 128. */
    float half = vm_round(n * 0.5f);
    y = y * vm_pow2i(half) * vm_pow2i(n - half);
    return x != x ? x : y;
}

/* e^x - 1, 2 ulp, near 0 too. */
static inline float vm_expm1(float x)
{
    float c = x < 89.0f ? x : 89.0f;
    c = c > -30.0f ? c : -30.0f;
    float n = vm_round(c * 1.44269504f);
    float r = c - n * VM_LN2_HIGH;
    r = r - n * VM_LN2_LOW;
    float low = vm_exp_tail(r) * (r * r) + r; /* e^r - 1 */
    float half = vm_round(n * 0.5f), a = vm_pow2i(half), b = vm_pow2i(n - half);
    /* 2^n (e^r - 1) + (2^n - 1). From n = 64 on the 1 has no influence, and two factors keep 2^n finite. */
    float scale = n < 64.0f ? a * b : 0.0f;
    float y = n < 64.0f ? low * scale + (scale - 1.0f) : (low + 1.0f) * a * b;
    y = n == 0.0f ? low : y;
    return x != x ? x : y;
}

/* ln x, 1 ulp. -infinity at 0, NaN below. */
static inline float vm_log(float x)
{
    bool tiny = x < 1.17549435e-38f; /* subnormals are scaled up */
    float scaled = tiny ? x * 33554432.0f : x;
    uint32_t v = f32_bits(scaled) - 0x3f3504f3u; /* relative to sqrt(1/2) */
    float e = (float)((int32_t)v >> 23) - (tiny ? 25.0f : 0.0f);
    float m = f32_from_bits((v & 0x007fffffu) + 0x3f3504f3u) - 1.0f; /* sqrt(1/2) - 1 <= m < sqrt(2) - 1 */
    float z = m * m, p = 6.74915463e-2f;
    p = p * m - 1.16700068e-1f;
    p = p * m + 1.18835397e-1f;
    p = p * m - 1.24062411e-1f;
    p = p * m + 1.42203599e-1f;
    p = p * m - 1.66679889e-1f;
    p = p * m + 2.00020716e-1f;
    p = p * m - 2.50000089e-1f;
    p = p * m + 3.33333135e-1f;
    float y = m * z * p + e * VM_LN2_LOW;
    y = y - 0.5f * z;
    y = m + y + e * VM_LN2_HIGH;
    y = x > 3.40282347e38f ? VM_INFINITY : y;
    y = x == 0.0f ? -VM_INFINITY : y;
    y = x < 0.0f ? VM_NAN : y;
    return x != x ? x : y;
}

/* ln(1 + x) for x >= 0, 2 ulp; Softplus and Mish apply it to e^-|x|. */
static inline float vm_log1p(float x)
{
    float s = 1.0f + x, lost = x - (s - 1.0f); /* rounding error of the addition */
    float y = vm_log(s) + lost / s;
    return x > 3.40282347e38f ? x : y;
}

/* 1 / (1 + e^-x), 3 ulp. */
static inline float vm_sigmoid(float x)
{
    float e = vm_exp(-vm_abs(x)); /* at most 1: no overflow */
    float d = 1.0f / (1.0f + e);
    return x < 0.0f ? e * d : d;
}

/* tanh x, 2 ulp. */
static inline float vm_tanh(float x)
{
    float a = vm_abs(x), z = x * x, p = -5.5147768e-3f;
    p = p * z + 2.04690564e-2f;
    p = p * z - 5.36879115e-2f;
    p = p * z + 1.33308291e-1f;
    p = p * z - 3.33332598e-1f;
    float low = a + a * z * p;
    float high = 1.0f - 2.0f / (vm_exp(a + a) + 1.0f);
    return vm_copysign(a < 0.625f ? low : high, x);
}

/* erf x for |x| < 0.92, 1 ulp. */
static inline float vm_erf_low(float x)
{
    float z = x * x, p = 7.99664995e-5f;
    p = p * z - 8.04976968e-4f;
    p = p * z + 5.19240508e-3f;
    p = p * z - 2.68557314e-2f;
    p = p * z + 1.12836257e-1f;
    p = p * z - 3.76126289e-1f;
    p = p * z + 1.28379166e-1f;
    return x + x * p;
}

/* erfc x for 0.92 <= x <= 4.5, relative error below 4e-6 (below 2e-7 up to 2.5); 0 above, where it is below 2e-10. */
static inline float vm_erfc_high(float x)
{
    float p = 1.46600166e-6f;
    p = p * x - 4.28335225e-5f;
    p = p * x + 5.71162731e-4f;
    p = p * x - 4.6473844e-3f;
    p = p * x + 2.61259396e-2f;
    p = p * x - 1.09602086e-1f;
    p = p * x - 6.32291675e-1f;
    p = p * x - 1.12998354f;
    p = p * x + 2.63461901e-4f;
    return x > 4.5f ? 0.0f : vm_exp(p);
}

/* x / 2 (1 + erf(x / sqrt 2)), Gelu-20 without approximation. Below 0, erfc is used, so that nothing cancels: relative
 * error below 1e-5 down to x = -6.3, 0 below that (where the true value is above -1e-9). NaN at -infinity, which is
 * multiplied by 0. */
static inline float vm_gelu(float x)
{
    float t = x * 0.707106781f, a = vm_abs(t);
    float low = 0.5f * x * (1.0f + vm_erf_low(a < 0.92f ? t : 0.0f));
    float tail = 0.5f * x * vm_erfc_high(a);
    float y = a < 0.92f ? low : x < 0.0f ? tail : x - tail;
    y = x > 3.40282347e38f ? x : x < -3.40282347e38f ? x * 0.0f : y;
    return x != x ? x : y;
}

/* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), Gelu-20 with approximate = tanh; 1 + tanh z = 2 sigmoid(2z). NaN
 * at -infinity. */
static inline float vm_gelu_tanh(float x)
{
    return x * vm_sigmoid(1.59576912f * (x + 0.044715f * x * x * x));
}

/* x = n pi/2 + r with |r| <= pi/4, through double with 33 + 53 bits of pi/2: good for |x| < VM_TRIG_MAX. Beyond that
 * (and for infinities) callers use sinf, cosf, tanf. Returns r and the quadrant n modulo 2^32. */
#define VM_TRIG_MAX 1.0e6f
static inline float vm_quadrant(float x, uint32_t *out_quadrant)
{
    double n = ((double)x * 0.63661977236758134 + 6755399441055744.0) - 6755399441055744.0;

    *out_quadrant = (uint32_t)(int32_t)n;
    return (float)(((double)x - n * 1.5707963267341256) - n * 6.0771005065061922e-11);
}

/* sin r and cos r for |r| <= pi/4. */
static inline float vm_sin_low(float r)
{
    float z = r * r, s = 2.83268014e-6f;
    s = s * z - 1.98530717e-4f;
    s = s * z + 8.3333794e-3f;
    s = s * z - 1.66666672e-1f;
    return s * z * r + r;
}
static inline float vm_cos_low(float r)
{
    float z = r * r, c = -2.88784491e-7f;
    c = c * z + 2.48220076e-5f;
    c = c * z - 1.388898e-3f;
    c = c * z + 4.16666679e-2f;
    return c * z * z - 0.5f * z + 1.0f;
}

/* sin x, cos x, 2 ulp; tan x, 3 ulp. */
static inline float vm_sin(float x)
{
    uint32_t q;
    float r = vm_quadrant(x, &q), s = vm_sin_low(r), c = vm_cos_low(r);
    float y = (q & 1u) != 0 ? c : s;
    return f32_from_bits(f32_bits(y) ^ (q & 2u) << 30);
}
static inline float vm_cos(float x)
{
    uint32_t q;
    float r = vm_quadrant(x, &q), s = vm_sin_low(r), c = vm_cos_low(r);
    float y = (q & 1u) != 0 ? s : c;
    return f32_from_bits(f32_bits(y) ^ ((q + 1u) & 2u) << 30);
}
static inline float vm_tan(float x)
{
    uint32_t q;
    float r = vm_quadrant(x, &q), s = vm_sin_low(r), c = vm_cos_low(r);
    return (q & 1u) != 0 ? -c / s : s / c;
}

/* sinh x and cosh x, 3 ulp. e^|x| is computed as a square, because it overflows before the result does. */
static inline float vm_sinh(float x)
{
    float a = vm_abs(x), e = vm_expm1(a), h = vm_exp(a * 0.5f);
    float y = a < 40.0f ? 0.5f * (e + e / (e + 1.0f)) : (0.5f * h) * h;
    return vm_copysign(y, x);
}
static inline float vm_cosh(float x)
{
    float h = vm_exp(vm_abs(x) * 0.5f), e = h * h;
    return vm_abs(x) < 40.0f ? 0.5f * e + 0.5f / e : (0.5f * h) * h;
}

/* pi / 2 as the sum of two floats. */
#define VM_HALF_PI_HIGH 1.57079637f
#define VM_HALF_PI_LOW -4.37113883e-8f

/* atan x, 2 ulp. */
static inline float vm_atan(float x)
{
    float a = vm_abs(x), t = a > 1.0f ? 1.0f / a : a, z = t * t, p = -1.79362227e-3f;
    p = p * z + 1.09146088e-2f;
    p = p * z - 3.11778504e-2f;
    p = p * z + 5.79576008e-2f;
    p = p * z - 8.403451e-2f;
    p = p * z + 1.09521858e-1f;
    p = p * z - 1.42642424e-1f;
    p = p * z + 1.99985489e-1f;
    p = p * z - 3.33332986e-1f;
    float y = t + t * z * p;
    return vm_copysign(a > 1.0f ? (VM_HALF_PI_HIGH - y) + VM_HALF_PI_LOW : y, x);
}

/* The arc sine of |x| if |x| <= 1/2, otherwise half the arc cosine of |x|. */
static inline float vm_asin_part(float x)
{
    float a = vm_abs(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a, s = a > 0.5f ? sqrtf(z) : a, p = 4.21663076e-2f;
    p = p * z + 2.41795145e-2f;
    p = p * z + 4.54703756e-2f;
    p = p * z + 7.49529749e-2f;
    p = p * z + 1.66667521e-1f;
    return s + s * z * p;
}
/* asin x, 2 ulp. */
static inline float vm_asin(float x)
{
    float y = vm_asin_part(x);
    return vm_copysign(vm_abs(x) > 0.5f ? (VM_HALF_PI_HIGH - 2.0f * y) + VM_HALF_PI_LOW : y, x);
}
/* acos x, 2 ulp. */
static inline float vm_acos(float x)
{
    float y = vm_asin_part(x), low = (VM_HALF_PI_HIGH - vm_copysign(y, x)) + VM_HALF_PI_LOW;
    float high = x > 0.0f ? 2.0f * y : 2.0f * ((VM_HALF_PI_HIGH - y) + VM_HALF_PI_LOW);
    return vm_abs(x) > 0.5f ? high : low;
}

/* asinh x, 4 ulp. */
static inline float vm_asinh(float x)
{
    float a = vm_abs(x), square = a * a;
    bool large = a > 1e9f; /* asinh a = ln 2a */
    float y = vm_log1p(large ? a : a + square / (1.0f + sqrtf(1.0f + square)));
    return vm_copysign(large ? y + 0.693147182f : y, x);
}
/* atanh x, 4 ulp. */
static inline float vm_atanh(float x)
{
    float a = vm_abs(x);
    return vm_copysign(0.5f * vm_log1p(2.0f * a / (1.0f - a)), x);
}

/* Adding this constant rounds a double to an integer, which is then in the lowest bits. */
#define VD_INTEGER 6755399441055744.0
/* e^r - 1 - r for |r| <= ln 2 / 2. */
static inline double vd_exp_tail(double r)
{
    double p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    return p * (r * r);
}
/* x = n ln 2 + r. */
static inline double vd_reduce(double x, double *out_n)
{
    double n = (x * 1.4426950408889634 + VD_INTEGER) - VD_INTEGER;

    *out_n = n;
    return (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
}
/* 2^n for integer n in [-1022, 1023]. */
static inline double vd_pow2i(double n)
{
    return f64_from_bits((f64_bits(n + VD_INTEGER) + 1023) << 52);
}

/* e^x, 2 ulp. */
static inline double vd_exp(double x)
{
    double low = x > -746 ? x : -746, n, r = vd_reduce(low < 710 ? low : 710, &n);
    double half = (n * 0.5 + VD_INTEGER) - VD_INTEGER;
    double y = (vd_exp_tail(r) + r + 1.0) * vd_pow2i(half) * vd_pow2i(n - half);
    return x != x ? x : y;
}

/* ln x, 1 ulp. -infinity at 0, NaN below. ln m = f - f^2 / 2 + s (f^2 / 2 + r), where f = m - 1 and s = f / (2 + f); r
 * are the terms of 2 artanh s from s^2 on. */
static inline double vd_log(double x)
{
    bool tiny = x < 2.2250738585072014e-308;                                         /* subnormals are scaled up */
    uint64_t v = f64_bits(tiny ? x * 18014398509481984.0 : x) - 0x3fe6a09e667f3bcdu; /* relative to sqrt(1/2) */
    /* The exponent plus 2048 becomes the low bits of 2^52: AVX2 neither shifts nor converts signed 64-bit integers. */
    double e = f64_from_bits(((v ^ 0x8000000000000000u) >> 52) | 0x4330000000000000u) - (4503599627370496.0 + 2048.0) -
               (tiny ? 54.0 : 0.0);
    double f = f64_from_bits((v & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
    double s = f / (2.0 + f), z = s * s, square = 0.5 * f * f, r = 2.0 / 23;

    r = r * z + 2.0 / 21;
    r = r * z + 2.0 / 19;
    r = r * z + 2.0 / 17;
    r = r * z + 2.0 / 15;
    r = r * z + 2.0 / 13;
    r = r * z + 2.0 / 11;
    r = r * z + 2.0 / 9;
    r = r * z + 2.0 / 7;
    r = r * z + 2.0 / 5;
    r = r * z + 2.0 / 3;
    double y = e * 0.693147180369123816490 - ((square - (s * (square + r * z) + e * 1.90821492927058770002e-10)) - f);
    y = x > 1.7976931348623157e308 ? (double)VM_INFINITY : y;
    y = x == 0 ? -(double)VM_INFINITY : y;
    y = x < 0 ? (double)VM_NAN : y;
    return x != x ? x : y;
}

/* tanh x, 4 ulp, near 0 too: t / (t + 2) of t = e^2|x| - 1. */
static inline double vd_tanh(double x)
{
    double a = x < 0 ? -x : x, n, r = vd_reduce(a < 20 ? a + a : 40, &n), scale = vd_pow2i(n);
    double t = (vd_exp_tail(r) + r) * scale + (scale - 1.0);
    double y = t / (t + 2.0);
    y = x < 0 ? -y : x == 0 ? x : y;
    return x != x ? x : y;
}
#endif
