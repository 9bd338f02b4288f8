/* byte_level.c - onnxruntime-extensions' tokenizers with byte-level BPE: GPT2Tokenizer, RobertaTokenizer,
 * CLIPTokenizer.
 */
#include "prepost/text/tokens.h"
#include "inlay/check.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static const int64_t one_dims[] = { 1 };

static inlay_status prepare_gpt2(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_str vocab = tokens_attr(node->info, "vocab"), merges = tokens_attr(node->info, "merges");
    const int64_t pad_to = kit_attr_int(node->info, "padding_length", -1);
    token_state *state = NULL;
    inlay_status status = tokens_create_state(&state, diag);

    if (status == INLAY_OK)
        status = text_open_bpe(vocab.data, vocab.bytes, merges.data, merges.bytes, &state->tokenizer, diag);
    if (status != INLAY_OK) {
        tokens_release(state);
        return status;
    }
    state->pad_to = state->max_length = pad_to > 0 ? pad_to : 0;
    state->end = -1;
    *out_state = state;
    return INLAY_OK;
}

static const inlay_str hey[] = { PREPOST_STR("low lower") };
static const inlay_tensor_view hey_view[] = { PREPOST_VIEW(hey, one_dims, INLAY_STRING) };
static const int64_t low_ids[] = { 7, 9, 8 }, low_mask[] = { 1, 1, 1 }, low_dims[] = { 1, 3 };
static const inlay_tensor_view low_view[] = { PREPOST_VIEW(low_ids, low_dims, INLAY_INT64),
                                              PREPOST_VIEW(low_mask, low_dims, INLAY_INT64) };
static const inlay_attr_info low_model[] = {
    PREPOST_ATTR_STRING("vocab", "{\"l\":0,\"o\":1,\"w\":2,\"\xc4\xa0\":3,\"e\":4,\"r\":5,\"lo\":6,\"low\":7,\"er\":8,"
                                 "\"\xc4\xa0low\":9}"),
    PREPOST_ATTR_STRING("merges", "#version: 0.2\nl o\nlo w\ne r\n\xc4\xa0 low\n"),
};
static const inlay_op_example gpt2_examples[] = {
    PREPOST_EXAMPLE("two words with a vocabulary of ten", low_model, hey_view, low_view, 0),
};

const prepost_operator prepost_gpt2_tokenizer = {
    .op_type = "GPT2Tokenizer",
    .signature =
        "data:S -> input_ids:I, attention_mask?:I; S=string, I=int64; vocab:s!, merges:s!, padding_length:i=-1, "
        "model_name:s=''{''|'GPT2'}, added_token:s=''{''}",
    .doc = "GPT-2's byte-level BPE; the ids are [texts, longest]. vocab and merges are the contents of vocab.json and "
           "merges.txt; padding_length above 0 fixes the width.",
    .extensions = true,
    .infer = tokens_infer_rows,
    PREPOST_EXAMPLES(gpt2_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_gpt2,
                .release = tokens_release,
                .run = tokens_run_rows },
};

static inlay_status prepare_roberta(const kit_node *node, void **out_state, inlay_diag *diag)
{
    void *made = NULL;
    inlay_status status = prepare_gpt2(node, &made, diag);
    token_state *state = made;

    if (status != INLAY_OK)
        return status;
    state->begin = text_find_token(state->tokenizer, "<s>");
    state->end = text_find_token(state->tokenizer, "</s>");
    state->pad = text_find_token(state->tokenizer, "<pad>") >= 0 ? text_find_token(state->tokenizer, "<pad>") : 0;
    state->add_affix = true;
    if (state->begin < 0 || state->end < 0) {
        tokens_release(state);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "RobertaTokenizer: vocab has no '<s>' or no '</s>'");
    }
    INLAY_CHECK(!state->special && state->tokenizer != NULL); /* otherwise <s> and </s> would be added twice */
    *out_state = state;
    return INLAY_OK;
}

static const int64_t around_ids[] = { 10, 7, 9, 8, 11 }, around_mask[] = { 1, 1, 1, 1, 1 }, around_dims[] = { 1, 5 };
static const inlay_tensor_view around_view[] = { PREPOST_VIEW(around_ids, around_dims, INLAY_INT64),
                                                 PREPOST_VIEW(around_mask, around_dims, INLAY_INT64) };
static const inlay_attr_info around_model[] = {
    PREPOST_ATTR_STRING("vocab", "{\"l\":0,\"o\":1,\"w\":2,\"\xc4\xa0\":3,\"e\":4,\"r\":5,\"lo\":6,\"low\":7,\"er\":8,"
                                 "\"\xc4\xa0low\":9,\"<s>\":10,\"</s>\":11}"),
    PREPOST_ATTR_STRING("merges", "#version: 0.2\nl o\nlo w\ne r\n\xc4\xa0 low\n"),
};
static const inlay_op_example roberta_examples[] = {
    PREPOST_EXAMPLE("two words with a vocabulary of twelve", around_model, hey_view, around_view, 0),
};

const prepost_operator prepost_roberta_tokenizer = {
    .op_type = "RobertaTokenizer",
    .signature =
        "data:S -> input_ids:I, attention_mask?:I; S=string, I=int64; vocab:s!, merges:s!, padding_length:i=-1, "
        "model_name:s=''{''|'Roberta'}, added_token:s=''{''}",
    .doc = "GPT2Tokenizer with <s> before each text and </s> after it. Offsets are not supported.",
    .extensions = true,
    .infer = tokens_infer_rows,
    PREPOST_EXAMPLES(roberta_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_roberta,
                .release = tokens_release,
                .run = tokens_run_rows },
};

/* Writes a JSON string. Text that is not valid UTF-8 is written unchanged; the reader of the file then reports it. */
static void put_json(FILE *to, const char *text, size_t bytes)
{
    json_t *string = json_stringn(text, bytes);

    if (string == NULL || json_dumpf(string, to, JSON_ENCODE_ANY) != 0)
        (void)fwrite(text, 1, bytes, to);
    json_decref(string);
}

/* Writes the tokenizer.json that is published for CLIP, with the contents of the two files. */
static void write_clip(FILE *to, inlay_str vocab, inlay_str merges)
{
    const char *at = merges.data, *end = merges.data + merges.bytes;
    bool first = true;

    (void)fputs(
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Replace\",\"pattern\":"
        "{\"Regex\":\"\\\\s+\"},\"content\":\" \"},{\"type\":\"Lowercase\"}]},\"pre_tokenizer\":{\"type\":\"Sequence\","
        "\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"'s|'t|'re|'ve|'m|'ll|'d|[\\\\p{L}]+|[\\\\p{N}]"
        "|"
        "[^\\\\s\\\\p{L}\\\\p{N}]+\"},\"behavior\":\"Removed\",\"invert\":true},{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false}]},\"model\":{\"type\":\"BPE\",\"unk_token\":\"<|endoftext|>\","
        "\"end_of_word_suffix\":\"</w>\",\"vocab\":",
        to);
    (void)fwrite(vocab.data, 1, vocab.bytes, to);
    (void)fputs(",\"merges\":[", to);
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = stop != NULL ? (size_t)(stop - at) : (size_t)(end - at);

        if (n > 0 && at[n - 1] == '\r')
            n--;
        if (n > 0 && !(n > 9 && memcmp(at, "#version:", 9) == 0)) {
            (void)fputs(first ? "" : ",", to);
            put_json(to, at, n);
            first = false;
        }
        at = stop != NULL ? stop + 1 : end;
    }
    (void)fputs("]}}", to);
}

static inlay_status prepare_clip(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const int64_t pad_to = kit_attr_int(node->info, "padding_length", -1);
    char *json = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&json, &bytes);
    token_state *state = NULL;
    inlay_status status =
        to != NULL ? tokens_create_state(&state, diag) : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory");

    if (to != NULL)
        write_clip(to, tokens_attr(node->info, "vocab"), tokens_attr(node->info, "merges"));
    if (to != NULL && fclose(to) != 0 && status == INLAY_OK)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "CLIPTokenizer: no memory for its files");
    if (status == INLAY_OK)
        status = text_open(json, bytes, &state->tokenizer, diag);
    free(json);
    if (status == INLAY_OK) {
        state->begin = text_find_token(state->tokenizer, "<|startoftext|>");
        state->end = text_find_token(state->tokenizer, "<|endoftext|>");
        state->add_affix = state->bare_if_blank = true;
        state->pad_to = state->max_length = pad_to > 0 ? pad_to : 0;
        if (state->begin < 0 || state->end < 0)
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                "CLIPTokenizer: vocab has no '<|startoftext|>' or no '<|endoftext|>'");
    }
    if (status != INLAY_OK) {
        tokens_release(state);
        return status;
    }
    *out_state = state;
    return INLAY_OK;
}

static const inlay_str low_texts[] = { PREPOST_STR("Low  LOWER"), PREPOST_STR(" ") };
static const int64_t two_dims[] = { 2 }, clip_ids[] = { 9, 8, 6, 7, 10, 0, 0, 0, 0, 0 };
static const int64_t clip_mask[] = { 1, 1, 1, 1, 1, 0, 0, 0, 0, 0 }, clip_dims[] = { 2, 5 };
static const inlay_tensor_view clip_in[] = { PREPOST_VIEW(low_texts, two_dims, INLAY_STRING) };
static const inlay_tensor_view clip_out[] = { PREPOST_VIEW(clip_ids, clip_dims, INLAY_INT64),
                                              PREPOST_VIEW(clip_mask, clip_dims, INLAY_INT64) };
static const inlay_attr_info clip_model[] = {
    PREPOST_ATTR_STRING("vocab",
                        "{\"l\":0,\"o\":1,\"w</w>\":2,\"w\":3,\"e\":4,\"lo\":5,\"low\":6,\"er</w>\":7,\"low</w>\":8,"
                        "\"<|startoftext|>\":9,\"<|endoftext|>\":10,\"r</w>\":11}"),
    PREPOST_ATTR_STRING("merges", "#version: 0.2\nl o\nlo w</w>\nlo w\ne r</w>\n"),
};
static const inlay_op_example clip_examples[] = {
    PREPOST_EXAMPLE("two words, and a blank text", clip_model, clip_in, clip_out, 0),
};

const prepost_operator prepost_clip_tokenizer = {
    .op_type = "CLIPTokenizer",
    .signature =
        "data:S -> input_ids:I, attention_mask?:I; S=string, I=int64; vocab:s!, merges:s!, padding_length:i=-1, "
        "model_name:s=''{''|'CLIP'}, added_token:s=''{''}",
    .doc = "CLIP's byte-level BPE of lower-case words, with <|startoftext|> before each text and <|endoftext|> after "
           "it; a "
           "text of spaces only has no tokens. Offsets are not supported.",
    .extensions = true,
    .infer = tokens_infer_rows,
    PREPOST_EXAMPLES(clip_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_clip,
                .release = tokens_release,
                .run = tokens_run_rows },
};
