/* onnx/flatten.c - Flatten to a matrix. */
#include "schema.h"

static const op_row rows[] = {
    { "Flatten", 1, 0, "input:T -> output:T; T=@float; axis:i=1", NULL },
    { "Flatten", 9, 0, "input:T -> output:T; T=@all; axis:i=1", NULL },
    { "Flatten", 11, 0, "input:T -> output:T; T=@all; axis:i=1", NULL },
    { "Flatten", 13, 0, "input:T -> output:T; T=@all_ir4; axis:i=1", NULL },
    { "Flatten", 21, 0, "input:T -> output:T; T=@all_ir10; axis:i=1", NULL },
    { "Flatten", 23, 0, "input:T -> output:T; T=@all_ir11; axis:i=1", NULL },
    { "Flatten", 24, 0, "input:T -> output:T; T=@all_ir12; axis:i=1", NULL },
    { "Flatten", 25, 0, "input:T -> output:T; T=@all_ir13; axis:i=1", NULL },
};

const op_table op_onnx_flatten = { "ai.onnx", rows, OP_COUNT(rows) };
