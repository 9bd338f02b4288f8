/* Operators on strings: StringConcat, StringSplit, RegexFullMatch (ONNX 20), StringNormalizer (10). Strings are UTF-8,
 * independent of the system's locale. */
#define _GNU_SOURCE /* memmem */
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "operators/operators.h"
#include "reference/regex.h"
#include "operators/strided.h"
#include "reference/unicode_case.h"

static bool same_text(inlay_str first, inlay_str second)
{
    return first.bytes == second.bytes &&
           (first.bytes == 0 || memcmp(first.data, second.data, (size_t)first.bytes) == 0);
}

/* Computes the steps of an input for the output's shape: 0 along axes on which it is broadcast. */
static inlay_status broadcast_steps(const kit_call *call, uint32_t input, int64_t *steps)
{
    const kit_tensor *tensor = &call->in[input], *output = &call->out[0];
    int64_t step = 1;

    if (tensor->rank > output->rank)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "input %u has a higher rank than the output", input);
    for (uint32_t axis = 0; axis < output->rank; axis++)
        steps[axis] = 0;
    for (uint32_t axis = tensor->rank; axis-- > 0;) {
        const uint32_t to = axis + output->rank - tensor->rank;

        if (tensor->dims[axis] != 1 && tensor->dims[axis] != output->dims[to])
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "axis %u of input %u does not broadcast", axis, input);
        steps[to] = tensor->dims[axis] == 1 ? 0 : step;
        step *= tensor->dims[axis];
    }
    return INLAY_OK;
}

static inlay_status run_concat(const kit_call *call)
{
    const inlay_str *first = call->in[0].data, *second = call->in[1].data;
    const kit_tensor *out = &call->out[0];
    int64_t steps[2][INLAY_MAX_RANK];
    inlay_str *string = out->data;
    uint64_t bytes = 0;
    strided_walk walk;
    inlay_status status = INLAY_OK;
    char *text;

    INLAY_TRY(broadcast_steps(call, 0, steps[0]));
    INLAY_TRY(broadcast_steps(call, 1, steps[1]));
    strided_walk_init(&walk, out->rank, out->dims, steps[0], steps[1]);
    for (int64_t i = 0; i < out->count; i++, strided_walk_next(&walk))
        bytes += first[walk.offset[0]].bytes + second[walk.offset[1]].bytes;
    text = bytes > 0 ? kit_alloc_string(call, bytes) : NULL;
    if (bytes > 0 && text == NULL)
        return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for %llu bytes of text",
                          (unsigned long long)bytes);
    strided_walk_init(&walk, out->rank, out->dims, steps[0], steps[1]);
    for (int64_t i = 0; i < out->count; i++, strided_walk_next(&walk)) {
        const inlay_str left = first[walk.offset[0]], right = second[walk.offset[1]];

        string[i] = (inlay_str){ text, left.bytes + right.bytes };
        if (left.bytes > 0)
            memcpy(text, left.data, (size_t)left.bytes);
        if (right.bytes > 0)
            memcpy(text + left.bytes, right.data, (size_t)right.bytes);
        text = string[i].bytes > 0 ? text + string[i].bytes : text;
    }
done:
    return status;
}

typedef struct split_state {
    int64_t limit; /* maximum splits per string, INT64_MAX = no limit */
    uint64_t bytes;
    char delimiter[]; /* [bytes]; empty = runs of white space */
} split_state;

static inlay_status prepare_split(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_attr_info *delimiter = kit_attr(node->info, "delimiter");
    const uint64_t bytes = delimiter != NULL ? delimiter->s.bytes : 0;
    const int64_t limit = kit_attr_int(node->info, "maxsplit", INT64_MAX);
    inlay_status status = arg_allocate_state(sizeof(split_state) + (size_t)bytes, out_state, diag);

    if (status == INLAY_OK) {
        split_state *state = *out_state;

        state->limit = limit < 0 ? INT64_MAX : limit;
        state->bytes = bytes;
        if (bytes > 0)
            memcpy(state->delimiter, delimiter->s.data, (size_t)bytes);
    }
    return status;
}

static bool is_space(char character)
{
    return character == ' ' || (character >= '\t' && character <= '\r');
}

/* Splits the text like Python's split(), and returns the number of pieces. parts (may be NULL) receives the pieces,
 * which point into the text. */
static int64_t split_text(const split_state *state, inlay_str text, inlay_str *parts)
{
    const char *at = text.data, *end = text.bytes > 0 ? text.data + text.bytes : text.data;
    int64_t count = 0;

    if (state->bytes > 0) {
        for (;; count++) {
            const char *part_end = count < state->limit && end != at
                                       ? memmem(at, (size_t)(end - at), state->delimiter, (size_t)state->bytes)
                                       : NULL;

            if (parts != NULL)
                parts[count] = (inlay_str){ at, (uint64_t)((part_end != NULL ? part_end : end) - at) };
            if (part_end == NULL)
                return count + 1;
            at = part_end + state->bytes;
        }
    }
    for (;; count++) {
        const char *part_end;

        while (at < end && is_space(*at))
            at++;
        if (at == end)
            return count;
        part_end = at;
        while (part_end < end && (count >= state->limit || !is_space(*part_end)))
            part_end++;
        if (parts != NULL)
            parts[count] = (inlay_str){ at, (uint64_t)(part_end - at) };
        at = part_end;
    }
}

static inlay_status run_split(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    const inlay_str *texts = input->data;
    int64_t dims[INLAY_MAX_RANK + 1], max_parts = 0;
    inlay_status status;
    inlay_str *string;

    for (int64_t i = 0; i < input->count; i++) {
        const int64_t parts = split_text(call->state, texts[i], NULL);
        max_parts = parts > max_parts ? parts : max_parts;
    }
    if (input->rank >= INLAY_MAX_RANK)
        return inlay_fail(call->diag, INLAY_LIMIT_EXCEEDED, "the output would have rank %u", input->rank + 1);
    if (input->rank > 0)
        memcpy(dims, input->dims, input->rank * sizeof *dims);
    dims[input->rank] = max_parts;
    status = kit_alloc_output(call, 1, input->rank, input->dims);
    if (status == INLAY_OK)
        status = kit_alloc_output(call, 0, input->rank + 1, dims);
    if (status != INLAY_OK)
        return status;
    string = kit_has_output(call, 0) ? call->out[0].data : NULL;
    for (int64_t i = 0; i < input->count; i++) {
        const int64_t parts = split_text(call->state, texts[i], string);

        INLAY_CHECK(parts <= max_parts);
        for (int64_t k = parts; string != NULL && k < max_parts; k++)
            string[k] = (inlay_str){ "", 0 };
        if (kit_has_output(call, 1))
            ((int64_t *)call->out[1].data)[i] = parts;
        string = string != NULL ? string + max_parts : NULL;
    }
    return INLAY_OK;
}

enum { CASE_NONE, CASE_LOWER, CASE_UPPER };

typedef struct normalizer_state {
    uint32_t change;
    bool sensitive;
    uint32_t count;
    inlay_str stopwords[]; /* [count], lower-case unless sensitive; their bytes follow */
} normalizer_state;

static inlay_status prepare_normalizer(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const char *const changes[] = { "NONE", "LOWER", "UPPER" };
    const char *change = kit_attr_string(node->info, "case_change_action", "NONE");
    const inlay_attr_info *words = kit_attr(node->info, "stopwords");
    const uint32_t count = words != NULL ? words->count : 0;
    size_t bytes = sizeof(normalizer_state) + count * sizeof(inlay_str), extra = 0;
    normalizer_state *state;
    inlay_status status;
    uint32_t index = 0;
    char *text;

    while (index < KIT_COUNT(changes) && strcmp(change, changes[index]) != 0)
        index++;
    if (index == KIT_COUNT(changes))
        return inlay_fail(diag, INLAY_INVALID_MODEL, "case_change_action '%s' is none of NONE, LOWER, UPPER", change);
    for (uint32_t i = 0; i < count; i++)
        extra += 2 * (size_t)words->strings[i].bytes;
    status = arg_allocate_state(bytes + extra, out_state, diag);
    if (status != INLAY_OK)
        return status;
    state = *out_state;
    state->change = index;
    state->sensitive = kit_attr_int(node->info, "is_case_sensitive", 0) != 0;
    state->count = count;
    text = (char *)state + bytes;
    for (uint32_t i = 0; i < count; i++) {
        size_t word_bytes = (size_t)words->strings[i].bytes;

        if (word_bytes > 0 && state->sensitive)
            memcpy(text, words->strings[i].data, word_bytes);
        else if (word_bytes > 0)
            word_bytes = case_convert(words->strings[i].data, word_bytes, false, text);
        state->stopwords[i] = (inlay_str){ text, word_bytes };
        text += word_bytes;
    }
    return INLAY_OK;
}

/* Returns whether the text converted to lower case equals `folded`. */
static bool equal_folded(inlay_str text, inlay_str folded)
{
    uint64_t matched = 0;

    for (uint64_t at = 0; at < text.bytes;) {
        char character[4];
        size_t count;

        at += case_convert_one(text.data + at, (size_t)(text.bytes - at), false, character, &count);
        if (count > folded.bytes - matched || memcmp(character, folded.data + matched, count) != 0)
            return false;
        matched += count;
    }
    return matched == folded.bytes;
}

static bool is_stopword(const normalizer_state *state, inlay_str text)
{
    for (uint32_t i = 0; i < state->count; i++)
        if (state->sensitive ? same_text(text, state->stopwords[i]) : equal_folded(text, state->stopwords[i]))
            return true;
    return false;
}

static inlay_status run_normalizer(const kit_call *call)
{
    const normalizer_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const inlay_str *texts = input->data;
    int64_t dims[2] = { 1, 0 }, kept = 0;
    inlay_status status;
    inlay_str *string;

    if (input->rank != 1 && !(input->rank == 2 && input->dims[0] == 1))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "X must be [C] or [1, C]");
    for (int64_t i = 0; i < input->count; i++)
        kept += !is_stopword(state, texts[i]);
    dims[input->rank - 1] = kept > 0 ? kept : 1;
    status = kit_alloc_output(call, 0, input->rank, dims);
    if (status != INLAY_OK || call->out[0].data == NULL)
        return status;
    string = call->out[0].data;
    if (kept == 0) {
        string[0] = (inlay_str){ "", 0 }; /* StringNormalizer-10: an empty result is one empty string */
        return INLAY_OK;
    }
    for (int64_t i = 0; i < input->count; i++) {
        if (is_stopword(state, texts[i]))
            continue;
        *string = texts[i];
        if (state->change != CASE_NONE && texts[i].bytes > 0) {
            char *text = kit_alloc_string(call, 2 * texts[i].bytes);

            if (text == NULL)
                return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for a text");
            string->bytes = case_convert(texts[i].data, (size_t)texts[i].bytes, state->change == CASE_UPPER, text);
            string->data = text;
        }
        string++;
    }
    return INLAY_OK;
}

static inlay_status prepare_regex(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_attr_info *pattern = kit_attr(node->info, "pattern");
    struct regex *regex = NULL;
    inlay_status status =
        regex_create(pattern != NULL ? pattern->s.data : "", pattern != NULL ? pattern->s.bytes : 0, &regex, diag);

    *out_state = regex;
    return status;
}

static void release_regex(void *state)
{
    regex_destroy(state);
}

static inlay_status shape_regex(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    (void)diag;
    plan->workspace_bytes = (uint64_t)regex_scratch_bytes() * plan->max_threads;
    return INLAY_OK;
}

typedef struct regex_job {
    const struct regex *regex;
    const inlay_str *texts;
    bool *out;
    char *scratch;
    inlay_diag *diag;
    bool reported; /* set by the first thread that fails, which reports the error */
} regex_job;

static inlay_status regex_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    regex_job *job = user;
    char *scratch = job->scratch + worker * regex_scratch_bytes();
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;

    for (int64_t i = begin; i < end && status == INLAY_OK; i++)
        status = regex_full_match(job->regex, job->texts[i].data != NULL ? job->texts[i].data : "",
                                  (size_t)job->texts[i].bytes, scratch, &job->out[i], &diag);
    if (status != INLAY_OK && !__atomic_exchange_n(&job->reported, true, __ATOMIC_RELAXED))
        (void)inlay_fail(job->diag, status, "%s", diag.text);
    return status;
}

static inlay_status run_regex(const kit_call *call)
{
    regex_job job = { call->state, call->in[0].data, call->out[0].data, call->workspace, call->diag, false };
    inlay_status status = arg_expect_dims(call->diag, &call->out[0], call->in[0].rank, call->in[0].dims);

    return status == INLAY_OK ? kit_parallel(call, call->in[0].count, 256, regex_range, &job) : status;
}

static const kit_kernel kernels[] = {
    { .op_type = "StringConcat", .run = run_concat },
    { .op_type = "StringSplit", .flags = KIT_SHAPES_AT_RUN, .prepare = prepare_split, .run = run_split },
    { .op_type = "StringNormalizer", .flags = KIT_SHAPES_AT_RUN, .prepare = prepare_normalizer, .run = run_normalizer },
    { .op_type = "RegexFullMatch",
      .prepare = prepare_regex,
      .release = release_regex,
      .shape = shape_regex,
      .run = run_regex },
};
const kit_table reference_string = { kernels, KIT_COUNT(kernels) };
