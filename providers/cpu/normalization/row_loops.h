/* row_loops.h - loops of reductions, Softmax and BatchNormalization over rows, or over blocks of adjacent columns. */
#ifndef CPU_ROW_LOOPS_H
#define CPU_ROW_LOOPS_H
#include "simd/axis.h"
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum { FOLD_SUM, FOLD_MAGNITUDES, FOLD_SQUARES, FOLD_PRODUCT, FOLD_MAX, FOLD_MIN, FOLD_EXPONENTIALS, FOLD_COUNT };
/* Maximum columns of a fold's tile: the longer the pieces of its rows, the faster they come from memory. */
enum { FOLD_COLUMNS = 1024 };

/* output[r] = the fold of the n elements of row r. */
typedef void fold_rows_fn(const float *input, float *output, int64_t count, int64_t n);
/* The same for the columns of a tile. */
typedef void fold_columns_fn(const float *input, float *output, const axis_tile *tile);

typedef struct row_loops {
    struct {
        fold_rows_fn *rows;
        fold_columns_fn *columns; /* at most FOLD_COLUMNS */
    } folds[FOLD_COUNT];
    /* At most AXIS_COLUMNS columns. The output has the layout of the input, and may be the input. */
    fold_columns_fn *softmax, *log_softmax;
    /* output = (input - mean) * factor + shift; relu: negative results become 0, NaN stays. output may be input. */
    void (*channels_row)(float *output, const float *input, const float *restrict mean, const float *restrict factor,
                         const float *restrict shift, int64_t count, bool relu);
    void (*pixels_row)(float *output, const float *input, float mean, float factor, float shift, int64_t count,
                       bool relu);
} row_loops;

KERNEL_INSTANCES(row_loops, row_loops)
#endif
