/* onnx/split.c - splitting along an axis. */
#include "schema.h"

static const op_row rows[] = {
    { "Split", 1, 0, "input:T, split?:T -> outputs...*:T; T=@float; axis:i, split:is", NULL },
    { "Split", 2, 0, "input:T -> outputs*:T; T=@all; axis:i=0, split:is", NULL },
    { "Split", 11, 0, "input:T -> outputs*:T; T=@all; axis:i=0, split:is", NULL },
    { "Split", 13, 0, "input:T, split?:int64 -> outputs*:T; T=@all_ir4; axis:i=0", NULL },
    { "Split", 18, 0, "input:T, split?:int64 -> outputs*:T; T=@all_ir4; axis:i=0, num_outputs:i", NULL },
};

const op_table op_onnx_split = { "ai.onnx", rows, OP_COUNT(rows) };
