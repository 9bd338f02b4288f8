/* Removes nodes whose outputs have no readers, then the producers that only they used, and captures
 * that their body does not use. Nodes that may refuse the sizes of a run are still checked (graph/history.h). */
#include "graph/history.h"
#include "passes/pass.h"

enum { IS_READ = 1, IS_CHECKED = 2 };

static void mark(uint8_t *marks, const uint32_t *values, uint32_t count, uint8_t what)
{
    for (uint32_t i = 0; i < count; i++)
        if (values[i] != INLAY_NONE)
            marks[values[i]] |= what;
}

/* [value_count] which values the nodes and outputs of the body read, and its checks. NULL: out of memory. */
static const uint8_t *mark_reads(pass_ctx *ctx, const struct graph *body)
{
    uint8_t *marks = arena_array(&ctx->model->arena, (size_t)body->value_count + 1, sizeof *marks);
    uint32_t count;
    graph_node *const *checks = history_checks(body, &count);

    if (marks == NULL)
        return NULL;
    mark(marks, body->outputs, body->output_count, IS_READ);
    for (uint32_t i = 0; i < body->node_count; i++) {
        mark(marks, body->nodes[i]->info.inputs, body->nodes[i]->info.input_count, IS_READ);
        mark(marks, body->nodes[i]->captures, body->nodes[i]->capture_count, IS_READ);
    }
    for (uint32_t i = 0; i < count; i++)
        mark(marks, checks[i]->info.inputs, checks[i]->info.input_count, IS_CHECKED);
    return marks;
}

/* Removes captures that the body, which has been cleaned already, does not read. A check keeps those that no node of
 * the outer graph computes. Sets *changed if there were any. */
static inlay_status prune_captures(pass_ctx *ctx, const struct graph *outer, graph_node *node, bool *changed)
{
    bool any = false;

    for (uint32_t b = 0; b < node->body_count; b++) {
        graph_body *body = &node->bodies[b];
        struct graph *graph = body->graph;
        const uint8_t *marks = mark_reads(ctx, graph);
        uint32_t kept = 0;

        if (marks == NULL)
            return no_memory(ctx->diag, "to find unused captures");
        for (uint32_t k = 0; k < body->capture_count; k++) {
            uint32_t value = body->capture_inner[k];

            if ((marks[value] & IS_READ) != 0 ||
                (outer->values[body->capture_outer[k]].info.producer == INLAY_NONE && marks[value] != 0)) {
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
    *changed |= any;
    return INLAY_OK;
}

/* Returns true for numbers whose sizes are not fixed. Integers of 64 bits are sizes and indexes, which shape inference
 * follows anyway. */
static bool is_open(const struct graph *graph, uint32_t value)
{
    const inlay_value_info *info = value == INLAY_NONE ? NULL : &graph->values[value].info;
    bool open = info != NULL && info->rank == INLAY_RANK_UNKNOWN;

    if (info == NULL || info->kind != INLAY_VALUE_TENSOR || info->dtype == INLAY_INT64)
        return false;
    for (uint32_t d = 0; !open && d < info->rank; d++)
        open = info->dims[d].kind != INLAY_DIM_FIXED;
    return open;
}

/* Returns true if the sizes of a run decide whether the node is valid. */
static bool may_refuse_sizes(const struct graph *graph, const graph_node *node)
{
    bool open = false;

    if (node->body_count > 0 || graph_node_is_host(graph, node))
        return false;
    for (uint32_t i = 0; !open && i < node->info.input_count; i++)
        open = is_open(graph, node->info.inputs[i]);
    for (uint32_t i = 0; !open && i < node->info.output_count; i++)
        open = is_open(graph, node->info.outputs[i]);
    return open;
}

static inlay_status clean(pass_ctx *ctx, struct graph *graph, bool *changed)
{
    bool *live = arena_array(&ctx->model->arena, (size_t)graph->value_count + 1, sizeof *live);
    bool *drop = arena_array(&ctx->model->arena, (size_t)graph->node_count + 1, sizeof *drop);
    inlay_status status = INLAY_OK;
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
        for (uint32_t b = 0; status == INLAY_OK && b < node->body_count; b++)
            status = clean(ctx, node->bodies[b].graph, changed);
        if (status == INLAY_OK)
            status = prune_captures(ctx, graph, node, changed);
        if (status != INLAY_OK)
            return status;
        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (node->info.inputs[k] != INLAY_NONE)
                live[node->info.inputs[k]] = true;
        for (uint32_t k = 0; k < node->capture_count; k++)
            live[node->captures[k]] = true;
    }
    for (uint32_t i = 0; any && i < graph->node_count; i++)
        if (drop[i] && may_refuse_sizes(graph, graph->nodes[i]))
            history_keep_check(graph, graph->nodes[i]);
    if (any)
        pass_drop_nodes(graph, drop);
    *changed |= any;
    return INLAY_OK;
}

inlay_status pass_dead_code(pass_ctx *ctx, bool *out_changed)
{
    return clean(ctx, ctx->model->main, out_changed);
}
