/* Moves constants that a body captures into the body, so that weights used in a Loop are packed like others. */
#include "passes/type_guard.h"

static inlay_status push_down(pass_ctx *ctx, struct graph *graph, graph_body *body, bool *changed)
{
    uint32_t kept = 0;

    for (uint32_t k = 0; k < body->capture_count; k++) {
        const inlay_value_info *outer = &graph->values[body->capture_outer[k]].info;
        uint32_t inner = body->capture_inner[k];
        const bool is_constant = (outer->flags & INLAY_VALUE_CONSTANT) != 0 && outer->rank <= INLAY_MAX_RANK;
        int64_t dims[INLAY_MAX_RANK];
        bool done = false;

        for (uint32_t d = 0; is_constant && d < outer->rank; d++)
            dims[d] = outer->dims[d].value;
        if (is_constant && type_guard_constant(body->graph, inner, outer->dtype, outer->rank, dims, outer->data,
                                               outer->data_bytes, &done) != INLAY_OK)
            return no_memory(ctx->diag, "for constant '%s'", outer->name.data);
        *changed |= done;
        if (!done) {
            body->capture_outer[kept] = body->capture_outer[k];
            body->capture_inner[kept++] = inner;
        }
    }
    body->capture_count = kept;
    body->graph->captured = body->capture_inner; /* shared with the body; see graph_finish */
    body->graph->captured_count = kept;
    return INLAY_OK;
}

static inlay_status visit(pass_ctx *ctx, struct graph *graph, bool *changed)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph_node *node = graph->nodes[i];
        for (uint32_t b = 0; b < node->body_count; b++) {
            inlay_status status = push_down(ctx, graph, &node->bodies[b], changed);
            if (status != INLAY_OK)
                return status;
        }
        if (node->body_count > 0)
            pass_refresh_captures(node);
    }
    return INLAY_OK;
}

inlay_status pass_capture_constants(pass_ctx *ctx, bool *out_changed)
{
    return pass_each_graph(ctx, ctx->model->main, visit, out_changed);
}
