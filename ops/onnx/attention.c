/* onnx/attention.c - attention. */
#include "schema.h"

/* Batch, heads, rows and head size of input i: [batch, heads, rows, size], or [batch, rows, heads * size] with the
 * number of heads in an attribute. */
struct heads {
    inlay_dim batch, heads, rows, size;
    bool known;
};

static inlay_status read_heads(op_infer *infer, uint32_t i, const char *attribute, struct heads *out)
{
    uint32_t rank = infer_rank(infer, i);
    int64_t count = infer_attr_int(infer, attribute, 0);

    *out = (struct heads){ .known = rank != INLAY_RANK_UNKNOWN };
    if (!out->known)
        return INLAY_OK;
    out->batch = infer_dim(infer, i, 0);
    if (rank == 4) {
        out->heads = infer_dim(infer, i, 1);
        out->rows = infer_dim(infer, i, 2);
        out->size = infer_dim(infer, i, 3);
        return INLAY_OK;
    }
    if (rank != 3 || count <= 0)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input %u has rank %u; it must be 4, or 3 with %s given", i,
                          rank, attribute);
    out->heads = dim_fixed(count);
    out->rows = infer_dim(infer, i, 1);
    out->size = dim_div(infer, infer_dim(infer, i, 2), dim_fixed(count));
    return INLAY_OK;
}

/* Reads the heads of Q, K and V. */
static inlay_status read_all(op_infer *infer, struct heads *q, struct heads *k, struct heads *v)
{
    inlay_status status;

    INLAY_TRY(read_heads(infer, 0, "q_num_heads", q));
    INLAY_TRY(read_heads(infer, 1, "kv_num_heads", k));
    INLAY_TRY(read_heads(infer, 2, "kv_num_heads", v));
done:
    return status;
}

/* Q, K and V must have the same batch, K and V the same length and heads, Q and K the same head size. */
static inlay_status check_heads(op_infer *infer, const struct heads *q, const struct heads *k, const struct heads *v)
{
    inlay_status status;
    inlay_dim dim;

    INLAY_TRY(dim_merge(infer, q->batch, k->batch, "batch of Q and K", &dim));
    INLAY_TRY(dim_merge(infer, k->batch, v->batch, "batch of K and V", &dim));
    INLAY_TRY(dim_merge(infer, k->heads, v->heads, "heads of K and V", &dim));
    INLAY_TRY(dim_merge(infer, k->rows, v->rows, "length of K and V", &dim));
    INLAY_TRY(dim_merge(infer, q->size, k->size, "head size of Q and K", &dim));
    if (q->heads.kind == INLAY_DIM_FIXED && k->heads.kind == INLAY_DIM_FIXED && q->heads.value != k->heads.value &&
        (k->heads.value == 0 || q->heads.value % k->heads.value != 0))
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "Q has %lld heads, K %lld; it must be a multiple",
                          (long long)q->heads.value, (long long)k->heads.value);
done:
    return status;
}

/* Keys that a query may not use, by a mask of bool, is_causal, a window or nonpad_kv_seqlen, take no part in its
 * result, even if the key or its value is NaN or infinity: caches hold rows that nothing has written yet. So do
 * elements of a mask of floats that are -infinity or at most the lowest float, which is how such masks are written. The
 * function that defines the operator adds these, and multiplies the values by 0, so that NaN spreads there; it does in
 * a model that spells attention out, too (ai.inlay's Attention). Finite elements give the same result either way. */

/* ONNX Attention-23: Y has the shape of Q, with the head size of V; present_key and present_value are [batch, kv heads,
 * past + new, size]; the products of Q and K are [batch, heads, queries, keys]. */
static inlay_status infer_attention(op_infer *infer)
{
    struct heads q, k, v;
    inlay_dim total;
    inlay_status status;

    INLAY_TRY(read_all(infer, &q, &k, &v));
    if (!q.known || !k.known || !v.known)
        return INLAY_OK;
    INLAY_TRY(check_heads(infer, &q, &k, &v));
    total = k.rows;
    if (infer_has_in(infer, 4))
        total = dim_add(infer, infer_dim(infer, 4, 2), k.rows);
    const inlay_dim dim[] = { q.batch, q.heads, q.rows, v.size };
    const inlay_dim packed[] = { q.batch, q.rows, dim_mul(infer, q.heads, v.size) };
    const inlay_dim key[] = { q.batch, k.heads, total, k.size }, value[] = { q.batch, v.heads, total, v.size };
    const inlay_dim products[] = { q.batch, q.heads, q.rows, total };
    if (infer_rank(infer, 0) == 3)
        INLAY_TRY(infer_set_shape(infer, 0, 3, packed));
    else
        INLAY_TRY(infer_set_shape(infer, 0, 4, dim));
    INLAY_TRY(infer_set_shape(infer, 1, 4, key));
    INLAY_TRY(infer_set_shape(infer, 2, 4, value));
    INLAY_TRY(infer_set_shape(infer, 3, 4, products));
done:
    return status;
}

/* ONNX LinearAttention-27: output [batch, steps, q heads * value size], state [batch, kv heads, key size, value
 * size]. */
static inlay_status infer_linear_attention(op_infer *infer)
{
    struct heads q, k, v;
    inlay_status status;

    INLAY_TRY(read_all(infer, &q, &k, &v));
    if (!q.known || !k.known || !v.known)
        return INLAY_OK;
    const inlay_dim dim[] = { q.batch, q.rows, dim_mul(infer, q.heads, v.size) };
    const inlay_dim state[] = { q.batch, k.heads, k.size, v.size };
    INLAY_TRY(infer_set_shape(infer, 0, 3, dim));
    if (infer_has_out(infer, 1)) {
        /* Without a past state, the state has the type of the activations. */
        if (!infer_has_in(infer, 3))
            infer_set_dtype(infer, 1, infer->in[0]->dtype);
        INLAY_TRY(infer_set_shape(infer, 1, 4, state));
    }
done:
    return status;
}

static const op_row onnx_attention_rows[] = {
    { "Attention", 23, 0,
      "Q:T1, K:T1, V:T2, attn_mask?:U, past_key?:T1, past_value?:T2 -> Y:T1, present_key?:T1, present_value?:T2, "
      "qk_matmul_output?:T1; T1=@float_ir4, T2=@float_ir4, U=@numeric_ir4|bool; is_causal:i=0, kv_num_heads:i, "
      "q_num_heads:i, qk_matmul_output_mode:i=0, scale:f, softcap:f=0, softmax_precision:i",
      infer_attention },
    { "Attention", 24, 0,
      "Q:T1, K:T1, V:T2, attn_mask?:U, past_key?:T1, past_value?:T2, nonpad_kv_seqlen?:int64 -> Y:T1, "
      "present_key?:T1, present_value?:T2, qk_matmul_output?:T1; T1=@float_ir4, T2=@float_ir4, U=@numeric_ir4|bool; "
      "is_causal:i=0, kv_num_heads:i, q_num_heads:i, qk_matmul_output_mode:i=0, scale:f, softcap:f=0, "
      "softmax_precision:i",
      infer_attention },
    { "Attention", 25, 0,
      "Q:T1, K:T1, V:T2, attn_mask?:U, past_key?:T1, past_value?:T2, nonpad_kv_seqlen?:int64 -> Y:T1, "
      "present_key?:T1, present_value?:T2, qk_matmul_output?:T1; T1=@float_ir4, T2=@float_ir4, U=@numeric_ir4|bool; "
      "is_causal:i=0, kv_num_heads:i, left_window_size:i=-1, q_num_heads:i, qk_matmul_output_mode:i=0, "
      "right_window_size:i=-1, scale:f, softcap:f=0, softmax_precision:i",
      infer_attention },

    { "LinearAttention", 27, 0,
      "query:T, key:T, value:T, past_state?:S, decay?:T, beta?:T -> output:T, present_state:S; "
      "T=bfloat16|float16|float, S=bfloat16|float16|float; chunk_size:i=64, kv_num_heads:i!, q_num_heads:i!, "
      "scale:f=0, update_rule:s='gated_delta'",
      infer_linear_attention },
};

const op_table op_onnx_attention = { "ai.onnx", onnx_attention_rows, OP_COUNT(onnx_attention_rows) };
