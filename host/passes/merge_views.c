/* Reshape, Flatten, Squeeze and Unsqueeze behind one another are one Reshape, when the shape in the end is known but for
 * sizes that x has at the same place, or at most one other; and a Reshape to a shape that is computed, but known so far,
 * reads a constant. */
#include "passes/rewrite.h"

static bool is_view(const graph_node *n)
{
    return n != NULL && (pass_is_op(n, "Reshape") || pass_is_op(n, "Flatten") || pass_is_op(n, "Squeeze") ||
                         pass_is_op(n, "Unsqueeze"));
}

/* The shape as Reshape of x wants it: sizes, 0 where x has that size at the same place, and -1 for one that only the run
 * knows. With a size of 0 nothing is done, and -1 does not stand beside a size that might be: it can't be computed then. */
static int64_t *target_shape(rewrite *w, const inlay_value_info *x, const inlay_value_info *y)
{
    int64_t *shape;
    uint32_t unknown = 0, copied = 0;

    if (y->rank == INLAY_RANK_UNKNOWN)
        return NULL;
    shape = arena_array(&w->scratch, (size_t)y->rank + 1, sizeof *shape);
    for (uint32_t d = 0; shape != NULL && d < y->rank; d++) {
        const inlay_dim *dim = &y->dims[d];

        shape[d] = dim->kind == INLAY_DIM_FIXED ? dim->value : -1;
        if (shape[d] == 0)
            return NULL;
        if (dim->kind == INLAY_DIM_SYMBOLIC && x->rank != INLAY_RANK_UNKNOWN && d < x->rank &&
            x->dims[d].kind == INLAY_DIM_SYMBOLIC && x->dims[d].symbol == dim->symbol) {
            shape[d] = 0;
            copied++;
        }
        unknown += shape[d] < 0;
    }
    return unknown > (copied > 0 ? 0 : 1) ? NULL : shape;
}

static inlay_status match(rewrite *w, graph_node *n)
{
    graph_node *inner = is_view(n) ? rw_maker(w, rw_input(w, n, 0)) : NULL, *fresh;
    bool computed = pass_is_op(n, "Reshape") && n->info.since_version >= 5 && !rw_is_constant(w, rw_input(w, n, 1));
    const inlay_value_info *y;
    int64_t *shape;
    uint32_t target;

    if (!is_view(inner) && !computed)
        return INLAY_OK;
    y = rw_info(w, n->info.outputs[0]);
    shape = target_shape(w, rw_info(w, rw_input(w, is_view(inner) ? inner : n, 0)), y);
    if (shape == NULL)
        return INLAY_OK;
    target = rw_constant_ints(w, shape, y->rank);
    if (computed && target != INLAY_NONE && !is_view(inner)) {
        rw_set_input(w, n, 1, target);
        if (rw_attr_int(n, "allowzero", 0) != 0 && graph_set_attr_int(w->g, n, "allowzero", 0) != INLAY_OK)
            return rw_no_memory(w);
        return INLAY_OK;
    }
    fresh = target == INLAY_NONE ? NULL : rw_make(w, "Reshape", n->opset < 5 ? 5 : n->opset, n,
                                                  (const uint32_t[]){ rw_input(w, inner, 0), target }, 2, 1);
    return fresh == NULL ? rw_no_memory(w) : rw_replace(w, n, fresh);
}

inlay_status pass_merge_views(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
