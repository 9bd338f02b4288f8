/* regex.c - onnxruntime-extensions' operators on regular expressions, implemented with PCRE2. StringRegexReplace and
 * StringRegexSplitWithOffsets behave like RE2; the two operators with ECMA in their names behave like C++'s std::regex.
 */
#include "prepost/prepost.h"
#include "inlay/check.h"
#include "common/pcre.h"
#include <stdlib.h>

/* RE2 matches characters, std::regex bytes. In both, $ does not match before a final end of line. */
enum {
    OPTIONS_RE2 = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_DOLLAR_ENDONLY,
    OPTIONS_ECMA = PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX | PCRE2_MATCH_UNSET_BACKREF | PCRE2_ALLOW_EMPTY_CLASS
};

/* The attributes; `ecma` depends on the operator. */
typedef struct regex_state {
    bool ecma, all, caseless;
} regex_state;

struct finder {
    const kit_call *call;
    const pcre_library *pcre;
    pcre2_code *code;
    pcre2_match_data *match;
    bool ecma;
};

static void finder_close(struct finder *finder)
{
    if (finder->pcre == NULL)
        return;
    finder->pcre->match_data_free(finder->match);
    finder->pcre->code_free(finder->code);
}

static inlay_status finder_open(const kit_call *call, inlay_str pattern, bool whole, struct finder *finder)
{
    const regex_state *state = call->state;
    const uint32_t caseless = state->caseless ? PCRE2_CASELESS : 0;
    const uint32_t anchored = whole ? PCRE2_ANCHORED | PCRE2_ENDANCHORED : 0;
    const uint32_t options = (state->ecma ? OPTIONS_ECMA : OPTIONS_RE2) | caseless | anchored;
    const pcre_library *pcre = pcre_open(call->diag);
    PCRE2_SIZE at = 0;
    int code = 0;

    if (pcre == NULL)
        return INLAY_UNSUPPORTED;
    *finder = (struct finder){ .call = call, .pcre = pcre, .ecma = state->ecma };
    finder->code = pcre->compile((PCRE2_SPTR)pattern.data, pattern.bytes, options, &code, &at, pcre->rules);
    if (finder->code == NULL)
        return pcre_refused(pattern, code, at, INLAY_INVALID_ARGUMENT, call->diag);
    finder->match = pcre->match_data_create_from_pattern(finder->code, NULL);
    return finder->match != NULL ? INLAY_OK : inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for a pattern");
}

/* Searches the next match from byte `from` on. `options` are those of the match function of PCRE2. */
static inlay_status next_match(struct finder *finder, inlay_str text, uint64_t from, uint32_t options, bool *out_found)
{
    const int count = finder->pcre->match(finder->code, (PCRE2_SPTR)(text.data != NULL ? text.data : ""), text.bytes,
                                          from, options, finder->match, finder->pcre->limits);

    INLAY_CHECK(from <= text.bytes);
    *out_found = count > 0;
    return count > 0 || count == PCRE2_ERROR_NOMATCH ? INLAY_OK : pcre_failed(count, finder->call->diag);
}

/* Returns the number of bytes to the next position: RE2 advances by a character, std::regex by a byte. */
static uint64_t step_size(const struct finder *finder, inlay_str text, uint64_t at)
{
    uint64_t size = 1;

    while (!finder->ecma && at + size < text.bytes && ((unsigned char)text.data[at + size] & 0xc0) == 0x80 && size < 4)
        size++;
    return size;
}

/* A text that grows as it is appended to. */
struct buffer {
    char *data;
    uint64_t count, room;
};

static bool append(struct buffer *buffer, const char *data, uint64_t bytes)
{
    INLAY_CHECK(buffer->count <= buffer->room);
    if (buffer->room - buffer->count < bytes) {
        const uint64_t room = (buffer->count + bytes) * 2 + 64;
        char *more = realloc(buffer->data, room);

        if (more == NULL)
            return false;
        buffer->data = more;
        buffer->room = room;
    }
    if (bytes > 0)
        memcpy(buffer->data + buffer->count, data, bytes);
    buffer->count += bytes;
    return true;
}

static bool append_group(struct buffer *buffer, const struct finder *finder, inlay_str text, uint32_t group)
{
    const PCRE2_SIZE *at = finder->pcre->get_ovector_pointer(finder->match);

    if (group >= finder->pcre->get_ovector_count(finder->match) || at[2 * group] == PCRE2_UNSET)
        return true;
    return append(buffer, text.data + at[2 * group], at[2 * group + 1] - at[2 * group]);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Appends the replacement: \0 to \9 are groups, \\ is a backslash, and other characters are unchanged. */
static bool append_re2(struct buffer *buffer, const struct finder *finder, inlay_str text, inlay_str rewrite)
{
    bool good = true;

    for (uint64_t i = 0; good && i < rewrite.bytes; i++) {
        if (rewrite.data[i] != '\\' || i + 1 == rewrite.bytes) {
            good = append(buffer, rewrite.data + i, 1);
            continue;
        }
        i++;
        good = is_digit(rewrite.data[i]) ? append_group(buffer, finder, text, (uint32_t)(rewrite.data[i] - '0'))
                                         : append(buffer, rewrite.data + i, 1);
    }
    return good;
}

/* Appends the replacement: $n and $nn are groups, $& the match, $` and $' the text before and after it, $$ a dollar,
 * and other characters are unchanged. */
static bool append_ecma(struct buffer *buffer, const struct finder *finder, inlay_str text, inlay_str rewrite)
{
    const PCRE2_SIZE *at = finder->pcre->get_ovector_pointer(finder->match);
    const uint32_t groups = finder->pcre->get_ovector_count(finder->match);
    bool good = true;

    for (uint64_t i = 0; good && i < rewrite.bytes; i++) {
        const char c = rewrite.data[i] == '$' && i + 1 < rewrite.bytes ? rewrite.data[i + 1] : '\0';
        uint32_t group = is_digit(c) ? (uint32_t)(c - '0') : 0;
        uint64_t used = 1;

        if (is_digit(c) && i + 2 < rewrite.bytes && is_digit(rewrite.data[i + 2]) &&
            group * 10 + (uint32_t)(rewrite.data[i + 2] - '0') < groups) {
            group = group * 10 + (uint32_t)(rewrite.data[i + 2] - '0');
            used = 2;
        }
        if (is_digit(c) || c == '&')
            good = append_group(buffer, finder, text, group);
        else if (c == '`')
            good = append(buffer, text.data, at[0]);
        else if (c == '\'')
            good = append(buffer, text.data + at[1], text.bytes - at[1]);
        else
            good = append(buffer, rewrite.data + i, 1);
        i += is_digit(c) || c == '&' || c == '`' || c == '\'' || c == '$' ? used : 0;
    }
    return good;
}

/* RE2 ignores an empty match where the previous match ended. std::regex accepts it, and after an empty match searches
 * for one that is not empty at the same position. */
static inlay_status replace(struct finder *finder, inlay_str text, inlay_str rewrite, bool all, struct buffer *buffer)
{
    const PCRE2_SIZE *found = finder->pcre->get_ovector_pointer(finder->match);
    uint64_t from = 0, written = 0, ended = UINT64_MAX;
    inlay_status status = INLAY_OK;
    bool more = true, empty = false, good = true;

    buffer->count = 0;
    while (more && good && from <= text.bytes) {
        uint64_t begin, end;

        INLAY_TRY(next_match(finder, text, from, empty ? PCRE2_NOTEMPTY_ATSTART | PCRE2_ANCHORED : 0, &more));
        if (!more && empty) { /* no other match at this position: continue after the character */
            from += from < text.bytes ? step_size(finder, text, from) : 1;
            empty = false;
            more = true;
            continue;
        }
        if (!more)
            break;
        begin = found[0];
        end = found[1];
        if (!finder->ecma && begin == end && begin == ended) {
            from = begin + (begin < text.bytes ? step_size(finder, text, begin) : 1);
            ended = UINT64_MAX;
            continue;
        }
        good = append(buffer, text.data + written, begin > written ? begin - written : 0) && /* \K moves begin */
               (finder->ecma ? append_ecma : append_re2)(buffer, finder, text, rewrite);
        written = ended = end;
        empty = finder->ecma && begin == end;
        from = begin == end && !finder->ecma ? end + (end < text.bytes ? step_size(finder, text, end) : 1) : end;
        more = all;
    }
    if (!good || !append(buffer, text.data + written, text.bytes - written))
        status = inlay_fail(finder->call->diag, INLAY_OUT_OF_MEMORY, "no memory for a replacement");
done:
    return status;
}

static inlay_status run_replace(const kit_call *call)
{
    const inlay_str *string = call->in[0].data, *pattern = call->in[1].data, *rewrite = call->in[2].data;
    const regex_state *state = call->state;
    struct finder finder = { .pcre = NULL };
    struct buffer buffer = { .data = NULL };
    inlay_status status;

    if (call->in[1].count != 1 || call->in[2].count != 1 || pattern->bytes == 0)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "pattern and rewrite must have one element each, and the pattern must not be empty");
    INLAY_TRY(finder_open(call, *pattern, false, &finder));
    INLAY_TRY(kit_alloc_output(call, 0, call->in[0].rank, call->in[0].dims));
    for (int64_t i = 0; i < call->in[0].count; i++) {
        INLAY_TRY(kit_poll(call));
        INLAY_TRY(replace(&finder, string[i], *rewrite, state->all, &buffer));
        INLAY_TRY(prepost_put_string(call, (inlay_str *)call->out[0].data + i, buffer.data, buffer.count));
    }
done:
    free(buffer.data);
    finder_close(&finder);
    return status;
}

struct piece {
    uint64_t begin, end;
};
struct pieces {
    struct piece *list;
    int64_t *starts; /* [texts + 1] */
    int64_t count, room;
};

static bool add_piece(struct pieces *pieces, uint64_t begin, uint64_t end)
{
    if (pieces->count == pieces->room) {
        struct piece *more = realloc(pieces->list, (size_t)(pieces->room * 2 + 32) * sizeof *more);

        if (more == NULL)
            return false;
        pieces->list = more;
        pieces->room = pieces->room * 2 + 32;
    }
    pieces->list[pieces->count++] = (struct piece){ begin, end };
    return true;
}

/* The delimiter is the match; with RE2 it is the first group of the pattern, if there is one. A delimiter that `keep`
 * matches completely is a piece, too. */
static inlay_status split(struct finder *finder, struct finder *keep, inlay_str text, struct pieces *pieces)
{
    const PCRE2_SIZE *found = finder->pcre->get_ovector_pointer(finder->match);
    const uint32_t group = !finder->ecma && finder->pcre->get_ovector_count(finder->match) > 1 ? 2 : 0;
    uint64_t from = 0, last = 0;
    bool more = true, good = true, kept = false;
    inlay_status status = INLAY_OK;

    while (good && from < text.bytes) {
        uint64_t begin, end, next;

        INLAY_TRY(next_match(finder, text, from, PCRE2_NOTEMPTY, &more));
        if (!more)
            break;
        next = found[1];
        begin = found[group] != PCRE2_UNSET ? found[group] : found[0];
        end = found[group] != PCRE2_UNSET ? found[group + 1] : found[1];
        if (keep->code != NULL)
            INLAY_TRY(next_match(keep, (inlay_str){ text.data + begin, end - begin }, 0, 0, &kept));
        good = (begin <= last || add_piece(pieces, last, begin)) && (!kept || add_piece(pieces, begin, end));
        from = last = next;
    }
    if (!good || (last < text.bytes && !add_piece(pieces, last, text.bytes)))
        status = inlay_fail(finder->call->diag, INLAY_OUT_OF_MEMORY, "no memory for pieces of a text");
done:
    return status;
}

static inlay_status put_pieces(const kit_call *call, const struct pieces *pieces)
{
    const inlay_str *texts = call->in[0].data;
    const int64_t rows = call->in[0].count + 1;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(pieces->count <= pieces->room && pieces->starts[rows - 1] == pieces->count);
    for (uint32_t o = 0; o < 3; o++)
        if (kit_has_output(call, o))
            INLAY_TRY(kit_alloc_output(call, o, 1, &pieces->count));
    if (kit_has_output(call, 3)) {
        INLAY_TRY(kit_alloc_output(call, 3, 1, &rows));
        memcpy(call->out[3].data, pieces->starts, (size_t)rows * sizeof *pieces->starts);
    }
    for (int64_t text = 0, i = 0; text + 1 < rows; text++) {
        for (; i < pieces->starts[text + 1]; i++) {
            const struct piece at = pieces->list[i];

            if (kit_has_output(call, 0))
                INLAY_TRY(prepost_put_string(call, (inlay_str *)call->out[0].data + i, texts[text].data + at.begin,
                                             at.end - at.begin));
            if (kit_has_output(call, 1))
                ((int64_t *)call->out[1].data)[i] = (int64_t)at.begin;
            if (kit_has_output(call, 2))
                ((int64_t *)call->out[2].data)[i] = (int64_t)at.end;
        }
    }
done:
    return status;
}

static inlay_status run_split(const kit_call *call)
{
    const inlay_str *pattern = call->in[1].data, *keeps = kit_has_input(call, 2) ? call->in[2].data : NULL;
    struct finder finder = { .pcre = NULL }, keep = { .pcre = NULL };
    struct pieces pieces = { .list = NULL };
    inlay_status status;

    if (call->in[1].count != 1 || pattern->bytes == 0 || (keeps != NULL && call->in[2].count > 1))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "the patterns must have one element each, and the delimiter's must not be empty");
    pieces.starts = calloc((size_t)call->in[0].count + 1, sizeof *pieces.starts);
    if (pieces.starts == NULL)
        return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for pieces of a text");
    INLAY_TRY(finder_open(call, *pattern, false, &finder));
    if (keeps != NULL && call->in[2].count == 1 && keeps->bytes > 0)
        INLAY_TRY(finder_open(call, *keeps, true, &keep));
    for (int64_t i = 0; i < call->in[0].count; i++) {
        INLAY_TRY(kit_poll(call));
        INLAY_TRY(split(&finder, &keep, ((const inlay_str *)call->in[0].data)[i], &pieces));
        pieces.starts[i + 1] = pieces.count;
    }
    status = put_pieces(call, &pieces);
done:
    free(pieces.list);
    free(pieces.starts);
    finder_close(&finder);
    finder_close(&keep);
    return status;
}

static inlay_status prepare_regex(const kit_node *node, void **out_state, inlay_diag *diag)
{
    regex_state *state = malloc(sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a pattern");
    state->ecma = strstr(kit_op_type(node), "ECMA") != NULL;
    state->all = kit_attr_int(node->info, "global_replace", 1) != 0;
    state->caseless = kit_attr_int(node->info, "ignore_case", 0) != 0;
    *out_state = state;
    return INLAY_OK;
}

static inlay_status infer_split(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    inlay_dim rows = prepost_open();
    const inlay_dim open = prepost_open();
    inlay_status status = prepost_want_rank(in, 0, 1, 1, "[texts]", diag);

    (void)ctx;
    if (prepost_knows_rank(input) && input->rank == 1 && input->dims[0].kind == INLAY_DIM_FIXED)
        rows = prepost_fixed(input->dims[0].value + 1);
    for (uint32_t o = 0; o < 4 && status == INLAY_OK; o++)
        status = prepost_set(in, o, 1, o == 3 ? &rows : &open);
    return status;
}

static void cost_search(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node;
    prepost_cost_elements(cost, shapes, 20000, 2000, 16); /* each run compiles the pattern */
}

static const int64_t one_dims[] = { 1 }, two_dims[] = { 2 }, three_dims[] = { 3 };
static const inlay_str python[] = { PREPOST_STR("def myfunc():"), PREPOST_STR("def dummy():") };
static const inlay_str definition[] = { PREPOST_STR("def\\s+([a-zA-Z_][a-zA-Z_0-9]*)\\s*\\(\\s*\\):") };
static const inlay_str of_re2[] = { PREPOST_STR("static PyObject* py_\\1(void) {") };
static const inlay_str of_ecma[] = { PREPOST_STR("static PyObject* py_$1(void) {") };
static const inlay_str in_c[] = { PREPOST_STR("static PyObject* py_myfunc(void) {"),
                                  PREPOST_STR("static PyObject* py_dummy(void) {") };
static const inlay_str hello[] = { PREPOST_STR("hello there") }, space[] = { PREPOST_STR("(\\s)") };
static const inlay_str words[] = { PREPOST_STR("hello"), PREPOST_STR(" "), PREPOST_STR("there") };
static const int64_t begins[] = { 0, 5, 6 }, ends[] = { 5, 6, 11 }, rows[] = { 0, 3 };

#define TEXTS(array, sizes) PREPOST_VIEW(array, sizes, INLAY_STRING)
static const inlay_tensor_view re2_in[] = { TEXTS(python, two_dims), TEXTS(definition, one_dims),
                                            TEXTS(of_re2, one_dims) };
static const inlay_tensor_view ecma_in[] = { TEXTS(python, two_dims), TEXTS(definition, one_dims),
                                             TEXTS(of_ecma, one_dims) };
static const inlay_tensor_view replaced[] = { TEXTS(in_c, two_dims) };
static const inlay_tensor_view split_in[] = { TEXTS(hello, one_dims), TEXTS(space, one_dims), TEXTS(space, one_dims) };
static const inlay_tensor_view split_out[] = { TEXTS(words, three_dims), PREPOST_VIEW(begins, three_dims, INLAY_INT64),
                                               PREPOST_VIEW(ends, three_dims, INLAY_INT64),
                                               PREPOST_VIEW(rows, two_dims, INLAY_INT64) };
#define EXAMPLE(title, ins, outs) PREPOST_PLAIN_EXAMPLE(title, ins, outs, 0)
static const inlay_op_example re2_examples[] = { EXAMPLE("functions of Python to functions of C", re2_in, replaced) };
static const inlay_op_example ecma_examples[] = { EXAMPLE("functions of Python to functions of C", ecma_in, replaced) };
static const inlay_op_example split_examples[] = { EXAMPLE("two words and the space", split_in, split_out) };

#define REGEX(name, verb, type, sign, text, shapes, list)                                                              \
    PREPOST_EXTENSION(name, type, sign, text, shapes, list, .cost = cost_search, .prepare = prepare_regex,             \
                      .run = run_##verb)
REGEX(re2_replace, replace, "StringRegexReplace",
      "text:S, pattern:S, rewrite:S -> output:S; S=string; global_replace:i=1, ignore_case:i=0",
      "Replaces each match of a pattern in RE2's syntax, or the first match if global_replace is 0. In rewrite, \\1 is "
      "the first group and \\0 the match.",
      prepost_infer_same, re2_examples)
REGEX(ecma_replace, replace, "StringECMARegexReplace",
      "text:S, pattern:S, rewrite:S -> output:S; S=string; global_replace:i=1, ignore_case:i=0",
      "Replaces each match of a pattern in ECMAScript's syntax, which matches bytes. In rewrite, $1 is the first group "
      "and "
      "$& the match.",
      prepost_infer_same, ecma_examples)
REGEX(
    re2_split, split, "StringRegexSplitWithOffsets",
    "text:S, delim_regex_pattern:S, keep_delim_regex_pattern?:S -> words:S, begins:I, ends:I, row_indices:I; S=string, "
    "I=int64; ignore_case:i=0",
    "Splits texts at the matches of a pattern in RE2's syntax, or of its first group, if it has one: returns the "
    "pieces, the bytes where they begin and end, and the index of the first piece of each text. Delimiters that the "
    "third input matches are pieces, too.",
    infer_split, split_examples)
REGEX(
    ecma_split, split, "StringECMARegexSplitWithOffsets",
    "text:S, delim_regex_pattern:S, keep_delim_regex_pattern?:S -> words:S, begins:I, ends:I, row_indices:I; S=string, "
    "I=int64; ignore_case:i=0",
    "StringRegexSplitWithOffsets with a pattern in ECMAScript's syntax, which matches bytes.", infer_split,
    split_examples)
