/* Which nodes of a session run on which execution provider: those that the optimiser leaves, as the session's
 * explanation lists them. */
#include "ort.h"
#include "writer.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct OrtEpAssignedNode {
    const char *name, *domain, *op; /* borrowed from session->explanation */
};

struct OrtEpAssignedSubgraph {
    const char *provider; /* borrowed from the session, or constant */
    OrtEpAssignedNode *list;
    const OrtEpAssignedNode **nodes; /* [count] */
    size_t count;
};

static void free_subgraph(OrtEpAssignedSubgraph *subgraph)
{
    if (subgraph == NULL)
        return;
    free(subgraph->list);
    free((void *)subgraph->nodes);
    free(subgraph);
}

void ort_assignment_free(OrtSession *session)
{
    for (size_t i = 0; i < session->assigned_count; i++)
        free_subgraph(session->assigned[i]);
    free(session->assigned);
    json_decref(session->explanation);
    session->assigned = NULL;
    session->explanation = NULL;
    session->assigned_count = 0;
}

/* The name by which programs know a provider of inlay: a library's execution provider by its own name, those for CPUs,
 * and the host, as the CPU's, and one for another device by inlay's name. */
static const char *name_of(const OrtSession *session, const char *provider)
{
    inlay_session_provider_info info = { .struct_size = sizeof info };

    for (uint32_t i = 0; inlay_session_provider(session->session, i, &info) == INLAY_OK; i++)
        if (info.skipped == NULL && strcmp(info.name, provider) == 0) {
            if (strncmp(provider, ORT_EP_PROVIDER "#", sizeof ORT_EP_PROVIDER) == 0 && info.device != NULL)
                return info.device;
            if (info.device != NULL && info.device_kind != INLAY_DEVICE_CPU)
                return info.name;
        }
    return ort_cpu_device()->name;
}

/* Adds the nodes of `graph` whose indexes are in `indexes`. */
static OrtStatus *add_subgraph(OrtSession *session, const json_t *graph, const char *provider, json_t *const *indexes,
                               size_t count)
{
    OrtEpAssignedSubgraph *made = calloc(1, sizeof *made);

    if (made != NULL) {
        made->list = calloc(count + 1, sizeof *made->list);
        made->nodes = calloc(count + 1, sizeof *made->nodes);
    }
    if (made == NULL || made->list == NULL || made->nodes == NULL ||
        !ORT_GROW(session->assigned, session->assigned_count)) {
        free_subgraph(made);
        return ort_no_memory();
    }
    made->provider = provider;
    for (; made->count < count; made->count++) {
        const json_t *node =
            json_array_get(json_object_get(graph, "nodes"), (size_t)json_integer_value(indexes[made->count]));

        const char *domain = json_string_value(json_object_get(node, "domain"));

        made->list[made->count] =
            (OrtEpAssignedNode){ .name = json_string_value(json_object_get(node, "name")),
                                 .domain = domain != NULL && strcmp(domain, "ai.onnx") == 0 ? "" : domain,
                                 .op = json_string_value(json_object_get(node, "op")) };
        made->nodes[made->count] = &made->list[made->count];
    }
    session->assigned[session->assigned_count++] = made;
    return NULL;
}

/* A region is a subgraph; those of the CPU have one for each node, as ONNX Runtime's provider, whose kernels run one
 * node each. */
static OrtStatus *read_graph(OrtSession *session, const json_t *graph)
{
    const json_t *region;
    const char *attribute;
    json_t *body;
    size_t i;

    json_array_foreach(json_object_get(graph, "regions"), i, region) {
        const json_t *nodes = json_object_get(region, "nodes");
        const char *provider = name_of(session, json_string_value(json_object_get(region, "provider")));
        const size_t count = json_array_size(nodes);
        const size_t step = provider == ort_cpu_device()->name ? 1 : count;
        json_t **indexes = calloc(count + 1, sizeof *indexes);
        OrtStatus *failed = indexes == NULL ? ort_no_memory() : NULL;

        for (size_t k = 0; indexes != NULL && k < count; k++)
            indexes[k] = json_array_get(nodes, k);
        for (size_t k = 0; failed == NULL && k < count; k += step)
            failed = add_subgraph(session, graph, provider, indexes + k, step);
        free(indexes);
        if (failed != NULL)
            return failed;
        json_object_foreach(json_object_get(region, "bodies"), attribute, body)
            ORT_TRY(read_graph(session, body));
    }
    return NULL;
}

static void append(void *user, const char *text, size_t bytes)
{
    ort_put(user, text, bytes);
}

static OrtStatus *read_assignment(OrtSession *session)
{
    const inlay_explain_options as_json = { .struct_size = sizeof as_json, .format = "json" };
    inlay_diag diag = INLAY_DIAG_INIT;
    ort_writer text = { 0 };
    OrtStatus *failed = ort_from(inlay_session_explain(session->session, &as_json, append, &text, &diag), &diag);

    if (failed == NULL && !text.failed)
        session->explanation = json_loadb((const char *)text.data, text.count, 0, NULL);
    if (failed == NULL && session->explanation == NULL)
        failed = ort_no_memory();
    if (failed == NULL)
        failed = read_graph(session, json_object_get(session->explanation, "main"));
    free(text.data);
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
    ORT_NEED(ep_subgraphs);
    ORT_NEED(num_ep_subgraphs);
    ORT_TRY(ort_session_enter(used));
    (void)pthread_mutex_lock(&used->lock);
    if (used->explanation == NULL)
        failed = read_assignment(used);
    *ep_subgraphs = (const OrtEpAssignedSubgraph *const *)used->assigned;
    *num_ep_subgraphs = used->assigned_count;
    (void)pthread_mutex_unlock(&used->lock);
    ort_session_leave(used);
    return failed;
}

ORT_GETTER(ort_EpAssignedSubgraph_GetEpName, const OrtEpAssignedSubgraph *, ep_subgraph, const char *, out,
           ep_subgraph->provider)

OrtStatus *ort_EpAssignedSubgraph_GetNodes(const OrtEpAssignedSubgraph *ep_subgraph,
                                           const OrtEpAssignedNode *const **ep_nodes, size_t *num_ep_nodes)
{
    ORT_NEED(ep_subgraph);
    ORT_NEED(ep_nodes);
    ORT_NEED(num_ep_nodes);
    *ep_nodes = ep_subgraph->nodes;
    *num_ep_nodes = ep_subgraph->count;
    return NULL;
}

ORT_GETTER(ort_EpAssignedNode_GetName, const OrtEpAssignedNode *, ep_node, const char *, out, ep_node->name)
ORT_GETTER(ort_EpAssignedNode_GetDomain, const OrtEpAssignedNode *, ep_node, const char *, out, ep_node->domain)
ORT_GETTER(ort_EpAssignedNode_GetOperatorType, const OrtEpAssignedNode *, ep_node, const char *, out, ep_node->op)
