/* axis.h - loops along one axis of a tensor [outer, n, inner], in kernels that process the columns of n elements as
 * vectors: neighbouring columns are neighbouring elements.
 *
 * Where the columns of one outer index would leave vectors mostly empty, columns become neighbours in one of two ways.
 * Short ones are transposed, of several outer indices at once, to a buffer of the first-level cache. Of long ones
 * several rows of `inner` elements are one row: the kernel then has several partial results of a column, which it
 * combines (axis_tile.period). The choice depends on n and inner, and not on outer or on threads, so that the results
 * of a column do not depend on the other columns; it may depend on outer where both ways give the same results. */
#ifndef SIMD_AXIS_H
#define SIMD_AXIS_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* AXIS_COLUMNS: maximum of axis_tile.columns if axis_cut.width is not more. AXIS_LONG: usual value of rows_from of
 * elements of up to four bytes. */
enum { AXIS_COLUMNS = 256, AXIS_LONG = 65 };

/* The usual value of rows_from (axis_cut_of): long rows fill vectors, also without transposing. */
static inline int64_t axis_rows_from(int64_t in_bytes)
{
    return in_bytes > 4 ? AXIS_LONG / 2 : AXIS_LONG;
}
/* That of operations whose results are the same whether rows are transposed or not: at most `few` rows leave vectors
 * mostly empty. */
static inline int64_t axis_few_rows_from(int64_t outer, int64_t few)
{
    return outer <= few ? 9 : AXIS_LONG;
}

/* Rows of neighbouring elements, `stride` elements apart. Elements of columns j and j + period are elements of the same
 * column of the tensor; row r of the tile begins with row r * (columns / period) of it. */
typedef struct axis_tile {
    int64_t rows, stride, columns;
    int64_t last; /* columns of the last row */
    int64_t period;
} axis_tile;

/* The columns of row r. */
static inline int64_t axis_width(const axis_tile *tile, int64_t r)
{
    return r + 1 < tile->rows ? tile->columns : tile->last;
}

/* Combines the partial results v[tile->columns] of an expression of a and b, so that the first `period` are those of
 * whole columns. */
#define AXIS_JOIN(T, tile, v, expression)                                                                              \
    for (int64_t half_ = (tile)->columns / 2; half_ >= (tile)->period; half_ /= 2)                                     \
        for (int64_t j_ = 0; j_ < half_; j_++) {                                                                       \
            const T a = (v)[j_], b = (v)[j_ + half_];                                                                  \
                                                                                                                       \
            (v)[j_] = (expression);                                                                                    \
        }
/* Repeats the first `period` of v[tile->columns]. */
#define AXIS_SPREAD(tile, v)                                                                                           \
    for (int64_t have_ = (tile)->period; have_ < (tile)->columns; have_ *= 2)                                          \
        memcpy((v) + have_, (v), (size_t)have_ * sizeof *(v))

typedef struct axis_cut {
    int64_t outer, n, inner;
    int64_t group; /* outer indices that are transposed together; 0: none are */
    int64_t width; /* maximum columns of a tile that is not transposed */
    int64_t units; /* of parallel work */
    int64_t in_bytes, out_bytes;
    bool folds;
} axis_cut;

/* Processes a tile. folds: output has one element per column of the tensor, `period` in all; otherwise it has the
 * layout of the input, and may be the input. */
typedef void (*axis_fn)(const void *ctx, const void *input, void *output, const axis_tile *tile);

/* Sizes are in elements, and positive; elements have 1, 2, 4 or 8 bytes. width: see axis_cut. rows_from: contiguous
 * rows of at least this number of elements are not transposed. */
axis_cut axis_cut_of(int64_t outer, int64_t n, int64_t inner, int64_t in_bytes, int64_t out_bytes, bool folds,
                     int64_t width, int64_t rows_from);

/* True if there is one contiguous row per outer index, too long to be transposed: the caller may have a faster loop
 * over rows. */
static inline bool axis_is_rows(const axis_cut *cut)
{
    return cut->inner == 1 && cut->group == 0;
}

/* The tile of all columns of n rows of `inner` elements without gaps between them. */
axis_tile axis_tile_of(int64_t n, int64_t inner);

/* Sets *part to unit `unit` alone, whose columns are then contiguous rows of part->inner elements; returns the offset
 * of its first element. In the tensor the rows are cut->inner elements apart. */
int64_t axis_part(const axis_cut *cut, int64_t unit, axis_cut *part);

/* The maximum number of elements of a unit. */
int64_t axis_unit_elements(const axis_cut *cut);

/* Calls fn for the tiles of units [begin, end). */
void axis_run(const axis_cut *cut, int64_t begin, int64_t end, const void *input, void *output, axis_fn fn,
              const void *ctx);
#endif
