#include "quantize/bias.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_conv(const struct layer *layer)
{
    return strcmp(layer->node->info.op_type.data, "Conv") == 0;
}

static int64_t group_of(const struct layer *layer)
{
    const inlay_attr_info *attribute = graph_attr(layer->node, "group");

    return is_conv(layer) && attribute != NULL && attribute->kind == INLAY_ATTR_INT && attribute->i > 0 ? attribute->i
                                                                                                        : 1;
}

/* Weights are [outputs, inputs, rest], or [inputs, outputs] for a matrix whose channel axis is not the first. */
bool bias_correction(const struct layer *layer, const float *weights, const int8_weights *bytes, const double *means,
                     int64_t channels, double *out)
{
    const inlay_value_info *info = &layer->graph->values[layer->weight].info;
    const int64_t outputs = layer_channels(layer), groups = group_of(layer);
    const bool upright = layer->channel != 0;
    const int64_t inputs = info->dims[upright ? 0 : 1].value;
    const int64_t rest = outputs > 0 && inputs > 0 ? layer->count / outputs / inputs : 0;

    INLAY_CHECK(groups > 0);
    if (inputs * groups != channels || outputs % groups != 0 || (upright && rest != 1))
        return false;
    for (int64_t channel = 0; channel < outputs; channel++) {
        const int64_t first = channel / (outputs / groups) * inputs;

        out[channel] = 0;
        for (int64_t i = 0; i < inputs; i++)
            for (int64_t k = 0; k < rest; k++) {
                const int64_t at = upright ? i * outputs + channel : (channel * inputs + i) * rest + k;

                out[channel] +=
                    ((double)weights[at] - (double)bytes->codes[at] * bytes->scales[channel]) * means[first + i];
            }
    }
    return true;
}

/* The Add that is the only reader of a MatMul and adds a constant to each column; *out_input is the index of that
 * constant. */
static graph_node *add_behind(const struct editor *editor, const struct layer *layer, uint32_t *out_input)
{
    const struct graph *graph = layer->graph;
    const uint32_t made = layer->node->info.outputs[0];
    graph_node *found = NULL;
    uint32_t readers = 0;

    for (uint32_t i = 0; i < editor->old_count; i++) /* new nodes are QuantizeLinear, which the Add will read through */
        for (uint32_t k = 0; k < graph->nodes[i]->info.input_count; k++)
            if (graph->nodes[i]->info.inputs[k] == made) {
                readers++;
                found = graph->nodes[i];
                *out_input = 1 - k;
            }
    for (uint32_t i = 0; i < graph->output_count; i++)
        readers += graph->outputs[i] == made;
    if (readers != 1 || found == NULL || strcmp(found->info.op_type.data, "Add") != 0)
        return NULL;
    return found;
}

/* Is the value a float constant with one element for each channel, all along the last axis? */
static bool is_row(const struct layer *layer, uint32_t value)
{
    const inlay_value_info *info = &layer->graph->values[value].info;

    return (info->flags & INLAY_VALUE_CONSTANT) != 0 && info->dtype == INLAY_FLOAT && info->rank > 0 &&
           info->rank != INLAY_RANK_UNKNOWN && info->dims[info->rank - 1].value == layer_channels(layer) &&
           info->data_bytes == (uint64_t)layer_channels(layer) * sizeof(float);
}

/* Can the layer add a constant to each channel? *out_value: the constant it adds now, INLAY_NONE if none. */
static bool has_place(const struct editor *editor, const struct layer *layer, uint32_t *out_value)
{
    const char *op = layer->node->info.op_type.data;
    uint32_t input = 0;
    graph_node *add;
    bool other;

    if (strcmp(op, "MatMul") == 0) {
        add = add_behind(editor, layer, &input);
        *out_value = add != NULL ? add->info.inputs[input] : INLAY_NONE;
        return add != NULL && is_row(layer, *out_value);
    }
    *out_value = layer_bias(layer, &other);
    return !other && graph_attr_float(layer->node, "alpha", 1) == 1 && graph_attr_float(layer->node, "beta", 1) == 1;
}

const float *bias_corrected(struct editor *editor, const struct layer *layer, const float *weights,
                            const int8_weights *bytes, const double *means, int64_t channels)
{
    const int64_t outputs = layer_channels(layer);
    double *lost;
    float *bias = NULL;
    uint32_t value;

    if (means == NULL || !has_place(editor, layer, &value))
        return NULL;
    lost = malloc((size_t)outputs * sizeof *lost + 1);
    bias = edit_memory(editor, (uint64_t)outputs * sizeof *bias);
    if (lost == NULL || bias == NULL) {
        editor->failed = true;
        bias = NULL;
    } else if (!bias_correction(layer, weights, bytes, means, channels, lost)) {
        bias = NULL;
    }
    for (int64_t channel = 0; bias != NULL && channel < outputs; channel++) {
        float was = 0;

        if (value != INLAY_NONE)
            memcpy(&was, (const char *)layer->graph->values[value].info.data + (size_t)channel * sizeof was,
                   sizeof was);
        bias[channel] = isfinite(lost[channel]) ? (float)((double)was + lost[channel]) : was;
    }
    free(lost);
    return bias;
}

void bias_store(struct editor *editor, const struct layer *layer, const float *bias)
{
    const int64_t channels = layer_channels(layer);
    const uint32_t value = edit_constant(editor, layer->node->info.name.data, "_bias", INLAY_FLOAT, 1, &channels, bias,
                                         (uint64_t)channels * sizeof *bias);
    uint32_t input = 2;
    graph_node *node = layer->node;

    if (strcmp(node->info.op_type.data, "MatMul") == 0)
        node = add_behind(editor, layer, &input);
    if (node != NULL && value != INLAY_NONE)
        edit_set_input(editor, node, input, value);
}
