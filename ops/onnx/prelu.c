/* onnx/prelu.c - PRelu: a leaky Relu with a slope tensor. */
#include "schema.h"

static const op_row rows[] = {
    { "PRelu", 1, 0, "X:T, slope:T -> Y:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "PRelu", 6, 0, "X:T, slope:T -> Y:T; T=@float", infer_same_as_first },
    { "PRelu", 7, 0, "X:T, slope:T -> Y:T; T=@float", infer_same_as_first },
    { "PRelu", 9, 0, "X:T, slope:T -> Y:T; T=@math", infer_same_as_first },
    { "PRelu", 16, 0, "X:T, slope:T -> Y:T; T=@math_ir4", infer_same_as_first },
};

const op_table op_onnx_prelu = { "ai.onnx", rows, OP_COUNT(rows) };
