/* decoders.c - onnxruntime-extensions' BpeDecoder and BertTokenizerDecoder: convert ids to text with lists of
 * tokens. */
#include "prepost/text/lines.h"
#include "prepost/text/tokens.h"
#include "inlay/check.h"
#include <stdlib.h>

/* A text that grows as it is appended to. */
struct text {
    char *data;
    size_t bytes, room;
};

static bool append(struct text *text, const char *data, size_t bytes)
{
    INLAY_CHECK(text->bytes <= text->room);
    if (text->room - text->bytes < bytes + 1) {
        char *more = realloc(text->data, (text->bytes + bytes) * 2 + 64);

        if (more == NULL)
            return false;
        text->data = more;
        text->room = (text->bytes + bytes) * 2 + 64;
    }
    if (bytes > 0)
        memcpy(text->data + text->bytes, data, bytes);
    text->bytes += bytes;
    return true;
}

static inlay_status fail_no_memory(inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a text");
}

/* The character at the start of s, and its size in bytes. A continuation byte, and a character that is cut off at the
 * end, count as characters of one byte; other errors of UTF-8 are not detected. */
static uint32_t read_character(const char *s, size_t bytes, size_t *size)
{
    const unsigned char c = (unsigned char)s[0];
    uint32_t value = c;

    INLAY_CHECK(bytes > 0);
    *size = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    *size = *size <= bytes ? *size : 1;
    if (*size > 1)
        value = c & (0x7fu >> *size);
    for (size_t i = 1; i < *size; i++)
        value = value << 6 | ((unsigned char)s[i] & 0x3f);
    return value;
}

/* Reads "number TAB text", where TAB and text are optional. False if the line does not begin with a number. */
static bool read_pair(inlay_str line, int64_t *number, inlay_str *rest)
{
    uint64_t i = 0;

    *number = 0;
    for (; i < line.bytes && line.data[i] >= '0' && line.data[i] <= '9' && *number < INT64_C(1) << 40; i++)
        *number = *number * 10 + (line.data[i] - '0');
    *rest = i + 1 < line.bytes && line.data[i] == '\t' ? (inlay_str){ line.data + i + 1, line.bytes - i - 1 }
                                                       : (inlay_str){ "", 0 };
    return i > 0;
}

/* A copy of a string attribute, or of its default; the caller frees it. NULL if there is no memory. */
static char *copy_of(const kit_node *node, const char *attr, const char *otherwise)
{
    const char *from = kit_attr_string(node->info, attr, otherwise);
    const size_t bytes = strlen(from) + 1;
    char *copy = malloc(bytes);

    return copy != NULL ? memcpy(copy, from, bytes) : NULL;
}

enum { CHARACTERS = 1024 };
typedef struct bpe_state {
    struct lines *words, *byte_decoder, *added, *special;
    char *unknown;
    int16_t byte_of[CHARACTERS]; /* the byte that a character stands for; -1 if none */
    bool skip, space_around_special;
} bpe_state;

static void release_bpe(void *state)
{
    bpe_state *s = state;

    if (s != NULL) {
        free(s->words);
        free(s->byte_decoder);
        free(s->added);
        free(s->special);
        free(s->unknown);
    }
    free(s);
}

/* Finds the line "number TAB text" with the number; returns `rest`, set to the text, or NULL. */
static const inlay_str *find(const struct lines *lines, int64_t number, inlay_str *rest)
{
    for (uint32_t i = 0; i < lines->count; i++) {
        int64_t value;

        if (read_pair(lines->list[i], &value, rest) && value == number)
            return rest;
    }
    return NULL;
}

static inlay_status prepare_bpe(const kit_node *node, void **out_state, inlay_diag *diag)
{
    bpe_state *state = calloc(1, sizeof *state);

    if (state == NULL)
        return fail_no_memory(diag);
    state->words = lines_create(node->info, "id_vocab", 0);
    state->byte_decoder = lines_create(node->info, "byte_decoder", 0);
    state->added = lines_create(node->info, "added_tokens", 0);
    state->special = lines_create(node->info, "all_special_ids", 0);
    state->unknown = copy_of(node, "unk_token", "<|endoftext|>");
    state->skip = kit_attr_int(node->info, "skip_special_tokens", 0) != 0;
    state->space_around_special = kit_attr_int(node->info, "whitespace_token", 0) != 0;
    if (state->words == NULL || state->byte_decoder == NULL || state->added == NULL || state->special == NULL ||
        state->unknown == NULL) {
        release_bpe(state);
        return fail_no_memory(diag);
    }
    for (int i = 0; i < CHARACTERS; i++)
        state->byte_of[i] = -1;
    for (uint32_t i = 0; i < state->byte_decoder->count; i++) {
        int64_t from, to;
        inlay_str rest, nothing;

        if (!read_pair(state->byte_decoder->list[i], &from, &rest) || !read_pair(rest, &to, &nothing) ||
            from >= CHARACTERS || to > 255) {
            release_bpe(state);
            return inlay_fail(
                diag, INLAY_INVALID_ARGUMENT,
                "BpeDecoder: byte_decoder, line %u: expected a character's number below %d, a tab and a byte", i + 1,
                CHARACTERS);
        }
        state->byte_of[from] = (int16_t)to;
    }
    *out_state = state;
    return INLAY_OK;
}

/* Appends the bytes that the characters of the token stand for; other characters are appended unchanged. */
static bool append_bytes(const bpe_state *state, inlay_str word, struct text *to)
{
    bool good = true;

    for (size_t i = 0, n; good && i < word.bytes; i += n) {
        const uint32_t c = read_character(word.data + i, word.bytes - i, &n);
        const char byte = (char)(c < CHARACTERS ? state->byte_of[c] : 0);

        good = c < CHARACTERS && state->byte_of[c] >= 0 ? append(to, &byte, 1) : append(to, word.data + i, n);
    }
    return good;
}

static bool decode_row(const bpe_state *state, const int64_t *ids, int64_t count, struct text *to)
{
    bool good = true, after_special = false;

    for (int64_t i = 0; good && i < count; i++) {
        inlay_str rest;
        const bool special = find(state->special, ids[i], &rest) != NULL;
        const bool known = ids[i] >= 0 && ids[i] < (int64_t)state->words->count;

        if (state->skip && special) {
            after_special = true;
            continue;
        }
        if (state->space_around_special && special && i > 0 && !after_special)
            good = append(to, " ", 1);
        if (find(state->added, ids[i], &rest) != NULL)
            good = good && append(to, rest.data, rest.bytes);
        else if (known)
            good = good && append_bytes(state, state->words->list[ids[i]], to);
        else if (!state->skip)
            good = good && append(to, state->unknown, strlen(state->unknown));
        if (state->space_around_special && special && i + 1 < count)
            good = good && append(to, " ", 1);
        after_special = special;
    }
    return good;
}

static inlay_status run_bpe(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    const int64_t width = input->rank > 0 ? input->dims[input->rank - 1] : 1;
    const int64_t rows = input->rank > 1 ? (width > 0 ? input->count / width : 0) : 1;
    struct text text = { .data = NULL };
    inlay_status status;

    INLAY_TRY(kit_alloc_output(call, 0, 1, &rows));
    for (int64_t r = 0; r < rows; r++) {
        text.bytes = 0;
        if (!decode_row(call->state, (const int64_t *)input->data + r * width, width, &text)) {
            status = fail_no_memory(call->diag);
            goto done;
        }
        INLAY_TRY(prepost_put_string(call, (inlay_str *)call->out[0].data + r, text.data, text.bytes));
    }
done:
    free(text.data);
    return status;
}

enum { SPECIAL = 4, UNKNOWN = SPECIAL, SUFFIX, TEXTS };
typedef struct bert_state {
    struct lines *words;
    char *texts[TEXTS]; /* special tokens, the unknown token, the prefix of pieces inside a word */
    bool skip, clean_up_spaces, use_indices;
} bert_state;

static void release_bert(void *state)
{
    bert_state *s = state;

    for (int i = 0; s != NULL && i < TEXTS; i++)
        free(s->texts[i]);
    if (s != NULL)
        free(s->words);
    free(s);
}

static inlay_status prepare_bert(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const char *const names[TEXTS][2] = { { "sep_token", "[SEP]" }, { "pad_token", "[PAD]" },
                                                 { "cls_token", "[CLS]" }, { "mask_token", "[MASK]" },
                                                 { "unk_token", "[UNK]" }, { "suffix_indicator", "##" } };
    bert_state *state = calloc(1, sizeof *state);
    bool good = state != NULL && (state->words = lines_create(node->info, "vocab_file", 0)) != NULL;

    for (int i = 0; good && i < TEXTS; i++)
        good = (state->texts[i] = copy_of(node, names[i][0], names[i][1])) != NULL;
    if (!good) {
        release_bert(state);
        return fail_no_memory(diag);
    }
    state->skip = kit_attr_int(node->info, "skip_special_tokens", 0) != 0;
    state->clean_up_spaces = kit_attr_int(node->info, "clean_up_tokenization_spaces", 1) != 0;
    state->use_indices = kit_attr_int(node->info, "use_indices", 0) != 0;
    *out_state = state;
    return INLAY_OK;
}

static bool is_special(const bert_state *state, inlay_str word)
{
    bool found = false;

    for (int i = 0; i < SPECIAL; i++)
        found |= word.bytes > 0 && word.bytes == strlen(state->texts[i]) &&
                 memcmp(word.data, state->texts[i], word.bytes) == 0;
    return found;
}

static uint32_t last_character(inlay_str word)
{
    uint64_t at = word.bytes;
    size_t size;

    while (at > 1 && ((unsigned char)word.data[at - 1] & 0xc0) == 0x80)
        at--;
    return at > 0 ? read_character(word.data + at - 1, word.bytes - at + 1, &size) : ' ';
}

static bool is_in(uint32_t c, const char *set)
{
    return c > 0 && c < 128 && strchr(set, (int)c) != NULL;
}

/* True if no space separates the two words: punctuation is placed as in English. */
static bool joins_without_space(inlay_str before, inlay_str word)
{
    size_t size;
    const uint32_t last = last_character(before),
                   first = word.bytes > 0 ? read_character(word.data, word.bytes, &size) : ' ';
    static const char both[] = "-'\"/@\\";

    return is_in(first, "!.?,~:}]>)") || is_in(last, "{[<($") || is_in(first, both) || is_in(last, both) ||
           (last > 128 && text_is_punctuation(last)) || (first > 128 && text_is_punctuation(first));
}

static bool join_words(const bert_state *state, const int64_t *ids, int64_t count, struct text *to)
{
    const char *unknown = state->texts[UNKNOWN], *suffix = state->texts[SUFFIX];
    const size_t lead = strlen(suffix);
    inlay_str before = { "", 0 };
    bool good = true;

    for (int64_t i = 0; good && i < count; i++) {
        const bool known = ids[i] >= 0 && ids[i] < (int64_t)state->words->count;
        inlay_str word = known ? state->words->list[ids[i]] : (inlay_str){ unknown, strlen(unknown) };
        const bool inner = known && word.bytes >= lead && memcmp(word.data, suffix, lead) == 0 && lead > 0;

        if ((known && state->skip && is_special(state, word)) || (to->bytes == 0 && inner))
            continue;
        if (inner)
            word = (inlay_str){ word.data + lead, word.bytes - lead };
        if (to->bytes > 0 && !inner &&
            !(known && state->clean_up_spaces && (before.bytes == 0 || joins_without_space(before, word))))
            good = append(to, " ", 1);
        good = good && append(to, word.data, word.bytes);
        before = known ? word : before;
    }
    return good;
}

static inlay_status run_bert(const kit_call *call)
{
    const bert_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t *range = state->use_indices && kit_has_input(call, 1) ? call->in[1].data : NULL;
    const int64_t rows = state->use_indices ? (range != NULL ? call->in[1].count / 2 : 0) : 1;
    struct text text = { .data = NULL };
    inlay_status status;

    if (input->rank == 0 || input->rank > 2 || (input->rank == 2 && input->dims[0] != 1))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "BertTokenizerDecoder: ids must be [n] or [1, n]");
    if (range != NULL && call->in[1].count > 0 && (call->in[1].rank != 2 || call->in[1].dims[1] != 2))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "BertTokenizerDecoder: indices must be [n, 2]");
    INLAY_TRY(kit_alloc_output(call, 0, 1, &rows));
    for (int64_t r = 0; r < rows; r++) {
        const int64_t begin = range != NULL ? range[2 * r] : 0, end = range != NULL ? range[2 * r + 1] : input->count;

        text.bytes = 0;
        if (begin < 0 || end < begin || end > input->count)
            status = inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                                "BertTokenizerDecoder: indices [%lld, %lld) are not a range of the %lld ids",
                                (long long)begin, (long long)end, (long long)input->count);
        else if (!join_words(state, (const int64_t *)input->data + begin, end - begin, &text))
            status = fail_no_memory(call->diag);
        else
            status = prepost_put_string(call, (inlay_str *)call->out[0].data + r, text.data, text.bytes);
        if (status != INLAY_OK)
            goto done;
    }
done:
    free(text.data);
    return status;
}

static const int64_t one_dims[] = { 1 }, six_dims[] = { 6 }, two_dims[] = { 2 }, table_dims[] = { 2, 3 };
static const int64_t bpe_ids[] = { 3, 0, 1, 0, 2, 3 }, bert_ids[] = { 0, 1, 2, 3, 4, 9 };
static const inlay_str bpe_texts[] = { PREPOST_STR("low"), PREPOST_STR("lo\xc3\xa9") },
                       bert_text[] = { PREPOST_STR("unwanted, no [UNK]") };
static const inlay_tensor_view bpe_in[] = { PREPOST_VIEW(bpe_ids, table_dims, INLAY_INT64) };
static const inlay_tensor_view bpe_out[] = { PREPOST_VIEW(bpe_texts, two_dims, INLAY_STRING) };
static const inlay_tensor_view bert_in[] = { PREPOST_VIEW(bert_ids, six_dims, INLAY_INT64) };
static const inlay_tensor_view bert_out[] = { PREPOST_VIEW(bert_text, one_dims, INLAY_STRING) };
static const inlay_attr_info bpe_model[] = {
    PREPOST_ATTR_STRING("id_vocab", "lo\nw\n\xc3\x83\xc2\xa9\n<|end|>\n"),
    PREPOST_ATTR_STRING("byte_decoder", "108\t108\n111\t111\n119\t119\n195\t195\n169\t169\n"),
    PREPOST_ATTR_STRING("all_special_ids", "3\n"),
    PREPOST_ATTR_INT("skip_special_tokens", 1),
};
static const inlay_attr_info bert_model[] = {
    PREPOST_ATTR_STRING("vocab_file", "[CLS]\nun\n##wanted\n,\nno\n"),
    PREPOST_ATTR_INT("skip_special_tokens", 1),
};
static const inlay_op_example bpe_examples[] = { PREPOST_EXAMPLE("two texts", bpe_model, bpe_in, bpe_out, 0) };
static const inlay_op_example bert_examples[] = { PREPOST_EXAMPLE("a sentence", bert_model, bert_in, bert_out, 0) };

const prepost_operator prepost_bpe_decoder = {
    .op_type = "BpeDecoder",
    .signature =
        "ids:I -> text:S; S=string, I=int64; id_vocab:s!, byte_decoder:s!, added_tokens:s='', all_special_ids:s='', "
        "skip_special_tokens:i=0, whitespace_token:i=0, unk_token:s='<|endoftext|>', "
        "bos_token:s, eos_token:s, en_normalization:i=0", /* which have no effect there either */
    .doc =
        "Converts the tokens along the last axis to text. id_vocab has one token a line, in characters that stand for "
        "bytes; byte_decoder has lines of character TAB byte, both as numbers; added_tokens has lines of id TAB text.",
    .extensions = true,
    .infer = prepost_infer_list,
    PREPOST_EXAMPLES(bpe_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_bpe,
                .release = release_bpe,
                .run = run_bpe },
};

const prepost_operator prepost_bert_decoder = {
    .op_type = "BertTokenizerDecoder",
    .signature =
        "ids:I, indices?:I -> text:S; S=string, I=int64; vocab_file:s!, unk_token:s='[UNK]', sep_token:s='[SEP]', "
        "pad_token:s='[PAD]', cls_token:s='[CLS]', mask_token:s='[MASK]', suffix_indicator:s='##', use_indices:i=0, "
        "skip_special_tokens:i=0, clean_up_tokenization_spaces:i=1",
    .doc =
        "Converts BERT's tokens to text. With use_indices, one text for each range [begin, end) of the second input.",
    .extensions = true,
    .infer = prepost_infer_list,
    PREPOST_EXAMPLES(bert_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_bert,
                .release = release_bert,
                .run = run_bert },
};
