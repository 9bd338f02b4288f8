/* broadcast.h - numpy broadcasting, planned once per shape.
 *
 * bcast_init() turns the shapes of up to BCAST_MAX inputs and of the output into strides. It merges adjacent
 * dimensions with the same pattern of strides: [N, C, H, W] + [C, 1, 1] becomes [N, C, H * W], and equal shapes become
 * one dimension. A kernel keeps the struct in its plan and iterates over rows. Along a row, each input advances by a
 * step of 0 or 1.
 *
 *     bcast_cursor c;
 *     for (bcast_start(b, begin, &c); bcast_row(b, &c, end); )
 *         loop(out + c.out, x + c.at[0], b->step[0], y + c.at[1], b->step[1], c.count);
 *
 * All offsets count elements. Different threads may process different ranges [begin, end) of output elements. */
#ifndef BROADCAST_H
#define BROADCAST_H
#include "inlay/kit_call.h"
#include "inlay/check.h"

enum { BCAST_MAX = 4 };

struct bcast {
    int64_t count; /* elements of the output; 0 when a dimension is 0 */
    int64_t row;   /* elements of a row: dims[rank - 1] */
    uint32_t rank; /* merged dimensions, at least 1 */
    uint32_t inputs;
    int64_t step[BCAST_MAX];                   /* along a row: 0 or 1 */
    int64_t dims[INLAY_MAX_RANK];              /* merged, outermost first */
    int64_t stride[BCAST_MAX][INLAY_MAX_RANK]; /* 0 where the input is repeated */
};

/* The position of an iteration over rows. */
typedef struct bcast_cursor {
    int64_t out;           /* first output element of the current piece */
    int64_t at[BCAST_MAX]; /* the first element of the piece in each input */
    int64_t count;         /* elements of the piece */
    int64_t next;          /* first output element of the next piece */
    int64_t index[INLAY_MAX_RANK];
    int64_t base[BCAST_MAX]; /* first element of the current row in each input */
    int64_t in_row;          /* position in the row where the next piece starts */
} bcast_cursor;

/* A shape, as bcast_init() takes it. */
typedef struct bcast_shape {
    const int64_t *dims;
    uint32_t rank;
} bcast_shape;

/* Returns false if an input does not broadcast to the output, or if there are more dimensions than INLAY_MAX_RANK or
 * more inputs than BCAST_MAX. */
static inline bool bcast_init(struct bcast *bcast, uint32_t inputs, const bcast_shape *in, bcast_shape out)
{
    *bcast = (struct bcast){ .count = 1, .rank = 0, .inputs = inputs };
    if (inputs > BCAST_MAX || out.rank > INLAY_MAX_RANK)
        return false;
    for (uint32_t k = 0; k < inputs; k++)
        if (in[k].rank > out.rank)
            return false;
    for (uint32_t d = 0; d < out.rank; d++)
        for (uint32_t k = 0; k < inputs; k++) {
            uint32_t skip = out.rank - in[k].rank;
            if (d >= skip && in[k].dims[d - skip] != 1 && in[k].dims[d - skip] != out.dims[d])
                return false;
        }
    /* Collect the dimensions from the innermost to the outermost; the order is reversed below. */
    int64_t next_stride[BCAST_MAX] = { 1, 1, 1, 1 };
    for (uint32_t d = out.rank; d-- > 0;) {
        int64_t size = out.dims[d], stride[BCAST_MAX] = { 0 };
        bcast->count *= size;
        if (size == 1)
            continue;
        for (uint32_t k = 0; k < inputs; k++) {
            uint32_t skip = out.rank - in[k].rank;
            bool repeated = d < skip || in[k].dims[d - skip] == 1;
            stride[k] = repeated ? 0 : next_stride[k];
            next_stride[k] *= repeated ? 1 : size;
        }
        bool merge = bcast->rank > 0;
        for (uint32_t k = 0; k < inputs && merge; k++)
            merge = stride[k] == bcast->stride[k][bcast->rank - 1] * bcast->dims[bcast->rank - 1];
        if (merge) {
            bcast->dims[bcast->rank - 1] *= size;
            continue;
        }
        for (uint32_t k = 0; k < inputs; k++)
            bcast->stride[k][bcast->rank] = stride[k];
        bcast->dims[bcast->rank++] = size;
    }
    if (bcast->rank == 0)
        bcast->dims[bcast->rank++] = 1;
    for (uint32_t i = 0, j = bcast->rank - 1; i < j; i++, j--) {
        int64_t size = bcast->dims[i];
        bcast->dims[i] = bcast->dims[j];
        bcast->dims[j] = size;
        for (uint32_t k = 0; k < inputs; k++) {
            int64_t swapped_stride = bcast->stride[k][i];
            bcast->stride[k][i] = bcast->stride[k][j];
            bcast->stride[k][j] = swapped_stride;
        }
    }
    bcast->row = bcast->dims[bcast->rank - 1];
    for (uint32_t k = 0; k < inputs; k++)
        bcast->step[k] = bcast->stride[k][bcast->rank - 1];
    return true;
}

/* Calls bcast_init() with the shapes of tensors of a plan or a call: inputs 0 to inputs - 1, and output 0. */
static inline bool bcast_init_tensors(struct bcast *bcast, uint32_t inputs, const kit_tensor *in, const kit_tensor *out)
{
    bcast_shape shapes[BCAST_MAX];

    for (uint32_t k = 0; k < inputs && k < BCAST_MAX; k++)
        shapes[k] = (bcast_shape){ in[k].dims, in[k].rank };
    return bcast_init(bcast, inputs, shapes, (bcast_shape){ out->dims, out->rank });
}

/* Positions the cursor at output element `begin`. */
static inline void bcast_start(const struct bcast *bcast, int64_t begin, bcast_cursor *cursor)
{
    int64_t rest = begin;

    INLAY_CHECK(bcast->rank >= 1 && bcast->rank <= INLAY_MAX_RANK);
    INLAY_CHECK(begin >= 0);
    cursor->next = begin;
    for (uint32_t k = 0; k < BCAST_MAX; k++)
        cursor->base[k] = 0;
    for (uint32_t d = bcast->rank; d-- > 0;) {
        cursor->index[d] = bcast->dims[d] > 0 ? rest % bcast->dims[d] : 0;
        rest = bcast->dims[d] > 0 ? rest / bcast->dims[d] : 0;
    }
    for (uint32_t d = 0; d + 1 < bcast->rank; d++)
        for (uint32_t k = 0; k < bcast->inputs; k++)
            cursor->base[k] += cursor->index[d] * bcast->stride[k][d];
    cursor->in_row = cursor->index[bcast->rank - 1];
}

/* Moves to the next piece of a row before `end`; returns false if there is none. A later call may continue with a
 * larger `end`. */
static inline bool bcast_row(const struct bcast *bcast, bcast_cursor *cursor, int64_t end)
{
    INLAY_CHECK(bcast->inputs <= BCAST_MAX);
    if (cursor->next >= end)
        return false;
    cursor->out = cursor->next;
    cursor->count = bcast->row - cursor->in_row < end - cursor->out ? bcast->row - cursor->in_row : end - cursor->out;
    for (uint32_t k = 0; k < bcast->inputs; k++)
        cursor->at[k] = cursor->base[k] + cursor->in_row * bcast->step[k];
    cursor->next += cursor->count;
    cursor->in_row += cursor->count;
    if (cursor->in_row < bcast->row)
        return true;
    cursor->in_row = 0;
    for (uint32_t d = bcast->rank - 1; d-- > 0;) {
        for (uint32_t k = 0; k < bcast->inputs; k++)
            cursor->base[k] += bcast->stride[k][d];
        if (++cursor->index[d] < bcast->dims[d])
            break;
        for (uint32_t k = 0; k < bcast->inputs; k++)
            cursor->base[k] -= bcast->dims[d] * bcast->stride[k][d];
        cursor->index[d] = 0;
    }
    return true;
}
#endif
