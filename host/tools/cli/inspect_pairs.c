/* Finds each DequantizeLinear that no integer kernel consumes, and the reason. Follows the rules of the optimiser's
 * pass quantized_ops. */
#include "base/memory.h"
#include "cli/inspect_quant.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { FAR = 8 }; /* maximum number of operators between DequantizeLinear and QuantizeLinear that become one kernel */

/* The links between values and nodes of a graph. */
struct value_links {
    const struct graph *graph;
    uint32_t *producer;     /* [value_count + 1] node that produces a value; INLAY_NONE: none */
    uint32_t *first, *next; /* linked lists of the consumers of a value; next is indexed by read */
    uint32_t *reader;       /* node of each read */
};

static bool is_op(const graph_node *node, const char *op_type)
{
    return node != NULL && strcmp(node->info.op_type.data, op_type) == 0;
}

static bool is_any_of(const graph_node *node, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_op(node, names[i]))
            return true;
    return false;
}

static uint32_t input_of(const graph_node *node, uint32_t i)
{
    return i < node->info.input_count ? node->info.inputs[i] : INLAY_NONE;
}

static const inlay_value_info *info_of(const struct value_links *links, uint32_t value)
{
    return value == INLAY_NONE ? NULL : &links->graph->values[value].info;
}

static bool is_constant(const inlay_value_info *value)
{
    return value != NULL && (value->flags & INLAY_VALUE_CONSTANT) != 0;
}

static bool is_one(const inlay_value_info *value)
{
    return value->rank == 0 || (value->rank == 1 && value->dims[0].value == 1);
}

static int64_t block_of(const graph_node *node)
{
    const inlay_attr_info *attribute = graph_attr(node, "block_size");

    return attribute == NULL || attribute->kind != INLAY_ATTR_INT ? 0 : attribute->i;
}

static bool find_links(struct value_links *links)
{
    const struct graph *graph = links->graph;
    uint32_t reads = 0, at = 0;

    for (uint32_t i = 0; i < graph->node_count; i++)
        reads += graph->nodes[i]->info.input_count;
    links->producer = malloc(((size_t)graph->value_count + 1) * sizeof *links->producer);
    links->first = malloc(((size_t)graph->value_count + 1) * sizeof *links->first);
    links->next = malloc(((size_t)reads + 1) * sizeof *links->next);
    links->reader = malloc(((size_t)reads + 1) * sizeof *links->reader);
    if (links->producer == NULL || links->first == NULL || links->next == NULL || links->reader == NULL)
        return false;
    memset(links->producer, 0xff, ((size_t)graph->value_count + 1) * sizeof *links->producer);
    memset(links->first, 0xff, ((size_t)graph->value_count + 1) * sizeof *links->first);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; k < node->info.output_count; k++)
            if (node->info.outputs[k] != INLAY_NONE)
                links->producer[node->info.outputs[k]] = i;
        for (uint32_t k = 0; k < node->info.input_count; k++, at++) {
            if (node->info.inputs[k] == INLAY_NONE)
                continue;
            links->reader[at] = i;
            links->next[at] = links->first[node->info.inputs[k]];
            links->first[node->info.inputs[k]] = at;
        }
    }
    INLAY_CHECK(at == reads);
    return true;
}

static const graph_node *producer_of(const struct value_links *links, uint32_t value)
{
    return value == INLAY_NONE || links->producer[value] == INLAY_NONE ? NULL
                                                                       : links->graph->nodes[links->producer[value]];
}

/* Why the second operand prevents integer computation of a convolution or matrix multiplication; NULL: it does not. */
static const char *weights_fault(const struct value_links *links, const graph_node *node, uint32_t at)
{
    const graph_node *dequantize = producer_of(links, input_of(node, at));
    const inlay_value_info *weights = dequantize == NULL ? NULL : info_of(links, input_of(dequantize, 0));

    if (is_constant(info_of(links, input_of(node, at))))
        return "its weights are floats";
    if (!is_op(dequantize, "DequantizeLinear") || !is_constant(weights))
        return "its other operand is computed";
    if (weights->dtype != INLAY_INT8 && weights->dtype != INLAY_UINT8)
        return "its weights do not have 8 bits";
    if (block_of(dequantize) != 0)
        return "its weights have blockwise scales";
    return !is_op(node, "Conv") && weights->rank != 2 ? "its weights are not a matrix" : NULL;
}

static bool is_quantized_again(const struct value_links *links, uint32_t value, int depth)
{
    static const char *const between[] = {
        "Add",     "Sub",        "Mul",       "Div",     "Max",        "Min",         "Relu",
        "Clip",    "LeakyRelu",  "HardSwish", "Sigmoid", "Tanh",       "AveragePool", "GlobalAveragePool",
        "Softmax", "ReduceMean", "Resize",    "Concat",  "HardSigmoid"
    };

    for (uint32_t at = links->first[value]; at != INLAY_NONE; at = links->next[at]) {
        const graph_node *node = links->graph->nodes[links->reader[at]];

        if (is_op(node, "QuantizeLinear"))
            return true;
        if (depth < FAR && is_any_of(node, between, sizeof between / sizeof between[0]) &&
            node->info.outputs[0] != INLAY_NONE && is_quantized_again(links, node->info.outputs[0], depth + 1))
            return true;
    }
    return false;
}

/* Is `value`, the output of a data movement, quantized? The optimiser then quantizes first and moves bytes. */
static bool is_quantized(const struct value_links *links, uint32_t value)
{
    for (uint32_t at = value == INLAY_NONE ? value : links->first[value]; at != INLAY_NONE; at = links->next[at])
        if (is_op(links->graph->nodes[links->reader[at]], "QuantizeLinear"))
            return true;
    return false;
}

/* Why `node`, a consumer of the dequantized `value`, computes with floats; NULL: it does not. */
static const char *reader_fault(const struct value_links *links, const graph_node *node, uint32_t value)
{
    static const char *const moves[] = { "MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten" };
    static const char *const functions[] = { "Add",  "Sub",  "Mul",       "Div",       "Max",     "Min",
                                             "Relu", "Clip", "LeakyRelu", "HardSwish", "Sigmoid", "Tanh" };
    const inlay_attr_info *turned = graph_attr(node, "transA");

    if (node->body_count > 0 || is_op(node, "QuantizeLinear"))
        return NULL;
    if (is_any_of(node, moves, sizeof moves / sizeof moves[0]))
        return is_quantized(links, node->info.outputs[0]) ? NULL : "its result is not quantized again";
    if (is_op(node, "Conv") || is_op(node, "MatMul") || is_op(node, "Gemm")) {
        if (input_of(node, 0) != value)
            return input_of(node, 1) == value ? "its other operand is computed" : NULL;
        if (is_op(node, "Gemm") && turned != NULL && turned->i != 0)
            return "it transposes its first operand (transA)";
        return weights_fault(links, node, 1);
    }
    if (!is_any_of(node, functions, sizeof functions / sizeof functions[0]))
        return "it has no kernel that reads integers";
    return node->info.outputs[0] != INLAY_NONE && is_quantized_again(links, node->info.outputs[0], 0)
               ? NULL
               : "its result is not quantized again";
}

/* The QuantizeLinear whose result the DequantizeLinear `node` reads, possibly through a Cast to 8 bits, which PyTorch
 * inserts to state the type; NULL: none. */
static const graph_node *rounding_of(const struct value_links *links, const graph_node *node)
{
    const graph_node *quantize = producer_of(links, input_of(node, 0));
    const inlay_attr_info *to = is_op(quantize, "Cast") ? graph_attr(quantize, "to") : NULL;

    if (to != NULL && (to->i == INLAY_INT8 || to->i == INLAY_UINT8))
        quantize = producer_of(links, input_of(quantize, 0));
    return is_op(quantize, "QuantizeLinear") ? quantize : NULL;
}

/* The integer type between a QuantizeLinear and a DequantizeLinear; types of values have not been inferred yet. */
static inlay_dtype integers_of(const struct value_links *links, const graph_node *quantize,
                               const graph_node *dequantize)
{
    const inlay_value_info *zero = info_of(links, input_of(dequantize, 2));
    const inlay_value_info *first = info_of(links, input_of(quantize, 2));
    const inlay_attr_info *stated = graph_attr(quantize, "output_dtype");

    if (zero != NULL || first != NULL)
        return zero != NULL ? zero->dtype : first->dtype;
    return stated != NULL && stated->kind == INLAY_ATTR_INT && stated->i != 0 ? (inlay_dtype)stated->i : INLAY_UINT8;
}

/* Why no integer kernel consumes the output of the DequantizeLinear `node`; NULL: one does, or the output is unused.
 * *out_by: operator of the consumer, or NULL. */
static const char *fault_of(const struct value_links *links, const graph_node *node, const char **out_by)
{
    const inlay_value_info *scale = info_of(links, input_of(node, 1));
    const inlay_dtype type = integers_of(links, rounding_of(links, node), node);
    const char *fault = NULL;

    *out_by = NULL;
    if (scale == NULL)
        return NULL;
    if (type != INLAY_INT8 && type != INLAY_UINT8)
        return "kernels support only 8-bit integers";
    if (!is_constant(scale) || (input_of(node, 2) != INLAY_NONE && !is_constant(info_of(links, input_of(node, 2)))))
        return "its scale or zero point is not constant";
    if (!is_one(scale))
        return "it has several scales";
    for (uint32_t at = links->first[node->info.outputs[0]]; at != INLAY_NONE; at = links->next[at]) {
        const graph_node *reader = links->graph->nodes[links->reader[at]];
        const char *own = reader_fault(links, reader, node->info.outputs[0]);

        if (own == NULL)
            return NULL;
        *out_by = reader->info.op_type.data;
        fault = own;
    }
    return fault;
}

static bool add(quant_report *report, const char *node, const char *by, const char *reason)
{
    if (!LIST_GROW(report->unused, report->unused_count))
        return false;
    report->unused[report->unused_count++] = (quant_unused){ node, by, reason };
    return true;
}

bool quant_inspect_pairs(const struct graph *graph, quant_report *report)
{
    struct value_links links = { .graph = graph };
    bool ok = find_links(&links);

    for (uint32_t i = 0; ok && i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        const char *reason, *by;
        bool leaves = false;

        if (!is_op(node, "DequantizeLinear") || node->info.output_count == 0 || node->info.outputs[0] == INLAY_NONE ||
            rounding_of(&links, node) == NULL)
            continue;
        for (uint32_t k = 0; k < graph->output_count; k++)
            leaves |= graph->outputs[k] == node->info.outputs[0];
        reason = leaves ? NULL : fault_of(&links, node, &by);
        if (reason != NULL)
            ok = add(report, node->info.name.data, by, reason);
    }
    free(links.producer);
    free(links.first);
    free(links.next);
    free(links.reader);
    return ok;
}

void quant_release(quant_report *report)
{
    free(report->unused);
    report->unused = NULL;
    report->unused_count = 0;
}
