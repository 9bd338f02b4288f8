/* Which nodes inlay runs. The whole graph is compiled at once; if inlay does not support it, each node is compiled as
 * a separate model, and those that are supported form as few groups as possible, because the runtime's work grows with
 * the groups times the nodes of the graph. No list of operators is kept here. */
#include "ort_ep.h"
#include <stdlib.h>
#include <string.h>

/* Answers for models of one node, by their text: models repeat their layers. */
struct answer {
    ort_writer text;
    bool supported;
};

/* A node, and whether inlay supports it. */
struct candidate {
    bool supported;
    bool computes_indices; /* its outputs are indices, sizes or masks */
    size_t stage;          /* changes between supported and other nodes on the longest path to it */
    size_t first_edge;     /* its producers are edges[first_edge] up to those of the next node */
};

struct search {
    struct ep *self;
    const OrtGraph *graph;
    ep_nodes nodes;
    struct candidate *candidates; /* [nodes.count + 1] */
    size_t *edges;                /* [edge_count] indexes of nodes */
    size_t edge_count;
    struct answer *answers; /* [answer_count] */
    size_t answer_count;
};

/* Strings, sequences and maps are left to the runtime: a group could begin or end at them. */
static OrtStatus *has_tensors(const ep_runtime *runtime, const ep_values *values, bool *out)
{
    for (size_t i = 0; *out && i < values->count; i++) {
        inlay_dtype dtype;

        if (values->items[i] == NULL)
            continue;
        ORT_TRY(ep_value_dtype(runtime, values->items[i], &dtype));
        *out = dtype != INLAY_UNDEFINED && dtype != INLAY_STRING;
    }
    return NULL;
}

/* Indices, sizes of tensors and masks are 64-bit integers and booleans. */
static OrtStatus *are_indices(const ep_runtime *runtime, const ep_values *values, bool *out)
{
    *out = true;
    for (size_t i = 0; *out && i < values->count; i++) {
        inlay_dtype dtype;

        if (values->items[i] == NULL)
            continue;
        ORT_TRY(ep_value_dtype(runtime, values->items[i], &dtype));
        *out = dtype == INLAY_INT64 || dtype == INLAY_BOOL;
    }
    return NULL;
}

static OrtStatus *add_answer(struct search *from, ep_model *model, bool supported)
{
    struct answer *more = realloc(from->answers, (from->answer_count + 1) * sizeof *more);

    if (more == NULL)
        return ep_no_memory(&from->self->runtime);
    from->answers = more;
    from->answers[from->answer_count++] = (struct answer){ .text = model->text, .supported = supported };
    model->text = (ort_writer){ 0 };
    return NULL;
}

static OrtStatus *ask_model(struct search *from, ep_model *model, bool *out)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    for (size_t i = 0; i < from->answer_count; i++)
        if (from->answers[i].text.count == model->text.count &&
            memcmp(from->answers[i].text.data, model->text.data, model->text.count) == 0) {
            *out = from->answers[i].supported;
            return NULL;
        }
    status = inlay_session_create_from_bytes(model->file.data, model->file.count, from->self->options, &model->session,
                                             &diag);
    *out = status == INLAY_OK;
    if (status != INLAY_OK)
        ep_log(from->self, ORT_LOGGING_LEVEL_INFO, diag.text);
    if (status == INLAY_OUT_OF_MEMORY || status == INLAY_INVALID_ARGUMENT)
        return ep_from(&from->self->runtime, status, &diag);
    return add_answer(from, model, *out);
}

static OrtStatus *ask_node(struct search *from, const OrtNode *node, const ep_values *inputs, const ep_values *outputs,
                           bool *out)
{
    const ep_group group = { .graph = from->graph,
                             .nodes = &node,
                             .count = 1,
                             .outputs = outputs->items,
                             .output_count = outputs->count,
                             .probe = true };
    ep_model *model;
    OrtStatus *failed;
    bool bindable;

    *out = true;
    ORT_TRY(has_tensors(&from->self->runtime, inputs, out));
    ORT_TRY(has_tensors(&from->self->runtime, outputs, out));
    if (!*out)
        return NULL;
    model = malloc(sizeof *model);
    if (model == NULL)
        return ep_no_memory(&from->self->runtime);
    failed = ep_model_write(&from->self->runtime, &group, model, &bindable);
    *out = bindable;
    if (failed == NULL && bindable)
        failed = ask_model(from, model, out);
    ep_model_destroy(model);
    return failed;
}

/* Records which nodes compute the values. producers: the index of the node that computes a value of names. */
static OrtStatus *connect(struct search *from, const ep_values *values, const ep_names *names, const size_t *producers)
{
    size_t *more = realloc(from->edges, (from->edge_count + values->count + 1) * sizeof *more);

    if (more == NULL)
        return ep_no_memory(&from->self->runtime);
    from->edges = more;
    for (size_t i = 0; i < values->count; i++) {
        const ep_name *item;
        const char *name;

        if (values->items[i] == NULL)
            continue;
        ORT_TRY(from->self->runtime.api->GetValueInfoName(values->items[i], &name));
        item = ep_names_find(names, name);
        if (item != NULL)
            from->edges[from->edge_count++] = producers[item - names->items];
    }
    return NULL;
}

/* Supported nodes of one stage form a group: a path that leaves a group has a higher stage at the next supported node,
 * so it never returns. */
static void set_stages(struct search *from)
{
    for (size_t i = 0; i < from->nodes.count; i++) {
        struct candidate *own = &from->candidates[i];

        own->stage = 0;
        for (size_t edge = own->first_edge; edge < own[1].first_edge; edge++) {
            const struct candidate *before = &from->candidates[from->edges[edge]];
            const size_t stage = before->stage + (before->supported != own->supported);

            own->stage = stage > own->stage ? stage : own->stage;
        }
    }
}

/* Leaves groups that only compute indices to the runtime: their arithmetic takes less time than the change between the
 * libraries. *changed: there was one. */
static OrtStatus *leave_indices(struct search *from, bool *changed)
{
    const size_t count = from->nodes.count;
    bool *useful = calloc(count + 1, sizeof *useful); /* by stage, which is less than the number of nodes */

    *changed = false;
    if (useful == NULL)
        return ep_no_memory(&from->self->runtime);
    for (size_t i = 0; i < count; i++)
        useful[from->candidates[i].stage] |= from->candidates[i].supported && !from->candidates[i].computes_indices;
    for (size_t i = 0; i < count; i++)
        if (from->candidates[i].supported && !useful[from->candidates[i].stage]) {
            from->candidates[i].supported = false;
            *changed = true;
        }
    free(useful);
    return NULL;
}

/* Records the node's outputs. */
static OrtStatus *produce(struct search *from, size_t index, const ep_values *outputs, ep_names *names,
                          size_t **producers)
{
    for (size_t i = 0; i < outputs->count; i++) {
        const char *name;
        size_t *more;
        ep_name *item;

        if (outputs->items[i] == NULL)
            continue;
        ORT_TRY(from->self->runtime.api->GetValueInfoName(outputs->items[i], &name));
        item = ep_names_add(names, name, outputs->items[i]);
        more = item != NULL ? realloc(*producers, names->count * sizeof *more) : NULL;
        if (more == NULL)
            return ep_no_memory(&from->self->runtime);
        *producers = more;
        more[item - names->items] = index;
    }
    return NULL;
}

static OrtStatus *look_at(struct search *from, size_t index, ep_names *names, size_t **producers)
{
    const ep_runtime *runtime = &from->self->runtime;
    const OrtNode *node = from->nodes.items[index];
    ep_values inputs = { 0 }, implicit = { 0 }, outputs = { 0 };
    const char *taken = NULL;
    OrtStatus *failed = ep_node_inputs(runtime, node, &inputs);

    if (failed == NULL)
        failed = ep_node_implicit_inputs(runtime, node, &implicit);
    if (failed == NULL)
        failed = ep_node_outputs(runtime, node, &outputs);
    if (failed == NULL)
        failed = runtime->api->Node_GetEpName(node, &taken);
    if (failed == NULL && (taken == NULL || taken[0] == '\0'))
        failed = ask_node(from, node, &inputs, &outputs, &from->candidates[index].supported);
    if (failed == NULL)
        failed = are_indices(runtime, &outputs, &from->candidates[index].computes_indices);
    if (failed == NULL)
        failed = connect(from, &inputs, names, *producers);
    if (failed == NULL)
        failed = connect(from, &implicit, names, *producers);
    from->candidates[index + 1].first_edge = from->edge_count;
    if (failed == NULL)
        failed = produce(from, index, &outputs, names, producers);
    free(inputs.items);
    free(implicit.items);
    free(outputs.items);
    return failed;
}

/* has_constants: the models of the nodes contain the constants that they read. */
static OrtStatus *offer(const struct ep *self, OrtEpGraphSupportInfo *support, const OrtNode *const *nodes,
                        size_t count, bool has_constants)
{
    const OrtNodeFusionOptions fusion = { .ort_version_supported = EP_API_VERSION,
                                          .drop_constant_initializers = has_constants };

    return self->runtime.ep_api->EpGraphSupportInfo_AddNodesToFuse(support, nodes, count, &fusion);
}

static OrtStatus *offer_groups(struct search *from, OrtEpGraphSupportInfo *support)
{
    const OrtNode **group = calloc(from->nodes.count + 1, sizeof *group);
    OrtStatus *failed = group == NULL ? ep_no_memory(&from->self->runtime) : NULL;

    for (size_t first = 0; failed == NULL && first < from->nodes.count; first++) {
        const size_t stage = from->candidates[first].stage;
        size_t count = 0;

        if (!from->candidates[first].supported)
            continue;
        for (size_t i = first; i < from->nodes.count; i++)
            if (from->candidates[i].supported && from->candidates[i].stage == stage) {
                from->candidates[i].supported = false; /* offered */
                group[count++] = from->nodes.items[i];
            }
        failed = offer(from->self, support, group, count, true);
    }
    free(group);
    return failed;
}

static OrtStatus *offer_parts(struct search *from, OrtEpGraphSupportInfo *support)
{
    ep_names names = { 0 };
    size_t *producers = NULL;
    OrtStatus *failed = NULL;

    from->candidates = calloc(from->nodes.count + 1, sizeof *from->candidates);
    if (from->candidates == NULL)
        return ep_no_memory(&from->self->runtime);
    for (size_t i = 0; failed == NULL && i < from->nodes.count; i++)
        failed = look_at(from, i, &names, &producers);
    for (bool changed = true; failed == NULL && changed;) {
        set_stages(from);
        failed = leave_indices(from, &changed);
    }
    if (failed == NULL)
        failed = offer_groups(from, support);
    for (size_t i = 0; i < from->answer_count; i++)
        free(from->answers[i].text.data);
    free(from->answers);
    free(from->candidates);
    free(from->edges);
    free(producers);
    ep_names_deinit(&names);
    return failed;
}

/* Offers each EPContext node of this provider alone. *out_found: there is one. */
static OrtStatus *offer_contexts(const struct search *from, OrtEpGraphSupportInfo *support, bool *out_found)
{
    *out_found = false;
    for (size_t i = 0; i < from->nodes.count; i++) {
        bool is_own;

        ORT_TRY(ep_context_is_own(&from->self->runtime, from->nodes.items[i], &is_own));
        if (is_own)
            ORT_TRY(offer(from->self, support, &from->nodes.items[i], 1, false));
        *out_found = *out_found || is_own;
    }
    return NULL;
}

/* No node belongs to another provider. */
static OrtStatus *all_free(const struct search *from, bool *out)
{
    *out = true;
    for (size_t i = 0; *out && i < from->nodes.count; i++) {
        const char *taken = NULL;

        ORT_TRY(from->self->runtime.api->Node_GetEpName(from->nodes.items[i], &taken));
        *out = taken == NULL || taken[0] == '\0';
    }
    return NULL;
}

/* Compiles the whole graph: the fused node gets this session, so that nothing is compiled twice. */
static OrtStatus *take_whole(struct search *from)
{
    struct ep *self = from->self;
    inlay_diag diag = INLAY_DIAG_INIT;
    ep_values outputs;
    OrtStatus *failed;
    bool is_free;

    ep_model_destroy(self->whole);
    self->whole = NULL;
    ORT_TRY(all_free(from, &is_free));
    if (!is_free)
        return NULL;
    failed = ep_graph_outputs(&self->runtime, from->graph, &outputs);
    if (failed == NULL) {
        const ep_group group = { .graph = from->graph,
                                 .nodes = from->nodes.items,
                                 .count = from->nodes.count,
                                 .outputs = outputs.items,
                                 .output_count = outputs.count };

        failed = ep_model_create(self, &group, &self->whole, &diag);
    }
    free(outputs.items);
    if (failed == NULL && self->whole == NULL)
        ep_log(self, ORT_LOGGING_LEVEL_INFO, diag.text);
    return failed;
}

OrtStatus *ep_get_capability(OrtEp *base, const OrtGraph *graph, OrtEpGraphSupportInfo *support)
{
    struct search from = { .self = (struct ep *)(void *)base, .graph = graph };
    const ep_runtime *runtime = &from.self->runtime;
    const OrtNode *parent = NULL;
    bool has_contexts = false;
    OrtStatus *failed;

    ORT_TRY(runtime->api->Graph_GetParentNode(graph, &parent));
    if (parent != NULL) /* the body of a control-flow node, which is taken with its node */
        return NULL;
    failed = ep_graph_nodes(runtime, graph, &from.nodes);
    if (failed == NULL)
        failed = offer_contexts(&from, support, &has_contexts);
    if (failed == NULL && from.nodes.count > 0 && !has_contexts)
        failed = take_whole(&from);
    if (failed == NULL && from.self->whole != NULL)
        failed = offer(from.self, support, from.nodes.items, from.nodes.count, true);
    else if (failed == NULL && from.nodes.count > 0)
        failed = offer_parts(&from, support);
    free(from.nodes.items);
    return failed;
}
