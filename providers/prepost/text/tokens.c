/* tokens.c - Tokenize and Detokenize, HfJsonTokenizer of onnxruntime-extensions, and functions shared by the tokenizer
 * operators. */
#include "prepost/text/tokens.h"
#include "inlay/check.h"
#include <stdlib.h>

inlay_str tokens_attr(const inlay_node_info *node, const char *name)
{
    const inlay_attr_info *attribute = kit_attr(node, name);

    return attribute != NULL && attribute->kind == INLAY_ATTR_STRING ? attribute->s : (inlay_str){ "", 0 };
}

void tokens_release(void *state)
{
    token_state *s = state;

    if (s != NULL)
        text_close(s->tokenizer);
    free(s);
}

inlay_status tokens_create_state(token_state **out, inlay_diag *diag)
{
    *out = calloc(1, sizeof **out);
    return *out != NULL ? INLAY_OK : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a tokenizer");
}

void tokens_cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node;
    prepost_cost_elements(cost, shapes, 1000, 20000, 1); /* each text is a sentence */
}

void token_lists_free(token_lists *lists)
{
    free(lists->ids.list);
    free(lists->starts);
}

/* Appends a token before or after a text. */
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

static bool is_blank(inlay_str text)
{
    uint64_t i = 0;

    while (i < text.bytes && (text.data[i] == ' ' || (text.data[i] >= '\t' && text.data[i] <= '\r')))
        i++;
    return i == text.bytes;
}

inlay_status token_lists_encode(const kit_call *call, const token_state *state, token_lists *lists)
{
    const inlay_str *texts = call->in[0].data;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(lists->starts == NULL && lists->ids.count == 0);
    lists->count = (size_t)call->in[0].count;
    lists->starts = calloc(lists->count + 1, sizeof *lists->starts);
    if (lists->starts == NULL)
        return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for tokens");
    for (size_t i = 0; i < lists->count; i++) {
        bool around;
        size_t n;

        INLAY_TRY(kit_poll(call));
        around = state->add_affix && !(state->bare_if_blank && is_blank(texts[i]));
        if (around)
            INLAY_TRY(put_around(call, state->begin, &lists->ids));
        INLAY_TRY(
            text_encode(state->tokenizer, texts[i].data, texts[i].bytes, state->special, &lists->ids, call->diag));
        if (around)
            INLAY_TRY(put_around(call, state->end, &lists->ids));
        INLAY_CHECK(lists->ids.count >= lists->starts[i]);
        n = lists->ids.count - lists->starts[i];
        if (state->max_length > 0 && n > (size_t)state->max_length) { /* truncates the list, but keeps its end token */
            const int64_t last = lists->ids.list[lists->ids.count - 1];

            n = (size_t)state->max_length;
            lists->ids.count = lists->starts[i] + n;
            if ((state->special || state->add_affix) && state->end >= 0)
                lists->ids.list[lists->ids.count - 1] = last;
        }
        lists->starts[i + 1] = lists->ids.count;
        lists->longest = n > lists->longest ? n : lists->longest;
    }
done:
    return status;
}

static inlay_status infer_tokenize(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    const int64_t pad_to = kit_attr_int(in->node, "pad_to", 0);
    inlay_dim dims[2] = { prepost_fixed(1), pad_to > 0 ? prepost_fixed(pad_to) : prepost_open() };
    inlay_status status = prepost_want_rank(in, 0, 0, 1, "a text, or [texts]", diag);

    (void)ctx;
    if (!prepost_knows_rank(input))
        dims[0] = prepost_open();
    else if (input->rank == 1)
        dims[0] = input->dims[0];
    for (uint32_t i = 0; i < 3 && status == INLAY_OK; i++)
        status = prepost_set(in, i, 2, dims);
    return status;
}

inlay_status tokens_open(const kit_node *node, const char *attr, token_state **out, inlay_diag *diag)
{
    const inlay_str model = tokens_attr(node->info, attr);
    inlay_status status = tokens_create_state(out, diag);

    if (status == INLAY_OK)
        status = text_open(model.data, model.bytes, &(*out)->tokenizer, diag);
    if (status == INLAY_OK)
        return status;
    tokens_release(*out);
    *out = NULL;
    return status;
}

static inlay_status prepare_tokenize(const kit_node *node, void **out_state, inlay_diag *diag)
{
    token_state *state;
    const inlay_status status = tokens_open(node, "model", &state, diag);

    if (status != INLAY_OK)
        return status;
    state->max_length = kit_attr_int(node->info, "max_length", 0);
    state->pad_to = kit_attr_int(node->info, "pad_to", 0);
    state->special = kit_attr_int(node->info, "special", 1) != 0;
    state->max_length = state->pad_to > 0 && (state->max_length == 0 || state->max_length > state->pad_to)
                            ? state->pad_to
                            : state->max_length;
    state->pad = text_pad_id(state->tokenizer);
    *out_state = state;
    return INLAY_OK;
}

/* Writes rows of `width` elements to the outputs ids_at, mask_at and types_at (-1: no such output): the padded ids; the
 * mask, 1 for tokens and 0 for padding; the types, all 0. */
static inlay_status token_lists_write_rows(const kit_call *call, const token_state *state, const token_lists *lists,
                                           size_t width, int ids_at, int mask_at, int types_at)
{
    const int64_t dims[2] = { (int64_t)lists->count, (int64_t)width };
    const int at[3] = { ids_at, mask_at, types_at };
    inlay_status status = INLAY_OK;

    INLAY_CHECK(lists->starts[lists->count] == lists->ids.count);
    for (int k = 0; k < 3; k++) {
        int64_t *to;

        if (at[k] < 0 || !kit_has_output(call, (uint32_t)at[k]))
            continue;
        INLAY_TRY(kit_alloc_output(call, (uint32_t)at[k], 2, dims));
        to = call->out[at[k]].data;
        for (size_t i = 0; i < lists->count; i++) {
            const size_t n = lists->starts[i + 1] - lists->starts[i];

            INLAY_CHECK(n <= width);
            for (size_t j = 0; j < width; j++)
                *to++ = k == 2 ? 0 : k == 1 ? j < n : j < n ? lists->ids.list[lists->starts[i] + j] : state->pad;
        }
    }
done:
    return status;
}

static inlay_status run_tokenize(const kit_call *call)
{
    const token_state *state = call->state;
    token_lists lists = { .starts = NULL };
    inlay_status status = token_lists_encode(call, state, &lists);

    if (status == INLAY_OK)
        status = token_lists_write_rows(call, state, &lists, state->pad_to > 0 ? (size_t)state->pad_to : lists.longest,
                                        0, 1, 2);
    token_lists_free(&lists);
    return status;
}

static const char wordpieces[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nwant\n##want\n##ed\nwa\nun\nrunn\n##ing\n,\n";
static const int64_t two_dims[] = { 2 }, one_dims[] = { 1 };
static const inlay_str two_texts[] = { PREPOST_STR("UNwanted, running"), PREPOST_STR("wanted what") };
static const int64_t full_ids[] = { 2, 8, 5, 6, 11, 9, 10, 3 }, eight_dims[] = { 8 }, row8_dims[] = { 2, 8 };
static const int64_t ids8[] = { 2, 8, 5, 6, 11, 9, 10, 3, 2, 4, 6, 1, 3, 0, 0, 0 };
static const int64_t mask8[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0 }, types8[16] = { 0 };
static const inlay_tensor_view texts_view[] = { PREPOST_VIEW(two_texts, two_dims, INLAY_STRING) };
static const inlay_tensor_view tokens_view[] = { PREPOST_VIEW(ids8, row8_dims, INLAY_INT64),
                                                 PREPOST_VIEW(mask8, row8_dims, INLAY_INT64),
                                                 PREPOST_VIEW(types8, row8_dims, INLAY_INT64) };
#define VOCABULARY(title)                                                                                              \
    {                                                                                                                  \
        .name = PREPOST_STR(title), .kind = INLAY_ATTR_STRING, .s = PREPOST_STR(wordpieces)                            \
    }
static const inlay_attr_info bert_model[] = { VOCABULARY("model") };
static const inlay_op_example tokenize_examples[] = {
    PREPOST_EXAMPLE("two texts with a vocab.txt of BERT", bert_model, texts_view, tokens_view, 0),
};

const prepost_operator prepost_tokenize = {
    .op_type = "Tokenize",
    .signature =
        "text:S -> ids:I, mask?:I, types?:I; S=string, I=int64; model:s!, max_length:i=0, pad_to:i=0, special:i=1",
    .doc = "Converts each text to the ids of its tokens, [texts, longest]; mask is 1 for tokens and 0 for padding. "
           "model is "
           "the content of a tokenizer.json, of BERT's vocab.txt or of a SentencePiece model. special adds the special "
           "tokens that the model puts before and after a text. max_length truncates texts; pad_to fixes the width.",
    .infer = infer_tokenize,
    PREPOST_EXAMPLES(tokenize_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_tokenize,
                .release = tokens_release,
                .run = run_tokenize },
};

inlay_status tokens_infer_rows(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    const int64_t pad_to = kit_attr_int(in->node, "padding_length", -1);
    const inlay_dim dims[2] = { prepost_knows_rank(input) && input->rank == 1 ? input->dims[0] : prepost_open(),
                                pad_to > 0 ? prepost_fixed(pad_to) : prepost_open() };
    const inlay_status status = prepost_set(in, 0, 2, dims);

    (void)ctx;
    (void)diag;
    return status == INLAY_OK ? prepost_set(in, 1, 2, dims) : status;
}

inlay_status tokens_run_rows(const kit_call *call)
{
    const token_state *state = call->state;
    token_lists lists = { .starts = NULL };
    inlay_status status = token_lists_encode(call, state, &lists);

    if (status == INLAY_OK)
        status = token_lists_write_rows(call, state, &lists, state->pad_to > 0 ? (size_t)state->pad_to : lists.longest,
                                        0, 1, -1);
    token_lists_free(&lists);
    return status;
}

static inlay_status prepare_json(const kit_node *node, void **out_state, inlay_diag *diag)
{
    token_state *state;
    const inlay_status status = tokens_open(node, "tokenizer_vocab", &state, diag);

    if (status != INLAY_OK)
        return status;
    state->special = true;
    state->pad = text_pad_id(state->tokenizer);
    *out_state = state;
    return INLAY_OK;
}

static const char words_json[] = "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":"
                                 "\"##\",\"vocab\":{\"?\":0,\"low\":1,\"##er\":2}},"
                                 "\"pre_tokenizer\":{\"type\":\"Whitespace\"}}";
static const inlay_attr_info json_model[] = {
    PREPOST_ATTR_STRING("tokenizer_config", "{}"),
    { .name = PREPOST_STR("tokenizer_vocab"), .kind = INLAY_ATTR_STRING, .s = { words_json, sizeof words_json - 1 } },
};
static const inlay_str lower_text[] = { PREPOST_STR("low lower new") };
static const int64_t lower_ids[] = { 1, 1, 2, 0 }, lower_mask[] = { 1, 1, 1, 1 }, lower_dims[] = { 1, 4 };
static const inlay_tensor_view lower_view[] = { PREPOST_VIEW(lower_text, one_dims, INLAY_STRING) };
static const inlay_tensor_view lower_out[] = { PREPOST_VIEW(lower_ids, lower_dims, INLAY_INT64),
                                               PREPOST_VIEW(lower_mask, lower_dims, INLAY_INT64) };
static const inlay_op_example json_examples[] = {
    PREPOST_EXAMPLE("three words with a tokenizer.json", json_model, lower_view, lower_out, 0),
};

const prepost_operator prepost_json_tokenizer = {
    .op_type = "HfJsonTokenizer",
    .signature =
        "data:S -> input_ids:I, attention_mask?:I; S=string, I=int64; tokenizer_config:s='', tokenizer_vocab:s!",
    .doc =
        "Converts each text to the ids of its tokens, with special tokens, as [texts, longest]. tokenizer_vocab is the "
        "content of a tokenizer.json. Offsets are not supported.",
    .extensions = true,
    .infer = tokens_infer_rows,
    PREPOST_EXAMPLES(json_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_json,
                .release = tokens_release,
                .run = tokens_run_rows },
};

static inlay_status infer_detokenize(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    inlay_dim dims[1] = { prepost_fixed(1) };
    const inlay_status status = prepost_want_rank(in, 0, 1, 2, "[ids] or [texts, ids]", diag);

    (void)ctx;
    if (!prepost_knows_rank(input))
        dims[0] = prepost_open();
    else if (input->rank == 2)
        dims[0] = input->dims[0];
    return status == INLAY_OK ? prepost_set(in, 0, 1, dims) : status;
}

static inlay_status run_detokenize(const kit_call *call)
{
    const token_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t rows = input->rank == 2 ? input->dims[0] : 1, width = rows > 0 ? input->count / rows : 0;
    inlay_status status = INLAY_OK;

    INLAY_TRY(kit_alloc_output(call, 0, 1, &rows));
    for (int64_t r = 0; r < rows && status == INLAY_OK; r++) {
        char *text = NULL;
        size_t bytes = 0;

        status = text_decode(state->tokenizer, (const int64_t *)input->data + r * width, (size_t)width, state->special,
                             &text, &bytes, call->diag);
        if (status == INLAY_OK)
            status = prepost_put_string(call, (inlay_str *)call->out[0].data + r, text, bytes);
        free(text);
    }
done:
    return status;
}

static const inlay_tensor_view ids_view[] = { PREPOST_VIEW(full_ids, eight_dims, INLAY_INT64) };
static const inlay_str back[] = { PREPOST_STR("unwanted , running") };
static const inlay_tensor_view back_view[] = { PREPOST_VIEW(back, one_dims, INLAY_STRING) };
static const inlay_op_example detokenize_examples[] = {
    PREPOST_EXAMPLE("the tokens of a text with a vocab.txt of BERT", bert_model, ids_view, back_view, 0),
};

const prepost_operator prepost_detokenize = {
    .op_type = "Detokenize",
    .signature = "ids:I -> text:S; S=string, I=int64; model:s!, special:i=1",
    .doc = "Converts tokens, [ids] or [texts, ids], to text, with the same files as Tokenize. special skips special "
           "tokens.",
    .infer = infer_detokenize,
    PREPOST_EXAMPLES(detokenize_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_tokenize,
                .release = tokens_release,
                .run = run_detokenize },
};
