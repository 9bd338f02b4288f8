/* Replaces Constant nodes (of every opset) by constants of the graph. Exporters write thousands of them. */
#include "passes/type_guard.h"

/* Sets the value from the node's only attribute, which may be of any kind. */
static inlay_status set_from_attr(pass_ctx *ctx, struct graph *graph, uint32_t value, const inlay_attr_info *attribute,
                                  bool *out_done)
{
    struct arena *arena = &ctx->model->arena;
    int64_t count = attribute->count;
    float narrow = (float)attribute->f;
    inlay_str *texts;
    void *data;

    *out_done = false;
    switch (attribute->kind) {
    case INLAY_ATTR_TENSOR:
        return type_guard_constant(graph, value, attribute->tensor->dtype, attribute->tensor->rank,
                                   attribute->tensor->dims, attribute->tensor->data, attribute->tensor->bytes,
                                   out_done);
    case INLAY_ATTR_FLOAT:
        data = arena_copy(arena, &narrow, sizeof narrow);
        return data == NULL ? INLAY_OUT_OF_MEMORY
                            : type_guard_constant(graph, value, INLAY_FLOAT, 0, NULL, data, sizeof narrow, out_done);
    case INLAY_ATTR_INT:
        data = arena_copy(arena, &attribute->i, sizeof attribute->i);
        return data == NULL
                   ? INLAY_OUT_OF_MEMORY
                   : type_guard_constant(graph, value, INLAY_INT64, 0, NULL, data, sizeof attribute->i, out_done);
    case INLAY_ATTR_FLOATS:
        return type_guard_constant(graph, value, INLAY_FLOAT, 1, &count, attribute->floats,
                                   (uint64_t)count * sizeof *attribute->floats, out_done);
    case INLAY_ATTR_INTS:
        return type_guard_constant(graph, value, INLAY_INT64, 1, &count, attribute->ints,
                                   (uint64_t)count * sizeof *attribute->ints, out_done);
    case INLAY_ATTR_STRING:
        texts = arena_copy(arena, &attribute->s, sizeof attribute->s);
        return texts == NULL ? INLAY_OUT_OF_MEMORY
                             : type_guard_constant(graph, value, INLAY_STRING, 0, NULL, texts, sizeof *texts, out_done);
    case INLAY_ATTR_STRINGS:
        return type_guard_constant(graph, value, INLAY_STRING, 1, &count, attribute->strings,
                                   (uint64_t)count * sizeof *attribute->strings, out_done);
    default:
        return INLAY_OK;
    }
}

static inlay_status make_constant(pass_ctx *ctx, struct graph *graph, const graph_node *node, bool *out_done)
{
    if (node->info.output_count != 1 || node->info.outputs[0] == INLAY_NONE)
        return INLAY_OK;
    for (uint32_t k = 0; k < node->info.attr_count && !*out_done; k++)
        if (set_from_attr(ctx, graph, node->info.outputs[0],
                          INLAY_AT(inlay_attr_info, node->info.attrs, node->info.attr_stride, k), out_done) != INLAY_OK)
            return no_memory(ctx->diag, "for constant '%s'", node->info.name.data);
    return INLAY_OK;
}

inlay_status pass_constant_nodes(pass_ctx *ctx, bool *out_changed)
{
    return pass_replace_by_constants(ctx, ctx->model->main, "ai.onnx", "Constant", make_constant, out_changed);
}
