/* Merges nested Transposes into one, or none if they cancel out. */
#include "passes/merge_transposes.h"
#include "passes/rewrite.h"

bool transpose_perm(const graph_node *node, uint32_t rank, int64_t *out)
{
    uint32_t count;
    const int64_t *perm = rewrite_attr_ints(node, "perm", &count);

    if (perm != NULL && count != rank)
        return false;
    for (uint32_t d = 0; d < rank; d++)
        out[d] = perm != NULL ? perm[d] : (int64_t)(rank - 1 - d);
    return true;
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    graph_node *inner = pass_is_op(node, "Transpose")
                            ? rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "Transpose")
                            : NULL,
               *new_node;
    const inlay_value_info *input =
        inner == NULL ? NULL : rewrite_value_info(rewrite, rewrite_input(rewrite, inner, 0));
    int64_t *first, *second, *both;
    bool is_identity = true;

    if (input == NULL || input->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    first = arena_array(&rewrite->scratch, (size_t)input->rank + 1, sizeof *first);
    second = arena_array(&rewrite->scratch, (size_t)input->rank + 1, sizeof *second);
    both = arena_array(&rewrite->scratch, (size_t)input->rank + 1, sizeof *both);
    if (first == NULL || second == NULL || both == NULL)
        return rewrite_no_memory(rewrite);
    if (!transpose_perm(inner, input->rank, first) || !transpose_perm(node, input->rank, second))
        return INLAY_OK;
    for (uint32_t d = 0; d < input->rank; d++) {
        both[d] = first[second[d]];
        is_identity &= both[d] == (int64_t)d;
    }
    if (is_identity) {
        bool done;
        inlay_status status = rewrite_forward(rewrite, node->info.outputs[0], rewrite_input(rewrite, inner, 0), &done);
        if (status != INLAY_OK || done)
            return status;
    }
    if (!rewrite_has_one_use(rewrite, rewrite_input(rewrite, node, 0)))
        return INLAY_OK; /* the inner Transpose has other readers and is computed anyway */
    new_node = rewrite_make_node(rewrite, "Transpose", node->opset, node, inner->info.inputs, 1, 1);
    if (new_node == NULL || graph_set_attr_ints(rewrite->graph, new_node, "perm", both, input->rank) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    return rewrite_replace_node(rewrite, node, new_node);
}

inlay_status pass_merge_transposes(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
