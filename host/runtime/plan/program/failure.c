/* plan/program/failure.c - error messages of failed steps: node, provider, reason. */
#include "plan/program/compile.h"
#include "inlay/execution.h"
#include <string.h>

static const uint64_t WORKSPACE_MAX_BYTES = UINT64_C(1) << 46, WORKSPACE_MAX_ALIGNMENT = UINT64_C(1) << 21;

/* The node of the region that the provider named, or the first one. */
static const graph_node *failing_node(const struct graph *graph, const partition_region *region, const char *name)
{
    for (uint32_t k = 0; k < region->node_count; k++)
        if (strcmp(graph->nodes[region->nodes[k]]->info.name.data, name) == 0)
            return graph->nodes[region->nodes[k]];
    return graph->nodes[region->nodes[0]];
}

inlay_status program_step_failed(const struct graph *graph, const program_step *step, inlay_status status,
                                 inlay_diag *diag)
{
    char why[sizeof diag->text], quoted[160];
    const graph_node *node;
    bool named;

    if (diag == NULL || (step->provider == NULL && diag->node[0] != '\0')) /* an inner graph has named the node */
        return status;
    node = failing_node(graph, step->region, diag->node);
    (void)snprintf(quoted, sizeof quoted, "'%s'", node->info.name.data);
    (void)snprintf(why, sizeof why, "%s",
                   diag->code == status && diag->text[0] != '\0' ? diag->text : inlay_status_text(status));
    named = step->provider == NULL || strncmp(why, "provider ", 9) == 0; /* the message contains the provider already */
    if (strstr(why, quoted) != NULL)
        (void)inlay_fail(diag, status, "%s", why);
    else
        (void)inlay_fail(diag, status, "%s node %s%s%s: %.300s", node->info.op_type.data, quoted,
                         named ? "" : ", provider ", named ? "" : step->provider->name, why);
    graph_add_source(node, diag);
    (void)snprintf(diag->node, sizeof diag->node, "%s", node->info.name.data);
    return status;
}

inlay_status program_workspace_status(const inlay_specialize_request *request)
{
    const uint64_t alignment = request->workspace_alignment;

    if ((alignment & (alignment - 1)) != 0)
        return INLAY_INTERNAL;
    return request->workspace_bytes > WORKSPACE_MAX_BYTES || alignment > WORKSPACE_MAX_ALIGNMENT ? INLAY_LIMIT_EXCEEDED
                                                                                                 : INLAY_OK;
}

inlay_status program_check_workspace(const program_step *step, const inlay_specialize_request *request,
                                     inlay_diag *diag)
{
    const inlay_status status = program_workspace_status(request);

    if (status == INLAY_OK)
        return status;
    return inlay_fail(diag, status, "provider %s requests %llu bytes of workspace, aligned to %llu%s, for %s node '%s'",
                      step->provider->name, (unsigned long long)request->workspace_bytes,
                      (unsigned long long)request->workspace_alignment,
                      status == INLAY_INTERNAL ? ", which is not a power of two" : "", step->node->info.op_type.data,
                      step->node->info.name.data);
}
