/* Tokenizer (com.microsoft 1): splits texts at separators, into the matches of an expression, or into characters. Each
 * row of tokens is padded to the longest one. Expressions find the leftmost, longest match. */
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "operators/operators.h"
#include "reference/regex.h"
#include <stdlib.h>

enum { TOKENS_OF_CHARACTERS, TOKENS_BETWEEN, TOKENS_OF_MATCHES };

typedef struct token_state {
    uint32_t kind;
    bool marks;
    int64_t least; /* minimum characters of a token */
    uint32_t count;
    struct regex **expressions; /* [count]: the separators, or the expression that tokens match */
    inlay_str pad;
    char text[]; /* the bytes of the padding token */
} token_state;

static void release_tokens(void *state)
{
    token_state *tokens = state;

    for (uint32_t i = 0; tokens != NULL && tokens->expressions != NULL && i < tokens->count; i++)
        regex_destroy(tokens->expressions[i]);
    if (tokens != NULL)
        free(tokens->expressions);
    free(tokens);
}

static inlay_status read_expressions(token_state *state, const inlay_str *patterns, uint32_t count, inlay_diag *diag)
{
    state->expressions = calloc(count, sizeof *state->expressions);
    if (state->expressions == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the expressions of a Tokenizer");
    state->count = count;
    for (uint32_t i = 0; i < count; i++) {
        inlay_status status = regex_create(patterns[i].bytes > 0 ? patterns[i].data : "", (size_t)patterns[i].bytes,
                                           &state->expressions[i], diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

static inlay_status prepare_tokens(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_attr_info *pad = kit_attr(node->info, "pad_value"), *token = kit_attr(node->info, "tokenexp");
    const inlay_attr_info *separators = kit_attr(node->info, "separators");
    const bool has_separators = separators != NULL && separators->kind == INLAY_ATTR_STRINGS && separators->count > 0;
    const bool has_token = token != NULL && token->kind == INLAY_ATTR_STRING && token->s.bytes > 0;
    const uint64_t bytes = pad != NULL && pad->kind == INLAY_ATTR_STRING ? pad->s.bytes : 0;
    token_state *state = calloc(1, sizeof *state + (size_t)bytes + 1);
    inlay_status status = INLAY_OK;

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a Tokenizer");
    if (bytes > 0)
        memcpy(state->text, pad->s.data, (size_t)bytes);
    state->pad = (inlay_str){ state->text, bytes };
    state->marks = kit_attr_int(node->info, "mark", 0) != 0;
    state->least = kit_attr_int(node->info, "mincharnum", 1);
    state->kind = has_token ? TOKENS_OF_MATCHES
                  : separators != NULL && separators->count == 1 && separators->strings[0].bytes == 0
                      ? TOKENS_OF_CHARACTERS
                      : TOKENS_BETWEEN;
    if (has_separators == has_token)
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "a Tokenizer needs either separators or tokenexp");
    else if (state->least < 1 || (state->kind == TOKENS_OF_CHARACTERS && state->least > 1))
        status = inlay_fail(diag, INLAY_INVALID_MODEL,
                            "mincharnum is %lld; it must be at least 1, and 1 for characters", (long long)state->least);
    else if (state->kind != TOKENS_OF_CHARACTERS)
        status = has_token ? read_expressions(state, &token->s, 1, diag)
                           : read_expressions(state, separators->strings, separators->count, diag);
    if (status == INLAY_OK)
        *out_state = state;
    else
        release_tokens(state);
    return status;
}

static inlay_status shape_tokens(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)diag;
    plan->workspace_bytes = ((const token_state *)state)->kind != TOKENS_OF_CHARACTERS ? regex_scratch_bytes() : 0;
    return INLAY_OK;
}

/* The tokens of one text, which point into the text. */
typedef struct token_row {
    const token_state *state;
    const kit_call *call;
    inlay_str *out; /* NULL: only count the tokens */
    int64_t count;
    bool is_utf8;
} token_row;

/* Returns the bytes of the character at `at`. A byte that is not part of a UTF-8 character counts as a character. */
static size_t character_bytes(const char *at, const char *end)
{
    INLAY_CHECK(at < end);
    const uint8_t lead = (uint8_t)*at;
    const size_t expected = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf8 ? 4 : 1;
    size_t bytes = 1;

    while (bytes < expected && at + bytes < end && ((uint8_t)at[bytes] & 0xc0) == 0x80)
        bytes++;
    return bytes == expected ? bytes : 1;
}

/* Adds the token if it is long enough; returns whether it is. */
static bool put_token(token_row *row, const char *begin, const char *end)
{
    int64_t characters = 0;

    INLAY_CHECK(begin <= end);
    for (const char *at = begin; at < end && characters < row->state->least; at += character_bytes(at, end))
        characters++;
    if (characters < row->state->least)
        return false;
    if (row->out != NULL)
        row->out[row->count] = (inlay_str){ begin, (uint64_t)(end - begin) };
    row->count++;
    return true;
}

/* Finds a match of expression `which` that begins at or after byte `from`. */
static inlay_status find_match(const token_row *row, uint32_t which, const char *text, size_t bytes, size_t from,
                               bool *out_found, size_t *out_begin, size_t *out_end)
{
    INLAY_CHECK(which < row->state->count && from <= bytes);
    return regex_search(row->state->expressions[which], text, bytes, row->is_utf8, from, row->call->workspace,
                        out_found, out_begin, out_end, row->call->diag);
}

/* Splits the text at separator `which`, and the parts at the following separators. An empty match consumes the next
 * character, as in ONNX Runtime. */
static inlay_status split_at(token_row *row, uint32_t which, const char *text, size_t bytes)
{
    inlay_status status = INLAY_OK;
    size_t from = 0, begin, end;
    bool found = true;

    if (which == row->state->count) {
        (void)put_token(row, text, text + bytes);
        return INLAY_OK;
    }
    while (from < bytes) {
        INLAY_TRY(find_match(row, which, text, bytes, from, &found, &begin, &end));
        if (!found)
            break;
        INLAY_TRY(split_at(row, which + 1, text + from, begin - from));
        from = end > begin ? end : begin < bytes ? begin + character_bytes(text + begin, text + bytes) : bytes;
    }
    status = split_at(row, which + 1, text + from, bytes - from);
done:
    return status;
}

static inlay_status match(token_row *row, const char *text, size_t bytes)
{
    inlay_status status = INLAY_OK;
    size_t from = 0, begin, end;
    bool found = true;

    while (from < bytes) {
        INLAY_TRY(find_match(row, 0, text, bytes, from, &found, &begin, &end));
        if (!found)
            break;
        if (end > begin && put_token(row, text + begin, text + end))
            from = end;
        else
            from = begin < bytes ? begin + character_bytes(text + begin, text + bytes) : bytes;
    }
done:
    return status;
}

static inlay_status tokens_of(const kit_call *call, inlay_str text, inlay_str *out, int64_t *out_count)
{
    const token_state *state = call->state;
    const char *at = text.bytes > 0 ? text.data : "", *end = at + text.bytes;
    token_row row = { state, call, out, 0, state->count > 0 && regex_is_utf8(at, (size_t)text.bytes) };
    inlay_status status = kit_poll(call);

    if (status == INLAY_OK && state->kind == TOKENS_OF_MATCHES)
        status = match(&row, at, (size_t)text.bytes);
    else if (status == INLAY_OK && state->kind == TOKENS_BETWEEN)
        status = split_at(&row, 0, at, (size_t)text.bytes);
    else
        for (size_t length; status == INLAY_OK && at < end; at += length) {
            length = character_bytes(at, end);
            (void)put_token(&row, at, at + length);
        }
    *out_count = row.count;
    return status;
}

static inlay_status run_tokens(const kit_call *call)
{
    const token_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const inlay_str *texts = input->data;
    int64_t dims[3] = { 0 }, max_tokens = 0;
    inlay_status status = INLAY_OK;
    inlay_str *string;

    if (input->rank != 1 && input->rank != 2)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "X has rank %u; it must be [C] or [N, C]", input->rank);
    for (int64_t i = 0; i < input->count; i++) {
        int64_t filled;

        INLAY_TRY(tokens_of(call, texts[i], NULL, &filled));
        max_tokens = filled > max_tokens ? filled : max_tokens;
    }
    max_tokens += state->marks && max_tokens > 0 ? 2 : 0; /* start and end marks, unless there is no token */
    memcpy(dims, input->dims, input->rank * sizeof *dims);
    dims[input->rank] = max_tokens;
    INLAY_TRY(kit_alloc_output(call, 0, input->rank + 1, dims));
    string = call->out[0].data;
    for (int64_t i = 0; i < input->count && max_tokens > 0; i++, string += max_tokens) {
        int64_t filled = 0, tokens;

        if (state->marks)
            string[filled++] = (inlay_str){ "\x02", 1 };
        INLAY_TRY(tokens_of(call, texts[i], string + filled, &tokens));
        filled += tokens;
        if (state->marks)
            string[filled++] = (inlay_str){ "\x03", 1 };
        INLAY_CHECK(filled <= max_tokens);
        for (; filled < max_tokens; filled++)
            string[filled] = state->pad;
    }
done:
    return status;
}

static const kit_kernel kernels[] = {
    { .domain = "com.microsoft",
      .op_type = "Tokenizer",
      .flags = KIT_SHAPES_AT_RUN,
      .prepare = prepare_tokens,
      .release = release_tokens,
      .shape = shape_tokens,
      .run = run_tokens },
};
const kit_table reference_tokenizer = { kernels, KIT_COUNT(kernels) };
