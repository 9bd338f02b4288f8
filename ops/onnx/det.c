/* onnx/det.c - determinant. */
#include "schema.h"

static inlay_status infer_det(op_infer *infer)
{
    uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK], side;
    inlay_status status = INLAY_OK;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank < 2)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "X has rank %u; a determinant needs matrices", rank);
    INLAY_TRY(dim_merge(infer, infer_dim(infer, 0, rank - 2), infer_dim(infer, 0, rank - 1), "the sides of X", &side));
    for (uint32_t d = 0; d + 2 < rank; d++)
        dims[d] = infer_dim(infer, 0, d);
    INLAY_TRY(infer_set_shape(infer, 0, rank - 2, dims));
done:
    return status;
}

static const op_row onnx_det_rows[] = {
    { "Det", 11, 0, "X:T -> Y:T; T=@float", infer_det },
    { "Det", 22, 0, "X:T -> Y:T; T=@float_ir4", infer_det },
};

const op_table op_onnx_det = { "ai.onnx", onnx_det_rows, OP_COUNT(onnx_det_rows) };
