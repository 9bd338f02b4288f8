/* Merges two reductions of the same kind into one over the axes of both; a reduction with keepdims and a Squeeze of
 * just its axes into one without keepdims; and a reduction without keepdims and an Unsqueeze of its axes into one with
 * keepdims. */
#include "base/element.h"
#include "passes/rewrite.h"

enum { MAX_AXES = 16 };

/* Reads the axes of a node, non-negative and sorted, for a tensor of that rank. Returns false if they are unknown, or
 * if the node reduces all axes. Axes are an input from ReduceSum-13, Squeeze-13 and, for other reductions, version 18
 * on. */
static bool read_axes_for_rank(struct rewrite *rewrite, const graph_node *node, uint32_t rank, int64_t *axes,
                               uint32_t *out_count)
{
    uint32_t count = 0;
    const int64_t *list = rewrite_attr_ints(node, "axes", &count);

    if (rank == INLAY_RANK_UNKNOWN ||
        (list == NULL && !rewrite_integers(rewrite, rewrite_input(rewrite, node, 1), &list, &count)) || count == 0 ||
        count > MAX_AXES)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = list[i] < 0 ? list[i] + (int64_t)rank : list[i];
        uint32_t k = i;

        for (; k > 0 && axes[k - 1] > axis; k--)
            axes[k] = axes[k - 1];
        axes[k] = axis;
    }
    *out_count = count;
    return true;
}

static bool read_axes(struct rewrite *rewrite, const graph_node *node, int64_t *axes, uint32_t *out_count)
{
    return read_axes_for_rank(rewrite, node, rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0))->rank, axes,
                              out_count);
}

/* Reductions for which two steps equal one. */
static bool is_reduction(const graph_node *node)
{
    return pass_is_among(node, "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceLogSumExp");
}

/* Creates a reduction like `like` over these axes. */
static graph_node *make_reduce(struct rewrite *rewrite, const graph_node *like, const graph_node *node, uint32_t input,
                               const int64_t *axes, uint32_t count, int64_t keep)
{
    bool by_attr = graph_attr(like, "axes") != NULL;
    uint32_t list = by_attr ? INLAY_NONE : rewrite_constant_ints(rewrite, axes, count);
    graph_node *new_node = list == INLAY_NONE && !by_attr
                               ? NULL
                               : rewrite_make_node(rewrite, like->info.op_type.data, like->opset, node,
                                                   (const uint32_t[]){ input, list }, by_attr ? 1 : 2, 1);

    if (new_node == NULL || graph_set_attr_int(rewrite->graph, new_node, "keepdims", keep) != INLAY_OK ||
        (by_attr && graph_set_attr_ints(rewrite->graph, new_node, "axes", axes, count) != INLAY_OK))
        return NULL;
    return new_node;
}

static inlay_status merge_two(struct rewrite *rewrite, graph_node *node)
{
    graph_node *inner = rewrite_producer_op(rewrite, rewrite_input(rewrite, node, 0), node->info.op_type.data),
               *new_node;
    int64_t axes[2 * MAX_AXES], outer_axes[MAX_AXES];
    uint32_t count = 0, outer_count = 0;

    /* The axes of the outer one refer to the same dimensions only if the inner one has keepdims; the result then has
     * it, too. */
    if (inner == NULL || graph_attr_int(node, "keepdims", 1) == 0 ||
        !rewrite_has_one_use(rewrite, rewrite_input(rewrite, node, 0)) || graph_attr_int(inner, "keepdims", 1) == 0 ||
        pass_is_op(node, "ReduceLogSumExp") ||
        (pass_is_op(node, "ReduceMean") &&
         !element_is_float(rewrite_value_info(rewrite, node->info.outputs[0])->dtype)) ||
        !read_axes(rewrite, inner, axes, &count) || !read_axes(rewrite, node, outer_axes, &outer_count))
        return INLAY_OK;
    for (uint32_t i = 0; i < outer_count; i++) {
        for (uint32_t k = 0; k < count; k++)
            if (axes[k] == outer_axes[i])
                return INLAY_OK;
        axes[count++] = outer_axes[i];
    }
    new_node = make_reduce(rewrite, node, node, rewrite_input(rewrite, inner, 0), axes, count, 1);
    return new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, new_node);
}

/* view: a Squeeze if the reduction keeps its axes (`keeps_axes`), otherwise an Unsqueeze. */
static inlay_status merge_view(struct rewrite *rewrite, graph_node *view, bool keeps_axes)
{
    graph_node *inner = rewrite_producer(rewrite, rewrite_input(rewrite, view, 0)), *new_node;
    int64_t axes[MAX_AXES], viewed[MAX_AXES];
    uint32_t count = 0, viewed_count = 0;

    if (inner == NULL || !is_reduction(inner) || !rewrite_has_one_use(rewrite, rewrite_input(rewrite, view, 0)) ||
        (graph_attr_int(inner, "keepdims", 1) != 0) != keeps_axes || !read_axes(rewrite, inner, axes, &count) ||
        !read_axes_for_rank(rewrite, view, rewrite_value_info(rewrite, rewrite_input(rewrite, inner, 0))->rank, viewed,
                            &viewed_count) ||
        viewed_count != count)
        return INLAY_OK;
    for (uint32_t i = 0; i < count; i++)
        if (axes[i] != viewed[i])
            return INLAY_OK;
    new_node = make_reduce(rewrite, inner, view, rewrite_input(rewrite, inner, 0), axes, count, !keeps_axes);
    return new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, view, new_node);
}

inlay_status match_merge_reduces(struct rewrite *rewrite, graph_node *node)
{
    if (pass_is_op(node, "Squeeze"))
        return merge_view(rewrite, node, true);
    if (pass_is_op(node, "Unsqueeze"))
        return merge_view(rewrite, node, false);
    return is_reduction(node) ? merge_two(rewrite, node) : INLAY_OK;
}
