/* Reshape, Flatten, Squeeze and Unsqueeze behind one another are one Reshape, when the shape in the end is known but for
 * at most one size; and a Reshape to a shape that is computed, but known so far, reads a constant. */
#include "passes/rewrite.h"

static bool is_view(const graph_node *n)
{
    return n != NULL && (pass_is_op(n, "Reshape") || pass_is_op(n, "Flatten") || pass_is_op(n, "Squeeze") ||
                         pass_is_op(n, "Unsqueeze"));
}

/* The shape as Reshape wants it: sizes, and -1 for one that only the run knows. Zero-sized tensors stay as they are:
 * there 0 means "as the input has it" and -1 can't be computed. */
static int64_t *target_shape(rewrite *w, const inlay_value_info *y)
{
    int64_t *shape;
    uint32_t unknown = 0;

    if (y->rank == INLAY_RANK_UNKNOWN)
        return NULL;
    shape = arena_array(&w->scratch, (size_t)y->rank + 1, sizeof *shape);
    for (uint32_t d = 0; shape != NULL && d < y->rank; d++) {
        bool fixed = y->dims[d].kind == INLAY_DIM_FIXED;

        shape[d] = fixed ? y->dims[d].value : -1;
        unknown += !fixed;
        if (shape[d] == 0 || unknown > 1)
            return NULL;
    }
    return shape;
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
    shape = target_shape(w, y);
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
