/* Removes nodes whose outputs have no readers, then the producers that only they used, and captures
 * that their body does not use. */
#include "passes/pass.h"
#include <string.h>

/* Removes captures that the body, which has been cleaned already, does not read. Returns true if there were any. */
static bool prune_captures(graph_node *node)
{
    bool any = false;

    for (uint32_t b = 0; b < node->body_count; b++) {
        graph_body *body = &node->bodies[b];
        struct graph *graph = body->graph;
        uint32_t kept = 0;

        for (uint32_t k = 0; k < body->capture_count; k++) {
            uint32_t value = body->capture_inner[k];
            bool used = pass_is_output(graph, value);
            for (uint32_t i = 0; !used && i < graph->node_count; i++) {
                const graph_node *reader = graph->nodes[i];
                for (uint32_t j = 0; !used && j < reader->info.input_count; j++)
                    used = reader->info.inputs[j] == value;
                for (uint32_t j = 0; !used && j < reader->capture_count; j++)
                    used = reader->captures[j] == value;
            }
            if (used) {
                body->capture_outer[kept] = body->capture_outer[k];
                body->capture_inner[kept++] = value;
                continue;
            }
            any = true;
        }
        body->capture_count = kept;
        graph->captured = body->capture_inner; /* shared with the body; see graph_finish */
        graph->captured_count = kept;
    }
    if (any)
        pass_refresh_captures(node);
    return any;
}

static inlay_status clean(pass_ctx *ctx, struct graph *graph, bool *changed)
{
    bool *live = arena_array(&ctx->model->arena, (size_t)graph->value_count + 1, sizeof *live);
    bool *drop = arena_array(&ctx->model->arena, (size_t)graph->node_count + 1, sizeof *drop);
    bool any = false;

    if (live == NULL || drop == NULL)
        return no_memory(ctx->diag, "to find dead nodes");
    for (uint32_t i = 0; i < graph->output_count; i++)
        if (graph->outputs[i] != INLAY_NONE)
            live[graph->outputs[i]] = true;
    for (uint32_t i = graph->node_count; i-- > 0;) {
        graph_node *node = graph->nodes[i];
        bool used = false;

        for (uint32_t output = 0; output < node->info.output_count; output++)
            used |= node->info.outputs[output] != INLAY_NONE && live[node->info.outputs[output]];
        drop[i] = !used && pass_may(ctx);
        any |= drop[i];
        if (drop[i]) {
            pass_count(ctx, graph, node, "its outputs are unused");
            continue;
        }
        for (uint32_t b = 0; b < node->body_count; b++) {
            inlay_status status = clean(ctx, node->bodies[b].graph, changed);
            if (status != INLAY_OK)
                return status;
        }
        *changed |= node->body_count > 0 && prune_captures(node);
        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (node->info.inputs[k] != INLAY_NONE)
                live[node->info.inputs[k]] = true;
        for (uint32_t k = 0; k < node->capture_count; k++)
            live[node->captures[k]] = true;
    }
    if (any)
        pass_drop_nodes(graph, drop);
    *changed |= any;
    return INLAY_OK;
}

inlay_status pass_dead_code(pass_ctx *ctx, bool *out_changed)
{
    return clean(ctx, ctx->model->main, out_changed);
}
