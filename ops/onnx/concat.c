/* onnx/concat.c - concatenation along an axis. */
#include "schema.h"
#include "inlay/check.h"

/* Propagates the elements of the inputs, which are vectors, if all are known. */
static inlay_status join_elements(op_infer *infer)
{
    inlay_dim joined[INFER_MAX_ELEMENTS];
    uint32_t total = 0;

    for (uint32_t i = 0; i < infer->in_count; i++) {
        uint32_t count;
        const inlay_dim *elements = infer_elements(infer, i, &count);

        if (elements == NULL || count > INFER_MAX_ELEMENTS - total)
            return INLAY_OK;
        for (uint32_t k = 0; k < count; k++)
            joined[total++] = elements[k];
        INLAY_CHECK(total <= INFER_MAX_ELEMENTS);
    }
    return infer_set_elements(infer, 0, total, joined);
}

/* The sizes along the axis are added; the other dimensions must agree. */
static inlay_status infer_concat(op_infer *infer)
{
    uint32_t rank = INLAY_RANK_UNKNOWN, axis;
    inlay_dim dims[INLAY_MAX_RANK];
    inlay_status status = INLAY_OK;
    bool complete = true;

    for (uint32_t i = 0; i < infer->in_count; i++) {
        const uint32_t other = infer_rank(infer, i);

        complete = complete && other != INLAY_RANK_UNKNOWN;
        if (rank != INLAY_RANK_UNKNOWN && other != INLAY_RANK_UNKNOWN && other != rank)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input %u has rank %u, but other inputs have rank %u", i,
                              other, rank);
        rank = other != INLAY_RANK_UNKNOWN ? other : rank;
    }
    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    INLAY_TRY(infer_axis(infer, infer_attr_int(infer, "axis", 1), rank, "axis", &axis));
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = d == axis && complete ? dim_fixed(0) : dim_unknown();
    for (uint32_t i = 0; i < infer->in_count; i++) {
        for (uint32_t d = 0; d < rank && infer_rank(infer, i) != INLAY_RANK_UNKNOWN; d++) {
            if (d == axis)
                dims[d] = dim_add(infer, dims[d], infer_dim(infer, i, d));
            else
                INLAY_TRY(dim_merge(infer, dims[d], infer_dim(infer, i, d), "an axis that is not joined", &dims[d]));
        }
    }
    INLAY_TRY(infer_set_shape(infer, 0, rank, dims));
    if (rank == 1)
        status = join_elements(infer);
done:
    return status;
}

static const op_row onnx_concat_rows[] = {
    { "Concat", 1, 0, "inputs*:T -> concat_result:T; T=@float; axis:i", infer_concat },
    { "Concat", 4, 0, "inputs*:T -> concat_result:T; T=@all; axis:i!", infer_concat },
    { "Concat", 11, 0, "inputs*:T -> concat_result:T; T=@all; axis:i!", infer_concat },
    { "Concat", 13, 0, "inputs*:T -> concat_result:T; T=@all_ir4; axis:i!", infer_concat },
};

const op_table op_onnx_concat = { "ai.onnx", onnx_concat_rows, OP_COUNT(onnx_concat_rows) };
