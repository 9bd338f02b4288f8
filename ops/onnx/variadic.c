/* onnx/variadic.c - the variadic elementwise operators, broadcast. */
#include "schema.h"

static const op_row rows[] = {
    { "Max", 1, 0, "data_0*:T -> max:T; T=@float; consumed_inputs:is", NULL },
    { "Max", 6, 0, "data_0*:T -> max:T; T=@float", NULL },
    { "Max", 8, 0, "data_0*:T -> max:T; T=@float", NULL },
    { "Max", 12, 0, "data_0*:T -> max:T; T=@numeric", NULL },
    { "Max", 13, 0, "data_0*:T -> max:T; T=@numeric_ir4", NULL },

    { "Mean", 1, 0, "data_0*:T -> mean:T; T=@float; consumed_inputs:is", NULL },
    { "Mean", 6, 0, "data_0*:T -> mean:T; T=@float", NULL },
    { "Mean", 8, 0, "data_0*:T -> mean:T; T=@float", NULL },
    { "Mean", 13, 0, "data_0*:T -> mean:T; T=@float_ir4", NULL },

    { "Min", 1, 0, "data_0*:T -> min:T; T=@float; consumed_inputs:is", NULL },
    { "Min", 6, 0, "data_0*:T -> min:T; T=@float", NULL },
    { "Min", 8, 0, "data_0*:T -> min:T; T=@float", NULL },
    { "Min", 12, 0, "data_0*:T -> min:T; T=@numeric", NULL },
    { "Min", 13, 0, "data_0*:T -> min:T; T=@numeric_ir4", NULL },

    { "Sum", 1, 0, "data_0*:T -> sum:T; T=@float; consumed_inputs:is", NULL },
    { "Sum", 6, 0, "data_0*:T -> sum:T; T=@float", NULL },
    { "Sum", 8, 0, "data_0*:T -> sum:T; T=@float", NULL },
    { "Sum", 13, 0, "data_0*:T -> sum:T; T=@float_ir4", NULL },
};

const op_table op_onnx_variadic = { "ai.onnx", rows, OP_COUNT(rows) };
