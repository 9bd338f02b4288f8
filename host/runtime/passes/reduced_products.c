/* Option reduce: matrix multiplications of floats by a constant matrix, in 8-bit integers. int8 also rounds the other
 * factor, in each run, by the range of all its elements:
 *
 *     MatMul(x, w) or Gemm(x, w, bias)  ->  int8: DynamicQuantizeMatMul(x, q, scales, bias) of com.microsoft, which the
 *                                                 pass `contributed` expands
 *                                           weights8: the same with DequantizeLinear(q, scales)
 *
 * with symmetric codes q and a scale for each column of w. */
#include "passes/reduced_products.h"
#include "base/hash.h"
#include "passes/rewrite.h"
#include <math.h>
#include <string.h>

#define CONTRIBUTED "com.microsoft"
enum { MOST_CODE = 127 };

const char *const reduced_arithmetics[REDUCED_ARITHMETICS] = { "int8", "weights8" };

uint32_t reduced_arithmetic_find(const char *name)
{
    uint32_t i = 0;

    while (i < REDUCED_ARITHMETICS && strcmp(name, reduced_arithmetics[i]) != 0)
        i++;
    return i;
}

/* A factor of 1, as attribute of Gemm. */
static bool is_one(const graph_node *node, const char *name)
{
    return rewrite_attr_float(node, name, 1) == 1;
}

/* The columns of the node's matrix; -1: it is no constant matrix of floats. */
static int64_t columns_of(const struct graph *graph, const graph_node *node)
{
    const inlay_value_info *info = node->info.input_count > 1 && node->info.inputs[1] != INLAY_NONE
                                       ? &graph->values[node->info.inputs[1]].info
                                       : NULL;

    if (info == NULL || (info->flags & INLAY_VALUE_CONSTANT) == 0 || info->dtype != INLAY_FLOAT || info->rank != 2)
        return -1;
    return rewrite_dim(info, pass_is_op(node, "Gemm") && rewrite_attr_int(node, "transB", 0) != 0 ? 0 : 1);
}

bool reduced_product_fits(const struct graph *graph, const graph_node *node)
{
    const int64_t columns = pass_is_among(node, "MatMul Gemm") ? columns_of(graph, node) : -1;
    const uint32_t bias = node->info.input_count > 2 ? node->info.inputs[2] : INLAY_NONE;
    const inlay_value_info *left = columns > 0 ? &graph->values[node->info.inputs[0]].info : NULL;

    if (left == NULL || left->dtype != INLAY_FLOAT || (left->flags & INLAY_VALUE_CONSTANT) != 0 ||
        rewrite_attr_int(node, "transA", 0) != 0 || !is_one(node, "alpha") || !is_one(node, "beta"))
        return false;
    return bias == INLAY_NONE ||
           (graph->values[bias].info.rank == 1 && rewrite_dim(&graph->values[bias].info, 0) == columns);
}

uint64_t reduced_product_hash(const struct graph *graph, const graph_node *node)
{
    const inlay_value_info *info = &graph->values[node->info.inputs[1]].info;
    const uint64_t hash = hash_bytes(info->data, (size_t)info->data_bytes, (uint64_t)rewrite_dim(info, 0));

    return hash != 0 ? hash : 1;
}

/* The codes [depth, columns] of w, whose element (i, k) is w[i * row + k * column], and the scale of each column. A
 * column of zeros has scale 1. False: an element is not finite. */
static bool round_columns(const float *w, int64_t depth, int64_t columns, int64_t row, int64_t column, int8_t *codes,
                          float *scales)
{
    for (int64_t k = 0; k < columns; k++) {
        float largest = 0;

        for (int64_t i = 0; i < depth; i++) {
            const float size = fabsf(w[i * row + k * column]);

            if (!isfinite(size))
                return false;
            largest = size > largest ? size : largest;
        }
        scales[k] = largest / MOST_CODE >= 0x1p-126F ? largest / MOST_CODE : 1;
        for (int64_t i = 0; i < depth; i++)
            codes[i * columns + k] = (int8_t)nearbyintf(w[i * row + k * column] / scales[k]);
    }
    return true;
}

/* Adds the constants of codes and scales. INLAY_NONE in *out_codes: the matrix has no codes. */
static inlay_status add_codes(struct rewrite *rewrite, const graph_node *node, int64_t dims[2], uint32_t *out_codes,
                              uint32_t *out_scales)
{
    const bool turned = pass_is_op(node, "Gemm") && rewrite_attr_int(node, "transB", 0) != 0;
    const inlay_value_info *info = rewrite_value_info(rewrite, node->info.inputs[1]);
    const float *w = rewrite_floats(rewrite, node->info.inputs[1]);
    const int64_t depth = rewrite_dim(info, turned ? 1 : 0), columns = rewrite_dim(info, turned ? 0 : 1);
    int8_t *codes = graph_blob_alloc(rewrite->ctx->model, (size_t)(depth * columns));
    float *scales = graph_blob_alloc(rewrite->ctx->model, (size_t)columns * sizeof *scales);

    *out_codes = INLAY_NONE;
    if (w == NULL || codes == NULL || scales == NULL)
        return rewrite_no_memory(rewrite);
    if (!round_columns(w, depth, columns, turned ? 1 : columns, turned ? depth : 1, codes, scales))
        return INLAY_OK;
    dims[0] = depth;
    dims[1] = columns;
    *out_codes = rewrite_constant_blob(rewrite, INLAY_INT8, 2, dims, codes, (uint64_t)depth * (uint64_t)columns);
    *out_scales = rewrite_constant_blob(rewrite, INLAY_FLOAT, 1, &columns, scales, (uint64_t)columns * sizeof *scales);
    return *out_codes == INLAY_NONE || *out_scales == INLAY_NONE ? rewrite_no_memory(rewrite) : INLAY_OK;
}

/* The node in arithmetic weights8; NULL: out of memory. */
static graph_node *with_float_activations(struct rewrite *rewrite, const graph_node *node, uint32_t codes,
                                          uint32_t scales)
{
    const uint32_t inputs[] = { codes, scales };
    graph_node *weights = rewrite_make_node(rewrite, "DequantizeLinear", 13, NULL, inputs, 2, 1),
               *product = rewrite_copy_node(rewrite, node);

    if (weights == NULL || product == NULL || graph_set_attr_int(rewrite->graph, weights, "axis", 1) != INLAY_OK ||
        (pass_is_op(node, "Gemm") && graph_set_attr_int(rewrite->graph, product, "transB", 0) != INLAY_OK) ||
        rewrite_insert_node(rewrite, weights, INLAY_FLOAT) != INLAY_OK)
        return NULL;
    rewrite_set_input(rewrite, product, 1, weights->info.outputs[0]);
    return product;
}

static graph_node *with_integers(struct rewrite *rewrite, const graph_node *node, uint32_t codes, uint32_t scales)
{
    const uint32_t bias = rewrite_input(rewrite, node, 2);
    const uint32_t inputs[] = { rewrite_input(rewrite, node, 0), codes, scales, INLAY_NONE, bias };
    graph_node *product =
        rewrite_make_node(rewrite, "DynamicQuantizeMatMul", 1, node, inputs, bias == INLAY_NONE ? 3 : 5, 1);

    if (product != NULL)
        product->info.domain = (inlay_str){ CONTRIBUTED, sizeof CONTRIBUTED - 1 };
    return product;
}

static pass_reduction *find(const struct rewrite *rewrite, const graph_node *node)
{
    for (uint32_t i = 0; i < rewrite->ctx->reduction_count; i++) {
        pass_reduction *reduction = &rewrite->ctx->reductions[i];

        if (reduction->is_name ? strcmp(reduction->pattern, node->info.name.data) == 0
                               : graph_node_matches(reduction->pattern, &node->info))
            return reduction;
    }
    return NULL;
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    const uint32_t output = node->info.outputs[0];
    pass_reduction *reduction;
    uint32_t codes, scales;
    graph_node *reduced;
    int64_t dims[2];
    inlay_status status;

    if (rewrite->graph != rewrite->ctx->model->main || !reduced_product_fits(rewrite->graph, node) ||
        (reduction = find(rewrite, node)) == NULL)
        return INLAY_OK;
    if (reduction->weights != 0 && reduction->weights != reduced_product_hash(rewrite->graph, node))
        return graph_fail(rewrite->graph, node, NULL, INLAY_INVALID_ARGUMENT, rewrite->ctx->diag,
                          "option error_table: its errors are those of other weights; measure them again with `inlay "
                          "explain MODEL --errors --save FILE`");
    INLAY_TRY(add_codes(rewrite, node, dims, &codes, &scales));
    if (codes == INLAY_NONE)
        goto done;
    reduced = reduction->arithmetic == REDUCED_INT8 ? with_integers(rewrite, node, codes, scales)
                                                    : with_float_activations(rewrite, node, codes, scales);
    if (reduced == NULL) {
        status = rewrite_no_memory(rewrite);
        goto done;
    }
    INLAY_TRY(rewrite_replace_node(rewrite, node, reduced));
    reduction->used |= rewrite_producer(rewrite, output) != node;
done:
    return status;
}

inlay_status pass_reduced_products(pass_ctx *ctx, bool *out_changed)
{
    const inlay_status status = ctx->reduction_count > 0 ? rewrite_each_graph(ctx, match, out_changed) : INLAY_OK;

    ctx->reduction_count = 0; /* folded weights of weights8 are not rounded again */
    return status;
}
