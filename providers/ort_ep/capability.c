/* What a library supports: the groups of nodes that it names become offers. */
#include "ort_ep/provider.h"
#include <stdio.h>
#include <stdlib.h>

int ep_compare_indices(const void *one, const void *other)
{
    const uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

    return (a > b) - (a < b);
}

static OrtStatus *add_group(OrtEpGraphSupportInfo *support, const OrtNode *const *nodes, size_t count, bool is_fused,
                            bool drops_constants)
{
    ep_group group = { .node_count = count, .is_fused = is_fused, .drops_constants = drops_constants };

    group.nodes = calloc(count + 1, sizeof *group.nodes);
    if (group.nodes == NULL || !ORT_GROW(support->groups, support->group_count)) {
        free(group.nodes);
        return ort_no_memory();
    }
    for (size_t i = 0; i < count; i++)
        group.nodes[i] = (uint32_t)nodes[i]->id;
    qsort(group.nodes, count, sizeof *group.nodes, ep_compare_indices);
    support->groups[support->group_count++] = group;
    return NULL;
}

OrtStatus *ort_EpGraphSupportInfo_AddNodesToFuse(OrtEpGraphSupportInfo *graph_support_info, const OrtNode *const *nodes,
                                                 size_t num_nodes, const OrtNodeFusionOptions *node_fusion_options)
{
    ORT_NEED(graph_support_info);
    ORT_NEED(nodes);
    if (num_nodes == 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "no nodes to fuse");
    return add_group(graph_support_info, nodes, num_nodes, true,
                     node_fusion_options != NULL && node_fusion_options->drop_constant_initializers);
}

OrtStatus *ort_EpGraphSupportInfo_AddSingleNode(OrtEpGraphSupportInfo *graph_support_info, const OrtNode *node)
{
    ORT_NEED(graph_support_info);
    ORT_NEED(node);
    return add_group(graph_support_info, &node, 1, false, false);
}

OrtStatus *ort_EpGraphSupportInfo_LookUpKernel(OrtEpGraphSupportInfo *graph_support_info, const OrtNode *node,
                                               const OrtKernelDef **out_kernel_def)
{
    ORT_NEED(graph_support_info);
    ORT_NEED(node);
    ORT_NEED(out_kernel_def);
    *out_kernel_def = ep_kernel_find(graph_support_info->registry, graph_support_info->ep_name, node);
    return NULL;
}

OrtStatus *ep_support_ask(OrtEp *ep, const OrtGraph *view, OrtEpGraphSupportInfo *out)
{
    *out = (OrtEpGraphSupportInfo){ .ep_name = ep->GetName(ep) };
    if (EP_SINCE(ep, 24) && ep->GetKernelRegistry != NULL)
        ORT_TRY(ep->GetKernelRegistry(ep, &out->registry));
    if (ep->GetCapability == NULL)
        return ort_fail(ORT_NOT_IMPLEMENTED, "it has no GetCapability");
    return ep->GetCapability(ep, view, out);
}

void ep_support_deinit(OrtEpGraphSupportInfo *support)
{
    for (size_t i = 0; i < support->group_count; i++)
        free(support->groups[i].nodes);
    free(support->groups);
    *support = (OrtEpGraphSupportInfo){ 0 };
}

struct assessment {
    const ep_state *state;
    const inlay_assess_request *request;
    bool *answered; /* [node_count] a candidate that is in an offer, or was refused */
};

static inlay_status refuse(struct assessment *job, uint32_t node, uint32_t code, const char *text)
{
    const inlay_refusal refusal = { .struct_size = sizeof refusal, .node = node, .code = code, .text = text };

    if (job->request->candidates[node] == 0 || job->answered[node])
        return INLAY_OK;
    job->answered[node] = true;
    return job->request->sink->refuse(job->request->sink->ctx, &refusal);
}

static bool has_strings(const inlay_graph *graph, const uint32_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (values[i] != INLAY_NONE && inlay_graph_value(graph, values[i])->dtype == INLAY_STRING)
            return true;
    return false;
}

/* Why a group cannot be an offer, in text; false: it can be one. */
static bool is_excluded(const struct assessment *job, const OrtEpGraphSupportInfo *support, const OrtGraph *view,
                        const ep_group *group, uint32_t *code, char text[300])
{
    for (size_t i = 0; i < group->node_count; i++) {
        const inlay_node_info *node = inlay_graph_node(job->request->graph, group->nodes[i]);

        *code = INLAY_REFUSE_OPERATOR;
        if (job->request->candidates[group->nodes[i]] == 0) {
            (void)snprintf(text, 300, "%.60s fuses the node with %.100s (%.60s), which is not available to it",
                           job->state->name, node->name.data, node->op_type.data);
            return true;
        }
        if (!group->is_fused &&
            ep_kernel_find(support->registry, support->ep_name, &view->nodes[group->nodes[i]]) == NULL &&
            ep_operator_find(job->state, node) == NULL) {
            (void)snprintf(text, 300, "%.60s claims the node, but has registered no kernel for it", job->state->name);
            return true;
        }
        *code = INLAY_REFUSE_DTYPE;
        if (has_strings(job->request->graph, node->inputs, node->input_count) ||
            has_strings(job->request->graph, node->outputs, node->output_count)) {
            (void)snprintf(text, 300, "tensors of strings are not passed to %.60s", job->state->name);
            return true;
        }
    }
    return false;
}

/* Whether the size of a value is known before a run computes it. */
static bool is_sized(const inlay_value_info *value)
{
    bool sized = value->rank != INLAY_RANK_UNKNOWN;

    for (uint32_t d = 0; sized && d < value->rank; d++)
        sized = value->dims[d].kind != INLAY_DIM_UNKNOWN;
    return sized;
}

/* Where the nodes of a group read and write their values, if the library has memory of its own. */
typedef struct group_places {
    inlay_placement *list; /* [count] in the memory of the device; other values are in host memory */
    uint32_t count;
} group_places;

static void place(const struct assessment *job, group_places *places, uint32_t value)
{
    if (value != INLAY_NONE)
        places->list[places->count++] = (inlay_placement){ .value = value, .domain = job->state->domain };
}

/* Whether a kernel reads a value in host memory. */
static bool is_read_on_host(const OrtKernelDef *def, const OrtCustomOp *op, const inlay_node_info *node, uint32_t value)
{
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i] == value && ep_is_on_host(def, op, i, false))
            return true;
    return false;
}

/* False: no memory. Values that a kernel has in host memory, and outputs of unknown sizes, stay there. */
static bool place_values(const struct assessment *job, const OrtEpGraphSupportInfo *support, const OrtGraph *view,
                         const ep_group *group, group_places *out)
{
    size_t most = 0;

    *out = (group_places){ .list = NULL };
    if (!ep_memory_is_domain(job->state))
        return true;
    for (size_t i = 0; i < group->node_count; i++) {
        const inlay_node_info *node = view->nodes[group->nodes[i]].info;

        most += (size_t)node->input_count + node->output_count;
    }
    out->list = calloc(most + 1, sizeof *out->list);
    if (out->list == NULL)
        return false;
    for (size_t i = 0; i < group->node_count; i++) {
        const OrtNode *node = &view->nodes[group->nodes[i]];
        const OrtKernelDef *def = group->is_fused ? NULL : ep_kernel_find(support->registry, support->ep_name, node);
        const OrtCustomOp *op = group->is_fused || def != NULL ? NULL : ep_operator_find(job->state, node->info);

        for (uint32_t k = 0; k < node->info->input_count; k++)
            if (!is_read_on_host(def, op, node->info, node->info->inputs[k]))
                place(job, out, node->info->inputs[k]);
        for (uint32_t k = 0; k < node->info->output_count; k++)
            if (node->info->outputs[k] != INLAY_NONE && !ep_is_on_host(def, op, k, true) &&
                is_sized(inlay_graph_value(job->request->graph, node->info->outputs[k])))
                place(job, out, node->info->outputs[k]);
    }
    return true;
}

static inlay_status offer_group(struct assessment *job, const OrtEpGraphSupportInfo *support, const OrtGraph *view,
                                const ep_group *group)
{
    inlay_offer offer = { .struct_size = sizeof offer,
                          .nodes = group->nodes,
                          .node_count = (uint32_t)group->node_count,
                          .placement_stride = sizeof(inlay_placement) };
    inlay_status status = INLAY_OK;
    group_places places;
    uint32_t code;
    char text[300];

    if (is_excluded(job, support, view, group, &code, text)) {
        for (size_t i = 0; status == INLAY_OK && i < group->node_count; i++)
            status = refuse(job, group->nodes[i], code, text);
        return status;
    }
    if (!place_values(job, support, view, group, &places))
        return INLAY_OUT_OF_MEMORY;
    for (size_t i = 0; i < group->node_count; i++)
        job->answered[group->nodes[i]] = true;
    offer.placements = places.list;
    offer.placement_count = places.count;
    status = job->request->sink->offer(job->request->sink->ctx, &offer);
    free(places.list);
    return status;
}

static inlay_status refuse_rest(struct assessment *job, const char *text)
{
    inlay_status status = INLAY_OK;

    for (uint32_t node = 0; status == INLAY_OK && node < job->request->graph->node_count; node++)
        status = refuse(job, node, INLAY_REFUSE_OPERATOR, text);
    return status;
}

/* Asks the library; the caller holds the lock. A failure of the library is a refusal of all nodes. */
static inlay_status ask(ep_state *state, struct assessment *job)
{
    OrtEpGraphSupportInfo support = { 0 };
    inlay_status status = INLAY_OK;
    OrtGraph *view = NULL;
    char text[400];
    OrtStatus *failed = ep_graph_create(job->request->graph, NULL, 0, state->host, NULL, &view);

    if (failed == NULL && state->assessing == NULL)
        failed = ep_create(state, false, &state->assessing);
    if (failed == NULL)
        failed = ep_support_ask(state->assessing, view, &support);
    for (size_t i = 0; failed == NULL && status == INLAY_OK && i < support.group_count; i++)
        status = offer_group(job, &support, view, &support.groups[i]);
    if (failed != NULL)
        (void)snprintf(text, sizeof text, "%.60s: %.300s", state->name, failed->text);
    else
        (void)snprintf(text, sizeof text, "%.60s does not claim the node", state->name);
    ort_ReleaseStatus(failed);
    ep_support_deinit(&support);
    ort_ReleaseGraph(view);
    return status == INLAY_OK ? refuse_rest(job, text) : status;
}

inlay_status ep_assess(void *state_, const inlay_assess_request *request, inlay_diag *diag)
{
    ep_state *state = state_;
    struct assessment job = { .state = state, .request = request };
    const ep_state *before;
    inlay_status status;

    job.answered = calloc((size_t)request->graph->node_count + 1, sizeof *job.answered);
    if (job.answered == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to assess a graph");
    (void)pthread_mutex_lock(&state->lock);
    before = ep_enter(state);
    status = ask(state, &job);
    (void)ep_enter(before);
    (void)pthread_mutex_unlock(&state->lock);
    free(job.answered);
    return status;
}
