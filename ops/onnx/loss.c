/* onnx/loss.c - losses. */
#include "schema.h"

static const op_row rows[] = {
    { "NegativeLogLikelihoodLoss", 12, 0,
      "input:T, target:Tind, weight?:T -> loss:T; T=@float, Tind=int32|int64; ignore_index:i, reduction:s='mean'",
      NULL },
    { "NegativeLogLikelihoodLoss", 13, 0,
      "input:T, target:Tind, weight?:T -> loss:T; T=@float, Tind=int32|int64; ignore_index:i, reduction:s='mean'",
      NULL },
    { "NegativeLogLikelihoodLoss", 22, 0,
      "input:T, target:Tind, weight?:T -> loss:T; T=@float_ir4, Tind=int32|int64; ignore_index:i, reduction:s='mean'",
      NULL },

    { "SoftmaxCrossEntropyLoss", 12, 0,
      "scores:T, labels:Tind, weights?:T -> output:T, log_prob?:T; T=@float, Tind=int32|int64; ignore_index:i, "
      "reduction:s='mean'",
      NULL },
    { "SoftmaxCrossEntropyLoss", 13, 0,
      "scores:T, labels:Tind, weights?:T -> output:T, log_prob?:T; T=@float_ir4, Tind=int32|int64; ignore_index:i, "
      "reduction:s='mean'",
      NULL },
};

const op_table op_onnx_loss = { "ai.onnx", rows, OP_COUNT(rows) };
