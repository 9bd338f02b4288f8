/* rows.h - sums of rows, accumulated in double and rounded once: exact to the last bit except for about one in 10^8.
 * The result thus does not depend on the order of elements or on the instruction set, which matters where floats are
 * quantized afterwards. */
#ifndef CPU_ROWS_H
#define CPU_ROWS_H
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
        for (int half_ = CHAINS_ / 2; half_ > 0; half_ /= 2)                                                           \
            for (int chain_ = 0; chain_ < half_; chain_++)                                                             \
                chains_[chain_] = chains_[chain_] op chains_[chain_ + half_];                                          \
        (result) = chains_[0];                                                                                         \
    } while (0)

ROWS_INLINE float row_sum(const float *input, int64_t n)
{
    double sum;

    ROWS_JOIN(double, sum, +, 0, n, (double)input[i]);
    return (float)sum;
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
