#include "cli/watched.h"
#include "base/nearest.h"
#include "cli/look.h"
#include "data/value.h"
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

error_t watched_add(const cli_option *option, void *field, char *pattern, struct argp_state *state)
{
    struct watched *w = field;

    (void)option;
    if (!LIST_GROW(w->patterns, w->count))
        return ENOMEM;
    if (pattern[0] == '\0')
        argp_failure(state, CLI_USAGE, 0, "--watch: expected the name of a node, or op:OPERATOR");
    w->patterns[w->count++] = pattern;
    return 0;
}

void watched_deinit(struct watched *w)
{
    free(w->patterns);
    free((void *)w->nodes);
    graph_model_destroy(w->model);
    *w = (struct watched){ 0 };
}

/* As in `inlay explain --node`. */
static bool fits(const char *pattern, const inlay_node_info *n)
{
    if (strncmp(pattern, "op:", 3) == 0)
        return fnmatch(pattern + 3, n->op_type.data, 0) == 0;
    return fnmatch(pattern, n->name.data, 0) == 0 || strcmp(pattern, n->name.data) == 0;
}

static const char *nth_name(const void *ctx, uint32_t i)
{
    return ((const struct graph *)ctx)->nodes[i]->info.name.data;
}

/* A value of the graph that a node makes; names with a comma would be two to the option. */
static inlay_status tap(const struct graph *g, uint32_t v, cli_common *common, inlay_diag *diag)
{
    const char *name = v != INLAY_NONE ? g->values[v].info.name.data : "";

    if (v == INLAY_NONE || g->values[v].info.producer == INLAY_NONE || strchr(name, ',') != NULL)
        return INLAY_OK;
    return inlay_options_set(common->options, "tap", name, diag);
}

inlay_status watched_tap(struct watched *w, cli_common *common, const char *path, inlay_diag *diag)
{
    const model_load_options load = { .out_fault = NULL };
    const struct graph *g;
    inlay_status status;

    INLAY_TRY(cli_look(common, path, &load, &w->model, diag));
    g = w->model->main;
    w->own_outputs = g->output_count;
    w->nodes = calloc((size_t)g->node_count + 1, sizeof(graph_node *));
    if (w->nodes == NULL)
        return no_memory(diag, "for the nodes");
    for (uint32_t p = 0; p < w->count; p++) {
        const char *near = nearest_name(w->patterns[p], nth_name, g, g->node_count);
        bool found = false;

        for (uint32_t i = 0; i < g->node_count; i++)
            found = found || fits(w->patterns[p], &g->nodes[i]->info);
        if (!found)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "--watch: no node of the main graph fits '%.150s'%s%.150s%s", w->patterns[p],
                              near != NULL ? "; did you mean '" : "; inlay inspect --nodes lists them",
                              near != NULL ? near : "", near != NULL ? "'?" : "");
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];
        bool any = false;

        for (uint32_t p = 0; p < w->count; p++)
            any = any || fits(w->patterns[p], &n->info);
        if (!any)
            continue;
        w->nodes[w->node_count++] = n;
        for (uint32_t k = 0; k < n->info.input_count; k++)
            INLAY_TRY(tap(g, n->info.inputs[k], common, diag));
        for (uint32_t k = 0; k < n->info.output_count; k++)
            INLAY_TRY(tap(g, n->info.outputs[k], common, diag));
    }
done:
    return status;
}

/* The value of the last run, NULL where it has none: an input, a constant, or what is no tensor. */
static const inlay_value *value_of(const inlay_session *session, inlay_context *context, const char *name)
{
    const uint32_t at = inlay_session_find_output(session, name);

    return at != INLAY_NONE ? inlay_context_output(context, at) : NULL;
}

static void print_values(const struct watched *w, const char *what, const uint32_t *values, uint32_t count,
                         const inlay_session *session, inlay_context *context, uint32_t max)
{
    for (uint32_t i = 0; i < count; i++) {
        const inlay_value_info *info = values[i] != INLAY_NONE ? &w->model->main->values[values[i]].info : NULL;
        const inlay_value *value = info != NULL ? value_of(session, context, info->name.data) : NULL;

        if (value == NULL)
            continue;
        (void)printf("  %s ", what);
        value_print(stdout, info->name.data, value, max);
    }
}

void watched_print(const struct watched *w, const inlay_session *session, inlay_context *context, uint32_t max)
{
    for (uint32_t i = 0; i < w->node_count; i++) {
        const inlay_node_info *n = &w->nodes[i]->info;

        (void)printf("%s '%s'\n", n->op_type.data, n->name.data);
        print_values(w, "reads", n->inputs, n->input_count, session, context, max);
        print_values(w, "makes", n->outputs, n->output_count, session, context, max);
    }
}

static json_t *values_json(const struct watched *w, const uint32_t *values, uint32_t count,
                           const inlay_session *session, inlay_context *context, uint32_t max)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < count; i++) {
        const inlay_value_info *info = values[i] != INLAY_NONE ? &w->model->main->values[values[i]].info : NULL;
        const inlay_value *value = info != NULL ? value_of(session, context, info->name.data) : NULL;

        if (value != NULL)
            (void)json_array_append_new(list, value_json(info->name.data, value, max));
    }
    return list;
}

json_t *watched_json(const struct watched *w, const inlay_session *session, inlay_context *context, uint32_t max)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < w->node_count; i++) {
        const inlay_node_info *n = &w->nodes[i]->info;

        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:o, s:o}", "node", n->name.data, "op", n->op_type.data, "inputs",
                            values_json(w, n->inputs, n->input_count, session, context, max), "outputs",
                            values_json(w, n->outputs, n->output_count, session, context, max)));
    }
    return list;
}
