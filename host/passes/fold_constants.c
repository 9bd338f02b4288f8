/* Nodes that read constants only are computed once, through whichever provider offers them. Weights of 8 bits that are
 * dequantized wait for those who would rather have the integers (quantized_ops): fold_weights takes what they leave. */
#include "passes/pass.h"
#include <string.h>

static bool is_constant(const graph *g, uint32_t v)
{
    return v == INLAY_NONE || (g->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0;
}

static bool can_fold(const graph *g, const graph_node *n)
{
    if (graph_node_is_random(n) || graph_node_is_host(g, n) || n->info.output_count == 0)
        return false;
    for (uint32_t i = 0; i < n->info.input_count; i++)
        if (!is_constant(g, n->info.inputs[i]))
            return false;
    for (uint32_t i = 0; i < n->info.output_count; i++)
        if (n->info.outputs[i] != INLAY_NONE && (g->values[n->info.outputs[i]].info.dtype == INLAY_STRING ||
                                                 g->values[n->info.outputs[i]].info.dtype == INLAY_UNDEFINED))
            return false;
    return true;
}

/* Weights of 8 bits that become floats. */
static bool is_weights(const graph *g, const graph_node *n)
{
    const inlay_value_info *x = n->info.input_count == 0 || n->info.inputs[0] == INLAY_NONE
                                    ? NULL
                                    : &g->values[n->info.inputs[0]].info;

    return pass_is_op(n, "DequantizeLinear") && x != NULL && x->rank >= 2 &&
           (x->dtype == INLAY_UINT8 || x->dtype == INLAY_INT8);
}

/* Expand and its kin make much out of little: those stay where they are. */
static uint64_t size_limit(const pass_ctx *ctx, const graph *g, const graph_node *n)
{
    uint64_t bytes = ctx->fold_max_bytes;

    for (uint32_t i = 0; i < n->info.input_count; i++)
        if (n->info.inputs[i] != INLAY_NONE)
            bytes += 8 * g->values[n->info.inputs[i]].info.data_bytes;
    return bytes;
}

/* Inference again, now that what the node reads is constant. */
static inlay_status infer_now(pass_ctx *ctx, graph *g, const graph_node *n, arena *scratch)
{
    const inlay_value_info **in = arena_array(scratch, (size_t)n->info.input_count + 1, sizeof *in);
    inlay_value_info **out = arena_array(scratch, (size_t)n->info.output_count + 1, sizeof *out);

    if (in == NULL || out == NULL)
        return inlay_fail(ctx->diag, INLAY_OUT_OF_MEMORY, "no memory to infer shapes");
    for (uint32_t i = 0; i < n->info.input_count; i++)
        in[i] = n->info.inputs[i] == INLAY_NONE ? NULL : &g->values[n->info.inputs[i]].info;
    for (uint32_t i = 0; i < n->info.output_count; i++)
        out[i] = n->info.outputs[i] == INLAY_NONE ? NULL : &g->values[n->info.outputs[i]].info;
    return graph_infer_node(ctx->model, n, in, out, &ctx->model->arena, ctx->diag);
}

static inlay_status fold(pass_ctx *ctx, graph *g, graph_node *n, arena *scratch, bool *out_folded)
{
    inlay_tensor_view *results = arena_array(scratch, (size_t)n->info.output_count + 1, sizeof *results);
    inlay_diag quiet = INLAY_DIAG_INIT;
    inlay_status status = infer_now(ctx, g, n, scratch);
    uint32_t k = 0;

    *out_folded = false;
    if (status != INLAY_OK)
        return status;
    if (results == NULL)
        return inlay_fail(ctx->diag, INLAY_OUT_OF_MEMORY, "no memory to fold node '%s'", n->info.name.data);
    status = ctx->fold(ctx->fold_ctx, g, n, size_limit(ctx, g, n), results, scratch, &quiet);
    if (status == INLAY_OUT_OF_MEMORY)
        return inlay_fail(ctx->diag, status, "no memory to fold node '%s'", n->info.name.data);
    if (status != INLAY_OK)
        return INLAY_OK; /* the run will tell, if the run gets there at all: the node may stand in a dead branch */
    for (uint32_t i = 0; i < n->info.output_count; i++) {
        const inlay_tensor_view *t = &results[k];
        void *data;

        if (n->info.outputs[i] == INLAY_NONE)
            continue;
        k++;
        data = graph_blob_alloc(ctx->model, t->bytes > 0 ? (size_t)t->bytes : 1);
        if (data != NULL && t->bytes > 0)
            memcpy(data, t->data, (size_t)t->bytes);
        if (data == NULL ||
            graph_set_constant(g, n->info.outputs[i], t->dtype, t->rank, t->dims, data, t->bytes) != INLAY_OK)
            return inlay_fail(ctx->diag, INLAY_OUT_OF_MEMORY, "no memory to fold node '%s'", n->info.name.data);
    }
    *out_folded = true;
    return INLAY_OK;
}

static inlay_status visit(pass_ctx *ctx, graph *g, bool weights, bool *changed)
{
    arena scratch = { 0 };
    bool *drop = arena_array(&ctx->model->arena, (size_t)g->node_count + 1, sizeof *drop);
    inlay_status status = INLAY_OK;
    bool any = false;

    if (drop == NULL)
        return inlay_fail(ctx->diag, INLAY_OUT_OF_MEMORY, "no memory to fold constants");
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (!can_fold(g, g->nodes[i]) || is_weights(g, g->nodes[i]) != weights || !pass_may(ctx))
            continue;
        INLAY_TRY(fold(ctx, g, g->nodes[i], &scratch, &drop[i]));
        any |= drop[i];
        if (drop[i])
            pass_count(ctx, g, g->nodes[i], "is constant");
        arena_reset(&scratch);
    }
    if (any)
        pass_drop_nodes(g, drop);
    *changed |= any;
done:
    arena_deinit(&scratch);
    return status;
}

static inlay_status visit_others(pass_ctx *ctx, graph *g, bool *changed)
{
    return visit(ctx, g, false, changed);
}

static inlay_status visit_weights(pass_ctx *ctx, graph *g, bool *changed)
{
    return visit(ctx, g, true, changed);
}

inlay_status pass_fold_constants(pass_ctx *ctx, bool *out_changed)
{
    return ctx->fold == NULL ? INLAY_OK : pass_each_graph(ctx, ctx->model->main, visit_others, out_changed);
}

inlay_status pass_fold_weights(pass_ctx *ctx, bool *out_changed)
{
    return ctx->fold == NULL ? INLAY_OK : pass_each_graph(ctx, ctx->model->main, visit_weights, out_changed);
}
