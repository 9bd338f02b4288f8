/* Gradient of ai.onnx.preview.training. The program registers the implementation; without one, such models are
 * rejected. */
#include "passes/pass.h"
#include <string.h>

static pass_fn derive;

void passes_set_gradient(pass_fn fn)
{
    derive = fn;
}

bool pass_is_gradient(const graph_node *node)
{
    return node->schema != NULL && strcmp(node->info.op_type.data, "Gradient") == 0 &&
           strcmp(node->info.domain.data, "ai.onnx.preview.training") == 0;
}

static inlay_status refuse(pass_ctx *ctx, struct graph *graph, bool *changed)
{
    (void)changed;
    for (uint32_t i = 0; i < graph->node_count; i++)
        if (pass_is_gradient(graph->nodes[i]))
            return graph_fail(
                graph, graph->nodes[i], NULL, INLAY_UNSUPPORTED, ctx->diag,
                "only the command line computes gradients; `inlay optimize --level 0 MODEL -o FILE` writes "
                "the model with the operators that compute them");
    return INLAY_OK;
}

inlay_status pass_gradient(pass_ctx *ctx, bool *out_changed)
{
    return derive != NULL ? derive(ctx, out_changed) : pass_each_graph(ctx, ctx->model->main, refuse, out_changed);
}
