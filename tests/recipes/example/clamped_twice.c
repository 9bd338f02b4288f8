/* Clamped of Clamped is Clamped. */
#include "passes/rewrite.h"

static inlay_status match(rewrite *w, graph_node *n)
{
    bool done;

    if (!pass_is_op(n, "Clamped") || rw_maker_op(w, rw_input(w, n, 0), "Clamped") == NULL)
        return INLAY_OK;
    return rw_forward(w, n->info.outputs[0], rw_input(w, n, 0), &done);
}

inlay_status pass_clamped_twice(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
