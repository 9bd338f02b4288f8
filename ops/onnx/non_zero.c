/* onnx/non_zero.c - indices of the elements that are not zero. */
#include "schema.h"

/* [rank, count]; the count depends on the data. */
static inlay_status infer_non_zero(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    const inlay_dim dims[2] = { rank != INLAY_RANK_UNKNOWN ? dim_fixed(rank) : dim_unknown(), dim_unknown() };

    return infer_set_shape(infer, 0, 2, dims);
}

static const op_row onnx_non_zero_rows[] = {
    { "NonZero", 9, 0, "X:T -> Y:int64; T=@all", infer_non_zero },
    { "NonZero", 13, 0, "X:T -> Y:int64; T=@all_ir4", infer_non_zero },
};

const op_table op_onnx_non_zero = { "ai.onnx", onnx_non_zero_rows, OP_COUNT(onnx_non_zero_rows) };
