/* onnx/det.c - determinant. */
#include "schema.h"

/* X [..., M, M] gives [...]. */
static inlay_status infer_det(op_infer *infer)
{
    uint32_t rank = infer_rank(infer, 0);
    inlay_dim size;
    inlay_status status;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank < 2)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "X has rank %u; its last two axes must be a matrix", rank);
    status =
        dim_merge(infer, infer_dim(infer, 0, rank - 2), infer_dim(infer, 0, rank - 1), "the size of the matrix", &size);
    return status == INLAY_OK ? infer_set_shape(infer, 0, rank - 2, infer->in[0]->dims) : status;
}

static const op_row rows[] = {
    { "Det", 11, 0, "X:T -> Y:T; T=@float", infer_det },
    { "Det", 22, 0, "X:T -> Y:T; T=@float_ir4", infer_det },
};

const op_table op_onnx_det = { "ai.onnx", rows, OP_COUNT(rows) };
