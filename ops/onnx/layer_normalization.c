/* onnx/layer_normalization.c - layer normalization. */
#include "schema.h"

static const op_row rows[] = {
    { "LayerNormalization", 17, 0,
      "X:T, Scale:T, B?:T -> Y:T, Mean?:U, InvStdDev?:U; T=@float_ir4, U=bfloat16|float; axis:i=-1, epsilon:f=1e-05, "
      "stash_type:i=1",
      NULL },
};

const op_table op_onnx_layer_normalization = { "ai.onnx", rows, OP_COUNT(rows) };
