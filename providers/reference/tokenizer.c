/* Tokenizer (com.microsoft 1): texts are cut at separators, or into what an expression matches, or into characters;
 * each row of tokens is filled up to the longest. Expressions find the leftmost of the longest matches. */
#include "instance.h"
#include "reference.h"
#include "regex.h"
#include <stdlib.h>

enum { TOKENS_OF_CHARACTERS, TOKENS_BETWEEN, TOKENS_OF_MATCHES };

typedef struct token_state {
    uint32_t kind;
    bool marks;
    int64_t least; /* characters of a token */
    uint32_t count;
    struct regex **expressions; /* [count]: separators, or the token's */
    inlay_str pad;
    char text[]; /* of pad */
} token_state;

static void release_tokens(void *state)
{
    token_state *s = state;

    for (uint32_t i = 0; s != NULL && s->expressions != NULL && i < s->count; i++)
        regex_destroy(s->expressions[i]);
    if (s != NULL)
        free(s->expressions);
    free(s);
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

/* ------------------------------------------------------------------ run */

/* Where tokens go; they lie within the text. */
typedef struct token_row {
    const token_state *state;
    const kit_call *call;
    inlay_str *out; /* NULL: they are only counted */
    int64_t count;
    bool is_utf8;
} token_row;

/* Bytes of the character that begins there; a byte that is no part of one counts as one. */
static size_t character(const char *at, const char *end)
{
    const uint8_t c = (uint8_t)*at;
    const size_t want = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf8 ? 4 : 1;
    size_t n = 1;

    while (n < want && at + n < end && ((uint8_t)at[n] & 0xc0) == 0x80)
        n++;
    return n == want ? n : 1;
}

/* Notes the token unless it is too short; returns whether it was long enough. */
static bool put_token(token_row *row, const char *begin, const char *end)
{
    int64_t characters = 0;

    for (const char *at = begin; at < end && characters < row->state->least; at += character(at, end))
        characters++;
    if (characters < row->state->least)
        return false;
    if (row->out != NULL)
        row->out[row->count] = (inlay_str){ begin, (uint64_t)(end - begin) };
    row->count++;
    return true;
}

/* A match of expression `which` that begins at byte `from` or behind it. */
static inlay_status find(const token_row *row, uint32_t which, const char *text, size_t bytes, size_t from,
                         bool *out_found, size_t *out_begin, size_t *out_end)
{
    return regex_search(row->state->expressions[which], text, bytes, row->is_utf8, from, row->call->workspace,
                        out_found, out_begin, out_end, row->call->diag);
}

/* What lies between the matches of separator `which`, cut by those behind it. An empty match takes the character behind
 * it along, as in ONNX Runtime. */
static inlay_status cut(token_row *row, uint32_t which, const char *text, size_t bytes)
{
    inlay_status status = INLAY_OK;
    size_t from = 0, begin, end;
    bool found = true;

    if (which == row->state->count) {
        (void)put_token(row, text, text + bytes);
        return INLAY_OK;
    }
    while (from < bytes) {
        INLAY_TRY(find(row, which, text, bytes, from, &found, &begin, &end));
        if (!found)
            break;
        INLAY_TRY(cut(row, which + 1, text + from, begin - from));
        from = end > begin ? end : begin < bytes ? begin + character(text + begin, text + bytes) : bytes;
    }
    status = cut(row, which + 1, text + from, bytes - from);
done:
    return status;
}

static inlay_status match(token_row *row, const char *text, size_t bytes)
{
    inlay_status status = INLAY_OK;
    size_t from = 0, begin, end;
    bool found = true;

    while (from < bytes) {
        INLAY_TRY(find(row, 0, text, bytes, from, &found, &begin, &end));
        if (!found)
            break;
        if (end > begin && put_token(row, text + begin, text + end))
            from = end;
        else
            from = begin < bytes ? begin + character(text + begin, text + bytes) : bytes;
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
        status = cut(&row, 0, at, (size_t)text.bytes);
    else
        for (size_t n; status == INLAY_OK && at < end; at += n) {
            n = character(at, end);
            (void)put_token(&row, at, at + n);
        }
    *out_count = row.count;
    return status;
}

static inlay_status run_tokens(const kit_call *call)
{
    const token_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const inlay_str *texts = input->data;
    int64_t dims[3] = { 0 }, most = 0;
    inlay_status status = INLAY_OK;
    inlay_str *string;

    if (input->rank != 1 && input->rank != 2)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "X has rank %u; it must be [C] or [N, C]", input->rank);
    for (int64_t i = 0; i < input->count; i++) {
        int64_t n;

        INLAY_TRY(tokens_of(call, texts[i], NULL, &n));
        most = n > most ? n : most;
    }
    most += state->marks && most > 0 ? 2 : 0; /* without a token there are no rows */
    memcpy(dims, input->dims, input->rank * sizeof *dims);
    dims[input->rank] = most;
    INLAY_TRY(kit_alloc_output(call, 0, input->rank + 1, dims));
    string = call->out[0].data;
    for (int64_t i = 0; i < input->count && most > 0; i++, string += most) {
        int64_t n = 0, tokens;

        if (state->marks)
            string[n++] = (inlay_str){ "\x02", 1 };
        INLAY_TRY(tokens_of(call, texts[i], string + n, &tokens));
        n += tokens;
        if (state->marks)
            string[n++] = (inlay_str){ "\x03", 1 };
        for (; n < most; n++)
            string[n] = state->pad;
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
const kit_table OPERATOR(reference_tokenizer) = { kernels, KIT_COUNT(kernels) };
