/* inlay/search.c - the steps of text generation. The optimiser replaces BeamSearch, GreedySearch and Sampling of
 * com.microsoft by a Loop with these operators (host/runtime/passes/searches.c). The state of a search is one tensor,
 * which only these three operators read. */
#include "schema.h"

/* Outputs: ids, positions and mask [rows, length], the state, the number of rows [1], and the prompt of each row
 * [rows]. */
static inlay_status infer_start(op_infer *infer)
{
    const inlay_dim any[] = { dim_unknown(), dim_unknown() }, one = dim_fixed(1);
    inlay_status status = INLAY_OK;

    for (uint32_t o = 0; o < 6 && status == INLAY_OK; o++)
        status = infer_set_shape(infer, o, o < 3 ? 2 : 1, o == 4 ? &one : any);
    return status;
}

/* Outputs: whether to continue, the state, the next ids [rows, 1], the previous row of each row [rows], positions,
 * mask, scores. */
static inlay_status infer_step(op_infer *infer)
{
    static const uint32_t ranks[] = { 0, 1, 2, 1, 2, 2, 3 };
    const inlay_dim any[] = { dim_unknown(), dim_unknown(), dim_unknown() };
    inlay_status status = INLAY_OK;

    for (uint32_t o = 0; o < 7 && status == INLAY_OK; o++)
        status = infer_set_shape(infer, o, ranks[o], any);
    return status;
}

static const op_row inlay_search_rows[] = {
    { "SearchEnd", 1, 0, "state:S, scores?:T -> sequences:S, sequence_scores?:T, all_scores?:T; S=int32, T=float",
      NULL },
    { "SearchStart", 1, 0,
      "input_ids:I, max_length:I, min_length?:I, beams?:I, returned?:I, length_penalty?:T, repetition_penalty?:T2, "
      "words?:I, first_words?:I, attention_mask?:I, presence?:I, seed?:I -> ids:I, positions:I, mask:I, state:I, "
      "rows:L, prompts:L; I=int32, L=int64, T=float|float16, T2=float|float16; custom:i=0, "
      "decoder_start_token_id:i=-1, "
      "early_stopping:i=0, encoder:i=0, eos_token_id:i!, filter_value:f=-1e+20, min_tokens_to_keep:i=0, "
      "no_repeat_ngram_size:i=0, pad_token_id:i!, presence_penalty:f=0, search:s!, temperature:f=1, top_p:f=0, "
      "vocab_size:i=-1, whole:i=0",
      infer_start },
    { "SearchStep", 1, 0,
      "logits:T, state:S -> go:B, next:S, ids:S, rows:L, positions?:S, mask?:S, scores?:F; T=float|float16, S=int32, "
      "B=bool, L=int64, F=float",
      infer_step },
};

const op_table op_inlay_search = { "ai.inlay", inlay_search_rows, OP_COUNT(inlay_search_rows) };
