/* reduce_types.h - loops of the Reduce operators for each element type. */
#ifndef REDUCE_TYPES_H
#define REDUCE_TYPES_H
#include "operators/instance.h"
#include "inlay/types.h"

/* REDUCE_TILE: maximum columns of a tile. REDUCE_BLOCK: elements summed separately before they are added to the
 * total. */
enum { REDUCE_TILE = 512, REDUCE_BLOCK = 1024 };

/* How elements are combined, and the final operation on the result. */
enum { FOLD_SUM, FOLD_SQUARES, FOLD_MAGNITUDES, FOLD_PRODUCT, FOLD_MAX, FOLD_MIN, FOLD_EXPONENTIALS, FOLD_COUNT };
enum { FINISH_NONE, FINISH_MEAN, FINISH_ROOT, FINISH_LOG, FINISH_SHIFTED_LOG };

/* The loops for one element type. acc and shifts are arrays with acc_bytes per element. */
typedef void (*reduce_fold)(void *acc, const void *input, int64_t rows, int64_t stride, int64_t count,
                            const void *shifts);
typedef struct reduce_type {
    uint32_t elem_bytes;
    uint32_t acc_bytes;
    reduce_fold row[FOLD_COUNT];
    reduce_fold tile[FOLD_COUNT];
    void (*init)(void *acc, int64_t count, uint32_t fold);
    void (*combine)(void *acc, const void *other, int64_t count, uint32_t fold);
    void (*finish)(void *output, const void *acc, const void *shifts, int64_t count, uint32_t finish, int64_t reduced);
    void (*tame)(void *shifts, int64_t count); /* replaces infinite shifts; only where FOLD_EXPONENTIALS exists */
} reduce_type;

/* Both arrays are indexed by the element type. reduce_types: loops that compute in the type. reduce_real_types: loops
 * for operators with a final root or logarithm, which fold integers as doubles. NULL: the type is not supported. */
extern const reduce_type *const reduce_types[INLAY_DTYPE_COUNT];
extern const reduce_type *const reduce_real_types[INLAY_DTYPE_COUNT];
#endif
