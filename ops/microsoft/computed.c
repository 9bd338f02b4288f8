/* microsoft/computed.c - contributed operators of ONNX Runtime that operators of ONNX cannot express. Providers have
 * kernels for them (providers/reference/contributed.c). */
#include "schema.h"
#include "onnx/pool.h"
#include "onnx/recurrent.h"
#include <stdbool.h>

/* [.., n, n] */
static inlay_status infer_inverse(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);

    if (rank != INLAY_RANK_UNKNOWN && rank < 2)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "the input has rank %u; an inverse needs matrices", rank);
    return infer_same_as_first(infer);
}

static inlay_status infer_hash(op_infer *infer)
{
    infer_set_dtype(infer, 0, infer_attr_int(infer, "positive", 1) != 0 ? INLAY_UINT32 : INLAY_INT32);
    return infer_same_as_first(infer);
}

/* [C, D] or [N, C, D] */
static inlay_status infer_tokens(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[3] = { infer_dim(infer, 0, 0), dim_unknown(), dim_unknown() };

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank != 1 && rank != 2)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "the input has rank %u; texts are [C] or [N, C]", rank);
    if (rank == 2)
        dims[1] = infer_dim(infer, 0, 1);
    return infer_set_shape(infer, 0, rank + 1, dims);
}

/* scores_out has the shape of scores, input 1. */
static inlay_status infer_block(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 1);
    inlay_dim dims[INLAY_MAX_RANK];

    for (uint32_t d = 0; rank != INLAY_RANK_UNKNOWN && d < rank; d++)
        dims[d] = infer_dim(infer, 1, d);
    return infer_set_shape(infer, 0, rank, dims);
}

/* [boxes, channels, height, width] */
static inlay_status infer_crop(op_infer *infer)
{
    int64_t size[2];
    uint32_t count = 0;
    bool known = infer_ints(infer, 3, size, 2, &count) && count == 2;
    inlay_dim dims[4] = { infer_dim(infer, 1, 0), infer_dim(infer, 0, 1), dim_unknown(), dim_unknown() };

    if (known && (size[0] <= 0 || size[1] <= 0))
        return infer_fail(infer, INLAY_INVALID_MODEL, "crop_size is %lld x %lld", (long long)size[0],
                          (long long)size[1]);
    if (known) {
        dims[2] = dim_fixed(size[0]);
        dims[3] = dim_fixed(size[1]);
    }
    return infer_set_shape(infer, 0, 4, dims);
}

/* [2, steps of the path] */
static inlay_status infer_path(op_infer *infer)
{
    const inlay_dim dims[] = { dim_fixed(2), dim_unknown() };

    return infer_set_shape(infer, 0, 2, dims);
}

/* The merged tokens have an unknown count; the index is one element. */
static inlay_status infer_bifurcation(op_infer *infer)
{
    const inlay_dim tokens = dim_unknown();
    const uint32_t rank = infer_rank(infer, 2);
    inlay_status status = infer_set_shape(infer, 0, 1, &tokens);

    if (status == INLAY_OK && rank != INLAY_RANK_UNKNOWN)
        status = infer_set_shape(infer, 1, rank, infer->in[2]->dims);
    return status;
}

/* Hashes [batch, length, (longest - 1) * heads], and the last ids of each row. */
static inlay_status infer_hashes(op_infer *infer)
{
    const int64_t longest = infer_attr_int(infer, "max_ngram_size", 0),
                  heads = infer_attr_int(infer, "n_head_per_ngram", 0);
    int64_t count = 0;
    inlay_status status;

    if (longest < 2 || heads < 1 || __builtin_mul_overflow(longest - 1, heads, &count))
        return infer_fail(infer, INLAY_INVALID_MODEL, "max_ngram_size is %lld and n_head_per_ngram %lld, out of range",
                          (long long)longest, (long long)heads);
    const inlay_dim hashes[] = { infer_dim(infer, 0, 0), infer_dim(infer, 0, 1), dim_fixed(count) };
    const inlay_dim state[] = { infer_dim(infer, 0, 0), dim_fixed(longest - 1) };
    INLAY_TRY(infer_set_shape(infer, 0, 3, hashes));
    INLAY_TRY(infer_set_shape(infer, 1, 2, state));
done:
    return status;
}

/* [words, filters] */
static inlay_status infer_embedding(op_infer *infer)
{
    const inlay_dim dims[] = { infer_dim(infer, 0, 0), infer_dim(infer, 1, 0) };

    return infer_set_shape(infer, 0, 2, dims);
}

#define MIXTURE                                                                                                        \
    "activation_alpha:f=1, activation_beta:f=0, activation_type:s='relu'{'relu'|'gelu'|'silu'|'identity'|'swiglu'}, "  \
    "k:i=1, normalize_routing_weights:i=0, "                                                                           \
    "swiglu_fusion:i=0{0|1|2}, swiglu_limit:f, use_sparse_mixer:i=0"

static const op_row microsoft_computed_rows[] = {
    { "AttnLSTM", 1, 0,
      "X:T, W:T, R:T, B?:T, sequence_lens?:T1, initial_h?:T, initial_c?:T, P?:T, QW:T, MW:T, V:T, M:T, "
      "memory_seq_lens?:T1, AW?:T -> Y?:T, Y_h?:T, Y_c?:T; T=float|double, T1=int32; activation_alpha:fs, "
      "activation_beta:fs, activations:ss, clip:f, direction:s='forward'{'forward'|'reverse'|'bidirectional'}, "
      "hidden_size:i!, input_forget:i=0",
      infer_recurrent },
    { "BifurcationDetector", 1, 0,
      "src_tokens:T, cur_tokens:T, prev_suffix_match_idx:T, pred_tokens?:T -> tokens:T, suffix_match_idx:T; T=int64; "
      "max_ngram_size:i=3, min_ngram_size:i=1",
      infer_bifurcation },
    { "CropAndResize", 1, 0,
      "X:T1, rois:T1, batch_indices:T2, crop_size:T2 -> Y:T1; T1=@float, T2=int32; extrapolation_value:f=0, "
      "mode:s='bilinear'{'bilinear'|'nearest'}",
      infer_crop },
    { "DynamicTimeWarping", 1, 0, "input:F -> output:I; F=float, I=int32", infer_path },
    { "Inverse", 1, 0, "X:T -> Y:T; T=@float", infer_inverse },
    { "MaxpoolWithMask", 1, 0,
      "X:T, M:int32 -> Y:T; T=float; auto_pad:s='NOTSET'{'NOTSET'|'SAME_UPPER'|'SAME_LOWER'|'VALID'}, "
      "kernel_shape:is!, pads:is, storage_order:i=0, strides:is",
      infer_pool },
    { "MoE", 1, 0,
      "input:T, router_probs:T, fc1_experts_weights:T, fc1_experts_bias?:T, fc2_experts_weights:T, "
      "fc2_experts_bias?:T, "
      "fc3_experts_weights?:T, fc3_experts_bias?:T -> output:T; T=float|float16|bfloat16; " MIXTURE,
      infer_same_as_first },
    { "MurmurHash3", 1, 0,
      "X:T1 -> Y:T2; T1=uint32|int32|uint64|int64|float|double|string, T2=uint32|int32; positive:i=1, seed:i=0",
      infer_hash },
    { "NGramHashMapping", 1, 0,
      "input_ids:M, multipliers:M, vocab_sizes:M, past_ids?:M -> hash_ids:M, present_ids?:M; M=int32|int64; "
      "max_ngram_size:i!, n_head_per_ngram:i!, pad_id:i!",
      infer_hashes },
    { "NGramRepeatBlock", 1, 0, "input_ids:Tid, scores:T -> scores_out:T; Tid=int64, T=float; ngram_size:i!",
      infer_block },
    { "QMoE", 1, 0,
      "input:T, router_probs:T, fc1_experts_weights:T1, fc1_scales:T2, fc1_experts_bias?:T, fc2_experts_weights:T1, "
      "fc2_scales:T2, fc2_experts_bias?:T, fc3_experts_weights?:T1, fc3_scales?:T2, fc3_experts_bias?:T, "
      "fc1_zero_points?:T3, fc2_zero_points?:T3, fc3_zero_points?:T3, router_weights?:T, fc1_global_scale?:T4, "
      "fc2_global_scale?:T4, fc1_act_scale?:T4, fc2_act_scale?:T4, fc1_act_block_scale?:T4, fc2_act_block_scale?:T4 "
      "-> output:T; T=float|float16|bfloat16, T1=uint8, T2=float|float16|bfloat16, T3=uint8|float, T4=@all_ir11; "
      "accuracy_level:i=0{0|1|2|3|4}, block_size:i=0, expert_weight_bits:i=4{2|4|8}, quant_type:s='int'{'int'}, "
      "weights_prepacked:i=-1{-1|0}, " MIXTURE,
      infer_same_as_first },
    { "Tokenizer", 1, 0, "X:T -> Y:T; T=string; mark:i!, mincharnum:i!, pad_value:s!, separators:ss, tokenexp:s",
      infer_tokens },
    { "WordConvEmbedding", 1, 0,
      "Sequence:T, W:T1, B:T1, C:T1 -> Y:T1; T=int32, T1=float; char_embedding_size:i, conv_window_size:i, "
      "embedding_size:i",
      infer_embedding },
};

const op_table op_microsoft_computed = { "com.microsoft", microsoft_computed_rows, OP_COUNT(microsoft_computed_rows) };
