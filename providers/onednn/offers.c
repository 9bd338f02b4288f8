/* Offers each node that oneDNN computes, alone and with the nodes that are fused into it. */
#include "onednn/provider.h"
#include "inlay/kit_group.h"
#include "inlay/kit_region.h"

enum { MOST_NODES = 4 }; /* of a group: a product, its bias, an addition, a function */

struct assessment {
    const onednn_state *state;
    const inlay_assess_request *request;
    uint32_t *readers; /* of kit_readers() */
};

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

    self.readers = kit_readers(request->graph);
    if (self.readers == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to examine a graph");
    status = kit_assess_each(&like, request->graph, request->candidates, request->sink, fits, &self);
    free(self.readers);
    return status;
}
