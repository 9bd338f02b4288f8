/* Concat of a Concat along the same axis is one. */
#include "passes/rewrite.h"

static int64_t axis_of(const struct rewrite *w, const graph_node *n)
{
    int64_t axis = rw_attr_int(n, "axis", 1), rank = rw_info(w, n->info.outputs[0])->rank;

    return axis < 0 ? axis + rank : axis;
}

/* The Concat that makes input i, if it may be dissolved. */
static graph_node *inner_at(const struct rewrite *w, const graph_node *n, uint32_t i)
{
    uint32_t v = rw_input(w, n, i);
    graph_node *inner = rw_maker_op(w, v, "Concat");

    return inner != NULL && rw_is_only_use(w, v) && axis_of(w, inner) == axis_of(w, n) ? inner : NULL;
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    uint32_t total = 0, *inputs, count = 0;
    graph_node *fresh;
    bool any = false;

    if (!pass_is_op(n, "Concat") || rw_info(w, n->info.outputs[0])->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    for (uint32_t i = 0; i < n->info.input_count; i++) {
        const graph_node *inner = inner_at(w, n, i);
        any |= inner != NULL;
        total += inner != NULL ? inner->info.input_count : 1;
    }
    if (!any)
        return INLAY_OK;
    inputs = arena_array(&w->scratch, (size_t)total + 1, sizeof *inputs);
    if (inputs == NULL)
        return rw_no_memory(w);
    for (uint32_t i = 0; i < n->info.input_count; i++) {
        const graph_node *inner = inner_at(w, n, i);
        if (inner == NULL)
            inputs[count++] = rw_input(w, n, i);
        for (uint32_t k = 0; inner != NULL && k < inner->info.input_count; k++)
            inputs[count++] = rw_input(w, inner, k);
    }
    fresh = rw_make(w, "Concat", n->opset, n, inputs, count, 1);
    if (fresh == NULL || graph_set_attr_int(w->g, fresh, "axis", axis_of(w, n)) != INLAY_OK)
        return rw_no_memory(w);
    return rw_replace(w, n, fresh);
}

inlay_status pass_merge_concats(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
