/* onnx/compress.c - selection by a condition. */
#include "schema.h"

static const op_row rows[] = {
    { "Compress", 9, 0, "input:T, condition:T1 -> output:T; T=@all, T1=bool; axis:i", NULL },
    { "Compress", 11, 0, "input:T, condition:T1 -> output:T; T=@all, T1=bool; axis:i", NULL },
};

const op_table op_onnx_compress = { "ai.onnx", rows, OP_COUNT(rows) };
