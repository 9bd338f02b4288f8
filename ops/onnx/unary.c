/* onnx/unary.c - functions of one tensor, element by element. */
#include "schema.h"

/* Neg propagates dimensions, for slices of the last n elements. */
static inlay_status infer_neg(op_infer *infer)
{
    inlay_dim negated[INFER_MAX_ELEMENTS];
    inlay_status status = infer_same_as_first(infer);
    uint32_t count;
    const inlay_dim *elements;

    if (status != INLAY_OK || infer_rank(infer, 0) > 1 || (elements = infer_elements(infer, 0, &count)) == NULL)
        return status;
    for (uint32_t i = 0; i < count; i++)
        negated[i] = dim_sub(infer, dim_fixed(0), elements[i]);
    return infer_set_elements(infer, 0, count, negated);
}

static const op_row onnx_unary_rows[] = {
    { "Abs", 1, 0, "X:T -> Y:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Abs", 6, 0, "X:T -> Y:T; T=@numeric", infer_same_as_first },
    { "Abs", 13, 0, "X:T -> Y:T; T=@numeric_ir4", infer_same_as_first },
    { "Acos", 7, 0, "input:T -> output:T; T=@float", infer_same_as_first },
    { "Acos", 22, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
    { "Acosh", 9, 0, "input:T -> output:T; T=@float", infer_same_as_first },
    { "Acosh", 22, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
    { "Asin", 7, 0, "input:T -> output:T; T=@float", infer_same_as_first },
    { "Asin", 22, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
    { "Asinh", 9, 0, "input:T -> output:T; T=@float", infer_same_as_first },
    { "Asinh", 22, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
    { "Atan", 7, 0, "input:T -> output:T; T=@float", infer_same_as_first },
    { "Atan", 22, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
    { "Atanh", 9, 0, "input:T -> output:T; T=@float", infer_same_as_first },
    { "Atanh", 22, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
    { "Ceil", 1, 0, "X:T -> Y:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Ceil", 6, 0, "X:T -> Y:T; T=@float", infer_same_as_first },
    { "Ceil", 13, 0, "X:T -> Y:T; T=@float_ir4", infer_same_as_first },
    { "Cos", 7, 0, "input:T -> output:T; T=@float", infer_same_as_first },
    { "Cos", 22, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
    { "Cosh", 9, 0, "input:T -> output:T; T=@float", infer_same_as_first },
    { "Cosh", 22, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
    { "Erf", 9, 0, "input:T -> output:T; T=@numeric", infer_same_as_first },
    { "Erf", 13, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
    { "Exp", 1, 0, "input:T -> output:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Exp", 6, 0, "input:T -> output:T; T=@float", infer_same_as_first },
    { "Exp", 13, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
    { "Floor", 1, 0, "X:T -> Y:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Floor", 6, 0, "X:T -> Y:T; T=@float", infer_same_as_first },
    { "Floor", 13, 0, "X:T -> Y:T; T=@float_ir4", infer_same_as_first },
    { "Log", 1, 0, "input:T -> output:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Log", 6, 0, "input:T -> output:T; T=@float", infer_same_as_first },
    { "Log", 13, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
    { "Neg", 1, 0, "X:T -> Y:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Neg", 6, 0, "X:T -> Y:T; T=@float|@signed", infer_neg },
    { "Neg", 13, 0, "X:T -> Y:T; T=@float_ir4|@signed", infer_neg },
    { "Reciprocal", 1, 0, "X:T -> Y:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Reciprocal", 6, 0, "X:T -> Y:T; T=@float", infer_same_as_first },
    { "Reciprocal", 13, 0, "X:T -> Y:T; T=@float_ir4", infer_same_as_first },
    { "Round", 11, 0, "X:T -> Y:T; T=@float", infer_same_as_first },
    { "Round", 22, 0, "X:T -> Y:T; T=@float_ir4", infer_same_as_first },
    { "Sign", 9, 0, "input:T -> output:T; T=@numeric", infer_same_as_first },
    { "Sign", 13, 0, "input:T -> output:T; T=@numeric_ir4", infer_same_as_first },
    { "Sin", 7, 0, "input:T -> output:T; T=@float", infer_same_as_first },
    { "Sin", 22, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
    { "Sinh", 9, 0, "input:T -> output:T; T=@float", infer_same_as_first },
    { "Sinh", 22, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
    { "Sqrt", 1, 0, "X:T -> Y:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Sqrt", 6, 0, "X:T -> Y:T; T=@float", infer_same_as_first },
    { "Sqrt", 13, 0, "X:T -> Y:T; T=@float_ir4", infer_same_as_first },
    { "Tan", 7, 0, "input:T -> output:T; T=@float", infer_same_as_first },
    { "Tan", 22, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
    { "Tanh", 1, 0, "input:T -> output:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "Tanh", 6, 0, "input:T -> output:T; T=@float", infer_same_as_first },
    { "Tanh", 13, 0, "input:T -> output:T; T=@float_ir4", infer_same_as_first },
};

const op_table op_onnx_unary = { "ai.onnx", onnx_unary_rows, OP_COUNT(onnx_unary_rows) };
