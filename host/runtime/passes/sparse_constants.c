/* Matrices stored as values and indices (SparseToDense of ai.inlay, which the loader creates) stay sparse if only
 * matrix multiplications read them and a provider supports them; others become dense constants. Level 0, so that the
 * choice of provider does not depend on the level. */
#include "base/checked.h"
#include "passes/type_guard.h"
#include <inttypes.h>
#include <string.h>

static const inlay_value_info *constant_of(const struct graph *graph, uint32_t value, inlay_dtype dtype)
{
    const inlay_value_info *info = value == INLAY_NONE ? NULL : &graph->values[value].info;

    return info != NULL && (info->flags & INLAY_VALUE_CONSTANT) != 0 && info->dtype == dtype ? info : NULL;
}

/* Returns true if the value is read, and only as the second operand of MatMul or Gemm. */
static bool feeds_products(const struct graph *graph, uint32_t value)
{
    bool any = false;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (node->info.inputs[k] == value) {
                if (k != 1 || (!pass_is_op(node, "MatMul") && !pass_is_op(node, "Gemm")))
                    return false;
                any = true;
            }
        for (uint32_t k = 0; k < node->capture_count; k++)
            if (node->captures[k] == value)
                return false;
    }
    return any && !pass_is_output(graph, value);
}

static inlay_status fail(pass_ctx *ctx, const struct graph *graph, const graph_node *node, inlay_status code,
                         const char *text)
{
    return graph_fail(graph, node, NULL, code, ctx->diag, "%s", text);
}

static inlay_status make_dense(pass_ctx *ctx, struct graph *graph, const graph_node *node, bool *out_done)
{
    const inlay_attr_info *shape = graph_attr(node, "shape");
    const inlay_value_info *values, *indices;
    uint64_t entries;
    int64_t count = 0;
    size_t bytes = 0;
    float *data;

    if (node->info.input_count != 2 || node->info.output_count != 1 || node->info.outputs[0] == INLAY_NONE ||
        (ctx->providers.offers_sparse != NULL && feeds_products(graph, node->info.outputs[0]) &&
         ctx->providers.offers_sparse(ctx->providers.ctx, graph, node, NULL)))
        return INLAY_OK;
    values = constant_of(graph, node->info.inputs[0], INLAY_FLOAT);
    indices = constant_of(graph, node->info.inputs[1], INLAY_INT64);
    if (values == NULL || indices == NULL || values->data_bytes != indices->data_bytes / 2 || shape == NULL ||
        shape->kind != INLAY_ATTR_INTS)
        return INLAY_OK; /* reported when it runs */
    entries = values->data_bytes / sizeof(float);
    if (!dims_count(shape->ints, shape->count, &count) || !dtype_bytes(INLAY_FLOAT, count, &bytes) ||
        __builtin_add_overflow(ctx->run.densified, bytes, &ctx->run.densified) ||
        ctx->run.densified > ctx->limits.densified_bytes)
        return graph_fail(graph, node, NULL, INLAY_LIMIT_EXCEEDED, ctx->diag,
                          "sparse tensors converted to dense ones take more than model_limits densified_bytes (%" PRIu64
                          ")",
                          ctx->limits.densified_bytes);
    data = graph_blob_alloc(ctx->model, bytes + 1);
    if (data == NULL)
        return fail(ctx, graph, node, INLAY_OUT_OF_MEMORY, "no memory to convert it to a dense tensor");
    memset(data, 0, bytes);
    for (uint64_t i = 0; i < entries; i++) {
        int64_t at;

        memcpy(&at, (const char *)indices->data + i * sizeof at, sizeof at);
        if (at < 0 || at >= count)
            return fail(ctx, graph, node, INLAY_INVALID_MODEL, "an index is out of range");
        memcpy(&data[at], (const char *)values->data + i * sizeof *data, sizeof *data);
    }
    graph_blob_release_pages(ctx->model, values->data, (size_t)values->data_bytes);
    graph_blob_release_pages(ctx->model, indices->data, (size_t)indices->data_bytes);
    if (type_guard_constant(graph, node->info.outputs[0], INLAY_FLOAT, shape->count, shape->ints, data, bytes,
                            out_done) != INLAY_OK)
        return fail(ctx, graph, node, INLAY_OUT_OF_MEMORY, "no memory to convert it to a dense tensor");
    return INLAY_OK;
}

inlay_status pass_sparse_constants(pass_ctx *ctx, bool *out_changed)
{
    return pass_replace_by_constants(ctx, ctx->model->main, "ai.inlay", "SparseToDense", make_dense, out_changed);
}
