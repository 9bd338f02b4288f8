/* onnx/transpose.c - permutation of axes. */
#include "schema.h"
#include "inlay/check.h"

static inlay_status infer_transpose(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK];
    uint32_t count, seen = 0;
    const int64_t *perm = infer_attr_ints(infer, "perm", &count);
    const bool reverse = infer_attr(infer, "perm") == NULL;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (!reverse && count != rank)
        return infer_fail(infer, INLAY_INVALID_MODEL, "perm has %u values for an input of rank %u", count, rank);
    for (uint32_t i = 0; i < rank; i++) {
        const int64_t axis = reverse ? (int64_t)(rank - 1 - i) : perm[i];

        if (axis < 0 || axis >= (int64_t)rank || (seen >> axis & 1) != 0)
            return infer_fail(infer, INLAY_INVALID_MODEL, "perm[%u] is %lld; perm must name each of %u axes once", i,
                              (long long)axis, rank);
        seen |= 1u << axis;
        dims[i] = infer_dim(infer, 0, (uint32_t)axis);
    }
    INLAY_CHECK(seen == (1u << rank) - 1);
    return infer_set_shape(infer, 0, rank, dims);
}

static const op_row onnx_transpose_rows[] = {
    { "Transpose", 1, 0, "data:T -> transposed:T; T=@all; perm:is", infer_transpose },
    { "Transpose", 13, 0, "data:T -> transposed:T; T=@all_ir4; perm:is", infer_transpose },
    { "Transpose", 21, 0, "data:T -> transposed:T; T=@all_ir10; perm:is", infer_transpose },
    { "Transpose", 23, 0, "data:T -> transposed:T; T=@all_ir11; perm:is", infer_transpose },
    { "Transpose", 24, 0, "data:T -> transposed:T; T=@all_ir12; perm:is", infer_transpose },
    { "Transpose", 25, 0, "data:T -> transposed:T; T=@all_ir13; perm:is", infer_transpose },
};

const op_table op_onnx_transpose = { "ai.onnx", onnx_transpose_rows, OP_COUNT(onnx_transpose_rows) };
