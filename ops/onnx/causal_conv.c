/* onnx/causal_conv.c - causal convolution that carries its state. */
#include "schema.h"

static const op_row rows[] = {
    { "CausalConvWithState", 27, 0,
      "input:T, weight:T, bias?:T, past_state?:T -> output:T, present_state:T; T=bfloat16|float16|float; "
      "activation:s='none'",
      NULL },
};

const op_table op_onnx_causal_conv = { "ai.onnx", rows, OP_COUNT(rows) };
