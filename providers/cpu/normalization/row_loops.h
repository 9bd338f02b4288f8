/* row_loops.h - loops of reductions, Softmax and BatchNormalization over rows, or over blocks of adjacent columns. */
#ifndef CPU_ROW_LOOPS_H
#define CPU_ROW_LOOPS_H
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum { FOLD_SUM, FOLD_MAGNITUDES, FOLD_SQUARES, FOLD_PRODUCT, FOLD_MAX, FOLD_MIN, FOLD_EXPONENTIALS, FOLD_COUNT };
/* Maximum widths of a block of columns: Softmax reads a block three times, so that it should stay in the cache; a fold
 * reads it once, and the longer the pieces of its rows, the faster they come from memory. */
enum { ROW_COLUMNS = 64, FOLD_COLUMNS = 1024 };

/* output[r] = the fold of the n elements of row r. */
typedef void fold_rows_fn(const float *input, float *output, int64_t count, int64_t n);
/* The same for each of `width` columns of n elements. step: stride of a column. */
typedef void fold_columns_fn(const float *input, float *output, int64_t n, int64_t step, int64_t width);

typedef struct row_loops {
    struct {
        fold_rows_fn *rows;
        fold_columns_fn *columns; /* width <= FOLD_COLUMNS */
    } folds[FOLD_COUNT];
    /* width <= ROW_COLUMNS. The output has as many elements as the input, and may be the input. */
    fold_columns_fn *softmax, *log_softmax;
    /* output = (input - mean) * factor + shift; relu: negative results become 0, NaN stays. output may be input. */
    void (*channels_row)(float *output, const float *input, const float *restrict mean, const float *restrict factor,
                         const float *restrict shift, int64_t count, bool relu);
    void (*pixels_row)(float *output, const float *input, float mean, float factor, float shift, int64_t count,
                       bool relu);
} row_loops;

KERNEL_INSTANCES(row_loops, row_loops)
#endif
