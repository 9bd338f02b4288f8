/* Merges chains of Reshape, Flatten, Squeeze and Unsqueeze into one Reshape, if each size of the result, except at most
 * one, is known or equals the size of the input's axis at the same position. A Reshape whose computed shape meets this
 * condition gets a constant shape instead. A view that adds leading axes of size 1, an element-wise operator and a view
 * that removes them become the operator alone. */
#include "passes/rewrite.h"

/* The target shape for a Reshape of input: known sizes, 0 to copy the size of the input's axis at the same position,
 * and one -1 for a size known only at run time. NULL if a size is 0, or if a -1 would stand next to a copied size,
 * which might be 0 and make -1 ambiguous. */
static int64_t *target_shape(struct rewrite *rewrite, const inlay_value_info *input, const inlay_value_info *output)
{
    int64_t *shape;
    uint32_t unknown = 0, copied = 0;

    if (output->rank == INLAY_RANK_UNKNOWN)
        return NULL;
    shape = arena_array(&rewrite->scratch, (size_t)output->rank + 1, sizeof *shape);
    for (uint32_t d = 0; shape != NULL && d < output->rank; d++) {
        const inlay_dim *dim = &output->dims[d];

        shape[d] = dim->kind == INLAY_DIM_FIXED ? dim->value : -1;
        if (shape[d] == 0)
            return NULL;
        if (dim->kind == INLAY_DIM_SYMBOLIC && input->rank != INLAY_RANK_UNKNOWN && d < input->rank &&
            input->dims[d].kind == INLAY_DIM_SYMBOLIC && input->dims[d].symbol == dim->symbol) {
            shape[d] = 0;
            copied++;
        }
        unknown += shape[d] < 0;
    }
    return unknown > (copied > 0 ? 0 : 1) ? NULL : shape;
}

/* Returns true if `extended` is value with leading axes of size 1; *out_ones is their number. */
static bool has_leading_ones(const struct rewrite *rewrite, uint32_t extended, uint32_t value, uint32_t *out_ones)
{
    const inlay_value_info *output = rewrite_value_info(rewrite, extended), *input = rewrite_value_info(rewrite, value);
    uint32_t ones;

    if (input->rank == INLAY_RANK_UNKNOWN || output->rank == INLAY_RANK_UNKNOWN || output->rank <= input->rank)
        return false;
    ones = *out_ones = output->rank - input->rank;
    for (uint32_t d = 0; d < output->rank; d++) {
        const inlay_dim *dim = &output->dims[d];

        if (d < ones ? dim->kind != INLAY_DIM_FIXED || dim->value != 1 : !rewrite_same_dim(dim, &input->dims[d - ones]))
            return false;
    }
    return true;
}

/* Removes leading axes of size 1 from value until it has that rank. *out is INLAY_NONE if it has other leading axes. */
static inlay_status squeeze_leading_ones(struct rewrite *rewrite, uint32_t value, uint32_t rank, uint32_t *out)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, value);
    int64_t *axes, max_axes = 16;
    graph_node *squeeze;
    uint32_t list, extra;

    *out = INLAY_NONE;
    if (info == NULL || info->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (info->rank <= rank) {
        *out = value;
        return INLAY_OK;
    }
    if (!pass_allows(rewrite->ctx, 13))
        return INLAY_OK;
    extra = info->rank - rank;
    axes = arena_array(&rewrite->scratch, (size_t)max_axes, sizeof *axes);
    for (uint32_t d = 0; d < extra; d++)
        if (extra > max_axes || info->dims[d].kind != INLAY_DIM_FIXED || info->dims[d].value != 1)
            return INLAY_OK;
    for (uint32_t d = 0; axes != NULL && d < extra; d++)
        axes[d] = d;
    list = axes == NULL ? INLAY_NONE : rewrite_constant_ints(rewrite, axes, extra);
    squeeze = list == INLAY_NONE
                  ? NULL
                  : rewrite_make_node(rewrite, "Squeeze", 13, NULL, (const uint32_t[]){ value, list }, 2, 1);
    if (squeeze == NULL || rewrite_insert_node(rewrite, squeeze, info->dtype) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    *out = squeeze->info.outputs[0];
    return INLAY_OK;
}

/* view(op(view(x), c)) becomes op(x, c) if the inner view adds leading axes of size 1 and the outer view removes
 * them. */
static inlay_status drop_leading_ones(struct rewrite *rewrite, graph_node *node, bool *out_done)
{
    static const char *const names[] = { "Add", "Sub", "Mul", "Div" };
    graph_node *op = rewrite_producer(rewrite, rewrite_input(rewrite, node, 0)), *new_node;
    uint32_t output = rewrite_input(rewrite, node, 0), ones, inputs[2];
    inlay_status status;
    size_t k = 0;

    while (op != NULL && k < 4 && !pass_is_op(op, names[k]))
        k++;
    if (op == NULL || k == 4 || op->info.since_version < 7 || !rewrite_has_one_use(rewrite, output))
        return INLAY_OK;
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t value = rewrite_input(rewrite, op, side), input;
        const graph_node *first = rewrite_producer(rewrite, value);

        if (!pass_is_view(first) || !rewrite_has_one_use(rewrite, value) || !rewrite_same_type(rewrite, value, output))
            continue;
        input = rewrite_input(rewrite, first, 0);
        if (!rewrite_same_type(rewrite, input, node->info.outputs[0]) ||
            !has_leading_ones(rewrite, value, input, &ones))
            continue;
        inputs[side] = input;
        status = squeeze_leading_ones(rewrite, rewrite_input(rewrite, op, 1 - side),
                                      rewrite_value_info(rewrite, input)->rank, &inputs[1 - side]);
        if (status != INLAY_OK || inputs[1 - side] == INLAY_NONE)
            return status;
        new_node = rewrite_make_node(rewrite, op->info.op_type.data, op->opset, op, inputs, 2, 1);
        *out_done = true;
        return new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, new_node);
    }
    return INLAY_OK;
}

inlay_status match_merge_views(struct rewrite *rewrite, graph_node *node)
{
    graph_node *inner = pass_is_view(node) ? rewrite_producer(rewrite, rewrite_input(rewrite, node, 0)) : NULL,
               *new_node;
    bool computed = pass_is_op(node, "Reshape") && node->info.since_version >= 5 &&
                    !rewrite_is_constant(rewrite, rewrite_input(rewrite, node, 1));
    const inlay_value_info *output;
    int64_t *shape;
    uint32_t target;
    bool done = false;

    if (pass_is_view(node)) {
        inlay_status status = drop_leading_ones(rewrite, node, &done);

        if (status != INLAY_OK || done)
            return status;
    }
    if (!pass_is_view(inner) && !computed)
        return INLAY_OK;
    output = rewrite_value_info(rewrite, node->info.outputs[0]);
    shape = target_shape(
        rewrite, rewrite_value_info(rewrite, rewrite_input(rewrite, pass_is_view(inner) ? inner : node, 0)), output);
    if (shape == NULL)
        return INLAY_OK;
    target = rewrite_constant_ints(rewrite, shape, output->rank);
    if (computed && target != INLAY_NONE && !pass_is_view(inner)) {
        new_node = rewrite_copy_node(rewrite, node);
        if (new_node == NULL || (graph_attr_int(node, "allowzero", 0) != 0 &&
                                 graph_set_attr_int(rewrite->graph, new_node, "allowzero", 0) != INLAY_OK))
            return rewrite_no_memory(rewrite);
        rewrite_set_input(rewrite, new_node, 1, target);
        return rewrite_replace_node(rewrite, node, new_node);
    }
    new_node = target == INLAY_NONE
                   ? NULL
                   : rewrite_make_node(rewrite, "Reshape", node->opset < 5 ? 5 : node->opset, node,
                                       (const uint32_t[]){ rewrite_input(rewrite, inner, 0), target }, 2, 1);
    return new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, new_node);
}
