/* rows.h - sums of rows, accumulated in double and rounded once: exact to the last bit except for about one in 10^8.
 * The result thus does not depend on the order of elements or on the instruction set, which matters where floats are
 * quantized afterwards. */
#ifndef CPU_ROWS_H
#define CPU_ROWS_H
#include <stdint.h>

#define ROWS_INLINE                                                                                                    \
    static inline __attribute__((always_inline)) /* inlined into loops that are compiled for several instruction sets */

ROWS_INLINE float row_sum(const float *input, int64_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (double)input[i];
    return (float)sum;
}

/* The sum of (input - shift)^2, differences and squares rounded to float. */
ROWS_INLINE float row_squares(const float *input, int64_t n, float shift)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float d = input[i] - shift;

        sum += (double)(d * d);
    }
    return (float)sum;
}
#endif
