#include "cli/watched.h"
#include "base/nearest.h"
#include "cli/load_model.h"
#include "config/options.h"
#include "data/value.h"
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>

error_t watched_add(const cli_option *option, void *field, char *pattern, struct argp_state *state)
{
    struct watched *watched = field;

    (void)option;
    if (!LIST_GROW(watched->patterns, watched->count))
        return ENOMEM;
    if (pattern[0] == '\0')
        cli_refuse(state, CLI_USAGE, "--watch: expected the name of a node, or op:OPERATOR");
    watched->patterns[watched->count++] = pattern;
    return 0;
}

void watched_deinit(struct watched *watched)
{
    free(watched->patterns);
    free((void *)watched->nodes);
    graph_model_destroy(watched->model);
    *watched = (struct watched){ 0 };
}

static const char *nth_name(const void *ctx, uint32_t i)
{
    return ((const struct graph *)ctx)->nodes[i]->info.name.data;
}

/* Adds a value that a node produces to the outputs. */
static inlay_status tap(const struct graph *graph, uint32_t value, cli_common *common, inlay_diag *diag)
{
    if (value == INLAY_NONE || graph->values[value].info.producer == INLAY_NONE)
        return INLAY_OK;
    return options_set_item(common->options, "tap", graph->values[value].info.name.data, diag);
}

inlay_status watched_tap(struct watched *watched, cli_common *common, const char *path, inlay_diag *diag)
{
    const struct graph *graph;
    inlay_status status;

    INLAY_TRY(cli_load_model(common, path, NULL, &watched->model, diag));
    graph = watched->model->main;
    watched->own_outputs = graph->output_count;
    watched->nodes = calloc((size_t)graph->node_count + 1, sizeof(graph_node *));
    if (watched->nodes == NULL)
        return no_memory(diag, "for the nodes");
    for (uint32_t pattern = 0; pattern < watched->count; pattern++) {
        char hint[NEAREST_HINT_BYTES];
        bool found = false;

        for (uint32_t i = 0; i < graph->node_count; i++)
            found = found || graph_node_matches(watched->patterns[pattern], &graph->nodes[i]->info);
        if (found)
            continue;
        nearest_hint(hint, "; inlay inspect --nodes lists them", watched->patterns[pattern], nth_name, graph,
                     graph->node_count);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--watch: no node of the main graph matches '%.150s'%s",
                          watched->patterns[pattern], hint);
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        bool any = false;

        for (uint32_t pattern = 0; pattern < watched->count; pattern++)
            any = any || graph_node_matches(watched->patterns[pattern], &node->info);
        if (!any)
            continue;
        watched->nodes[watched->node_count++] = node;
        for (uint32_t k = 0; k < node->info.input_count; k++)
            INLAY_TRY(tap(graph, node->info.inputs[k], common, diag));
        for (uint32_t k = 0; k < node->info.output_count; k++)
            INLAY_TRY(tap(graph, node->info.outputs[k], common, diag));
    }
done:
    return status;
}

/* The value of the last run; NULL for an input, a constant, or a value that is not a tensor. */
static const inlay_value *value_of(const inlay_session *session, inlay_context *context, const char *name)
{
    const uint32_t at = inlay_session_find_output(session, name);

    return at != INLAY_NONE ? inlay_context_output(context, at) : NULL;
}

static void print_values(const struct watched *watched, const char *what, const uint32_t *values, uint32_t count,
                         const inlay_session *session, inlay_context *context, uint32_t max)
{
    for (uint32_t i = 0; i < count; i++) {
        const inlay_value_info *info = values[i] != INLAY_NONE ? &watched->model->main->values[values[i]].info : NULL;
        const inlay_value *value = info != NULL ? value_of(session, context, info->name.data) : NULL;

        if (value == NULL)
            continue;
        (void)printf("  %s ", what);
        (void)value_print(stdout, info->name.data, value, max);
    }
}

void watched_print(const struct watched *watched, const inlay_session *session, inlay_context *context, uint32_t max)
{
    for (uint32_t i = 0; i < watched->node_count; i++) {
        const inlay_node_info *node = &watched->nodes[i]->info;

        (void)printf("%s '%s'\n", node->op_type.data, node->name.data);
        print_values(watched, "input ", node->inputs, node->input_count, session, context, max);
        print_values(watched, "output", node->outputs, node->output_count, session, context, max);
    }
}

static json_t *values_json(const struct watched *watched, const uint32_t *values, uint32_t count,
                           const inlay_session *session, inlay_context *context, uint32_t max)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < count; i++) {
        const inlay_value_info *info = values[i] != INLAY_NONE ? &watched->model->main->values[values[i]].info : NULL;
        const inlay_value *value = info != NULL ? value_of(session, context, info->name.data) : NULL;

        if (value != NULL)
            (void)json_array_append_new(list, value_json(info->name.data, value, max));
    }
    return list;
}

json_t *watched_json(const struct watched *watched, const inlay_session *session, inlay_context *context, uint32_t max)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < watched->node_count; i++) {
        const inlay_node_info *node = &watched->nodes[i]->info;

        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:o, s:o}", "node", node->name.data, "op", node->op_type.data, "inputs",
                            values_json(watched, node->inputs, node->input_count, session, context, max), "outputs",
                            values_json(watched, node->outputs, node->output_count, session, context, max)));
    }
    return list;
}
