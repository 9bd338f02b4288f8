/* onnx/where.c - choice by a condition, broadcast. */
#include "schema.h"

static const op_row rows[] = {
    { "Where", 9, 0, "condition:B, X:T, Y:T -> output:T; B=bool, T=@all", NULL },
    { "Where", 16, 0, "condition:B, X:T, Y:T -> output:T; B=bool, T=@all_ir4", NULL },
};

const op_table op_onnx_where = { "ai.onnx", rows, OP_COUNT(rows) };
