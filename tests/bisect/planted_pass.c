/* The command line with a faulty pass: merge_casts also replaces every difference by a sum. Linked with
 * --wrap=match_merge_casts. */
#include "passes/rewrite.h"

inlay_status __real_match_merge_casts(struct rewrite *rewrite, graph_node *node);
inlay_status __wrap_match_merge_casts(struct rewrite *rewrite, graph_node *node);

inlay_status __wrap_match_merge_casts(struct rewrite *rewrite, graph_node *node)
{
    graph_node *fresh;

    if (!pass_is_op(node, "Sub"))
        return __real_match_merge_casts(rewrite, node);
    fresh = rewrite_make_node(rewrite, "Add", 13, node, node->info.inputs, 2, 1);
    return fresh == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, fresh);
}
