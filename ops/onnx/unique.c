/* onnx/unique.c - distinct elements or slices. */
#include "schema.h"

static const op_row rows[] = {
    { "Unique", 11, 0, "X:T -> Y:T, indices?:int64, inverse_indices?:int64, counts?:int64; T=@all; axis:i, sorted:i=1",
      NULL },
};

const op_table op_onnx_unique = { "ai.onnx", rows, OP_COUNT(rows) };
