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

/* Terms of sums: of elements, and of squares of the differences from `shift`, both rounded to float. */
ROWS_INLINE vec_wide row_element(vec_part a, float shift)
{
    (void)shift;
    return vec_widen(a);
}
ROWS_INLINE vec_wide row_squared(vec_part a, float shift)
{
    const vec_part difference = a - shift;

    return vec_widen(difference * difference);
}

#if VEC_WIDE > 1
/* The sums of the chains of ROWS_JOIN that are VEC_WIDE or more apart, of term(a, shift), which is 0 for a = shift. */
ROWS_INLINE vec_wide row_chains(const float *input, int64_t n, float shift, vec_wide (*term)(vec_part a, float shift))
{
    enum { COUNT = 16 / VEC_WIDE };
    vec_wide chains[COUNT] = { { 0 } };
    int64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        VEC_UNROLL
        for (int k = 0; k < COUNT; k++)
            chains[k] += term(vec_part_load(input + i + VEC_WIDE * k), shift);
    }
    VEC_UNROLL
    for (int k = 0; k < COUNT; k++)
        if (i + VEC_WIDE * k < n)
            chains[k] += term(vec_part_some(n - i - VEC_WIDE * k, input + i + VEC_WIDE * k, shift), shift);
    VEC_UNROLL
    for (int half = COUNT / 2; half > 0; half /= 2) {
        VEC_UNROLL
        for (int k = 0; k < half; k++)
            chains[k] += chains[k + half];
    }
    return chains[0];
}
#endif

/* The sum of term(a, 0) of n elements a, where term(0, 0) is 0. The order is that of ROWS_JOIN. */
ROWS_INLINE double row_terms(const float *input, int64_t n, vec_wide (*term)(vec_part a, float shift))
{
#if VEC_WIDE > 1
    return vec_wide_sum(row_chains(input, n, 0, term));
#else
    double sum;

    ROWS_JOIN(double, sum, +, 0, n, term(input[i], 0));
    return sum;
#endif
}

ROWS_INLINE float row_sum(const float *input, int64_t n)
{
    return (float)row_terms(input, n, row_element);
}

enum { ROWS_TOGETHER = 8 };

/* output[r] = the sum of term(a, shifts[r]) of the n elements a of row r, for up to ROWS_TOGETHER rows. shifts NULL: 0.
 * The sums of the chains of all rows are added together, which hides the latency of these additions. */
ROWS_INLINE void row_sums(const float *input, float *output, int64_t count, int64_t n, const float *shifts,
                          vec_wide (*term)(vec_part a, float shift))
{
#if VEC_WIDE > 1
    vec_wide chains[ROWS_TOGETHER];
    float sums[ROWS_TOGETHER];

    for (int64_t r = 0; r < ROWS_TOGETHER; r++)
        chains[r] = r < count ? row_chains(input + r * n, n, shifts != NULL ? shifts[r] : 0, term) : (vec_wide){ 0 };
    VEC_UNROLL
    for (int r = 0; r < ROWS_TOGETHER; r += VEC_WIDE) {
        const vec_part part = vec_narrow(vec_wide_sums(chains + r));

        memcpy(sums + r, &part, sizeof part);
    }
    if (count == ROWS_TOGETHER)
        memcpy(output, sums, sizeof sums);
    else
        memcpy(output, sums, (size_t)count * sizeof *output);
#else
    for (int64_t r = 0; r < count; r++, input += n) {
        double sum;

        ROWS_JOIN(double, sum, +, 0, n, term(input[i], shifts != NULL ? shifts[r] : 0));
        output[r] = (float)sum;
    }
#endif
}
#endif
