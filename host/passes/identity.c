/* Nodes that change nothing go: Identity, Dropout at inference, Cast to the type it has, Sum and the like of one. */
#include "passes/pass.h"
#include <string.h>

static bool unused(const graph *g, const graph_node *n, uint32_t output)
{
    uint32_t v = output < n->info.output_count ? n->info.outputs[output] : INLAY_NONE;

    if (v == INLAY_NONE)
        return true;
    if (pass_is_output(g, v))
        return false;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *m = g->nodes[i];
        for (uint32_t k = 0; k < m->info.input_count; k++)
            if (m->info.inputs[k] == v)
                return false;
        for (uint32_t k = 0; k < m->capture_count; k++)
            if (m->captures[k] == v)
                return false;
    }
    return true;
}

/* Dropout drops nothing at inference: always before version 12 (before 7 with is_test), later unless training_mode. */
static bool idle_dropout(const graph *g, const graph_node *n)
{
    const inlay_attr_info *test = graph_attr(n, "is_test");
    uint32_t mode = n->info.input_count > 2 ? n->info.inputs[2] : INLAY_NONE;

    if (!unused(g, n, 1))
        return false;
    if (n->info.since_version < 7)
        return test != NULL && test->i != 0;
    if (mode == INLAY_NONE)
        return true;
    return g->values[mode].info.data != NULL && g->values[mode].info.data_bytes == 1 &&
           *(const uint8_t *)g->values[mode].info.data == 0;
}

static bool changes_nothing(const graph *g, const graph_node *n)
{
    static const char *const of_one[] = { "Sum", "Max", "Min", "Mean", "Concat" };
    uint32_t x = n->info.input_count > 0 ? n->info.inputs[0] : INLAY_NONE;
    uint32_t y = n->info.output_count > 0 ? n->info.outputs[0] : INLAY_NONE;

    if (x == INLAY_NONE || y == INLAY_NONE || g->values[x].info.kind != g->values[y].info.kind)
        return false;
    if (pass_is_op(n, "Identity"))
        return true;
    if (pass_is_op(n, "Dropout"))
        return idle_dropout(g, n);
    if (pass_is_op(n, "Cast"))
        return g->values[x].info.dtype != INLAY_UNDEFINED && g->values[x].info.dtype == g->values[y].info.dtype;
    for (size_t i = 0; i < sizeof of_one / sizeof of_one[0]; i++)
        if (n->info.input_count == 1 && pass_is_op(n, of_one[i]))
            return true;
    return false;
}

static inlay_status visit(pass_ctx *ctx, graph *g, bool *changed)
{
    bool *drop = arena_array(&ctx->model->arena, (size_t)g->node_count + 1, sizeof *drop);
    uint32_t *replacement = arena_array(&ctx->model->arena, (size_t)g->value_count + 1, sizeof *replacement);
    bool any = false;

    if (drop == NULL || replacement == NULL)
        return inlay_fail(ctx->diag, INLAY_OUT_OF_MEMORY, "no memory to remove idle nodes");
    memset(replacement, 0xff, g->value_count * sizeof *replacement);
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];
        /* An output of the graph keeps its name, hence its node; the planner makes that one a view. */
        if (n->body_count > 0 || !changes_nothing(g, n) || pass_is_output(g, n->info.outputs[0]))
            continue;
        replacement[n->info.outputs[0]] = n->info.inputs[0];
        drop[i] = any = true;
    }
    if (any) {
        pass_replace_uses(g, replacement);
        pass_drop_nodes(g, drop);
    }
    *changed |= any;
    return INLAY_OK;
}

inlay_status pass_identity(pass_ctx *ctx, bool *out_changed)
{
    return pass_each_graph(ctx, ctx->model->main, visit, out_changed);
}
