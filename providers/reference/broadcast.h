/* broadcast.h - numpy broadcasting, worked out once per shape.
 *
 * bcast_init() turns the shapes of up to BCAST_MAX inputs and of the output into strides and merges neighbouring
 * dimensions that are walked alike, so that [N, C, H, W] + [C, 1, 1] becomes [N, C, H * W] and equal shapes become one
 * dimension. A kernel keeps the bcast in its plan and walks it in rows: along a row every input advances by step 0
 * or 1.
 *
 *     bcast_cursor c;
 *     for (bcast_start(b, begin, &c); bcast_row(b, &c, end); )
 *         loop(out + c.out, x + c.at[0], b->step[0], y + c.at[1], b->step[1], c.count);
 *
 * All offsets count elements. Ranges [begin, end) of output elements may be given to different threads. */
#ifndef BROADCAST_H
#define BROADCAST_H
#include "inlay/kit.h"

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

/* Where a walk stands. */
typedef struct bcast_cursor {
    int64_t out;           /* first output element of the piece in hand */
    int64_t at[BCAST_MAX]; /* the input elements that go with it */
    int64_t count;         /* elements of the piece */
    int64_t next;          /* first output element of the piece after it */
    int64_t index[INLAY_MAX_RANK];
    int64_t base[BCAST_MAX]; /* of the row in hand */
    int64_t in_row;          /* position in the row where the next piece starts */
} bcast_cursor;

/* What bcast_init() reads of a shape. */
typedef struct bcast_shape {
    const int64_t *dims;
    uint32_t rank;
} bcast_shape;

/* False when an input does not broadcast to the output, or there are more dimensions than INLAY_MAX_RANK or more inputs
 * than BCAST_MAX. */
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
    /* From the innermost dimension outwards, in reverse order for now. */
    int64_t size[BCAST_MAX] = { 1, 1, 1, 1 };
    for (uint32_t d = out.rank; d-- > 0;) {
        int64_t n = out.dims[d], stride[BCAST_MAX] = { 0 };
        bcast->count *= n;
        if (n == 1)
            continue;
        for (uint32_t k = 0; k < inputs; k++) {
            uint32_t skip = out.rank - in[k].rank;
            bool repeated = d < skip || in[k].dims[d - skip] == 1;
            stride[k] = repeated ? 0 : size[k];
            size[k] *= repeated ? 1 : n;
        }
        bool merge = bcast->rank > 0;
        for (uint32_t k = 0; k < inputs && merge; k++)
            merge = stride[k] == bcast->stride[k][bcast->rank - 1] * bcast->dims[bcast->rank - 1];
        if (merge) {
            bcast->dims[bcast->rank - 1] *= n;
            continue;
        }
        for (uint32_t k = 0; k < inputs; k++)
            bcast->stride[k][bcast->rank] = stride[k];
        bcast->dims[bcast->rank++] = n;
    }
    if (bcast->rank == 0)
        bcast->dims[bcast->rank++] = 1;
    for (uint32_t i = 0, j = bcast->rank - 1; i < j; i++, j--) {
        int64_t n = bcast->dims[i];
        bcast->dims[i] = bcast->dims[j];
        bcast->dims[j] = n;
        for (uint32_t k = 0; k < inputs; k++) {
            int64_t s = bcast->stride[k][i];
            bcast->stride[k][i] = bcast->stride[k][j];
            bcast->stride[k][j] = s;
        }
    }
    bcast->row = bcast->dims[bcast->rank - 1];
    for (uint32_t k = 0; k < inputs; k++)
        bcast->step[k] = bcast->stride[k][bcast->rank - 1];
    return true;
}

/* bcast_init() from the tensors of a plan or a call: inputs 0 to inputs - 1 and output 0. */
static inline bool bcast_init_tensors(struct bcast *bcast, uint32_t inputs, const kit_tensor *in, const kit_tensor *out)
{
    bcast_shape shapes[BCAST_MAX];

    for (uint32_t k = 0; k < inputs && k < BCAST_MAX; k++)
        shapes[k] = (bcast_shape){ in[k].dims, in[k].rank };
    return bcast_init(bcast, inputs, shapes, (bcast_shape){ out->dims, out->rank });
}

/* Stands before output element begin. */
static inline void bcast_start(const struct bcast *bcast, int64_t begin, bcast_cursor *cursor)
{
    int64_t rest = begin;

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

/* Steps to the next piece of a row that lies before end; false when there is none.
 * A walk may go on with a later end. */
static inline bool bcast_row(const struct bcast *bcast, bcast_cursor *cursor, int64_t end)
{
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
