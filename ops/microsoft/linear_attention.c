/* microsoft/linear_attention.c - contributed operators of ONNX Runtime for models with linear attention: its state, its
 * gates, and convolutions that carry their state. */
#include "schema.h"

/* The key may have fewer heads than the value, and the query fewer or more heads than the value: output [batch, steps,
 * most heads * value size], state [batch, value heads, key size, value size]. */
static inlay_status infer_linear_attention(op_infer *infer)
{
    const int64_t queries = infer_attr_int(infer, "q_num_heads", 0), values = infer_attr_int(infer, "kv_num_heads", 0);
    inlay_dim key, value;
    inlay_status status = INLAY_OK;

    if (queries < 1 || values < 1)
        return infer_fail(infer, INLAY_INVALID_MODEL,
                          "q_num_heads is %lld and kv_num_heads %lld; both must be positive", (long long)queries,
                          (long long)values);
    infer_set_dtype(infer, 1, infer->in[infer_has_in(infer, 3) ? 3 : 0]->dtype);
    if (infer_rank(infer, 0) != 3 || infer_rank(infer, 2) != 3)
        goto done;
    key = dim_div(infer, infer_dim(infer, 0, 2), dim_fixed(queries));
    value = dim_div(infer, infer_dim(infer, 2, 2), dim_fixed(values));
    const inlay_dim output[] = { infer_dim(infer, 0, 0), infer_dim(infer, 0, 1),
                                 dim_mul(infer, dim_fixed(queries > values ? queries : values), value) };
    const inlay_dim state[] = { infer_dim(infer, 0, 0), dim_fixed(values), key, value };
    INLAY_TRY(infer_set_shape(infer, 0, 3, output));
    INLAY_TRY(infer_set_shape(infer, 1, 4, state));
done:
    return status;
}

/* The state holds the past positions that the taps reach: [batch, channels, reach], or [batch, reach, channels..]. */
static inlay_status infer_causal_conv(op_infer *infer)
{
    const bool last = infer_attr_int(infer, "channels_last", 0) != 0;
    const int64_t dilation = infer_attr_int(infer, "dilation", 1);
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim state[INLAY_MAX_RANK];
    inlay_status status;

    INLAY_TRY(infer_same_as_first(infer));
    if (dilation < 1)
        return infer_fail(infer, INLAY_INVALID_MODEL, "dilation is %lld; it must be positive", (long long)dilation);
    if (rank == INLAY_RANK_UNKNOWN || rank > INLAY_MAX_RANK)
        goto done;
    if (last ? rank < 3 : rank != 3)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "the input has rank %u; [batch, channels, length] is needed",
                          rank);
    for (uint32_t d = 0; d < rank; d++)
        state[d] = infer_dim(infer, 0, d);
    state[last ? 1 : 2] = dim_mul(infer, dim_sub(infer, infer_dim(infer, 1, 2), dim_fixed(1)), dim_fixed(dilation));
    INLAY_TRY(infer_set_shape(infer, 1, rank, state));
done:
    return status;
}

static inlay_status infer_gates(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_status status = infer_same_as_first(infer);

    infer_set_dtype(infer, 1, infer->in[0]->dtype);
    if (status == INLAY_OK && rank != INLAY_RANK_UNKNOWN)
        status = infer_set_shape(infer, 1, rank, infer->in[0]->dims);
    return status;
}

static const op_row microsoft_linear_attention_rows[] = {
    { "CausalConvWithState", 1, 0,
      "input:T, weight:T, bias?:T, past_state?:T -> output:T, present_state:T; T=float|float16|bfloat16; "
      "activation:s='none'{'none'|'silu'|'swish'}, channels_last:i=0{0|1}, dilation:i=1, ndim:i=1{1}, "
      "state_window:i=0{0}",
      infer_causal_conv },
    { "EngramGate", 1, 0,
      "key:T, query:T, value:T, key_norm_scale:T, query_norm_scale:T -> output:T; T=float|float16|bfloat16; "
      "epsilon:f=1e-05",
      infer_same_as_first },
    { "GatedAdd", 1, 0, "X:T, Y:T, gate:T -> output:T; T=float|float16|bfloat16", infer_same_as_first },
    { "GatedRMSNorm", 1, 0, "X:T, scale:T, gate:T -> Y:T; T=float|float16|bfloat16; epsilon:f=1e-05",
      infer_same_as_first },
    { "LinearAttention", 1, 0,
      "query:T, key:T, value:T, past_state?:S, decay?:T, beta?:T -> output:T, present_state:S; "
      "T=float|float16|bfloat16, S=float|float16|bfloat16; chunk_size:i=64, kv_num_heads:i!, q_num_heads:i!, "
      "scale:f=0, "
      "state_window:i=0{0}, update_rule:s='gated_delta'{'linear'|'gated'|'delta'|'gated_delta'}",
      infer_linear_attention },
    { "LinearAttentionGate", 1, 0,
      "a:T, dt_bias:F, decay_scale:F, b?:T -> decay:T, beta?:T; T=float|float16|bfloat16, F=float", infer_gates },
    { "MRotaryEmbedding", 1, 0,
      "input:T, position_ids:M, cos_cache:T, sin_cache:T -> output:T; T=float|float16|bfloat16, M=int64; "
      "interleaved:i=0{0|1}, is_packed_batching:i=0, mrope_layout:i=0{0|1}, mrope_section:is!, num_heads:i=0, "
      "rotary_embedding_dim:i=0, scale:f=1",
      infer_same_as_first },
};

const op_table op_microsoft_linear_attention = { "com.microsoft", microsoft_linear_attention_rows,
                                                 OP_COUNT(microsoft_linear_attention_rows) };
