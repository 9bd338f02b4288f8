/* Offers each node that oneDNN computes, alone and with the nodes that are fused into it. */
#include "onednn/provider.h"
#include "inlay/kit_region.h"

enum { MOST_NODES = 4 }; /* of a group: a product, its bias, an addition, a function */

struct assessment {
    const onednn_state *state;
    const inlay_assess_request *request;
    uint32_t *readers; /* [value_count] the only node that reads the value; INLAY_NONE: none, several, or the graph's */
};

static void find_readers(const inlay_graph *graph, uint32_t *readers)
{
    const uint32_t unread = INLAY_NONE - 1;

    for (uint32_t value = 0; value < graph->value_count; value++)
        readers[value] = (inlay_graph_value(graph, value)->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0 ? INLAY_NONE : unread;
    for (uint32_t node = 0; node < graph->node_count; node++) {
        const inlay_node_info *info = inlay_graph_node(graph, node);

        for (uint32_t i = 0; i < info->input_count; i++) {
            const uint32_t value = info->inputs[i];

            if (value != INLAY_NONE && value < graph->value_count)
                readers[value] = readers[value] == unread || readers[value] == node ? node : INLAY_NONE;
        }
    }
    for (uint32_t value = 0; value < graph->value_count; value++)
        readers[value] = readers[value] == unread ? INLAY_NONE : readers[value];
}

/* Offers the groups that begin with the node; the host gets the offer of the node alone from kit_assess_each(). */
static inlay_status offer_groups(const struct assessment *self, uint32_t n, const struct group *first)
{
    const inlay_assess_request *request = self->request;
    uint32_t nodes[MOST_NODES] = { n }, count = 1;
    inlay_status status = INLAY_OK;
    struct group group = *first;

    while (status == INLAY_OK && count < MOST_NODES) {
        const uint32_t next = self->readers[group.output];

        if (next == INLAY_NONE || next <= nodes[count - 1] ||
            (request->candidates != NULL && request->candidates[next] == 0) ||
            !group_extend(self->state, request->graph, next, &group))
            break;
        nodes[count++] = next;
        status = request->sink->offer(
            request->sink->ctx,
            &(inlay_offer){ .struct_size = sizeof(inlay_offer), .nodes = nodes, .node_count = count });
    }
    return status;
}

static bool fits(void *ctx, const kit_node *node, uint32_t n, inlay_offer *offer, kit_refusal *why)
{
    const struct assessment *self = ctx;
    struct group group;

    (void)offer;
    if (!group_begin(self->state, node->graph, n, &group, why))
        return false;
    return offer_groups(self, n, &group) == INLAY_OK ||
           kit_refuse(why, INLAY_REFUSE_MEMORY, NULL, "the host does not take the offer");
}

inlay_status onednn_assess(void *state_, const inlay_assess_request *request, inlay_diag *diag)
{
    struct assessment self = { .state = state_, .request = request };
    const kit_node like = { .host = self.state->host };
    inlay_status status;

    self.readers = malloc(((size_t)request->graph->value_count + 1) * sizeof *self.readers);
    if (self.readers == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to examine a graph");
    find_readers(request->graph, self.readers);
    status = kit_assess_each(&like, request->graph, request->candidates, request->sink, fits, &self);
    free(self.readers);
    return status;
}
