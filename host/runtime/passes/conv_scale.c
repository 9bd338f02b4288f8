/* Folds Mul, Div, Add or Sub with one constant for each output channel into the Conv or ConvTranspose before it. */
#include "passes/conv_scale.h"
#include "inlay/check.h"
#include <math.h>
#include <string.h>

enum { RELEASED_BYTES = 1 << 18 }; /* originals from this size on are released from memory */

/* The DequantizeLinear of constants, with float scales, that provides the weights of a Conv and has no other reader.
 * NULL: none, or its scales cannot be set for each output channel. */
static graph_node *quantized_weights(const struct rewrite *rewrite, const graph_node *node)
{
    const uint32_t value = rewrite_input(rewrite, node, 1);
    graph_node *dequantize = rewrite_producer_op(rewrite, value, "DequantizeLinear");
    const inlay_value_info *input, *scale;

    if (dequantize == NULL || !rewrite_has_one_use(rewrite, value) || !pass_is_op(node, "Conv"))
        return NULL;
    input = rewrite_value_info(rewrite, rewrite_input(rewrite, dequantize, 0));
    scale = rewrite_value_info(rewrite, rewrite_input(rewrite, dequantize, 1));
    if (!rewrite_is_constant(rewrite, rewrite_input(rewrite, dequantize, 0)) ||
        !rewrite_is_constant(rewrite, rewrite_input(rewrite, dequantize, 1)) || scale->dtype != INLAY_FLOAT ||
        rewrite_value_info(rewrite, value)->dtype != INLAY_FLOAT || input->rank < 3)
        return NULL;
    if (scale->rank == 0) /* the scale is repeated for each channel; a zero point would have to be repeated as well */
        return rewrite_input(rewrite, dequantize, 2) == INLAY_NONE ? dequantize : NULL;
    return rewrite_dim(scale, 0) == rewrite_dim(input, 0) &&
                   (scale->rank == input->rank || graph_attr_int(dequantize, "axis", 1) == 0)
               ? dequantize
               : NULL;
}

graph_node *conv_to_scale(const struct rewrite *rewrite, uint32_t value, int64_t *out_channels)
{
    graph_node *node = rewrite_producer_op(rewrite, value, "Conv");
    bool transposed = node == NULL;
    const inlay_value_info *weight;
    uint32_t bias;
    int64_t groups;

    if (transposed)
        node = rewrite_producer_op(rewrite, value, "ConvTranspose");
    if (node == NULL || !rewrite_has_one_use(rewrite, value))
        return NULL;
    weight = rewrite_value_info(rewrite, rewrite_input(rewrite, node, 1));
    bias = rewrite_input(rewrite, node, 2);
    groups = graph_attr_int(node, "group", 1);
    if ((!rewrite_is_constant(rewrite, rewrite_input(rewrite, node, 1)) && quantized_weights(rewrite, node) == NULL) ||
        weight->dtype != INLAY_FLOAT || weight->rank < 3 || weight->dims[0].kind != INLAY_DIM_FIXED || groups < 1)
        return NULL;
    *out_channels = transposed ? weight->dims[1].value * groups : weight->dims[0].value;
    if (bias != INLAY_NONE &&
        (!rewrite_is_constant(rewrite, bias) || rewrite_value_info(rewrite, bias)->dtype != INLAY_FLOAT ||
         rewrite_value_info(rewrite, bias)->data_bytes != (uint64_t)*out_channels * sizeof(float)))
        return NULL;
    if (transposed && (weight->dims[0].value % groups != 0 || weight->dims[0].value == 0))
        return NULL;
    return node;
}

/* to[count] = from * factor; `from` may be unaligned. */
static void scale_floats(const char *from, int64_t count, double factor, float *to)
{
    for (int64_t i = 0; i < count; i++) {
        float element;

        memcpy(&element, from + (size_t)i * sizeof element, sizeof element);
        to[i] = (float)((double)element * factor);
    }
}

/* Multiplies the scales of quantized weights by the factor of each channel: each scale is rounded once more, the
 * elements are unchanged. */
static uint32_t scaled_scales(struct rewrite *rewrite, graph_node *dequantize, const double *factor)
{
    const uint32_t old = rewrite_input(rewrite, dequantize, 1);
    const inlay_value_info *info = rewrite_value_info(rewrite, old);
    const int64_t channels = rewrite_dim(rewrite_value_info(rewrite, rewrite_input(rewrite, dequantize, 0)), 0);
    const int64_t count = info->rank == 0 ? channels : (int64_t)(info->data_bytes / sizeof(float));
    uint32_t inputs[3] = { rewrite_input(rewrite, dequantize, 0), INLAY_NONE, rewrite_input(rewrite, dequantize, 2) },
             rank = info->rank;
    const float *from = rewrite_floats(rewrite, old);
    float *to = graph_blob_alloc(rewrite->graph->model, count > 0 ? (size_t)count * sizeof *to : 1);
    int64_t dims[INLAY_MAX_RANK] = { channels };
    graph_node *new_node;

    if (to == NULL || from == NULL)
        return INLAY_NONE;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = info->dims[d].value;
    INLAY_CHECK(channels == 0 || count % channels == 0);
    for (int64_t i = 0; i < count; i++)
        to[i] = (float)((double)from[rank == 0 ? 0 : i] * factor[i / (count / channels)]);
    inputs[1] =
        rewrite_constant_blob(rewrite, INLAY_FLOAT, rank == 0 ? 1 : rank, dims, to, (uint64_t)count * sizeof *to);
    new_node = inputs[1] == INLAY_NONE ? NULL
                                       : rewrite_make_node(rewrite, "DequantizeLinear", dequantize->opset, dequantize,
                                                           inputs, inputs[2] == INLAY_NONE ? 2 : 3, 1);
    for (uint32_t i = 0; new_node != NULL && i < dequantize->own_attr_count; i++)
        if (graph_set_attr(rewrite->graph, new_node,
                           INLAY_AT(inlay_attr_info, dequantize->info.attrs, dequantize->info.attr_stride, i)) !=
            INLAY_OK)
            return INLAY_NONE;
    if (new_node == NULL || (rank == 0 && graph_set_attr_int(rewrite->graph, new_node, "axis", 0) != INLAY_OK) ||
        rewrite_insert_node(rewrite, new_node, INLAY_FLOAT) != INLAY_OK)
        return INLAY_NONE;
    return new_node->info.outputs[0];
}

/* Conv's weight[M, C/g, ...]: the weights of an output channel are contiguous. ConvTranspose's weight[C, M/g, ...]:
 * output channel g * M/g + j is column j of the rows of group g. */
static uint32_t scaled_weight(struct rewrite *rewrite, const graph_node *conv, const double *scale)
{
    uint32_t value = rewrite_input(rewrite, conv, 1);
    const inlay_value_info *info = rewrite_value_info(rewrite, value);
    bool transposed = pass_is_op(conv, "ConvTranspose");
    int64_t rows = info->dims[0].value, columns = transposed ? info->dims[1].value : 1, inner, dims[INLAY_MAX_RANK];
    int64_t group_rows = transposed ? rows / graph_attr_int(conv, "group", 1) : 1;
    uint32_t rank = info->rank;
    uint64_t bytes = info->data_bytes;
    const char *from = info->data;
    float *to;

    if (scale == NULL)
        return value;
    if (!rewrite_is_constant(rewrite, value))
        return scaled_scales(rewrite, quantized_weights(rewrite, conv), scale);
    to = rank > INLAY_MAX_RANK ? NULL : graph_blob_alloc(rewrite->graph->model, bytes > 0 ? (size_t)bytes : 1);
    if (to == NULL)
        return INLAY_NONE;
    inner = rows * columns > 0 ? (int64_t)(bytes / sizeof *to) / (rows * columns) : 0;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = info->dims[d].value;
    for (int64_t i = 0; i < rows * columns && inner > 0; i++)
        scale_floats(from + (size_t)(i * inner) * sizeof *to, inner,
                     scale[transposed ? i / columns / group_rows * columns + i % columns : i], to + i * inner);
    if (bytes >= RELEASED_BYTES)
        graph_blob_release_pages(rewrite->graph->model, from, (size_t)bytes);
    return rewrite_constant_blob(rewrite, INLAY_FLOAT, rank, dims, to, bytes);
}

inlay_status conv_scale(struct rewrite *rewrite, graph_node *conv, graph_node *last, int64_t channels,
                        const double *scale, const double *shift)
{
    uint32_t old = rewrite_input(rewrite, conv, 2), weight, bias;
    const float *old_bias = old == INLAY_NONE ? NULL : rewrite_floats(rewrite, old);
    float *values = arena_array(&rewrite->scratch, (size_t)channels + 1, sizeof *values);
    graph_node *new_node = NULL;

    if (values == NULL || (old != INLAY_NONE && old_bias == NULL))
        return rewrite_no_memory(rewrite);
    INLAY_CHECK(channels >= 0);
    for (int64_t c = 0; c < channels; c++)
        values[c] = (float)((old_bias == NULL ? 0 : (double)old_bias[c]) * (scale == NULL ? 1 : scale[c]) + shift[c]);
    weight = scaled_weight(rewrite, conv, scale);
    bias = rewrite_constant(rewrite, INLAY_FLOAT, 1, &channels, values, (uint64_t)channels * sizeof *values);
    if (weight != INLAY_NONE && bias != INLAY_NONE)
        new_node = rewrite_make_node(rewrite, conv->info.op_type.data, conv->opset, conv,
                                     (const uint32_t[]){ rewrite_input(rewrite, conv, 0), weight, bias }, 3, 1);
    if (new_node == NULL)
        return rewrite_no_memory(rewrite);
    for (uint32_t i = 0; i < conv->info.attr_count; i++)
        if (graph_set_attr(rewrite->graph, new_node, &conv->info.attrs[i]) != INLAY_OK)
            return rewrite_no_memory(rewrite);
    return rewrite_replace_node(rewrite, last, new_node);
}

/* Reads a constant as one number for each channel of values[N, C, ...]: a scalar, or all dims 1 except that of the
 * channels. */
static bool read_channels(struct rewrite *rewrite, uint32_t value, uint32_t rank, int64_t channels, double *out)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, value);
    const float *elements = rewrite_floats(rewrite, value);
    uint64_t count;

    if (elements == NULL || info->rank > rank)
        return false;
    for (uint32_t d = 0; d < info->rank; d++) {
        uint32_t axis = rank - info->rank + d;
        if (info->dims[d].value != 1 && (axis != 1 || info->dims[d].value != channels))
            return false;
    }
    count = info->data_bytes / sizeof *elements;
    for (int64_t i = 0; i < channels; i++)
        out[i] = (double)elements[count == 1 ? 0 : i];
    return count > 0;
}

inlay_status match_conv_scale(struct rewrite *rewrite, graph_node *node)
{
    bool mul = pass_is_op(node, "Mul"), div = pass_is_op(node, "Div"), add = pass_is_op(node, "Add"),
         sub = pass_is_op(node, "Sub");
    double *scale, *shift, *values;
    graph_node *conv = NULL;
    uint32_t side = 0, rank;
    int64_t channels = 0;

    if ((!mul && !div && !add && !sub) || node->info.since_version < 7)
        return INLAY_OK;
    for (; conv == NULL && side < (mul || add ? 2 : 1); side++)
        if (rewrite_is_constant(rewrite, rewrite_input(rewrite, node, 1 - side)))
            conv = conv_to_scale(rewrite, rewrite_input(rewrite, node, side), &channels);
    if (conv == NULL)
        return INLAY_OK;
    rank = rewrite_value_info(rewrite, rewrite_input(rewrite, conv, 1))->rank;
    scale = arena_array(&rewrite->scratch, (size_t)channels + 1, sizeof *scale);
    shift = arena_array(&rewrite->scratch, (size_t)channels + 1, sizeof *shift);
    values = mul || div ? scale : shift;
    if (scale == NULL || shift == NULL)
        return rewrite_no_memory(rewrite);
    if (!read_channels(rewrite, rewrite_input(rewrite, node, 2 - side), rank, channels, values))
        return INLAY_OK;
    for (int64_t c = 0; c < channels; c++) {
        values[c] = div ? 1 / values[c] : sub ? -values[c] : values[c];
        if (!isfinite(values[c]))
            return INLAY_OK; /* 0 * infinity inside the sum differs from infinity * the sum */
    }
    return conv_scale(rewrite, conv, node, channels, mul || div ? scale : NULL, shift);
}
