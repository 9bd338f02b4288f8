/* onnx/global_pool.c - pooling over all spatial axes. */
#include "schema.h"

static const op_row rows[] = {
    { "GlobalAveragePool", 1, 0, "X:T -> Y:T; T=@float", NULL },
    { "GlobalAveragePool", 22, 0, "X:T -> Y:T; T=@float_ir4", NULL },
    { "GlobalLpPool", 1, 0, "X:T -> Y:T; T=@float; p:f=2", NULL },
    { "GlobalLpPool", 2, 0, "X:T -> Y:T; T=@float; p:i=2", NULL },
    { "GlobalLpPool", 22, 0, "X:T -> Y:T; T=@float_ir4; p:i=2", NULL },
    { "GlobalMaxPool", 1, 0, "X:T -> Y:T; T=@float", NULL },
    { "GlobalMaxPool", 22, 0, "X:T -> Y:T; T=@float_ir4", NULL },
};

const op_table op_onnx_global_pool = { "ai.onnx", rows, OP_COUNT(rows) };
