/* move_set.h - copies and transposes of elements of 1 to 8 bytes. */
#ifndef SIMD_MOVE_SET_H
#define SIMD_MOVE_SET_H
#include "simd/instances.h"
#include <stdint.h>

/* rows, columns >= 0. */
typedef struct move_set {
    /* output[r][c] = input[r][c]; rows are x_row and y_row words apart. */
    void (*rows)(const float *input, int64_t x_row, float *output, int64_t y_row, int64_t rows, int64_t columns);
    /* Transpose: output[c][r] = input[r][c]. Rows of input are x_row words apart, those of output y_row. */
    void (*turn)(const float *input, int64_t x_row, float *output, int64_t y_row, int64_t rows, int64_t columns);
    /* Transpose of elements of 1, 2, 4 or 8 bytes (index: log2 of the size) at any addresses; rows are x_row and y_row
     * bytes apart. */
    void (*transpose_elements[4])(const char *x, int64_t x_row, char *y, int64_t y_row, int64_t rows, int64_t columns);
} move_set;

KERNEL_INSTANCES(move_set, moves)
#endif
