/* watchdog/classify.c - which results providers may round differently, and which cannot be compared by a bound. */
#include "base/among.h"
#include "base/element.h"
#include "watchdog/piece.h"
#include <string.h>

static bool is_onnx(const graph_node *node, const char *ops)
{
    return strcmp(node->info.domain.data, "ai.onnx") == 0 && is_among(node->info.op_type.data, ops);
}

/* Moves or selects elements, or computes with integers: no float is rounded. */
static bool keeps_elements(const graph_node *node)
{
    return is_onnx(node,
                   "Identity Reshape Transpose Slice Concat Split Squeeze Unsqueeze Flatten Expand Tile Pad "
                   "DepthToSpace SpaceToDepth Gather GatherElements GatherND Where ReverseSequence Compress Trilu "
                   "Neg Abs Relu Max Min Clip MaxPool GlobalMaxPool ReduceMax ReduceMin Constant ConstantOfShape "
                   "EyeLike OneHot Shape Size Dropout CastLike Floor Ceil Round Sign TopK NonZero Unique MaxUnpool "
                   "TensorScatter BitCast");
}

/* A small change of a float may change the result by any amount. */
static bool has_jumps(const graph_node *node)
{
    return is_onnx(node, "Round Floor Ceil Sign Mod Hardmax Shrink ThresholdedRelu GridSample RoiAlign MaxRoiPool TopK "
                         "Unique Compress NonZero ArgMax ArgMin Equal Less LessOrEqual Greater GreaterOrEqual BitCast "
                         "MaxUnpool");
}

/* Rounds floats to steps of an integer or 8-bit float type. */
static bool quantizes(const graph_node *node)
{
    const char *op = node->info.op_type.data;

    return strstr(op, "QuantizeLinear") == op || strstr(op, "DynamicQuantize") == op || strstr(op, "QLinear") == op;
}

static bool is_numeric(inlay_dtype dtype)
{
    return dtype != INLAY_STRING && dtype != INLAY_COMPLEX64 && dtype != INLAY_COMPLEX128 && dtype != INLAY_UNDEFINED;
}

/* The facts about a node that its class follows from. */
typedef struct node_facts {
    bool float_in, float_out, inexact_in, other_types, integer_out;
} node_facts;

static node_facts facts_of(const struct piece *piece, const graph_node *node, const uint8_t *inexact)
{
    node_facts facts = { 0 };

    for (uint32_t i = 0; i < node->info.input_count + node->info.output_count; i++) {
        const bool in = i < node->info.input_count;
        const uint32_t value = in ? node->info.inputs[i] : node->info.outputs[i - node->info.input_count];
        const inlay_value_info *info = value != INLAY_NONE ? &piece->graph->values[value].info : NULL;

        if (info == NULL)
            continue;
        facts.other_types |= info->kind != INLAY_VALUE_TENSOR || !is_numeric(info->dtype);
        facts.inexact_in |= in && inexact[value] != 0;
        facts.float_in |= in && element_is_float(info->dtype);
        facts.float_out |= !in && element_is_float(info->dtype);
        facts.integer_out |= !in && !element_is_float(info->dtype);
    }
    return facts;
}

/* Why the node cannot be compared; NULL: it can. */
static const char *obstacle(const struct graph *graph, const graph_node *node, const node_facts *facts)
{
    if (graph_node_is_random(graph, node))
        return "is random";
    if (node->body_count > 0)
        return "has a body";
    if (facts->other_types)
        return "has values that are not tensors of numbers";
    if (facts->inexact_in && has_jumps(node))
        return "turns rounding errors into other results";
    if (facts->float_in && facts->integer_out && !quantizes(node) &&
        (facts->inexact_in || strcmp(node->info.domain.data, "ai.onnx") != 0 || is_onnx(node, "NonMaxSuppression")))
        return "turns rounding errors into other results";
    return NULL;
}

enum piece_kind piece_classify(const struct piece *piece, uint8_t *inexact, const char **out_why,
                               const graph_node **out_node)
{
    enum piece_kind kind = PIECE_EXACT;

    for (uint32_t k = 0; k < piece->node_count; k++) {
        const graph_node *node = piece->graph->nodes[piece->nodes[k]];
        const node_facts facts = facts_of(piece, node, inexact);
        const bool rounds = quantizes(node) || (facts.float_out && !keeps_elements(node)) ||
                            (facts.float_in && facts.float_out && is_onnx(node, "CastLike"));

        *out_why = obstacle(piece->graph, node, &facts);
        *out_node = node;
        if (*out_why != NULL)
            return PIECE_SKIPPED;
        for (uint32_t i = 0; i < node->info.output_count; i++)
            if (node->info.outputs[i] != INLAY_NONE)
                inexact[node->info.outputs[i]] = rounds ? PIECE_ROUNDS : facts.inexact_in;
        if (rounds)
            kind = PIECE_ROUNDED;
    }
    return kind;
}
