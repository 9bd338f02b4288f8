/* onnx/arithmetic.c - arithmetic of two tensors, broadcast. */
#include "schema.h"

/* One element of integer arithmetic. ONNX's division truncates; dim_div rounds down, which is the same for the sizes
 * that a symbol can stand for. */
static inlay_dim combine(op_infer *infer, inlay_dim a, inlay_dim b)
{
    switch (infer->node->op_type.data[0]) {
    case 'A':
        return dim_add(infer, a, b);
    case 'S':
        return dim_sub(infer, a, b);
    case 'M':
        return dim_mul(infer, a, b);
    default:
        if (b.kind != INLAY_DIM_FIXED || b.value <= 0)
            return dim_unknown();
        if (a.kind == INLAY_DIM_FIXED)
            return dim_fixed(a.value / b.value);
        return dim_div(infer, a, b);
    }
}

/* Mod of known numbers: the sign of the divisor, or with fmod that of the dividend. */
static inlay_dim combine_mod(op_infer *infer, inlay_dim a, inlay_dim b)
{
    int64_t rest;

    if (a.kind != INLAY_DIM_FIXED || b.kind != INLAY_DIM_FIXED || b.value == 0 || b.value == -1)
        return b.kind == INLAY_DIM_FIXED && b.value == -1 ? dim_fixed(0) : dim_unknown();
    rest = a.value % b.value;
    if (infer_attr_int(infer, "fmod", 0) == 0 && rest != 0 && (rest < 0) != (b.value < 0))
        rest += b.value;
    return dim_fixed(rest);
}

/* Add-7, Sub-7, Mul-7, Div-7 and later: numpy broadcasting; vectors of dimensions keep their elements. */
static inlay_status infer_arithmetic(op_infer *infer)
{
    inlay_status status = infer_broadcast_all(infer);

    return status == INLAY_OK ? infer_pairwise_elements(infer, combine) : status;
}

static inlay_status infer_mod(op_infer *infer)
{
    inlay_status status = infer_broadcast_all(infer);

    return status == INLAY_OK ? infer_pairwise_elements(infer, combine_mod) : status;
}

static const op_row onnx_arithmetic_rows[] = {
    { "Add", 1, 0, "A:T, B:T -> C:T; T=@float; axis:i, broadcast:i=0, consumed_inputs:is", infer_same_as_first },
    { "Add", 6, 0, "A:T, B:T -> C:T; T=@math; axis:i, broadcast:i=0", infer_same_as_first },
    { "Add", 7, 0, "A:T, B:T -> C:T; T=@math", infer_arithmetic },
    { "Add", 13, 0, "A:T, B:T -> C:T; T=@math_ir4", infer_arithmetic },
    { "Add", 14, 0, "A:T, B:T -> C:T; T=@numeric_ir4", infer_arithmetic },

    { "Div", 1, 0, "A:T, B:T -> C:T; T=@float; axis:i, broadcast:i=0, consumed_inputs:is", infer_same_as_first },
    { "Div", 6, 0, "A:T, B:T -> C:T; T=@math; axis:i, broadcast:i=0", infer_same_as_first },
    { "Div", 7, 0, "A:T, B:T -> C:T; T=@math", infer_arithmetic },
    { "Div", 13, 0, "A:T, B:T -> C:T; T=@math_ir4", infer_arithmetic },
    { "Div", 14, 0, "A:T, B:T -> C:T; T=@numeric_ir4", infer_arithmetic },

    { "Mod", 10, 0, "A:T, B:T -> C:T; T=@numeric; fmod:i=0", infer_mod },
    { "Mod", 13, 0, "A:T, B:T -> C:T; T=@numeric_ir4; fmod:i=0", infer_mod },

    { "Mul", 1, 0, "A:T, B:T -> C:T; T=@float; axis:i, broadcast:i=0, consumed_inputs:is", infer_same_as_first },
    { "Mul", 6, 0, "A:T, B:T -> C:T; T=@math; axis:i, broadcast:i=0", infer_same_as_first },
    { "Mul", 7, 0, "A:T, B:T -> C:T; T=@math", infer_arithmetic },
    { "Mul", 13, 0, "A:T, B:T -> C:T; T=@math_ir4", infer_arithmetic },
    { "Mul", 14, 0, "A:T, B:T -> C:T; T=@numeric_ir4", infer_arithmetic },

    { "Pow", 1, 0, "X:T, Y:T -> Z:T; T=@float; axis:i, broadcast:i=0", infer_same_as_first },
    { "Pow", 7, 0, "X:T, Y:T -> Z:T; T=@float", infer_broadcast_all },
    { "Pow", 12, 0, "X:T, Y:T1 -> Z:T; T=@float|int32|int64, T1=@numeric", infer_broadcast_all },
    { "Pow", 13, 0, "X:T, Y:T1 -> Z:T; T=@float_ir4|int32|int64, T1=@numeric", infer_broadcast_all },
    { "Pow", 15, 0, "X:T, Y:T1 -> Z:T; T=@float_ir4|int32|int64, T1=@numeric_ir4", infer_broadcast_all },

    { "Sub", 1, 0, "A:T, B:T -> C:T; T=@float; axis:i, broadcast:i=0, consumed_inputs:is", infer_same_as_first },
    { "Sub", 6, 0, "A:T, B:T -> C:T; T=@math; axis:i, broadcast:i=0", infer_same_as_first },
    { "Sub", 7, 0, "A:T, B:T -> C:T; T=@math", infer_arithmetic },
    { "Sub", 13, 0, "A:T, B:T -> C:T; T=@math_ir4", infer_arithmetic },
    { "Sub", 14, 0, "A:T, B:T -> C:T; T=@numeric_ir4", infer_arithmetic },
};

const op_table op_onnx_arithmetic = { "ai.onnx", onnx_arithmetic_rows, OP_COUNT(onnx_arithmetic_rows) };
