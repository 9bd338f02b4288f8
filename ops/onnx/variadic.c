/* onnx/variadic.c - the variadic elementwise operators, broadcast. */
#include "schema.h"

static inlay_dim larger(op_infer *infer, inlay_dim a, inlay_dim b)
{
    (void)infer;
    if (a.kind != INLAY_DIM_FIXED || b.kind != INLAY_DIM_FIXED)
        return dim_same(a, b) ? a : dim_unknown();
    return a.value > b.value ? a : b;
}

static inlay_dim smaller(op_infer *infer, inlay_dim a, inlay_dim b)
{
    (void)infer;
    if (a.kind != INLAY_DIM_FIXED || b.kind != INLAY_DIM_FIXED)
        return dim_same(a, b) ? a : dim_unknown();
    return a.value < b.value ? a : b;
}

/* Max-12 and Min-12 are the first versions for integers; with two inputs they propagate dimensions. */
static inlay_status infer_extreme(op_infer *infer)
{
    inlay_status status = infer_broadcast_all(infer);

    if (status != INLAY_OK || infer->in_count != 2)
        return status;
    return infer_pairwise_elements(infer, infer->node->op_type.data[1] == 'a' ? larger : smaller);
}

static const op_row onnx_variadic_rows[] = {
    { "Max", 1, 0, "data_0*:T -> max:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Max", 6, 0, "data_0*:T -> max:T; T=@float", infer_same_as_first },
    { "Max", 8, 0, "data_0*:T -> max:T; T=@float", infer_broadcast_all },
    { "Max", 12, 0, "data_0*:T -> max:T; T=@numeric", infer_extreme },
    { "Max", 13, 0, "data_0*:T -> max:T; T=@numeric_ir4", infer_extreme },

    { "Mean", 1, 0, "data_0*:T -> mean:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Mean", 6, 0, "data_0*:T -> mean:T; T=@float", infer_same_as_first },
    { "Mean", 8, 0, "data_0*:T -> mean:T; T=@float", infer_broadcast_all },
    { "Mean", 13, 0, "data_0*:T -> mean:T; T=@float_ir4", infer_broadcast_all },

    { "Min", 1, 0, "data_0*:T -> min:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Min", 6, 0, "data_0*:T -> min:T; T=@float", infer_same_as_first },
    { "Min", 8, 0, "data_0*:T -> min:T; T=@float", infer_broadcast_all },
    { "Min", 12, 0, "data_0*:T -> min:T; T=@numeric", infer_extreme },
    { "Min", 13, 0, "data_0*:T -> min:T; T=@numeric_ir4", infer_extreme },

    { "Sum", 1, 0, "data_0*:T -> sum:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Sum", 6, 0, "data_0*:T -> sum:T; T=@float", infer_same_as_first },
    { "Sum", 8, 0, "data_0*:T -> sum:T; T=@float", infer_broadcast_all },
    { "Sum", 13, 0, "data_0*:T -> sum:T; T=@float_ir4", infer_broadcast_all },
};

const op_table op_onnx_variadic = { "ai.onnx", onnx_variadic_rows, OP_COUNT(onnx_variadic_rows) };
