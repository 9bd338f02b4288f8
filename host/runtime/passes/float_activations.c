/* Option dynamic_activations. floats: dynamically quantized models keep their integer weights but compute with float
 * activations. On [.., k]:
 *
 *     q, s, z = DynamicQuantizeLinear(x)
 *     Mul(Cast(MatMulInteger(q, w, z, wz)), Mul(s, ws))     ->  MatMul(x, DequantizeLinear(w, ws, wz))
 *
 * DynamicQuantizeLinear uses one scale for all rows of x, which loses small elements next to large ones.
 *
 * rows: x is rounded as by DynamicQuantizeLinear, but with a scale and zero point for each row. */
#include "passes/rewrite.h"
#include <float.h>

/* If value is a product with `scale`, returns the other factor; otherwise INLAY_NONE. */
static uint32_t other_factor(const struct rewrite *rewrite, uint32_t value, uint32_t scale)
{
    const graph_node *mul = rewrite_producer_op(rewrite, value, "Mul");

    for (uint32_t side = 0; mul != NULL && side < 2; side++)
        if (rewrite_input(rewrite, mul, side) == scale)
            return rewrite_input(rewrite, mul, 1 - side);
    return INLAY_NONE;
}

/* Returns true for a constant of one element (*out_one), or of one element for each column. */
static bool is_factor(const struct rewrite *rewrite, uint32_t value, int64_t columns, bool *out_one)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, value);

    if (value == INLAY_NONE || !rewrite_is_constant(rewrite, value))
        return false;
    *out_one = info->rank == 0 || (info->rank == 1 && rewrite_dim(info, 0) == 1);
    return info->rank == 0 || (info->rank == 1 && (rewrite_dim(info, 0) == 1 || rewrite_dim(info, 0) == columns));
}

/* Inserts DequantizeLinear for the weights. *out is INLAY_NONE if the shapes of scale and zero point do not match. */
static inlay_status insert_dequantize(struct rewrite *rewrite, uint32_t weights, uint32_t scale, uint32_t zero,
                                      uint32_t *out)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, weights);
    bool one_scale, one_zero = true;
    uint32_t inputs[3] = { weights, scale, zero };
    graph_node *node;

    *out = INLAY_NONE;
    if (info->rank != 2 || !is_factor(rewrite, scale, rewrite_dim(info, 1), &one_scale) ||
        rewrite_value_info(rewrite, scale)->dtype != INLAY_FLOAT ||
        (zero != INLAY_NONE && (!is_factor(rewrite, zero, rewrite_dim(info, 1), &one_zero) || one_zero != one_scale ||
                                rewrite_value_info(rewrite, zero)->rank != rewrite_value_info(rewrite, scale)->rank)))
        return INLAY_OK;
    node = rewrite_make_node(rewrite, "DequantizeLinear", 13, NULL, inputs, zero == INLAY_NONE ? 2 : 3, 1);
    if (node == NULL || graph_set_attr_int(rewrite->graph, node, "axis", 1) != INLAY_OK ||
        rewrite_insert_node(rewrite, node, INLAY_FLOAT) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    *out = node->info.outputs[0];
    return INLAY_OK;
}

/* Inserts op(a, b); b may be INLAY_NONE. Returns INLAY_NONE if out of memory. */
static uint32_t insert_op(struct rewrite *rewrite, const char *op, uint32_t a, uint32_t b)
{
    const uint32_t inputs[] = { a, b };
    graph_node *node = rewrite_make_node(rewrite, op, 13, NULL, inputs, b == INLAY_NONE ? 1 : 2, 1);

    return a == INLAY_NONE || node == NULL || rewrite_insert_node(rewrite, node, INLAY_FLOAT) != INLAY_OK
               ? INLAY_NONE
               : node->info.outputs[0];
}

/* Minimum or maximum of each row and 0. */
static uint32_t insert_row_bound(struct rewrite *rewrite, const char *reduce, const char *with_zero, uint32_t input,
                                 uint32_t zero)
{
    static const int64_t last = -1;
    graph_node *node = rewrite_make_node(rewrite, reduce, 13, NULL, &input, 1, 1);

    if (node == NULL || zero == INLAY_NONE || graph_set_attr_ints(rewrite->graph, node, "axes", &last, 1) != INLAY_OK ||
        graph_set_attr_int(rewrite->graph, node, "keepdims", 1) != INLAY_OK ||
        rewrite_insert_node(rewrite, node, INLAY_FLOAT) != INLAY_OK)
        return INLAY_NONE;
    return insert_op(rewrite, with_zero, node->info.outputs[0], zero);
}

/* Rounds each row of input as DynamicQuantizeLinear-11 and DequantizeLinear would; a row of zeros gets the smallest
 * scale. INLAY_NONE: out of memory. */
static uint32_t quantize_rows(struct rewrite *rewrite, uint32_t input)
{
    const float zero = 0, steps = 255, smallest = FLT_MIN;
    const uint32_t zero_value = rewrite_constant(rewrite, INLAY_FLOAT, 0, NULL, &zero, sizeof zero);
    const uint32_t max_step = rewrite_constant(rewrite, INLAY_FLOAT, 0, NULL, &steps, sizeof steps);
    const uint32_t min_scale = rewrite_constant(rewrite, INLAY_FLOAT, 0, NULL, &smallest, sizeof smallest);
    const uint32_t high = insert_row_bound(rewrite, "ReduceMax", "Max", input, zero_value),
                   low = insert_row_bound(rewrite, "ReduceMin", "Min", input, zero_value);
    const uint32_t below = insert_op(rewrite, "Sub", zero_value, low), range = insert_op(rewrite, "Add", high, below);
    const uint32_t scale = insert_op(rewrite, "Max", insert_op(rewrite, "Div", range, max_step), min_scale);
    const uint32_t zero_point = insert_op(rewrite, "Round", insert_op(rewrite, "Div", below, scale), INLAY_NONE);
    const uint32_t step = insert_op(rewrite, "Round", insert_op(rewrite, "Div", input, scale), INLAY_NONE);
    const uint32_t shifted = insert_op(rewrite, "Add", step, zero_point);
    const uint32_t clamped = insert_op(rewrite, "Max", insert_op(rewrite, "Min", shifted, max_step), zero_value);

    if (max_step == INLAY_NONE || min_scale == INLAY_NONE || low == INLAY_NONE || below == INLAY_NONE ||
        scale == INLAY_NONE || zero_point == INLAY_NONE)
        return INLAY_NONE;
    return insert_op(rewrite, "Mul", insert_op(rewrite, "Sub", clamped, zero_point), scale);
}

static inlay_status match_float_activations(struct rewrite *rewrite, graph_node *node)
{
    const graph_node *cast = NULL, *product, *dynamic;
    uint32_t scale = INLAY_NONE, weights, input;
    graph_node *new_node;
    inlay_status status;

    for (uint32_t side = 0; pass_is_op(node, "Mul") && side < 2 && cast == NULL; side++) {
        cast = rewrite_producer_op(rewrite, rewrite_input(rewrite, node, side), "Cast");
        scale = rewrite_input(rewrite, node, 1 - side);
    }
    product = cast == NULL ? NULL : rewrite_producer_op(rewrite, rewrite_input(rewrite, cast, 0), "MatMulInteger");
    dynamic = product == NULL ? NULL : rewrite_producer(rewrite, rewrite_input(rewrite, product, 0));
    if (dynamic == NULL || !pass_is_op(dynamic, "DynamicQuantizeLinear") ||
        rewrite_input(rewrite, product, 0) != rewrite_resolve(rewrite, dynamic->info.outputs[0]) ||
        rewrite_input(rewrite, product, 2) != rewrite_resolve(rewrite, dynamic->info.outputs[2]) ||
        !rewrite_is_constant(rewrite, rewrite_input(rewrite, product, 1)) ||
        rewrite_value_info(rewrite, node->info.outputs[0])->dtype != INLAY_FLOAT)
        return INLAY_OK;
    scale = other_factor(rewrite, scale, rewrite_resolve(rewrite, dynamic->info.outputs[1]));
    status = insert_dequantize(rewrite, rewrite_input(rewrite, product, 1), scale, rewrite_input(rewrite, product, 3),
                               &weights);
    if (status != INLAY_OK || weights == INLAY_NONE)
        return status;
    input = rewrite_input(rewrite, dynamic, 0);
    if (!rewrite->ctx->options.float_activations && (input = quantize_rows(rewrite, input)) == INLAY_NONE)
        return rewrite_no_memory(rewrite);
    new_node = rewrite_make_node(rewrite, "MatMul", 13, node, (const uint32_t[]){ input, weights }, 2, 1);
    return new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, new_node);
}

inlay_status pass_float_activations(pass_ctx *ctx, bool *out_changed)
{
    return ctx->options.float_activations || ctx->options.dynamic_rows
               ? rewrite_each_graph(ctx, match_float_activations, out_changed)
               : INLAY_OK;
}
