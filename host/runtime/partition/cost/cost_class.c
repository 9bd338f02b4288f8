#include "partition/cost/cost_class.h"
#include "base/among.h"
#include "base/hash.h"
#include "inlay/execution.h"
#include <string.h>

enum {
    FEW_ROWS = 8, /* maximum number of rows in a matrix multiplication of variant FEW */
    THIN_CHANNELS = 4,
    SMALL_KERNEL = 9, /* elements of a convolution filter: 3 x 3 */
    LONG_RUN = 256    /* contiguous bytes; longer runs are copied at memory bandwidth */
};

static const char *const names[] = {
#define COST_VARIANT_NAME(name, text) text,
    COST_VARIANT_LIST(COST_VARIANT_NAME)
#undef COST_VARIANT_NAME
};

const char *cost_variant_name(uint32_t variant)
{
    return variant < COST_VARIANT_COUNT ? names[variant] : "";
}

uint32_t cost_variant_of(const char *name)
{
    uint32_t i = 0;

    while (i < COST_VARIANT_COUNT && strcmp(names[i], name) != 0)
        i++;
    return i;
}

uint64_t cost_class_hash(const cost_class *class)
{
    return hash_u64(hash_bytes(class->op, strlen(class->op), 3),
                    (uint64_t) class->variant << 32 | (uint32_t) class->dtype);
}

uint32_t cost_kind_of(const inlay_cost *model)
{
    double bytes = (double)model->bytes_read + (double)model->bytes_written;

    return model->flops > 2 * bytes ? COST_DENSE : COST_STREAM;
}

typedef struct node_view {
    const inlay_graph *graph;
    const inlay_node_info *node;
    const inlay_value_state *values;
} node_view;

/* The state of input i when its rank is known; NULL otherwise. */
static const inlay_value_state *input(const node_view *view, uint32_t i)
{
    uint32_t value = i < view->node->input_count ? view->node->inputs[i] : INLAY_NONE;

    return value == INLAY_NONE || view->values[value].rank == INLAY_RANK_UNKNOWN ? NULL : &view->values[value];
}

static bool is_constant(const node_view *view, uint32_t i)
{
    uint32_t value = i < view->node->input_count ? view->node->inputs[i] : INLAY_NONE;

    return value != INLAY_NONE && (inlay_graph_value(view->graph, value)->flags & INLAY_VALUE_CONSTANT) != 0;
}

static const inlay_attr_info *attr(const node_view *view, const char *name)
{
    size_t bytes = strlen(name);

    for (uint32_t i = 0; i < view->node->attr_count; i++) {
        const inlay_attr_info *attribute = INLAY_AT(inlay_attr_info, view->node->attrs, view->node->attr_stride, i);
        if (attribute->name.bytes == bytes && memcmp(attribute->name.data, name, bytes) == 0)
            return attribute;
    }
    return NULL;
}

static int64_t attr_int(const node_view *view, const char *name, int64_t otherwise)
{
    const inlay_attr_info *attribute = attr(view, name);

    return attribute != NULL && attribute->kind == INLAY_ATTR_INT ? attribute->i : otherwise;
}

/* The product of dims[begin ... end). */
static double product(const inlay_value_state *state, uint32_t begin, uint32_t end)
{
    double elements = 1;

    for (uint32_t d = begin; d < end && d < state->rank; d++)
        elements *= (double)state->dims[d];
    return elements;
}

static uint32_t convolution(const node_view *view, uint32_t weight)
{
    const inlay_value_state *state = input(view, weight);
    int64_t group = attr_int(view, "group", 1);
    double taps;

    if (state == NULL || state->rank < 3)
        return COST_PLAIN;
    taps = product(state, 2, state->rank);
    if (group > 1 && state->dims[1] == 1)
        return taps > SMALL_KERNEL ? COST_DEPTHWISE_WIDE : COST_DEPTHWISE;
    if (group > 1)
        return COST_GROUPED;
    if (taps <= 1)
        return COST_POINTWISE;
    if (state->dims[1] <= THIN_CHANNELS)
        return COST_THIN;
    return taps > SMALL_KERNEL ? COST_WIDE : COST_SPATIAL;
}

static uint32_t matrix_product(const node_view *view, uint32_t other)
{
    const inlay_value_state *a = input(view, 0), *b = input(view, other);
    double rows;

    if (a == NULL || b == NULL || a->rank == 0)
        return COST_PLAIN;
    if (strcmp(view->node->op_type.data, "Gemm") == 0)
        rows = (double)a->dims[a->rank > 1 && attr_int(view, "transA", 0) != 0 ? 1 : 0];
    else if (b->rank <= 2)
        rows = product(a, 0, a->rank - 1);
    else
        rows = a->rank > 1 ? (double)a->dims[a->rank - 2] : 1;
    if (!is_constant(view, other))
        /* often a batch of small products, where the overhead of a call exceeds the cost of the weights */
        return COST_DYNAMIC;
    return rows <= 1 ? COST_VECTOR : rows <= FEW_ROWS ? COST_FEW : COST_PACKED;
}

/* INNER if the axis is the last one, otherwise OUTER; negative axes count from the end. */
static uint32_t along(const inlay_value_state *state, int64_t axis)
{
    return axis == -1 || axis == (int64_t)state->rank - 1 ? COST_INNER : COST_OUTER;
}

static uint32_t reduction(const node_view *view)
{
    const inlay_value_state *state = input(view, 0), *list = input(view, 1);
    const inlay_attr_info *axes = attr(view, "axes");

    if (state == NULL)
        return COST_PLAIN;
    if (axes != NULL && axes->kind == INLAY_ATTR_INTS) {
        for (uint32_t i = 0; i < axes->count; i++)
            if (along(state, axes->ints[i]) == COST_INNER)
                return COST_INNER;
        return axes->count > 0 ? COST_OUTER : COST_INNER;
    }
    if (list == NULL || list->data == NULL || list->dtype != INLAY_INT64)
        return COST_INNER; /* all axes */
    for (uint64_t i = 0; i < list->data_bytes / 8; i++) {
        int64_t axis;
        memcpy(&axis, (const char *)list->data + i * 8, 8);
        if (along(state, axis) == COST_INNER)
            return COST_INNER;
    }
    return list->data_bytes > 0 ? COST_OUTER : COST_INNER;
}

static uint32_t one_axis(const node_view *view)
{
    const inlay_value_state *state = input(view, 0);

    return state == NULL ? COST_PLAIN : along(state, attr_int(view, "axis", -1));
}

static uint32_t transpose(const node_view *view)
{
    const inlay_value_state *state = input(view, 0);
    const inlay_attr_info *perm = attr(view, "perm");

    if (state == NULL || perm == NULL || perm->kind != INLAY_ATTR_INTS || perm->count != state->rank ||
        state->rank == 0)
        return COST_FINE;
    return perm->ints[state->rank - 1] == (int64_t)state->rank - 1 ? COST_ROWS : COST_FINE;
}

/* The variant for the length of contiguous runs, from the axis on (Concat, Split: after 0) or after it (Gather: 1). */
static uint32_t contiguous_runs(const node_view *view, uint32_t after)
{
    const inlay_value_state *state = input(view, 0);
    int64_t axis = attr_int(view, "axis", 0);
    double bytes;

    if (state == NULL)
        return COST_PLAIN;
    axis += axis < 0 ? (int64_t)state->rank : 0;
    if (axis < 0 || axis >= (int64_t)state->rank)
        return COST_PLAIN;
    bytes = product(state, (uint32_t)axis + after, state->rank) * inlay_dtype_bits(state->dtype) / 8;
    return bytes >= LONG_RUN ? COST_ROWS : COST_FINE;
}

static uint32_t broadcast(const node_view *view)
{
    uint32_t output = view->node->output_count > 0 ? view->node->outputs[0] : INLAY_NONE;
    double all = output == INLAY_NONE || view->values[output].rank == INLAY_RANK_UNKNOWN
                     ? 0
                     : product(&view->values[output], 0, view->values[output].rank);

    for (uint32_t i = 0; i < view->node->input_count; i++) {
        const inlay_value_state *state = input(view, i);
        double elements = state == NULL ? 1 : product(state, 0, state->rank);
        if (elements > 1 && elements != all)
            return COST_BROADCAST;
    }
    return COST_SAME;
}

static uint32_t resize(const node_view *view)
{
    const inlay_attr_info *mode = attr(view, "mode");
    const char *text = mode != NULL && mode->kind == INLAY_ATTR_STRING ? mode->s.data : "nearest";

    return strcmp(text, "cubic") == 0 ? COST_CUBIC : strcmp(text, "linear") == 0 ? COST_LINEAR : COST_NEAREST;
}

static uint32_t variant_of(const node_view *view)
{
    const char *op = view->node->op_type.data;

    if (is_among(op, "Conv ConvTranspose ConvInteger"))
        return convolution(view, 1);
    if (strcmp(op, "QLinearConv") == 0)
        return convolution(view, 3);
    if (is_among(op, "MatMul Gemm MatMulInteger"))
        return matrix_product(view, 1);
    if (strcmp(op, "QLinearMatMul") == 0)
        return matrix_product(view, 3);
    if (strncmp(op, "Reduce", 6) == 0)
        return reduction(view);
    if (is_among(op, "Softmax LogSoftmax ArgMax ArgMin TopK CumSum"))
        return one_axis(view);
    if (strcmp(op, "Transpose") == 0)
        return transpose(view);
    if (is_among(op, "Concat Split"))
        return contiguous_runs(view, 0);
    if (strcmp(op, "Gather") == 0)
        return contiguous_runs(view, 1);
    if (is_among(op,
                 "Add Sub Mul Div Pow Where Min Max Equal Less Greater LessOrEqual GreaterOrEqual And Or PRelu Mod"))
        return broadcast(view);
    return strcmp(op, "Resize") == 0 ? resize(view) : COST_PLAIN;
}

cost_class cost_class_of(const inlay_graph *graph, const inlay_node_info *node, const inlay_value_state *values)
{
    node_view view = { graph, node, values };
    cost_class class = { .op = node->op_type.data };
    uint32_t typed = strcmp(class.op, "Where") == 0 ? 1 : 0;

    if (strcmp(node->domain.data, "ai.onnx") == 0)
        class.variant = variant_of(&view);
    if (typed < node->input_count && node->inputs[typed] != INLAY_NONE)
        class.dtype = values[node->inputs[typed]].dtype;
    else if (node->output_count > 0 && node->outputs[0] != INLAY_NONE)
        class.dtype = values[node->outputs[0]].dtype;
    return class;
}
