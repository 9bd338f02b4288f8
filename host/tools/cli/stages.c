#include "cli/stages.h"
#include "base/names.h"
#include "cli/measured.h"
#include "session/session.h"
#include "model/model.h"
#include "inlay/check.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* State of stages_find(). */
struct finder {
    const json_t *main; /* main graph of the explanation */
    graph_model *raw;   /* the model as loaded, whose nodes are distributed */
    names_table at;     /* name of a node -> its stage in the assignment */
    uint32_t *stage_of; /* [node_count] stage of each node of raw */
    inlay_diag *diag;
};

/* Creates the stages and maps names of nodes to them. The names are owned by the JSON. */
static inlay_status read_stretches(struct finder *finder, struct stages *out)
{
    const json_t *regions = json_object_get(finder->main, "regions"), *nodes = json_object_get(finder->main, "nodes");
    const json_t *list = json_object_get(finder->main, "stretches"), *stretch, *index;
    size_t k, i;

    out->list = calloc(json_array_size(list) + 1, sizeof *out->list);
    if (out->list == NULL)
        return no_memory(finder->diag, "for the stages");
    json_array_foreach(list, k, stretch) {
        const size_t first = (size_t)json_integer_value(json_object_get(stretch, "first_region"));
        const size_t count = (size_t)json_integer_value(json_object_get(stretch, "regions"));

        out->list[out->count].provider = strdup(json_string_value(json_object_get(stretch, "provider")));
        if (out->list[out->count++].provider == NULL)
            return no_memory(finder->diag, "for the stages");
        for (size_t region = first; region < first + count; region++)
            json_array_foreach(json_object_get(json_array_get(regions, region), "nodes"), i, index) {
                const char *name = json_string_value(
                    json_object_get(json_array_get(nodes, (size_t)json_integer_value(index)), "name"));

                if (!names_add(&finder->at, name, strlen(name), (uint32_t)k, NULL))
                    return no_memory(finder->diag, "for the stages");
            }
    }
    return INLAY_OK;
}

/* Assigns every node to a stage. A node without a provider, such as Constant, belongs to the first stage that reads its
 * output. Nodes are in topological order, so a reverse loop sees consumers first. */
static inlay_status place_nodes(struct finder *finder, const struct stages *all)
{
    const struct graph *graph = finder->raw->main;
    uint32_t *first = malloc(((size_t)graph->value_count + 1) * sizeof *first);

    finder->stage_of = malloc(((size_t)graph->node_count + 1) * sizeof *finder->stage_of);
    if (first == NULL || finder->stage_of == NULL) {
        free(first);
        return no_memory(finder->diag, "for the stages");
    }
    memset(first, 0xff, graph->value_count * sizeof *first);
    for (uint32_t i = graph->node_count; i-- > 0;) {
        const inlay_node_info *node = &graph->nodes[i]->info;
        uint32_t own = names_find(&finder->at, node->name.data, node->name.bytes);

        for (uint32_t k = 0; own == NAMES_NONE && k < node->output_count; k++)
            own = node->outputs[k] != INLAY_NONE && first[node->outputs[k]] < own ? first[node->outputs[k]] : own;
        finder->stage_of[i] = own == NAMES_NONE ? all->count - 1 : own;
        for (uint32_t k = 0; k < node->input_count + graph->nodes[i]->capture_count; k++) {
            const uint32_t value =
                k < node->input_count ? node->inputs[k] : graph->nodes[i]->captures[k - node->input_count];

            if (value != INLAY_NONE && finder->stage_of[i] < first[value])
                first[value] = finder->stage_of[i];
        }
    }
    free(first);
    return INLAY_OK;
}

static inlay_status list_nodes(struct finder *finder, struct stages *out)
{
    const struct graph *graph = finder->raw->main;

    for (uint32_t i = 0; i < out->count; i++) {
        out->list[i].nodes = calloc((size_t)graph->node_count + 1, sizeof(char *));
        if (out->list[i].nodes == NULL)
            return no_memory(finder->diag, "for the stages");
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        struct stage *stage = &out->list[finder->stage_of[i]];

        INLAY_CHECK(finder->stage_of[i] < out->count);

        stage->nodes[stage->count] = strdup(graph->nodes[i]->info.name.data);
        if (stage->nodes[stage->count++] == NULL)
            return no_memory(finder->diag, "for the stages");
    }
    return INLAY_OK;
}

inlay_status stages_find(cli_common *common, const char *path, struct stages *out, inlay_diag *diag)
{
    const model_load_options load = session_load_options(common->options);
    struct finder finder = { .diag = diag };
    inlay_session *session = NULL;
    json_t *explanation = NULL;
    inlay_status status;

    *out = (struct stages){ 0 };
    INLAY_TRY(inlay_options_set(common->options, "level", "0", diag)); /* keeps the nodes of the file */
    INLAY_TRY(cli_open(common, path, &session, diag));
    INLAY_TRY(measured_explain(session, NULL, &explanation, diag));
    finder.main = json_object_get(explanation, "main");
    INLAY_TRY(model_load_path(path, &load, &finder.raw, diag));
    INLAY_TRY(read_stretches(&finder, out));
    if (out->count == 0) {
        status =
            inlay_fail(diag, INLAY_INVALID_ARGUMENT, "no provider runs a node of this model, so there are no stages");
        goto done;
    }
    INLAY_TRY(place_nodes(&finder, out));
    INLAY_TRY(list_nodes(&finder, out));
done:
    free(finder.stage_of);
    names_deinit(&finder.at);
    graph_model_destroy(finder.raw);
    json_decref(explanation);
    inlay_session_destroy(session);
    if (status != INLAY_OK)
        stages_deinit(out);
    return status;
}

void stages_deinit(struct stages *stages)
{
    for (uint32_t i = 0; i < stages->count; i++) {
        stages_free_names((char **)(uintptr_t)stages->list[i].nodes, stages->list[i].count);
        free(stages->list[i].provider);
    }
    free(stages->list);
    *stages = (struct stages){ 0 };
}

void stages_free_names(char **names, uint32_t count)
{
    for (uint32_t i = 0; names != NULL && i < count; i++)
        free(names[i]);
    free((void *)names);
}

/* A value at which a part can begin or end: a computed value or an input, not a constant. */
static bool is_edge(const struct graph *graph, uint32_t value)
{
    return (graph->values[value].info.flags & INLAY_VALUE_CONSTANT) == 0 && graph->values[value].default_value == NULL;
}

static inlay_status expand_one(const struct graph *graph, const char *name, const char *what, char **list,
                               uint32_t *count, inlay_diag *diag)
{
    const bool is_glob = strpbrk(name, "*?") != NULL && graph_find_value(graph, name) == INLAY_NONE;
    bool found = !is_glob;

    for (uint32_t value = 0; is_glob && value < graph->value_count; value++) {
        const bool fits = is_edge(graph, value) && fnmatch(name, graph->values[value].info.name.data, 0) == 0;
        bool seen = !fits;

        found |= fits;
        for (uint32_t i = 0; !seen && i < *count; i++)
            seen = strcmp(list[i], graph->values[value].info.name.data) == 0;
        if (!seen && (list[(*count)++] = strdup(graph->values[value].info.name.data)) == NULL)
            return no_memory(diag, "for the stages");
    }
    if (!is_glob && (list[(*count)++] = strdup(name)) == NULL)
        return no_memory(diag, "for the stages");
    return found ? INLAY_OK
                 : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: no value of the main graph matches '%.200s'", what,
                              name);
}

inlay_status stages_expand(const cli_common *common, const char *path, const char *const *names, uint32_t count,
                           const char *what, char ***out_names, uint32_t *out_count, inlay_diag *diag)
{
    const model_load_options load = session_load_options(common->options);
    graph_model *model = NULL;
    inlay_status status;

    *out_names = NULL;
    *out_count = 0;
    INLAY_TRY(model_load_path(path, &load, &model, diag));
    *out_names = calloc((size_t)model->main->value_count + count + 1, sizeof(char *));
    if (*out_names == NULL) {
        status = no_memory(diag, "for the stages");
        goto done;
    }
    for (uint32_t i = 0; i < count; i++)
        INLAY_TRY(expand_one(model->main, names[i], what, *out_names, out_count, diag));
done:
    graph_model_destroy(model);
    if (status != INLAY_OK) {
        stages_free_names(*out_names, *out_count);
        *out_names = NULL;
        *out_count = 0;
    }
    return status;
}
