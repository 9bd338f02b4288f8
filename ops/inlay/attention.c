/* inlay/attention.c - attention as models spell it out, which the optimiser puts together
 * (host/runtime/passes/attention.c):
 *
 *     MatMul(Softmax(Where(hidden, 0, MatMul(Q, Transpose(K)) * scale) + bias), V)
 *
 * in floats of one type, Q, K and V [batch, heads, length, size], where several heads of Q may share one of K and V.
 * Each special value goes the way that it goes through those nodes: a row whose scores are all -infinity is NaN, where
 * ONNX's Attention has zeros; a hidden score is replaced, be it NaN; what has the weight 0 is multiplied all the same.
 * bias [.., queries, keys] and hidden broadcast to the scores.
 *
 * guarded: Where(IsNaN(p), 0, p) stands behind Softmax. causal says of bias that it is 0 up to a query's own place and
 * at most -1e20 behind it: what lies there need not be looked at while all else is of ordinary size. */
#include "schema.h"

static inlay_status infer_attention(op_infer *infer)
{
    inlay_dim dim[4];

    for (uint32_t i = 0; i < 3; i++) {
        if (infer_rank(infer, i) == INLAY_RANK_UNKNOWN)
            return INLAY_OK;
        if (infer_rank(infer, i) != 4)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input %u has rank %u; it must be 4", i,
                              infer_rank(infer, i));
    }
    for (uint32_t d = 0; d < 3; d++)
        dim[d] = infer_dim(infer, 0, d);
    dim[3] = infer_dim(infer, 2, 3);
    return infer_set_shape(infer, 0, 4, dim);
}

static const op_row rows[] = {
    { "Attention", 1, 0, "Q:T, K:T, V:T, bias?:T, hidden?:bool -> Y:T; T=@float_ir4; causal:i=0, guarded:i=0, scale:f",
      infer_attention },
};

const op_table op_inlay_attention = { "ai.inlay", rows, OP_COUNT(rows) };
