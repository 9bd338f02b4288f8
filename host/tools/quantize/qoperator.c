#include "quantize/qoperator.h"
#include "base/memory.h"
#include "modelkit/edit.h"
#include <stdlib.h>
#include <string.h>

/* Who makes and reads each value; nodes that are gone make and read nothing. */
struct rewriting {
    struct editor e;
    struct graph *g;
    uint32_t *maker, *readers, *reader; /* [values]: a node or INLAY_NONE, how many, one of them */
    bool *gone;                         /* [nodes] */
    uint32_t value_count;
};

static bool is_op(const graph_node *n, const char *op)
{
    return n != NULL && strcmp(n->info.domain.data, "ai.onnx") == 0 && strcmp(n->info.op_type.data, op) == 0;
}

static bool find_uses(struct rewriting *w)
{
    struct graph *g = w->g;

    w->value_count = g->value_count;
    w->maker = malloc(((size_t)g->value_count + 1) * sizeof *w->maker);
    w->readers = calloc((size_t)g->value_count + 1, sizeof *w->readers);
    w->reader = calloc((size_t)g->value_count + 1, sizeof *w->reader);
    w->gone = calloc((size_t)g->node_count + 1, sizeof *w->gone);
    if (w->maker == NULL || w->readers == NULL || w->reader == NULL || w->gone == NULL)
        return false;
    memset(w->maker, 0xff, g->value_count * sizeof *w->maker);
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];

        for (uint32_t k = 0; k < n->info.output_count; k++)
            if (n->info.outputs[k] != INLAY_NONE)
                w->maker[n->info.outputs[k]] = i;
        for (uint32_t k = 0; k < n->info.input_count; k++)
            if (n->info.inputs[k] != INLAY_NONE) {
                w->readers[n->info.inputs[k]]++;
                w->reader[n->info.inputs[k]] = i;
            }
        for (uint32_t k = 0; k < n->capture_count; k++)
            w->readers[n->captures[k]] += 2;
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        w->readers[g->outputs[i]] += 2;
    return true;
}

static graph_node *maker_of(const struct rewriting *w, uint32_t v)
{
    return v == INLAY_NONE || v >= w->value_count || w->maker[v] == INLAY_NONE ? NULL : w->g->nodes[w->maker[v]];
}

static graph_node *only_reader(const struct rewriting *w, uint32_t v)
{
    return w->readers[v] == 1 ? w->g->nodes[w->reader[v]] : NULL;
}

/* The QuantizeLinear that alone reads what n makes; a Relu between them is in its range, where that begins at 0. */
static graph_node *quantize_behind(const struct rewriting *w, const graph_node *n, graph_node **out_relu)
{
    graph_node *next = only_reader(w, n->info.outputs[0]);
    const inlay_value_info *zero;

    *out_relu = NULL;
    if (is_op(next, "Relu")) {
        *out_relu = next;
        next = only_reader(w, next->info.outputs[0]);
    }
    if (!is_op(next, "QuantizeLinear") || next->info.input_count < 3)
        return NULL;
    zero = &w->g->values[next->info.inputs[2]].info;
    if ((zero->flags & INLAY_VALUE_CONSTANT) == 0 || zero->dtype != INLAY_UINT8 || zero->data_bytes != 1)
        return NULL;
    return *out_relu != NULL && *(const uint8_t *)zero->data != 0 ? NULL : next;
}

/* Zeros of bytes, as many as there are scales. */
static uint32_t zeros_like(struct rewriting *w, const char *stem, uint32_t scales)
{
    const inlay_value_info *info = &w->g->values[scales].info;
    const uint64_t count = info->data_bytes / sizeof(float);
    const int64_t dims[] = { (int64_t)count };
    int8_t *zeros = edit_memory(&w->e, count);

    if (zeros != NULL)
        memset(zeros, 0, (size_t)count);
    return edit_constant(&w->e, stem, "_zero", INLAY_INT8, info->rank == 0 ? 0 : 1, dims, zeros, count);
}

static void forget(struct rewriting *w, const graph_node *n)
{
    w->gone[w->maker[n->info.outputs[0]]] = true;
}

/* What a product of integers reads: bytes, scale and zero point of x and of the weights, scale and zero point of what
 * it makes, and for a convolution the bias. */
static bool rewrite(struct rewriting *w, graph_node *n)
{
    const bool conv = is_op(n, "Conv");
    graph_node *x = maker_of(w, n->info.inputs[0]), *weights = maker_of(w, n->info.inputs[1]), *relu, *q, *bias = NULL;
    uint32_t *inputs;

    if (!is_op(x, "DequantizeLinear") || x->info.input_count < 3 || !is_op(weights, "DequantizeLinear"))
        return false;
    if (conv && n->info.input_count > 2 && n->info.inputs[2] != INLAY_NONE) {
        bias = maker_of(w, n->info.inputs[2]);
        if (!is_op(bias, "DequantizeLinear"))
            return false;
    }
    q = quantize_behind(w, n, &relu);
    inputs = q == NULL ? NULL : arena_array(&w->g->model->arena, 9, sizeof *inputs);
    if (inputs == NULL)
        return false;
    memcpy(inputs, x->info.inputs, 3 * sizeof *inputs);
    inputs[3] = weights->info.inputs[0];
    inputs[4] = weights->info.inputs[1];
    inputs[5] = zeros_like(w, n->info.name.data, inputs[4]);
    inputs[6] = q->info.inputs[1];
    inputs[7] = q->info.inputs[2];
    inputs[8] = bias != NULL ? bias->info.inputs[0] : INLAY_NONE;
    forget(w, q);
    if (relu != NULL)
        forget(w, relu);
    n->info.op_type = conv ? (inlay_str){ "QLinearConv", 11 } : (inlay_str){ "QLinearMatMul", 13 };
    n->info.inputs = inputs;
    n->info.input_count = bias != NULL ? 9 : 8;
    *(uint32_t *)(uintptr_t)n->info.outputs = q->info.outputs[0];
    n->row = NULL;
    n->schema = NULL;
    return true;
}

/* Nodes that nobody reads any more go, too. */
static void drop_unread(struct rewriting *w, uint32_t old_nodes)
{
    struct graph *g = w->g;
    bool changed = true;

    while (changed) {
        memset(w->readers, 0, w->value_count * sizeof *w->readers);
        for (uint32_t i = 0; i < old_nodes; i++) {
            const graph_node *n = g->nodes[i];

            for (uint32_t k = 0; !w->gone[i] && k < n->info.input_count; k++)
                if (n->info.inputs[k] != INLAY_NONE && n->info.inputs[k] < w->value_count)
                    w->readers[n->info.inputs[k]]++;
            for (uint32_t k = 0; !w->gone[i] && k < n->capture_count; k++)
                w->readers[n->captures[k]]++;
        }
        for (uint32_t i = 0; i < g->output_count; i++)
            w->readers[g->outputs[i]]++;
        changed = false;
        for (uint32_t i = 0; i < old_nodes; i++)
            if (!w->gone[i] && is_op(g->nodes[i], "DequantizeLinear") && w->readers[g->nodes[i]->info.outputs[0]] == 0)
                w->gone[i] = changed = true;
    }
}

static void compact(struct rewriting *w, uint32_t old_nodes)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < w->g->node_count; i++)
        if (i >= old_nodes || !w->gone[i])
            w->g->nodes[kept++] = w->g->nodes[i];
    w->g->node_count = w->e.old_count = kept;
}

inlay_status qoperator_model(graph_model *model, uint32_t *out_count, inlay_diag *diag)
{
    struct rewriting w = { .g = model->main };
    const uint32_t old_nodes = model->main->node_count;
    inlay_status status;

    *out_count = 0;
    edit_begin(&w.e, w.g);
    if (!find_uses(&w)) {
        w.e.failed = true;
        goto done;
    }
    for (uint32_t i = 0; i < old_nodes && !w.e.failed; i++)
        if (is_op(w.g->nodes[i], "Conv") || is_op(w.g->nodes[i], "MatMul"))
            *out_count += rewrite(&w, w.g->nodes[i]);
    drop_unread(&w, old_nodes);
    compact(&w, old_nodes);
done:
    status = edit_finish(&w.e, diag);
    if (status == INLAY_OK && !edit_drop_unused(w.g))
        status = no_memory(diag, "for the quantized model");
    free(w.maker);
    free(w.readers);
    free(w.reader);
    free(w.gone);
    return status;
}
