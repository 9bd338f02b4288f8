/* Which nodes of a session's model run on which execution provider. Programs see one provider, whose kernels each run
 * one node, so there is a subgraph for each node of the file. */
#include "wire.h"
#include <stdlib.h>
#include <string.h>

struct OrtEpAssignedNode {
    char *name, *domain, *op;
};

struct OrtEpAssignedSubgraph {
    OrtEpAssignedNode node;
    const OrtEpAssignedNode *nodes[1];
};

static void free_subgraph(OrtEpAssignedSubgraph *subgraph)
{
    if (subgraph == NULL)
        return;
    free(subgraph->node.name);
    free(subgraph->node.domain);
    free(subgraph->node.op);
    free(subgraph);
}

void ort_assignment_free(OrtSession *session)
{
    for (size_t i = 0; i < session->assigned_count; i++)
        free_subgraph(session->assigned[i]);
    free(session->assigned);
    session->assigned = NULL;
    session->assigned_count = 0;
}

static char *text_of(wire_span node, uint32_t number)
{
    wire_field field;

    return ort_find_field(node, number, &field) ? strndup((const char *)field.data.at, field.data.count) : strdup("");
}

static OrtStatus *add_node(OrtSession *session, wire_span node)
{
    OrtEpAssignedSubgraph *made = calloc(1, sizeof *made);

    if (made == NULL || (made->node.name = text_of(node, NODE_NAME)) == NULL ||
        (made->node.domain = text_of(node, NODE_DOMAIN)) == NULL ||
        (made->node.op = text_of(node, NODE_OPERATOR)) == NULL ||
        !ORT_GROW(session->assigned, session->assigned_count)) {
        free_subgraph(made);
        return ort_no_memory();
    }
    made->nodes[0] = &made->node;
    session->assigned[session->assigned_count++] = made;
    return NULL;
}

static OrtStatus *read_nodes(OrtSession *session, const ort_model_bytes *model)
{
    wire_field graph, field, op;

    if (model->data == NULL || !ort_find_field((wire_span){ model->data, model->bytes }, MODEL_GRAPH, &graph))
        return ort_fail(ORT_FAIL, "Session_GetEpGraphAssignmentInfo: the model's file cannot be read any more");
    while (wire_next(&graph.data, &field)) {
        const bool constant = field.number == GRAPH_NODE && ort_find_field(field.data, NODE_OPERATOR, &op) &&
                              wire_is(op.data, "Constant"); /* an initializer once it is loaded */

        if (field.number == GRAPH_NODE && !constant)
            ORT_TRY(add_node(session, field.data));
    }
    return NULL;
}

static OrtStatus *read_assignment(OrtSession *session)
{
    ort_model_bytes model = ort_model_map(session);
    OrtStatus *failed = read_nodes(session, &model);

    ort_model_unmap(&model);
    if (failed != NULL)
        ort_assignment_free(session);
    return failed;
}

OrtStatus *ort_Session_GetEpGraphAssignmentInfo(const OrtSession *session,
                                                const OrtEpAssignedSubgraph *const **ep_subgraphs,
                                                size_t *num_ep_subgraphs)
{
    OrtSession *used = (OrtSession *)(uintptr_t)session;
    OrtStatus *failed = NULL;

    ORT_NEED(session);
    if (!session->records_assignment)
        return ort_fail(ORT_FAIL, "Session configuration entry 'session.record_ep_graph_assignment_info' must be set "
                                  "to \"1\" to retrieve EP graph assignment information.");
    if (session->has_libraries)
        return ort_fail(ORT_NOT_IMPLEMENTED,
                        "Session_GetEpGraphAssignmentInfo: inlay does not report it for sessions with libraries of "
                        "execution providers; 'inlay explain' shows the assignment");
    ORT_NEED(ep_subgraphs);
    ORT_NEED(num_ep_subgraphs);
    ORT_TRY(ort_session_enter(used));
    (void)pthread_mutex_lock(&used->lock);
    if (used->assigned == NULL)
        failed = read_assignment(used);
    *ep_subgraphs = (const OrtEpAssignedSubgraph *const *)used->assigned;
    *num_ep_subgraphs = used->assigned_count;
    (void)pthread_mutex_unlock(&used->lock);
    ort_session_leave(used);
    return failed;
}

ORT_GETTER(ort_EpAssignedSubgraph_GetEpName, const OrtEpAssignedSubgraph *, ep_subgraph, const char *, out,
           ort_cpu_device()->name)

OrtStatus *ort_EpAssignedSubgraph_GetNodes(const OrtEpAssignedSubgraph *ep_subgraph,
                                           const OrtEpAssignedNode *const **ep_nodes, size_t *num_ep_nodes)
{
    ORT_NEED(ep_subgraph);
    ORT_NEED(ep_nodes);
    ORT_NEED(num_ep_nodes);
    *ep_nodes = ep_subgraph->nodes;
    *num_ep_nodes = 1;
    return NULL;
}

ORT_GETTER(ort_EpAssignedNode_GetName, const OrtEpAssignedNode *, ep_node, const char *, out, ep_node->name)
ORT_GETTER(ort_EpAssignedNode_GetDomain, const OrtEpAssignedNode *, ep_node, const char *, out, ep_node->domain)
ORT_GETTER(ort_EpAssignedNode_GetOperatorType, const OrtEpAssignedNode *, ep_node, const char *, out, ep_node->op)
