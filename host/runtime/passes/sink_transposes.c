/* Moves equal Transposes of all inputs of an element-wise operator, or of Concat, after it as one Transpose. */
#include "passes/merge_transposes.h"
#include "inlay/check.h"
#include "passes/rewrite.h"

enum { MAX_AXES = 16 };

static bool is_pointwise(const graph_node *node)
{
    return pass_is_among(node, "Add Sub Mul Div Pow Max Min Sum Mean") && node->info.since_version >= 7;
}

/* Returns true if every input is a Transpose with the same permutation and has no other reader. */
static bool all_transposed(const struct rewrite *rewrite, const graph_node *node, uint32_t rank, int64_t *out_perm)
{
    int64_t perm[MAX_AXES];

    for (uint32_t i = 0; i < node->info.input_count; i++) {
        uint32_t value = rewrite_input(rewrite, node, i);
        const graph_node *transpose = rewrite_producer_op(rewrite, value, "Transpose");

        if (transpose == NULL || !rewrite_has_one_use(rewrite, value) ||
            rewrite_value_info(rewrite, value)->rank != rank ||
            rewrite_value_info(rewrite, rewrite_input(rewrite, transpose, 0))->rank != rank ||
            !transpose_perm(transpose, rank, i == 0 ? out_perm : perm))
            return false;
        for (uint32_t d = 0; i > 0 && d < rank; d++)
            if (perm[d] != out_perm[d])
                return false;
    }
    return true;
}

inlay_status match_sink_transposes(struct rewrite *rewrite, graph_node *node)
{
    bool concat = pass_is_op(node, "Concat");
    uint32_t rank = node->info.output_count == 1 ? rewrite_value_info(rewrite, node->info.outputs[0])->rank
                                                 : INLAY_RANK_UNKNOWN,
             *inputs;
    int64_t perm[MAX_AXES], axis = concat ? graph_attr_int(node, "axis", 1) : 0;
    graph_node *inner, *new_node;

    if ((!concat && !is_pointwise(node)) || node->info.input_count < 2 || rank == INLAY_RANK_UNKNOWN ||
        rank > MAX_AXES || !all_transposed(rewrite, node, rank, perm))
        return INLAY_OK;
    inputs = arena_array(&rewrite->scratch, node->info.input_count, sizeof *inputs);
    if (inputs == NULL)
        return rewrite_no_memory(rewrite);
    for (uint32_t i = 0; i < node->info.input_count; i++)
        inputs[i] = rewrite_input(rewrite, rewrite_producer(rewrite, rewrite_input(rewrite, node, i)), 0);
    axis = axis < 0 ? axis + (int64_t)rank : axis;
    inner = rewrite_make_node(rewrite, node->info.op_type.data, node->opset, node, inputs, node->info.input_count, 1);
    INLAY_CHECK(!concat || (axis >= 0 && axis < (int64_t)rank));
    if (inner == NULL || (concat && graph_set_attr_int(rewrite->graph, inner, "axis", perm[axis]) != INLAY_OK) ||
        rewrite_insert_node(rewrite, inner, rewrite_value_info(rewrite, node->info.outputs[0])->dtype) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    new_node = rewrite_make_node(rewrite, "Transpose", node->opset, NULL, inner->info.outputs, 1, 1);
    if (new_node == NULL || graph_set_attr_ints(rewrite->graph, new_node, "perm", perm, rank) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    return rewrite_replace_node(rewrite, node, new_node);
}
