/* Replaces float operators between DequantizeLinear and QuantizeLinear by integer operators:
 *
 *     DQ(x), DQ(w), DQ(bias) -> Conv -> Relu or Clip -> Q        ->  QLinearConv, Clip
 *     DQ(x), DQ(w), DQ(bias) -> Conv -> Relu -> MaxPool -> Q     ->  QLinearConv, MaxPool of 8-bit values
 *     DQ(x), DQ(w), DQ(bias) -> Conv, read as floats             ->  ConvInteger, Cast, Mul, Add (quantized_convs.c)
 *     DQ(x), DQ(w) -> MatMul or Gemm                             ->  MatMulInteger, Cast, Mul, Add
 *
 * The Clip is omitted if the 8-bit type saturates at its bounds anyway. Views between Conv and Q move as
 * MaxPool does.
 *
 * Weights, biases, scales and zero points must be constant. Sums that were rounded as floats become exact, so a result
 * may change by one quantization step. The pass applies if a provider with fast integers offers the new operator, and
 * then at every level of the optimiser: otherwise each level would round differently. */
#include "passes/quantized.h"
#include <math.h>

/* Returns true if the weights are symmetric: int8 with zero point 0, or uint8 with 128. Others have no faster kernel,
 * since their zero points would have to be subtracted from every sum. */
static bool are_symmetric(const struct rewrite *rewrite, const struct quant *weights)
{
    for (int64_t i = 0; i < weights->count; i++)
        if (quant_zero(rewrite, weights, i) != (weights->dtype == INLAY_INT8 ? 0 : 128))
            return false;
    return true;
}

/* The activations between the convolution and Q, as bounds of the quantized integers. */
struct bounds {
    int64_t low, high;
};

static int64_t quantize(double number, double scale, int64_t zero, struct bounds type)
{
    double steps = nearbyint(number / scale) + (double)zero;

    return isnan(steps) || steps < (double)type.low ? type.low : steps > (double)type.high ? type.high : (int64_t)steps;
}

/* Follows Relu and Clip back to their input, the value before the bounds are applied. */
static bool read_bounds(const struct rewrite *rewrite, uint32_t *io_value, const struct quant *quant,
                        struct bounds *bounds)
{
    const struct bounds type = quant->dtype == INLAY_INT8 ? (struct bounds){ -128, 127 } : (struct bounds){ 0, 255 };
    double scale = quant_scale(rewrite, quant, 0);
    int64_t zero = quant_zero(rewrite, quant, 0);

    *bounds = type;
    while (rewrite_has_one_use(rewrite, *io_value)) {
        const graph_node *relu = rewrite_producer_op(rewrite, *io_value, "Relu"),
                         *clip = rewrite_producer_op(rewrite, *io_value, "Clip");
        double low = relu != NULL ? 0 : -INFINITY, high = INFINITY;

        if (relu == NULL && clip == NULL)
            return true;
        if (clip != NULL && clip->info.since_version < 11) {
            low = graph_attr_float(clip, "min", -INFINITY);
            high = graph_attr_float(clip, "max", INFINITY);
        } else if (clip != NULL) {
            if ((rewrite_input(rewrite, clip, 1) != INLAY_NONE &&
                 !rewrite_scalar(rewrite, rewrite_input(rewrite, clip, 1), &low)) ||
                (rewrite_input(rewrite, clip, 2) != INLAY_NONE &&
                 !rewrite_scalar(rewrite, rewrite_input(rewrite, clip, 2), &high)) ||
                isnan(low) || isnan(high) || low > high)
                return false;
        }
        /* Outer bounds, which were read first, apply last: these may only tighten them. */
        low = (double)quantize(low, scale, zero, type);
        high = (double)quantize(high, scale, zero, type);
        if (bounds->high < (int64_t)low || bounds->low > (int64_t)high)
            return false; /* the bounds do not overlap; too rare to handle */
        bounds->low = (int64_t)low > bounds->low ? (int64_t)low : bounds->low;
        bounds->high = (int64_t)high < bounds->high ? (int64_t)high : bounds->high;
        *io_value = rewrite_input(rewrite, relu != NULL ? relu : clip, 0);
    }
    return false;
}

/* Reads the bias of each filter in units of scale(quant) * scale(weights). Returns false if it is unknown, larger than
 * `most` units, or if rounding it to that unit would be off by more than 1/64 of a step of the output. */
static bool read_bias(struct rewrite *rewrite, uint32_t value, const struct quant *quant, const struct quant *weights,
                      const struct quant *output, int64_t filters, int64_t most, int32_t *out)
{
    double *values = arena_array(&rewrite->scratch, 2 * (size_t)filters, sizeof *values);

    if (values == NULL || !quant_bias(rewrite, value, filters, values, values + filters))
        return false;
    for (int64_t i = 0; i < filters; i++) {
        const double unit = quant_scale(rewrite, quant, 0) * quant_scale(rewrite, weights, i),
                     step = quant_scale(rewrite, output, 0);
        const double scale = values[filters + i];
        const bool has_unit = scale != 1 && fabs(scale - unit) <= 1e-6 * unit; /* the unit, rounded to float */
        const double bias = has_unit ? values[i] : values[i] * scale / unit;

        if (!(fabs(bias) <= (double)most) || (fabs(bias - nearbyint(bias)) > 1e-3 && unit > step / 32))
            return false;
        out[i] = (int32_t)llrint(bias);
    }
    return true;
}

static inlay_status replace_conv(struct rewrite *rewrite, graph_node *node, const graph_node *conv,
                                 const struct quant *quant, const struct quant *weights, const struct quant *output,
                                 uint32_t bias, const struct bounds *bounds)
{
    const struct bounds type = output->dtype == INLAY_INT8 ? (struct bounds){ -128, 127 } : (struct bounds){ 0, 255 };
    const uint32_t inputs[] = { quant->value,
                                quant->scale,
                                quant_zero_value(rewrite, quant),
                                weights->value,
                                weights->scale,
                                quant_zero_value(rewrite, weights),
                                output->scale,
                                quant_zero_value(rewrite, output),
                                bias };
    graph_node *new_node, *clip;
    uint32_t low, high;
    inlay_status status;

    if ((bounds->low != type.low || bounds->high != type.high) &&
        !pass_allows(rewrite->ctx, 12)) /* Clip supports 8-bit types since version 12 */
        return INLAY_OK;
    new_node = rewrite_make_node(rewrite, "QLinearConv", 10, conv, inputs, bias != INLAY_NONE ? 9 : 8, 1);
    if (new_node == NULL || inputs[2] == INLAY_NONE || inputs[5] == INLAY_NONE || inputs[7] == INLAY_NONE)
        return rewrite_no_memory(rewrite);
    for (uint32_t i = 0; i < conv->info.attr_count; i++)
        if (graph_set_attr(rewrite->graph, new_node, &conv->info.attrs[i]) != INLAY_OK)
            return rewrite_no_memory(rewrite);
    if (!quant_is_offered(rewrite, new_node, node->info.outputs[0], output->dtype))
        return INLAY_OK;
    if (bounds->low == type.low && bounds->high == type.high)
        return rewrite_replace_node(rewrite, node, new_node);
    status = rewrite_insert_node(rewrite, new_node, output->dtype);
    if (status != INLAY_OK)
        return status;
    low = quant_byte(rewrite, output->dtype, bounds->low);
    high = quant_byte(rewrite, output->dtype, bounds->high);
    clip = low == INLAY_NONE || high == INLAY_NONE
               ? NULL
               : rewrite_make_node(rewrite, "Clip", 13, node,
                                   (const uint32_t[]){ new_node->info.outputs[0], low, high }, 3, 1);
    return clip == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, clip);
}

/* Files get no QLinearConv of types that ONNX Runtime 1.30 lacks. */
static bool types_are_portable(const struct rewrite *rewrite, inlay_dtype input, inlay_dtype weights,
                               inlay_dtype output)
{
    return rewrite->ctx->options.newest_opset == 0 ||
           (input == output && (input == INLAY_UINT8 || weights == INLAY_INT8));
}

/* A convolution whose result is read only by QuantizeLinear. */
static inlay_status match_conv(struct rewrite *rewrite, graph_node *node)
{
    uint32_t value = rewrite_input(rewrite, node, 0), bias = INLAY_NONE;
    const graph_node *conv;
    struct quant quant, weights, output = { 0 };
    int64_t filters, room;
    struct bounds bounds;

    if (value == INLAY_NONE || rewrite_value_info(rewrite, value)->dtype != INLAY_FLOAT ||
        graph_attr_int(node, "precision", 0) > 1 ||
        !quant_read_scales(rewrite, node, rewrite_value_info(rewrite, node->info.outputs[0])->dtype, &output) ||
        output.count != 1 || !read_bounds(rewrite, &value, &output, &bounds))
        return INLAY_OK;
    conv = rewrite_producer_op(rewrite, value, "Conv");
    if (conv == NULL || !rewrite_has_one_use(rewrite, value) ||
        !quant_read(rewrite, rewrite_input(rewrite, conv, 0), &quant) ||
        !quant_read(rewrite, rewrite_input(rewrite, conv, 1), &weights) || quant.count != 1 ||
        !rewrite_is_constant(rewrite, weights.value) || !are_symmetric(rewrite, &weights) ||
        !types_are_portable(rewrite, quant.dtype, weights.dtype, output.dtype))
        return INLAY_OK;
    filters = rewrite_dim(rewrite_value_info(rewrite, weights.value), 0);
    room = quant_room(rewrite, &weights, 255 * 128); /* the weights are symmetric */
    if (room < 0 || (weights.count > 1 && (weights.axis != 0 || weights.count != filters)))
        return INLAY_OK;
    if (rewrite_input(rewrite, conv, 2) != INLAY_NONE) {
        int32_t *values = arena_array(&rewrite->scratch, (size_t)filters, sizeof *values);

        if (values == NULL)
            return rewrite_no_memory(rewrite);
        if (!read_bias(rewrite, rewrite_input(rewrite, conv, 2), &quant, &weights, &output, filters, room, values))
            return INLAY_OK;
        bias = rewrite_constant(rewrite, INLAY_INT32, 1, &filters, values, (uint64_t)filters * sizeof *values);
        if (bias == INLAY_NONE)
            return rewrite_no_memory(rewrite);
    }
    return replace_conv(rewrite, node, conv, &quant, &weights, &output, bias, &bounds);
}

/* Returns true if value is dequantized with one scale, or is the result of an 8-bit convolution with one reader,
 * through Relu and Clip. Such values are never NaN. */
static bool is_dequantized(const struct rewrite *rewrite, uint32_t value)
{
    const graph_node *node;
    struct quant quant, weights;

    if (quant_read(rewrite, value, &quant))
        return quant.count == 1;
    for (; rewrite_has_one_use(rewrite, value) && (node = rewrite_producer(rewrite, value)) != NULL;
         value = rewrite_input(rewrite, node, 0)) {
        if (pass_is_op(node, "Conv"))
            return quant_read(rewrite, rewrite_input(rewrite, node, 0), &quant) &&
                   quant_read(rewrite, rewrite_input(rewrite, node, 1), &weights);
        if (!pass_is_op(node, "Relu") && !pass_is_op(node, "Clip"))
            break;
    }
    return false;
}

/* Moves QuantizeLinear with one scale before an operator that only moves elements or takes their maximum. Quantization
 * preserves the order, so the result is the same, the operator moves 8-bit values, and its producer ends in 8-bit
 * values. */
static inlay_status match_data_movement(struct rewrite *rewrite, graph_node *node)
{
    const uint32_t value = rewrite_input(rewrite, node, 0);
    graph_node *old = pass_is_op(node, "QuantizeLinear") ? rewrite_producer(rewrite, value) : NULL, *quantize_node,
               *new_node;
    uint32_t inputs[3];
    bool moved;
    struct quant quant = { 0 };
    inlay_status status;

    moved = old != NULL && (pass_is_among(old, "Reshape Flatten Squeeze Unsqueeze Transpose") ||
                            (pass_is_op(old, "MaxPool") && old->info.since_version >= 12));
    if (!moved || rewrite_value_info(rewrite, value)->dtype != INLAY_FLOAT || !rewrite_has_one_use(rewrite, value) ||
        old->info.input_count > 2 || (old->info.output_count > 1 && !rewrite_is_unused(rewrite, old, 1)) ||
        node->info.input_count > 3 ||
        !quant_read_scales(rewrite, node, rewrite_value_info(rewrite, node->info.outputs[0])->dtype, &quant) ||
        quant.count != 1 || !is_dequantized(rewrite, rewrite_input(rewrite, old, 0)))
        return INLAY_OK;
    inputs[0] = node->info.outputs[0]; /* stands for an 8-bit input, for the question to the provider only */
    inputs[1] = rewrite_input(rewrite, old, 1);
    new_node = rewrite_copy_attrs(
        rewrite, old,
        rewrite_make_node(rewrite, old->info.op_type.data, old->opset, old, inputs, old->info.input_count, 1));
    if (new_node == NULL)
        return rewrite_no_memory(rewrite);
    new_node->info.since_version = old->info.since_version;
    if (!quant_is_offered(rewrite, new_node, node->info.outputs[0], quant.dtype))
        return INLAY_OK;
    for (uint32_t i = 0; i < node->info.input_count; i++)
        inputs[i] = rewrite_input(rewrite, i == 0 ? old : node, i);
    quantize_node = rewrite_copy_attrs(
        rewrite, node,
        rewrite_make_node(rewrite, "QuantizeLinear", node->opset, node, inputs, node->info.input_count, 1));
    if (quantize_node == NULL)
        return rewrite_no_memory(rewrite);
    status = rewrite_insert_node(rewrite, quantize_node, quant.dtype);
    if (status != INLAY_OK)
        return status;
    inputs[0] = quantize_node->info.outputs[0];
    inputs[1] = rewrite_input(rewrite, old, 1);
    new_node = rewrite_copy_attrs(
        rewrite, old,
        rewrite_make_node(rewrite, old->info.op_type.data, old->opset, old, inputs, old->info.input_count, 1));
    return new_node == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, new_node);
}

/* The weights as [K, N], transposed if necessary. */
static uint32_t transpose_weights(struct rewrite *rewrite, const struct quant *weights, bool trans, int64_t k,
                                  int64_t n)
{
    enum { TILE = 64 }; /* source and target tile together fit into the first-level cache */
    const int8_t *from = rewrite_value_info(rewrite, weights->value)->data;
    const int64_t dims[] = { k, n };
    int8_t *to;

    if (!trans)
        return weights->value;
    to = graph_blob_alloc(rewrite->graph->model, (size_t)(k * n));
    if (to == NULL)
        return INLAY_NONE;
    for (int64_t i = 0; i < k; i += TILE)
        for (int64_t j = 0; j < n; j += TILE)
            for (int64_t y = i; y < k && y < i + TILE; y++)
                for (int64_t x = j; x < n && x < j + TILE; x++)
                    to[y * n + x] = from[x * k + y];
    return rewrite_constant_blob(rewrite, weights->dtype, 2, dims, to, (uint64_t)(k * n));
}

/* Inserts MatMulInteger -> Cast -> Mul. If `last`, Mul replaces node; otherwise *out receives its output. INLAY_NONE:
 * no provider would run the MatMulInteger. */
static inlay_status insert_product(struct rewrite *rewrite, graph_node *node, const uint32_t *inputs, uint32_t scale,
                                   bool last, uint32_t *out)
{
    graph_node *product = rewrite_make_node(rewrite, "MatMulInteger", 10, node, inputs, 4, 1);
    inlay_status status;

    if (product == NULL)
        return rewrite_no_memory(rewrite);
    *out = INLAY_NONE;
    if (!quant_is_offered(rewrite, product, node->info.outputs[0], INLAY_INT32))
        return INLAY_OK;
    INLAY_TRY(rewrite_insert_node(rewrite, product, INLAY_INT32));
    status = quant_scale_product(rewrite, node, product, scale, last, out);
done:
    return status;
}

/* MatMul with constant weights, or such a Gemm whose C is a constant row. */
static inlay_status match_matmul(struct rewrite *rewrite, graph_node *node)
{
    bool gemm = pass_is_op(node, "Gemm"), trans = gemm && graph_attr_int(node, "transB", 0) != 0;
    double alpha = gemm ? graph_attr_float(node, "alpha", 1) : 1;
    uint32_t c = gemm ? rewrite_input(rewrite, node, 2) : INLAY_NONE, inputs[4], scale, sum = INLAY_NONE;
    int64_t k, columns;
    graph_node *add;
    float *scales;
    struct quant quant, weights;
    inlay_status status;

    if (!quant_read(rewrite, rewrite_input(rewrite, node, 0), &quant) ||
        !quant_read(rewrite, rewrite_input(rewrite, node, 1), &weights) || quant.count != 1 ||
        !rewrite_is_constant(rewrite, weights.value) || rewrite_value_info(rewrite, weights.value)->rank != 2 ||
        (gemm && (graph_attr_int(node, "transA", 0) != 0 || node->info.since_version < 7)) || !isfinite(alpha))
        return INLAY_OK;
    if (c != INLAY_NONE && (!rewrite_is_constant(rewrite, c) || rewrite_value_info(rewrite, c)->dtype != INLAY_FLOAT ||
                            rewrite_value_info(rewrite, c)->rank != 1 || graph_attr_float(node, "beta", 1) != 1))
        return INLAY_OK;
    k = rewrite_dim(rewrite_value_info(rewrite, weights.value), trans ? 1 : 0);
    columns = rewrite_dim(rewrite_value_info(rewrite, weights.value), trans ? 0 : 1);
    if (k < 1 || columns < 1 || (weights.count > 1 && (weights.axis != (trans ? 0 : 1) || weights.count != columns)) ||
        (c != INLAY_NONE && rewrite_dim(rewrite_value_info(rewrite, c), 0) != columns) || k > INT32_MAX / (255 * 255))
        return INLAY_OK;
    scales = arena_array(&rewrite->scratch, (size_t)weights.count, sizeof *scales);
    if (scales == NULL)
        return rewrite_no_memory(rewrite);
    for (int64_t i = 0; i < weights.count; i++)
        scales[i] = (float)(quant_scale(rewrite, &quant, 0) * quant_scale(rewrite, &weights, i) * alpha);
    scale = rewrite_constant(rewrite, INLAY_FLOAT, weights.count > 1, &weights.count, scales,
                             (uint64_t)weights.count * sizeof *scales);
    inputs[0] = quant.value;
    inputs[1] = transpose_weights(rewrite, &weights, trans, k, columns);
    inputs[2] = quant_byte(rewrite, quant.dtype, quant_zero(rewrite, &quant, 0));
    inputs[3] = quant_zero_value(rewrite, &weights);
    for (uint32_t i = 0; i < 4; i++)
        if (inputs[i] == INLAY_NONE || scale == INLAY_NONE)
            return rewrite_no_memory(rewrite);
    INLAY_TRY(insert_product(rewrite, node, inputs, scale, c == INLAY_NONE, &sum));
    if (c == INLAY_NONE || sum == INLAY_NONE)
        return INLAY_OK;
    add = rewrite_make_node(rewrite, "Add", 13, node, (const uint32_t[]){ sum, c }, 2, 1);
    status = add == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, add);
done:
    return status;
}

static inlay_status match_quantized_ops(struct rewrite *rewrite, graph_node *node)
{
    if (pass_is_op(node, "QuantizeLinear"))
        return match_conv(rewrite, node);
    return pass_is_op(node, "MatMul") || pass_is_op(node, "Gemm") ? match_matmul(rewrite, node) : INLAY_OK;
}

static inlay_status match_float_conv(struct rewrite *rewrite, graph_node *node)
{
    return pass_is_op(node, "Conv") ? quantized_conv(rewrite, node) : INLAY_OK;
}

/* Runs if a provider has fast integers, or if the user requested the pass by name (pass.c). */
inlay_status pass_quantized_ops(pass_ctx *ctx, bool *out_changed)
{
    bool float_convs = false, moved = false;
    inlay_status status;

    INLAY_TRY(rewrite_each_graph(ctx, match_data_movement, &moved));
    INLAY_TRY(rewrite_each_graph(ctx, match_quantized_ops, out_changed));
    /* now convolutions whose result is not quantized again, or not with the same bits */
    status = rewrite_each_graph(ctx, match_float_conv, &float_convs);
    *out_changed = *out_changed || float_convs || moved;
done:
    return status;
}
