/* onnx/transpose.c - permutation of axes. */
#include "schema.h"

static const op_row rows[] = {
    { "Transpose", 1, 0, "data:T -> transposed:T; T=@all; perm:is", NULL },
    { "Transpose", 13, 0, "data:T -> transposed:T; T=@all_ir4; perm:is", NULL },
    { "Transpose", 21, 0, "data:T -> transposed:T; T=@all_ir10; perm:is", NULL },
    { "Transpose", 23, 0, "data:T -> transposed:T; T=@all_ir11; perm:is", NULL },
    { "Transpose", 24, 0, "data:T -> transposed:T; T=@all_ir12; perm:is", NULL },
    { "Transpose", 25, 0, "data:T -> transposed:T; T=@all_ir13; perm:is", NULL },
};

const op_table op_onnx_transpose = { "ai.onnx", rows, OP_COUNT(rows) };
