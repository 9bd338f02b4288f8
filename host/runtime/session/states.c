/* session/states.c - finds the outputs of a model that are inputs of the next run: the pairs of option `state`, and
 * pairs with names that exporters use. */
#include "base/memory.h"
#include "session/session.h"
#include "inlay/check.h"
#include <string.h>

/* INPUT=OUTPUT, each with one *, which match the same text. */
static const char *const known_pairs[] = {
    "past_key_values.*=present.*", /* Optimum, ONNX Runtime GenAI */
    "past_key_values.*=present_key_values.*",
    "past_*=present_*", /* past_key_values_0, past_key_self_0, past_0 */
    "past.*=present.*",
};

/* The part of name that * matches; NULL: the name does not match. */
static const char *star_of(const char *pattern, size_t bytes, const char *name, size_t *out_bytes)
{
    const char *star = memchr(pattern, '*', bytes);
    const size_t name_bytes = strlen(name), head = star == NULL ? bytes : (size_t)(star - pattern);
    const size_t tail = star == NULL ? 0 : bytes - head - 1;

    if (name_bytes < head + tail || memcmp(name, pattern, head) != 0 ||
        (star == NULL ? name_bytes != bytes : memcmp(name + name_bytes - tail, star + 1, tail) != 0))
        return NULL;
    *out_bytes = name_bytes - head - tail;
    return name + head;
}

/* The index of the output that the pair assigns to input `name`; INLAY_NONE: none. */
static uint32_t find_output(const struct graph *graph, const char *pair, const char *name)
{
    const char *equals = strchr(pair, '=');
    size_t in_bytes, out_bytes;
    const char *in = star_of(pair, (size_t)(equals - pair), name, &in_bytes), *out;

    for (uint32_t k = 0; in != NULL && k < graph->output_count; k++) {
        if (graph->outputs[k] == INLAY_NONE)
            continue;
        out = star_of(equals + 1, strlen(equals + 1), graph->values[graph->outputs[k]].info.name.data, &out_bytes);
        if (out != NULL && out_bytes == in_bytes && memcmp(in, out, in_bytes) == 0)
            return k;
    }
    return INLAY_NONE;
}

bool session_names_states(const struct graph *graph, const inlay_options *options)
{
    if (options_list(options, OPTION_state, 0) != NULL)
        return true;
    for (uint32_t i = 0; i < graph->input_count; i++)
        for (size_t k = 0; k < sizeof known_pairs / sizeof known_pairs[0]; k++)
            if (find_output(graph, known_pairs[k], graph->values[graph->inputs[i]].info.name.data) != INLAY_NONE)
                return true;
    return false;
}

static bool same_size(const inlay_dim *a, const inlay_dim *b)
{
    return a->kind == b->kind && (a->kind == INLAY_DIM_FIXED      ? a->value == b->value
                                  : a->kind == INLAY_DIM_SYMBOLIC ? a->symbol == b->symbol
                                                                  : false);
}

/* Can the output be the input of the next run? *out_axis: the axis along which the output is longer; INLAY_NONE: none.
 * Of several axes with different sizes: the last but one unless that is axis 0, otherwise the first one after axis 0,
 * which is usually the batch. */
static bool is_state_pair(const struct graph *graph, uint32_t input, uint32_t output, uint32_t *out_axis)
{
    const graph_value *out = &graph->values[graph->outputs[output]];
    const inlay_value_info *a = &graph->values[graph->inputs[input]].info, *b = &out->info;
    const uint32_t rank = b->rank != INLAY_RANK_UNKNOWN ? b->rank : out->declared ? out->declared_rank : b->rank;
    const inlay_dim *dims = b->rank != INLAY_RANK_UNKNOWN ? b->dims : out->declared_dims;
    uint32_t open = INLAY_NONE;

    *out_axis = INLAY_NONE;
    if (a->kind != INLAY_VALUE_TENSOR || b->kind != INLAY_VALUE_TENSOR || a->dtype != b->dtype ||
        a->dtype == INLAY_STRING || inlay_dtype_bits(a->dtype) % 8 != 0 || inlay_dtype_bits(a->dtype) == 0 ||
        a->rank == INLAY_RANK_UNKNOWN || rank != a->rank || graph->values[graph->inputs[input]].has_default)
        return false;
    for (uint32_t d = 0; d < rank; d++) {
        if (a->dims[d].kind == INLAY_DIM_FIXED) {
            if (dims[d].kind == INLAY_DIM_FIXED && dims[d].value != a->dims[d].value)
                return false;
        } else if (!same_size(&a->dims[d], &dims[d]) && (open == INLAY_NONE || d + 2 == rank || open == 0)) {
            open = d;
        }
    }
    *out_axis = open;
    return true;
}

static bool add_state(inlay_session *session, graph_state *list, uint32_t input, uint32_t output, inlay_diag *diag,
                      const char *pair)
{
    uint32_t axis;

    if (!is_state_pair(session->model->main, input, output, &axis)) {
        if (pair != NULL)
            (void)inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                             "option state: %s: '%s' and '%s' have different types or ranks, or incompatible sizes",
                             pair, session->model->main->values[session->model->main->inputs[input]].info.name.data,
                             session->model->main->values[session->model->main->outputs[output]].info.name.data);
        return false;
    }
    INLAY_CHECK(session->env.state_count < session->model->main->input_count);
    list[session->env.state_count++] = (graph_state){ input, output, axis };
    return true;
}

/* Finds the user's pair for the input, or a known one. */
static inlay_status find_pair(inlay_session *session, const inlay_options *options, graph_state *list, uint32_t input,
                              uint8_t *used, inlay_diag *diag)
{
    const struct graph *graph = session->model->main;
    const char *name = graph->values[graph->inputs[input]].info.name.data, *pair;
    uint32_t output;

    for (uint32_t i = 0; (pair = options_list(options, OPTION_state, i)) != NULL; i++) {
        output = find_output(graph, pair, name);
        if (output == INLAY_NONE)
            continue;
        used[i] = 1;
        return add_state(session, list, input, output, diag, pair) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
    }
    for (uint32_t i = 0; i < sizeof known_pairs / sizeof known_pairs[0]; i++) {
        output = find_output(graph, known_pairs[i], name);
        if (output != INLAY_NONE && add_state(session, list, input, output, NULL, NULL))
            return INLAY_OK;
    }
    return INLAY_OK;
}

inlay_status session_find_states(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    const struct graph *graph = session->model->main;
    graph_state *list = arena_array(&session->arena, (size_t)graph->input_count + 1, sizeof *list);
    uint8_t *used = arena_array(&session->arena, OPTIONS_MAX_ITEMS, 1);
    inlay_status status = INLAY_OK;
    const char *pair;

    if (list == NULL || used == NULL)
        return no_memory(diag, "for a session");
    for (uint32_t i = 0; (pair = options_list(options, OPTION_state, i)) != NULL; i++) {
        const char *equals = strchr(pair, '=');

        if (equals == NULL || equals == pair || equals[1] == '\0' || strchr(equals + 1, '=') != NULL)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option state: '%s' is not INPUT=OUTPUT", pair);
    }
    for (uint32_t i = 0; status == INLAY_OK && i < graph->input_count; i++)
        status = find_pair(session, options, list, i, used, diag);
    for (uint32_t i = 0; status == INLAY_OK && (pair = options_list(options, OPTION_state, i)) != NULL; i++)
        if (used[i] == 0)
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                "option state: '%s' matches no input of the model that has a matching output", pair);
    session->env.states = list;
    return status;
}
