/* rows.h - sums of rows, accumulated in double and rounded once: exact to the last bit except for about one in 10^8.
 * The result thus does not depend on the order of elements or on the instruction set, which matters where floats are
 * quantized afterwards. */
#ifndef CPU_ROWS_H
#define CPU_ROWS_H
#include "simd/vec.h"
#include <stdint.h>

#define ROWS_INLINE                                                                                                    \
    static inline __attribute__((always_inline)) /* inlined into loops that are compiled for several instruction sets */

/* result = the terms of i = 0 ... n - 1, joined by `op`, in 16 chains: element i belongs to chain i modulo 16. The
 * order is the same on each instruction set, and compilers vectorise the chains. */
#define ROWS_JOIN(T, result, op, start, n, term)                                                                       \
    do {                                                                                                               \
        enum { CHAINS_ = 16 };                                                                                         \
        T chains_[CHAINS_];                                                                                            \
                                                                                                                       \
        for (int chain_ = 0; chain_ < CHAINS_; chain_++)                                                               \
            chains_[chain_] = (start);                                                                                 \
        for (int64_t first_ = 0; first_ + CHAINS_ <= (n); first_ += CHAINS_)                                           \
            for (int chain_ = 0; chain_ < CHAINS_; chain_++) {                                                         \
                const int64_t i = first_ + chain_;                                                                     \
                                                                                                                       \
                chains_[chain_] = chains_[chain_] op(term);                                                            \
            }                                                                                                          \
        for (int64_t i = (n) / CHAINS_ * CHAINS_; i < (n); i++)                                                        \
            chains_[i % CHAINS_] = chains_[i % CHAINS_] op(term);                                                      \
        VEC_UNROLL                                                                                                     \
        for (int half_ = CHAINS_ / 2; half_ > 0; half_ /= 2)                                                           \
            for (int chain_ = 0; chain_ < half_; chain_++)                                                             \
                chains_[chain_] = chains_[chain_] op chains_[chain_ + half_];                                          \
        (result) = chains_[0];                                                                                         \
    } while (0)

/* The sum of term(a) of n elements a, where term(0) is 0. With wide vectors the order is that of ROWS_JOIN. */
ROWS_INLINE double row_terms(const float *input, int64_t n, vec_wide (*term)(vec_wide a))
{
#if VEC_WIDE > 1
    enum { COUNT = 16 / VEC_WIDE };
    vec_wide chains[COUNT] = { { 0 } };
    int64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        VEC_UNROLL
        for (int k = 0; k < COUNT; k++)
            chains[k] += term(vec_widen(input + i + VEC_WIDE * k));
    }
    VEC_UNROLL
    for (int k = 0; k < COUNT; k++)
        if (i + VEC_WIDE * k < n)
            chains[k] += term(vec_widen_some(n - i - VEC_WIDE * k, input + i + VEC_WIDE * k));
    return vec_wide_sum(chains);
#else
    double sum;

    ROWS_JOIN(double, sum, +, 0, n, term((double)input[i]));
    return sum;
#endif
}

ROWS_INLINE vec_wide row_element(vec_wide a)
{
    return a;
}

ROWS_INLINE float row_sum(const float *input, int64_t n)
{
    return (float)row_terms(input, n, row_element);
}

ROWS_INLINE double row_squared(float difference)
{
    return (double)(difference * difference);
}

/* The sum of (input - shift)^2, differences and squares rounded to float. */
ROWS_INLINE float row_squares(const float *input, int64_t n, float shift)
{
    double sum;

    ROWS_JOIN(double, sum, +, 0, n, row_squared(input[i] - shift));
    return (float)sum;
}
#endif
