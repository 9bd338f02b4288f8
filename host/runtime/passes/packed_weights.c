/* Weights of few bits that stay as they are in the file, since a provider reads them packed: which DequantizeLinear are
 * not to be folded. Where it does so for products alone, they have to read integers with one scale for all, for a
 * column, or for a block of a column, past a Transpose; otherwise any, past views. And Casts of halves to float, where
 * a provider makes the floats as it packs them. */
#include "passes/pass.h"
#include <string.h>

enum { LEAST_FLOATS = 1 << 14, LEAST_HALVES = 1 << 16, LOOK_THROUGH = 2, MANY_PIXELS = 64 };
enum { SMALL_TIMES = 16, CACHE_TIMES = 3 }; /* of fold_max_bytes */

static bool is_integer(inlay_dtype dtype)
{
    return dtype == INLAY_INT8 || dtype == INLAY_UINT8 || dtype == INLAY_INT4 || dtype == INLAY_UINT4 ||
           dtype == INLAY_INT2 || dtype == INLAY_UINT2;
}

static bool is_narrow(inlay_dtype dtype)
{
    return is_integer(dtype) || dtype == INLAY_INT16 || dtype == INLAY_UINT16 || dtype == INLAY_FLOAT8E4M3FN ||
           dtype == INLAY_FLOAT8E4M3FNUZ || dtype == INLAY_FLOAT8E5M2 || dtype == INLAY_FLOAT8E5M2FNUZ ||
           dtype == INLAY_FLOAT4E2M1;
}

/* The nodes that read each value, as lists. */
struct readers {
    uint32_t *first; /* [values] into next, INLAY_NONE */
    uint32_t *next;  /* by number of the read */
    uint32_t *node, *input;
};

static bool find_readers(const struct graph *graph, struct readers *readers, struct arena *arena)
{
    uint32_t count = 0, at = 0;

    for (uint32_t node = 0; node < graph->node_count; node++)
        count += graph->nodes[node]->info.input_count;
    readers->first = arena_array(arena, (size_t)graph->value_count + 1, sizeof *readers->first);
    readers->next = arena_array(arena, (size_t)count + 1, sizeof *readers->next);
    readers->node = arena_array(arena, (size_t)count + 1, sizeof *readers->node);
    readers->input = arena_array(arena, (size_t)count + 1, sizeof *readers->input);
    if (readers->first == NULL || readers->next == NULL || readers->node == NULL || readers->input == NULL)
        return false;
    memset(readers->first, 0xff, ((size_t)graph->value_count + 1) * sizeof *readers->first);
    for (uint32_t node = 0; node < graph->node_count; node++)
        for (uint32_t i = 0; i < graph->nodes[node]->info.input_count; i++, at++) {
            const uint32_t value = graph->nodes[node]->info.inputs[i];

            if (value == INLAY_NONE)
                continue;
            readers->node[at] = node;
            readers->input[at] = i;
            readers->next[at] = readers->first[value];
            readers->first[value] = at;
        }
    return true;
}

static int64_t attr_int(const graph_node *node, const char *name, int64_t otherwise)
{
    const inlay_attr_info *attribute = graph_attr(node, name);

    return attribute != NULL && attribute->kind == INLAY_ATTR_INT ? attribute->i : otherwise;
}

static bool turns(const graph_node *node)
{
    const inlay_attr_info *attribute = graph_attr(node, "perm");

    return attribute == NULL || (attribute->kind == INLAY_ATTR_INTS && attribute->count == 2 &&
                                 attribute->ints[0] == 1 && attribute->ints[1] == 0);
}

static bool reads_packed(const struct graph *graph, const struct readers *readers, uint32_t value, uint32_t axis,
                         bool blocked, bool turned, int depth)
{
    bool any = false;

    if (depth > LOOK_THROUGH || (graph->values[value].info.flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return false;
    for (uint32_t at = readers->first[value]; at != INLAY_NONE; at = readers->next[at]) {
        const graph_node *node = graph->nodes[readers->node[at]];
        bool turn = turned;

        any = true;
        if (readers->input[at] == 0 && pass_is_op(node, "Transpose") && turns(node)) {
            if (!reads_packed(graph, readers, node->info.outputs[0], axis, blocked, !turned, depth + 1))
                return false;
            continue;
        }
        if (readers->input[at] != 1 || (!pass_is_op(node, "MatMul") && !pass_is_op(node, "Gemm")))
            return false;
        if (pass_is_op(node, "Gemm")) {
            const inlay_attr_info *alpha = graph_attr(node, "alpha");

            if (attr_int(node, "transA", 0) != 0 ||
                (alpha != NULL && (alpha->kind != INLAY_ATTR_FLOAT || alpha->f != 1)))
                return false;
            turn = turned != (attr_int(node, "transB", 0) != 0);
        }
        if (axis < 2 && blocked != (axis == (turn ? 1 : 0)))
            return false;
    }
    return any;
}

/* Does input i of node have weights? */
static bool is_weights(const graph_node *node, uint32_t i)
{
    return (i == 1 && pass_is_among(node, "MatMul Gemm Conv ConvTranspose")) ||
           ((i == 1 || i == 2) && pass_is_among(node, "LSTM GRU RNN"));
}

/* Codes that become floats on the way from the cache to the core. */
static bool is_code(inlay_dtype dtype)
{
    return dtype == INLAY_INT8 || dtype == INLAY_UINT8 || dtype == INLAY_INT4 || dtype == INLAY_UINT4;
}

static bool all_ones(const graph_node *node, const char *name)
{
    const inlay_attr_info *attribute = graph_attr(node, name);

    for (uint32_t i = 0; attribute != NULL && attribute->kind == INLAY_ATTR_INTS && i < attribute->count; i++)
        if (attribute->ints[i] != 1)
            return false;
    return true;
}

/* Is each weight used for many pixels, as far as is known? In front of few, spreading codes costs more than the sums.
 * / */
static bool serves_many(const struct graph *graph, const graph_node *node)
{
    const inlay_value_info *output = &graph->values[node->info.outputs[0]].info;
    int64_t pixels = 1;

    for (uint32_t d = 2; output->rank <= INLAY_MAX_RANK && d < output->rank && pixels < MANY_PIXELS; d++)
        pixels *= output->dims[d].kind == INLAY_DIM_FIXED ? output->dims[d].value : 0;
    return pixels >= MANY_PIXELS;
}

/* Most bytes of floats that serve node better than these codes do, as measured (README): windows of 3x3 are transformed
 * once as floats and in each run as codes, and floats of a recurrence that fit into the second-level cache are there at
 * each step. Of other types all floats of windows and recurrences are made in each run. */
static uint64_t small_bytes(const pass_ctx *ctx, const struct graph *graph, const graph_node *node,
                            const inlay_value_info *weights, bool code)
{
    const uint64_t some = ctx->fold_max_bytes * SMALL_TIMES;
    bool window = false, square = weights->rank == 4;

    if (weights->rank > INLAY_MAX_RANK) /* just made: it is asked again when shapes are known */
        return 0;
    if (pass_is_among(node, "LSTM GRU RNN"))
        return code ? ctx->fold_max_bytes * CACHE_TIMES : some;
    for (uint32_t d = 2; weights->rank <= INLAY_MAX_RANK && d < weights->rank; d++) {
        window |= weights->dims[d].value > 1;
        square &= weights->dims[d].value == 3;
    }
    if (pass_is_op(node, "ConvTranspose") || (pass_is_op(node, "Conv") && attr_int(node, "group", 1) == 1))
        window &= !code || !serves_many(graph, node) ||
                  (square && pass_is_op(node, "Conv") && all_ones(node, "strides") && all_ones(node, "dilations"));
    else if (!pass_is_op(node, "Conv"))
        window = false;
    return window ? some : 0;
}

/* Is the value read as weights alone, past views, by nobody who is better off with floats? */
static bool reads_any(const pass_ctx *ctx, const struct graph *graph, const struct readers *readers, uint32_t value,
                      uint64_t bytes, bool code, int depth)
{
    bool any = false;

    if (depth > LOOK_THROUGH || (graph->values[value].info.flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return false;
    for (uint32_t at = readers->first[value]; at != INLAY_NONE; at = readers->next[at]) {
        const graph_node *node = graph->nodes[readers->node[at]];
        const bool view = readers->input[at] == 0 && pass_is_among(node, "Transpose Reshape Flatten Squeeze Unsqueeze");

        if (view ? !reads_any(ctx, graph, readers, node->info.outputs[0], bytes, code, depth + 1)
                 : !is_weights(node, readers->input[at]) ||
                       bytes <= small_bytes(ctx, graph, node, &graph->values[value].info, code))
            return false;
        any = true;
    }
    return any;
}

static bool stays(const pass_ctx *ctx, const struct graph *graph, const struct readers *readers, const graph_node *node)
{
    const inlay_value_info *input, *scale;
    int64_t axis = attr_int(node, "axis", 1), count = 1, elements = 1;

    if (!pass_is_op(node, "DequantizeLinear") || node->info.input_count < 2 || node->info.inputs[0] == INLAY_NONE ||
        node->info.inputs[1] == INLAY_NONE || node->info.outputs[0] == INLAY_NONE)
        return false;
    input = &graph->values[node->info.inputs[0]].info;
    scale = &graph->values[node->info.inputs[1]].info;
    for (uint32_t i = 0; i < node->info.input_count; i++)
        if (node->info.inputs[i] != INLAY_NONE &&
            (graph->values[node->info.inputs[i]].info.flags & INLAY_VALUE_CONSTANT) == 0)
            return false;
    for (uint32_t d = 0; d < input->rank; d++)
        elements *= input->dims[d].value;
    if (!is_narrow(input->dtype) || scale->dtype != INLAY_FLOAT ||
        graph->values[node->info.outputs[0]].info.dtype != INLAY_FLOAT || elements < LEAST_FLOATS)
        return false;
    if ((ctx->keeps_weights & 2) != 0)
        return reads_any(ctx, graph, readers, node->info.outputs[0], (uint64_t)elements * sizeof(float),
                         is_code(input->dtype), 0);
    for (uint32_t d = 0; d < scale->rank; d++)
        count *= scale->dims[d].value;
    axis += axis < 0 ? 2 : 0;
    if (!is_integer(input->dtype) || input->rank != 2 ||
        (count != 1 && (axis < 0 || axis > 1 || scale->rank != (attr_int(node, "block_size", 0) > 0 ? 2u : 1u))))
        return false;
    return reads_packed(graph, readers, node->info.outputs[0], count == 1 ? 2 : (uint32_t)axis,
                        attr_int(node, "block_size", 0) > 0, false, 0);
}

/* Does what follows a convolution go into its weights (conv_batch_norm, conv_scale)? */
static bool is_scaled(const struct graph *graph, const struct readers *readers, const graph_node *conv)
{
    for (uint32_t at = readers->first[conv->info.outputs[0]]; at != INLAY_NONE; at = readers->next[at]) {
        const graph_node *node = graph->nodes[readers->node[at]];

        for (uint32_t k = 0; pass_is_among(node, "BatchNormalization Mul Div Add Sub") && k < node->info.input_count;
             k++)
            if (node->info.inputs[k] != INLAY_NONE &&
                (graph->values[node->info.inputs[k]].info.flags & INLAY_VALUE_CONSTANT) != 0)
                return true;
    }
    return false;
}

/* Halves that products and convolutions alone read become floats when they are packed, so that nobody ever has all of
 * these floats. */
static bool halves_stay(const pass_ctx *ctx, const struct graph *graph, const struct readers *readers,
                        const graph_node *node)
{
    const inlay_value_info *input, *output;

    if ((ctx->keeps_weights & 4) == 0 || !pass_is_op(node, "Cast") || node->info.inputs[0] == INLAY_NONE ||
        node->info.outputs[0] == INLAY_NONE)
        return false;
    input = &graph->values[node->info.inputs[0]].info;
    output = &graph->values[node->info.outputs[0]].info;
    if ((input->flags & INLAY_VALUE_CONSTANT) == 0 || (output->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0 ||
        (input->dtype != INLAY_FLOAT16 && input->dtype != INLAY_BFLOAT16) || output->dtype != INLAY_FLOAT ||
        input->data_bytes / 2 < LEAST_HALVES || readers->first[node->info.outputs[0]] == INLAY_NONE)
        return false;
    for (uint32_t at = readers->first[node->info.outputs[0]]; at != INLAY_NONE; at = readers->next[at]) {
        const graph_node *reader = graph->nodes[readers->node[at]];
        const bool product = pass_is_op(reader, "MatMul") || pass_is_op(reader, "Gemm");

        if (readers->input[at] != 1 ||
            (product ? input->rank != 2 : !pass_is_op(reader, "Conv") || is_scaled(graph, readers, reader)))
            return false;
    }
    return true;
}

bool *pass_packed_weights(const pass_ctx *ctx, const struct graph *graph, struct arena *arena)
{
    bool *found = NULL, any = false;
    struct readers readers;

    for (uint32_t node = 0; ctx->keeps_weights != 0 && !any && node < graph->node_count; node++)
        any = pass_is_op(graph->nodes[node], "DequantizeLinear") ||
              ((ctx->keeps_weights & 4) != 0 && pass_is_op(graph->nodes[node], "Cast"));
    if (!any || (found = arena_array(arena, (size_t)graph->node_count + 1, sizeof *found)) == NULL ||
        !find_readers(graph, &readers, arena))
        return NULL;
    for (uint32_t node = 0; node < graph->node_count; node++)
        found[node] =
            stays(ctx, graph, &readers, graph->nodes[node]) || halves_stay(ctx, graph, &readers, graph->nodes[node]);
    return found;
}
