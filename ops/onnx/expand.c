/* onnx/expand.c - broadcasting to a shape. */
#include "schema.h"

static const op_row rows[] = {
    { "Expand", 8, 0, "input:T, shape:int64 -> output:T; T=@all", NULL },
    { "Expand", 13, 0, "input:T, shape:int64 -> output:T; T=@all_ir4", NULL },
};

const op_table op_onnx_expand = { "ai.onnx", rows, OP_COUNT(rows) };
