/* onnx/variadic.c - the variadic elementwise operators, broadcast. */
#include "schema.h"

static const op_row rows[] = {
    { "Max", 1, 0, "data_0*:T -> max:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Max", 6, 0, "data_0*:T -> max:T; T=@float", infer_same_as_first },
    { "Max", 8, 0, "data_0*:T -> max:T; T=@float", infer_broadcast_all },
    { "Max", 12, 0, "data_0*:T -> max:T; T=@numeric", infer_broadcast_all },
    { "Max", 13, 0, "data_0*:T -> max:T; T=@numeric_ir4", infer_broadcast_all },

    { "Mean", 1, 0, "data_0*:T -> mean:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Mean", 6, 0, "data_0*:T -> mean:T; T=@float", infer_same_as_first },
    { "Mean", 8, 0, "data_0*:T -> mean:T; T=@float", infer_broadcast_all },
    { "Mean", 13, 0, "data_0*:T -> mean:T; T=@float_ir4", infer_broadcast_all },

    { "Min", 1, 0, "data_0*:T -> min:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Min", 6, 0, "data_0*:T -> min:T; T=@float", infer_same_as_first },
    { "Min", 8, 0, "data_0*:T -> min:T; T=@float", infer_broadcast_all },
    { "Min", 12, 0, "data_0*:T -> min:T; T=@numeric", infer_broadcast_all },
    { "Min", 13, 0, "data_0*:T -> min:T; T=@numeric_ir4", infer_broadcast_all },

    { "Sum", 1, 0, "data_0*:T -> sum:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Sum", 6, 0, "data_0*:T -> sum:T; T=@float", infer_same_as_first },
    { "Sum", 8, 0, "data_0*:T -> sum:T; T=@float", infer_broadcast_all },
    { "Sum", 13, 0, "data_0*:T -> sum:T; T=@float_ir4", infer_broadcast_all },
};

const op_table op_onnx_variadic = { "ai.onnx", rows, OP_COUNT(rows) };
