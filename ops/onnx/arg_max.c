/* onnx/arg_max.c - index of the largest or smallest element along an axis. */
#include "schema.h"
#include "inlay/check.h"

static inlay_status infer_arg_max(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    const bool keep = infer_attr_int(infer, "keepdims", 1) != 0;
    inlay_dim dims[INLAY_MAX_RANK];
    inlay_status status;
    uint32_t axis, n = 0;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    status = infer_axis(infer, infer_attr_int(infer, "axis", 0), rank, "axis", &axis);
    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < rank; i++) {
        if (i != axis)
            dims[n++] = infer_dim(infer, 0, i);
        else if (keep)
            dims[n++] = dim_fixed(1);
    }
    INLAY_CHECK(n == (keep ? rank : rank - 1));
    return infer_set_shape(infer, 0, n, dims);
}

static const op_row onnx_arg_max_rows[] = {
    { "ArgMax", 1, 0, "data:T -> reduced:int64; T=@numeric; axis:i=0, keepdims:i=1", infer_arg_max },
    { "ArgMax", 11, 0, "data:T -> reduced:int64; T=@numeric; axis:i=0, keepdims:i=1", infer_arg_max },
    { "ArgMax", 12, 0, "data:T -> reduced:int64; T=@numeric; axis:i=0, keepdims:i=1, select_last_index:i=0",
      infer_arg_max },
    { "ArgMax", 13, 0, "data:T -> reduced:int64; T=@numeric_ir4; axis:i=0, keepdims:i=1, select_last_index:i=0",
      infer_arg_max },
    { "ArgMin", 1, 0, "data:T -> reduced:int64; T=@numeric; axis:i=0, keepdims:i=1", infer_arg_max },
    { "ArgMin", 11, 0, "data:T -> reduced:int64; T=@numeric; axis:i=0, keepdims:i=1", infer_arg_max },
    { "ArgMin", 12, 0, "data:T -> reduced:int64; T=@numeric; axis:i=0, keepdims:i=1, select_last_index:i=0",
      infer_arg_max },
    { "ArgMin", 13, 0, "data:T -> reduced:int64; T=@numeric_ir4; axis:i=0, keepdims:i=1, select_last_index:i=0",
      infer_arg_max },
};

const op_table op_onnx_arg_max = { "ai.onnx", onnx_arg_max_rows, OP_COUNT(onnx_arg_max_rows) };
