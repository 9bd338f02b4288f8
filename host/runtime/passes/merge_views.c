/* Reshape, Flatten, Squeeze and Unsqueeze behind one another are one Reshape, when the shape in the end is known but
 * for sizes that x has at the same place, or at most one other; and a Reshape to a shape that is computed, but known so
 * far, reads a constant. A view that puts axes of 1 in front, an element-wise operator, and a view that takes them
 * away: the operator alone. */
#include "passes/rewrite.h"

static bool is_view(const graph_node *n)
{
    return n != NULL && pass_is_among(n, "Reshape Flatten Squeeze Unsqueeze");
}

/* The shape as Reshape of x wants it: sizes, 0 where x has that size at the same place, and -1 for one that only the
 * run knows. With a size of 0 nothing is done, and -1 does not stand beside a size that might be: it can't be computed
 * then. */
static int64_t *target_shape(struct rewrite *w, const inlay_value_info *x, const inlay_value_info *y)
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

/* Is `long_v` v with axes of 1 in front? Gives their number. */
static bool has_leading_ones(const struct rewrite *w, uint32_t long_v, uint32_t v, uint32_t *out_ones)
{
    const inlay_value_info *y = rw_info(w, long_v), *x = rw_info(w, v);
    uint32_t ones;

    if (x->rank == INLAY_RANK_UNKNOWN || y->rank == INLAY_RANK_UNKNOWN || y->rank <= x->rank)
        return false;
    ones = *out_ones = y->rank - x->rank;
    for (uint32_t d = 0; d < y->rank; d++) {
        const inlay_dim *a = &y->dims[d], *b = d < ones ? NULL : &x->dims[d - ones];

        if (b == NULL ? a->kind != INLAY_DIM_FIXED || a->value != 1
                      : a->kind != b->kind ||
                            (a->kind == INLAY_DIM_FIXED ? a->value != b->value
                                                        : a->kind != INLAY_DIM_SYMBOLIC || a->symbol != b->symbol))
            return false;
    }
    return true;
}

/* c without as many axes of 1 in front as it has more than `rank`; INLAY_NONE: it has others there, or (status) no
 * memory. */
static inlay_status without_ones(struct rewrite *w, uint32_t c, uint32_t rank, uint32_t *out)
{
    const inlay_value_info *info = rw_info(w, c);
    int64_t *axes, most = 16;
    graph_node *squeeze;
    uint32_t list, more;

    *out = INLAY_NONE;
    if (info == NULL || info->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (info->rank <= rank) {
        *out = c;
        return INLAY_OK;
    }
    if (!pass_allows(w->ctx, 13))
        return INLAY_OK;
    more = info->rank - rank;
    axes = arena_array(&w->scratch, (size_t)most, sizeof *axes);
    for (uint32_t d = 0; d < more; d++)
        if (more > most || info->dims[d].kind != INLAY_DIM_FIXED || info->dims[d].value != 1)
            return INLAY_OK;
    for (uint32_t d = 0; axes != NULL && d < more; d++)
        axes[d] = d;
    list = axes == NULL ? INLAY_NONE : rw_constant_ints(w, axes, more);
    squeeze = list == INLAY_NONE ? NULL : rw_make(w, "Squeeze", 13, NULL, (const uint32_t[]){ c, list }, 2, 1);
    if (squeeze == NULL || rw_insert(w, squeeze, info->dtype) != INLAY_OK)
        return rw_no_memory(w);
    *out = squeeze->info.outputs[0];
    return INLAY_OK;
}

/* view(op(view(x), c)), where the first view puts axes of 1 in front of x and the second takes them away: op(x, c). */
static inlay_status join_across(struct rewrite *w, graph_node *n, bool *out_done)
{
    static const char *const names[] = { "Add", "Sub", "Mul", "Div" };
    graph_node *op = rw_maker(w, rw_input(w, n, 0)), *fresh;
    uint32_t y = rw_input(w, n, 0), ones, inputs[2];
    inlay_status status;
    size_t k = 0;

    while (op != NULL && k < 4 && !pass_is_op(op, names[k]))
        k++;
    if (op == NULL || k == 4 || op->info.since_version < 7 || !rw_is_only_use(w, y))
        return INLAY_OK;
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t v = rw_input(w, op, side), x;
        const graph_node *first = rw_maker(w, v);

        if (!is_view(first) || !rw_is_only_use(w, v) || !rw_same_type(w, v, y))
            continue;
        x = rw_input(w, first, 0);
        if (!rw_same_type(w, x, n->info.outputs[0]) || !has_leading_ones(w, v, x, &ones))
            continue;
        inputs[side] = x;
        status = without_ones(w, rw_input(w, op, 1 - side), rw_info(w, x)->rank, &inputs[1 - side]);
        if (status != INLAY_OK || inputs[1 - side] == INLAY_NONE)
            return status;
        fresh = rw_make(w, op->info.op_type.data, op->opset, op, inputs, 2, 1);
        *out_done = true;
        return fresh == NULL ? rw_no_memory(w) : rw_replace(w, n, fresh);
    }
    return INLAY_OK;
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    graph_node *inner = is_view(n) ? rw_maker(w, rw_input(w, n, 0)) : NULL, *fresh;
    bool computed = pass_is_op(n, "Reshape") && n->info.since_version >= 5 && !rw_is_constant(w, rw_input(w, n, 1));
    const inlay_value_info *y;
    int64_t *shape;
    uint32_t target;
    bool done = false;

    if (is_view(n)) {
        inlay_status status = join_across(w, n, &done);

        if (status != INLAY_OK || done)
            return status;
    }
    if (!is_view(inner) && !computed)
        return INLAY_OK;
    y = rw_info(w, n->info.outputs[0]);
    shape = target_shape(w, rw_info(w, rw_input(w, is_view(inner) ? inner : n, 0)), y);
    if (shape == NULL)
        return INLAY_OK;
    target = rw_constant_ints(w, shape, y->rank);
    if (computed && target != INLAY_NONE && !is_view(inner)) {
        fresh = rw_copy(w, n);
        if (fresh == NULL ||
            (rw_attr_int(n, "allowzero", 0) != 0 && graph_set_attr_int(w->g, fresh, "allowzero", 0) != INLAY_OK))
            return rw_no_memory(w);
        rw_set_input(w, fresh, 1, target);
        return rw_replace(w, n, fresh);
    }
    fresh = target == INLAY_NONE ? NULL
                                 : rw_make(w, "Reshape", n->opset < 5 ? 5 : n->opset, n,
                                           (const uint32_t[]){ rw_input(w, inner, 0), target }, 2, 1);
    return fresh == NULL ? rw_no_memory(w) : rw_replace(w, n, fresh);
}

inlay_status pass_merge_views(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
