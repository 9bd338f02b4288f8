#include "quantize/qoperator.h"
#include "inlay/check.h"
#include "base/memory.h"
#include "modelkit/edit.h"
#include <stdlib.h>
#include <string.h>

/* Producer and readers of each value; removed nodes are not counted. */
struct rewriting {
    struct editor editor;
    struct graph *graph;
    uint32_t *producer, *readers, *reader; /* [values]: producing node or INLAY_NONE, number of readers, one reader */
    bool *removed;                         /* [nodes] */
    uint32_t value_count;
};

static bool is_op(const graph_node *node, const char *op)
{
    return node != NULL && strcmp(node->info.domain.data, "ai.onnx") == 0 && strcmp(node->info.op_type.data, op) == 0;
}

static bool find_uses(struct rewriting *rewriting)
{
    struct graph *graph = rewriting->graph;

    rewriting->value_count = graph->value_count;
    rewriting->producer = malloc(((size_t)graph->value_count + 1) * sizeof *rewriting->producer);
    rewriting->readers = calloc((size_t)graph->value_count + 1, sizeof *rewriting->readers);
    rewriting->reader = calloc((size_t)graph->value_count + 1, sizeof *rewriting->reader);
    rewriting->removed = calloc((size_t)graph->node_count + 1, sizeof *rewriting->removed);
    if (rewriting->producer == NULL || rewriting->readers == NULL || rewriting->reader == NULL ||
        rewriting->removed == NULL)
        return false;
    memset(rewriting->producer, 0xff, graph->value_count * sizeof *rewriting->producer);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; k < node->info.output_count; k++)
            if (node->info.outputs[k] != INLAY_NONE)
                rewriting->producer[node->info.outputs[k]] = i;
        for (uint32_t k = 0; k < node->info.input_count; k++)
            if (node->info.inputs[k] != INLAY_NONE) {
                rewriting->readers[node->info.inputs[k]]++;
                rewriting->reader[node->info.inputs[k]] = i;
            }
        for (uint32_t k = 0; k < node->capture_count; k++)
            rewriting->readers[node->captures[k]] += 2;
    }
    for (uint32_t i = 0; i < graph->output_count; i++)
        rewriting->readers[graph->outputs[i]] += 2;
    return true;
}

static graph_node *producer_of(const struct rewriting *rewriting, uint32_t value)
{
    return value == INLAY_NONE || value >= rewriting->value_count || rewriting->producer[value] == INLAY_NONE
               ? NULL
               : rewriting->graph->nodes[rewriting->producer[value]];
}

static graph_node *only_reader(const struct rewriting *rewriting, uint32_t value)
{
    return rewriting->readers[value] == 1 ? rewriting->graph->nodes[rewriting->reader[value]] : NULL;
}

/* The QuantizeLinear that is the only reader of the node's output. A Relu between them is implied by the range if the
 * zero point is 0. */
static graph_node *quantize_behind(const struct rewriting *rewriting, const graph_node *node, graph_node **out_relu)
{
    graph_node *next = only_reader(rewriting, node->info.outputs[0]);
    const inlay_value_info *zero;

    *out_relu = NULL;
    if (is_op(next, "Relu")) {
        *out_relu = next;
        next = only_reader(rewriting, next->info.outputs[0]);
    }
    if (!is_op(next, "QuantizeLinear") || next->info.input_count < 3)
        return NULL;
    zero = &rewriting->graph->values[next->info.inputs[2]].info;
    if ((zero->flags & INLAY_VALUE_CONSTANT) == 0 || zero->dtype != INLAY_UINT8 || zero->data_bytes != 1)
        return NULL;
    return *out_relu != NULL && *(const uint8_t *)zero->data != 0 ? NULL : next;
}

/* Adds int8 zero points, one for each scale. */
static uint32_t zeros_like(struct rewriting *rewriting, const char *stem, uint32_t scales)
{
    const inlay_value_info *info = &rewriting->graph->values[scales].info;
    const uint64_t count = info->data_bytes / sizeof(float);
    const int64_t dims[] = { (int64_t)count };
    int8_t *zeros = edit_memory(&rewriting->editor, count);

    if (zeros != NULL)
        memset(zeros, 0, (size_t)count);
    return edit_constant(&rewriting->editor, stem, "_zero", INLAY_INT8, info->rank == 0 ? 0 : 1, dims, zeros, count);
}

static void remove_node(struct rewriting *rewriting, const graph_node *node)
{
    INLAY_CHECK(rewriting->producer[node->info.outputs[0]] != INLAY_NONE);
    rewriting->removed[rewriting->producer[node->info.outputs[0]]] = true;
}

/* Rewrites one node. Inputs of the integer operators: codes, scale and zero point of the input and of the weights,
 * scale and zero point of the output, and for a convolution the bias. */
static bool rewrite(struct rewriting *rewriting, graph_node *node)
{
    const bool conv = is_op(node, "Conv");
    graph_node *source = producer_of(rewriting, node->info.inputs[0]),
               *weights = producer_of(rewriting, node->info.inputs[1]), *relu, *quantize, *bias = NULL;
    uint32_t *inputs;

    if (!is_op(source, "DequantizeLinear") || source->info.input_count < 3 || !is_op(weights, "DequantizeLinear"))
        return false;
    if (conv && node->info.input_count > 2 && node->info.inputs[2] != INLAY_NONE) {
        bias = producer_of(rewriting, node->info.inputs[2]);
        if (!is_op(bias, "DequantizeLinear"))
            return false;
    }
    quantize = quantize_behind(rewriting, node, &relu);
    inputs = quantize == NULL ? NULL : arena_array(&rewriting->graph->model->arena, 9, sizeof *inputs);
    if (inputs == NULL)
        return false;
    memcpy(inputs, source->info.inputs, 3 * sizeof *inputs);
    inputs[3] = weights->info.inputs[0];
    inputs[4] = weights->info.inputs[1];
    inputs[5] = zeros_like(rewriting, node->info.name.data, inputs[4]);
    inputs[6] = quantize->info.inputs[1];
    inputs[7] = quantize->info.inputs[2];
    inputs[8] = bias != NULL ? bias->info.inputs[0] : INLAY_NONE;
    remove_node(rewriting, quantize);
    if (relu != NULL)
        remove_node(rewriting, relu);
    node->info.op_type = conv ? (inlay_str){ "QLinearConv", 11 } : (inlay_str){ "QLinearMatMul", 13 };
    node->info.inputs = inputs;
    node->info.input_count = bias != NULL ? 9 : 8;
    *(uint32_t *)(uintptr_t)node->info.outputs = quantize->info.outputs[0];
    node->row = NULL;
    node->schema = NULL;
    return true;
}

/* Removes DequantizeLinear nodes without readers. */
static void drop_unread(struct rewriting *rewriting, uint32_t old_nodes)
{
    struct graph *graph = rewriting->graph;
    bool changed = true;

    while (changed) {
        memset(rewriting->readers, 0, rewriting->value_count * sizeof *rewriting->readers);
        for (uint32_t i = 0; i < old_nodes; i++) {
            const graph_node *node = graph->nodes[i];

            for (uint32_t k = 0; !rewriting->removed[i] && k < node->info.input_count; k++)
                if (node->info.inputs[k] != INLAY_NONE && node->info.inputs[k] < rewriting->value_count)
                    rewriting->readers[node->info.inputs[k]]++;
            for (uint32_t k = 0; !rewriting->removed[i] && k < node->capture_count; k++)
                rewriting->readers[node->captures[k]]++;
        }
        for (uint32_t i = 0; i < graph->output_count; i++)
            rewriting->readers[graph->outputs[i]]++;
        changed = false;
        for (uint32_t i = 0; i < old_nodes; i++)
            if (!rewriting->removed[i] && is_op(graph->nodes[i], "DequantizeLinear") &&
                rewriting->readers[graph->nodes[i]->info.outputs[0]] == 0)
                rewriting->removed[i] = changed = true;
    }
}

static void compact(struct rewriting *rewriting, uint32_t old_nodes)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < rewriting->graph->node_count; i++)
        if (i >= old_nodes || !rewriting->removed[i])
            rewriting->graph->nodes[kept++] = rewriting->graph->nodes[i];
    rewriting->graph->node_count = rewriting->editor.old_count = kept;
}

inlay_status qoperator_model(graph_model *model, uint32_t *out_count, inlay_diag *diag)
{
    struct rewriting rewriting = { .graph = model->main };
    const uint32_t old_nodes = model->main->node_count;
    inlay_status status;

    *out_count = 0;
    edit_begin(&rewriting.editor, rewriting.graph);
    if (!find_uses(&rewriting)) {
        rewriting.editor.failed = true;
        goto done;
    }
    for (uint32_t i = 0; i < old_nodes && !rewriting.editor.failed; i++)
        if (is_op(rewriting.graph->nodes[i], "Conv") || is_op(rewriting.graph->nodes[i], "MatMul"))
            *out_count += rewrite(&rewriting, rewriting.graph->nodes[i]);
    drop_unread(&rewriting, old_nodes);
    compact(&rewriting, old_nodes);
done:
    status = edit_finish(&rewriting.editor, diag);
    if (status == INLAY_OK && !edit_drop_unused(rewriting.graph))
        status = no_memory(diag, "for the quantized model");
    free(rewriting.producer);
    free(rewriting.readers);
    free(rewriting.reader);
    free(rewriting.removed);
    return status;
}
