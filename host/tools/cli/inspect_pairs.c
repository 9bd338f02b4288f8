/* Which DequantizeLinear no kernel on integers reads, and why: by the rules of the optimiser's pass quantized_ops. */
#include "base/memory.h"
#include "cli/inspect_quant.h"
#include <stdlib.h>
#include <string.h>

enum { FAR = 8 }; /* operators between DequantizeLinear and QuantizeLinear that become one kernel, at most */

struct pairs {
    const struct graph *graph;
    uint32_t *maker;        /* [value_count + 1] the node that makes a value, INLAY_NONE */
    uint32_t *first, *next; /* nodes that read a value, as lists; next is by number of the read */
    uint32_t *reader;
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

static const inlay_value_info *info_of(const struct pairs *pairs, uint32_t value)
{
    return value == INLAY_NONE ? NULL : &pairs->graph->values[value].info;
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

static bool find_links(struct pairs *pairs)
{
    const struct graph *graph = pairs->graph;
    uint32_t reads = 0, at = 0;

    for (uint32_t i = 0; i < graph->node_count; i++)
        reads += graph->nodes[i]->info.input_count;
    pairs->maker = malloc(((size_t)graph->value_count + 1) * sizeof *pairs->maker);
    pairs->first = malloc(((size_t)graph->value_count + 1) * sizeof *pairs->first);
    pairs->next = malloc(((size_t)reads + 1) * sizeof *pairs->next);
    pairs->reader = malloc(((size_t)reads + 1) * sizeof *pairs->reader);
    if (pairs->maker == NULL || pairs->first == NULL || pairs->next == NULL || pairs->reader == NULL)
        return false;
    memset(pairs->maker, 0xff, ((size_t)graph->value_count + 1) * sizeof *pairs->maker);
    memset(pairs->first, 0xff, ((size_t)graph->value_count + 1) * sizeof *pairs->first);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        for (uint32_t k = 0; k < node->info.output_count; k++)
            if (node->info.outputs[k] != INLAY_NONE)
                pairs->maker[node->info.outputs[k]] = i;
        for (uint32_t k = 0; k < node->info.input_count; k++, at++) {
            if (node->info.inputs[k] == INLAY_NONE)
                continue;
            pairs->reader[at] = i;
            pairs->next[at] = pairs->first[node->info.inputs[k]];
            pairs->first[node->info.inputs[k]] = at;
        }
    }
    return true;
}

static const graph_node *maker_of(const struct pairs *pairs, uint32_t v)
{
    return v == INLAY_NONE || pairs->maker[v] == INLAY_NONE ? NULL : pairs->graph->nodes[pairs->maker[v]];
}

/* Why the other operand of a convolution or product keeps it on floats; NULL: it does not. */
static const char *weights_fault(const struct pairs *pairs, const graph_node *node, uint32_t at)
{
    const graph_node *back = maker_of(pairs, input_of(node, at));
    const inlay_value_info *weights = back == NULL ? NULL : info_of(pairs, input_of(back, 0));

    if (is_constant(info_of(pairs, input_of(node, at))))
        return "its weights are floats";
    if (!is_op(back, "DequantizeLinear") || !is_constant(weights))
        return "its other operand is computed";
    if (weights->dtype != INLAY_INT8 && weights->dtype != INLAY_UINT8)
        return "its weights have other than 8 bits";
    if (block_of(back) != 0)
        return "its weights have scales by blocks";
    return !is_op(node, "Conv") && weights->rank != 2 ? "its weights are no matrix" : NULL;
}

static bool is_quantized_again(const struct pairs *pairs, uint32_t v, int depth)
{
    static const char *const between[] = {
        "Add",     "Sub",        "Mul",       "Div",     "Max",        "Min",         "Relu",
        "Clip",    "LeakyRelu",  "HardSwish", "Sigmoid", "Tanh",       "AveragePool", "GlobalAveragePool",
        "Softmax", "ReduceMean", "Resize",    "Concat",  "HardSigmoid"
    };

    for (uint32_t at = pairs->first[v]; at != INLAY_NONE; at = pairs->next[at]) {
        const graph_node *node = pairs->graph->nodes[pairs->reader[at]];

        if (is_op(node, "QuantizeLinear"))
            return true;
        if (depth < FAR && is_any_of(node, between, sizeof between / sizeof between[0]) &&
            node->info.outputs[0] != INLAY_NONE && is_quantized_again(pairs, node->info.outputs[0], depth + 1))
            return true;
    }
    return false;
}

/* Does somebody quantize v, which was only moved? Q comes first then, and bytes are moved. */
static bool quantizes(const struct pairs *pairs, uint32_t v)
{
    for (uint32_t at = v == INLAY_NONE ? v : pairs->first[v]; at != INLAY_NONE; at = pairs->next[at])
        if (is_op(pairs->graph->nodes[pairs->reader[at]], "QuantizeLinear"))
            return true;
    return false;
}

/* Why reader node of what is dequantized computes with floats; NULL: it does not. */
static const char *reader_fault(const struct pairs *pairs, const graph_node *node, uint32_t v)
{
    static const char *const moves[] = { "MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten" };
    static const char *const functions[] = { "Add",  "Sub",  "Mul",       "Div",       "Max",     "Min",
                                             "Relu", "Clip", "LeakyRelu", "HardSwish", "Sigmoid", "Tanh" };
    const inlay_attr_info *turned = graph_attr(node, "transA");

    if (node->body_count > 0 || is_op(node, "QuantizeLinear"))
        return NULL;
    if (is_any_of(node, moves, sizeof moves / sizeof moves[0]))
        return quantizes(pairs, node->info.outputs[0]) ? NULL : "what it makes is not quantized again";
    if (is_op(node, "Conv") || is_op(node, "MatMul") || is_op(node, "Gemm")) {
        if (input_of(node, 0) != v)
            return input_of(node, 1) == v ? "its other operand is computed" : NULL;
        if (is_op(node, "Gemm") && turned != NULL && turned->i != 0)
            return "it turns its first operand (transA)";
        return weights_fault(pairs, node, 1);
    }
    if (!is_any_of(node, functions, sizeof functions / sizeof functions[0]))
        return "it has no kernel that reads integers";
    return node->info.outputs[0] != INLAY_NONE && is_quantized_again(pairs, node->info.outputs[0], 0)
               ? NULL
               : "what it makes is not quantized again";
}

/* The QuantizeLinear whose result DequantizeLinear node reads, past a Cast to bytes, which is how torch writes that
 * they are; NULL: there is none. */
static const graph_node *rounding_of(const struct pairs *pairs, const graph_node *node)
{
    const graph_node *q = maker_of(pairs, input_of(node, 0));
    const inlay_attr_info *to = is_op(q, "Cast") ? graph_attr(q, "to") : NULL;

    if (to != NULL && (to->i == INLAY_INT8 || to->i == INLAY_UINT8))
        q = maker_of(pairs, input_of(q, 0));
    return is_op(q, "QuantizeLinear") ? q : NULL;
}

/* Of what QuantizeLinear node makes and DequantizeLinear n reads; types of values in between are not inferred yet. */
static inlay_dtype integers_of(const struct pairs *pairs, const graph_node *node, const graph_node *n)
{
    const inlay_value_info *zero = info_of(pairs, input_of(n, 2)), *first = info_of(pairs, input_of(node, 2));
    const inlay_attr_info *stated = graph_attr(node, "output_dtype");

    if (zero != NULL || first != NULL)
        return zero != NULL ? zero->dtype : first->dtype;
    return stated != NULL && stated->kind == INLAY_ATTR_INT && stated->i != 0 ? (inlay_dtype)stated->i : INLAY_UINT8;
}

/* Why no kernel on integers reads what DequantizeLinear node makes; NULL: one does, or nobody reads it. *out_by: who.
 */
static const char *fault_of(const struct pairs *pairs, const graph_node *node, const char **out_by)
{
    const inlay_value_info *scale = info_of(pairs, input_of(node, 1));
    const inlay_dtype type = integers_of(pairs, rounding_of(pairs, node), node);
    const char *fault = NULL;

    *out_by = NULL;
    if (scale == NULL)
        return NULL;
    if (type != INLAY_INT8 && type != INLAY_UINT8)
        return "integers of other than 8 bits have no kernels";
    if (!is_constant(scale) || (input_of(node, 2) != INLAY_NONE && !is_constant(info_of(pairs, input_of(node, 2)))))
        return "its scale or zero point is no constant";
    if (!is_one(scale))
        return "it has several scales";
    for (uint32_t at = pairs->first[node->info.outputs[0]]; at != INLAY_NONE; at = pairs->next[at]) {
        const graph_node *reader = pairs->graph->nodes[pairs->reader[at]];
        const char *own = reader_fault(pairs, reader, node->info.outputs[0]);

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
    struct pairs pairs = { .graph = graph };
    bool ok = find_links(&pairs);

    for (uint32_t i = 0; ok && i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        const char *reason, *by;
        bool leaves = false;

        if (!is_op(node, "DequantizeLinear") || node->info.output_count == 0 || node->info.outputs[0] == INLAY_NONE ||
            rounding_of(&pairs, node) == NULL)
            continue;
        for (uint32_t k = 0; k < graph->output_count; k++)
            leaves |= graph->outputs[k] == node->info.outputs[0];
        reason = leaves ? NULL : fault_of(&pairs, node, &by);
        if (reason != NULL)
            ok = add(report, node->info.name.data, by, reason);
    }
    free(pairs.maker);
    free(pairs.first);
    free(pairs.next);
    free(pairs.reader);
    return ok;
}

void quant_release(quant_report *report)
{
    free(report->unused);
    report->unused = NULL;
    report->unused_count = 0;
}
