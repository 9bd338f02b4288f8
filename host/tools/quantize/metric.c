#include "quantize/metric.h"
#include "base/element.h"
#include <string.h>

static const graph_node *producer_of(const struct graph *graph, uint32_t value)
{
    const uint32_t node = graph->values[value].info.producer;

    return node == INLAY_NONE ? NULL : graph->nodes[node];
}

/* Operators that keep the numbers, or add one number to all elements of a column. */
static bool keeps_metric(const char *op)
{
    static const char *const names[] = { "Reshape", "Transpose", "Squeeze", "Unsqueeze",        "Identity",
                                         "Cast",    "Flatten",   "Add",     "DequantizeLinear", "QuantizeLinear" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(op, names[i]) == 0)
            return true;
    return false;
}

agree_metric agree_metric_of(const struct graph *graph, uint32_t output)
{
    const inlay_value_info *info = &graph->values[graph->outputs[output]].info;
    const graph_node *node = producer_of(graph, graph->outputs[output]);

    if (!element_is_float(info->dtype))
        return AGREE_top1;
    for (int depth = 0; node != NULL && depth < 8; depth++) {
        const char *op = node->info.op_type.data;

        if (strcmp(op, "Softmax") == 0 || strcmp(op, "LogSoftmax") == 0)
            return AGREE_top1;
        if (strcmp(op, "Sigmoid") == 0 || strcmp(op, "HardSigmoid") == 0)
            return AGREE_iou;
        if (strcmp(op, "Gemm") == 0 || strstr(op, "MatMul") != NULL)
            return AGREE_top1;
        if (!keeps_metric(op) || node->info.input_count == 0 || node->info.inputs[0] == INLAY_NONE)
            break;
        node = producer_of(graph, node->info.inputs[0]);
    }
    return AGREE_cosine;
}
