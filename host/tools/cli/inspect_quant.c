#include "cli/inspect_quant.h"
#include "base/element.h"
#include "inlay/check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_ELEMENTS = 1024 }; /* smaller constants are not counted as weights */

static const struct {
    const char *code, *what, *todo;
} kinds[QUANT_KINDS] = {
    [QUANT_DYNAMIC] = { "dynamic-one-range",
                        "activations are quantized in each run with one range for all rows: a large value in one row "
                        "reduces the precision of the others",
                        "--dynamic-activations floats keeps the integer weights and computes with floats, "
                        "--dynamic-activations rows gives each row a separate range" },
    [QUANT_HALVES] = { "float16-in-float", "float constants contain only float16 numbers",
                       "inlay quantize --weights exact stores them as float16" },
    [QUANT_DEAD] = { "dead-channel", "channels of quantized weights are entirely zero",
                     "they cost time and memory and contribute nothing: prune them, or check how the weights were "
                     "quantized" },
    [QUANT_UNUSED] = { "unused-rounding",
                       "values are quantized and dequantized again, and no integer kernel consumes them",
                       "they lose precision and save nothing: remove these pairs" },
    [QUANT_SCALE] = { "bad-scale", "scales are zero, negative or not finite", "quantize the model again" },
    [QUANT_OVERFLOW] = { "float16-overflow", "weights exceed the range of float16 after dequantization",
                         "store the scales as float" },
};

static void note(quant_report *report, int kind, const char *name, uint64_t count, uint64_t bytes)
{
    INLAY_CHECK(kind >= 0 && kind < QUANT_KINDS);
    if (count > 0 && report->found[kind].count == 0)
        report->found[kind].first = name;
    report->found[kind].count += count;
    report->found[kind].bytes += bytes;
}

static bool is_op(const graph_node *node, const char *op_type)
{
    return strcmp(node->info.op_type.data, op_type) == 0;
}

static const inlay_value_info *input_of(const struct graph *graph, const graph_node *node, uint32_t i)
{
    return i < node->info.input_count && node->info.inputs[i] != INLAY_NONE ? &graph->values[node->info.inputs[i]].info
                                                                            : NULL;
}

static bool is_constant(const inlay_value_info *value)
{
    return value != NULL && (value->flags & INLAY_VALUE_CONSTANT) != 0 && value->data != NULL;
}

static uint32_t first_out(const graph_node *node)
{
    return node->info.output_count > 0 ? node->info.outputs[0] : INLAY_NONE;
}

static bool is_half(float x)
{
    const uint16_t half = element_half(x);
    double back = 0;

    return element_number(INLAY_FLOAT16, &half, 0, &back, NULL) && (back == (double)x || (isnan(back) && isnan(x)));
}

static void find_halves(const inlay_value_info *value, quant_report *report)
{
    const int64_t count = graph_constant_count(value);

    if (value->dtype != INLAY_FLOAT || count < FEW_ELEMENTS)
        return;
    for (int64_t i = 0; i < count; i++) {
        float x;

        memcpy(&x, (const char *)value->data + i * (int64_t)sizeof x, sizeof x);
        if (!is_half(x))
            return;
    }
    note(report, QUANT_HALVES, value->name.data, 1, value->data_bytes);
}

/* Finds the quantized weights of a node, their zero point, and the axis of their channels. */
static bool find_weights(const struct graph *graph, const graph_node *node, const inlay_value_info **weights,
                         const inlay_value_info **zero, uint32_t *axis)
{
    static const struct {
        const char *op_type;
        uint32_t weights, zero;
        bool first; /* channels are axis 0, otherwise the last one */
    } rows[] = { { "QLinearConv", 3, 5, true },
                 { "ConvInteger", 1, 3, true },
                 { "QLinearMatMul", 3, 5, false },
                 { "MatMulInteger", 1, 3, false },
                 { "DequantizeLinear", 0, 2, false } };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!is_op(node, rows[i].op_type))
            continue;
        *weights = input_of(graph, node, rows[i].weights);
        *zero = input_of(graph, node, rows[i].zero);
        if (!is_constant(*weights) || (*weights)->rank < 2 || (*zero != NULL && !is_constant(*zero)))
            return false;
        *axis = rows[i].first ? 0 : (*weights)->rank - 1;
        if (is_op(node, "DequantizeLinear") && (*weights)->rank > 2)
            *axis = 0;
        return true;
    }
    return false;
}

static void find_dead_channels(const struct graph *graph, const graph_node *node, quant_report *report)
{
    const inlay_value_info *weights, *info;
    int64_t inner = 1, channels, count, dead = 0, zeros;
    uint32_t axis;

    if (!find_weights(graph, node, &weights, &info, &axis) || inlay_dtype_bits(weights->dtype) != 8)
        return;
    for (uint32_t d = axis + 1; d < weights->rank; d++)
        inner *= weights->dims[d].value;
    channels = weights->dims[axis].value;
    count = graph_constant_count(weights);
    zeros = info == NULL ? 0 : graph_constant_count(info);
    for (int64_t c = 0; c < channels && (zeros <= 1 || zeros == channels); c++) {
        int64_t zero = 0, value;
        bool all = count > 0;

        if (zeros > 0)
            (void)element_integer(info->dtype, info->data, zeros == 1 ? 0 : c, &zero);
        for (int64_t at = c * inner; all && at < count; at += channels * inner)
            for (int64_t i = 0; all && i < inner; i++)
                all = element_integer(weights->dtype, weights->data, at + i, &value) && value == zero;
        dead += all;
    }
    note(report, QUANT_DEAD, weights->name.data, (uint64_t)dead, 0);
}

/* Facts about a value, as bits. */
enum { DYNAMIC = 1, USED = 2 };

/* Finds each DynamicQuantizeLinear that feeds a matrix multiplication. */
static bool find_dynamic_ranges(const struct graph *graph, quant_report *report)
{
    uint8_t *known = calloc((size_t)graph->value_count + 1, 1);

    if (known == NULL)
        return false;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        const uint32_t input = node->info.input_count > 0 ? node->info.inputs[0] : INLAY_NONE;

        if (is_op(node, "DynamicQuantizeLinear") && first_out(node) != INLAY_NONE)
            known[first_out(node)] |= DYNAMIC;
        if (is_op(node, "MatMulInteger") && input != INLAY_NONE &&
            (known[input] & DYNAMIC) != 0) /* producers precede */
            known[input] |= USED;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const uint32_t output = first_out(graph->nodes[i]);

        note(report, QUANT_DYNAMIC, graph->nodes[i]->info.name.data,
             output != INLAY_NONE && known[output] == (DYNAMIC | USED), 0);
    }
    free(known);
    return true;
}

static void check_scales(const struct graph *graph, const graph_node *node, quant_report *report)
{
    const bool is_pair = is_op(node, "DequantizeLinear") || is_op(node, "QuantizeLinear");
    const inlay_value_info *info = is_pair ? input_of(graph, node, 1) : NULL, *weights = input_of(graph, node, 0);
    const uint32_t bits = weights == NULL ? 0 : inlay_dtype_bits(weights->dtype);
    uint64_t bad = 0, large = 0;
    double scale;

    if (!is_constant(info))
        return;
    for (int64_t i = 0; i < graph_constant_count(info); i++) {
        if (!element_number(info->dtype, info->data, i, &scale, NULL))
            return;
        bad += !(scale > 0) || !isfinite(scale);
        large += info->dtype == INLAY_FLOAT16 && is_constant(weights) && bits <= 8 &&
                 scale * (double)(1u << (bits - 1)) > 65504;
    }
    note(report, QUANT_SCALE, info->name.data, bad, 0);
    note(report, QUANT_OVERFLOW, info->name.data, large, 0);
}

static bool inspect_graph(const struct graph *graph, quant_report *report)
{
    bool ok = find_dynamic_ranges(graph, report) && quant_inspect_pairs(graph, report);

    for (uint32_t value = 0; value < graph->value_count; value++)
        if (is_constant(&graph->values[value].info))
            find_halves(&graph->values[value].info, report);
    for (uint32_t i = 0; ok && i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        find_dead_channels(graph, node, report);
        check_scales(graph, node, report);
        for (uint32_t b = 0; ok && b < node->body_count; b++)
            ok = inspect_graph(node->bodies[b].graph, report);
    }
    return ok;
}

bool quant_inspect(const graph_model *model, quant_report *out)
{
    bool ok;

    *out = (quant_report){ 0 };
    ok = inspect_graph(model->main, out);
    for (uint32_t i = 0; ok && i < model->function_count; i++)
        ok = inspect_graph(model->functions[i].body, out);
    for (uint32_t i = 0; i < out->unused_count; i++)
        note(out, QUANT_UNUSED, out->unused[i].node, 1, 0);
    return ok;
}

void quant_print(const quant_report *report)
{
    bool any = false;

    (void)printf("quantization:\n");
    for (int k = 0; k < QUANT_KINDS; k++) {
        if (report->found[k].count == 0)
            continue;
        any = true;
        (void)printf("  %6llu %s: %s", (unsigned long long)report->found[k].count, kinds[k].code, kinds[k].what);
        if (report->found[k].bytes > 0)
            (void)printf(" (%.1f MiB)", (double)report->found[k].bytes / 1048576);
        (void)printf(", first '%s'\n         %s\n", report->found[k].first, kinds[k].todo);
        for (uint32_t i = 0; k == QUANT_UNUSED && i < report->unused_count; i++)
            (void)printf("         '%s'%s%s: %s\n", report->unused[i].node,
                         report->unused[i].by != NULL ? ", read by " : "",
                         report->unused[i].by != NULL ? report->unused[i].by : "", report->unused[i].reason);
    }
    if (!any)
        (void)printf("  no needless loss of precision, time or memory\n");
}

json_t *quant_to_json(const quant_report *report)
{
    json_t *list = json_array(), *pairs = json_array();

    for (uint32_t i = 0; i < report->unused_count; i++)
        (void)json_array_append_new(pairs, json_pack("{s:s, s:s*, s:s}", "node", report->unused[i].node, "by",
                                                     report->unused[i].by, "reason", report->unused[i].reason));
    for (int k = 0; k < QUANT_KINDS; k++)
        if (report->found[k].count > 0)
            (void)json_array_append_new(
                list, json_pack("{s:s, s:I, s:I, s:s, s:s, s:s}", "code", kinds[k].code, "count",
                                (json_int_t)report->found[k].count, "bytes", (json_int_t)report->found[k].bytes,
                                "first", report->found[k].first, "what", kinds[k].what, "todo", kinds[k].todo));
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(list, i), "code")), kinds[QUANT_UNUSED].code) == 0)
            (void)json_object_set(json_array_get(list, i), "pairs", pairs);
    json_decref(pairs);
    return list;
}
