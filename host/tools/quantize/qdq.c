#include "quantize/qdq.h"
#include "inlay/check.h"
#include "quantize/bias.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_op(const graph_node *node, const char *const *names, size_t count)
{
    if (strcmp(node->info.domain.data, "ai.onnx") != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(node->info.op_type.data, names[i]) == 0)
            return true;
    return false;
}

/* Operators between layers that can compute with integers. */
static bool is_integer_operator(const graph_node *node)
{
    static const char *const names[] = { "Add",     "Mul",         "HardSwish",         "HardSigmoid", "Sigmoid",
                                         "MaxPool", "AveragePool", "GlobalAveragePool", "LeakyRelu",   "Concat" };

    return is_op(node, names, sizeof names / sizeof names[0]);
}

/* Activations that a layer's kernel fuses, so that the value before them need not be quantized. */
static bool is_fused_activation(const graph_node *node)
{
    static const char *const names[] = { "Relu", "Clip" };

    return is_op(node, names, sizeof names / sizeof names[0]);
}

static bool is_activation(const struct graph *graph, uint32_t value_index)
{
    const graph_value *value = &graph->values[value_index];
    const inlay_dtype dtype = value->info.dtype != INLAY_UNDEFINED ? value->info.dtype : value->declared_dtype;

    return value->info.kind == INLAY_VALUE_TENSOR && dtype == INLAY_FLOAT &&
           (value->info.flags & INLAY_VALUE_CONSTANT) == 0;
}

/* The readers of each value: their number, and the last one. */
struct readers {
    uint32_t *count, *reader; /* [values] */
};

static bool find_readers(const struct graph *graph, struct arena *arena, struct readers *readers)
{
    readers->count = arena_array(arena, (size_t)graph->value_count + 1, sizeof *readers->count);
    readers->reader = arena_array(arena, (size_t)graph->value_count + 1, sizeof *readers->reader);
    if (readers->count == NULL || readers->reader == NULL)
        return false;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (node->info.inputs[k] != INLAY_NONE) {
                readers->count[node->info.inputs[k]]++;
                readers->reader[node->info.inputs[k]] = i;
            }
        for (uint32_t k = 0; k < node->capture_count; k++)
            readers->count[node->captures[k]] += 2; /* a body: not a node that can be fused */
    }
    for (uint32_t i = 0; i < graph->output_count; i++)
        readers->count[graph->outputs[i]] += 2;
    return true;
}

/* The value after fused Relu and Clip nodes. */
static uint32_t behind_activation(const struct graph *graph, const struct readers *readers, uint32_t value)
{
    while (readers->count[value] == 1 && is_fused_activation(graph->nodes[readers->reader[value]]) &&
           graph->nodes[readers->reader[value]]->info.inputs[0] == value)
        value = graph->nodes[readers->reader[value]]->info.outputs[0];
    return value;
}

static bool layer_stays_float(const layer_list *list, const qdq_options *how, uint32_t i)
{
    return list->items[i].reason != NULL || !list->items[i].multiplies ||
           (how != NULL && how->stays_float != NULL && how->stays_float[i]);
}

/* Marks the values to quantize, [value_count]; how NULL: all candidates. False: out of memory. */
static bool mark_values(const struct graph *graph, const layer_list *list, const qdq_options *how, struct arena *arena,
                        bool *marks)
{
    const bool all = how == NULL || how->placement == QDQ_ALL;
    const bool makes = how == NULL || how->placement != QDQ_INPUTS;
    struct readers readers;

    if (!find_readers(graph, arena, &readers))
        return false;
    for (uint32_t i = 0; i < list->count; i++) {
        const graph_node *node = list->items[i].node;

        if (layer_stays_float(list, how, i))
            continue;
        if (is_activation(graph, node->info.inputs[0]))
            marks[node->info.inputs[0]] = true;
        if (makes)
            marks[behind_activation(graph, &readers, node->info.outputs[0])] = true;
    }
    for (uint32_t i = 0; all && i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        bool follows = false;

        for (uint32_t k = 0; is_integer_operator(node) && k < node->info.input_count; k++)
            follows |= node->info.inputs[k] != INLAY_NONE && marks[node->info.inputs[k]];
        if (!follows)
            continue;
        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (node->info.inputs[k] != INLAY_NONE && is_activation(graph, node->info.inputs[k]))
                marks[node->info.inputs[k]] = true;
        if (is_activation(graph, node->info.outputs[0]))
            marks[behind_activation(graph, &readers, node->info.outputs[0])] = true;
    }
    for (uint32_t i = 0; i < graph->output_count; i++)
        marks[graph->outputs[i]] = false; /* outputs of the model keep their type */
    return true;
}

/* Channel axis of the layers that read the value; 0: no layer reads it. */
static int channel_axis(const layer_list *list, uint32_t value)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].reason == NULL && list->items[i].multiplies && list->items[i].node->info.inputs[0] == value)
            return strcmp(list->items[i].node->info.op_type.data, "Conv") == 0 ? 1 : -1;
    return 0;
}

inlay_status qdq_values(const struct graph *graph, const layer_list *list, struct arena *arena,
                        calibrate_value **out_values, uint32_t *out_count, inlay_diag *diag)
{
    bool *marks = arena_array(arena, (size_t)graph->value_count + 1, sizeof *marks);

    *out_count = 0;
    *out_values = arena_array(arena, (size_t)graph->value_count + 1, sizeof **out_values);
    if (marks == NULL || *out_values == NULL || !mark_values(graph, list, NULL, arena, marks))
        return no_memory(diag, "for the list of values");
    for (uint32_t value = 0; value < graph->value_count; value++)
        if (marks[value])
            (*out_values)[(*out_count)++] =
                (calibrate_value){ graph->values[value].info.name.data, channel_axis(list, value) };
    return INLAY_OK;
}

struct rewriting {
    struct editor *editor;
    struct graph *graph;
    const qdq_options *how;
    const layer_list *list;
    uint32_t *dequantized; /* [values before the rewrite] output of DequantizeLinear for the value; INLAY_NONE: not
                              quantized */
    float *scale_of;
    uint32_t value_count;
};

static const qdq_range *range_of(const qdq_options *how, const char *name)
{
    for (uint32_t i = 0; i < how->range_count; i++)
        if (strcmp(how->ranges[i].name, name) == 0)
            return &how->ranges[i];
    return NULL;
}

static void quantize_value(struct rewriting *rewriting, uint32_t value)
{
    const char *stem = rewriting->graph->values[value].info.name.data;
    const qdq_range *range = range_of(rewriting->how, stem);
    uint32_t inputs[3], bytes;
    float scale;
    int zero;

    INLAY_CHECK(value < rewriting->value_count);
    INLAY_CHECK(range == NULL || range->reason != NULL || (range->low <= 0 && range->high >= 0));
    if (range == NULL || range->reason != NULL)
        return;
    scale = (range->high - range->low) / 255;
    if (!(scale >= 1e-30F))
        scale = 1; /* the value is constant 0 */
    zero = (int)nearbyintf(-range->low / scale);
    inputs[0] = value;
    inputs[1] = edit_float(rewriting->editor, stem, "_scale", scale);
    inputs[2] = edit_byte(rewriting->editor, stem, "_zero", INLAY_UINT8, zero < 0 ? 0 : zero > 255 ? 255 : zero);
    bytes = edit_node(rewriting->editor, stem, "_uint8", "QuantizeLinear", "", inputs, 3, NULL);
    inputs[0] = bytes;
    rewriting->dequantized[value] =
        edit_node(rewriting->editor, stem, "_rounded", "DequantizeLinear", "", inputs, 3, NULL);
    rewriting->scale_of[value] = scale;
}

/* Makes the readers of the value read its quantized form. */
static void replace_readers(const struct rewriting *rewriting, uint32_t value, uint32_t old_nodes)
{
    for (uint32_t i = 0; i < old_nodes; i++) {
        graph_node *node = rewriting->graph->nodes[i];
        bool is_layer = false;

        for (uint32_t k = 0; k < rewriting->list->count; k++)
            is_layer |=
                rewriting->list->items[k].node == node && !layer_stays_float(rewriting->list, rewriting->how, k);
        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (node->info.inputs[k] == value && (rewriting->how->placement != QDQ_INPUTS || (is_layer && k == 0)))
                edit_input(node, k, rewriting->dequantized[value]);
    }
}

/* A bias as int32 in steps of the product of scales; INLAY_NONE: it does not fit 32 bits and stays float. */
static uint32_t integer_bias(struct rewriting *rewriting, const struct layer *layer, const float *bias, float x_scale,
                             const float *w_scales)
{
    const int64_t channels = layer_channels(layer);
    const char *stem = layer->node->info.name.data;
    int32_t *steps = edit_memory(rewriting->editor, (uint64_t)channels * sizeof *steps);
    float *scales = edit_memory(rewriting->editor, (uint64_t)channels * sizeof *scales), bias_value;
    graph_node *node;
    uint32_t inputs[2], out;

    for (int64_t channel = 0; steps != NULL && scales != NULL && channel < channels; channel++) {
        double code;

        memcpy(&bias_value, bias + channel, sizeof bias_value);
        scales[channel] = x_scale * w_scales[channel];
        code = nearbyint((double)bias_value / scales[channel]);
        if (!(scales[channel] >= 1e-37F) || !(fabs(code) < 2147483647.0))
            return INLAY_NONE;
        steps[channel] = (int32_t)code;
    }
    inputs[0] = edit_constant(rewriting->editor, stem, "_bias_int32", INLAY_INT32, 1, &channels, steps,
                              (uint64_t)channels * sizeof *steps);
    inputs[1] = edit_constant(rewriting->editor, stem, "_bias_scale", INLAY_FLOAT, 1, &channels, scales,
                              (uint64_t)channels * sizeof *scales);
    out = edit_node(rewriting->editor, stem, "_bias_wide", "DequantizeLinear", "", inputs, 2, &node);
    edit_int(rewriting->editor, node, "axis", 0);
    return out;
}

/* Quantizes the bias of a convolution. That of Gemm stays float, because kernels add it in floats. */
static void quantize_bias(struct rewriting *rewriting, const struct layer *layer, const float *better,
                          const float *w_scales)
{
    bool other;
    const uint32_t value = layer_bias(layer, &other);
    const float *bias = better != NULL        ? better
                        : value != INLAY_NONE ? rewriting->graph->values[value].info.data
                                              : NULL;
    uint32_t steps = INLAY_NONE;

    if (bias != NULL && strcmp(layer->node->info.op_type.data, "Conv") == 0)
        steps = integer_bias(rewriting, layer, bias, rewriting->scale_of[layer->node->info.inputs[0]], w_scales);
    if (steps != INLAY_NONE)
        edit_set_input(rewriting->editor, layer->node, 2, steps);
    else if (better != NULL)
        bias_store(rewriting->editor, layer, better);
}

static void quantize_layer_weights(struct rewriting *rewriting, const struct layer *layer, layer_form *form)
{
    const qdq_range *range =
        range_of(rewriting->how, rewriting->graph->values[layer->node->info.inputs[0]].info.name.data);
    float *weights = layer_weights(layer);
    int8_weights bytes = { NULL, NULL };
    const float *better = NULL;
    uint32_t wide;

    rewriting->editor->failed = rewriting->editor->failed || weights == NULL;
    wide = weights == NULL ? INLAY_NONE : low_bit_int8(rewriting->editor, layer, weights, &bytes, form);
    if (wide != INLAY_NONE && rewriting->how->corrects_bias && range != NULL)
        better = bias_corrected(rewriting->editor, layer, weights, &bytes, range->means, range->channels);
    free(weights);
    if (wide == INLAY_NONE)
        return;
    quantize_bias(rewriting, layer, better, bytes.scales);
    edit_input(layer->node, 1, wide);
}

static const char *why_not(const struct rewriting *rewriting, const struct layer *layer)
{
    const qdq_range *range;

    if (layer->reason != NULL)
        return layer->reason;
    if (!layer->multiplies)
        return "the operator has no integer form";
    range = range_of(rewriting->how, rewriting->graph->values[layer->node->info.inputs[0]].info.name.data);
    return range != NULL && range->reason != NULL ? range->reason : "its input is an output of the model";
}

static void quantize_layers(struct rewriting *rewriting, layer_form *forms)
{
    for (uint32_t i = 0; i < rewriting->list->count && !rewriting->editor->failed; i++) {
        const struct layer *layer = &rewriting->list->items[i];
        const bool chosen = !layer_stays_float(rewriting->list, rewriting->how, i);

        forms[i] = (layer_form){ .bits = 32, .bytes = (uint64_t)layer->count * sizeof(float) };
        if (chosen && rewriting->dequantized[layer->node->info.inputs[0]] != INLAY_NONE)
            quantize_layer_weights(rewriting, layer, &forms[i]);
        else if (!chosen && rewriting->how->stays_float != NULL && rewriting->how->stays_float[i] &&
                 layer->reason == NULL)
            forms[i].reason = "to keep the agreement";
        else
            forms[i].reason = why_not(rewriting, layer);
    }
}

/* MaxPool uses the range of its input for its output. */
static void share_ranges(const struct graph *graph, qdq_range *ranges, uint32_t count)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        qdq_range *from = NULL, *to = NULL;

        if (strcmp(node->info.op_type.data, "MaxPool") != 0)
            continue;
        for (uint32_t k = 0; k < count; k++) {
            from = strcmp(ranges[k].name, graph->values[node->info.inputs[0]].info.name.data) == 0 ? &ranges[k] : from;
            to = strcmp(ranges[k].name, graph->values[node->info.outputs[0]].info.name.data) == 0 ? &ranges[k] : to;
        }
        if (from != NULL && to != NULL) {
            to->low = from->low;
            to->high = from->high;
        }
    }
}

/* Drops declared types of inner values; the reader infers them. */
static void forget_types(struct graph *graph)
{
    const uint32_t outside = INLAY_VALUE_GRAPH_INPUT | INLAY_VALUE_GRAPH_OUTPUT | INLAY_VALUE_CONSTANT;

    for (uint32_t value = 0; value < graph->value_count; value++)
        if ((graph->values[value].info.flags & outside) == 0)
            graph->values[value].declared = false;
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            forget_types(graph->nodes[i]->bodies[b].graph);
}

inlay_status qdq_model(graph_model *model, const layer_list *list, const qdq_options *how, layer_form *forms,
                       inlay_diag *diag)
{
    struct graph *graph = model->main;
    const uint32_t old_nodes = graph->node_count, old_values = graph->value_count;
    struct arena arena = { 0 };
    bool *marks = arena_array(&arena, (size_t)old_values + 1, sizeof *marks);
    qdq_range *ranges = arena_array(&arena, (size_t)how->range_count + 1, sizeof *ranges);
    qdq_options shared = *how;
    struct editor editor;
    struct rewriting rewriting = {
        .editor = &editor, .graph = graph, .how = &shared, .list = list, .value_count = old_values
    };
    inlay_status status = INLAY_OK;

    edit_begin(&editor, graph);
    rewriting.dequantized = arena_array(&arena, (size_t)old_values + 1, sizeof *rewriting.dequantized);
    rewriting.scale_of = arena_array(&arena, (size_t)old_values + 1, sizeof *rewriting.scale_of);
    if (marks == NULL || ranges == NULL || rewriting.dequantized == NULL || rewriting.scale_of == NULL ||
        !mark_values(graph, list, how, &arena, marks)) {
        editor.failed = true;
        goto done;
    }
    if (how->range_count > 0)
        memcpy(ranges, how->ranges, how->range_count * sizeof *ranges);
    shared.ranges = ranges;
    share_ranges(graph, ranges, how->range_count);
    memset(rewriting.dequantized, 0xff, old_values * sizeof *rewriting.dequantized);
    for (uint32_t value = 0; value < old_values && !editor.failed; value++)
        if (marks[value])
            quantize_value(&rewriting, value);
    quantize_layers(&rewriting, forms);
    for (uint32_t value = 0; value < old_values && !editor.failed; value++)
        if (rewriting.dequantized[value] != INLAY_NONE)
            replace_readers(&rewriting, value, old_nodes);
done:
    status = edit_finish(&editor, diag);
    arena_deinit(&arena);
    if (status == INLAY_OK && !edit_drop_unused(graph))
        status = no_memory(diag, "for the quantized model");
    if (status == INLAY_OK)
        forget_types(graph);
    return status;
}
