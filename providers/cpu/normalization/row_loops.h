/* row_loops.h - what reductions, Softmax and BatchNormalization do along rows, or along columns side by side. */
#ifndef CPU_ROW_LOOPS_H
#define CPU_ROW_LOOPS_H
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum { FOLD_SUM, FOLD_MAGNITUDES, FOLD_SQUARES, FOLD_PRODUCT, FOLD_MAX, FOLD_MIN, FOLD_EXPONENTIALS, FOLD_COUNT };
enum { ROW_COLUMNS = 64 }; /* side by side, at most */

/* output[r] = the fold of the n elements of row r. */
typedef void fold_rows_fn(const float *input, float *output, int64_t count, int64_t n);
/* The same of each of `width` columns of n elements, `step` from one element to the next. */
typedef void fold_columns_fn(const float *input, float *output, int64_t n, int64_t step, int64_t width);

typedef struct row_loops {
    struct {
        fold_rows_fn *rows;
        fold_columns_fn *columns;
    } folds[FOLD_COUNT];
    /* As many elements of y as of x, which it may be. */
    fold_columns_fn *softmax, *log_softmax;
    /* output = (input - mean) * factor + shift; with relu NaN stays, and less than 0 becomes 0. output may be input. */
    void (*channels_row)(float *output, const float *input, const float *restrict mean, const float *restrict factor,
                         const float *restrict shift, int64_t count, bool relu);
    void (*pixels_row)(float *output, const float *input, float mean, float factor, float shift, int64_t count,
                       bool relu);
} row_loops;

KERNEL_INSTANCES(row_loops, row_loops)
#endif
