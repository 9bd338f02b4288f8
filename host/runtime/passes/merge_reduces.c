/* A reduction of a reduction of the same kind is one over the axes of both; a reduction that keeps its axes, followed
 * by Squeeze of just these, does not keep them; one that does not, followed by Unsqueeze of just these, does. */
#include "base/element.h"
#include "passes/rewrite.h"

enum { MOST = 16 };

/* The axes of a node, counted from the front of a tensor of that rank, sorted; false: they are not known, or it is one
 * of all. Axes are an input from ReduceSum-13, Squeeze-13 and the other reductions' -18 on. */
static bool read_axes_of(struct rewrite *rewrite, const graph_node *node, uint32_t rank, int64_t *axes,
                         uint32_t *out_count)
{
    uint32_t count = 0;
    const int64_t *list = rw_attr_ints(node, "axes", &count);

    if (rank == INLAY_RANK_UNKNOWN || (list == NULL && !rw_ints(rewrite, rw_input(rewrite, node, 1), &list, &count)) ||
        count == 0 || count > MOST)
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
    return read_axes_of(rewrite, node, rw_info(rewrite, rw_input(rewrite, node, 0))->rank, axes, out_count);
}

/* Reductions that may be done in two steps or one. */
static bool is_reduction(const graph_node *node)
{
    return pass_is_among(node, "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceLogSumExp");
}

/* The node as `like`, over these axes. */
static graph_node *make_reduce(struct rewrite *rewrite, const graph_node *like, const graph_node *node, uint32_t input,
                               const int64_t *axes, uint32_t count, int64_t keep)
{
    bool by_attr = graph_attr(like, "axes") != NULL;
    uint32_t list = by_attr ? INLAY_NONE : rw_constant_ints(rewrite, axes, count);
    graph_node *fresh = list == INLAY_NONE && !by_attr ? NULL
                                                       : rw_make(rewrite, like->info.op_type.data, like->opset, node,
                                                                 (const uint32_t[]){ input, list }, by_attr ? 1 : 2, 1);

    if (fresh == NULL || graph_set_attr_int(rewrite->graph, fresh, "keepdims", keep) != INLAY_OK ||
        (by_attr && graph_set_attr_ints(rewrite->graph, fresh, "axes", axes, count) != INLAY_OK))
        return NULL;
    return fresh;
}

static inlay_status merge_two(struct rewrite *rewrite, graph_node *node)
{
    graph_node *inner = rw_maker_op(rewrite, rw_input(rewrite, node, 0), node->info.op_type.data), *fresh;
    int64_t axes[2 * MOST], more[MOST];
    uint32_t count = 0, more_count = 0;

    /* The axes of the second mean the same only when the first kept its own, which the result then has as well. */
    if (inner == NULL || rw_attr_int(node, "keepdims", 1) == 0 ||
        !rw_is_only_use(rewrite, rw_input(rewrite, node, 0)) || rw_attr_int(inner, "keepdims", 1) == 0 ||
        pass_is_op(node, "ReduceLogSumExp") ||
        (pass_is_op(node, "ReduceMean") && !element_is_float(rw_info(rewrite, node->info.outputs[0])->dtype)) ||
        !read_axes(rewrite, inner, axes, &count) || !read_axes(rewrite, node, more, &more_count))
        return INLAY_OK;
    for (uint32_t i = 0; i < more_count; i++) {
        for (uint32_t k = 0; k < count; k++)
            if (axes[k] == more[i])
                return INLAY_OK;
        axes[count++] = more[i];
    }
    fresh = make_reduce(rewrite, node, node, rw_input(rewrite, inner, 0), axes, count, 1);
    return fresh == NULL ? rw_no_memory(rewrite) : rw_replace(rewrite, node, fresh);
}

/* view: Squeeze, where the reduction keeps its axes, or Unsqueeze, where it does not. */
static inlay_status join_view(struct rewrite *rewrite, graph_node *view, bool keeps)
{
    graph_node *inner = rw_maker(rewrite, rw_input(rewrite, view, 0)), *fresh;
    int64_t axes[MOST], viewed[MOST];
    uint32_t count = 0, viewed_count = 0;

    if (inner == NULL || !is_reduction(inner) || !rw_is_only_use(rewrite, rw_input(rewrite, view, 0)) ||
        (rw_attr_int(inner, "keepdims", 1) != 0) != keeps || !read_axes(rewrite, inner, axes, &count) ||
        !read_axes_of(rewrite, view, rw_info(rewrite, rw_input(rewrite, inner, 0))->rank, viewed, &viewed_count) ||
        viewed_count != count)
        return INLAY_OK;
    for (uint32_t i = 0; i < count; i++)
        if (axes[i] != viewed[i])
            return INLAY_OK;
    fresh = make_reduce(rewrite, inner, view, rw_input(rewrite, inner, 0), axes, count, !keeps);
    return fresh == NULL ? rw_no_memory(rewrite) : rw_replace(rewrite, view, fresh);
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    if (pass_is_op(node, "Squeeze"))
        return join_view(rewrite, node, true);
    if (pass_is_op(node, "Unsqueeze"))
        return join_view(rewrite, node, false);
    return is_reduction(node) ? merge_two(rewrite, node) : INLAY_OK;
}

inlay_status pass_merge_reduces(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
