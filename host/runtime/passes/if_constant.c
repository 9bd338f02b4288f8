/* If with a constant condition: the nodes of the branch that is taken move into the graph. */
#include "passes/body_nodes.h"
#include "passes/type_guard.h"
#include <string.h>

/* The branch, when the condition is known and If reads no other input; NULL if not. */
static const graph_body *taken_branch(const struct graph *g, const graph_node *n)
{
    const inlay_value_info *c;

    if (!pass_is_op(n, "If") || n->info.input_count != 1 || n->info.inputs[0] == INLAY_NONE)
        return NULL;
    c = &g->values[n->info.inputs[0]].info;
    if ((c->flags & INLAY_VALUE_CONSTANT) == 0 || c->dtype != INLAY_BOOL || c->data_bytes != 1)
        return NULL;
    return graph_body_named(n, *(const uint8_t *)c->data != 0 ? "then_branch" : "else_branch");
}

/* What the branch makes for an output of the If is that output; outputs that it does not make itself, or makes for two
 * outputs, are copies. */
static bool move_branch(body_nodes *b)
{
    const inlay_node_info *n = &b->node->info;

    for (uint32_t i = 0; i < b->from->output_count && i < n->output_count; i++) {
        uint32_t v = b->from->outputs[i];

        if (n->outputs[i] != INLAY_NONE && b->map[v] == INLAY_NONE && b->from->values[v].info.producer != INLAY_NONE)
            b->map[v] = n->outputs[i];
    }
    if (!body_nodes_put(b))
        return false;
    for (uint32_t i = 0; i < b->from->output_count && i < n->output_count; i++) {
        uint32_t v = b->map[b->from->outputs[i]], y = n->outputs[i];

        if (y != INLAY_NONE && v != y && !body_nodes_copy_value(b, v, y))
            return false;
    }
    return true;
}

static inlay_status visit(pass_ctx *ctx, struct graph *g, bool *changed)
{
    uint32_t nodes = g->node_count;
    bool *drop = arena_array(&ctx->model->arena, (size_t)nodes + 1, sizeof *drop);
    bool any = false;

    if (drop == NULL)
        return no_memory(ctx->diag, "to look for constant conditions");
    for (uint32_t i = 0; i < nodes; i++) {
        const graph_body *body = taken_branch(g, g->nodes[i]);
        const graph_node *n = g->nodes[i];
        const uint32_t nodes_before = g->node_count;
        inlay_status status;
        body_nodes b;

        if (body == NULL || !pass_may(ctx))
            continue;
        if (!body_nodes_begin(&b, ctx, g, n, body) || !move_branch(&b))
            return no_memory(ctx->diag, "to move a branch of node '%s'", n->info.name.data);
        status = type_guard_nodes(g, nodes_before, n, NULL, 0, ctx->diag, &drop[i]);
        if (status != INLAY_OK)
            return status;
        if (drop[i])
            pass_count(ctx, g, n, body->attr);
        any |= drop[i];
    }
    if (any)
        body_nodes_drop(g, drop, nodes);
    *changed |= any;
    return INLAY_OK;
}

inlay_status pass_if_constant(pass_ctx *ctx, bool *out_changed)
{
    return pass_each_graph(ctx, ctx->model->main, visit, out_changed);
}
