/* onnx/arithmetic.c - arithmetic of two tensors, broadcast. */
#include "schema.h"

static const op_row rows[] = {
    { "Add", 1, 0, "A:T, B:T -> C:T; T=@float; axis:i, broadcast:i=0, consumed_inputs:is", NULL },
    { "Add", 6, 0, "A:T, B:T -> C:T; T=@math; axis:i, broadcast:i=0", NULL },
    { "Add", 7, 0, "A:T, B:T -> C:T; T=@math", NULL },
    { "Add", 13, 0, "A:T, B:T -> C:T; T=@math_ir4", NULL },
    { "Add", 14, 0, "A:T, B:T -> C:T; T=@numeric_ir4", NULL },

    { "Div", 1, 0, "A:T, B:T -> C:T; T=@float; axis:i, broadcast:i=0, consumed_inputs:is", NULL },
    { "Div", 6, 0, "A:T, B:T -> C:T; T=@math; axis:i, broadcast:i=0", NULL },
    { "Div", 7, 0, "A:T, B:T -> C:T; T=@math", NULL },
    { "Div", 13, 0, "A:T, B:T -> C:T; T=@math_ir4", NULL },
    { "Div", 14, 0, "A:T, B:T -> C:T; T=@numeric_ir4", NULL },

    { "Mod", 10, 0, "A:T, B:T -> C:T; T=@numeric; fmod:i=0", NULL },
    { "Mod", 13, 0, "A:T, B:T -> C:T; T=@numeric_ir4; fmod:i=0", NULL },

    { "Mul", 1, 0, "A:T, B:T -> C:T; T=@float; axis:i, broadcast:i=0, consumed_inputs:is", NULL },
    { "Mul", 6, 0, "A:T, B:T -> C:T; T=@math; axis:i, broadcast:i=0", NULL },
    { "Mul", 7, 0, "A:T, B:T -> C:T; T=@math", NULL },
    { "Mul", 13, 0, "A:T, B:T -> C:T; T=@math_ir4", NULL },
    { "Mul", 14, 0, "A:T, B:T -> C:T; T=@numeric_ir4", NULL },

    { "Pow", 1, 0, "X:T, Y:T -> Z:T; T=@float; axis:i, broadcast:i=0", NULL },
    { "Pow", 7, 0, "X:T, Y:T -> Z:T; T=@float", NULL },
    { "Pow", 12, 0, "X:T, Y:T1 -> Z:T; T=@float|int32|int64, T1=@numeric", NULL },
    { "Pow", 13, 0, "X:T, Y:T1 -> Z:T; T=@float_ir4|int32|int64, T1=@numeric", NULL },
    { "Pow", 15, 0, "X:T, Y:T1 -> Z:T; T=@float_ir4|int32|int64, T1=@numeric_ir4", NULL },

    { "Sub", 1, 0, "A:T, B:T -> C:T; T=@float; axis:i, broadcast:i=0, consumed_inputs:is", NULL },
    { "Sub", 6, 0, "A:T, B:T -> C:T; T=@math; axis:i, broadcast:i=0", NULL },
    { "Sub", 7, 0, "A:T, B:T -> C:T; T=@math", NULL },
    { "Sub", 13, 0, "A:T, B:T -> C:T; T=@math_ir4", NULL },
    { "Sub", 14, 0, "A:T, B:T -> C:T; T=@numeric_ir4", NULL },
};

const op_table op_onnx_arithmetic = { "ai.onnx", rows, OP_COUNT(rows) };
