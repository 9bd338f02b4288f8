/* bert_sentencepiece.c - onnxruntime-extensions' BertTokenizer, HfBertTokenizer, SentencepieceTokenizer and
 * SentencepieceDecoder. */
#include "prepost/text/tokens.h"
#include "inlay/check.h"
#include <stdlib.h>

static inlay_status infer_bert(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim dims[1] = { prepost_open() };
    inlay_status status = prepost_want_rank(in, 0, 0, 1, "a text, or two of them", diag);

    (void)ctx;
    for (uint32_t i = 0; i < 3 && status == INLAY_OK; i++)
        status = prepost_set(in, i, 1, dims);
    return status;
}

static inlay_status infer_hf_bert(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim dims[2] = { prepost_fixed(1), prepost_open() };
    inlay_status status = prepost_want_rank(in, 0, 0, 1, "two texts", diag);

    (void)ctx;
    for (uint32_t i = 0; i < 3 && status == INLAY_OK; i++)
        status = prepost_set(in, i, 2, dims);
    return status;
}

static inlay_status prepare_bert(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_node_info *info = node->info;
    const inlay_str vocab = tokens_attr(info, "vocab_file");
    const text_bert_options options = { .lower = kit_attr_int(info, "do_lower_case", 1) != 0,
                                        .chinese = kit_attr_int(info, "tokenize_chinese_chars", 1) != 0,
                                        .clean = true,
                                        .strip_accents = kit_attr_int(info, "strip_accents", 0) != 0,
                                        .unknown = kit_attr_string(info, "unk_token", "[UNK]"),
                                        .begin = kit_attr_string(info, "cls_token", "[CLS]"),
                                        .end = kit_attr_string(info, "sep_token", "[SEP]"),
                                        .pad = kit_attr_string(info, "pad_token", "[PAD]") };
    token_state *state = NULL;
    inlay_status status = tokens_create_state(&state, diag);

    if (status == INLAY_OK)
        status = text_open_bert(vocab.data, vocab.bytes, &options, &state->tokenizer, diag);
    if (status != INLAY_OK) {
        tokens_release(state);
        return status;
    }
    state->begin = text_find_token(state->tokenizer, options.begin);
    state->end = text_find_token(state->tokenizer, options.end);
    *out_state = state;
    return INLAY_OK;
}

/* The ids of a text or a pair in output 0, of that rank, and in two more outputs the numbers of texts and the mask. */
static inlay_status encode_pair(const kit_call *call, uint32_t rank, uint32_t types, uint32_t mask)
{
    const token_state *state = call->state;
    const int64_t texts = call->in[0].count;
    const uint32_t outputs[3] = { 0, types, mask };
    token_lists lists = { .starts = NULL };
    int64_t dims[2] = { 1, 1 }, *to[3] = { NULL, NULL, NULL }, at = 0;
    inlay_status status;

    INLAY_TRY(token_lists_encode(call, state, &lists));
    dims[rank - 1] = (int64_t)lists.ids.count + 1 + texts;
    for (uint32_t i = 0; i < 3; i++) {
        INLAY_TRY(kit_alloc_output(call, outputs[i], rank, dims));
        to[i] = kit_has_output(call, outputs[i]) ? call->out[outputs[i]].data : NULL;
    }
    for (int64_t k = 0; k < texts; k++) {
        const size_t count = lists.starts[k + 1] - lists.starts[k];
        const size_t start = k == 0 ? 0 : 1; /* [CLS] a [SEP] b [SEP] */

        for (size_t i = start; i < count + 2; i++, at++) {
            const int64_t values[3] = { i == 0           ? state->begin
                                        : i == count + 1 ? state->end
                                                         : lists.ids.list[lists.starts[k] + i - 1],
                                        k, 1 };

            for (int o = 0; o < 3; o++)
                if (to[o] != NULL)
                    to[o][at] = values[o];
        }
    }
    INLAY_CHECK(at == dims[rank - 1]);
done:
    token_lists_free(&lists);
    return status;
}

static inlay_status run_bert(const kit_call *call)
{
    const int64_t texts = call->in[0].count;

    return texts == 1 || texts == 2
               ? encode_pair(call, 1, 1, 2)
               : inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                            "BertTokenizer: the input must be one text or a pair, but has %lld elements",
                            (long long)texts);
}

static inlay_status run_hf_bert(const kit_call *call)
{
    const int64_t texts = call->in[0].count;

    return texts == 2
               ? encode_pair(call, 2, 2, 1)
               : inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                            "HfBertTokenizer: the input must be two texts, but has %lld elements", (long long)texts);
}

static const char wordpieces[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nwant\n##want\n##ed\nwa\nun\nrunn\n##ing\n,\n";
static const int64_t one_dims[] = { 1 }, two_dims[] = { 2 }, eight_dims[] = { 8 }, zeros[8] = { 0 };
static const int64_t full_ids[] = { 2, 8, 5, 6, 11, 9, 10, 3 }, ones[] = { 1, 1, 1, 1, 1, 1, 1, 1 };
static const inlay_str one_text[] = { PREPOST_STR("UNwanted, running") };
static const inlay_tensor_view text_view[] = { PREPOST_VIEW(one_text, one_dims, INLAY_STRING) };
static const inlay_tensor_view bert_view[] = { PREPOST_VIEW(full_ids, eight_dims, INLAY_INT64),
                                               { zeros, sizeof full_ids, eight_dims, 1, INLAY_INT64 },
                                               PREPOST_VIEW(ones, eight_dims, INLAY_INT64) };
static const inlay_attr_info bert_vocab[] = {
    { .name = PREPOST_STR("vocab_file"), .kind = INLAY_ATTR_STRING, .s = PREPOST_STR(wordpieces) },
};
static const inlay_op_example bert_examples[] = { PREPOST_EXAMPLE("one text", bert_vocab, text_view, bert_view, 0) };

/* Values in braces: others are not supported. truncation_strategy_name belongs to max_length. */
#define BERT                                                                                                           \
    "S=string, I=int64; vocab_file:s!, do_lower_case:i=1{0|1}, do_basic_tokenize:i=1{1}, "                             \
    "tokenize_chinese_chars:i=1{0|1}, strip_accents:i=0{0|1}, unk_token:s='[UNK]', sep_token:s='[SEP]', "              \
    "pad_token:s='[PAD]', cls_token:s='[CLS]', mask_token:s='[MASK]', suffix_indicator:s='##'{'##'}, "                 \
    "max_length:i=-1{-1}, truncation_strategy_name:s='longest_first'"

const prepost_operator prepost_bert_tokenizer = {
    .op_type = "BertTokenizer",
    .signature = "text:S -> input_ids:I, token_type_ids?:I, attention_mask?:I; " BERT,
    .doc = "BERT's WordPiece tokenizer, for one text or a pair: [CLS] a [SEP] b [SEP]. vocab_file is the content of "
           "vocab.txt.",
    .extensions = true,
    .infer = infer_bert,
    PREPOST_EXAMPLES(bert_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_bert,
                .release = tokens_release,
                .run = run_bert },
};

static const int64_t ten_dims[] = { 1, 10 };
static const inlay_str two_texts[] = { PREPOST_STR("UNwanted, running"), PREPOST_STR("want") };
static const inlay_tensor_view pair_view[] = { PREPOST_VIEW(two_texts, two_dims, INLAY_STRING) };
static const int64_t pair_ids[] = { 2, 8, 5, 6, 11, 9, 10, 3, 4, 3 }, pair_types[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1 },
                     pair_mask[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
static const inlay_tensor_view pair_out[] = { PREPOST_VIEW(pair_ids, ten_dims, INLAY_INT64),
                                              PREPOST_VIEW(pair_mask, ten_dims, INLAY_INT64),
                                              PREPOST_VIEW(pair_types, ten_dims, INLAY_INT64) };
static const inlay_op_example pair_examples[] = { PREPOST_EXAMPLE("a pair", bert_vocab, pair_view, pair_out, 0) };

const prepost_operator prepost_hf_bert_tokenizer = {
    .op_type = "HfBertTokenizer",
    .signature = "text:S -> input_ids:I, attention_mask?:I, token_type_ids?:I; " BERT,
    .doc = "BertTokenizer for a pair of texts, with outputs [1, tokens]. vocab_file is the content of vocab.txt.",
    .extensions = true,
    .infer = infer_hf_bert,
    PREPOST_EXAMPLES(pair_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_bert,
                .release = tokens_release,
                .run = run_hf_bert },
};
#undef BERT

static inlay_status infer_spm(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim open = prepost_open();
    const inlay_status status = prepost_set(in, 0, 1, &open);

    (void)ctx;
    (void)diag;
    return status == INLAY_OK ? prepost_set(in, 1, 1, &open) : status;
}

static inlay_status prepare_spm(const kit_node *node, void **out_state, inlay_diag *diag)
{
    token_state *state;
    const inlay_status status = tokens_open(node, "model", &state, diag);

    if (status != INLAY_OK)
        return status;
    state->begin = text_find_token(state->tokenizer, "<s>");
    state->end = text_find_token(state->tokenizer, "</s>");
    *out_state = state;
    return INLAY_OK;
}

/* The value of an optional Boolean input; false without the input. */
static bool optional_bool(const kit_call *call, uint32_t i)
{
    return kit_has_input(call, i) && call->in[i].count > 0 && *(const uint8_t *)call->in[i].data != 0;
}

static inlay_status run_spm(const kit_call *call)
{
    const token_state *state = call->state;
    const bool begin = optional_bool(call, 3) && state->begin >= 0, end = optional_bool(call, 4) && state->end >= 0,
               reverse = optional_bool(call, 5);
    token_lists lists = { .starts = NULL };
    int64_t total, starts_count, *starts;
    int32_t *to, at = 0;
    inlay_status status;

    if (kit_has_input(call, 1) && call->in[1].count > 0 &&
        (*(const int64_t *)call->in[1].data < 0 || *(const int64_t *)call->in[1].data > 1))
        return inlay_fail(call->diag, INLAY_UNSUPPORTED,
                          "SentencepieceTokenizer: nbest_size above 1 draws at random, which is not supported");
    INLAY_TRY(token_lists_encode(call, state, &lists));
    total = (int64_t)(lists.ids.count + lists.count * ((size_t)begin + end));
    INLAY_TRY(kit_alloc_output(call, 0, 1, &total));
    to = kit_has_output(call, 0) ? call->out[0].data : NULL;
    starts_count = (int64_t)lists.count + 1;
    INLAY_TRY(kit_alloc_output(call, 1, 1, &starts_count));
    starts = kit_has_output(call, 1) ? call->out[1].data : NULL;
    for (size_t i = 0; i <= lists.count; i++) {
        const size_t count = i < lists.count ? lists.starts[i + 1] - lists.starts[i] : 0;

        if (starts != NULL)
            starts[i] = at;
        if (i == lists.count)
            break;
        for (size_t k = 0; k < count + begin + end; k++, at++) {
            const bool first = begin && k == 0, last = end && k == count + begin;
            const size_t of = k - begin, which = reverse ? count - 1 - of : of;

            if (to != NULL)
                to[at] = (int32_t)(first ? state->begin : last ? state->end : lists.ids.list[lists.starts[i] + which]);
        }
    }
    INLAY_CHECK(at == total);
done:
    token_lists_free(&lists);
    return status;
}

/* A model of the four pieces <unk>, U+2581 a, b and U+2581 ab, with scores 0, -1, -2 and -2.5. */
static const char pieces[] = "\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02"
                             "\x0a\x0b\x0a\x04\xe2\x96\x81"
                             "a\x15\0\0\x80\xbf"
                             "\x0a\x08\x0a\x01"
                             "b\x15\0\0\0\xc0"
                             "\x0a\x0c\x0a\x05\xe2\x96\x81"
                             "ab\x15\0\0\x20\xc0";
static const inlay_str ab_text[] = { PREPOST_STR("ab a  x") };
static const int32_t ab_ids[] = { 3, 1, 0 };
static const int64_t ab_starts[] = { 0, 3 }, three_dims[] = { 3 };
static const inlay_tensor_view ab_view[] = { PREPOST_VIEW(ab_text, one_dims, INLAY_STRING) };
static const inlay_tensor_view ab_out[] = { PREPOST_VIEW(ab_ids, three_dims, INLAY_INT32),
                                            PREPOST_VIEW(ab_starts, two_dims, INLAY_INT64) };
static const inlay_attr_info ab_model[] = {
    { .name = PREPOST_STR("model"), .kind = INLAY_ATTR_STRING, .s = { pieces, sizeof pieces - 1 } }
};
static const inlay_op_example spm_examples[] = {
    PREPOST_EXAMPLE("the most probable pieces, and an unknown letter", ab_model, ab_view, ab_out, 0),
};

const prepost_operator prepost_sentencepiece_tokenizer = {
    .op_type = "SentencepieceTokenizer",
    .signature =
        "data:S, nbest_size?:I, alpha?:F, add_bos?:B, add_eos?:B, reverse?:B, fairseq?:B -> tokens:J, indices?:I; "
        "S=string, I=int64, J=int32, F=float, B=bool; model:s!",
    .doc =
        "Splits each text into pieces: returns the concatenated ids, and the index of the first piece of each text. "
        "model is the content of a SentencePiece model (Unigram or BPE). Sampling is not supported: nbest_size must be "
        "0 or 1.",
    .extensions = true,
    .infer = infer_spm,
    PREPOST_EXAMPLES(spm_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_spm,
                .release = tokens_release,
                .run = run_spm },
};

static inlay_status infer_pieces(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim one = prepost_fixed(1);
    const inlay_status status = prepost_want_rank(in, 0, 1, 2, "[ids] or [1, ids]", diag);

    (void)ctx;
    return status == INLAY_OK ? prepost_set(in, 0, 1, &one) : status;
}

/* Converts an id of fairseq to one of SentencePiece. The first ids of fairseq are <s>, <pad>, </s>, <unk>, those of
 * SentencePiece are <unk>, <s>, </s>; <pad> becomes <unk>. Other ids of fairseq are one higher. */
static int64_t id_from_fairseq(int64_t id)
{
    return id == 3 ? 0 : id == 0 ? 1 : id == 2 ? 2 : id - 1;
}

static inlay_status run_pieces(const kit_call *call)
{
    const token_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t one = 1;
    int64_t *ids = NULL;
    size_t bytes = 0;
    char *text = NULL;
    inlay_status status;

    if (input->rank == 0 || input->rank > 2 || (input->rank == 2 && input->dims[0] != 1))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "SentencepieceDecoder: ids must be [n] or [1, n]");
    INLAY_TRY(kit_alloc_output(call, 0, 1, &one));
    ids = malloc((size_t)(input->count + 1) * sizeof *ids);
    if (ids == NULL) {
        status = inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for tokens");
        goto done;
    }
    for (int64_t i = 0; i < input->count; i++)
        ids[i] = optional_bool(call, 1) ? id_from_fairseq(((const int64_t *)input->data)[i])
                                        : ((const int64_t *)input->data)[i];
    INLAY_TRY(text_decode(state->tokenizer, ids, (size_t)input->count, true, &text, &bytes, call->diag));
    status = prepost_put_string(call, call->out[0].data, text, bytes);
done:
    free(text);
    free(ids);
    return status;
}

static const int64_t back_ids[] = { 3, 1 };
static const inlay_str back_text[] = { PREPOST_STR("ab a") };
static const inlay_tensor_view back_in[] = { PREPOST_VIEW(back_ids, two_dims, INLAY_INT64) };
static const inlay_tensor_view back_out[] = { PREPOST_VIEW(back_text, one_dims, INLAY_STRING) };
static const inlay_op_example back_examples[] = { PREPOST_EXAMPLE("two words", ab_model, back_in, back_out, 0) };

const prepost_operator prepost_sentencepiece_decoder = {
    .op_type = "SentencepieceDecoder",
    .signature = "ids:I, fairseq?:B -> text:S; S=string, I=int64, B=bool; model:s!",
    .doc = "Converts pieces to text. model is the content of a SentencePiece model; fairseq: the ids are those of "
           "XLM-RoBERTa.",
    .extensions = true,
    .infer = infer_pieces,
    PREPOST_EXAMPLES(back_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_spm,
                .release = tokens_release,
                .run = run_pieces },
};
