/* onnx/causal_conv.c - causal convolution that carries its state. */
#include "schema.h"

/* input [N, C, L], weight [C, 1, K]: output as input, present_state [N, C, K - 1]. */
static inlay_status infer_causal_conv(op_infer *infer)
{
    uint32_t rank = infer_rank(infer, 0), weight_rank = infer_rank(infer, 1);
    inlay_dim state[3];
    inlay_status status = infer_same_as_first(infer);

    if (status != INLAY_OK || rank == INLAY_RANK_UNKNOWN || weight_rank == INLAY_RANK_UNKNOWN)
        return status;
    if (rank != 3 || weight_rank != 3)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input has rank %u and weight %u; both must have 3", rank,
                          weight_rank);
    state[0] = infer_dim(infer, 0, 0);
    state[1] = infer_dim(infer, 0, 1);
    state[2] = dim_sub(infer, infer_dim(infer, 1, 2), dim_fixed(1));
    return infer_set_shape(infer, 1, 3, state);
}

static const op_row rows[] = {
    { "CausalConvWithState", 27, 0,
      "input:T, weight:T, bias?:T, past_state?:T -> output:T, present_state:T; T=bfloat16|float16|float; "
      "activation:s='none'",
      infer_causal_conv },
};

const op_table op_onnx_causal_conv = { "ai.onnx", rows, OP_COUNT(rows) };
