/* preview/flex_attention.c - attention with programmable scores. */
#include "schema.h"

/* Q [batch, heads, length, size] and V [batch, kv heads, kv length, value size] give [batch, heads, length, value
 * size]. */
static inlay_status infer_flex_attention(op_infer *infer)
{
    inlay_dim dims[4];
    inlay_dtype precision;
    inlay_status status = infer_attr_dtype(infer, "softmax_precision", INLAY_UNDEFINED, &precision);

    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < 3; i++)
        if (infer_rank(infer, i) != INLAY_RANK_UNKNOWN && infer_rank(infer, i) != 4)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input %u has rank %u; it must have 4", i,
                              infer_rank(infer, i));
    for (uint32_t d = 0; d < 3; d++)
        dims[d] = infer_dim(infer, 0, d);
    dims[3] = infer_dim(infer, 2, 3);
    return infer_set_shape(infer, 0, 4, dims);
}

static const op_row preview_flex_attention_rows[] = {
    { "FlexAttention", 1, 0,
      "Q:T1, K:T1, V:T1 -> Y:T1; T1=@float_ir4; prob_mod:g, scale:f, score_mod:g, softmax_precision:i",
      infer_flex_attention },
};

const op_table op_preview_flex_attention = { "ai.onnx.preview", preview_flex_attention_rows,
                                             OP_COUNT(preview_flex_attention_rows) };
