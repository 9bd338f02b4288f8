#include "quantize/metric.h"
#include "base/among.h"
#include "base/element.h"
#include <string.h>

enum { MOST_DEPTH = 8 };

static const graph_node *producer_of(const struct graph *graph, uint32_t value)
{
    const uint32_t node = graph->values[value].info.producer;

    return node == INLAY_NONE ? NULL : graph->nodes[node];
}

/* Operators that keep the numbers, though perhaps in another shape. */
static bool keeps_numbers(const char *op)
{
    return is_among(op, "Reshape Transpose Squeeze Unsqueeze Identity Cast Flatten DequantizeLinear QuantizeLinear");
}

/* Does the node keep the numbers, and the rows along the last axis? */
static bool keeps_rows(const struct graph *graph, const graph_node *node)
{
    const inlay_value_info *in, *out;

    if (!keeps_numbers(node->info.op_type.data) || node->info.input_count == 0 || node->info.inputs[0] == INLAY_NONE)
        return false;
    in = &graph->values[node->info.inputs[0]].info;
    out = &graph->values[node->info.outputs[0]].info;
    if (in->rank == INLAY_RANK_UNKNOWN || out->rank == INLAY_RANK_UNKNOWN || in->rank == 0 || out->rank == 0)
        return false;
    if (strcmp(node->info.op_type.data, "Transpose") == 0)
        return graph_attr_int_at(node, "perm", in->rank - 1) == (int64_t)in->rank - 1;
    return graph_same_dims(&in->dims[in->rank - 1], &out->dims[out->rank - 1], 1);
}

/* Does the node reduce or normalise rows along the last axis to a choice among their elements? */
static bool chooses(const struct graph *graph, const graph_node *node)
{
    const char *op = node->info.op_type.data;
    const inlay_value_info *in;
    int64_t axis;

    if (!is_among(op, "Softmax LogSoftmax ArgMax TopK") || node->info.input_count == 0 ||
        node->info.inputs[0] == INLAY_NONE)
        return false;
    in = &graph->values[node->info.inputs[0]].info;
    axis = graph_attr_int(node, "axis", strcmp(op, "ArgMax") == 0 ? 0 : -1);
    return axis == -1 || (in->rank != INLAY_RANK_UNKNOWN && axis == (int64_t)in->rank - 1);
}

/* Is the value read, in its rows, by a node that chooses among their elements? */
static bool is_chosen_from(const struct graph *graph, uint32_t value, int depth)
{
    for (uint32_t i = 0; i < graph->node_count && depth < MOST_DEPTH; i++) {
        const graph_node *node = graph->nodes[i];

        if (node == NULL || node->info.input_count == 0 || node->info.inputs[0] != value)
            continue;
        if (chooses(graph, node) ||
            (keeps_rows(graph, node) && is_chosen_from(graph, node->info.outputs[0], depth + 1)))
            return true;
    }
    return false;
}

/* The node that computes the numbers of a value; NULL: none. *out_rows: it computes them in the same rows. */
static const graph_node *source_of(const struct graph *graph, uint32_t value, bool *out_rows)
{
    const graph_node *node = producer_of(graph, value);

    *out_rows = true;
    for (int depth = 0; node != NULL && depth < MOST_DEPTH; depth++) {
        if (!keeps_numbers(node->info.op_type.data) || node->info.input_count == 0 ||
            node->info.inputs[0] == INLAY_NONE)
            return node;
        *out_rows = *out_rows && keeps_rows(graph, node);
        node = producer_of(graph, node->info.inputs[0]);
    }
    return NULL;
}

agree_metric agree_metric_of(const struct graph *graph, uint32_t output)
{
    const uint32_t value = graph->outputs[output];
    bool same_rows;
    const graph_node *source = source_of(graph, value, &same_rows);

    if (!element_is_float(graph->values[value].info.dtype))
        return AGREE_equal;
    if (source != NULL && is_among(source->info.op_type.data, "Sigmoid HardSigmoid"))
        return AGREE_iou;
    if ((source != NULL && same_rows && strstr(source->info.op_type.data, "Softmax") != NULL &&
         chooses(graph, source)) ||
        is_chosen_from(graph, value, 0))
        return AGREE_top1;
    return AGREE_relative;
}

bool agree_may_be_text(const struct graph *graph, uint32_t output)
{
    bool same_rows;
    const graph_node *source = source_of(graph, graph->outputs[output], &same_rows);
    const char *op;

    if (source != NULL && strcmp(source->info.op_type.data, "Add") == 0) /* of the biases */
        source = producer_of(graph, source->info.inputs[0]);
    op = source != NULL ? source->info.op_type.data : "";
    return agree_metric_of(graph, output) == AGREE_top1 || strcmp(op, "Gemm") == 0 || strstr(op, "MatMul") != NULL;
}
