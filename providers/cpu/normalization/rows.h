/* rows.h - sums of rows, exact to the last bit but for about one in 10^8: in double, rounded once. Their result does
 * not depend on the order of elements, thus not on who computes them, which integers made of floats notice. */
#ifndef CPU_ROWS_H
#define CPU_ROWS_H
#include <stdint.h>

#define ROWS_INLINE static inline __attribute__((always_inline)) /* into loops for several CPUs */

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
