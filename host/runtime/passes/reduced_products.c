/* Option reduce: matrix multiplications and convolutions of floats with constant weights, in 8-bit integers. int8 also
 * rounds the other factor, in each run, by the range of all its elements:
 *
 *     MatMul(x, w) or Gemm(x, w, bias)  ->  int8: DynamicQuantizeMatMul(x, q, scales, bias) of com.microsoft, which the
 *                                                 pass `contributed` expands
 *                                           weights8: the same with DequantizeLinear(q, scales)
 *     Conv(x, w, bias)                  ->  int8: DynamicQuantizeLinear, ConvInteger, Cast, Mul by both scales, Add
 *
 * with symmetric codes q and a scale for each column, or filter, of w. A convolution has no form weights8: no provider
 * keeps its weights in 8 bits while it multiplies floats. */
#include "passes/reduced_products.h"
#include "base/hash.h"
#include "passes/quantized.h"
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
    return graph_attr_float(node, name, 1) == 1;
}

/* The columns of the node's matrix; -1: it is no constant matrix of floats. */
static int64_t columns_of(const struct graph *graph, const graph_node *node)
{
    const inlay_value_info *info = node->info.input_count > 1 && node->info.inputs[1] != INLAY_NONE
                                       ? &graph->values[node->info.inputs[1]].info
                                       : NULL;

    if (info == NULL || (info->flags & INLAY_VALUE_CONSTANT) == 0 || info->dtype != INLAY_FLOAT || info->rank != 2)
        return -1;
    return rewrite_dim(info, pass_is_op(node, "Gemm") && graph_attr_int(node, "transB", 0) != 0 ? 0 : 1);
}

reduced_factor reduced_product_factor(const struct graph *graph, const graph_node *node)
{
    const inlay_value_info *info = &graph->values[node->info.inputs[1]].info;
    const bool turned = pass_is_op(node, "Gemm") && graph_attr_int(node, "transB", 0) != 0;
    const int64_t first = rewrite_dim(info, 0), others = first > 0 ? graph_constant_count(info) / first : 0;

    if (turned || pass_is_op(node, "Conv"))
        return (reduced_factor){ .depth = others, .columns = first, .row = 1, .column = others };
    return (reduced_factor){ .depth = first, .columns = others, .row = others, .column = 1 };
}

/* A Conv whose ConvInteger has fast kernels, and sums that fit into int32: one group, filters of one or two dimensions,
 * a constant bias. */
static bool is_conv(const struct graph *graph, const graph_node *node)
{
    const uint32_t bias = pass_is_op(node, "Conv") && node->info.input_count > 2 ? node->info.inputs[2] : INLAY_NONE;
    const inlay_value_info *info = pass_is_op(node, "Conv") ? &graph->values[node->info.inputs[1]].info : NULL;

    return info != NULL && graph_is_constant(graph, node->info.inputs[1]) && info->dtype == INLAY_FLOAT &&
           (info->rank == 3 || info->rank == 4) && info->data_bytes > 0 && graph_attr_int(node, "group", 1) == 1 &&
           !graph_is_constant(graph, node->info.inputs[0]) && (bias == INLAY_NONE || graph_is_constant(graph, bias)) &&
           reduced_product_factor(graph, node).depth <= INT32_MAX / (UINT8_MAX * MOST_CODE);
}

/* Is the node a MatMul or Gemm by a constant matrix? */
static bool is_product(const struct graph *graph, const graph_node *node)
{
    const int64_t columns = pass_is_among(node, "MatMul Gemm") ? columns_of(graph, node) : -1;
    const uint32_t bias = node->info.input_count > 2 ? node->info.inputs[2] : INLAY_NONE;
    const inlay_value_info *left = columns > 0 ? &graph->values[node->info.inputs[0]].info : NULL;

    if (left == NULL || left->dtype != INLAY_FLOAT || (left->flags & INLAY_VALUE_CONSTANT) != 0 ||
        graph_attr_int(node, "transA", 0) != 0 || !is_one(node, "alpha") || !is_one(node, "beta"))
        return false;
    return bias == INLAY_NONE ||
           (graph->values[bias].info.rank == 1 && rewrite_dim(&graph->values[bias].info, 0) == columns);
}

bool reduced_product_fits(const struct graph *graph, const graph_node *node, uint32_t arithmetic)
{
    return is_product(graph, node) || (arithmetic == REDUCED_INT8 && is_conv(graph, node));
}

uint64_t reduced_product_hash(const struct graph *graph, const graph_node *node)
{
    const inlay_value_info *info = &graph->values[node->info.inputs[1]].info;
    const uint64_t hash = hash_bytes(info->data, (size_t)info->data_bytes, (uint64_t)rewrite_dim(info, 0));

    return hash != 0 ? hash : 1;
}

/* The codes of w in the layout `to`, and the scale of each column. A column of zeros has scale 1. False: an element is
 * not finite. */
static bool round_columns(const float *w, const reduced_factor *from, const reduced_factor *to, int8_t *codes,
                          float *scales)
{
    for (int64_t k = 0; k < from->columns; k++) {
        float largest = 0;

        for (int64_t i = 0; i < from->depth; i++) {
            const float size = fabsf(w[i * from->row + k * from->column]);

            if (!isfinite(size))
                return false;
            largest = size > largest ? size : largest;
        }
        scales[k] = largest / MOST_CODE >= 0x1p-126F ? largest / MOST_CODE : 1;
        for (int64_t i = 0; i < from->depth; i++)
            codes[i * to->row + k * to->column] = (int8_t)nearbyintf(w[i * from->row + k * from->column] / scales[k]);
    }
    return true;
}

/* Adds the constants of codes, [depth, columns] or as the filters are, and of scales. INLAY_NONE in *out_codes: a
 * weight is not finite. */
static inlay_status add_codes(struct rewrite *rewrite, const graph_node *node, uint32_t *out_codes,
                              uint32_t *out_scales)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, node->info.inputs[1]);
    const reduced_factor from = reduced_product_factor(rewrite->graph, node),
                         upright = { from.depth, from.columns, from.columns, 1 };
    const bool is_matrix = info->rank == 2;
    const float *w = rewrite_floats(rewrite, node->info.inputs[1]);
    const uint64_t count = (uint64_t)from.depth * (uint64_t)from.columns;
    int8_t *codes = graph_blob_alloc(rewrite->ctx->model, (size_t)count);
    float *scales = graph_blob_alloc(rewrite->ctx->model, (size_t)from.columns * sizeof *scales);
    int64_t dims[INLAY_MAX_RANK] = { from.depth, from.columns };

    *out_codes = INLAY_NONE;
    if (w == NULL || codes == NULL || scales == NULL)
        return rewrite_no_memory(rewrite);
    if (!round_columns(w, &from, is_matrix ? &upright : &from, codes, scales))
        return INLAY_OK;
    for (uint32_t d = 0; d < info->rank && !is_matrix; d++)
        dims[d] = info->dims[d].value;
    *out_scales = is_matrix ? rewrite_constant_blob(rewrite, INLAY_FLOAT, 1, &from.columns, scales,
                                                    (uint64_t)from.columns * sizeof *scales)
                            : quant_along_filters(rewrite, info->rank, from.columns, scales);
    *out_codes = rewrite_constant_blob(rewrite, INLAY_INT8, info->rank, dims, codes, count);
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

/* Inserts DynamicQuantizeLinear of x. NULL: out of memory. */
static const graph_node *insert_rounding(struct rewrite *rewrite, uint32_t x)
{
    graph_node *round = rewrite_make_node(rewrite, "DynamicQuantizeLinear", 11, NULL, &x, 1, 3);

    if (round == NULL || rewrite_insert_node(rewrite, round, INLAY_UINT8) != INLAY_OK)
        return NULL;
    rewrite->graph->values[round->info.outputs[1]].info.dtype = INLAY_FLOAT;
    return round;
}

/* Replaces a Conv. The graph is left unchanged if no provider would run the ConvInteger. */
static inlay_status replace_conv(struct rewrite *rewrite, graph_node *node, uint32_t codes, uint32_t scales)
{
    const uint32_t bias = rewrite_input(rewrite, node, 2);
    const inlay_value_info *weights = rewrite_value_info(rewrite, codes);
    const float *numbers = bias == INLAY_NONE ? NULL : rewrite_floats(rewrite, bias);
    const graph_node *round = insert_rounding(rewrite, rewrite_input(rewrite, node, 0));
    graph_node *product, *factor, *sum;
    uint32_t inputs[3], terms[2];
    inlay_status status;

    if (round == NULL || (bias != INLAY_NONE && numbers == NULL))
        return rewrite_no_memory(rewrite);
    inputs[0] = round->info.outputs[0];
    inputs[1] = codes;
    inputs[2] = round->info.outputs[2];
    product = rewrite_make_node(rewrite, "ConvInteger", 10, node, inputs, 3, 1);
    factor = rewrite_make_node(rewrite, "Mul", 13, node, (const uint32_t[]){ round->info.outputs[1], scales }, 2, 1);
    if (product == NULL || factor == NULL)
        return rewrite_no_memory(rewrite);
    for (uint32_t i = 0; i < node->info.attr_count; i++)
        if (graph_set_attr(rewrite->graph, product, &node->info.attrs[i]) != INLAY_OK)
            return rewrite_no_memory(rewrite);
    if (!quant_is_offered(rewrite, product, node->info.outputs[0], INLAY_INT32))
        return INLAY_OK;
    INLAY_TRY(rewrite_insert_node(rewrite, product, INLAY_INT32));
    INLAY_TRY(rewrite_insert_node(rewrite, factor, INLAY_FLOAT));
    INLAY_TRY(quant_scale_product(rewrite, node, product, factor->info.outputs[0], bias == INLAY_NONE, &terms[0]));
    if (bias == INLAY_NONE)
        goto done;
    terms[1] = quant_along_filters(rewrite, weights->rank, rewrite_dim(weights, 0), numbers);
    sum = terms[1] == INLAY_NONE ? NULL : rewrite_make_node(rewrite, "Add", 13, node, terms, 2, 1);
    status = sum == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, sum);
done:
    return status;
}

static inlay_status replace_product(struct rewrite *rewrite, graph_node *node, uint32_t arithmetic, uint32_t codes,
                                    uint32_t scales)
{
    graph_node *reduced = arithmetic == REDUCED_INT8 ? with_integers(rewrite, node, codes, scales)
                                                     : with_float_activations(rewrite, node, codes, scales);

    return reduced == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, reduced);
}

/* Reports a node that is left out, as a near miss. */
static void report_left_out(const struct rewrite *rewrite, const graph_node *node)
{
    const pass_ctx *ctx = rewrite->ctx;

    if (ctx->report.note != NULL)
        ctx->report.note(ctx->report.ctx, ctx->run.pass, 0, rewrite->graph, node, "a weight is NaN or infinite");
}

static pass_reduction *find(const struct rewrite *rewrite, const graph_node *node)
{
    for (uint32_t i = 0; i < rewrite->ctx->options.reduction_count; i++) {
        pass_reduction *reduction = &rewrite->ctx->options.reductions[i];

        if (reduced_product_fits(rewrite->graph, node, reduction->arithmetic) &&
            (reduction->is_name ? strcmp(reduction->pattern, node->info.name.data) == 0
                                : graph_node_matches(reduction->pattern, &node->info)))
            return reduction;
    }
    return NULL;
}

static inlay_status match_reduced_products(struct rewrite *rewrite, graph_node *node)
{
    const uint32_t output = node->info.output_count > 0 ? node->info.outputs[0] : INLAY_NONE;
    pass_reduction *reduction = rewrite->graph == rewrite->ctx->model->main ? find(rewrite, node) : NULL;
    uint32_t codes, scales;
    inlay_status status;

    if (reduction == NULL)
        return INLAY_OK;
    if (reduction->weights != 0 && reduction->weights != reduced_product_hash(rewrite->graph, node))
        return graph_fail(rewrite->graph, node, NULL, INLAY_INVALID_ARGUMENT, rewrite->ctx->diag,
                          "option error_table: its errors are those of other weights; measure them again with `inlay "
                          "explain MODEL --errors --save FILE`");
    INLAY_TRY(add_codes(rewrite, node, &codes, &scales));
    if (codes == INLAY_NONE) {
        report_left_out(rewrite, node);
        goto done;
    }
    status = pass_is_op(node, "Conv") ? replace_conv(rewrite, node, codes, scales)
                                      : replace_product(rewrite, node, reduction->arithmetic, codes, scales);
    reduction->used |= rewrite_producer(rewrite, output) != node;
done:
    return status;
}

inlay_status pass_reduced_products(pass_ctx *ctx, bool *out_changed)
{
    const inlay_status status =
        ctx->options.reduction_count > 0 ? rewrite_each_graph(ctx, match_reduced_products, out_changed) : INLAY_OK;

    ctx->options.reduction_count = 0; /* folded weights of weights8 are not rounded again */
    return status;
}
