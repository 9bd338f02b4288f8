/* Constant nodes (ONNX 1, 9, 11, 12, 13, ...) become constants: exporters write thousands of them. */
#include "passes/type_guard.h"
#include <string.h>

/* The one attribute that holds the value, as a tensor. */
static inlay_status set_from_attr(pass_ctx *ctx, struct graph *g, uint32_t v, const inlay_attr_info *a, bool *out_done)
{
    struct arena *mem = &ctx->model->arena;
    int64_t count = a->count;
    float narrow = (float)a->f;
    inlay_str *texts;
    void *data;

    *out_done = false;
    switch (a->kind) {
    case INLAY_ATTR_TENSOR:
        return type_guard_constant(g, v, a->tensor->dtype, a->tensor->rank, a->tensor->dims, a->tensor->data,
                                   a->tensor->bytes, out_done);
    case INLAY_ATTR_FLOAT:
        data = arena_copy(mem, &narrow, sizeof narrow);
        return data == NULL ? INLAY_OUT_OF_MEMORY
                            : type_guard_constant(g, v, INLAY_FLOAT, 0, NULL, data, sizeof narrow, out_done);
    case INLAY_ATTR_INT:
        data = arena_copy(mem, &a->i, sizeof a->i);
        return data == NULL ? INLAY_OUT_OF_MEMORY
                            : type_guard_constant(g, v, INLAY_INT64, 0, NULL, data, sizeof a->i, out_done);
    case INLAY_ATTR_FLOATS:
        return type_guard_constant(g, v, INLAY_FLOAT, 1, &count, a->floats, (uint64_t)count * sizeof *a->floats,
                                   out_done);
    case INLAY_ATTR_INTS:
        return type_guard_constant(g, v, INLAY_INT64, 1, &count, a->ints, (uint64_t)count * sizeof *a->ints, out_done);
    case INLAY_ATTR_STRING:
        texts = arena_copy(mem, &a->s, sizeof a->s);
        return texts == NULL ? INLAY_OUT_OF_MEMORY
                             : type_guard_constant(g, v, INLAY_STRING, 0, NULL, texts, sizeof *texts, out_done);
    case INLAY_ATTR_STRINGS:
        return type_guard_constant(g, v, INLAY_STRING, 1, &count, a->strings, (uint64_t)count * sizeof *a->strings,
                                   out_done);
    default:
        return INLAY_OK;
    }
}

static inlay_status visit(pass_ctx *ctx, struct graph *g, bool *changed)
{
    bool *drop = arena_array(&ctx->model->arena, (size_t)g->node_count + 1, sizeof *drop);
    bool any = false;

    if (drop == NULL)
        return no_memory(ctx->diag, "to gather constants");
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];
        const inlay_attr_info *a = n->info.attrs;

        if (!pass_is_op(n, "Constant") || n->info.output_count != 1 || n->info.outputs[0] == INLAY_NONE ||
            n->info.attr_count == 0)
            continue;
        for (uint32_t k = 0; k < n->info.attr_count && !drop[i]; k++) {
            a = INLAY_AT(inlay_attr_info, n->info.attrs, n->info.attr_stride, k);
            if (set_from_attr(ctx, g, n->info.outputs[0], a, &drop[i]) != INLAY_OK)
                return no_memory(ctx->diag, "for constant '%s'", n->info.name.data);
        }
        any |= drop[i];
    }
    if (any)
        pass_drop_nodes(g, drop);
    *changed |= any;
    return INLAY_OK;
}

inlay_status pass_constant_nodes(pass_ctx *ctx, bool *out_changed)
{
    return pass_each_graph(ctx, ctx->model->main, visit, out_changed);
}
