/* The order in which a region's nodes are read. Files of some tools list nodes of different branches alternately, so
 * that the tensors of all branches are live at the same time. Reading one branch after another needs less memory. */
#include "cpu/compile/compile.h"
#include "inlay/check.h"

enum { UNKNOWN_DIM = 1000 }; /* assumed, to compare tensors whose sizes are known at run time only */

typedef struct node_order {
    const inlay_compile_request *request;
    uint32_t *number;    /* [graph->node_count] position of the node in request->nodes, INLAY_NONE: not in the region */
    uint32_t *first;     /* [node_count + 1] first edge from each node to one of its readers */
    uint32_t *reader;    /* [edges] */
    uint32_t *pending;   /* [node_count] edges from nodes that are still to come */
    uint32_t *ready;     /* [node_count] a stack */
    uint32_t *reads;     /* [graph->value_count] reads that are still to come */
    uint32_t *candidate; /* [node_count] one branch after another */
} node_order;

static const inlay_node_info *node_at(const node_order *order, uint32_t n)
{
    INLAY_CHECK(n < order->request->node_count);
    return inlay_graph_node(order->request->graph, order->request->nodes[n]);
}

/* The node of the region that makes the value; INLAY_NONE: another one, or none. */
static uint32_t maker_of(const node_order *order, uint32_t value)
{
    const inlay_value_info *info = inlay_graph_value(order->request->graph, value);

    return info == NULL || info->producer == INLAY_NONE ? INLAY_NONE : order->number[info->producer];
}

/* Links each node of the region to its readers, in ascending order. */
static bool link_readers(node_order *order)
{
    const uint32_t count = order->request->node_count;
    uint32_t edges = 0;

    for (uint32_t n = 0; n < count; n++)
        for (uint32_t i = 0; i < node_at(order, n)->input_count; i++) {
            const uint32_t maker = maker_of(order, node_at(order, n)->inputs[i]);

            if (maker == INLAY_NONE)
                continue;
            order->first[maker]++;
            order->pending[n]++;
            edges++;
        }
    order->reader = malloc((edges + 1u) * sizeof *order->reader);
    if (order->reader == NULL)
        return false;
    for (uint32_t n = 0; n < count; n++)
        order->first[n + 1] += order->first[n];
    for (uint32_t n = count; n-- > 0;) /* first[] counts down from the end of each node's edges to their beginning */
        for (uint32_t i = 0; i < node_at(order, n)->input_count; i++) {
            const uint32_t maker = maker_of(order, node_at(order, n)->inputs[i]);

            if (maker != INLAY_NONE)
                order->reader[--order->first[maker]] = n;
        }
    return true;
}

/* Lists the nodes so that each is followed by one of its readers, if possible. */
static void list_branches(node_order *order)
{
    uint32_t height = 0, listed = 0;

    for (uint32_t n = order->request->node_count; n-- > 0;)
        if (order->pending[n] == 0)
            order->ready[height++] = n;
    while (height > 0) {
        const uint32_t n = order->ready[--height];

        order->candidate[listed++] = n;
        for (uint32_t edge = order->first[n + 1]; edge-- > order->first[n];)
            if (--order->pending[order->reader[edge]] == 0)
                order->ready[height++] = order->reader[edge];
    }
    INLAY_CHECK(listed == order->request->node_count);
}

static double elements_of(const node_order *order, uint32_t value)
{
    const inlay_value_info *info = inlay_graph_value(order->request->graph, value);
    double elements = 1;

    if (info == NULL)
        return 0;
    if (info->rank == INLAY_RANK_UNKNOWN)
        return UNKNOWN_DIM;
    for (uint32_t d = 0; d < info->rank; d++)
        elements *= info->dims[d].kind == INLAY_DIM_FIXED ? (double)info->dims[d].value : UNKNOWN_DIM;
    return elements;
}

/* The most elements of the region's values that are live at once. nodes: the order, as node numbers; NULL: the order of
 * the graph. */
static double most_elements(node_order *order, const uint32_t *nodes)
{
    const inlay_compile_request *request = order->request;
    double live = 0, most = 0;

    memset(order->reads, 0, request->graph->value_count * sizeof *order->reads);
    for (uint32_t n = 0; n < request->node_count; n++)
        for (uint32_t i = 0; i < node_at(order, n)->input_count; i++)
            if (node_at(order, n)->inputs[i] != INLAY_NONE)
                order->reads[node_at(order, n)->inputs[i]]++;
    for (uint32_t i = 0; i < request->output_count; i++)
        order->reads[request->outputs[i]]++;
    for (uint32_t n = 0; n < request->node_count; n++) {
        const inlay_node_info *info = node_at(order, nodes != NULL ? nodes[n] : n);

        for (uint32_t i = 0; i < info->output_count; i++)
            live += info->outputs[i] == INLAY_NONE ? 0 : elements_of(order, info->outputs[i]);
        most = live > most ? live : most;
        for (uint32_t i = 0; i < info->input_count; i++)
            if (info->inputs[i] != INLAY_NONE && --order->reads[info->inputs[i]] == 0 &&
                maker_of(order, info->inputs[i]) != INLAY_NONE)
                live -= elements_of(order, info->inputs[i]);
    }
    return most;
}

static void order_deinit(node_order *order)
{
    free(order->number);
    free(order->first);
    free(order->reader);
    free(order->pending);
    free(order->ready);
    free(order->reads);
    free(order->candidate);
}

uint32_t *cpu_order_nodes(const inlay_compile_request *request)
{
    const uint32_t count = request->node_count;
    node_order order = { .request = request,
                         .number = malloc((request->graph->node_count + 1u) * sizeof *order.number),
                         .first = calloc(count + 1u, sizeof *order.first),
                         .pending = calloc(count + 1u, sizeof *order.pending),
                         .ready = calloc(count + 1u, sizeof *order.ready),
                         .reads = calloc(request->graph->value_count + 1u, sizeof *order.reads),
                         .candidate = calloc(count + 1u, sizeof *order.candidate) };
    uint32_t *result = NULL;

    if (order.number == NULL || order.first == NULL || order.pending == NULL || order.ready == NULL ||
        order.reads == NULL || order.candidate == NULL)
        goto done;
    memset(order.number, 0xff, (request->graph->node_count + 1u) * sizeof *order.number);
    for (uint32_t n = 0; n < count; n++)
        order.number[request->nodes[n]] = n;
    if (!link_readers(&order))
        goto done;
    list_branches(&order);
    /* The order of the file is kept unless much is gained, because neighbours in it often share rows in the caches. */
    if (most_elements(&order, order.candidate) <= 0.75 * most_elements(&order, NULL)) {
        result = order.candidate;
        order.candidate = NULL;
    }
done:
    order_deinit(&order);
    return result;
}
