#include "passes/pass.h"
#include <string.h>

enum { MAX_ROUNDS = 16 };

static const struct {
    uint32_t level;
    pass_fn run;
} passes[] = {
#define PASS(level, name) { level, pass_##name },
#include "passes/passes.def"
#undef PASS
};

inlay_status passes_run(pass_ctx *ctx, uint32_t level)
{
    bool changed = true;

    for (uint32_t round = 0; changed && round < MAX_ROUNDS; round++) {
        changed = false;
        for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
            bool one = false;
            inlay_status status = passes[i].level > level ? INLAY_OK : passes[i].run(ctx, &one);

            if (status == INLAY_OK && one)
                status = graph_finish(ctx->model->main, ctx->diag);
            if (status != INLAY_OK)
                return status;
            changed |= one;
        }
        if (changed) {
            inlay_status status = graph_infer(ctx->model, ctx->diag);
            if (status != INLAY_OK)
                return status;
        }
    }
    return INLAY_OK;
}

inlay_status pass_each_graph(pass_ctx *ctx, graph *g, pass_graph_fn fn, bool *changed)
{
    inlay_status status = fn(ctx, g, changed);

    for (uint32_t i = 0; status == INLAY_OK && i < g->node_count; i++)
        for (uint32_t b = 0; status == INLAY_OK && b < g->nodes[i]->body_count; b++)
            status = pass_each_graph(ctx, g->nodes[i]->bodies[b].graph, fn, changed);
    return status;
}

static void replace_in(const uint32_t *replacement, uint32_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        while (values[i] != INLAY_NONE && replacement[values[i]] != INLAY_NONE)
            values[i] = replacement[values[i]];
}

void pass_replace_uses(graph *g, const uint32_t *replacement)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        graph_node *n = g->nodes[i];
        replace_in(replacement, (uint32_t *)(uintptr_t)n->info.inputs, n->info.input_count);
        replace_in(replacement, n->captures, n->capture_count);
        for (uint32_t b = 0; b < n->body_count; b++)
            replace_in(replacement, n->bodies[b].capture_outer, n->bodies[b].capture_count);
    }
}

void pass_drop_nodes(graph *g, const bool *drop)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < g->node_count; i++)
        if (!drop[i])
            g->nodes[kept++] = g->nodes[i];
    g->node_count = kept;
}

bool pass_is_op(const graph_node *n, const char *op_type)
{
    return strcmp(n->info.op_type.data, op_type) == 0 && strcmp(n->info.domain.data, "ai.onnx") == 0;
}

bool pass_is_output(const graph *g, uint32_t v)
{
    for (uint32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i] == v)
            return true;
    return false;
}
