/* microsoft/search.c - operators of ONNX Runtime that generate text with a decoder in their body. The optimiser
 * replaces each by a Loop (host/runtime/passes/searches.c). */
#include "schema.h"

/* The element of input i as a size; `otherwise` if the node omits the input. */
static inlay_dim size_of(op_infer *infer, uint32_t i, inlay_dim otherwise)
{
    int64_t value;
    uint32_t count = 0;

    if (!infer_has_in(infer, i))
        return otherwise;
    return infer_ints(infer, i, &value, 1, &count) && count == 1 && value >= 0 ? dim_fixed(value) : dim_unknown();
}

/* Sequences [batch, returned, length], their scores [batch, returned], scores of all words [steps, batch, beams,
 * words]. */
static inlay_status infer_beams(op_infer *infer)
{
    const inlay_dim one = dim_fixed(1), batch = infer_dim(infer, 0, 0), beams = size_of(infer, 3, one);
    const inlay_dim first[] = { batch, size_of(infer, 4, one), size_of(infer, 1, dim_unknown()) };
    const inlay_dim all[] = { dim_unknown(), batch, beams, dim_unknown() };
    inlay_status status = INLAY_OK;

    for (uint32_t o = 0; o < 3 && status == INLAY_OK; o++) {
        infer_set_dtype(infer, o, o == 0 ? INLAY_INT32 : INLAY_FLOAT);
        status = o == 2 ? infer_set_shape(infer, o, 4, all) : infer_set_shape(infer, o, 3 - o, first);
    }
    return status;
}

/* Sequences [batch, length]; Sampling also has filtered_logits [batch, words]. */
static inlay_status infer_words(op_infer *infer)
{
    const inlay_dim dims[] = { infer_dim(infer, 0, 0), size_of(infer, 1, dim_unknown()) };
    const inlay_dim words[] = { infer_dim(infer, 0, 0), dim_unknown() };
    const inlay_status status = infer_set_shape(infer, 0, 2, dims);

    infer_set_dtype(infer, 1, INLAY_FLOAT);
    return status == INLAY_OK ? infer_set_shape(infer, 1, 2, words) : status;
}

#define WORDS                                                                                                          \
    "decoder:g!, decoder_start_token_id:i=-1, encoder:g, eos_token_id:i!, init_decoder:g, model_type:i=0{0|1|2}, "     \
    "no_repeat_ngram_size:i=0, pad_token_id:i!, vocab_size:i=-1"

static const op_row microsoft_search_rows[] = {
    { "BeamSearch", 1, 0,
      "input_ids:F, max_length:I, min_length?:I, num_beams:I, num_return_sequences:I, length_penalty?:T, "
      "repetition_penalty?:T, vocab_mask?:M, prefix_vocab_mask?:M, attention_mask?:I, decoder_input_ids?:I, "
      "logits_processor?:I -> sequences:I, sequences_scores?:T, scores?:T; F=float|int32|float16, I=int32, M=int32, "
      "T=float|float16; early_stopping:i=0, " WORDS,
      infer_beams },
    { "WhisperBeamSearch", 1, 0,
      "input_ids:F, max_length:I, min_length?:I, num_beams:I, num_return_sequences:I, length_penalty?:T, "
      "repetition_penalty?:T, vocab_mask?:M, prefix_vocab_mask?:M, attention_mask?:I, decoder_input_ids?:I, "
      "logits_processor?:I, cross_qk_layer_head?:I, extra_decoding_ids?:I, temperature?:T -> sequences:I, "
      "sequences_scores?:T, scores?:T, cross_qk?:V, non_speech_probs?:T; F=float|int32|float16, I=int32, M=int32, "
      "T=float|float16, V=float; early_stopping:i=0, beginning_timestamp_token_id:i=-1, decoder:g!, "
      "decoder_output_cross_qk:i=0, decoder_start_token_id:i=-1, encoder:g, eos_token_id:i!, init_decoder:g, "
      "model_type:i=2{0|1|2}, "
      "no_repeat_ngram_size:i=0, no_speech_token_id:i=-1, no_timestamps_token_id:i=-1, pad_token_id:i!, "
      "start_of_lm_token_id:i=-1, transcribe_token_id:i=-1, translate_token_id:i=-1, vocab_size:i=-1",
      infer_beams },
    { "GreedySearch", 1, 0,
      "input_ids:I, max_length:I, min_length?:I, repetition_penalty?:T, vocab_mask?:I, prefix_vocab_mask?:I, "
      "attention_mask?:I -> sequences:I; I=int32, T=float; " WORDS,
      infer_words },
    { "Sampling", 1, 0,
      "input_ids:I, max_length:I, min_length?:I, repetition_penalty?:T, vocab_mask?:I, prefix_vocab_mask?:I, "
      "attention_mask?:I, presence_mask?:I, seed?:I -> sequences:I, filtered_logits?:T; I=int32, T=float; custom:i=0, "
      "filter_value:f=-1e+20, min_tokens_to_keep:i=0, presence_penalty:f=0, temperature:f=1, top_p:f=0, " WORDS,
      infer_words },
};

const op_table op_microsoft_search = { "com.microsoft", microsoft_search_rows, OP_COUNT(microsoft_search_rows) };
