/* Transposes of the same kind before all inputs of an element-wise operator, or of Concat, are one behind it. */
#include "passes/merge_transposes.h"
#include "passes/rewrite.h"

enum { MOST = 16 }; /* axes */

static bool is_pointwise(const graph_node *n)
{
    return pass_is_among(n, "Add Sub Mul Div Pow Max Min Sum Mean") && n->info.since_version >= 7;
}

/* Is every input a Transpose by one perm of a value of that rank, read by this node alone? */
static bool all_transposed(const struct rewrite *w, const graph_node *n, uint32_t rank, int64_t *out_perm)
{
    int64_t perm[MOST];

    for (uint32_t i = 0; i < n->info.input_count; i++) {
        uint32_t v = rw_input(w, n, i);
        const graph_node *t = rw_maker_op(w, v, "Transpose");

        if (t == NULL || !rw_is_only_use(w, v) || rw_info(w, v)->rank != rank ||
            rw_info(w, rw_input(w, t, 0))->rank != rank || !transpose_perm(t, rank, i == 0 ? out_perm : perm))
            return false;
        for (uint32_t d = 0; i > 0 && d < rank; d++)
            if (perm[d] != out_perm[d])
                return false;
    }
    return true;
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    bool concat = pass_is_op(n, "Concat");
    uint32_t rank = n->info.output_count == 1 ? rw_info(w, n->info.outputs[0])->rank : INLAY_RANK_UNKNOWN, *inputs;
    int64_t perm[MOST], axis = concat ? rw_attr_int(n, "axis", 1) : 0;
    graph_node *inner, *fresh;

    if ((!concat && !is_pointwise(n)) || n->info.input_count < 2 || rank == INLAY_RANK_UNKNOWN || rank > MOST ||
        !all_transposed(w, n, rank, perm))
        return INLAY_OK;
    inputs = arena_array(&w->scratch, n->info.input_count, sizeof *inputs);
    if (inputs == NULL)
        return rw_no_memory(w);
    for (uint32_t i = 0; i < n->info.input_count; i++)
        inputs[i] = rw_input(w, rw_maker(w, rw_input(w, n, i)), 0);
    axis = axis < 0 ? axis + (int64_t)rank : axis;
    inner = rw_make(w, n->info.op_type.data, n->opset, n, inputs, n->info.input_count, 1);
    if (inner == NULL || (concat && graph_set_attr_int(w->g, inner, "axis", perm[axis]) != INLAY_OK) ||
        rw_insert(w, inner, rw_info(w, n->info.outputs[0])->dtype) != INLAY_OK)
        return rw_no_memory(w);
    fresh = rw_make(w, "Transpose", n->opset, NULL, inner->info.outputs, 1, 1);
    if (fresh == NULL || graph_set_attr_ints(w->g, fresh, "perm", perm, rank) != INLAY_OK)
        return rw_no_memory(w);
    return rw_replace(w, n, fresh);
}

inlay_status pass_sink_transposes(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
