/* price_moves.h - the work of copies that cut tensors, join them, or change the order of their axes. */
#ifndef COMMON_PRICE_MOVES_H
#define COMMON_PRICE_MOVES_H
#include "common/price.h"
#include "inlay/check.h"

/* The contiguous pieces of which a copy between values of the same rank consists, if one of them is a part of the
 * other, or repeats it: the elements that the copy moves / those of the axes from the innermost one that differs on. */
static inline double price_pieces(const int64_t *from, const int64_t *to, uint32_t rank, double moved)
{
    double length = 1;

    for (uint32_t d = rank; d-- > 0;) {
        const int64_t size = from[d] < to[d] ? from[d] : to[d];

        length *= size < 1 ? 1 : (double)size;
        if (from[d] != to[d])
            return fmax(moved / length, 1);
    }
    return 1;
}

/* The time of a piece of memory of `bytes` bytes that is copied, on a Xeon, without its bytes. Short ones take one or
 * two moves, others a call. */
static inline double price_piece_ns(double bytes)
{
    return bytes <= 16 ? 0.6 : bytes <= 32 ? 1.3 : 4;
}

/* Transposes (simd/moves.c), on a Xeon: a matrix; a vector of 16 bytes that is read or written; a tile that its
 * elements do not fill, times their bytes; an element of two or three rows of floats; a square of 64 bytes by as many
 * elements of 4 bytes, and by how much narrower elements make it slower. */
#define PRICE_MATRIX_NS 1.0
#define PRICE_VECTOR_NS 0.38
#define PRICE_PART_NS 10.0
#define PRICE_FEW_NS 0.11
#define PRICE_SQUARE_NS 28.0
#define PRICE_NARROW 1.25
/* Bytes per nanosecond of a matrix that the nearest cache does not hold: rows are read while columns are written. */
#define PRICE_STRIDED_BYTES 18.0

/* The time to transpose a matrix from contiguous rows of `columns` elements of `size` bytes. */
static inline double price_matrix_ns(double size, double rows, double columns)
{
    const bool wide = size == 8 && rows >= 4 && columns >= 4; /* vectors of 32 bytes */
    const double side = wide ? 4 : 16 / size;                 /* columns of a tile, ... */
    double count = side, vectors, ns;                         /* ... and its rows */

    if (size <= 4 && rows * size >= 64 && columns * size >= 64) {
        ns = ceil(rows * size / 64) * ceil(columns * size / 64) * PRICE_SQUARE_NS * pow(4 / size, PRICE_NARROW);
    } else if (size == 4 && (rows == 2 || rows == 3 || columns == 3)) {
        ns = rows * columns * PRICE_FEW_NS;
    } else {
        while (count > 2 && rows < count)
            count /= 2;
        vectors = ceil(rows / count) * ceil(columns / side) * (count + side);
        ns = 0;
        if (rows >= side && columns <= side && (columns == 3 || fmod(side, columns) == 0))
            vectors = ceil(rows * columns * size / 16) + columns * ceil(rows * size / 16);
        else if (columns < side)
            ns = ceil(rows / count) * PRICE_PART_NS / size;
        ns += vectors * PRICE_VECTOR_NS * (size == 8 ? 1.5 : 1);
    }
    if (2 * rows * columns * size > 1.5 * PRICE_CORE_SIZE)
        ns = fmax(ns, rows * columns * size / PRICE_STRIDED_BYTES);
    return PRICE_MATRIX_NS + ns;
}

/* The time to transpose a tensor of `rank` axes, whose elements have `bytes` bytes, if all data are in the cache next
 * to the core. perm: axis perm[d] becomes axis d; NULL: the axes are reversed. As in the kernels, axes that stay
 * together count as one, and innermost ones that stay innermost as an element, if that has up to 16 bytes. */
static inline double price_transpose_ns(const int64_t *dims, const int64_t *perm, uint32_t rank, double bytes)
{
    double count[INLAY_MAX_RANK], matrices = 1, rows, columns = 1;
    int64_t first[INLAY_MAX_RANK], last[INLAY_MAX_RANK], axis, inner = -1;
    uint32_t axes = 0;

    INLAY_CHECK(rank <= INLAY_MAX_RANK);
    for (uint32_t d = 0; d < rank; d++) {
        axis = perm != NULL ? perm[d] : (int64_t)(rank - 1 - d);
        if (axis < 0 || axis >= (int64_t)rank)
            return 0;
        if (dims[axis] == 1)
            continue;
        inner = axis > inner ? axis : inner;
        for (int64_t between = axes > 0 ? last[axes - 1] + 1 : axis; between < axis && dims[between] == 1; between++)
            last[axes - 1] = between;
        if (axes > 0 && last[axes - 1] + 1 == axis) {
            last[axes - 1] = axis;
            count[axes - 1] *= (double)dims[axis];
            continue;
        }
        first[axes] = last[axes] = axis;
        count[axes++] = dims[axis] < 1 ? 1 : (double)dims[axis];
    }
    if (axes > 1 && last[axes - 1] == inner && count[axes - 1] * bytes <= 16 &&
        fmod(16, count[axes - 1] * bytes) == 0) {
        bytes *= count[--axes];
        inner = first[axes] - 1;
        while (inner > 0 && dims[inner] == 1)
            inner--;
    }
    if (axes <= 1)
        return price_piece_ns(axes > 0 ? bytes * count[0] : bytes);
    rows = count[axes - 1];
    for (uint32_t d = 0; d < axes; d++) {
        matrices *= d + 1 < axes && last[d] != inner ? count[d] : 1;
        columns = last[d] == inner ? count[d] : columns;
    }
    if (last[axes - 1] == inner) /* rows stay rows */
        return matrices * price_piece_ns(bytes * rows);
    return matrices * price_matrix_ns(bytes, rows, columns);
}

/* The time to change the order of `bytes` bytes, which takes near_ns if they are in the near cache, without the call.
 * Larger data arrive no faster than the shared cache copies them. */
static inline double price_moved_ns(const price_memory *memory, double bytes, double near_ns, double threads)
{
    const double rate = 2 * bytes > memory->near_size * threads ? memory->copied / 2 : memory->near;

    return price_reorder_ns(memory, bytes, fmin(bytes / near_ns, rate), threads);
}
#endif
