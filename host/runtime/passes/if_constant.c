/* Replaces an If with a constant condition by the nodes of the taken branch. */
#include "passes/body_nodes.h"
#include "passes/type_guard.h"

/* The taken branch if the condition is constant; otherwise NULL. */
static const graph_body *taken_branch(const struct graph *graph, const graph_node *node)
{
    const inlay_value_info *info;

    if (!pass_is_op(node, "If") || node->info.input_count != 1 || node->info.inputs[0] == INLAY_NONE)
        return NULL;
    info = &graph->values[node->info.inputs[0]].info;
    if ((info->flags & INLAY_VALUE_CONSTANT) == 0 || info->dtype != INLAY_BOOL || info->data_bytes != 1)
        return NULL;
    return graph_body_named(node, *(const uint8_t *)info->data != 0 ? "then_branch" : "else_branch");
}

/* Moves the nodes of the branch into the graph. A value that the branch produces for one output of the If becomes that
 * output. Other outputs (captures, constants, or one value for two outputs) are copied. */
static bool move_branch(body_nodes *nodes)
{
    const inlay_node_info *node = &nodes->node->info;

    for (uint32_t i = 0; i < nodes->from->output_count && i < node->output_count; i++) {
        uint32_t value = nodes->from->outputs[i];

        if (node->outputs[i] != INLAY_NONE && nodes->map[value] == INLAY_NONE &&
            nodes->from->values[value].info.producer != INLAY_NONE)
            nodes->map[value] = node->outputs[i];
    }
    if (!body_nodes_put(nodes))
        return false;
    for (uint32_t i = 0; i < nodes->from->output_count && i < node->output_count; i++) {
        uint32_t value = nodes->map[nodes->from->outputs[i]], output = node->outputs[i];

        if (output != INLAY_NONE && value != output && !body_nodes_copy_value(nodes, value, output))
            return false;
    }
    return true;
}

static inlay_status visit(pass_ctx *ctx, struct graph *graph, bool *changed)
{
    uint32_t nodes = graph->node_count;
    bool *drop = arena_array(&ctx->model->arena, (size_t)nodes + 1, sizeof *drop);
    bool any = false;

    if (drop == NULL)
        return no_memory(ctx->diag, "to find constant conditions");
    for (uint32_t i = 0; i < nodes; i++) {
        const graph_body *body = taken_branch(graph, graph->nodes[i]);
        const graph_node *node = graph->nodes[i];
        const uint32_t nodes_before = graph->node_count;
        inlay_status status;
        body_nodes copy;

        if (body == NULL || !pass_may(ctx))
            continue;
        if (!body_nodes_begin(&copy, ctx, graph, node, body) || !move_branch(&copy))
            return no_memory(ctx->diag, "to move a branch of node '%s'", node->info.name.data);
        status = type_guard_nodes(graph, nodes_before, node, NULL, 0, ctx->diag, &drop[i]);
        if (status != INLAY_OK)
            return status;
        if (drop[i])
            pass_count(ctx, graph, node, body->attr);
        any |= drop[i];
    }
    if (any)
        body_nodes_drop(graph, drop, nodes);
    *changed |= any;
    return INLAY_OK;
}

inlay_status pass_if_constant(pass_ctx *ctx, bool *out_changed)
{
    return pass_each_graph(ctx, ctx->model->main, visit, out_changed);
}
