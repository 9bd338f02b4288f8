/* Transpose of a Transpose is one, or none. */
#include "passes/merge_transposes.h"
#include "passes/rewrite.h"

bool transpose_perm(const graph_node *n, uint32_t rank, int64_t *out)
{
    uint32_t count;
    const int64_t *perm = rw_attr_ints(n, "perm", &count);

    if (perm != NULL && count != rank)
        return false;
    for (uint32_t d = 0; d < rank; d++)
        out[d] = perm != NULL ? perm[d] : (int64_t)(rank - 1 - d);
    return true;
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    graph_node *inner = pass_is_op(n, "Transpose") ? rw_maker_op(w, rw_input(w, n, 0), "Transpose") : NULL, *fresh;
    const inlay_value_info *x = inner == NULL ? NULL : rw_info(w, rw_input(w, inner, 0));
    int64_t *first, *then, *both;
    bool idle = true;

    if (x == NULL || x->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    first = arena_array(&w->scratch, (size_t)x->rank + 1, sizeof *first);
    then = arena_array(&w->scratch, (size_t)x->rank + 1, sizeof *then);
    both = arena_array(&w->scratch, (size_t)x->rank + 1, sizeof *both);
    if (first == NULL || then == NULL || both == NULL)
        return rw_no_memory(w);
    if (!transpose_perm(inner, x->rank, first) || !transpose_perm(n, x->rank, then))
        return INLAY_OK;
    for (uint32_t d = 0; d < x->rank; d++) {
        both[d] = first[then[d]];
        idle &= both[d] == (int64_t)d;
    }
    if (idle) {
        bool done;
        inlay_status status = rw_forward(w, n->info.outputs[0], rw_input(w, inner, 0), &done);
        if (status != INLAY_OK || done)
            return status;
    }
    if (!rw_is_only_use(w, rw_input(w, n, 0)))
        return INLAY_OK; /* the first stays anyway, and its result is at hand */
    fresh = rw_make(w, "Transpose", n->opset, n, inner->info.inputs, 1, 1);
    if (fresh == NULL || graph_set_attr_ints(w->g, fresh, "perm", both, x->rank) != INLAY_OK)
        return rw_no_memory(w);
    return rw_replace(w, n, fresh);
}

inlay_status pass_merge_transposes(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
