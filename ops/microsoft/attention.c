/* microsoft/attention.c - the attention operators among the contributed operators of ONNX Runtime. The optimiser
 * expands them to operators of ONNX, and most shapes follow from these. What the optimiser does depends on ranks, so
 * that of an output which another such operator may read is inferred before. */
#include "schema.h"
#include <string.h>

/* The output has the shape of the query, or of the part of a packed query that holds the queries. The cache has the
 * type of the past; without a past, its type follows from the width of its elements. */
static inlay_status infer_group_query_attention(op_infer *infer)
{
    const bool quantized = strcmp(infer_attr_string(infer, "k_quant_type", "NONE"), "NONE") != 0;
    const int64_t heads = infer_attr_int(infer, "num_heads", 0), shared = infer_attr_int(infer, "kv_num_heads", 0);
    const inlay_dtype dtype = !quantized                                            ? infer->in[0]->dtype
                              : infer_attr_int(infer, "kv_cache_bit_width", 0) == 4 ? INLAY_UINT8
                                                                                    : INLAY_INT8;
    inlay_dim dims[3];

    for (uint32_t o = 1; o < 3; o++)
        if (infer_has_out(infer, o) && !infer_has_in(infer, 3))
            infer_set_dtype(infer, o, dtype);
    if (infer_rank(infer, 0) != 3 || heads < 1 || shared < 1)
        return INLAY_OK;
    for (uint32_t d = 0; d < 3; d++)
        dims[d] = infer_dim(infer, 0, d);
    if (!infer_has_in(infer, 1))
        dims[2] = dim_mul(infer, dim_div(infer, dims[2], dim_fixed(heads + 2 * shared)), dim_fixed(heads));
    return infer_set_shape(infer, 0, 3, dims);
}

/* MultiHeadAttention and DecoderMaskedMultiHeadAttention: [batch, rows, heads * size of the values]. The query is of
 * rank 3, or holds queries, keys and values, [batch, rows, heads, 3, size]; values are of rank 3, or [batch, heads,
 * keys, size], or part of the keys, [batch, keys, heads, 2, size]. */
static inlay_status infer_multi_head_attention(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[3] = { dim_unknown(), dim_unknown(), dim_unknown() };

    if (rank != 3 && rank != 5)
        return INLAY_OK;
    for (uint32_t d = 0; d < 2; d++)
        dims[d] = infer_dim(infer, 0, d);
    if (rank == 5)
        dims[2] = dim_mul(infer, infer_dim(infer, 0, 2), infer_dim(infer, 0, 4));
    else if (!infer_has_in(infer, 2))
        dims[2] = infer_dim(infer, 0, 2);
    else if (infer_rank(infer, 2) == 3)
        dims[2] = infer_dim(infer, 2, 2);
    else if (infer_rank(infer, 2) == 4)
        dims[2] = dim_mul(infer, infer_dim(infer, 2, 1), infer_dim(infer, 2, 3));
    return infer_set_shape(infer, 0, 3, dims);
}

/* Attention and QAttention: [batch, rows, columns of the values], a third of the columns of the weights unless
 * qkv_hidden_sizes says otherwise. The bias has an element for each column. */
static inlay_status infer_projected_attention(op_infer *infer)
{
    uint32_t count = 0;
    const int64_t *sizes = infer_attr_ints(infer, "qkv_hidden_sizes", &count);
    const int64_t heads = infer_attr_int(infer, "num_heads", 0);
    const inlay_dim columns = infer_dim(infer, 1, 1);
    inlay_status status = infer_check_count(infer, 2, columns);
    inlay_dim dims[3];

    if (status == INLAY_OK && infer->node->op_type.data[0] == 'Q') /* of the columns: scales and zero points */
        status = infer_check_list(infer, 4);
    if (status == INLAY_OK && infer->node->op_type.data[0] == 'Q')
        status = infer_check_list(infer, 7);
    if (status != INLAY_OK)
        return status;
    if (sizes == NULL && heads > 0 && columns.kind == INLAY_DIM_FIXED &&
        (columns.value % 3 != 0 || columns.value / 3 % heads != 0))
        return infer_fail(infer, INLAY_SHAPE_MISMATCH,
                          "input 1 has %lld columns, which are not queries, keys and values of %lld heads",
                          (long long)columns.value, (long long)heads);
    if (infer_rank(infer, 0) != 3)
        return INLAY_OK;
    for (uint32_t d = 0; d < 2; d++)
        dims[d] = infer_dim(infer, 0, d);
    dims[2] = sizes != NULL && count == 3 ? dim_fixed(sizes[2])
              : infer_rank(infer, 1) == 2 ? dim_div(infer, infer_dim(infer, 1, 1), dim_fixed(3))
                                          : dim_unknown();
    return infer_set_shape(infer, 0, 3, dims);
}

/* Input last_position of GroupQueryAttention, [batch, rows], is an extension of inlay: a query attends to the keys up
 * to this position, and not only to those up to its own. */
static const op_row microsoft_attention_rows[] = {
    { "Attention", 1, 0,
      "input:T, weights:T, bias?:T, mask_index?:M, past?:T, attention_bias?:T, past_sequence_length?:M -> output:T, "
      "present?:T; T=float|float16, M=int32; do_rotary:i=0, mask_filter_value:f=-10000, num_heads:i!, "
      "past_present_share_buffer:i, qkv_hidden_sizes:is, rotary_embedding_dim:i, scale:f, unidirectional:i=0",
      infer_projected_attention },
    { "DecoderMaskedMultiHeadAttention", 1, 0,
      "query:T, key?:T, value?:T, mask_index?:M, attention_bias?:T, past_key?:T, past_value?:T, "
      "past_sequence_length?:M, beam_width?:M, cache_indirection?:M, bias?:T -> output:T, present_key?:T, "
      "present_value?:T, qk?:QK; T=float|float16, QK=float|float16, M=int32; mask_filter_value:f=-10000, num_heads:i!, "
      "output_qk:i=0, past_present_share_buffer:i, scale:f",
      infer_multi_head_attention },
    { "GroupQueryAttention", 1, 0,
      "query:T, key?:T, value?:T, past_key?:C, past_value?:C, seqlens_k:M, total_sequence_length:M, cos_cache?:T, "
      "sin_cache?:T, position_ids?:P, attention_bias?:T, head_sink?:T, k_scale?:S, v_scale?:S, "
      "q_norm_weight?:T, k_norm_weight?:T, last_position?:P -> output:T, "
      "present_key?:C, present_value?:C, output_qk?:T; T=float16|bfloat16|float, C=float16|bfloat16|float|int8|uint8, "
      "M=int32, P=int64, S=float; do_rotary:i=0, "
      "k_quant_type:s='NONE'{'NONE'|'PER_TENSOR'|'PER_CHANNEL'}, kv_cache_bit_width:i, kv_num_heads:i!, "
      "local_window_size:i=-1, num_heads:i!, "
      "qk_norm_epsilon:f=1e-06, qk_output:i=0, rotary_interleaved:i=0, scale:f, sliding_window_cache:i=0{0}, "
      "smooth_softmax:i=-1, softcap:f=0, "
      "v_quant_type:s='NONE'{'NONE'|'PER_TENSOR'|'PER_CHANNEL'}",
      infer_group_query_attention },
    { "MultiHeadAttention", 1, 0,
      "query:T, key?:T, value?:T, bias?:T, key_padding_mask?:M, attention_bias?:T, past_key?:T, past_value?:T, "
      "past_sequence_length?:M, cache_indirection?:M -> output:T, present_key?:T, present_value?:T, qk?:T; "
      "T=float|float16, M=int32; mask_filter_value:f=-10000, num_heads:i!, scale:f, unidirectional:i=0",
      infer_multi_head_attention },
    { "QAttention", 1, 0,
      "input:T1, weight:T2, bias:T3, input_scale:T3, weight_scale:T3, mask_index?:T4, input_zero_point?:T1, "
      "weight_zero_point?:T2, past?:T3 -> output:T3, present?:T3; T1=int8|uint8, T2=int8|uint8, T3=float|float16, "
      "T4=int32; do_rotary:i=0, mask_filter_value:f=-10000, num_heads:i!, past_present_share_buffer:i, scale:f, "
      "unidirectional:i=0",
      infer_projected_attention },
    { "RotaryEmbedding", 1, 0,
      "input:T, position_ids:M, cos_cache:T, sin_cache:T -> output:T; T=float|float16|bfloat16, M=int64; "
      "interleaved:i=0, is_packed_batching:i=0, num_heads:i=0, rotary_embedding_dim:i=0, scale:f=1",
      infer_same_as_first },
    { "SparseAttention", 1, 0,
      "query:T, key?:T, value?:T, past_key:T, past_value:T, block_row_indices:M, block_col_indices:M, "
      "total_sequence_length:M, key_total_sequence_lengths:M, cos_cache?:T, sin_cache?:T -> output:T, present_key:T, "
      "present_value:T; T=float|float16|bfloat16, M=int32; do_rotary:i=0, kv_num_heads:i!, num_heads:i!, "
      "rotary_interleaved:i=0, scale:f, sparse_block_size:i!",
      NULL },
};

const op_table op_microsoft_attention = { "com.microsoft", microsoft_attention_rows,
                                          OP_COUNT(microsoft_attention_rows) };
