/* The command line with a faulty pass: merge_casts also replaces every difference by a sum. Linked with
 * --wrap=pass_merge_casts. */
#include "passes/rewrite.h"

inlay_status __real_pass_merge_casts(pass_ctx *ctx, bool *out_changed);
inlay_status __wrap_pass_merge_casts(pass_ctx *ctx, bool *out_changed);

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    graph_node *fresh;

    if (!pass_is_op(node, "Sub"))
        return INLAY_OK;
    fresh = rewrite_make_node(rewrite, "Add", 13, node, node->info.inputs, 2, 1);
    return fresh == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, fresh);
}

inlay_status __wrap_pass_merge_casts(pass_ctx *ctx, bool *out_changed)
{
    inlay_status status = __real_pass_merge_casts(ctx, out_changed);

    return status == INLAY_OK ? rewrite_each_graph(ctx, match, out_changed) : status;
}
