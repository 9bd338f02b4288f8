/* Helpers for DequantizeLinear and QuantizeLinear; see quantized.h. */
#include "passes/quantized.h"
#include "inlay/check.h"
#include "base/element.h"
#include <math.h>
#include <string.h>

static bool is_byte(inlay_dtype dtype)
{
    return dtype == INLAY_UINT8 || dtype == INLAY_INT8;
}

bool quant_read_scales(const struct rewrite *rewrite, const graph_node *node, inlay_dtype dtype, struct quant *quant)
{
    const inlay_value_info *scale, *zero;
    int64_t rank = (int64_t)rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0))->rank;

    quant->scale = rewrite_input(rewrite, node, 1);
    quant->zero = rewrite_input(rewrite, node, 2);
    quant->dtype = dtype;
    scale = rewrite_value_info(rewrite, quant->scale);
    zero = rewrite_value_info(rewrite, quant->zero);
    if (!is_byte(dtype) || scale == NULL || !rewrite_is_constant(rewrite, quant->scale) ||
        scale->dtype != INLAY_FLOAT || scale->rank > 1 || graph_attr_int(node, "block_size", 0) != 0)
        return false;
    quant->count = graph_constant_count(scale);
    if (zero != NULL && (!rewrite_is_constant(rewrite, quant->zero) || zero->dtype != dtype ||
                         graph_constant_count(zero) != quant->count))
        return false;
    for (int64_t i = 0; i < quant->count; i++) {
        double value;

        if (!element_number(INLAY_FLOAT, scale->data, i, &value, NULL) || !isfinite(value) || value <= 0)
            return false;
    }
    if (rank == (int64_t)INLAY_RANK_UNKNOWN)
        return quant->count == 1;
    quant->axis = graph_attr_int(node, "axis", 1);
    quant->axis = quant->axis < 0 ? quant->axis + rank : quant->axis;
    return quant->count == 1 || (quant->count > 1 && quant->axis >= 0 && quant->axis < rank);
}

bool quant_read(const struct rewrite *rewrite, uint32_t value, struct quant *quant)
{
    const graph_node *node = rewrite_producer_op(rewrite, value, "DequantizeLinear");

    memset(quant, 0, sizeof *quant);
    if (node == NULL)
        return false;
    quant->value = rewrite_input(rewrite, node, 0);
    return quant->value != INLAY_NONE && rewrite_value_info(rewrite, value)->dtype == INLAY_FLOAT &&
           quant_read_scales(rewrite, node, rewrite_value_info(rewrite, quant->value)->dtype, quant);
}

double quant_scale(const struct rewrite *rewrite, const struct quant *quant, int64_t i)
{
    double value = 1;

    INLAY_CHECK(i >= 0 && (quant->count <= 1 || i < quant->count));
    (void)element_number(INLAY_FLOAT, rewrite_value_info(rewrite, quant->scale)->data, quant->count > 1 ? i : 0, &value,
                         NULL);
    return value;
}

int64_t quant_zero(const struct rewrite *rewrite, const struct quant *quant, int64_t i)
{
    int64_t value = 0;

    INLAY_CHECK(i >= 0 && (quant->count <= 1 || i < quant->count));
    if (quant->zero != INLAY_NONE)
        (void)element_integer(quant->dtype, rewrite_value_info(rewrite, quant->zero)->data, quant->count > 1 ? i : 0,
                              &value);
    return value;
}

int64_t quant_room(const struct rewrite *rewrite, const struct quant *weights, int64_t most)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, weights->value);
    const int64_t filters = rewrite_dim(info, 0),
                  products = filters > 0 ? graph_constant_count(info) / filters : INT32_MAX;

    return products > INT32_MAX / most ? -1 : INT32_MAX - products * most;
}

uint32_t quant_byte(struct rewrite *rewrite, inlay_dtype dtype, int64_t value)
{
    int8_t byte = (int8_t)value;

    return rewrite_constant(rewrite, dtype, 0, NULL, &byte, 1);
}

uint32_t quant_zero_value(struct rewrite *rewrite, const struct quant *quant)
{
    return quant->zero != INLAY_NONE ? quant->zero : quant_byte(rewrite, quant->dtype, 0);
}

uint32_t quant_along_filters(struct rewrite *rewrite, uint32_t rank, int64_t filters, const float *values)
{
    int64_t dims[INLAY_MAX_RANK] = { filters };

    for (uint32_t d = 1; d + 1 < rank; d++)
        dims[d] = 1;
    return rewrite_constant(rewrite, INLAY_FLOAT, rank - 1, dims, values, (uint64_t)filters * sizeof *values);
}

inlay_status quant_scale_product(struct rewrite *rewrite, graph_node *node, const graph_node *product, uint32_t scale,
                                 bool last, uint32_t *out)
{
    graph_node *cast = rewrite_make_node(rewrite, "Cast", 13, node, product->info.outputs, 1, 1), *mul;
    inlay_status status;

    if (cast == NULL || graph_set_attr_int(rewrite->graph, cast, "to", INLAY_FLOAT) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    INLAY_TRY(rewrite_insert_node(rewrite, cast, INLAY_FLOAT));
    mul = rewrite_make_node(rewrite, "Mul", 13, node, (const uint32_t[]){ cast->info.outputs[0], scale }, 2, 1);
    if (mul == NULL)
        return rewrite_no_memory(rewrite);
    if (last)
        return rewrite_replace_node(rewrite, node, mul);
    status = rewrite_insert_node(rewrite, mul, INLAY_FLOAT);
    *out = mul->info.outputs[0];
done:
    return status;
}

bool quant_is_offered(const struct rewrite *rewrite, graph_node *new_node, uint32_t like, inlay_dtype dtype)
{
    inlay_value_info made = *rewrite_value_info(rewrite, like);

    if (rewrite->ctx->providers.offers_integers == NULL)
        return true;
    made.dtype = dtype;
    made.flags = 0;
    made.data = NULL;
    made.data_bytes = 0;
    if (new_node->info.since_version == 0) /* set by binding, which happens once the node is in the graph */
        new_node->info.since_version = 10;
    return rewrite->ctx->providers.offers_integers(rewrite->ctx->providers.ctx, rewrite->graph, new_node, &made);
}

/* Returns true if value is omitted or a constant of zeros. */
static bool is_zero(const struct rewrite *rewrite, uint32_t value)
{
    const inlay_value_info *zero = rewrite_value_info(rewrite, value);
    int64_t element;

    for (int64_t i = 0; zero != NULL && i < graph_constant_count(zero); i++)
        if (!rewrite_is_constant(rewrite, value) || !element_integer(zero->dtype, zero->data, i, &element) ||
            element != 0)
            return false;
    return true;
}

bool quant_bias(const struct rewrite *rewrite, uint32_t value, int64_t filters, double *out, double *out_factor)
{
    const graph_node *dequantize = rewrite_producer_op(rewrite, value, "DequantizeLinear");
    const uint32_t whole = dequantize == NULL ? value : rewrite_input(rewrite, dequantize, 0);
    const uint32_t factor = dequantize == NULL ? INLAY_NONE : rewrite_input(rewrite, dequantize, 1);
    const inlay_value_info *info = rewrite_value_info(rewrite, whole), *scale = rewrite_value_info(rewrite, factor);

    if (!rewrite_is_constant(rewrite, whole) || info->dtype != (dequantize == NULL ? INLAY_FLOAT : INLAY_INT32) ||
        graph_constant_count(info) != filters)
        return false;
    if (dequantize != NULL &&
        (scale == NULL || !rewrite_is_constant(rewrite, factor) || scale->dtype != INLAY_FLOAT || scale->rank > 1 ||
         (graph_constant_count(scale) != 1 && graph_constant_count(scale) != filters) ||
         !is_zero(rewrite, rewrite_input(rewrite, dequantize, 2))))
        return false;
    for (int64_t i = 0; i < filters; i++) {
        out_factor[i] = 1;
        if (!element_number(info->dtype, info->data, i, &out[i], NULL) ||
            (scale != NULL &&
             !element_number(INLAY_FLOAT, scale->data, graph_constant_count(scale) > 1 ? i : 0, &out_factor[i], NULL)))
            return false;
    }
    return true;
}
