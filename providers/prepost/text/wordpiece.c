/* wordpiece.c - onnxruntime-extensions' WordpieceTokenizer: splits words into the pieces of a vocabulary. */
#include "prepost/text/tokens.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct piece_state {
    text_tokenizer *tokenizer; /* used for its vocabulary only */
    char *suffix, *unknown;
    int64_t max_chars;
} piece_state;

static void release(void *state)
{
    piece_state *s = state;

    if (s != NULL) {
        text_close(s->tokenizer);
        free(s->suffix);
        free(s->unknown);
    }
    free(s);
}

static char *copy_of(const inlay_node_info *node, const char *attr)
{
    const inlay_str text = tokens_attr(node, attr);
    char *copy = malloc(text.bytes + 1);

    if (copy != NULL && text.bytes > 0)
        memcpy(copy, text.data, text.bytes);
    if (copy != NULL)
        copy[text.bytes] = '\0';
    return copy;
}

/* Opens the vocabulary. It is the JSON object that a tokenizer.json has at model.vocab, so the function writes a
 * tokenizer.json around it and opens that. */
static inlay_status open_words(inlay_str vocab, text_tokenizer **out, inlay_diag *diag)
{
    char *json = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&json, &bytes);
    inlay_status status;

    if (to == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "WordpieceTokenizer: no memory for the vocabulary");
    (void)fputs("{\"model\":{\"type\":\"WordPiece\",\"vocab\":", to);
    (void)fwrite(vocab.data, 1, vocab.bytes, to);
    (void)fputs("}}", to);
    status = fclose(to) == 0
                 ? text_open(json, bytes, out, diag)
                 : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "WordpieceTokenizer: no memory for the vocabulary");
    free(json);
    return status;
}

static inlay_status prepare_words(const kit_node *node, void **out_state, inlay_diag *diag)
{
    piece_state *state = calloc(1, sizeof *state);
    inlay_status status = INLAY_OK;

    if (state != NULL) {
        state->suffix = copy_of(node->info, "suffix_indicator");
        state->unknown = copy_of(node->info, "unknown_token");
        state->max_chars = kit_attr_int(node->info, "max_input_chars_per_word", 200);
    }
    if (state == NULL || state->suffix == NULL || state->unknown == NULL)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "WordpieceTokenizer: no memory");
    if (status == INLAY_OK)
        status = open_words(tokens_attr(node->info, "vocab"), &state->tokenizer, diag);
    if (status != INLAY_OK) {
        release(state);
        return status;
    }
    *out_state = state;
    return INLAY_OK;
}

/* A list of pieces; text has the pieces of all words, concatenated. */
struct piece_list {
    int64_t *ends; /* [count] end of each piece in text */
    char *text;
    int64_t count, room;
    size_t bytes, text_room;
};

static bool add(struct piece_list *pieces, const char *text, size_t bytes)
{
    if (pieces->count == pieces->room) {
        int64_t *more = realloc(pieces->ends, (size_t)(pieces->room * 2 + 64) * sizeof *more);

        if (more == NULL)
            return false;
        pieces->ends = more;
        pieces->room = pieces->room * 2 + 64;
    }
    if (pieces->text_room - pieces->bytes < bytes + 1) {
        char *more = realloc(pieces->text, (pieces->bytes + bytes) * 2 + 64);

        if (more == NULL)
            return false;
        pieces->text = more;
        pieces->text_room = (pieces->bytes + bytes) * 2 + 64;
    }
    INLAY_CHECK(pieces->count < pieces->room && pieces->bytes <= pieces->text_room);
    memcpy(pieces->text + pieces->bytes, text, bytes);
    pieces->bytes += bytes;
    pieces->ends[pieces->count++] = (int64_t)pieces->bytes;
    return true;
}

static bool starts_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

/* Splits a word into pieces: at each position it takes the longest piece that matches, as BERT does. If no piece
 * matches, the unknown token is appended and the rest of the word is dropped. `room` has space for the suffix indicator
 * and the word. */
static bool add_word(const piece_state *state, const char *word, size_t bytes, char *room, struct piece_list *out)
{
    const size_t lead = strlen(state->suffix);
    int64_t chars = 0;

    for (size_t i = 0; i < bytes; i++)
        chars += starts_character(word[i]);
    if (chars > state->max_chars)
        return add(out, state->unknown, strlen(state->unknown));
    memcpy(room, state->suffix, lead);
    for (size_t begin = 0; begin < bytes;) {
        const size_t skip = begin > 0 ? 0 : lead;
        size_t end = bytes;

        memcpy(room + lead, word + begin, bytes - begin);
        for (; end > begin; end--) {
            if (end < bytes && !starts_character(word[end]))
                continue;
            room[lead + end - begin] = '\0';
            if (text_find_token(state->tokenizer, room + skip) >= 0)
                break;
        }
        if (end == begin)
            return add(out, state->unknown, strlen(state->unknown));
        if (!add(out, room + skip, lead - skip + end - begin))
            return false;
        begin = end;
    }
    return true;
}

static bool add_text(const piece_state *state, inlay_str text, struct piece_list *out)
{
    char *room = malloc(strlen(state->suffix) + text.bytes + 1);
    bool good = room != NULL;

    for (uint64_t at = 0; good && at < text.bytes;) {
        uint64_t end = at;

        while (end < text.bytes && text.data[end] != ' ')
            end++;
        if (end > at)
            good = add_word(state, text.data + at, (size_t)(end - at), room, out);
        at = end + 1;
    }
    free(room);
    return good;
}

static inlay_status put_words(const kit_call *call, const struct piece_list *pieces, const int64_t *rows, int64_t count)
{
    const int64_t ends = count - 1;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(count > 0 && rows[count - 1] == pieces->count);
    INLAY_TRY(kit_alloc_output(call, 0, 1, &pieces->count));
    for (int64_t i = 0; kit_has_output(call, 0) && i < pieces->count; i++) {
        const int64_t from = i > 0 ? pieces->ends[i - 1] : 0;

        INLAY_TRY(prepost_put_string(call, (inlay_str *)call->out[0].data + i, pieces->text + from,
                                     (size_t)(pieces->ends[i] - from)));
    }
    for (uint32_t o = 1; o < 4; o++) {
        if (!kit_has_output(call, o))
            continue;
        INLAY_TRY(kit_alloc_output(call, o, 1, o == 1 ? &count : &ends));
        memcpy(call->out[o].data, o == 3 ? rows + 1 : rows, (size_t)(o == 1 ? count : ends) * sizeof *rows);
    }
done:
    return status;
}

/* Without input row_indices each text is a row; otherwise texts are words, and row_indices has the first word of each
 * row. */
static inlay_status run_words(const kit_call *call)
{
    const piece_state *state = call->state;
    const int64_t texts = call->in[0].count, *given = kit_has_input(call, 1) ? call->in[1].data : NULL;
    const int64_t sentences = given != NULL ? call->in[1].count : 0;
    int64_t *rows = calloc((size_t)texts + 2, sizeof *rows), count = 0;
    struct piece_list pieces = { .count = 0 };
    inlay_status status = INLAY_OK;

    for (int64_t i = 0; rows != NULL && i < texts; i++) {
        if (sentences == 0 || (count < sentences && given[count] == i))
            rows[count++] = pieces.count;
        INLAY_TRY(kit_poll(call));
        if (!add_text(state, ((const inlay_str *)call->in[0].data)[i], &pieces)) {
            free(rows);
            rows = NULL;
        }
    }
    if (rows == NULL) {
        status = inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "WordpieceTokenizer: no memory for tokens");
        goto done;
    }
    rows[count++] = pieces.count;
    status = put_words(call, &pieces, rows, count);
done:
    free(rows);
    free(pieces.ends);
    free(pieces.text);
    return status;
}

static inlay_status infer_words(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim open = prepost_open();
    inlay_status status = INLAY_OK;

    (void)ctx, (void)diag;
    for (uint32_t o = 0; o < 4 && status == INLAY_OK; o++)
        status = prepost_set(in, o, 1, &open);
    return status;
}

static const int64_t two_dims[] = { 2 }, three_dims[] = { 3 }, four_dims[] = { 4 }, rows_in[] = { 0, 2 };
static const inlay_str words[] = { PREPOST_STR("unwanted"), PREPOST_STR("running"), PREPOST_STR("unwantedX"),
                                   PREPOST_STR("running") };
static const inlay_str tokens[] = { PREPOST_STR("un"),     PREPOST_STR("##want"), PREPOST_STR("##ed"),
                                    PREPOST_STR("runn"),   PREPOST_STR("##ing"),  PREPOST_STR("un"),
                                    PREPOST_STR("##want"), PREPOST_STR("##ed"),   PREPOST_STR("[UNK]"),
                                    PREPOST_STR("runn"),   PREPOST_STR("##ing") };
static const int64_t eleven_dims[] = { 11 }, rows_out[] = { 0, 5, 11 }, begins[] = { 0, 5 }, limits[] = { 5, 11 };
static const inlay_tensor_view words_in[] = { PREPOST_VIEW(words, four_dims, INLAY_STRING),
                                              PREPOST_VIEW(rows_in, two_dims, INLAY_INT64) };
static const inlay_tensor_view words_out[] = { PREPOST_VIEW(tokens, eleven_dims, INLAY_STRING),
                                               PREPOST_VIEW(rows_out, three_dims, INLAY_INT64),
                                               PREPOST_VIEW(begins, two_dims, INLAY_INT64),
                                               PREPOST_VIEW(limits, two_dims, INLAY_INT64) };
static const inlay_attr_info words_model[] = {
    PREPOST_ATTR_STRING("vocab",
                        "{\"want\":10,\"##want\":11,\"##ed\":12,\"wa\":13,\"un\":14,\"runn\":15,\"##ing\":16}"),
    PREPOST_ATTR_STRING("suffix_indicator", "##"),
    PREPOST_ATTR_STRING("unknown_token", "[UNK]"),
};
static const inlay_op_example words_examples[] = {
    PREPOST_EXAMPLE("two sentences of two words", words_model, words_in, words_out, 0),
};

const prepost_operator prepost_wordpiece_tokenizer = {
    .op_type = "WordpieceTokenizer",
    .signature = "data:S, row_indices?:I -> tokens:S, rows?:I, begins?:I, limits?:I; S=string, I=int64; vocab:s!, "
                 "suffix_indicator:s!, unknown_token:s!, max_input_chars_per_word:i=200",
    .doc = "Splits texts at spaces and the words into pieces: returns the tokens, the index of the first token of each "
           "row "
           "followed by the number of tokens, and begin and end of each row. vocab is a JSON object of text to id. "
           "row_indices has the first text of each row; without it each text is a row.",
    .extensions = true,
    .infer = infer_words,
    PREPOST_EXAMPLES(words_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_words,
                .release = release,
                .run = run_words },
};
