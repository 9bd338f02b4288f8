/* Quantized weights in the blocks of their file (UnpackBlocks of ai.inlay, which the translation of a file of another
 * format creates) stay so if a provider reads them; others become constants of codes, scales and zero points. Level 0,
 * so that the choice of provider does not depend on the level. */
#include "base/checked.h"
#include "inlay/extensions.h"
#include "kit/blocks.h"
#include "passes/type_guard.h"
#include <string.h>

enum { PARTS = 3 }; /* codes, scales, zero points */

/* Whether products alone read the part that is output `o`, as the provider's kernels can. */
static bool feeds_products(const struct graph *graph, const graph_node *node, uint32_t o)
{
    const uint32_t value = node->info.outputs[o];
    const inlay_value_info *codes = &graph->values[node->info.outputs[0]].info;
    bool any = false;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *reader = graph->nodes[i];
        const bool experts = strcmp(reader->info.op_type.data, "QMoE") == 0;

        for (uint32_t k = 0; k < reader->info.input_count; k++) {
            if (reader->info.inputs[k] != value)
                continue;
            if (strcmp(reader->info.domain.data, "com.microsoft") != 0 || k == 0 ||
                (experts ? codes->rank != 3 || codes->dims[1].value % 16 != 0
                         : strcmp(reader->info.op_type.data, "MatMulNBits") != 0))
                return false;
            any = true;
        }
        for (uint32_t k = 0; k < reader->capture_count; k++)
            if (reader->captures[k] == value)
                return false;
    }
    return any && !pass_is_output(graph, value);
}

static bool stays(const pass_ctx *ctx, const struct graph *graph, const graph_node *node)
{
    /* which a GPU clears: it has no kernel for blocks */
    if ((ctx->providers.keeps_weights & INLAY_WEIGHTS_HALVES) == 0 || ctx->providers.offers_sparse == NULL)
        return false;
    for (uint32_t o = 0; o < node->info.output_count; o++)
        if (node->info.outputs[o] != INLAY_NONE && !feeds_products(graph, node, o))
            return false;
    return ctx->providers.offers_sparse(ctx->providers.ctx, graph, node, NULL);
}

static inlay_status fail(pass_ctx *ctx, const struct graph *graph, const graph_node *node)
{
    return graph_fail(graph, node, NULL, INLAY_OUT_OF_MEMORY, ctx->diag, "no memory to unpack its blocks");
}

static inlay_status unpack(pass_ctx *ctx, struct graph *graph, const graph_node *node, bool *out_done)
{
    const inlay_value_info *input = &graph->values[node->info.inputs[0]].info;
    uint64_t bytes[PARTS] = { 0 };
    int64_t dims[PARTS][INLAY_MAX_RANK];
    void *data[PARTS] = { NULL };
    bool done = true;
    kit_blocks blocks;

    if (stays(ctx, graph, node))
        return INLAY_OK;
    if ((input->flags & INLAY_VALUE_CONSTANT) == 0 || !kit_blocks_of(&node->info, &blocks))
        return INLAY_OK; /* reported when it runs */
    for (uint32_t o = 0; o < node->info.output_count; o++) {
        const inlay_value_info *info =
            node->info.outputs[o] == INLAY_NONE ? NULL : &graph->values[node->info.outputs[o]].info;
        int64_t count;
        size_t size;

        if (info == NULL)
            continue;
        for (uint32_t d = 0; d < info->rank && d < INLAY_MAX_RANK; d++)
            dims[o][d] = info->dims[d].kind == INLAY_DIM_FIXED ? info->dims[d].value : -1;
        if (info->rank > INLAY_MAX_RANK || !dims_count(dims[o], info->rank, &count) ||
            !dtype_bytes(info->dtype, count, &size))
            return INLAY_OK;
        bytes[o] = size;
    }
    if (!kit_blocks_fit(&blocks, input->data_bytes, bytes[0], bytes[1] / sizeof(float)) ||
        (bytes[2] != 0 && bytes[2] != bytes[1]))
        return INLAY_OK;
    for (uint32_t o = 0; o < node->info.output_count; o++)
        if (bytes[o] != 0 && (data[o] = graph_blob_alloc(ctx->model, (size_t)bytes[o])) == NULL)
            return fail(ctx, graph, node);
    kit_blocks_read(&blocks, input->data, (int64_t)(input->data_bytes / (uint64_t)blocks.type->bytes), data[0], data[1],
                    data[2]);
    graph_blob_release_pages(ctx->model, input->data, (size_t)input->data_bytes);
    for (uint32_t o = 0; o < node->info.output_count && done; o++)
        if (data[o] != NULL &&
            type_guard_constant(graph, node->info.outputs[o], graph->values[node->info.outputs[o]].info.dtype,
                                graph->values[node->info.outputs[o]].info.rank, dims[o], data[o], bytes[o],
                                &done) != INLAY_OK)
            return fail(ctx, graph, node);
    *out_done = done;
    return INLAY_OK;
}

inlay_status pass_block_constants(pass_ctx *ctx, bool *out_changed)
{
    return pass_replace_by_constants(ctx, ctx->model->main, "ai.inlay", "UnpackBlocks", unpack, out_changed);
}
