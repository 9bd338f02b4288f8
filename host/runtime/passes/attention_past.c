/* Splits Attention of ONNX with past keys and values:
 *
 *     Attention(q, k, v, mask, past_k, past_v)  ->  Attention(q, Concat(past_k, k), Concat(past_v, v), mask)
 *
 * on [batch, heads, rows, size]. States that such Concats make are appended in place, and the attention of the provider
 * cpu has no past of its own. */
#include "passes/contributed.h"

inlay_status match_attention_past(struct rewrite *rewrite, graph_node *node)
{
    subgraph_builder builder = { .rewrite = rewrite, .node = node };

    if (!pass_is_op(node, "Attention") || !pass_allows(rewrite->ctx, 23) ||
        rewrite_is_quantized_later(rewrite, node->info.outputs[0]))
        return INLAY_OK;
    decompose_attention_past(&builder);
    return builder.status != INLAY_OK || builder.last == NULL ? builder.status : builder_finish(&builder);
}
