/* Nodes whose outputs nobody reads go, and with them what only they read, captures of bodies included. */
#include "passes/pass.h"
#include <string.h>

/* Captures that the (already cleaned) body no longer reads. */
static bool prune_captures(graph_node *n)
{
    bool any = false;

    for (uint32_t b = 0; b < n->body_count; b++) {
        graph_body *body = &n->bodies[b];
        struct graph *g = body->graph;
        uint32_t kept = 0;

        for (uint32_t k = 0; k < body->capture_count; k++) {
            uint32_t v = body->capture_inner[k];
            bool used = pass_is_output(g, v);
            for (uint32_t i = 0; !used && i < g->node_count; i++) {
                const graph_node *m = g->nodes[i];
                for (uint32_t j = 0; !used && j < m->info.input_count; j++)
                    used = m->info.inputs[j] == v;
                for (uint32_t j = 0; !used && j < m->capture_count; j++)
                    used = m->captures[j] == v;
            }
            if (used) {
                body->capture_outer[kept] = body->capture_outer[k];
                body->capture_inner[kept++] = v;
                continue;
            }
            any = true;
        }
        body->capture_count = kept;
        g->captured = body->capture_inner; /* one list, two names: graph_finish */
        g->captured_count = kept;
    }
    if (any)
        pass_refresh_captures(n);
    return any;
}

static inlay_status clean(pass_ctx *ctx, struct graph *g, bool *changed)
{
    bool *live = arena_array(&ctx->model->arena, (size_t)g->value_count + 1, sizeof *live);
    bool *drop = arena_array(&ctx->model->arena, (size_t)g->node_count + 1, sizeof *drop);
    bool any = false;

    if (live == NULL || drop == NULL)
        return no_memory(ctx->diag, "to find dead nodes");
    for (uint32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i] != INLAY_NONE)
            live[g->outputs[i]] = true;
    for (uint32_t i = g->node_count; i-- > 0;) {
        graph_node *n = g->nodes[i];
        bool used = false;

        for (uint32_t o = 0; o < n->info.output_count; o++)
            used |= n->info.outputs[o] != INLAY_NONE && live[n->info.outputs[o]];
        drop[i] = !used && pass_may(ctx);
        any |= drop[i];
        if (drop[i]) {
            pass_count(ctx, g, n, "nobody reads it");
            continue;
        }
        for (uint32_t b = 0; b < n->body_count; b++) {
            inlay_status status = clean(ctx, n->bodies[b].graph, changed);
            if (status != INLAY_OK)
                return status;
        }
        *changed |= n->body_count > 0 && prune_captures(n);
        for (uint32_t k = 0; k < n->info.input_count; k++)
            if (n->info.inputs[k] != INLAY_NONE)
                live[n->info.inputs[k]] = true;
        for (uint32_t k = 0; k < n->capture_count; k++)
            live[n->captures[k]] = true;
    }
    if (any)
        pass_drop_nodes(g, drop);
    *changed |= any;
    return INLAY_OK;
}

inlay_status pass_dead_code(pass_ctx *ctx, bool *out_changed)
{
    return clean(ctx, ctx->model->main, out_changed);
}
