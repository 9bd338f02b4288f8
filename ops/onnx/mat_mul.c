/* onnx/mat_mul.c - matrix product. */
#include "schema.h"

static const op_row rows[] = {
    { "MatMul", 1, 0, "A:T, B:T -> Y:T; T=@float", NULL },
    { "MatMul", 9, 0, "A:T, B:T -> Y:T; T=@math", NULL },
    { "MatMul", 13, 0, "A:T, B:T -> Y:T; T=@math_ir4", NULL },
};

const op_table op_onnx_mat_mul = { "ai.onnx", rows, OP_COUNT(rows) };
