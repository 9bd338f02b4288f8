/* onnx/one_hot.c - one-hot vectors. */
#include "schema.h"

static const op_row rows[] = {
    { "OneHot", 9, 0, "indices:T1, depth:T2, values:T3 -> output:T3; T1=@numeric, T2=@numeric, T3=@all; axis:i=-1",
      NULL },
    { "OneHot", 11, 0, "indices:T1, depth:T2, values:T3 -> output:T3; T1=@numeric, T2=@numeric, T3=@all; axis:i=-1",
      NULL },
};

const op_table op_onnx_one_hot = { "ai.onnx", rows, OP_COUNT(rows) };
