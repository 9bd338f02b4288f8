/* Replaces small integer tensors whose elements inference knows (Shape of a known shape, Gather and Concat of such) by
 * constants. Where(Equal(shape, -1), x, shape), which exporters write for Expand, becomes the shape, because no size is
 * negative. A size that a graph input has is read from that input instead of a computed value: then it does not depend
 * on the computation, and the nodes in between can form one region. */
#include "passes/rewrite.h"

/* Returns true if every element of the shape provably differs from the element of the other operand. */
static bool all_differ(const inlay_value_info *shape, const int64_t *others, uint32_t count)
{
    if (shape->elements == NULL || shape->rank > 1 || (count != 1 && count != shape->element_count))
        return false;
    for (uint64_t i = 0; i < shape->element_count; i++) {
        const inlay_dim *dim = &shape->elements[i];
        const int64_t other = others[count == 1 ? 0 : i];

        if (dim->kind == INLAY_DIM_FIXED ? dim->value == other : dim->kind != INLAY_DIM_SYMBOLIC || other >= 0)
            return false;
    }
    return true;
}

/* Where(Equal(a, b), x, y) in which a and b provably differ everywhere: returns y; otherwise INLAY_NONE. */
static uint32_t find_dead_where(struct rewrite *rewrite, const graph_node *node)
{
    const graph_node *equal =
        pass_is_op(node, "Where") ? rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "Equal") : NULL;
    const uint32_t other = equal == NULL ? INLAY_NONE : rewrite_input(rewrite, node, 2);

    for (uint32_t side = 0; equal != NULL && side < 2; side++) {
        const uint32_t shape = rewrite_input(rewrite, equal, side);
        const int64_t *others;
        uint32_t count;

        if (rewrite_integers(rewrite, rewrite_input(rewrite, equal, 1 - side), &others, &count) &&
            all_differ(rewrite_value_info(rewrite, shape), others, count) &&
            rewrite_same_type(rewrite, other, node->info.outputs[0]))
            return other;
    }
    return INLAY_NONE;
}

/* Finds a graph input with that symbolic size, and the axis. */
static bool find_input(const struct rewrite *rewrite, const inlay_dim *size, uint32_t *out_input, int64_t *out_axis)
{
    for (uint32_t i = 0; i < rewrite->graph->input_count; i++) {
        const inlay_value_info *input = rewrite_value_info(rewrite, rewrite->graph->inputs[i]);

        for (uint32_t d = 0; input->kind == INLAY_VALUE_TENSOR && input->rank != INLAY_RANK_UNKNOWN && d < input->rank;
             d++)
            if (input->dims[d].kind == INLAY_DIM_SYMBOLIC && input->dims[d].symbol == size->symbol) {
                *out_input = rewrite->graph->inputs[i];
                *out_axis = d;
                return true;
            }
    }
    return false;
}

/* Replaces a Gather of one size of a computed value by the same size of a graph input. */
static inlay_status read_size_from_input(struct rewrite *rewrite, graph_node *node)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, node->info.outputs[0]);
    graph_node *shape = pass_is_op(node, "Gather")
                            ? rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), "Shape")
                            : NULL,
               *new_node;
    uint32_t reads[2];
    int64_t axis;

    if (shape == NULL || node->made_by != NULL || rewrite_producer(rewrite, rewrite_input(rewrite, shape, 0)) == NULL ||
        info->element_count != 1 || info->elements[0].kind != INLAY_DIM_SYMBOLIC ||
        !find_input(rewrite, &info->elements[0], &reads[0], &axis))
        return INLAY_OK;
    shape = rewrite_make_node(rewrite, "Shape", 13, shape, &reads[0], 1, 1);
    if (shape == NULL || rewrite_insert_node(rewrite, shape, INLAY_INT64) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    reads[0] = shape->info.outputs[0];
    reads[1] = rewrite_constant(rewrite, INLAY_INT64, info->rank, (const int64_t[]){ 1 }, &axis, sizeof axis);
    new_node = reads[1] == INLAY_NONE ? NULL : rewrite_make_node(rewrite, "Gather", 13, node, reads, 2, 1);
    return new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, new_node);
}

inlay_status match_known_shapes(struct rewrite *rewrite, graph_node *node)
{
    uint32_t value = node->info.output_count == 1 ? node->info.outputs[0] : INLAY_NONE, replacement;
    const inlay_value_info *info = rewrite_value_info(rewrite, value);
    int64_t *elements, dims[1];
    bool done;

    if (value == INLAY_NONE || rewrite->is_output[value])
        return INLAY_OK;
    replacement = find_dead_where(rewrite, node);
    if (replacement != INLAY_NONE)
        return rewrite_forward(rewrite, value, replacement, &done);
    if (info->elements == NULL || info->dtype != INLAY_INT64 || info->rank > 1 || info->element_count > 64 ||
        node->body_count > 0)
        return INLAY_OK;
    for (uint64_t i = 0; i < info->element_count; i++)
        if (info->elements[i].kind != INLAY_DIM_FIXED)
            return read_size_from_input(rewrite, node);
    elements = arena_array(&rewrite->scratch, (size_t)info->element_count + 1, sizeof *elements);
    if (elements == NULL)
        return rewrite_no_memory(rewrite);
    for (uint64_t i = 0; i < info->element_count; i++)
        elements[i] = info->elements[i].value;
    dims[0] = (int64_t)info->element_count;
    replacement =
        rewrite_constant(rewrite, INLAY_INT64, info->rank, dims, elements, info->element_count * sizeof *elements);
    return replacement == INLAY_NONE ? rewrite_no_memory(rewrite) : rewrite_forward(rewrite, value, replacement, &done);
}
