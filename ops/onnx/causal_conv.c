/* onnx/causal_conv.c - causal convolution that carries its state. */
#include "schema.h"

/* ONNX CausalConvWithState-27: output like input, present_state [batch, channels, taps - 1]. */
static inlay_status infer_causal_conv(op_infer *infer)
{
    inlay_dim state[3] = { infer_dim(infer, 0, 0), infer_dim(infer, 0, 1), dim_unknown() };
    inlay_status status;

    INLAY_TRY(infer_same_as_first(infer));
    state[2] = dim_sub(infer, infer_dim(infer, 1, 2), dim_fixed(1));
    INLAY_TRY(infer_set_shape(infer, 1, 3, state));
done:
    return status;
}

static const op_row onnx_causal_conv_rows[] = {
    { "CausalConvWithState", 27, 0,
      "input:T, weight:T, bias?:T, past_state?:T -> output:T, present_state:T; T=bfloat16|float16|float; "
      "activation:s='none'",
      infer_causal_conv },
};

const op_table op_onnx_causal_conv = { "ai.onnx", onnx_causal_conv_rows, OP_COUNT(onnx_causal_conv_rows) };
