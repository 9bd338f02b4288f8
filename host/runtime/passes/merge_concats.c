/* Merges nested Concats along the same axis. */
#include "passes/rewrite.h"

static int64_t axis_of(const struct rewrite *rewrite, const graph_node *node)
{
    int64_t axis = graph_attr_int(node, "axis", 1), rank = rewrite_value_info(rewrite, node->info.outputs[0])->rank;

    return axis < 0 ? axis + rank : axis;
}

/* The Concat that produces input i, if it can be merged into the node. */
static graph_node *mergeable_input(const struct rewrite *rewrite, const graph_node *node, uint32_t i)
{
    uint32_t value = rewrite_input(rewrite, node, i);
    graph_node *inner = rewrite_producer_op(rewrite, value, "Concat");

    return inner != NULL && rewrite_has_one_use(rewrite, value) && axis_of(rewrite, inner) == axis_of(rewrite, node)
               ? inner
               : NULL;
}

inlay_status match_merge_concats(struct rewrite *rewrite, graph_node *node)
{
    uint32_t total = 0, *inputs, count = 0;
    graph_node *new_node;
    bool any = false;

    if (!pass_is_op(node, "Concat") || rewrite_value_info(rewrite, node->info.outputs[0])->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    for (uint32_t i = 0; i < node->info.input_count; i++) {
        const graph_node *inner = mergeable_input(rewrite, node, i);
        any |= inner != NULL;
        total += inner != NULL ? inner->info.input_count : 1;
    }
    if (!any)
        return INLAY_OK;
    inputs = arena_array(&rewrite->scratch, (size_t)total + 1, sizeof *inputs);
    if (inputs == NULL)
        return rewrite_no_memory(rewrite);
    for (uint32_t i = 0; i < node->info.input_count; i++) {
        const graph_node *inner = mergeable_input(rewrite, node, i);
        if (inner == NULL)
            inputs[count++] = rewrite_input(rewrite, node, i);
        for (uint32_t k = 0; inner != NULL && k < inner->info.input_count; k++)
            inputs[count++] = rewrite_input(rewrite, inner, k);
    }
    new_node = rewrite_make_node(rewrite, "Concat", node->opset, node, inputs, count, 1);
    if (new_node == NULL || graph_set_attr_int(rewrite->graph, new_node, "axis", axis_of(rewrite, node)) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    return rewrite_replace_node(rewrite, node, new_node);
}
