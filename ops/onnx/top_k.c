/* onnx/top_k.c - the largest or smallest elements along an axis. */
#include "schema.h"

static const op_row rows[] = {
    { "TopK", 1, 0, "X:T -> Values:T, Indices:I; T=@float, I=int64; axis:i=-1, k:i!", NULL },
    { "TopK", 10, 0, "X:T, K:int64 -> Values:T, Indices:I; T=@float, I=int64; axis:i=-1", NULL },
    { "TopK", 11, 0, "X:T, K:int64 -> Values:T, Indices:I; T=@numeric, I=int64; axis:i=-1, largest:i=1, sorted:i=1",
      NULL },
    { "TopK", 24, 0, "X:T, K:int64 -> Values:T, Indices:I; T=@numeric_ir4, I=int64; axis:i=-1, largest:i=1, sorted:i=1",
      NULL },
};

const op_table op_onnx_top_k = { "ai.onnx", rows, OP_COUNT(rows) };
