/* onnx/compare.c - comparisons of two tensors, broadcast. */
#include "schema.h"

static const op_row rows[] = {
    { "Equal", 1, 0, "A:T, B:T -> C:T1; T=bool|int32|int64, T1=bool; axis:i, broadcast:i=0", NULL },
    { "Equal", 7, 0, "A:T, B:T -> C:T1; T=bool|int32|int64, T1=bool", NULL },
    { "Equal", 11, 0, "A:T, B:T -> C:T1; T=@numeric|bool, T1=bool", NULL },
    { "Equal", 13, 0, "A:T, B:T -> C:T1; T=@numeric_ir4|bool, T1=bool", NULL },
    { "Equal", 19, 0, "A:T, B:T -> C:T1; T=@all_ir4-@complex, T1=bool", NULL },

    { "Greater", 1, 0, "A:T, B:T -> C:T1; T=@float, T1=bool; axis:i, broadcast:i=0", NULL },
    { "Greater", 7, 0, "A:T, B:T -> C:T1; T=@float, T1=bool", NULL },
    { "Greater", 9, 0, "A:T, B:T -> C:T1; T=@numeric, T1=bool", NULL },
    { "Greater", 13, 0, "A:T, B:T -> C:T1; T=@numeric_ir4, T1=bool", NULL },

    { "GreaterOrEqual", 12, 0, "A:T, B:T -> C:T1; T=@numeric, T1=bool", NULL },
    { "GreaterOrEqual", 16, 0, "A:T, B:T -> C:T1; T=@numeric_ir4, T1=bool", NULL },

    { "Less", 1, 0, "A:T, B:T -> C:T1; T=@float, T1=bool; axis:i, broadcast:i=0", NULL },
    { "Less", 7, 0, "A:T, B:T -> C:T1; T=@float, T1=bool", NULL },
    { "Less", 9, 0, "A:T, B:T -> C:T1; T=@numeric, T1=bool", NULL },
    { "Less", 13, 0, "A:T, B:T -> C:T1; T=@numeric_ir4, T1=bool", NULL },

    { "LessOrEqual", 12, 0, "A:T, B:T -> C:T1; T=@numeric, T1=bool", NULL },
    { "LessOrEqual", 16, 0, "A:T, B:T -> C:T1; T=@numeric_ir4, T1=bool", NULL },
};

const op_table op_onnx_compare = { "ai.onnx", rows, OP_COUNT(rows) };
