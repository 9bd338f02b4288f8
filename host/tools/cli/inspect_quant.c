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
                        "costs "
                        "the others their digits",
                        "--float-activations 1 keeps the integer weights and computes with floats, --dynamic-rows 1 "
                        "gives each row "
                        "a range of its own" },
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

static void note(quant_report *r, int kind, const char *name, uint64_t count, uint64_t bytes)
{
    if (count > 0 && r->found[kind].count == 0)
        r->found[kind].first = name;
    r->found[kind].count += count;
    r->found[kind].bytes += bytes;
}

/* ------------------------------------------------------------------ looking around */

static bool is_op(const graph_node *n, const char *op_type)
{
    return strcmp(n->info.op_type.data, op_type) == 0;
}

static const inlay_value_info *input_of(const struct graph *g, const graph_node *n, uint32_t i)
{
    return i < n->info.input_count && n->info.inputs[i] != INLAY_NONE ? &g->values[n->info.inputs[i]].info : NULL;
}

static bool is_constant(const inlay_value_info *v)
{
    return v != NULL && (v->flags & INLAY_VALUE_CONSTANT) != 0 && v->data != NULL;
}

static uint32_t first_out(const graph_node *n)
{
    return n->info.output_count > 0 ? n->info.outputs[0] : INLAY_NONE;
}

static int64_t elements_of(const inlay_value_info *v)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < v->rank; d++)
        count *= v->dims[d].value; /* the loader has checked them */
    return count;
}

/* ------------------------------------------------------------------ each kind */

static bool is_half(float x)
{
    const uint16_t half = element_half(x);
    double back = 0;

    return element_number(INLAY_FLOAT16, &half, 0, &back, NULL) && (back == (double)x || (isnan(back) && isnan(x)));
}

static void look_for_halves(const inlay_value_info *v, quant_report *r)
{
    const int64_t count = elements_of(v);

    if (v->dtype != INLAY_FLOAT || count < FEW_ELEMENTS)
        return;
    for (int64_t i = 0; i < count; i++) {
        float x;

        memcpy(&x, (const char *)v->data + i * (int64_t)sizeof x, sizeof x);
        if (!is_half(x))
            return;
    }
    note(r, QUANT_HALVES, v->name.data, 1, v->data_bytes);
}

/* Which input of a node is quantized weights, which their zero point, and along which axis their channels lie. */
static bool find_weights(const struct graph *g, const graph_node *n, const inlay_value_info **weights,
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
        if (!is_op(n, rows[i].op_type))
            continue;
        *weights = input_of(g, n, rows[i].weights);
        *zero = input_of(g, n, rows[i].zero);
        if (!is_constant(*weights) || (*weights)->rank < 2 || (*zero != NULL && !is_constant(*zero)))
            return false;
        *axis = rows[i].first ? 0 : (*weights)->rank - 1;
        if (is_op(n, "DequantizeLinear") && (*weights)->rank > 2)
            *axis = 0;
        return true;
    }
    return false;
}

static void look_for_dead(const struct graph *g, const graph_node *n, quant_report *r)
{
    const inlay_value_info *w, *z;
    int64_t inner = 1, channels, count, dead = 0, zeros;
    uint32_t axis;

    if (!find_weights(g, n, &w, &z, &axis) || inlay_dtype_bits(w->dtype) != 8)
        return;
    for (uint32_t d = axis + 1; d < w->rank; d++)
        inner *= w->dims[d].value;
    channels = w->dims[axis].value;
    count = elements_of(w);
    zeros = z == NULL ? 0 : elements_of(z);
    for (int64_t c = 0; c < channels && (zeros <= 1 || zeros == channels); c++) {
        int64_t zero = 0, value;
        bool all = count > 0;

        if (zeros > 0)
            (void)element_integer(z->dtype, z->data, zeros == 1 ? 0 : c, &zero);
        for (int64_t at = c * inner; all && at < count; at += channels * inner)
            for (int64_t i = 0; all && i < inner; i++)
                all = element_integer(w->dtype, w->data, at + i, &value) && value == zero;
        dead += all;
    }
    note(r, QUANT_DEAD, w->name.data, (uint64_t)dead, 0);
}

/* What is known of a value. */
enum { DYNAMIC = 1, USED = 2 };

/* DynamicQuantizeLinear in front of products. */
static bool look_at_roundings(const struct graph *g, quant_report *r)
{
    uint8_t *known = calloc((size_t)g->value_count + 1, 1);

    if (known == NULL)
        return false;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];
        const uint32_t x = n->info.input_count > 0 ? n->info.inputs[0] : INLAY_NONE;

        if (is_op(n, "DynamicQuantizeLinear") && first_out(n) != INLAY_NONE)
            known[first_out(n)] |= DYNAMIC;
        if (is_op(n, "MatMulInteger") && x != INLAY_NONE && (known[x] & DYNAMIC) != 0) /* makers come first */
            known[x] |= USED;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const uint32_t y = first_out(g->nodes[i]);

        note(r, QUANT_DYNAMIC, g->nodes[i]->info.name.data, y != INLAY_NONE && known[y] == (DYNAMIC | USED), 0);
    }
    free(known);
    return true;
}

static void look_at_scales(const struct graph *g, const graph_node *n, quant_report *r)
{
    const bool is_pair = is_op(n, "DequantizeLinear") || is_op(n, "QuantizeLinear");
    const inlay_value_info *s = is_pair ? input_of(g, n, 1) : NULL, *w = input_of(g, n, 0);
    const uint32_t bits = w == NULL ? 0 : inlay_dtype_bits(w->dtype);
    uint64_t bad = 0, large = 0;
    double x;

    if (!is_constant(s))
        return;
    for (int64_t i = 0; i < elements_of(s); i++) {
        if (!element_number(s->dtype, s->data, i, &x, NULL))
            return;
        bad += !(x > 0) || !isfinite(x);
        large += s->dtype == INLAY_FLOAT16 && is_constant(w) && bits <= 8 && x * (double)(1u << (bits - 1)) > 65504;
    }
    note(r, QUANT_SCALE, s->name.data, bad, 0);
    note(r, QUANT_OVERFLOW, s->name.data, large, 0);
}

static bool look_at(const struct graph *g, quant_report *r)
{
    bool ok = look_at_roundings(g, r) && quant_look_at_pairs(g, r);

    for (uint32_t v = 0; v < g->value_count; v++)
        if (is_constant(&g->values[v].info))
            look_for_halves(&g->values[v].info, r);
    for (uint32_t i = 0; ok && i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];

        look_for_dead(g, n, r);
        look_at_scales(g, n, r);
        for (uint32_t b = 0; ok && b < n->body_count; b++)
            ok = look_at(n->bodies[b].graph, r);
    }
    return ok;
}

bool quant_look(const graph_model *m, quant_report *out)
{
    bool ok;

    *out = (quant_report){ 0 };
    ok = look_at(m->main, out);
    for (uint32_t i = 0; ok && i < m->function_count; i++)
        ok = look_at(m->functions[i].body, out);
    for (uint32_t i = 0; i < out->unused_count; i++)
        note(out, QUANT_UNUSED, out->unused[i].node, 1, 0);
    return ok;
}

/* ------------------------------------------------------------------ telling */

void quant_print(const quant_report *r)
{
    bool any = false;

    (void)printf("quantization:\n");
    for (int k = 0; k < QUANT_KINDS; k++) {
        if (r->found[k].count == 0)
            continue;
        any = true;
        (void)printf("  %6llu %s: %s", (unsigned long long)r->found[k].count, kinds[k].code, kinds[k].what);
        if (r->found[k].bytes > 0)
            (void)printf(" (%.1f MiB)", (double)r->found[k].bytes / 1048576);
        (void)printf(", first '%s'\n         %s\n", r->found[k].first, kinds[k].todo);
        for (uint32_t i = 0; k == QUANT_UNUSED && i < r->unused_count; i++)
            (void)printf("         '%s'%s%s: %s\n", r->unused[i].node, r->unused[i].by != NULL ? ", read by " : "",
                         r->unused[i].by != NULL ? r->unused[i].by : "", r->unused[i].reason);
    }
    if (!any)
        (void)printf("  nothing that costs digits, time or memory for nothing\n");
}

json_t *quant_to_json(const quant_report *r)
{
    json_t *list = json_array(), *pairs = json_array();

    for (uint32_t i = 0; i < r->unused_count; i++)
        (void)json_array_append_new(pairs, json_pack("{s:s, s:s*, s:s}", "node", r->unused[i].node, "by",
                                                     r->unused[i].by, "reason", r->unused[i].reason));
    for (int k = 0; k < QUANT_KINDS; k++)
        if (r->found[k].count > 0)
            (void)json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:s, s:s, s:s}", "code", kinds[k].code,
                                                        "count", (json_int_t)r->found[k].count, "bytes",
                                                        (json_int_t)r->found[k].bytes, "first", r->found[k].first,
                                                        "what", kinds[k].what, "todo", kinds[k].todo));
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(list, i), "code")), kinds[QUANT_UNUSED].code) == 0)
            (void)json_object_set(json_array_get(list, i), "pairs", pairs);
    json_decref(pairs);
    return list;
}
