/* Small integer tensors whose elements inference knows (Shape of a known shape, Gather and Concat of such) become
 * constants. Where(Equal(shape, -1), x, shape), as exporters write Expand, is the shape: no size is negative. A size
 * that an input of the graph has is read from there, not from what is made of it: nothing has to be computed for it
 * first, and what is in between may be one region. */
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
static uint32_t never_chosen(struct rewrite *w, const graph_node *n)
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

/* Finds the input of the graph that has the size, and where. */
static bool find_input(const struct rewrite *w, const inlay_dim *size, uint32_t *out_input, int64_t *out_axis)
{
    for (uint32_t i = 0; i < w->g->input_count; i++) {
        const inlay_value_info *x = rw_info(w, w->g->inputs[i]);

        for (uint32_t d = 0; x->kind == INLAY_VALUE_TENSOR && x->rank != INLAY_RANK_UNKNOWN && d < x->rank; d++)
            if (x->dims[d].kind == INLAY_DIM_SYMBOLIC && x->dims[d].symbol == size->symbol) {
                *out_input = w->g->inputs[i];
                *out_axis = d;
                return true;
            }
    }
    return false;
}

/* Gather of one size of a value that the graph makes. */
static inlay_status read_input(struct rewrite *w, graph_node *n)
{
    const inlay_value_info *info = rw_info(w, n->info.outputs[0]);
    graph_node *shape = pass_is_op(n, "Gather") ? rw_maker_op(w, rw_input(w, n, 0), "Shape") : NULL, *fresh;
    uint32_t reads[2];
    int64_t axis;

    if (shape == NULL || n->made_by != NULL || rw_maker(w, rw_input(w, shape, 0)) == NULL || info->element_count != 1 ||
        info->elements[0].kind != INLAY_DIM_SYMBOLIC || !find_input(w, &info->elements[0], &reads[0], &axis))
        return INLAY_OK;
    shape = rw_make(w, "Shape", 13, shape, &reads[0], 1, 1);
    if (shape == NULL || rw_insert(w, shape, INLAY_INT64) != INLAY_OK)
        return rw_no_memory(w);
    reads[0] = shape->info.outputs[0];
    reads[1] = rw_constant(w, INLAY_INT64, info->rank, (const int64_t[]){ 1 }, &axis, sizeof axis);
    fresh = reads[1] == INLAY_NONE ? NULL : rw_make(w, "Gather", 13, n, reads, 2, 1);
    return fresh == NULL ? rw_no_memory(w) : rw_replace(w, n, fresh);
}

static inlay_status match(struct rewrite *w, graph_node *n)
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
            return read_input(w, n);
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
