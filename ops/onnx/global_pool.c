/* onnx/global_pool.c - pooling over all spatial axes. */
#include "schema.h"

/* [N, C, D1, ...] becomes [N, C, 1, ...]. */
static inlay_status infer_global_pool(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK];

    if (rank == INLAY_RANK_UNKNOWN || rank > INLAY_MAX_RANK)
        return INLAY_OK;
    if (rank < 2)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "X has rank %u; it must be [N, C, ...]", rank);
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = d < 2 ? infer_dim(infer, 0, d) : dim_fixed(1);
    return infer_set_shape(infer, 0, rank, dims);
}

static const op_row onnx_global_pool_rows[] = {
    { "GlobalAveragePool", 1, 0, "X:T -> Y:T; T=@float", infer_global_pool },
    { "GlobalAveragePool", 22, 0, "X:T -> Y:T; T=@float_ir4", infer_global_pool },
    { "GlobalLpPool", 1, 0, "X:T -> Y:T; T=@float; p:f=2", infer_global_pool },
    { "GlobalLpPool", 2, 0, "X:T -> Y:T; T=@float; p:i=2", infer_global_pool },
    { "GlobalLpPool", 22, 0, "X:T -> Y:T; T=@float_ir4; p:i=2", infer_global_pool },
    { "GlobalMaxPool", 1, 0, "X:T -> Y:T; T=@float", infer_global_pool },
    { "GlobalMaxPool", 22, 0, "X:T -> Y:T; T=@float_ir4", infer_global_pool },
};

const op_table op_onnx_global_pool = { "ai.onnx", onnx_global_pool_rows, OP_COUNT(onnx_global_pool_rows) };
