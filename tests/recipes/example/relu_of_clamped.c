/* Relu of Clamped is Clamped. */
#include "passes/rewrite.h"
#include <string.h>

static inlay_status match(struct rewrite *w, graph_node *n)
{
    const graph_node *clamped = pass_is_op(n, "Relu") ? rw_maker(w, rw_input(w, n, 0)) : NULL;
    bool done;

    if (clamped == NULL || strcmp(clamped->info.op_type.data, "Clamped") != 0)
        return INLAY_OK;
    return rw_forward(w, n->info.outputs[0], rw_input(w, n, 0), &done);
}

inlay_status pass_relu_of_clamped(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
