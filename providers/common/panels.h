/* panels.h - weights packed for products of few rows: a sample or a few of them, the steps of a sequence.
 *
 *     Y[r][j] = start[j] + sum over k of X[r][k] * W[k][j]        r < rows
 *
 * Such products are bound by how fast W comes out of the caches, so W is packed once in the order in which it is read.
 * Columns come in blocks of 64 bytes, up to four blocks side by side make a panel, and a panel is stored k by k. All
 * rows that are at hand meet a panel while it passes; X and Y are reached by a pointer a row, so rows may lie anywhere
 * (time steps, samples of a batch, somebody else's tensor). gemm.h is for products with many rows. */
#ifndef PANELS_H
#define PANELS_H
#include "inlay/kit.h"

enum {
    PANEL_BLOCK_BYTES = 64, /* of a block of columns: 16 floats or 8 doubles, whatever the CPU's vectors are */
    PANEL_MOST_BLOCKS = 4   /* side by side */
};

/* How a matrix is packed. Columns may belong to `gates` matrices of equal width, whose blocks then take turns: gate 0
 * of the first 16 units, gate 1 of them, ..., gate 0 of the next 16. 1: an ordinary matrix. */
struct panels {
    int64_t depth;   /* k */
    int64_t columns; /* of one gate */
    uint32_t gates;
    bool wide; /* double, not float */
    bool lone; /* all products are of one row: summed in two chains, so that none waits for itself. Otherwise a row
                  is summed alike however many are beside it */
    /* Filled in by panels_describe. */
    uint32_t width; /* blocks of a panel; the last one may have fewer */
    int64_t blocks; /* of all gates */
    int64_t count;  /* panels */
    int64_t stored; /* columns of all blocks: what a row of Y has room for, unless gates == 1 (see panels_fn) */
    uint64_t bytes; /* of the packed matrix, a multiple of 64 */
};

/* Fills in the rest; false: the sizes overflow. depth and columns >= 0, 1 <= gates <= PANEL_MOST_BLOCKS. */
bool panels_describe(struct panels *panels);

/* Where a matrix comes from: element (k, column j of gate g) is data[(g * columns + j) * line_stride + k * k_stride],
 * of dtype (float, float16 or bfloat16 for float; double or float for double). One of the strides is 1. */
typedef struct panels_source {
    const void *data;
    inlay_dtype dtype;
    int64_t line_stride, k_stride;
} panels_source;

/* Packs panels [first, end) to where they belong in `packed`, panels->bytes in all, 64-byte aligned. */
void panels_pack(const struct panels *panels, const panels_source *from, int64_t first, int64_t end, void *packed);

/* A vector with an element a column, likewise in blocks: to[panels->stored], float or double. Adds to what is there. */
void panels_spread(const struct panels *panels, const void *data, inlay_dtype dtype, int64_t first, void *to);

/* Panels [first, end) of a product. x: [rows] pointers to depth elements. y: [rows] pointers to rows of panels->stored
 * elements (of a matrix without gates, only its `columns` are written). start: panels->stored elements, or NULL for
 * zeros. backwards: the panels in falling order; a caller that goes through the same matrix again and again turns each
 * time, so that what its cache kept of the last time is met first. No heap, any number of threads. */
typedef void (*panels_fn)(const struct panels *panels, const void *packed, int64_t first, int64_t end, bool backwards,
                          int64_t rows, const void *const *x, const void *start, void *const *y);

/* The best one for this CPU. */
panels_fn panels_product(bool wide);
/* The i-th that this CPU can run, best first; NULL when there are no more. For tests. */
panels_fn panels_product_at(bool wide, uint32_t i);

/* About what a product takes on one thread, in nanoseconds: arithmetic, or the weights from where they fit. resident:
 * bytes that are read over and over, these weights among them. */
double panels_ns(const struct panels *panels, int64_t rows, uint64_t resident);
#endif
