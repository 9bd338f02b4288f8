/* Small integer tensors whose elements inference knows (Shape of a known shape, Gather and Concat of such) become
 * constants. Where(Equal(shape, -1), x, shape), as exporters write Expand, is the shape: no size is negative. */
#include "passes/rewrite.h"

/* Is it sure that no element of the shape is the one that it is compared with? */
static bool all_differ(const inlay_value_info *shape, const int64_t *with, uint32_t count)
{
    if (shape->elements == NULL || shape->rank > 1 || (count != 1 && count != shape->element_count))
        return false;
    for (uint64_t i = 0; i < shape->element_count; i++) {
        const inlay_dim *e = &shape->elements[i];
        const int64_t other = with[count == 1 ? 0 : i];

        if (e->kind == INLAY_DIM_FIXED ? e->value == other : e->kind != INLAY_DIM_SYMBOLIC || other >= 0)
            return false;
    }
    return true;
}

/* What Where(Equal(a, b), x, y) is when a and b have nothing in common: y; INLAY_NONE: not so. */
static uint32_t never_chosen(rewrite *w, const graph_node *n)
{
    const graph_node *equal = pass_is_op(n, "Where") ? rw_maker_op(w, rw_input(w, n, 0), "Equal") : NULL;
    const uint32_t other = equal == NULL ? INLAY_NONE : rw_input(w, n, 2);

    for (uint32_t side = 0; equal != NULL && side < 2; side++) {
        const uint32_t shape = rw_input(w, equal, side);
        const int64_t *with;
        uint32_t count;

        if (rw_ints(w, rw_input(w, equal, 1 - side), &with, &count) && all_differ(rw_info(w, shape), with, count) &&
            rw_same_type(w, other, n->info.outputs[0]))
            return other;
    }
    return INLAY_NONE;
}

static inlay_status match(rewrite *w, graph_node *n)
{
    uint32_t v = n->info.output_count == 1 ? n->info.outputs[0] : INLAY_NONE, fresh;
    const inlay_value_info *info = rw_info(w, v);
    int64_t *elements, dims[1];
    bool done;

    if (v == INLAY_NONE || w->is_output[v])
        return INLAY_OK;
    fresh = never_chosen(w, n);
    if (fresh != INLAY_NONE)
        return rw_forward(w, v, fresh, &done);
    if (info->elements == NULL || info->dtype != INLAY_INT64 || info->rank > 1 || info->element_count > 64 ||
        n->body_count > 0)
        return INLAY_OK;
    for (uint64_t i = 0; i < info->element_count; i++)
        if (info->elements[i].kind != INLAY_DIM_FIXED)
            return INLAY_OK;
    elements = arena_array(&w->scratch, (size_t)info->element_count + 1, sizeof *elements);
    if (elements == NULL)
        return rw_no_memory(w);
    for (uint64_t i = 0; i < info->element_count; i++)
        elements[i] = info->elements[i].value;
    dims[0] = (int64_t)info->element_count;
    fresh = rw_constant(w, INLAY_INT64, info->rank, dims, elements, info->element_count * sizeof *elements);
    return fresh == INLAY_NONE ? rw_no_memory(w) : rw_forward(w, v, fresh, &done);
}

inlay_status pass_known_shapes(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
