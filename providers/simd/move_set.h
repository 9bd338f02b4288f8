/* move_set.h - copies and transposes of elements of 1, 2, 4, 8 and 16 bytes. */
#ifndef SIMD_MOVE_SET_H
#define SIMD_MOVE_SET_H
#include "simd/instances.h"
#include <stdint.h>

/* Transposes of `count` matrices, x_step and y_step bytes apart: y[c][r] = x[r][c]. Rows are x_row and y_row bytes
 * apart, at any addresses. rows, columns > 0. */
typedef struct move_turns {
    const char *x;
    char *y;
    int64_t x_row, y_row, rows, columns;
    int64_t count, x_step, y_step;
} move_turns;

typedef struct move_set {
    /* output[r][c] = input[r][c]; rows are x_row and y_row words apart. rows, columns >= 0. */
    void (*rows)(const float *input, int64_t x_row, float *output, int64_t y_row, int64_t rows, int64_t columns);
    /* output[i] = input[i * step], i < n. */
    void (*every)(const float *input, int64_t step, float *output, int64_t n);
    /* By the logarithm to base 2 of the bytes of an element. */
    void (*turn[5])(const move_turns *turns);
} move_set;

/* Transposes one matrix of floats, whose rows are x_row and y_row floats apart. */
static inline void move_turn(const move_set *set, const float *x, int64_t x_row, float *y, int64_t y_row, int64_t rows,
                             int64_t columns)
{
    const int64_t word = sizeof(float);

    if (rows > 0 && columns > 0)
        set->turn[2](&(move_turns){ (const char *)x, (char *)y, x_row * word, y_row * word, rows, columns, 1, 0, 0 });
}

KERNEL_INSTANCES(move_set, moves)
#endif
