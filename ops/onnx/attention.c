/* onnx/attention.c - attention. */
#include "schema.h"

static const op_row rows[] = {
    { "Attention", 23, 0,
      "Q:T1, K:T1, V:T2, attn_mask?:U, past_key?:T1, past_value?:T2 -> Y:T1, present_key?:T1, present_value?:T2, "
      "qk_matmul_output?:T1; T1=@float_ir4, T2=@float_ir4, U=@numeric_ir4|bool; is_causal:i=0, kv_num_heads:i, "
      "q_num_heads:i, qk_matmul_output_mode:i=0, scale:f, softcap:f=0, softmax_precision:i",
      NULL },
    { "Attention", 24, 0,
      "Q:T1, K:T1, V:T2, attn_mask?:U, past_key?:T1, past_value?:T2, nonpad_kv_seqlen?:int64 -> Y:T1, "
      "present_key?:T1, present_value?:T2, qk_matmul_output?:T1; T1=@float_ir4, T2=@float_ir4, U=@numeric_ir4|bool; "
      "is_causal:i=0, kv_num_heads:i, q_num_heads:i, qk_matmul_output_mode:i=0, scale:f, softcap:f=0, "
      "softmax_precision:i",
      NULL },
    { "Attention", 25, 0,
      "Q:T1, K:T1, V:T2, attn_mask?:U, past_key?:T1, past_value?:T2, nonpad_kv_seqlen?:int64 -> Y:T1, "
      "present_key?:T1, present_value?:T2, qk_matmul_output?:T1; T1=@float_ir4, T2=@float_ir4, U=@numeric_ir4|bool; "
      "is_causal:i=0, kv_num_heads:i, left_window_size:i=-1, q_num_heads:i, qk_matmul_output_mode:i=0, "
      "right_window_size:i=-1, scale:f, softcap:f=0, softmax_precision:i",
      NULL },

    { "LinearAttention", 27, 0,
      "query:T, key:T, value:T, past_state?:S, decay?:T, beta?:T -> output:T, present_state:S; "
      "T=bfloat16|float16|float, S=bfloat16|float16|float; chunk_size:i=64, kv_num_heads:i!, q_num_heads:i!, "
      "scale:f=0, update_rule:s='gated_delta'",
      NULL },
};

const op_table op_onnx_attention = { "ai.onnx", rows, OP_COUNT(rows) };
