/* Functions over rows, see row_set.h. */
#include "inlay/check.h"
#include "simd/odd_tables.h"
#include "simd/row_set.h"
#include "simd/uniform_math.h"
#include "simd/vec_words.h"
#include "simd/vecmath.h"
#include <math.h>

#if VEC_LOOKUP == 32
/* e^r - 1 for the reduced exponent r. fine: corrects the rounding error of the table entry `at` of powers of 2. */
VEC_INLINE vec exp_rest(vec r, vec at, const bool fine)
{
    const vec low = fine ? vec_add(r, vec_lookup_some(exp_lost, at)) : r;

    return vec_fma(vec_mul(r, r), vec_fma(r, vec_set(1.66666667e-1f), vec_set(0.5f)), low);
}
#elif VEC_LOOKUP == 8
/* e^x 2^k if the result is a normal number. integer: 0x1.8p20 + k, whose last bit has the value 1/8. */
VEC_INLINE vec exp_of_eighths(vec x, vec integer)
{
    const vec at = vec_fma(x, vec_set(1.44269504f), integer), n = vec_sub(at, integer);
    const vec r = vec_fnma(n, vec_set(VM_LN2_LOW), vec_fnma(n, vec_set(VM_LN2_HIGH), x));
    const vec power = (vec)((unsigned_words)vec_lookup_some(exp_table, at) + ((unsigned_words)at << 20));
    const vec third = vec_fma(r, vec_set(4.16666667e-2f), vec_set(1.66666667e-1f));

    return vec_fma(power, vec_fma(vec_mul(r, r), vec_fma(r, third, vec_set(0.5f)), r), power);
}
#endif

/* e^x with an error of 1.1 ulp: 2^n times a polynomial, and times one of 32 or 8 powers from a table if VEC_LOOKUP > 0.
 * fine: 0.6 ulp with a table of 32. falls: x is at most 0. Inlined with constant fine and falls. */
VEC_INLINE vec exp_of(vec x, const bool fine, const bool falls)
{
    const vec least = vec_set(-104), low = falls ? x : vec_min(vec_set(89), x);
    const vec c = vec_max(least, low); /* keeps NaN */
#if VEC_LOOKUP == 32
    const vec integer = vec_set(0x1.8p18f); /* the last bit of the mantissa has the value 1/32 */
    const vec at = vec_fma(c, vec_set(1.44269504f), integer), n = vec_sub(at, integer);
    const vec r = vec_fnma(n, vec_set(VM_LN2_LOW), vec_fnma(n, vec_set(VM_LN2_HIGH), c));
    const vec power = vec_lookup_some(exp_table, at);

    return vec_scale(vec_fma(power, exp_rest(r, at, fine), power), n); /* uses n without its fraction */
#elif VEC_LOOKUP == 8
    /* The last bit of `integer` has the value 1/8. The offset 64 keeps the exponents of subnormal results and of
     * infinity in range. */
    const vmask up = vec_greater(c, vec_zero());
    const vec integer = vec_select(up, vec_set(0x1.8p20f - 64), vec_set(0x1.8p20f + 64));

    (void)fine;
    return vec_mul(exp_of_eighths(c, integer), vec_select(up, vec_set(0x1p64f), vec_set(0x1p-64f)));
#else
    const vec n = vec_round(vec_mul(c, vec_set(1.44269504f)));
    const vec r = vec_fnma(n, vec_set(VM_LN2_LOW), vec_fnma(n, vec_set(VM_LN2_HIGH), c));
    vec p = vec_fma(vec_set(1.9739558e-4f), r, vec_set(1.39350968e-3f));

    (void)fine;
    p = vec_fma(p, r, vec_set(8.33357126e-3f));
    p = vec_fma(p, r, vec_set(4.1666463e-2f));
    p = vec_fma(p, r, vec_set(1.66666657e-1f));
    p = vec_fma(p, r, vec_set(0.5f));
    p = vec_add(vec_fma(vec_mul(r, r), p, r), vec_set(1));
    return vec_scale(p, n);
#endif
}

/* e^x for a sum of exponentials, x up to 0. It is 0 where it would be subnormal (masked scores), because a CPU takes a
 * hundred times as long for subnormal results. */
VEC_INLINE vec exp_of_term(vec x)
{
    const vec least = vec_set(-87), c = vec_max(least, x); /* a little above ln 2^-126 */
#if VEC_LOOKUP == 8
    const vec integer = vec_set(0x1.8p20f), e = exp_of_eighths(c, integer);
#else
    const vec e = exp_of(c, false, true);
#endif

    return vec_select(vec_greater(least, x), vec_zero(), e);
}

/* Defines name(input, output, n): `some` whole vectors at a time, then the remaining elements. */
#define EACH(name, of, some)                                                                                           \
    KERNEL_PART(void, name, const float *input, float *output, int64_t n)                                              \
    {                                                                                                                  \
        int64_t i = 0;                                                                                                 \
                                                                                                                       \
        for (; i + (some)*VEC_LANES <= n; i += (some)*VEC_LANES) {                                                     \
            vec v[some];                                                                                               \
                                                                                                                       \
            VEC_UNROLL                                                                                                 \
            for (int k = 0; k < (some); k++)                                                                           \
                v[k] = of(vec_load(input + i + k * VEC_LANES));                                                        \
            VEC_UNROLL                                                                                                 \
            for (int k = 0; k < (some); k++)                                                                           \
                vec_store(output + i + k * VEC_LANES, v[k]);                                                           \
        }                                                                                                              \
        for (; i < n; i += VEC_LANES)                                                                                  \
            vec_store_some(output + i, vec_first(n - i), of(vec_load_some(vec_first(n - i), input + i)));              \
    }
#define EXP_OF(x) exp_of(x, false, false)
EACH(row_exp, EXP_OF, 4)

/* x >= 0 with the sign of `sign`. */
VEC_INLINE vec with_sign(vec x, vec sign)
{
    return (vec)((vint)x | ((vint)sign & vint_set(INT32_MIN)));
}

#if VEC_LOOKUP == 8
/* The same for of(v, count), which computes several vectors step by step, since the instructions of one wait for each
 * other. */
#define TOGETHER(name, of, some)                                                                                       \
    KERNEL_PART(void, name, const float *input, float *output, int64_t n)                                              \
    {                                                                                                                  \
        vec v[some];                                                                                                   \
        int64_t i = 0;                                                                                                 \
                                                                                                                       \
        for (; i + (some)*VEC_LANES <= n; i += (some)*VEC_LANES) {                                                     \
            VEC_UNROLL                                                                                                 \
            for (int k = 0; k < (some); k++)                                                                           \
                v[k] = vec_load(input + i + k * VEC_LANES);                                                            \
            of(v, some);                                                                                               \
            VEC_UNROLL                                                                                                 \
            for (int k = 0; k < (some); k++)                                                                           \
                vec_store(output + i + k * VEC_LANES, v[k]);                                                           \
        }                                                                                                              \
        for (; i < n; i += VEC_LANES) {                                                                                \
            v[0] = vec_load_some(vec_first(n - i), input + i);                                                         \
            of(v, 1);                                                                                                  \
            vec_store_some(output + i, vec_first(n - i), v[0]);                                                        \
        }                                                                                                              \
    }
#define EACH_VECTOR                                                                                                    \
    VEC_UNROLL                                                                                                         \
    for (int k = 0; k < count; k++)
enum { SOME = 4 };

/* e^r - 1 for |r| up to ln 2 / 2. It takes less time than a shorter polynomial and the look-up of a power of 2. */
VEC_INLINE void exp_less_one(const vec *r, vec *out, const int count)
{
    vec square[SOME];

    EACH_VECTOR out[k] = vec_fma(r[k], vec_set(1.3870691e-3f), vec_set(8.366272e-3f));
    EACH_VECTOR square[k] = vec_mul(r[k], r[k]);
    EACH_VECTOR out[k] = vec_fma(out[k], r[k], vec_set(4.1667435e-2f));
    EACH_VECTOR out[k] = vec_fma(out[k], r[k], vec_set(1.6666546e-1f));
    EACH_VECTOR out[k] = vec_fma(out[k], r[k], vec_set(4.9999997e-1f));
    EACH_VECTOR out[k] = vec_fma(out[k], square[k], r[k]);
}

/* p / (p + 2^64) below 0 and 2^64 / (p + 2^64) from 0 on, p = 2^64 e^-|x|: without the factor, p could be subnormal.
 * One division; 2.3 ulp. */
VEC_INLINE void sigmoid_of(vec *x, const int count)
{
    const vec integer = vec_set(0x1.8p23f + 64), one = vec_set(0x1p64f);
    vec at[SOME], r[SOME], p[SOME];

    EACH_VECTOR p[k] = vec_max(vec_set(-104), (vec)((vint)x[k] | vint_set(INT32_MIN))); /* NaN stays */
    EACH_VECTOR at[k] = vec_fma(p[k], vec_set(1.44269504f), integer);
    EACH_VECTOR r[k] = vec_fnma(vec_sub(at[k], integer), vec_set(VM_LN2_HIGH), p[k]);
    EACH_VECTOR r[k] = vec_fnma(vec_sub(at[k], integer), vec_set(VM_LN2_LOW), r[k]);
    exp_less_one(r, p, count);
    EACH_VECTOR
    {
        const vec power = (vec)((unsigned_words)vec_set(1) + ((unsigned_words)at[k] << 23));

        p[k] = vec_fma(power, p[k], power); /* NaN stays: of an integer sum it might not, its lowest bits are any */
    }
    EACH_VECTOR x[k] = vec_div(vec_select((vmask)((vint)x[k] >> 31), p[k], one), vec_add(p[k], one));
}
TOGETHER(row_sigmoid, sigmoid_of, SOME)

/* t / (t + 2) with t = e^2|x| - 1, where 1 is subtracted from the power of 2. The influence of t's error decreases
 * with t, so float precision of ln 2 suffices for r. */
VEC_INLINE void tanh_of(vec *x, const int count)
{
    const vec integer = vec_set(0x1.8p23f);
    vec at[SOME], r[SOME], t[SOME];

    EACH_VECTOR t[k] = vec_min(vec_set(9.1f), vec_abs(x[k])); /* NaN stays */
    EACH_VECTOR t[k] = vec_add(t[k], t[k]);
    EACH_VECTOR at[k] = vec_fma(t[k], vec_set(1.44269504f), integer);
    EACH_VECTOR r[k] = vec_fnma(vec_sub(at[k], integer), vec_set(0.693147181f), t[k]);
    exp_less_one(r, t, count);
    EACH_VECTOR
    {
        const vec power = (vec)((unsigned_words)vec_set(1) + ((unsigned_words)at[k] << 23));

        t[k] = vec_fma(power, t[k], vec_sub(power, vec_set(1)));
    }
    EACH_VECTOR x[k] = with_sign(vec_div(t[k], vec_add(t[k], vec_set(2))), x[k]);
}
TOGETHER(row_tanh, tanh_of, SOME)
#undef EACH_VECTOR
#else
/* 1 / (1 + e^-x), or e^x / (1 + e^x) below 0. One division; 2.3 ulp. */
VEC_INLINE vec sigmoid_of(vec x)
{
    const vec one = vec_set(1), e = exp_of(vec_sub(vec_zero(), vec_abs(x)), true, true);

    return vec_div(vec_select(vec_greater(vec_zero(), x), e, one), vec_add(one, e));
}
EACH(row_sigmoid, sigmoid_of, 4)
#endif

#if VEC_LOOKUP > 0
/* An odd function by its table. */
VEC_INLINE vec odd_of(const odd_table *table, vec x)
{
    const vec steps = vec_set(table->steps), integer = vec_set(8388608);              /* 2^23: no bits for a fraction */
    const vec low = vec_min(vec_set((ODD_INTERVALS - 1) / table->steps), vec_abs(x)); /* NaN stays */
    const vec at = vec_fma(low, steps, integer); /* the lowest bits of `at` are the interval */
    const vec r = vec_fms(low, steps, vec_sub(at, integer));
    vec g = vec_zero();

    VEC_UNROLL
    for (int d = ODD_DEGREE; d >= 0; d--) {
        const vec term = vec_lookup_some(table->terms[d], at);

        g = d == ODD_DEGREE ? term : vec_fma(g, r, term);
    }
    return with_sign(vec_min(vec_set(1), vec_mul(low, g)), x);
}
#define ERF_OF(x) odd_of(&erf_table, x)
EACH(row_erf, ERF_OF, 4)
#endif

#if VEC_LOOKUP == 32
#define TANH_OF(x) odd_of(&tanh_table, x)
EACH(row_tanh, TANH_OF, 4)
#elif VEC_LOOKUP == 0
/* c[0] z^(count - 1) + ... + c[count - 1] */
VEC_INLINE vec polynomial(const float *c, const int count, vec z)
{
    vec p = vec_set(c[0]);

    VEC_UNROLL
    for (int i = 1; i < count; i++)
        p = vec_fma(p, z, vec_set(c[i]));
    return p;
}

/* tanh as in vm_tanh, and erf. */
VEC_INLINE vec tanh_of(vec x)
{
    static const float terms[] = { -5.5147768e-3f, 2.04690564e-2f, -5.36879115e-2f, 1.33308291e-1f, -3.33332598e-1f };
    const vec a = vec_abs(x), z = vec_mul(x, x);
    const vec low = vec_fma(vec_mul(a, z), polynomial(terms, 5, z), a);
    const vec high = vec_sub(vec_set(1), vec_div(vec_set(2), vec_add(EXP_OF(vec_add(a, a)), vec_set(1))));

    return with_sign(vec_select(vec_greater(vec_set(0.625f), a), low, high), x);
}

VEC_INLINE vec erf_of(vec x)
{
    static const float near[] = { 7.99664995e-5f, -8.04976968e-4f, 5.19240508e-3f, -2.68557314e-2f,
                                  1.12836257e-1f, -3.76126289e-1f, 1.28379166e-1f };
    static const float far[] = { 1.46600166e-6f,  -4.28335225e-5f, 5.71162731e-4f, -4.6473844e-3f, 2.61259396e-2f,
                                 -1.09602086e-1f, -6.32291675e-1f, -1.12998354f,   2.63461901e-4f };
    const vec a = vec_abs(x), b = vec_min(vec_set(4.5f), a);
    const vec low = vec_fma(a, polynomial(near, 7, vec_mul(a, a)), a);
    const vec high = vec_sub(vec_set(1), EXP_OF(polynomial(far, 9, b))); /* beyond 4.5 it is 1 */

    return with_sign(vec_select(vec_greater(vec_set(0.92f), a), low, high), x);
}

EACH(row_tanh, tanh_of, 2)
EACH(row_erf, erf_of, 2)
#endif

/* The maxima, in each lane, of sign * input[i] over n > 0 elements, ignoring NaN; sign is 1 or -1. *seen (unless NULL)
 * gets the sums of 0 * input[i], one of which is NaN if an element is NaN or infinite. */
VEC_INLINE vec tops_of_row(const float *input, int64_t n, float sign, vec *seen)
{
    const vec zero = vec_zero(), by = vec_set(sign);
    vec best[4], sum[4];
    int64_t i = 0;

    INLAY_CHECK(n > 0);
    for (int k = 0; k < 4; k++) {
        best[k] = vec_set(-INFINITY);
        sum[k] = zero;
    }
    for (; i + 4 * VEC_LANES <= n; i += 4 * VEC_LANES) {
        VEC_UNROLL
        for (int k = 0; k < 4; k++) {
            const vec v = vec_mul(vec_load(input + i + k * VEC_LANES), by);

            best[k] = vec_max(v, best[k]);
            sum[k] = seen != NULL ? vec_fma(v, zero, sum[k]) : zero;
        }
    }
    for (; i < n; i += VEC_LANES) {
        const vmask m = vec_first(n - i);
        const vec v = vec_mul(vec_load_some(m, input + i), by);

        best[0] = vec_max(vec_select(m, v, best[0]), best[0]);
        sum[0] = seen != NULL ? vec_fma(v, zero, sum[0]) : zero;
    }
    if (seen != NULL)
        *seen = vec_add(vec_add(sum[0], sum[1]), vec_add(sum[2], sum[3]));
    return vec_max(vec_max(best[0], best[1]), vec_max(best[2], best[3]));
}

/* The maxima and the sums of up to VEC_LANES vectors. A single row has the same result as among others. */
#define JOINED(name, join)                                                                                             \
    VEC_INLINE vec name(const vec *x, int64_t rows)                                                                    \
    {                                                                                                                  \
        vec all[VEC_LANES];                                                                                            \
                                                                                                                       \
        VEC_UNROLL                                                                                                     \
        for (int r = 0; rows == 1 && r < VEC_LANES; r++)                                                               \
            all[r] = x[0];                                                                                             \
        return rows == 1 ? join(all) : join(x);                                                                        \
    }
JOINED(joined_tops, vec_tops)
JOINED(joined_sums, vec_sums)
#undef JOINED

/* SHORT: vectors of a row up to which the maxima of VEC_LANES rows are found together: they fit in one vector, which
 * hides the latency of the last steps. Whether rows are processed together depends on their length only, so that
 * results do not depend on the number of rows: threads divide them arbitrarily. */
enum { SHORT = 4 };

/* Defines name(input, output, count, n): the maximum or minimum of each row. Rows with NaN or infinity are compared
 * element by element, by the expression `is_better` of a and b. */
#define ENDS(name, sign, is_better)                                                                                    \
    static float name##_of_special(const float *input, int64_t n)                                                      \
    {                                                                                                                  \
        float b = input[0];                                                                                            \
                                                                                                                       \
        for (int64_t i = 1; i < n; i++) {                                                                              \
            const float a = input[i];                                                                                  \
                                                                                                                       \
            b = b != b ? b : (is_better) || a != a ? a : b;                                                            \
        }                                                                                                              \
        return b;                                                                                                      \
    }                                                                                                                  \
    VEC_INLINE void name##_together(const float *input, float *output, int64_t n, int64_t rows)                        \
    {                                                                                                                  \
        vec best[VEC_LANES], seen[VEC_LANES], sums;                                                                    \
        float special[VEC_LANES], sum;                                                                                 \
                                                                                                                       \
        for (int64_t r = 0; r < rows; r++)                                                                             \
            best[r] = tops_of_row(input + r * n, n, sign, &seen[r]);                                                   \
        for (int64_t r = rows; r < VEC_LANES; r++)                                                                     \
            best[r] = seen[r] = vec_zero();                                                                            \
        sums = joined_sums(seen, rows);                                                                                \
        vec_store_some(output, vec_first(rows), vec_mul(joined_tops(best, rows), vec_set(sign)));                      \
        sum = vec_sum(sums);                                                                                           \
        if (sum == sum)                                                                                                \
            return;                                                                                                    \
        vec_store(special, sums);                                                                                      \
        for (int64_t r = 0; r < rows; r++)                                                                             \
            if (special[r] != special[r])                                                                              \
                output[r] = name##_of_special(input + r * n, n);                                                       \
    }                                                                                                                  \
    KERNEL_PART(void, name, const float *input, float *output, int64_t count, int64_t n)                               \
    {                                                                                                                  \
        int64_t r = 0;                                                                                                 \
                                                                                                                       \
        for (; n <= SHORT * VEC_LANES && r < count; r += VEC_LANES, input += VEC_LANES * n)                            \
            name##_together(input, output + r, n, count - r < VEC_LANES ? count - r : VEC_LANES);                      \
        for (; r < count; r++, input += n) {                                                                           \
            vec seen;                                                                                                  \
            const vec best = tops_of_row(input, n, sign, &seen);                                                       \
            const float sum = vec_sum(seen);                                                                           \
                                                                                                                       \
            output[r] = sum != sum ? name##_of_special(input, n) : vec_top(best) * (sign);                             \
        }                                                                                                              \
    }
ENDS(row_tops, 1, a > b)
ENDS(row_lows, -1, a < b)

/* Chains of CHAIN elements are added in float, and their sums in double. */
enum { CHAIN = 32 * VEC_LANES };
VEC_INLINE double sum_of_row(const float *input, int64_t n)
{
    double total = 0;

    for (int64_t first = 0; first < n; first += CHAIN) {
        const int64_t end = n - first < CHAIN ? n : first + CHAIN;
        vec sum[4] = { vec_zero(), vec_zero(), vec_zero(), vec_zero() };
        int64_t i = first;

        for (; i + 4 * VEC_LANES <= end; i += 4 * VEC_LANES) {
            VEC_UNROLL
            for (int k = 0; k < 4; k++)
                sum[k] = vec_add(sum[k], vec_load(input + i + k * VEC_LANES));
        }
        for (; i < end; i += VEC_LANES)
            sum[0] = vec_add(sum[0], vec_load_some(vec_first(end - i), input + i));
        total += (double)vec_sum(vec_add(vec_add(sum[0], sum[1]), vec_add(sum[2], sum[3])));
    }
    return total;
}

KERNEL_PART(double, row_sum, const float *input, int64_t n)
{
    return sum_of_row(input, n);
}

KERNEL_PART(void, row_means, const float *input, float *output, int64_t count, int64_t n)
{
    for (int64_t r = 0; r < count; r++, input += n)
        output[r] = (float)(sum_of_row(input, n) / (double)n);
}

/* The sums, in each lane, of the differences from `from` of n elements, and of their squares (unless NULL). */
VEC_INLINE void differences(const float *input, int64_t n, float from, vec *sum, vec *squares)
{
    const vec by = vec_set(from), zero = vec_zero();
    vec s[2] = { zero, zero }, q[2] = { zero, zero };
    int64_t i = 0;

    for (; i + 2 * VEC_LANES <= n; i += 2 * VEC_LANES) {
        VEC_UNROLL
        for (int k = 0; k < 2; k++) {
            const vec d = vec_sub(vec_load(input + i + k * VEC_LANES), by);

            s[k] = vec_add(s[k], d);
            q[k] = vec_fma(d, d, q[k]);
        }
    }
    for (; i < n; i += VEC_LANES) {
        const vmask m = vec_first(n - i);
        const vec d = vec_select(m, vec_sub(vec_load_some(m, input + i), by), zero);

        s[0] = vec_add(s[0], d);
        q[0] = vec_fma(d, d, q[0]);
    }
    *sum = vec_add(s[0], s[1]);
    if (squares != NULL)
        *squares = vec_add(q[0], q[1]);
}

/* The same as sums of whole rows in double, of up to VEC_LANES rows; of one row if n > CHAIN. */
VEC_INLINE void differences_of_rows(const float *input, int64_t rows, int64_t n, const float *from, double *sums,
                                    double *squares)
{
    vec s[VEC_LANES], q[VEC_LANES];
    float part[VEC_LANES];

    if (n > CHAIN) {
        double sum = 0, sum_of_squares = 0;

        for (int64_t i = 0; i < n; i += CHAIN) {
            differences(input + i, n - i < CHAIN ? n - i : CHAIN, from[0], s, squares != NULL ? q : NULL);
            sum += (double)vec_sum(s[0]);
            sum_of_squares += squares != NULL ? (double)vec_sum(q[0]) : 0;
        }
        sums[0] = sum;
        if (squares != NULL)
            squares[0] = sum_of_squares;
        return;
    }
    for (int64_t r = 0; r < VEC_LANES; r++)
        if (r < rows)
            differences(input + r * n, n, from[r], &s[r], squares != NULL ? &q[r] : NULL);
        else
            s[r] = q[r] = vec_zero();
    vec_store(part, joined_sums(s, rows));
    for (int r = 0; r < VEC_LANES; r++)
        sums[r] = (double)part[r];
    if (squares == NULL)
        return;
    vec_store(part, joined_sums(q, rows));
    for (int r = 0; r < VEC_LANES; r++)
        squares[r] = (double)part[r];
}

/* The second pass also adds the differences from the first mean, whose rounding error may exceed the deviation, and
 * corrects both results by their mean. */
KERNEL_PART(void, row_moments, const float *input, float *means, float *variances, int64_t count, int64_t n)
{
    const double share = 1 / (double)n;
    int64_t rows;

    for (; count > 0; count -= rows, input += rows * n, means += rows, variances += rows) {
        double sums[VEC_LANES], squares[VEC_LANES];
        float from[VEC_LANES] = { 0 };

        rows = n > CHAIN ? 1 : count < VEC_LANES ? count : VEC_LANES;
        differences_of_rows(input, rows, n, from, sums, NULL);
        for (int64_t r = 0; r < rows; r++)
            from[r] = (float)(sums[r] * share);
        differences_of_rows(input, rows, n, from, sums, squares);
        for (int64_t r = 0; r < rows; r++) {
            const double difference = sums[r] * share, variance = squares[r] * share - difference * difference;

            means[r] = (float)((double)from[r] + difference);
            variances[r] = (float)(variance < 0 ? 0 : variance);
        }
    }
}

KERNEL_PART(void, row_affine, const float *input, float *output, int64_t n, float mean, float factor, float shift)
{
    const vec m = vec_set(mean), f = vec_set(factor), s = vec_set(shift);
    int64_t i = 0;

    for (; i + VEC_LANES <= n; i += VEC_LANES)
        vec_store(output + i, vec_fma(vec_sub(vec_load(input + i), m), f, s));
    if (i < n) {
        const vmask some = vec_first(n - i);

        vec_store_some(output + i, some, vec_fma(vec_sub(vec_load_some(some, input + i), m), f, s));
    }
}

/* The sums, in each lane, of e^(input - top); stores the terms in output if `keeps`. fetches: fetches the next row of
 * both meanwhile. */
VEC_INLINE vec exponentials(const float *input, float *output, int64_t n, float top, const bool keeps,
                            const bool fetches)
{
    enum { LINE = 16 }; /* floats */
    const vec by = vec_set(top);
    vec sum[4] = { vec_zero(), vec_zero(), vec_zero(), vec_zero() };
    int64_t i = 0;

    for (; i + 4 * VEC_LANES <= n; i += 4 * VEC_LANES) {
        VEC_UNROLL
        for (int k = 0; fetches && k < 4 * VEC_LANES; k += LINE) {
            vec_fetch_far(input + n + i + k);
            vec_fetch_far(output + n + i + k);
        }
        VEC_UNROLL
        for (int k = 0; k < 4; k++) {
            const vec e = exp_of_term(vec_sub(vec_load(input + i + k * VEC_LANES), by));

            sum[k] = vec_add(sum[k], e);
            if (keeps)
                vec_store(output + i + k * VEC_LANES, e);
        }
    }
    for (; i < n; i += VEC_LANES) {
        const vmask m = vec_first(n - i);
        const vec e = exp_of_term(vec_sub(vec_load_some(m, input + i), by));

        sum[0] = vec_add(sum[0], vec_select(m, e, vec_zero()));
        if (keeps)
            vec_store_some(output + i, m, e);
    }
    return vec_add(vec_add(sum[0], sum[1]), vec_add(sum[2], sum[3]));
}

/* output = input * by if `multiplies`, otherwise (input - top) - by. */
VEC_INLINE void scale_row(const float *input, float *output, int64_t n, float top, float by, bool multiplies)
{
    const vec t = vec_set(top), f = vec_set(by);
    int64_t i = 0;

    for (; i + 4 * VEC_LANES <= n; i += 4 * VEC_LANES) {
        VEC_UNROLL
        for (int k = 0; k < 4; k++) {
            const vec v = vec_load(input + i + k * VEC_LANES);

            vec_store(output + i + k * VEC_LANES, multiplies ? vec_mul(v, f) : vec_sub(vec_sub(v, t), f));
        }
    }
    for (; i < n; i += VEC_LANES) {
        const vmask m = vec_first(n - i);
        const vec v = vec_load_some(m, input + i);

        vec_store_some(output + i, m, multiplies ? vec_mul(v, f) : vec_sub(vec_sub(v, t), f));
    }
}

/* What finishes the rows of a softmax, or of its logarithm; sums: of the exponentials of each row. */
VEC_INLINE void softmax_ends(const vec *sums, float *ends, int64_t rows, const bool is_log)
{
    vec_store(ends, is_log ? joined_sums(sums, rows) : vec_div(vec_set(1), joined_sums(sums, rows)));
    for (int r = 0; is_log && r < VEC_LANES; r++)
        ends[r] = vm_log(ends[r]);
}

/* Softmax, or its logarithm, of at most VEC_LANES rows of at most SHORT vectors each. */
VEC_INLINE void softmax_short(const float *input, float *output, int64_t n, const int vectors, const int rows,
                              const bool is_log)
{
    const vmask part = vec_first(n - (vectors - 1) * VEC_LANES);
    const vec lowest = vec_set(-INFINITY);
    vec joined[VEC_LANES], e[VEC_LANES][SHORT];
    float tops[VEC_LANES], ends[VEC_LANES];

    INLAY_CHECK(rows <= VEC_LANES && vectors <= SHORT);
    for (int r = 0; r < rows; r++) {
        vec top = lowest;

        VEC_UNROLL
        for (int v = 0; v < vectors; v++) {
            const float *at = input + r * n + v * VEC_LANES;

            e[r][v] = v + 1 < vectors ? vec_load(at) : vec_select(part, vec_load_some(part, at), lowest);
            top = vec_max(e[r][v], top);
        }
        joined[r] = top;
    }
    for (int r = rows; r < VEC_LANES; r++)
        joined[r] = vec_zero();
    vec_store(tops, joined_tops(joined, rows));
    for (int r = 0; r < rows; r++) {
        const vec top = vec_set(tops[r]);
        vec sum = vec_zero();

        VEC_UNROLL
        for (int v = 0; v < vectors; v++) {
            /* beyond the row the exponent is 0: an underflow would take a hundred times as long */
            const vec x = vec_sub(v + 1 < vectors ? e[r][v] : vec_select(part, e[r][v], top), top);
            const vec p = exp_of_term(x);

            e[r][v] = is_log ? x : p;
            sum = vec_add(sum, v + 1 < vectors ? p : vec_select(part, p, vec_zero()));
        }
        joined[r] = sum;
    }
    softmax_ends(joined, ends, rows, is_log);
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int v = 0; v < vectors; v++) {
            const vec p = is_log ? vec_sub(e[r][v], vec_set(ends[r])) : vec_mul(e[r][v], vec_set(ends[r]));

            if (v + 1 < vectors)
                vec_store(output + r * n + v * VEC_LANES, p);
            else
                vec_store_some(output + r * n + v * VEC_LANES, part, p);
        }
    }
}

/* The same for longer rows. */
VEC_INLINE void softmax_together(const float *input, float *output, int64_t n, int64_t rows, const bool is_log)
{
    vec joined[VEC_LANES];
    float tops[VEC_LANES], ends[VEC_LANES];

    for (int64_t r = 0; r < VEC_LANES; r++)
        joined[r] = r < rows ? tops_of_row(input + r * n, n, 1, NULL) : vec_zero();
    vec_store(tops, joined_tops(joined, rows));
    for (int64_t r = 0; r < VEC_LANES; r++)
        joined[r] = r < rows ? exponentials(input + r * n, output + r * n, n, tops[r], !is_log, false) : vec_zero();
    softmax_ends(joined, ends, rows, is_log);
    for (int64_t r = 0; r < rows; r++)
        scale_row((is_log ? input : output) + r * n, output + r * n, n, tops[r], ends[r], !is_log);
}

/* TOGETHER: elements of VEC_LANES rows that the first-level cache holds until the rows are finished. */
VEC_INLINE void softmax_rows(const float *input, float *output, int64_t count, int64_t n, const bool is_log)
{
    enum { TOGETHER = 4096 };
    const int64_t vectors = (n + VEC_LANES - 1) / VEC_LANES;
    int64_t rows;

    for (; n * VEC_LANES <= TOGETHER && count > 0; count -= rows, input += rows * n, output += rows * n) {
        rows = count < VEC_LANES ? count : VEC_LANES;
        if (vectors == 1 && rows == VEC_LANES)
            softmax_short(input, output, n, 1, VEC_LANES, is_log);
        else if (vectors == 2 && rows == VEC_LANES)
            softmax_short(input, output, n, 2, VEC_LANES, is_log);
        else if (vectors <= SHORT)
            softmax_short(input, output, n, (int)vectors, (int)rows, is_log);
        else
            softmax_together(input, output, n, rows, is_log);
    }
    for (; count > 0; count--, input += n, output += n) {
        const float top = vec_top(tops_of_row(input, n, 1, NULL));
        const float sum = vec_sum(exponentials(input, output, n, top, !is_log, true));

        scale_row(is_log ? input : output, output, n, top, is_log ? (float)uniform_log((double)sum) : 1 / sum, !is_log);
    }
}

KERNEL_PART(void, row_softmax, const float *input, float *output, int64_t count, int64_t n)
{
    softmax_rows(input, output, count, n, false);
}

KERNEL_PART(void, row_log_softmax, const float *input, float *output, int64_t count, int64_t n)
{
    softmax_rows(input, output, count, n, true);
}

/* The sums, in each lane, of the squares of n elements if `euclidean`, otherwise of their magnitudes. */
VEC_INLINE vec norm_terms(const float *input, int64_t n, const bool euclidean)
{
    vec sum[4] = { vec_zero(), vec_zero(), vec_zero(), vec_zero() };
    int64_t i = 0;

    for (; i + 4 * VEC_LANES <= n; i += 4 * VEC_LANES) {
        VEC_UNROLL
        for (int k = 0; k < 4; k++) {
            const vec v = vec_load(input + i + k * VEC_LANES);

            sum[k] = vec_add(sum[k], euclidean ? vec_mul(v, v) : vec_abs(v));
        }
    }
    for (; i < n; i += VEC_LANES) {
        const vec v = vec_load_some(vec_first(n - i), input + i);

        sum[0] = vec_add(sum[0], euclidean ? vec_mul(v, v) : vec_abs(v));
    }
    return vec_add(vec_add(sum[0], sum[1]), vec_add(sum[2], sum[3]));
}

/* Rows are multiplied by two factors, `up` first, because the reciprocal of a subnormal norm may be infinite. */
KERNEL_PART(void, row_units, const float *input, float *output, int64_t count, int64_t n, bool euclidean)
{
    const float large = 0x1p100f;

    for (int64_t first = 0; first < count; first += VEC_LANES, input += VEC_LANES * n, output += VEC_LANES * n) {
        const int64_t rows = count - first < VEC_LANES ? count - first : VEC_LANES;
        float norms[VEC_LANES], ups[VEC_LANES];
        vec sums[VEC_LANES];

        for (int64_t r = 0; r < VEC_LANES; r++)
            sums[r] = r >= rows   ? vec_zero()
                      : euclidean ? norm_terms(input + r * n, n, true)
                                  : norm_terms(input + r * n, n, false);
        vec_store(norms, joined_sums(sums, rows));
        for (int r = 0; euclidean && r < VEC_LANES; r++)
            norms[r] = sqrtf(norms[r]);
        for (int r = 0; r < VEC_LANES; r++) {
            ups[r] = ((norms[r] > 0) & (norms[r] < 1 / large)) ? large : 1;
            norms[r] = norms[r] == 0 ? 1 : 1 / (norms[r] * ups[r]);
        }
        for (int64_t r = 0; r < rows; r++) {
            const bool is_small = ups[r] > 1;

            if (is_small)
                scale_row(input + r * n, output + r * n, n, 0, large, true);
            scale_row((is_small ? output : input) + r * n, output + r * n, n, 0, norms[r], true);
        }
    }
}

/* The loop of row_windows() over whole groups of four vectors; returns the number of elements. Inlined with constant
 * taps for the usual ones. */
VEC_INLINE int64_t window_groups(const float *input, float *output, int64_t n, const int64_t taps, int64_t step)
{
    int64_t i = 0;

    for (; i + 4 * VEC_LANES <= n; i += 4 * VEC_LANES) {
        vec top[4];

        VEC_UNROLL
        for (int k = 0; k < 4; k++)
            top[k] = vec_load(input + i + k * VEC_LANES);
        for (int64_t t = 1; t < taps; t++) {
            VEC_UNROLL
            for (int k = 0; k < 4; k++)
                top[k] = vec_max(top[k], vec_load(input + i + t * step + k * VEC_LANES));
        }
        VEC_UNROLL
        for (int k = 0; k < 4; k++)
            vec_store(output + i + k * VEC_LANES, top[k]);
    }
    return i;
}

KERNEL_PART(void, row_windows, const float *input, float *output, int64_t n, int64_t taps, int64_t step)
{
    int64_t i;

    INLAY_CHECK(taps > 0);
    i = taps == 3   ? window_groups(input, output, n, 3, step)
        : taps == 2 ? window_groups(input, output, n, 2, step)
                    : window_groups(input, output, n, taps, step);
    for (; i + VEC_LANES <= n; i += VEC_LANES) {
        vec top = vec_load(input + i);

        for (int64_t t = 1; t < taps; t++)
            top = vec_max(top, vec_load(input + i + t * step));
        vec_store(output + i, top);
    }
    if (i < n) {
        const vmask m = vec_first(n - i);
        vec top = vec_load_some(m, input + i);

        for (int64_t t = 1; t < taps; t++)
            top = vec_max(top, vec_load_some(m, input + i + t * step));
        vec_store_some(output + i, m, top);
    }
}

/* Compares `count` vectors with every element. */
VEC_INLINE void greater_some(const float *input, float *output, int64_t n, int64_t first, const int count)
{
    const vec one = vec_set(1);
    vec own[4], above[4]; /* above: numbers of greater elements */

    VEC_UNROLL
    for (int c = 0; c < count; c++) {
        own[c] = vec_load_some(vec_first(n - first - c * VEC_LANES), input + first + c * VEC_LANES);
        above[c] = vec_zero();
    }
    for (int64_t i = 0; i < n; i++) {
        const vec other = vec_set(input[i]);

        VEC_UNROLL
        for (int c = 0; c < count; c++)
            above[c] = vec_select(vec_greater(other, own[c]), vec_add(above[c], one), above[c]);
    }
    VEC_UNROLL
    for (int c = 0; c < count; c++)
        vec_store_some(output + first + c * VEC_LANES, vec_first(n - first - c * VEC_LANES), above[c]);
}

KERNEL_PART(void, row_greater, const float *input, float *output, int64_t n)
{
    int64_t i = 0;

    INLAY_CHECK(n < 1 << 24); /* counts are exact floats */
    for (; i + 3 * VEC_LANES < n; i += 4 * VEC_LANES)
        greater_some(input, output, n, i, 4);
    for (; i < n; i += VEC_LANES)
        greater_some(input, output, n, i, 1);
}

KERNEL_PART(bool, row_finite, const float *input, int64_t n)
{
    enum { CHAINS = 8 }; /* hide the latency of additions */
    vec seen[CHAINS];
    int64_t i = 0;
    float sum;

    VEC_UNROLL
    for (int k = 0; k < CHAINS; k++)
        seen[k] = vec_zero();
    for (; i + CHAINS * VEC_LANES <= n; i += CHAINS * VEC_LANES) {
        VEC_UNROLL
        for (int k = 0; k < CHAINS; k++)
            seen[k] = vec_fma(vec_load(input + i + k * VEC_LANES), vec_zero(), seen[k]);
    }
    VEC_UNROLL
    for (int k = 1; k < CHAINS; k++)
        seen[0] = vec_add(seen[0], seen[k]);
    for (; i < n; i += VEC_LANES)
        seen[0] = vec_fma(vec_load_some(vec_first(n - i), input + i), vec_zero(), seen[0]);
    sum = vec_sum(seen[0]);
    return sum == sum;
}

/* The remaining elements are converted by the same instruction as whole vectors, because the bits of NaN depend on it.
 */
KERNEL_PART(void, row_from_half, const uint16_t *input, float *output, int64_t n)
{
    int64_t i = 0;

    for (; i + VEC_LANES <= n; i += VEC_LANES)
        vec_store(output + i, vec_load_half(input + i));
    if (i < n) {
        uint16_t rest[VEC_LANES] = { 0 };

        memcpy(rest, input + i, (size_t)(n - i) * sizeof *input);
        vec_store_some(output + i, vec_first(n - i), vec_load_half(rest));
    }
}

KERNEL_PART(void, row_to_half, const float *input, uint16_t *output, int64_t n)
{
    int64_t i = 0;

    for (; i + VEC_LANES <= n; i += VEC_LANES)
        vec_store_half(output + i, vec_load(input + i));
    if (i < n) {
        uint16_t rest[VEC_LANES];

        vec_store_half(rest, vec_load_some(vec_first(n - i), input + i));
        memcpy(output + i, rest, (size_t)(n - i) * sizeof *output);
    }
}

const row_set KERNEL(rows) = {
    KERNEL_PART_OF(row_exp),     KERNEL_PART_OF(row_tanh),      KERNEL_PART_OF(row_erf),
    KERNEL_PART_OF(row_sigmoid), KERNEL_PART_OF(row_softmax),   KERNEL_PART_OF(row_log_softmax),
    KERNEL_PART_OF(row_tops),    KERNEL_PART_OF(row_lows),      KERNEL_PART_OF(row_sum),
    KERNEL_PART_OF(row_means),   KERNEL_PART_OF(row_windows),   KERNEL_PART_OF(row_greater),
    KERNEL_PART_OF(row_finite),  KERNEL_PART_OF(row_from_half), KERNEL_PART_OF(row_to_half),
    KERNEL_PART_OF(row_units),   KERNEL_PART_OF(row_moments),   KERNEL_PART_OF(row_affine),
};
