/* inlay/attention.c - attention as models compute it from basic operators; the optimiser fuses these nodes
 * (host/runtime/passes/attention.c):
 *
 *     MatMul(Softmax(Where(hidden, 0, MatMul(Q, Transpose(K)) * scale) + bias), V)
 *
 * All floats have one type. Q, K and V are [batch, heads, length, size]; several heads of Q may share a head of K and
 * V. NaN and infinity give the same results as in these nodes: a row whose scores are all -infinity is NaN, where
 * ONNX's Attention has zeros; a hidden score is replaced even if it is NaN; elements of V with the weight 0 are
 * multiplied, too. bias [.., queries, keys] and hidden are broadcast to the scores.
 *
 * guarded: Where(IsNaN(p), 0, p) follows Softmax. causal: bias is 0 up to the position of the query and at most -1e20
 * after it, so a kernel may skip the later keys, provided that all other values are of ordinary
 * magnitude.
 *
 * sink [1, 1 or heads, 1, 1]: one more score in each row, without a key and a value, as some models learn one for each
 * head: it takes part in the sums of the Softmax alone. A row whose scores are all -infinity is then 0, and hidden keys
 * take no part, as in ONNX's Attention.
 *
 * CachedAttention(Q, K, V, bias, hidden, k_scale, v_scale, sink) is Attention of Q,
 * DequantizeRows(K, k_scale) and DequantizeRows(V, v_scale). value_bits: bits of V, if they are not those of K. blank:
 * the result for a query whose scores are all -infinity; guarded: 0, also where a score is NaN; zero: as in ONNX's
 * Attention, where also hidden keys take no part (ops/onnx/attention.c). softcap above 0: a score x becomes softcap
 * tanh(x / softcap), after the scale and before masks. */
#include "schema.h"
#include "inlay/check.h"

static inlay_status infer_attention(op_infer *infer)
{
    const int64_t values = infer_attr_int(infer, "value_size", 0); /* of CachedAttention, whose V has codes */
    inlay_dim dim[4];

    for (uint32_t i = 0; i < 3; i++) {
        if (infer_rank(infer, i) == INLAY_RANK_UNKNOWN)
            return INLAY_OK;
        if (infer_rank(infer, i) != 4)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input %u has rank %u; it must be 4", i,
                              infer_rank(infer, i));
    }
    INLAY_CHECK(infer_rank(infer, 0) == 4 && infer_rank(infer, 2) == 4);
    for (uint32_t d = 0; d < 3; d++)
        dim[d] = infer_dim(infer, 0, d);
    dim[3] = values > 0 ? dim_fixed(values) : infer_dim(infer, 2, 3);
    return infer_set_shape(infer, 0, 4, dim);
}

static const op_row inlay_attention_rows[] = {
    { "Attention", 1, 0,
      "Q:T, K:T, V:T, bias?:T, hidden?:bool, sink?:T -> Y:T; T=@float_ir4; causal:i=0, guarded:i=0, scale:f",
      infer_attention },
    { "CachedAttention", 1, 0,
      "Q:T, K:C, V:C, bias?:T, hidden?:bool, k_scale?:float, v_scale?:float, sink?:T -> Y:T; T=float, C=int8|uint8; "
      "bits:i!{8|4}, blank:s='zero'{'zero'|'nan'|'guarded'}, causal:i=0, scale:f, softcap:f=0, "
      "value_size:i!, value_bits:i{8|4}",
      infer_attention },
};

const op_table op_inlay_attention = { "ai.inlay", inlay_attention_rows, OP_COUNT(inlay_attention_rows) };
