/* onnx/attention.c - attention. */
#include "schema.h"

/* Sizes of an operand, which is [batch, heads, sequence, head size] or packed [batch, sequence, heads * head size]. */
typedef struct operand {
    inlay_dim batch, heads, length, width;
} operand;

static inlay_status read_operand(op_infer *infer, uint32_t i, const char *name, const char *heads_attr, operand *out)
{
    uint32_t rank = infer_rank(infer, i);
    int64_t heads = infer_attr_int(infer, heads_attr, 0);

    *out = (operand){ dim_unknown(), dim_unknown(), dim_unknown(), dim_unknown() };
    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank != 3 && rank != 4)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "%s has rank %u; it must have 3 or 4", name, rank);
    if (rank == 3 && heads <= 0)
        return infer_fail(infer, INLAY_INVALID_MODEL, "%s has rank 3, which needs attribute '%s'", name, heads_attr);
    out->batch = infer_dim(infer, i, 0);
    out->heads = rank == 4 ? infer_dim(infer, i, 1) : dim_fixed(heads);
    out->length = infer_dim(infer, i, rank - 2);
    out->width = infer_dim(infer, i, rank - 1);
    if (rank == 3) {
        out->length = infer_dim(infer, i, 1);
        out->width = dim_div(infer, out->width, out->heads);
    }
    return INLAY_OK;
}

static inlay_status set_four(op_infer *infer, uint32_t o, inlay_dim a, inlay_dim b, inlay_dim c, inlay_dim d)
{
    inlay_dim dims[] = { a, b, c, d };

    return infer_set_shape(infer, o, 4, dims);
}

/* Attention-23: the output has the rank of Q, the caches and the scores are unpacked. */
static inlay_status infer_attention(op_infer *infer)
{
    inlay_status status;
    operand q, k, v;
    inlay_dim total, packed[3];

    INLAY_TRY(read_operand(infer, 0, "Q", "q_num_heads", &q));
    INLAY_TRY(read_operand(infer, 1, "K", "kv_num_heads", &k));
    INLAY_TRY(read_operand(infer, 2, "V", "kv_num_heads", &v));
    total = infer_has_in(infer, 4) ? dim_add(infer, infer_dim(infer, 4, 2), k.length) : k.length;
    if (infer_rank(infer, 0) == 3) {
        packed[0] = q.batch;
        packed[1] = q.length;
        packed[2] = dim_mul(infer, q.heads, v.width);
        INLAY_TRY(infer_set_shape(infer, 0, 3, packed));
    } else if (infer_rank(infer, 0) == 4) {
        INLAY_TRY(set_four(infer, 0, q.batch, q.heads, q.length, v.width));
    }
    INLAY_TRY(set_four(infer, 1, q.batch, k.heads, total, k.width));
    INLAY_TRY(set_four(infer, 2, q.batch, k.heads, total, v.width));
    status = set_four(infer, 3, q.batch, q.heads, q.length, total);
done:
    return status;
}

/* LinearAttention-27: everything packed but the state [batch, kv heads, key size, value size]. */
static inlay_status infer_linear_attention(op_infer *infer)
{
    inlay_status status;
    inlay_dim packed[3];
    operand q, k, v;

    INLAY_TRY(read_operand(infer, 0, "query", "q_num_heads", &q));
    INLAY_TRY(read_operand(infer, 1, "key", "kv_num_heads", &k));
    INLAY_TRY(read_operand(infer, 2, "value", "kv_num_heads", &v));
    packed[0] = q.batch;
    packed[1] = q.length;
    packed[2] = dim_mul(infer, q.heads, v.width);
    INLAY_TRY(infer_set_shape(infer, 0, 3, packed));
    if (infer_has_out(infer, 1) && infer->out[1]->dtype == INLAY_UNDEFINED)
        infer_set_dtype(infer, 1, infer->in[0]->dtype); /* without a state to start from */
    status = set_four(infer, 1, q.batch, k.heads, k.width, v.width);
done:
    return status;
}

static const op_row rows[] = {
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

const op_table op_onnx_attention = { "ai.onnx", rows, OP_COUNT(rows) };
