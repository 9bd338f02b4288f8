/* panels.h - packed weights for matrix multiplications of few rows: one or a few samples, the steps of a sequence.
 *
 *     Y[r][j] = start[j] + sum over k of X[r][k] * W[k][j]        r < rows
 *
 * These multiplications are bound by the cache bandwidth of W, so W is packed once in the order in which it is read.
 * Columns form blocks of 64 bytes, up to four adjacent blocks form a panel, and a panel is stored k by k. Each panel is
 * multiplied by all available rows while it is in the cache. X and Y have one pointer per row, so rows may be anywhere
 * (time steps, samples of a batch, tensors of the caller). gemm.h is for multiplications of many rows. */
#ifndef PANELS_H
#define PANELS_H
#include "inlay/types.h"
#include <stdbool.h>

enum {
    PANEL_BLOCK_BYTES = 64, /* bytes of a block of columns: 16 floats or 8 doubles, for any vector size */
    PANEL_MAX_BLOCKS = 4    /* blocks per panel */
};

/* The packed layout of a matrix. Columns may belong to `gates` matrices of equal width, whose blocks are
 * interleaved: gate 0 of the first 16 units, gate 1 of the same units, ..., gate 0 of the next 16 units. gates == 1: an
 * ordinary matrix. */
struct panels {
    int64_t depth;   /* k */
    int64_t columns; /* of one gate */
    uint32_t gates;
    bool wide; /* double instead of float */
    /* All multiplications have one row, which is summed in two chains for instruction parallelism. Otherwise the sum of
     * a row does not depend on the number of rows. */
    bool lone;
    /* Set by panels_describe(). */
    uint32_t width; /* blocks per panel; the last one may have fewer */
    int64_t blocks; /* number of blocks of all gates */
    int64_t count;  /* panels */
    int64_t stored; /* columns of all blocks, the size of a row of Y unless gates == 1 (see panels_fn) */
    uint64_t bytes; /* size of the packed matrix, a multiple of 64 */
};

/* Sets the fields above; false: the sizes overflow. depth and columns >= 0, 1 <= gates <= PANEL_MAX_BLOCKS. */
bool panels_describe(struct panels *panels);

/* A matrix to pack: element (k, column j of gate g) is data[(g * columns + j) * line_stride + k * k_stride], of
 * dtype (float, float16 or bfloat16 for float; double or float for double). One of the strides is 1. */
typedef struct panels_source {
    const void *data;
    inlay_dtype dtype;
    int64_t line_stride, k_stride;
} panels_source;

/* Packs panels [first, end) into `packed`, which has panels->bytes in all and is 64-byte aligned. */
void panels_pack(const struct panels *panels, const panels_source *from, int64_t first, int64_t end, void *packed);

/* Adds a vector with one element per column, starting at data[first], to `to`, which has the layout of blocks:
 * to[panels->stored], float or double. */
void panels_add_vector(const struct panels *panels, const void *data, inlay_dtype dtype, int64_t first, void *to);

/* Multiplies by panels [first, end). x: [rows] pointers to depth elements. y: [rows] pointers to rows of
 * panels->stored elements (of a matrix without gates, only its `columns` are written). start: panels->stored
 * elements, or NULL for zeros. backwards: the panels in reverse order; a caller that multiplies by the same matrix
 * repeatedly alternates the order, so that it starts with panels that are still in the cache. No heap; thread-safe. */
typedef void (*panels_fn)(const struct panels *panels, const void *packed, int64_t first, int64_t end, bool backwards,
                          int64_t rows, const void *const *x, const void *start, void *const *y);

/* The best function for this CPU. */
panels_fn panels_product(bool wide);
/* The i-th function that this CPU can run, best first; NULL after the last. For tests. */
panels_fn panels_product_at(bool wide, uint32_t i);

/* What determines the time of a multiplication: operations on floats, and bytes of weights from the second and the
 * third level of cache and from memory, per nanosecond; the bytes of both caches. pace: multiply-adds, relative to the
 * reference core. */
typedef struct panels_rates {
    double flops, near, shared, far, near_size, shared_size, pace;
} panels_rates;
/* Of one core of a Zen 5. */
#define PANELS_REFERENCE                                                                                               \
    {                                                                                                                  \
        200, 190, 135, 40, 1 << 20, 24 << 20, 0.725                                                                   \
    }
struct inlay_host;
/* Of this machine, for the functions of panels_product(). */
panels_rates panels_rates_here(const struct inlay_host *host);
/* Estimated nanoseconds of a multiplication on one thread: arithmetic, or reading the weights from the cache level
 * that holds them. resident: bytes that are read repeatedly, including these weights. */
double panels_ns(const struct panels *panels, int64_t rows, uint64_t resident, const panels_rates *rates);
#endif
