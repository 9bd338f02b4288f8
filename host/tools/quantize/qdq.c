#include "quantize/qdq.h"
#include "quantize/bias.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ which values */

static bool is_op(const graph_node *n, const char *const *names, size_t count)
{
    if (strcmp(n->info.domain.data, "ai.onnx") != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(n->info.op_type.data, names[i]) == 0)
            return true;
    return false;
}

/* What may stand between layers and be computed from bytes. */
static bool is_between(const graph_node *n)
{
    static const char *const names[] = { "Add",     "Mul",         "HardSwish",         "HardSigmoid", "Sigmoid",
                                         "MaxPool", "AveragePool", "GlobalAveragePool", "LeakyRelu",   "Concat" };

    return is_op(n, names, sizeof names / sizeof names[0]);
}

/* What a layer's kernel takes in, so that its result need not be bytes before. */
static bool is_bound(const graph_node *n)
{
    static const char *const names[] = { "Relu", "Clip" };

    return is_op(n, names, sizeof names / sizeof names[0]);
}

static bool is_activation(const struct graph *g, uint32_t v)
{
    const graph_value *value = &g->values[v];
    const inlay_dtype dtype = value->info.dtype != INLAY_UNDEFINED ? value->info.dtype : value->declared_dtype;

    return value->info.kind == INLAY_VALUE_TENSOR && dtype == INLAY_FLOAT &&
           (value->info.flags & INLAY_VALUE_CONSTANT) == 0;
}

/* The nodes that read each value: how many, and the last. */
struct reading {
    uint32_t *count, *reader; /* [values] */
};

static bool find_readers(const struct graph *g, struct arena *a, struct reading *r)
{
    r->count = arena_array(a, (size_t)g->value_count + 1, sizeof *r->count);
    r->reader = arena_array(a, (size_t)g->value_count + 1, sizeof *r->reader);
    if (r->count == NULL || r->reader == NULL)
        return false;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];

        for (uint32_t k = 0; k < n->info.input_count; k++)
            if (n->info.inputs[k] != INLAY_NONE) {
                r->count[n->info.inputs[k]]++;
                r->reader[n->info.inputs[k]] = i;
            }
        for (uint32_t k = 0; k < n->capture_count; k++)
            r->count[n->captures[k]] += 2; /* a body: no node that could take a value in */
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        r->count[g->outputs[i]] += 2;
    return true;
}

/* The value behind Relu and Clip. */
static uint32_t bounded(const struct graph *g, const struct reading *r, uint32_t v)
{
    while (r->count[v] == 1 && is_bound(g->nodes[r->reader[v]]) && g->nodes[r->reader[v]]->info.inputs[0] == v)
        v = g->nodes[r->reader[v]]->info.outputs[0];
    return v;
}

static bool stays(const layer_list *list, const qdq_how *how, uint32_t i)
{
    return list->items[i].kept != NULL || !list->items[i].multiplies ||
           (how != NULL && how->stays != NULL && how->stays[i]);
}

/* Marks what becomes bytes, [value_count]; how NULL: what may in any way. False: no memory. */
static bool mark_values(const struct graph *g, const layer_list *list, const qdq_how *how, struct arena *a, bool *marks)
{
    const bool all = how == NULL || how->placement == QDQ_ALL;
    const bool makes = how == NULL || how->placement != QDQ_INPUTS;
    struct reading r;

    if (!find_readers(g, a, &r))
        return false;
    for (uint32_t i = 0; i < list->count; i++) {
        const graph_node *n = list->items[i].node;

        if (stays(list, how, i))
            continue;
        if (is_activation(g, n->info.inputs[0]))
            marks[n->info.inputs[0]] = true;
        if (makes)
            marks[bounded(g, &r, n->info.outputs[0])] = true;
    }
    for (uint32_t i = 0; all && i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];
        bool follows = false;

        for (uint32_t k = 0; is_between(n) && k < n->info.input_count; k++)
            follows |= n->info.inputs[k] != INLAY_NONE && marks[n->info.inputs[k]];
        if (!follows)
            continue;
        for (uint32_t k = 0; k < n->info.input_count; k++)
            if (n->info.inputs[k] != INLAY_NONE && is_activation(g, n->info.inputs[k]))
                marks[n->info.inputs[k]] = true;
        if (is_activation(g, n->info.outputs[0]))
            marks[bounded(g, &r, n->info.outputs[0])] = true;
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        marks[g->outputs[i]] = false; /* the caller's are as they were */
    return true;
}

/* Along which axis the layers that read v have channels; 0: none reads it. */
static int channel_axis(const layer_list *list, uint32_t v)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].kept == NULL && list->items[i].multiplies && list->items[i].node->info.inputs[0] == v)
            return strcmp(list->items[i].node->info.op_type.data, "Conv") == 0 ? 1 : -1;
    return 0;
}

inlay_status qdq_values(const struct graph *g, const layer_list *list, struct arena *a, calibrate_value **out_values,
                        uint32_t *out_count, inlay_diag *diag)
{
    bool *marks = arena_array(a, (size_t)g->value_count + 1, sizeof *marks);

    *out_count = 0;
    *out_values = arena_array(a, (size_t)g->value_count + 1, sizeof **out_values);
    if (marks == NULL || *out_values == NULL || !mark_values(g, list, NULL, a, marks))
        return no_memory(diag, "for the list of values");
    for (uint32_t v = 0; v < g->value_count; v++)
        if (marks[v])
            (*out_values)[(*out_count)++] = (calibrate_value){ g->values[v].info.name.data, channel_axis(list, v) };
    return INLAY_OK;
}

/* ------------------------------------------------------------------ values */

struct rewriting {
    struct editor *e;
    struct graph *g;
    const qdq_how *how;
    const layer_list *list;
    uint32_t *bytes_of; /* [values before] what DequantizeLinear makes of the value; INLAY_NONE: it stays */
    float *scale_of;
    uint32_t value_count;
};

static const qdq_range *range_of(const qdq_how *how, const char *name)
{
    for (uint32_t i = 0; i < how->range_count; i++)
        if (strcmp(how->ranges[i].name, name) == 0)
            return &how->ranges[i];
    return NULL;
}

static void quantize_value(struct rewriting *w, uint32_t v)
{
    const char *stem = w->g->values[v].info.name.data;
    const qdq_range *range = range_of(w->how, stem);
    uint32_t inputs[3], bytes;
    float scale;
    int zero;

    if (range == NULL || range->kept != NULL)
        return;
    scale = (range->high - range->low) / 255;
    if (!(scale >= 1e-30F))
        scale = 1; /* a constant 0 */
    zero = (int)nearbyintf(-range->low / scale);
    inputs[0] = v;
    inputs[1] = edit_float(w->e, stem, "_scale", scale);
    inputs[2] = edit_byte(w->e, stem, "_zero", INLAY_UINT8, zero < 0 ? 0 : zero > 255 ? 255 : zero);
    bytes = edit_node(w->e, stem, "_uint8", "QuantizeLinear", "", inputs, 3, NULL);
    inputs[0] = bytes;
    w->bytes_of[v] = edit_node(w->e, stem, "_rounded", "DequantizeLinear", "", inputs, 3, NULL);
    w->scale_of[v] = scale;
}

/* Readers of the value read what it is as bytes. */
static void replace_readers(const struct rewriting *w, uint32_t v, uint32_t old_nodes)
{
    for (uint32_t i = 0; i < old_nodes; i++) {
        graph_node *n = w->g->nodes[i];
        bool is_layer = false;

        for (uint32_t k = 0; k < w->list->count; k++)
            is_layer |= w->list->items[k].node == n && !stays(w->list, w->how, k);
        for (uint32_t k = 0; k < n->info.input_count; k++)
            if (n->info.inputs[k] == v && (w->how->placement != QDQ_INPUTS || (is_layer && k == 0)))
                edit_input(n, k, w->bytes_of[v]);
    }
}

/* ------------------------------------------------------------------ layers */

/* A bias in steps of the product of scales; INLAY_NONE: it does not fit 32 bits and stays float. */
static uint32_t integer_bias(struct rewriting *w, const struct layer *l, const float *bias, float x_scale,
                             const float *w_scales)
{
    const int64_t channels = layer_channels(l);
    const char *stem = l->node->info.name.data;
    int32_t *steps = edit_memory(w->e, (uint64_t)channels * sizeof *steps);
    float *scales = edit_memory(w->e, (uint64_t)channels * sizeof *scales), b;
    graph_node *node;
    uint32_t inputs[2], out;

    for (int64_t c = 0; steps != NULL && scales != NULL && c < channels; c++) {
        double q;

        memcpy(&b, bias + c, sizeof b);
        scales[c] = x_scale * w_scales[c];
        q = nearbyint((double)b / scales[c]);
        if (!(scales[c] >= 1e-37F) || !(fabs(q) < 2147483647.0))
            return INLAY_NONE;
        steps[c] = (int32_t)q;
    }
    inputs[0] =
        edit_constant(w->e, stem, "_bias_int32", INLAY_INT32, 1, &channels, steps, (uint64_t)channels * sizeof *steps);
    inputs[1] = edit_constant(w->e, stem, "_bias_scale", INLAY_FLOAT, 1, &channels, scales,
                              (uint64_t)channels * sizeof *scales);
    out = edit_node(w->e, stem, "_bias_wide", "DequantizeLinear", "", inputs, 2, &node);
    edit_int(w->e, node, "axis", 0);
    return out;
}

/* The bias of a convolution becomes integers; that of Gemm stays, for kernels add it in floats. */
static void quantize_bias(struct rewriting *w, const struct layer *l, const float *better, const float *w_scales)
{
    bool other;
    const uint32_t v = layer_bias(l, &other);
    const float *bias = better != NULL ? better : v != INLAY_NONE ? w->g->values[v].info.data : NULL;
    uint32_t steps = INLAY_NONE;

    if (bias != NULL && strcmp(l->node->info.op_type.data, "Conv") == 0)
        steps = integer_bias(w, l, bias, w->scale_of[l->node->info.inputs[0]], w_scales);
    if (steps != INLAY_NONE)
        edit_set_input(w->e, l->node, 2, steps);
    else if (better != NULL)
        bias_store(w->e, l, better);
}

static void quantize_layer_weights(struct rewriting *w, const struct layer *l, layer_form *form)
{
    const qdq_range *range = range_of(w->how, w->g->values[l->node->info.inputs[0]].info.name.data);
    float *weights = layer_weights(l);
    narrowed_bytes bytes = { NULL, NULL };
    const float *better = NULL;
    uint32_t wide;

    w->e->failed = w->e->failed || weights == NULL;
    wide = weights == NULL ? INLAY_NONE : narrow_bytes(w->e, l, weights, &bytes, form);
    if (wide != INLAY_NONE && w->how->corrects && range != NULL)
        better = bias_made_good(w->e, l, weights, &bytes, range->means, range->channels);
    free(weights);
    if (wide == INLAY_NONE)
        return;
    quantize_bias(w, l, better, bytes.scales);
    edit_input(l->node, 1, wide);
}

static const char *why_not(const struct rewriting *w, const struct layer *l)
{
    const qdq_range *range;

    if (l->kept != NULL)
        return l->kept;
    if (!l->multiplies)
        return "not an operator on integers";
    range = range_of(w->how, w->g->values[l->node->info.inputs[0]].info.name.data);
    return range != NULL && range->kept != NULL ? range->kept : "its input is an output of the model";
}

static void quantize_layers(struct rewriting *w, layer_form *forms)
{
    for (uint32_t i = 0; i < w->list->count && !w->e->failed; i++) {
        const struct layer *l = &w->list->items[i];
        const bool chosen = !stays(w->list, w->how, i);

        forms[i] = (layer_form){ .bits = 32, .bytes = (uint64_t)l->count * sizeof(float) };
        if (chosen && w->bytes_of[l->node->info.inputs[0]] != INLAY_NONE)
            quantize_layer_weights(w, l, &forms[i]);
        else if (!chosen && w->how->stays != NULL && w->how->stays[i] && l->kept == NULL)
            forms[i].kept = "for the agreement";
        else
            forms[i].kept = why_not(w, l);
    }
}

/* A pool of the largest has the steps of what it reads. */
static void share_ranges(const struct graph *g, qdq_range *ranges, uint32_t count)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];
        qdq_range *from = NULL, *to = NULL;

        if (strcmp(n->info.op_type.data, "MaxPool") != 0)
            continue;
        for (uint32_t k = 0; k < count; k++) {
            from = strcmp(ranges[k].name, g->values[n->info.inputs[0]].info.name.data) == 0 ? &ranges[k] : from;
            to = strcmp(ranges[k].name, g->values[n->info.outputs[0]].info.name.data) == 0 ? &ranges[k] : to;
        }
        if (from != NULL && to != NULL) {
            to->low = from->low;
            to->high = from->high;
        }
    }
}

/* Types of values that nobody outside asks for are the reader's to infer. */
static void forget_types(struct graph *g)
{
    const uint32_t outside = INLAY_VALUE_GRAPH_INPUT | INLAY_VALUE_GRAPH_OUTPUT | INLAY_VALUE_CONSTANT;

    for (uint32_t v = 0; v < g->value_count; v++)
        if ((g->values[v].info.flags & outside) == 0)
            g->values[v].declared = false;
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t b = 0; b < g->nodes[i]->body_count; b++)
            forget_types(g->nodes[i]->bodies[b].graph);
}

inlay_status qdq_model(graph_model *model, const layer_list *list, const qdq_how *how, layer_form *forms,
                       inlay_diag *diag)
{
    struct graph *g = model->main;
    const uint32_t old_nodes = g->node_count, old_values = g->value_count;
    struct arena a = { 0 };
    bool *marks = arena_array(&a, (size_t)old_values + 1, sizeof *marks);
    qdq_range *ranges = arena_array(&a, (size_t)how->range_count + 1, sizeof *ranges);
    qdq_how shared = *how;
    struct editor e;
    struct rewriting w = { .e = &e, .g = g, .how = &shared, .list = list, .value_count = old_values };
    inlay_status status = INLAY_OK;

    edit_begin(&e, g);
    w.bytes_of = arena_array(&a, (size_t)old_values + 1, sizeof *w.bytes_of);
    w.scale_of = arena_array(&a, (size_t)old_values + 1, sizeof *w.scale_of);
    if (marks == NULL || ranges == NULL || w.bytes_of == NULL || w.scale_of == NULL ||
        !mark_values(g, list, how, &a, marks)) {
        e.failed = true;
        goto done;
    }
    if (how->range_count > 0)
        memcpy(ranges, how->ranges, how->range_count * sizeof *ranges);
    shared.ranges = ranges;
    share_ranges(g, ranges, how->range_count);
    memset(w.bytes_of, 0xff, old_values * sizeof *w.bytes_of);
    for (uint32_t v = 0; v < old_values && !e.failed; v++)
        if (marks[v])
            quantize_value(&w, v);
    quantize_layers(&w, forms);
    for (uint32_t v = 0; v < old_values && !e.failed; v++)
        if (w.bytes_of[v] != INLAY_NONE)
            replace_readers(&w, v, old_nodes);
done:
    status = edit_finish(&e, diag);
    arena_deinit(&a);
    if (status == INLAY_OK && !edit_drop_unused(g))
        status = no_memory(diag, "for the quantized model");
    if (status == INLAY_OK)
        forget_types(g);
    return status;
}
