/* Small integer tensors whose elements inference knows (Shape of a known shape, Gather and Concat of such) become
 * constants. */
#include "passes/rewrite.h"

static inlay_status match(rewrite *w, graph_node *n)
{
    uint32_t v = n->info.output_count == 1 ? n->info.outputs[0] : INLAY_NONE, fresh;
    const inlay_value_info *info = rw_info(w, v);
    int64_t *elements, dims[1];
    bool done;

    if (v == INLAY_NONE || w->is_output[v] || info->elements == NULL || info->dtype != INLAY_INT64 || info->rank > 1 ||
        info->element_count > 64 || n->body_count > 0)
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
