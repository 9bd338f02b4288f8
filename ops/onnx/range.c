/* onnx/range.c - an arithmetic sequence. */
#include "schema.h"

static const op_row rows[] = {
    { "Range", 11, 0, "start:T, limit:T, delta:T -> output:T; T=int16|int32|int64|float|double", NULL },
    { "Range", 27, 0, "start:T, limit:T, delta:T -> output:T; T=@float_ir4|int16|int32|int64; stash_type:i=1", NULL },
};

const op_table op_onnx_range = { "ai.onnx", rows, OP_COUNT(rows) };
