/* onnx/loss.c - losses. */
#include "schema.h"
#include <string.h>

/* Inputs [N, C, d1 ...] and [N, d1 ...]. The output has the shape of the target, or is a scalar with a reduction. The
 * second output of SoftmaxCrossEntropyLoss has the shape of the scores. */
static inlay_status infer_loss(op_infer *infer)
{
    bool none = strcmp(infer_attr_string(infer, "reduction", "mean"), "none") == 0;
    uint32_t rank = infer_rank(infer, 0), labels = infer_rank(infer, 1);
    inlay_status status = INLAY_OK;

    if (rank != INLAY_RANK_UNKNOWN && (rank < 2 || (labels != INLAY_RANK_UNKNOWN && labels + 1 != rank)))
        return infer_fail(infer, INLAY_SHAPE_MISMATCH,
                          "input 0 must be [N, C, d1 ...] and input 1 [N, d1 ...]; their "
                          "ranks are %u and %u",
                          rank, labels);
    if (rank != INLAY_RANK_UNKNOWN)
        INLAY_TRY(infer_set_shape(infer, 1, rank, infer->in[0]->dims));
    if (!none)
        return infer_scalar(infer);
    if (infer_has_in(infer, 1))
        status = infer_set_shape(infer, 0, labels, infer->in[1]->dims);
done:
    return status;
}

static const op_row onnx_loss_rows[] = {
    { "NegativeLogLikelihoodLoss", 12, 0,
      "input:T, target:Tind, weight?:T -> loss:T; T=@float, Tind=int32|int64; ignore_index:i, reduction:s='mean'",
      infer_loss },
    { "NegativeLogLikelihoodLoss", 13, 0,
      "input:T, target:Tind, weight?:T -> loss:T; T=@float, Tind=int32|int64; ignore_index:i, reduction:s='mean'",
      infer_loss },
    { "NegativeLogLikelihoodLoss", 22, 0,
      "input:T, target:Tind, weight?:T -> loss:T; T=@float_ir4, Tind=int32|int64; ignore_index:i, reduction:s='mean'",
      infer_loss },

    { "SoftmaxCrossEntropyLoss", 12, 0,
      "scores:T, labels:Tind, weights?:T -> output:T, log_prob?:T; T=@float, Tind=int32|int64; ignore_index:i, "
      "reduction:s='mean'",
      infer_loss },
    { "SoftmaxCrossEntropyLoss", 13, 0,
      "scores:T, labels:Tind, weights?:T -> output:T, log_prob?:T; T=@float_ir4, Tind=int32|int64; ignore_index:i, "
      "reduction:s='mean'",
      infer_loss },
};

const op_table op_onnx_loss = { "ai.onnx", onnx_loss_rows, OP_COUNT(onnx_loss_rows) };
