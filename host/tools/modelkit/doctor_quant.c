/* Findings about quantized weights and scales. */
#include "modelkit/doctor_parts.h"
#include "inlay/check.h"
#include <math.h>
#include <string.h>

enum {
    LEAST_WEIGHTS = 64, /* too few to judge a distribution */
    NARROW = 32,        /* codes within +-32 of the zero point leave two of eight bits unused */
    NARROW_CHANNEL = 8  /* a channel within +-8 uses four bits */
};

/* Checks that every element of a scale is positive and not denormal. */
static void check_scale(struct doctor *doctor, struct graph *graph, graph_node *node, uint32_t value)
{
    inlay_tensor_view view;

    if (!doctor_constant(graph, value, &view) || view.dtype != INLAY_FLOAT)
        return;
    for (uint64_t i = 0; i < view.bytes / sizeof(float); i++) {
        float scale;

        memcpy(&scale, (const char *)view.data + i * sizeof scale, sizeof scale);
        if (isnormal(scale) && scale > 0)
            continue;
        (void)doctor_add(doctor, DOCTOR_QUANT_SCALE, graph, node, value, "scale '%.200s' is %g at %llu",
                         graph->values[value].info.name.data, (double)scale, (unsigned long long)i);
        return;
    }
}

/* The zero point of the weights if it is a single number, 0 if absent. False: it has one element per channel, or is
 * unknown. */
static bool zero_point(const struct graph *graph, const graph_node *node, int *out)
{
    inlay_tensor_view view;

    *out = 0;
    if (graph_input_at(node, 2) == INLAY_NONE)
        return true;
    if (!doctor_constant(graph, node->info.inputs[2], &view) || view.bytes != 1)
        return false;
    *out = view.dtype == INLAY_INT8 ? *(const int8_t *)view.data : *(const uint8_t *)view.data;
    return true;
}

static int code_of(const inlay_tensor_view *view, uint64_t i)
{
    return view->dtype == INLAY_INT8 ? ((const int8_t *)view->data)[i] : ((const uint8_t *)view->data)[i];
}

/* The channel axis of the reader's weights: the first of a convolution, the last of a matrix. */
static uint32_t channel_axis(const graph_node *reader, const inlay_tensor_view *view)
{
    return reader != NULL && (doctor_is_op(reader, "Conv") ||
                              (doctor_is_op(reader, "Gemm") && graph_attr_int(reader, "transB", 0)))
               ? 0
               : view->rank - 1;
}

/* Counts channels that use only a small part of the range, while other channels use it fully. */
static int64_t count_unused_range(const inlay_tensor_view *view, uint32_t axis, int zero)
{
    const int64_t channels = view->dims[axis];
    int64_t inner = 1, poor = 0;

    INLAY_CHECK(axis < view->rank);
    for (uint32_t i = axis + 1; i < view->rank; i++)
        inner *= view->dims[i];
    for (int64_t channel = 0; channel < channels; channel++) {
        int widest = 0;

        for (int64_t i = 0; i < (int64_t)view->bytes / (channels * inner); i++)
            for (int64_t k = 0; k < inner; k++) {
                const int far = code_of(view, (uint64_t)((i * channels + channel) * inner + k)) - zero;

                widest = far > widest ? far : -far > widest ? -far : widest;
            }
        poor += widest > 0 && widest <= NARROW_CHANNEL;
    }
    return poor;
}

static void check_weights(struct doctor *doctor, struct graph *graph, graph_node *node, const struct readers *readers)
{
    const uint32_t value = graph_input_at(node, 0);
    inlay_tensor_view view, scale;
    uint64_t ends = 0;
    int zero, widest = 0;
    int64_t poor;
    uint32_t axis;

    if (!doctor_constant(graph, value, &view) || (view.dtype != INLAY_INT8 && view.dtype != INLAY_UINT8) ||
        view.bytes < LEAST_WEIGHTS || !doctor_constant(graph, graph_input_at(node, 1), &scale) ||
        scale.bytes != sizeof(float) || !zero_point(graph, node, &zero))
        return;
    for (uint64_t i = 0; i < view.bytes; i++) {
        const int code = code_of(&view, i), far = code > zero ? code - zero : zero - code;

        ends += view.dtype == INLAY_INT8 ? code == -128 || code == 127 : code == 0 || code == 255;
        widest = far > widest ? far : widest;
    }
    if (ends * 20 > view.bytes) {
        (void)doctor_add(doctor, DOCTOR_QUANT_SATURATED, graph, node, value,
                         "%.0f %% of the weights '%.200s' are at the ends of the range of their type",
                         100.0 * (double)ends / (double)view.bytes, graph->values[value].info.name.data);
    } else if (widest < NARROW) {
        (void)doctor_add(doctor, DOCTOR_QUANT_NARROW, graph, node, value,
                         "the weights '%.200s' are within %d of the zero point: most "
                         "of the 256 codes are not used",
                         graph->values[value].info.name.data, widest);
    } else if (view.rank >= 2) {
        axis = channel_axis(readers->one[node->info.outputs[0]], &view);
        poor = count_unused_range(&view, axis, zero);
        if (poor * 4 > view.dims[axis])
            (void)doctor_add(
                doctor, DOCTOR_QUANT_CHANNELS, graph, node, value,
                "%lld of %lld channels of '%.200s' use less than 17 of 256 codes, because all share one scale",
                (long long)poor, (long long)view.dims[axis], graph->values[value].info.name.data);
    }
}

void doctor_check_quant(struct doctor *doctor, struct graph *graph, const struct readers *readers)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph_node *node = graph->nodes[i];
        const bool quantizes = doctor_is_op(node, "QuantizeLinear"),
                   dequantizes = doctor_is_op(node, "DequantizeLinear");

        if (quantizes || dequantizes)
            check_scale(doctor, graph, node, graph_input_at(node, 1));
        if (dequantizes && node->info.outputs[0] != INLAY_NONE)
            check_weights(doctor, graph, node, readers);
        if (doctor_is_op(node, "QLinearConv") || doctor_is_op(node, "QLinearMatMul")) {
            check_scale(doctor, graph, node, graph_input_at(node, 1));
            check_scale(doctor, graph, node, graph_input_at(node, 4));
            check_scale(doctor, graph, node, graph_input_at(node, 6));
        }
    }
}
