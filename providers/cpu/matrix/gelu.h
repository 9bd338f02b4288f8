/* gelu.h - Gelu-20 on vectors, in either form: x times the cumulative normal distribution at x, or its approximation by
 * tanh.
 *
 * The distribution at -|x| comes from a table of 32 polynomials, two registers for each coefficient, which permutations
 * look up. That takes about 20 instructions, half as many as an exponential and a polynomial, and no division. The
 * polynomials are minimax in relative error over their interval. Coefficients are rounded one by one, and the others
 * are fitted again after each rounding. A permutation of AVX2 has eight entries, and a look-up takes seven
 * instructions, so the distribution is computed there as an exponential, if multiply-adds are fused.
 *
 * Errors of the table: 2 ulp above 0 and down to -2.5, 3e-6 of the result to -6 (tanh: 8e-6 to -5.8). Errors of
 * exponentials: 5 ulp down to -2.5, 5e-7 of the result to -6.4 (tanh: 2.5e-6 to -5.8). Below that the result is 0,
 * where the exact result is above -1e-9. NaN is kept. Infinity gives infinity; -infinity gives NaN, because it is
 * multiplied by 0. */
#ifndef CPU_GELU_H
#define CPU_GELU_H
#include "simd/odd_tables.h"
#include "simd/vec.h"
#include "simd/vec_words.h"
#include "simd/vecmath.h"

enum { GELU_DEGREE = 5, GELU_INTERVALS = 32 };

/* share(-|x|) = sum of terms[d][i] * r^d, i = |x| * steps rounded to an integer, at most 31, r = |x| * steps - i. */
typedef struct gelu_table {
    float steps; /* a short binary fraction: products with it are exact enough */
    float terms[GELU_DEGREE + 1][GELU_INTERVALS];
} gelu_table;

/* clang-format off */
static const gelu_table gelu_by_erf = {
    4.75f,
    {
        { 5e-1f, 4.1662845e-1f, 3.3685833e-1f, 2.6383102e-1f, 1.9986452e-1f, 1.4625494e-1f, 1.03266224e-1f,
          7.0283316e-2f, 4.6070494e-2f, 2.9063636e-2f, 1.7634204e-2f, 1.0284883e-2f, 5.763291e-3f, 3.101603e-3f,
          1.6024556e-3f, 7.9456466e-4f, 3.7800023e-4f, 1.7249047e-4f, 7.54834e-5f, 3.1671247e-5f, 1.2738824e-5f,
          4.911063e-6f, 1.8144384e-6f, 6.4235365e-7f, 2.178821e-7f, 7.0800986e-8f, 2.2038734e-8f, 6.5709234e-9f,
          1.8763977e-9f, 5.131582e-10f, 1.3439319e-10f, 0 },
        { -8.398785e-2f, -8.214709e-2f, -7.686338e-2f, -6.880154e-2f, -5.891534e-2f, -4.8262533e-2f, -3.7821896e-2f,
          -2.835489e-2f, -2.0335935e-2f, -1.3952494e-2f, -9.157797e-3f, -5.750183e-3f, -3.4540119e-3f, -1.9848032e-3f,
          -1.091095e-3f, -5.7379826e-4f, -2.8867373e-4f, -1.3893348e-4f, -6.396728e-5f, -2.8174789e-5f, -1.187174e-5f,
          -4.785417e-6f, -1.8453411e-6f, -6.8074615e-7f, -2.4023967e-7f, -8.110654e-8f, -2.6195003e-8f,
          -8.0934255e-9f, -2.3922009e-9f, -6.764167e-10f, -1.82971e-10f, 0 },
        { -2.9816547e-8f, 1.8206595e-3f, 3.406448e-3f, 4.574182e-3f, 5.222282e-3f, 5.3475574e-3f, 5.0288322e-3f,
          4.3986063e-3f, 3.6053003e-3f, 2.782794e-3f, 2.0294304e-3f, 1.4017138e-3f, 9.185215e-4f, 5.718008e-4f,
          3.3850933e-4f, 1.9073515e-4f, 1.0235469e-4f, 5.234011e-5f, 2.5515717e-5f, 1.1862789e-5f, 5.261573e-6f,
          2.2269312e-6f, 8.996264e-7f, 3.4695302e-7f, 1.2776367e-7f, 4.493043e-8f, 1.5091363e-8f, 4.8419975e-9f,
          1.4841381e-9f, 4.3463014e-10f, 1.2161835e-10f, 0 },
        { 6.205899e-4f, 5.798659e-4f, 4.6721895e-4f, 3.054335e-4f, 1.2660281e-4f, -3.8476814e-5f, -1.6636206e-4f,
          -2.4545143e-4f, -2.7591133e-4f, -2.6695366e-4f, -2.3217077e-4f, -1.8531948e-4f, -1.3732519e-4f,
          -9.515795e-5f, -6.1954896e-5f, -3.8028982e-5f, -2.2062879e-5f, -1.211948e-5f, -6.3132284e-6f,
          -3.1217853e-6f, -1.4671434e-6f, -6.5565774e-7f, -2.7882328e-7f, -1.12889666e-7f, -4.3539753e-8f,
          -1.6001492e-8f, -5.6058016e-9f, -1.8726205e-9f, -5.9663324e-10f, -1.813459e-10f, -5.2595196e-11f, 0 },
        { -4.3663877e-7f, -2.0730939e-5f, -3.4506927e-5f, -4.4343906e-5f, -4.3609776e-5f, -3.696675e-5f,
          -2.560645e-5f, -1.3720169e-5f, -2.3514924e-6f, 5.933892e-6f, 1.0702062e-5f, 1.2185475e-5f, 1.1451673e-5f,
          9.474072e-6f, 7.12052e-6f, 4.9198416e-6f, 3.1614425e-6f, 1.901513e-6f, 1.0744607e-6f, 5.7235263e-7f,
          2.878331e-7f, 1.3698912e-7f, 6.1783155e-8f, 2.6430737e-8f, 1.0737646e-8f, 4.1449457e-9f, 1.5215114e-9f,
          5.313587e-10f, 1.7664613e-10f, 5.59239e-11f, 1.6866043e-11f, 0 },
        { -3.7553177e-6f, -3.4796883e-6f, -2.8007246e-6f, -6.412057e-7f, 6.1989385e-7f, 1.7690551e-6f, 2.349958e-6f,
          2.5615739e-6f, 2.070626e-6f, 1.3341465e-6f, 5.779868e-7f, 4.951569e-8f, -3.0554813e-7f, -4.5772828e-7f,
          -4.733044e-7f, -4.035221e-7f, -2.9923277e-7f, -2.0440973e-7f, -1.2794781e-7f, -7.545096e-8f, -4.0655934e-8f,
          -2.0777625e-8f, -1.0002389e-8f, -4.5483595e-9f, -1.9495754e-9f, -7.9221096e-10f, -3.050638e-10f,
          -1.1140931e-10f, -3.862994e-11f, -1.2730341e-11f, -3.9869063e-12f, 0 },
    },
};

static const gelu_table gelu_by_tanh = {
    5.25f,
    {
        { 5e-1f, 4.2447022e-1f, 3.5163572e-1f, 2.8390318e-1f, 2.2315344e-1f, 1.705946e-1f, 1.267231e-1f, 9.138588e-2f,
          6.391684e-2f, 4.3310545e-2f, 2.8396772e-2f, 1.7988894e-2f, 1.0991622e-2f, 6.4654583e-3f, 3.6532322e-3f,
          1.9781904e-3f, 1.0239304e-3f, 5.0527084e-4f, 2.3704195e-4f, 1.0542365e-4f, 4.4320688e-5f, 1.756149e-5f,
          6.539217e-6f, 2.2814904e-6f, 7.436301e-7f, 2.257649e-7f, 6.365499e-8f, 1.6618818e-8f, 4.005666e-9f,
          8.8873303e-10f, 1.8096934e-10f, 0 },
        { -7.598901e-2f, -7.461641e-2f, -7.064742e-2f, -6.450169e-2f, -5.679582e-2f, -4.8240226e-2f, -3.9530646e-2f,
          -3.1257793e-2f, -2.385083e-2f, -1.7559305e-2f, -1.2467812e-2f, -8.531553e-3f, -5.6199925e-3f,
          -3.5584723e-3f, -2.1617494e-3f, -1.2572325e-3f, -6.982866e-4f, -3.6941076e-4f, -1.8562161e-4f,
          -8.833528e-5f, -3.969584e-5f, -1.6794509e-5f, -6.6696516e-6f, -2.4788849e-6f, -8.596727e-7f, -2.7735996e-7f,
          -8.300466e-8f, -2.2973458e-8f, -5.8632166e-9f, -1.3757938e-9f, -2.9593927e-10f, 0 },
        { 4.141088e-8f, 1.3599972e-3f, 2.573307e-3f, 3.52018e-3f, 4.125613e-3f, 4.3710107e-3f, 4.2888946e-3f,
          3.9482927e-3f, 3.4381594e-3f, 2.8467015e-3f, 2.2489107e-3f, 1.6986001e-3f, 1.2278124e-3f, 8.4935955e-4f,
          5.618601e-4f, 3.5491574e-4f, 2.136505e-4f, 1.2227106e-4f, 6.63499e-5f, 3.4041386e-5f, 1.6464559e-5f,
          7.4846753e-6f, 3.188413e-6f, 1.2689999e-6f, 4.70483e-7f, 1.6201105e-7f, 5.1664287e-8f, 1.5213093e-8f,
          4.1244235e-9f, 1.0265271e-9f, 2.3387495e-10f, 0 },
        { 4.6152214e-4f, 4.3660306e-4f, 3.6556215e-4f, 2.6132583e-4f, 1.4138687e-4f, 2.4157684e-5f, -7.514992e-5f,
          -1.4690218e-4f, -1.882659e-4f, -2.0182104e-4f, -1.9372976e-4f, -1.7137753e-4f, -1.4180929e-4f,
          -1.1060981e-4f, -8.16559e-5f, -5.7152803e-5f, -3.7916085e-5f, -2.3811266e-5f, -1.4129509e-5f, -7.902033e-6f,
          -4.153924e-6f, -2.0467517e-6f, -9.4262515e-7f, -4.045713e-7f, -1.6136394e-7f, -5.964105e-8f, -2.0369708e-8f,
          -6.410972e-9f, -1.8541098e-9f, -4.9137766e-10f, -1.1900142e-10f, 0 },
        { 5.814239e-7f, -1.2503821e-5f, -2.2110074e-5f, -2.9299696e-5f, -3.0054163e-5f, -2.6982094e-5f, -2.231488e-5f,
          -1.4398228e-5f, -6.9979733e-6f, -3.6870742e-7f, 4.0306068e-6f, 6.7379574e-6f, 7.73067e-6f, 7.6035517e-6f,
          6.749163e-6f, 5.4711e-6f, 4.1424532e-6f, 2.9414703e-6f, 1.9496335e-6f, 1.2111128e-6f, 7.0318436e-7f,
          3.807996e-7f, 1.9195458e-7f, 8.981047e-8f, 3.891742e-8f, 1.5576017e-8f, 5.744089e-9f, 1.9466184e-9f,
          6.047373e-10f, 1.7176767e-10f, 4.449083e-11f, 0 },
        { -3.0265194e-6f, -2.365366e-6f, -1.6514857e-6f, -7.2468515e-7f, 1.1240466e-7f, 8.1977544e-7f, 1.5903648e-6f,
          1.6520117e-6f, 1.5197365e-6f, 1.0940281e-6f, 7.3329716e-7f, 3.471919e-7f, 1.062043e-7f, -1.0102387e-7f,
          -2.3715346e-7f, -2.6351245e-7f, -2.540619e-7f, -2.2395209e-7f, -1.717668e-7f, -1.22669e-7f, -8.081063e-8f,
          -4.9056926e-8f, -2.735701e-8f, -1.4094927e-8f, -6.6854082e-9f, -2.9123906e-9f, -1.1636506e-9f,
          -4.2487464e-10f, -1.4170438e-10f, -4.304765e-11f, -1.188608e-11f, 0 },
    },
};
/* clang-format on */

/* table is a constant where this is inlined: its contents stay in registers during the caller's loop. */
VEC_INLINE vec gelu_of(const gelu_table *table, vec x)
{
    const float last = GELU_INTERVALS - 1; /* the interval whose coefficients are zero */
    /* 2^23: floats of this size have no fraction */
    const vec steps = vec_set(table->steps), integer = vec_set(8388608);
    const vec most = vec_set(last / table->steps), one = vec_set(1);
    const vec low = vec_max(vec_sub(vec_zero(), most), x); /* vec_max returns the second operand if one is NaN */
    const vec magnitude = vec_min(most, vec_abs(low));
    const vec at = vec_fma(magnitude, steps, integer); /* the lowest bits of `at` are the interval */
    const vec rest = vec_fms(magnitude, steps, vec_sub(at, integer));
    vec share = vec_zero();

    VEC_UNROLL
    for (int degree = GELU_DEGREE; degree >= 0; degree--) {
        const vec term = vec_lookup(table->terms[degree], at);

        share = degree == GELU_DEGREE ? term : vec_fma(share, rest, term);
    }
    share = vec_select(vec_greater(x, vec_zero()), vec_sub(one, share), share);
    return vec_mul(x, share); /* NaN where -infinity meets 0 */
}

/* Vectors that are computed together: the instructions of one wait for each other. */
enum { GELU_TOGETHER = 4 };

#if VEC_LOOKUP == 8 && VEC_FUSES
#define EACH_VECTOR                                                                                                    \
    VEC_UNROLL                                                                                                         \
    for (int k = 0; k < count; k++)

/* low = e^(high + low), between 2^-126 and 1. */
VEC_INLINE void gelu_powers(const vec *high, vec *low, const int count)
{
    const vec integer = vec_set(0x1.8p20f); /* the last bit of the mantissa has the value 1/8 */
    vec at[GELU_TOGETHER], r[GELU_TOGETHER], power[GELU_TOGETHER];

    EACH_VECTOR at[k] = vec_fma(vec_add(high[k], low[k]), vec_set(1.44269504f), integer);
    EACH_VECTOR low[k] = vec_fnma(vec_sub(at[k], integer), vec_set(VM_LN2_LOW), low[k]);
    EACH_VECTOR r[k] = vec_add(vec_fnma(vec_sub(at[k], integer), vec_set(VM_LN2_HIGH), high[k]), low[k]);
    EACH_VECTOR power[k] = (vec)((unsigned_words)vec_lookup_some(exp_table, at[k]) + ((unsigned_words)at[k] << 20));
    EACH_VECTOR low[k] = vec_fma(r[k], vec_set(4.16666667e-2f), vec_set(1.66666667e-1f));
    EACH_VECTOR low[k] = vec_fma(vec_mul(r[k], r[k]), vec_fma(r[k], low[k], vec_set(0.5f)), r[k]);
    EACH_VECTOR low[k] = vec_fma(power[k], low[k], power[k]);
}

/* x = x times the distribution at x. share: that at -|x|, which is 0 beyond `most`. */
VEC_INLINE void gelu_products(vec *x, const vec *share, vec most, const int count)
{
    const vec zero = vec_zero(), least = vec_sub(zero, most);

    EACH_VECTOR
    {
        const vec below = vec_select(vec_greater(least, x[k]), zero, share[k]);

        x[k] = vec_mul(x[k], vec_select(vec_greater(x[k], zero), vec_sub(vec_set(1), share[k]), below));
    }
}

/* The distribution is e^(g(t) - a^2 / 2), a = |x|, where g is a polynomial and t = 2 a / most - 1. */
VEC_INLINE void gelu_erf(vec *x, const int count)
{
    static const float g[] = { -2.176375f,     -8.6578447e-1f, 3.34036e-1f,    -1.5524839e-1f, 7.367214e-2f,
                               -3.376046e-2f,  1.4319708e-2f,  -5.2041803e-3f, 1.5478004e-3f,  -4.3678275e-4f,
                               -1.6255875e-4f, 4.3310208e-4f,  -1.8652204e-4f };
    const vec most = vec_set(6.5f);
    vec t[GELU_TOGETHER], z[GELU_TOGETHER], high[GELU_TOGETHER], lost[GELU_TOGETHER];
    vec even[GELU_TOGETHER], odd[GELU_TOGETHER]; /* terms of g: two chains have half the latency */

    EACH_VECTOR
    {
        const vec a = vec_min(most, vec_abs(x[k])), half = vec_mul(a, vec_set(-0.5f));

        t[k] = vec_fma(a, vec_set(2 / 6.5f), vec_set(-1));
        high[k] = vec_mul(a, half);
        lost[k] = vec_fms(a, half, high[k]);
        z[k] = vec_mul(t[k], t[k]);
        even[k] = vec_set(g[12]);
        odd[k] = vec_set(g[11]);
    }
    VEC_UNROLL
    for (int i = 10; i >= 2; i -= 2) {
        EACH_VECTOR even[k] = vec_fma(even[k], z[k], vec_set(g[i]));
        EACH_VECTOR odd[k] = i > 2 ? vec_fma(odd[k], z[k], vec_set(g[i - 1])) : odd[k];
    }
    EACH_VECTOR even[k] = vec_fma(odd[k], t[k], even[k]);
    EACH_VECTOR even[k] = vec_fma(vec_fma(even[k], t[k], vec_set(g[1])), t[k], vec_set(g[0]));
    EACH_VECTOR lost[k] = vec_add(even[k], lost[k]);
    gelu_powers(high, lost, count);
    gelu_products(x, lost, most, count);
}

/* By tanh: the distribution is e / (1 + e), e = e^(-c a - d a^3), a = |x|. */
VEC_INLINE void gelu_tanh(vec *x, const int count)
{
    const vec most = vec_set(5.8f), c = vec_set(-1.59576912f);
    vec high[GELU_TOGETHER], e[GELU_TOGETHER];

    EACH_VECTOR
    {
        const vec a = vec_min(most, vec_abs(x[k])), cube = vec_mul(vec_mul(a, a), vec_mul(a, vec_set(-7.1354814e-2f)));

        high[k] = vec_mul(a, c);
        e[k] = vec_add(cube, vec_fma(a, vec_set(4.53e-8f), vec_fms(a, c, high[k])));
    }
    gelu_powers(high, e, count);
    EACH_VECTOR e[k] = vec_div(e[k], vec_add(vec_set(1), e[k]));
    gelu_products(x, e, most, count);
}
#undef EACH_VECTOR
#else
VEC_INLINE void gelu_erf(vec *x, const int count)
{
    VEC_UNROLL
    for (int k = 0; k < count; k++)
        x[k] = gelu_of(&gelu_by_erf, x[k]);
}
VEC_INLINE void gelu_tanh(vec *x, const int count)
{
    VEC_UNROLL
    for (int k = 0; k < count; k++)
        x[k] = gelu_of(&gelu_by_tanh, x[k]);
}
#endif
#endif
