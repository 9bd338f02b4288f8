/* What a library supports: the groups of nodes that it names become offers. */
#include "ort_ep/provider.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_indices(const void *one, const void *other)
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
    qsort(group.nodes, count, sizeof *group.nodes, compare_indices);
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

static inlay_status offer_group(struct assessment *job, const OrtEpGraphSupportInfo *support, const OrtGraph *view,
                                const ep_group *group)
{
    const inlay_offer offer = { .struct_size = sizeof offer,
                                .nodes = group->nodes,
                                .node_count = (uint32_t)group->node_count,
                                .placement_stride = sizeof(inlay_placement) };
    inlay_status status = INLAY_OK;
    uint32_t code;
    char text[300];

    if (is_excluded(job, support, view, group, &code, text)) {
        for (size_t i = 0; status == INLAY_OK && i < group->node_count; i++)
            status = refuse(job, group->nodes[i], code, text);
        return status;
    }
    for (size_t i = 0; i < group->node_count; i++)
        job->answered[group->nodes[i]] = true;
    return job->request->sink->offer(job->request->sink->ctx, &offer);
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
