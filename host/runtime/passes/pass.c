/* What passes do with the nodes of a graph, besides rewrites (rewrite.h). */
#include "passes/pass.h"
#include "inlay/check.h"
#include "base/among.h"
#include "base/order.h"
#include "graph/history.h"
#include <stdlib.h>
#include <string.h>

void pass_count(pass_ctx *ctx, const struct graph *graph, const graph_node *node, const char *text)
{
    ctx->run.rewrites++;
    ctx->model->rewrite.number = ctx->run.rewrites + 1;
    if (ctx->report.note != NULL && text != NULL)
        ctx->report.note(ctx->report.ctx, ctx->run.pass, ctx->run.rewrites, graph, node, text);
}

inlay_status pass_each_graph(pass_ctx *ctx, struct graph *graph, pass_graph_fn fn, bool *changed)
{
    inlay_status status = fn(ctx, graph, changed);

    for (uint32_t i = 0; status == INLAY_OK && i < graph->node_count; i++)
        for (uint32_t b = 0; status == INLAY_OK && b < graph->nodes[i]->body_count; b++)
            status = pass_each_graph(ctx, graph->nodes[i]->bodies[b].graph, fn, changed);
    return status;
}

static void replace_in(const uint32_t *replacement, uint32_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        while (values[i] != INLAY_NONE && replacement[values[i]] != INLAY_NONE)
            values[i] = replacement[values[i]];
}

void pass_replace_uses(struct graph *graph, const uint32_t *replacement)
{
    INLAY_CHECK(replacement != NULL || graph->value_count == 0);
    for (uint32_t value = 0; value < graph->value_count; value++)
        if (replacement[value] != INLAY_NONE)
            history_value_replaced(graph, value, replacement[value]);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph_node *node = graph->nodes[i];
        replace_in(replacement, (uint32_t *)(uintptr_t)node->info.inputs, node->info.input_count);
        replace_in(replacement, node->captures, node->capture_count);
        for (uint32_t b = 0; b < node->body_count; b++)
            replace_in(replacement, node->bodies[b].capture_outer, node->bodies[b].capture_count);
    }
}

void pass_refresh_captures(graph_node *node)
{
    uint32_t kept = 0, count = 0, *used;

    for (uint32_t b = 0; b < node->body_count; b++)
        count += node->bodies[b].capture_count;
    used = malloc(((size_t)count + 1) * sizeof *used);
    if (used == NULL)
        return; /* unused captures are harmless */
    count = 0;
    for (uint32_t b = 0; b < node->body_count; b++)
        for (uint32_t k = 0; k < node->bodies[b].capture_count; k++)
            used[count++] = node->bodies[b].capture_outer[k];
    qsort(used, count, sizeof *used, order_numbers);
    for (uint32_t i = 0; i < node->capture_count; i++)
        if (bsearch(&node->captures[i], used, count, sizeof *used, order_numbers) != NULL)
            node->captures[kept++] = node->captures[i];
    node->capture_count = kept;
    free(used);
}

void pass_drop_nodes(struct graph *graph, const bool *drop)
{
    uint32_t kept = 0;

    INLAY_CHECK(drop != NULL);
    for (uint32_t i = 0; i < graph->node_count; i++)
        if (!drop[i])
            graph->nodes[kept++] = graph->nodes[i];
        else
            history_removed(graph, graph->nodes[i]);
    graph->node_count = kept;
}

inlay_status pass_replace_by_constants(pass_ctx *ctx, struct graph *graph, const char *domain, const char *op_type,
                                       pass_constant_fn fn, bool *changed)
{
    inlay_status status = INLAY_OK;
    bool *drop = NULL, any = false;

    for (uint32_t i = 0; status == INLAY_OK && i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t b = 0; status == INLAY_OK && b < node->body_count; b++)
            status = pass_replace_by_constants(ctx, node->bodies[b].graph, domain, op_type, fn, changed);
        if (status != INLAY_OK || strcmp(node->info.op_type.data, op_type) != 0 ||
            strcmp(node->info.domain.data, domain) != 0)
            continue;
        if (drop == NULL &&
            (drop = arena_array(&ctx->model->arena, (size_t)graph->node_count + 1, sizeof *drop)) == NULL)
            return graph_fail(graph, node, NULL, INLAY_OUT_OF_MEMORY, ctx->diag, "no memory to make it a constant");
        status = fn(ctx, graph, node, &drop[i]);
        any |= drop[i];
    }
    if (status == INLAY_OK && any)
        pass_drop_nodes(graph, drop);
    *changed |= any;
    return status;
}

bool pass_is_op(const graph_node *node, const char *op_type)
{
    return strcmp(node->info.op_type.data, op_type) == 0 && strcmp(node->info.domain.data, "ai.onnx") == 0;
}

bool pass_is_among(const graph_node *node, const char *names)
{
    return is_among(node->info.op_type.data, names) && strcmp(node->info.domain.data, "ai.onnx") == 0;
}

bool pass_is_view(const graph_node *node)
{
    return node != NULL && pass_is_among(node, "Reshape Flatten Squeeze Unsqueeze");
}

bool pass_is_output(const struct graph *graph, uint32_t value)
{
    return is_listed(graph->outputs, graph->output_count, value);
}
