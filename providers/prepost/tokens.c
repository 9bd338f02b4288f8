/* tokens.c - Tokenize and Detokenize, and onnxruntime-extensions' GPT2Tokenizer, RobertaTokenizer, BertTokenizer and
 * SentencepieceTokenizer. */
#include "prepost.h"
#include "text.h"
#include <stdlib.h>

typedef struct token_state {
    text_tokenizer *t;
    int64_t max, pad_to, pad, begin, end;
    bool special, around;
} token_state;

static inlay_str bytes_of(const inlay_node_info *node, const char *name)
{
    const inlay_attr_info *a = kit_attr(node, name);

    return a != NULL && a->kind == INLAY_ATTR_STRING ? a->s : (inlay_str){ "", 0 };
}

static void release(void *state)
{
    token_state *s = state;

    if (s != NULL)
        text_close(s->t);
    free(s);
}

static inlay_status make_state(token_state **out, inlay_diag *diag)
{
    *out = calloc(1, sizeof **out);
    return *out != NULL ? INLAY_OK : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a tokenizer");
}

static void cost_tokens(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const int64_t count = shapes->in[0].count;

    (void)node;
    pp_cost(cost, count >= 0, 20000.0 * (count >= 0 ? (double)count : 1) + 1000); /* a sentence each */
}

/* The tokens of each text, in one list, and where those of each begin; release with free_lists(). */
typedef struct lists {
    text_ids ids;
    size_t *starts; /* [count + 1] */
    size_t count, longest;
} lists;

static void free_lists(lists *l)
{
    free(l->ids.list);
    free(l->starts);
}

/* A text is s->begin, its tokens, s->end, where there are such: RobertaTokenizer. */
static inlay_status put_around(const kit_call *call, int64_t token, text_ids *ids)
{
    int64_t *more;

    if (ids->count == ids->room) {
        more = realloc(ids->list, (ids->room * 2 + 16) * sizeof *more);
        if (more == NULL)
            return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for tokens");
        ids->list = more;
        ids->room = ids->room * 2 + 16;
    }
    ids->list[ids->count++] = token;
    return INLAY_OK;
}

static inlay_status encode_all(const kit_call *call, const token_state *s, lists *l)
{
    const inlay_str *texts = call->in[0].data;
    inlay_status status = INLAY_OK;

    l->count = (size_t)call->in[0].count;
    l->starts = calloc(l->count + 1, sizeof *l->starts);
    if (l->starts == NULL)
        return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for tokens");
    for (size_t i = 0; i < l->count; i++) {
        size_t n;

        INLAY_TRY(kit_poll(call));
        if (s->around)
            INLAY_TRY(put_around(call, s->begin, &l->ids));
        INLAY_TRY(text_encode(s->t, texts[i].data, texts[i].bytes, s->special, &l->ids, call->diag));
        if (s->around)
            INLAY_TRY(put_around(call, s->end, &l->ids));
        n = l->ids.count - l->starts[i];
        if (s->max > 0 && n > (size_t)s->max) { /* cut off, but for the last token, which ends the text */
            const int64_t last = l->ids.list[l->ids.count - 1];

            n = (size_t)s->max;
            l->ids.count = l->starts[i] + n;
            if ((s->special || s->around) && s->end >= 0)
                l->ids.list[l->ids.count - 1] = last;
        }
        l->starts[i + 1] = l->ids.count;
        l->longest = n > l->longest ? n : l->longest;
    }
done:
    return status;
}

/* ------------------------------------------------------------------ Tokenize */

static inlay_status infer_tokenize(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *x = in->inputs[0];
    const int64_t pad_to = kit_attr_int(in->node, "pad_to", 0);
    inlay_dim dims[2] = { pp_fixed(1), pad_to > 0 ? pp_fixed(pad_to) : pp_open() };
    inlay_status status = pp_want_rank(in, 0, 0, 1, "a text, or [texts]", diag);

    (void)ctx;
    if (!pp_knows_rank(x))
        dims[0] = pp_open();
    else if (x->rank == 1)
        dims[0] = x->dims[0];
    for (uint32_t i = 0; i < 3 && status == INLAY_OK; i++)
        status = pp_set(in, i, 2, dims);
    return status;
}

static inlay_status open_model(const kit_node *node, const char *attr, token_state **out, inlay_diag *diag)
{
    const inlay_str model = bytes_of(node->info, attr);
    inlay_status status = make_state(out, diag);

    if (status == INLAY_OK)
        status = text_open(model.data, model.bytes, &(*out)->t, diag);
    if (status == INLAY_OK)
        return status;
    release(*out);
    *out = NULL;
    return status;
}

static inlay_status prepare_tokenize(const kit_node *node, void **out_state, inlay_diag *diag)
{
    token_state *s;
    const inlay_status status = open_model(node, "model", &s, diag);

    if (status != INLAY_OK)
        return status;
    s->max = kit_attr_int(node->info, "max_length", 0);
    s->pad_to = kit_attr_int(node->info, "pad_to", 0);
    s->special = kit_attr_int(node->info, "special", 1) != 0;
    s->max = s->pad_to > 0 && (s->max == 0 || s->max > s->pad_to) ? s->pad_to : s->max;
    s->pad = text_pad(s->t);
    *out_state = s;
    return INLAY_OK;
}

/* Rows of `width`; what is none of a text is pad, 0 in the mask, 0 in the types. */
static inlay_status put_rows(const kit_call *call, const token_state *s, const lists *l, size_t width, const int ids_at,
                             const int mask_at, const int types_at)
{
    const int64_t dims[2] = { (int64_t)l->count, (int64_t)width };
    const int at[3] = { ids_at, mask_at, types_at };
    inlay_status status = INLAY_OK;

    for (int k = 0; k < 3; k++) {
        int64_t *to;

        if (at[k] < 0 || !kit_has_output(call, (uint32_t)at[k]))
            continue;
        INLAY_TRY(kit_alloc_output(call, (uint32_t)at[k], 2, dims));
        to = call->out[at[k]].data;
        for (size_t i = 0; i < l->count; i++) {
            const size_t n = l->starts[i + 1] - l->starts[i];

            for (size_t j = 0; j < width; j++)
                *to++ = k == 2 ? 0 : k == 1 ? j < n : j < n ? l->ids.list[l->starts[i] + j] : s->pad;
        }
    }
done:
    return status;
}

static inlay_status run_tokenize(const kit_call *call)
{
    const token_state *s = call->state;
    lists l = { .starts = NULL };
    inlay_status status = encode_all(call, s, &l);

    if (status == INLAY_OK)
        status = put_rows(call, s, &l, s->pad_to > 0 ? (size_t)s->pad_to : l.longest, 0, 1, 2);
    free_lists(&l);
    return status;
}

static const char wordpieces[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nwant\n##want\n##ed\nwa\nun\nrunn\n##ing\n,\n";
static const int64_t two_dims[] = { 2 }, one_dims[] = { 1 };
static const inlay_str two_texts[] = { PP_STR("UNwanted, running"), PP_STR("wanted what") };
static const inlay_str one_text[] = { PP_STR("UNwanted, running") };
static const int64_t full_ids[] = { 2, 8, 5, 6, 11, 9, 10, 3 }, ones[] = { 1, 1, 1, 1, 1, 1, 1, 1 };
static const int64_t zeros[8] = { 0 }, eight_dims[] = { 8 }, row8_dims[] = { 2, 8 };
static const int64_t ids8[] = { 2, 8, 5, 6, 11, 9, 10, 3, 2, 4, 6, 1, 3, 0, 0, 0 };
static const int64_t mask8[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0 }, types8[16] = { 0 };
static const inlay_tensor_view texts_view[] = { PP_VIEW(two_texts, two_dims, INLAY_STRING) };
static const inlay_tensor_view text_view[] = { PP_VIEW(one_text, one_dims, INLAY_STRING) };
static const inlay_tensor_view tokens_view[] = { PP_VIEW(ids8, row8_dims, INLAY_INT64),
                                                 PP_VIEW(mask8, row8_dims, INLAY_INT64),
                                                 PP_VIEW(types8, row8_dims, INLAY_INT64) };
#define VOCABULARY(title)                                                                                              \
    {                                                                                                                  \
        .name = PP_STR(title), .kind = INLAY_ATTR_STRING, .s = PP_STR(wordpieces)                                      \
    }
static const inlay_attr_info bert_model[] = { VOCABULARY("model") };
static const inlay_op_example tokenize_examples[] = {
    PP_EXAMPLE("two texts by a vocab.txt of BERT", bert_model, texts_view, tokens_view, 0),
};

const pp_operator pp_tokenize = {
    .op_type = "Tokenize",
    .signature =
        "text:S -> ids:I, mask?:I, types?:I; S=string, I=int64; model:s!, max_length:i=0, pad_to:i=0, special:i=1",
    .doc =
        "The tokens of each text, [texts, longest]; mask is 1 where there is one. model is the content of a "
        "tokenizer.json, of BERT's vocab.txt or of a SentencePiece model. special: with what the model puts around a "
        "text. max_length cuts texts off, pad_to fixes the width.",
    .infer = infer_tokenize,
    PP_EXAMPLES(tokenize_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = cost_tokens,
                .prepare = prepare_tokenize,
                .release = release,
                .run = run_tokenize },
};

/* ------------------------------------------------------------------ Detokenize */

static inlay_status infer_detokenize(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *x = in->inputs[0];
    inlay_dim dims[1] = { pp_fixed(1) };
    const inlay_status status = pp_want_rank(in, 0, 1, 2, "[ids] or [texts, ids]", diag);

    (void)ctx;
    if (!pp_knows_rank(x))
        dims[0] = pp_open();
    else if (x->rank == 2)
        dims[0] = x->dims[0];
    return status == INLAY_OK ? pp_set(in, 0, 1, dims) : status;
}

static inlay_status run_detokenize(const kit_call *call)
{
    const token_state *s = call->state;
    const kit_tensor *x = &call->in[0];
    const int64_t rows = x->rank == 2 ? x->dims[0] : 1, width = rows > 0 ? x->count / rows : 0;
    inlay_status status = INLAY_OK;

    INLAY_TRY(kit_alloc_output(call, 0, 1, &rows));
    for (int64_t r = 0; r < rows && status == INLAY_OK; r++) {
        char *text = NULL;
        size_t bytes = 0;

        status = text_decode(s->t, (const int64_t *)x->data + r * width, (size_t)width, s->special, &text, &bytes,
                             call->diag);
        if (status == INLAY_OK)
            status = pp_put_string(call, (inlay_str *)call->out[0].data + r, text, bytes);
        free(text);
    }
done:
    return status;
}

static const inlay_tensor_view ids_view[] = { PP_VIEW(full_ids, eight_dims, INLAY_INT64) };
static const inlay_str back[] = { PP_STR("unwanted , running") };
static const inlay_tensor_view back_view[] = { PP_VIEW(back, one_dims, INLAY_STRING) };
static const inlay_op_example detokenize_examples[] = {
    PP_EXAMPLE("the tokens of a text by a vocab.txt of BERT", bert_model, ids_view, back_view, 0),
};

const pp_operator pp_detokenize = {
    .op_type = "Detokenize",
    .signature = "ids:I -> text:S; S=string, I=int64; model:s!, special:i=1",
    .doc =
        "The text of tokens, [ids] or [texts, ids], by the same files as Tokenize. special: such tokens are left out.",
    .infer = infer_detokenize,
    PP_EXAMPLES(detokenize_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = cost_tokens,
                .prepare = prepare_tokenize,
                .release = release,
                .run = run_detokenize },
};

/* ------------------------------------------------------------------ GPT2Tokenizer */

static inlay_status infer_gpt2(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *x = in->inputs[0];
    const int64_t pad_to = kit_attr_int(in->node, "padding_length", -1);
    const inlay_dim dims[2] = { pp_knows_rank(x) && x->rank == 1 ? x->dims[0] : pp_open(),
                                pad_to > 0 ? pp_fixed(pad_to) : pp_open() };
    const inlay_status status = pp_set(in, 0, 2, dims);

    (void)ctx;
    (void)diag;
    return status == INLAY_OK ? pp_set(in, 1, 2, dims) : status;
}

static inlay_status prepare_gpt2(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_str vocab = bytes_of(node->info, "vocab"), merges = bytes_of(node->info, "merges");
    const int64_t pad_to = kit_attr_int(node->info, "padding_length", -1);
    token_state *s = NULL;
    inlay_status status = make_state(&s, diag);

    if (status == INLAY_OK)
        status = text_open_bpe(vocab.data, vocab.bytes, merges.data, merges.bytes, &s->t, diag);
    if (status != INLAY_OK) {
        release(s);
        return status;
    }
    s->pad_to = s->max = pad_to > 0 ? pad_to : 0;
    s->end = -1;
    *out_state = s;
    return INLAY_OK;
}

static inlay_status run_gpt2(const kit_call *call)
{
    const token_state *s = call->state;
    lists l = { .starts = NULL };
    inlay_status status = encode_all(call, s, &l);

    if (status == INLAY_OK)
        status = put_rows(call, s, &l, s->pad_to > 0 ? (size_t)s->pad_to : l.longest, 0, 1, -1);
    free_lists(&l);
    return status;
}

static const inlay_str hey[] = { PP_STR("low lower") };
static const inlay_tensor_view hey_view[] = { PP_VIEW(hey, one_dims, INLAY_STRING) };
static const int64_t low_ids[] = { 7, 9, 8 }, low_mask[] = { 1, 1, 1 }, low_dims[] = { 1, 3 };
static const inlay_tensor_view low_view[] = { PP_VIEW(low_ids, low_dims, INLAY_INT64),
                                              PP_VIEW(low_mask, low_dims, INLAY_INT64) };
static const inlay_attr_info low_model[] = {
    PP_ATTR_STRING("vocab", "{\"l\":0,\"o\":1,\"w\":2,\"\xc4\xa0\":3,\"e\":4,\"r\":5,\"lo\":6,\"low\":7,\"er\":8,"
                            "\"\xc4\xa0low\":9}"),
    PP_ATTR_STRING("merges", "#version: 0.2\nl o\nlo w\ne r\n\xc4\xa0 low\n"),
};
static const inlay_op_example gpt2_examples[] = {
    PP_EXAMPLE("two words by a vocabulary of ten", low_model, hey_view, low_view, 0),
};

const pp_operator pp_gpt2_tokenizer = {
    .op_type = "GPT2Tokenizer",
    .signature =
        "data:S -> input_ids:I, attention_mask?:I; S=string, I=int64; vocab:s!, merges:s!, padding_length:i=-1, "
        "...",
    .doc = "Byte-level BPE as GPT-2 has it, [texts, longest]. vocab and merges are the contents of vocab.json and "
           "merges.txt; padding_length above 0 fixes the width.",
    .extensions = true,
    .infer = infer_gpt2,
    PP_EXAMPLES(gpt2_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = cost_tokens,
                .prepare = prepare_gpt2,
                .release = release,
                .run = run_gpt2 },
};

/* ------------------------------------------------------------------ RobertaTokenizer */

static inlay_status prepare_roberta(const kit_node *node, void **out_state, inlay_diag *diag)
{
    void *made = NULL;
    inlay_status status = prepare_gpt2(node, &made, diag);
    token_state *s = made;

    if (status != INLAY_OK)
        return status;
    s->begin = text_id(s->t, "<s>");
    s->end = text_id(s->t, "</s>");
    s->pad = text_id(s->t, "<pad>") >= 0 ? text_id(s->t, "<pad>") : 0;
    s->around = true;
    if (s->begin < 0 || s->end < 0) {
        release(s);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "RobertaTokenizer: its vocabulary has no '<s>' or no '</s>'");
    }
    *out_state = s;
    return INLAY_OK;
}

static const int64_t around_ids[] = { 10, 7, 9, 8, 11 }, around_mask[] = { 1, 1, 1, 1, 1 }, around_dims[] = { 1, 5 };
static const inlay_tensor_view around_view[] = { PP_VIEW(around_ids, around_dims, INLAY_INT64),
                                                 PP_VIEW(around_mask, around_dims, INLAY_INT64) };
static const inlay_attr_info around_model[] = {
    PP_ATTR_STRING("vocab", "{\"l\":0,\"o\":1,\"w\":2,\"\xc4\xa0\":3,\"e\":4,\"r\":5,\"lo\":6,\"low\":7,\"er\":8,"
                            "\"\xc4\xa0low\":9,\"<s>\":10,\"</s>\":11}"),
    PP_ATTR_STRING("merges", "#version: 0.2\nl o\nlo w\ne r\n\xc4\xa0 low\n"),
};
static const inlay_op_example roberta_examples[] = {
    PP_EXAMPLE("two words by a vocabulary of twelve", around_model, hey_view, around_view, 0),
};

const pp_operator pp_roberta_tokenizer = {
    .op_type = "RobertaTokenizer",
    .signature =
        "data:S -> input_ids:I, attention_mask?:I; S=string, I=int64; vocab:s!, merges:s!, padding_length:i=-1, "
        "...",
    .doc = "Byte-level BPE as GPT2Tokenizer has it, with <s> before each text and </s> behind it. There are no offsets.",
    .extensions = true,
    .infer = infer_gpt2,
    PP_EXAMPLES(roberta_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = cost_tokens,
                .prepare = prepare_roberta,
                .release = release,
                .run = run_gpt2 },
};

/* ------------------------------------------------------------------ BertTokenizer */

static inlay_status infer_bert(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim dims[1] = { pp_open() };
    inlay_status status = pp_want_rank(in, 0, 0, 1, "a text, or two of them", diag);

    (void)ctx;
    for (uint32_t i = 0; i < 3 && status == INLAY_OK; i++)
        status = pp_set(in, i, 1, dims);
    return status;
}

static inlay_status prepare_bert(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_node_info *n = node->info;
    const inlay_str vocab = bytes_of(n, "vocab_file");
    const text_bert how = { kit_attr_int(n, "do_lower_case", 1) != 0,
                            kit_attr_int(n, "tokenize_chinese_chars", 1) != 0,
                            true,
                            kit_attr(n, "strip_accents") != NULL ? (int)kit_attr_int(n, "strip_accents", 0) : -1,
                            kit_attr_string(n, "unk_token", "[UNK]"),
                            kit_attr_string(n, "cls_token", "[CLS]"),
                            kit_attr_string(n, "sep_token", "[SEP]"),
                            kit_attr_string(n, "pad_token", "[PAD]") };
    token_state *s = NULL;
    inlay_status status = make_state(&s, diag);

    if (status == INLAY_OK)
        status = text_open_bert(vocab.data, vocab.bytes, &how, &s->t, diag);
    if (status != INLAY_OK) {
        release(s);
        return status;
    }
    s->begin = text_id(s->t, how.begin);
    s->end = text_id(s->t, how.end);
    *out_state = s;
    return INLAY_OK;
}

static inlay_status run_bert(const kit_call *call)
{
    const token_state *s = call->state;
    const int64_t texts = call->in[0].count;
    lists l = { .starts = NULL };
    int64_t dims[1], *to[3] = { NULL, NULL, NULL }, at = 0;
    inlay_status status;

    if (texts < 1 || texts > 2)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "BertTokenizer: %lld texts; it takes one, or a pair",
                          (long long)texts);
    INLAY_TRY(encode_all(call, s, &l));
    dims[0] = (int64_t)l.ids.count + 1 + texts;
    for (uint32_t i = 0; i < 3; i++) {
        INLAY_TRY(kit_alloc_output(call, i, 1, dims));
        to[i] = kit_has_output(call, i) ? call->out[i].data : NULL;
    }
    for (int64_t k = 0; k < texts; k++) {
        const size_t count = l.starts[k + 1] - l.starts[k];
        const size_t start = k == 0 ? 0 : 1; /* [CLS] a [SEP] b [SEP] */

        for (size_t i = start; i < count + 2; i++, at++) {
            const int64_t values[3] = { i == 0           ? s->begin
                                        : i == count + 1 ? s->end
                                                         : l.ids.list[l.starts[k] + i - 1],
                                        k, 1 };

            for (int o = 0; o < 3; o++)
                if (to[o] != NULL)
                    to[o][at] = values[o];
        }
    }
done:
    free_lists(&l);
    return status;
}

static const inlay_tensor_view bert_view[] = { PP_VIEW(full_ids, eight_dims, INLAY_INT64),
                                               { zeros, sizeof full_ids, eight_dims, 1, INLAY_INT64 },
                                               PP_VIEW(ones, eight_dims, INLAY_INT64) };
static const inlay_attr_info bert_vocab[] = { VOCABULARY("vocab_file") };
static const inlay_op_example bert_examples[] = { PP_EXAMPLE("one text", bert_vocab, text_view, bert_view, 0) };

const pp_operator pp_bert_tokenizer = {
    .op_type = "BertTokenizer",
    .signature = "text:S -> input_ids:I, token_type_ids?:I, attention_mask?:I; S=string, I=int64; vocab_file:s!, "
                 "do_lower_case:i=1, tokenize_chinese_chars:i=1, unk_token:s='[UNK]', sep_token:s='[SEP]', "
                 "pad_token:s='[PAD]', cls_token:s='[CLS]', mask_token:s='[MASK]', ...",
    .doc =
        "WordPiece as BERT has it, of a text or a pair: [CLS] a [SEP] b [SEP]. vocab_file is the content of vocab.txt.",
    .extensions = true,
    .infer = infer_bert,
    PP_EXAMPLES(bert_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = cost_tokens,
                .prepare = prepare_bert,
                .release = release,
                .run = run_bert },
};

/* ------------------------------------------------------------------ SentencepieceTokenizer */

static inlay_status infer_spm(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim open = pp_open();
    const inlay_status status = pp_set(in, 0, 1, &open);

    (void)ctx;
    (void)diag;
    return status == INLAY_OK ? pp_set(in, 1, 1, &open) : status;
}

static inlay_status prepare_spm(const kit_node *node, void **out_state, inlay_diag *diag)
{
    token_state *s;
    const inlay_status status = open_model(node, "model", &s, diag);

    if (status != INLAY_OK)
        return status;
    s->begin = text_id(s->t, "<s>");
    s->end = text_id(s->t, "</s>");
    *out_state = s;
    return INLAY_OK;
}

/* The truth of an optional input. */
static bool truth(const kit_call *call, uint32_t i)
{
    return kit_has_input(call, i) && call->in[i].count > 0 && *(const uint8_t *)call->in[i].data != 0;
}

static inlay_status run_spm(const kit_call *call)
{
    const token_state *s = call->state;
    const bool begin = truth(call, 3) && s->begin >= 0, end = truth(call, 4) && s->end >= 0, reverse = truth(call, 5);
    lists l = { .starts = NULL };
    int64_t dims[1], *starts;
    int32_t *to, at = 0;
    inlay_status status;

    if (kit_has_input(call, 1) && call->in[1].count > 0 &&
        (*(const int64_t *)call->in[1].data < 0 || *(const int64_t *)call->in[1].data > 1))
        return inlay_fail(call->diag, INLAY_UNSUPPORTED,
                          "SentencepieceTokenizer: nbest_size above 1 draws at random, which is not supported");
    INLAY_TRY(encode_all(call, s, &l));
    dims[0] = (int64_t)(l.ids.count + l.count * ((size_t)begin + end));
    INLAY_TRY(kit_alloc_output(call, 0, 1, dims));
    to = kit_has_output(call, 0) ? call->out[0].data : NULL;
    dims[0] = (int64_t)l.count + 1;
    INLAY_TRY(kit_alloc_output(call, 1, 1, dims));
    starts = kit_has_output(call, 1) ? call->out[1].data : NULL;
    for (size_t i = 0; i <= l.count; i++) {
        const size_t count = i < l.count ? l.starts[i + 1] - l.starts[i] : 0;

        if (starts != NULL)
            starts[i] = at;
        if (i == l.count)
            break;
        for (size_t k = 0; k < count + begin + end; k++, at++) {
            const bool first = begin && k == 0, last = end && k == count + begin;
            const size_t of = k - begin, which = reverse ? count - 1 - of : of;

            if (to != NULL)
                to[at] = (int32_t)(first ? s->begin : last ? s->end : l.ids.list[l.starts[i] + which]);
        }
    }
done:
    free_lists(&l);
    return status;
}

/* A model of four pieces: <unk>, U+2581 a, b, U+2581 ab, with scores 0, -1, -2, -2.5. */
static const char pieces[] = "\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02"
                             "\x0a\x0b\x0a\x04\xe2\x96\x81"
                             "a\x15\0\0\x80\xbf"
                             "\x0a\x08\x0a\x01"
                             "b\x15\0\0\0\xc0"
                             "\x0a\x0c\x0a\x05\xe2\x96\x81"
                             "ab\x15\0\0\x20\xc0";
static const inlay_str ab_text[] = { PP_STR("ab a  x") };
static const int32_t ab_ids[] = { 3, 1, 0 };
static const int64_t ab_starts[] = { 0, 3 }, three_dims[] = { 3 };
static const inlay_tensor_view ab_view[] = { PP_VIEW(ab_text, one_dims, INLAY_STRING) };
static const inlay_tensor_view ab_out[] = { PP_VIEW(ab_ids, three_dims, INLAY_INT32),
                                            PP_VIEW(ab_starts, two_dims, INLAY_INT64) };
static const inlay_attr_info ab_model[] = {
    { .name = PP_STR("model"), .kind = INLAY_ATTR_STRING, .s = { pieces, sizeof pieces - 1 } }
};
static const inlay_op_example spm_examples[] = {
    PP_EXAMPLE("the likeliest pieces, and a letter that is none", ab_model, ab_view, ab_out, 0),
};

const pp_operator pp_sentencepiece_tokenizer = {
    .op_type = "SentencepieceTokenizer",
    .signature =
        "data:S, nbest_size?:I, alpha?:F, add_bos?:B, add_eos?:B, reverse?:B, fairseq?:B -> tokens:J, indices?:I; "
        "S=string, I=int64, J=int32, F=float, B=bool; model:s!, ...",
    .doc = "The pieces of each text, one list after the other, and where each begins. model is the content of a "
           "SentencePiece model (Unigram or BPE). Nothing is drawn at random: nbest_size is 0 or 1.",
    .extensions = true,
    .infer = infer_spm,
    PP_EXAMPLES(spm_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = cost_tokens,
                .prepare = prepare_spm,
                .release = release,
                .run = run_spm },
};
