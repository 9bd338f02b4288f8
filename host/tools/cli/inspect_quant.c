#include "cli/inspect_quant.h"
#include "base/element.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_ELEMENTS = 1024 }; /* constants that are no weights */

static const struct {
    const char *code, *what, *todo;
} kinds[QUANT_KINDS] = {
    [QUANT_DYNAMIC] = { "dynamic-one-range",
                        "activations are quantized in each run by one range for all rows: a large value in one row "
                        "costs the others their digits",
                        "--float-activations 1 keeps the integer weights and computes with floats, --dynamic-rows 1 "
                        "gives each row a range of its own" },
    [QUANT_HALVES] = { "float16-in-float", "float constants hold nothing but float16 numbers",
                       "inlay quantize --weights exact stores them as what they are" },
    [QUANT_DEAD] = { "dead-channel", "channels of quantized weights are zero throughout",
                     "they cost time and memory and add nothing: prune them, or look at how the weights were "
                     "quantized" },
    [QUANT_UNUSED] = { "unused-rounding",
                       "values are quantized and dequantized again, and no kernel on integers reads them",
                       "they lose digits and save nothing: leave these pairs out" },
    [QUANT_SCALE] = { "bad-scale", "scales are zero, negative or no number", "quantize the model anew" },
    [QUANT_OVERFLOW] = { "float16-overflow", "weights are beyond float16 once they are dequantized to it",
                         "store the scales as float" },
};

static void note(quant_report *report, int kind, const char *name, uint64_t count, uint64_t bytes)
{
    if (count > 0 && report->found[kind].count == 0)
        report->found[kind].first = name;
    report->found[kind].count += count;
    report->found[kind].bytes += bytes;
}

/* ------------------------------------------------------------------ looking around */

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

static int64_t elements_of(const inlay_value_info *value)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < value->rank; d++)
        count *= value->dims[d].value; /* the loader has checked them */
    return count;
}

/* ------------------------------------------------------------------ each kind */

static bool is_half(float x)
{
    const uint16_t half = element_half(x);
    double back = 0;

    return element_number(INLAY_FLOAT16, &half, 0, &back, NULL) && (back == (double)x || (isnan(back) && isnan(x)));
}

static void look_for_halves(const inlay_value_info *value, quant_report *report)
{
    const int64_t count = elements_of(value);

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

/* Which input of a node is quantized weights, which their zero point, and along which axis their channels lie. */
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

static void look_for_dead(const struct graph *graph, const graph_node *node, quant_report *report)
{
    const inlay_value_info *weights, *info;
    int64_t inner = 1, channels, count, dead = 0, zeros;
    uint32_t axis;

    if (!find_weights(graph, node, &weights, &info, &axis) || inlay_dtype_bits(weights->dtype) != 8)
        return;
    for (uint32_t d = axis + 1; d < weights->rank; d++)
        inner *= weights->dims[d].value;
    channels = weights->dims[axis].value;
    count = elements_of(weights);
    zeros = info == NULL ? 0 : elements_of(info);
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

/* What is known of a value. */
enum { DYNAMIC = 1, USED = 2 };

/* DynamicQuantizeLinear in front of products. */
static bool look_at_roundings(const struct graph *graph, quant_report *report)
{
    uint8_t *known = calloc((size_t)graph->value_count + 1, 1);

    if (known == NULL)
        return false;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        const uint32_t x = node->info.input_count > 0 ? node->info.inputs[0] : INLAY_NONE;

        if (is_op(node, "DynamicQuantizeLinear") && first_out(node) != INLAY_NONE)
            known[first_out(node)] |= DYNAMIC;
        if (is_op(node, "MatMulInteger") && x != INLAY_NONE && (known[x] & DYNAMIC) != 0) /* makers come first */
            known[x] |= USED;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const uint32_t y = first_out(graph->nodes[i]);

        note(report, QUANT_DYNAMIC, graph->nodes[i]->info.name.data, y != INLAY_NONE && known[y] == (DYNAMIC | USED),
             0);
    }
    free(known);
    return true;
}

static void look_at_scales(const struct graph *graph, const graph_node *node, quant_report *report)
{
    const bool is_pair = is_op(node, "DequantizeLinear") || is_op(node, "QuantizeLinear");
    const inlay_value_info *info = is_pair ? input_of(graph, node, 1) : NULL, *weights = input_of(graph, node, 0);
    const uint32_t bits = weights == NULL ? 0 : inlay_dtype_bits(weights->dtype);
    uint64_t bad = 0, large = 0;
    double x;

    if (!is_constant(info))
        return;
    for (int64_t i = 0; i < elements_of(info); i++) {
        if (!element_number(info->dtype, info->data, i, &x, NULL))
            return;
        bad += !(x > 0) || !isfinite(x);
        large +=
            info->dtype == INLAY_FLOAT16 && is_constant(weights) && bits <= 8 && x * (double)(1u << (bits - 1)) > 65504;
    }
    note(report, QUANT_SCALE, info->name.data, bad, 0);
    note(report, QUANT_OVERFLOW, info->name.data, large, 0);
}

static bool look_at(const struct graph *graph, quant_report *report)
{
    bool ok = look_at_roundings(graph, report) && quant_inspect_pairs(graph, report);

    for (uint32_t value = 0; value < graph->value_count; value++)
        if (is_constant(&graph->values[value].info))
            look_for_halves(&graph->values[value].info, report);
    for (uint32_t i = 0; ok && i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        look_for_dead(graph, node, report);
        look_at_scales(graph, node, report);
        for (uint32_t b = 0; ok && b < node->body_count; b++)
            ok = look_at(node->bodies[b].graph, report);
    }
    return ok;
}

bool quant_look(const graph_model *model, quant_report *out)
{
    bool ok;

    *out = (quant_report){ 0 };
    ok = look_at(model->main, out);
    for (uint32_t i = 0; ok && i < model->function_count; i++)
        ok = look_at(model->functions[i].body, out);
    for (uint32_t i = 0; i < out->unused_count; i++)
        note(out, QUANT_UNUSED, out->unused[i].node, 1, 0);
    return ok;
}

/* ------------------------------------------------------------------ telling */

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
        (void)printf("  nothing that costs digits, time or memory for nothing\n");
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
