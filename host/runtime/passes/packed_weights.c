/* Finds low-bit weights that stay in the form of the file, because a provider reads them packed: their DequantizeLinear
 * is not folded. If the provider supports only matrix multiplications, these must read integers, possibly through a
 * Transpose, with one scale for all elements, for a column, or for a block of a column. Otherwise any reader of weights
 * counts, also through views. Casts of float16 weights to float stay if a provider converts them while packing.
 * Transposes of large matrices of floats stay if it packs these from the file: the copy would be in memory, too. */
#include "inlay/extensions.h"
#include "passes/pass.h"
#include <string.h>

enum { MIN_FLOATS = 1 << 14, MIN_HALVES = 1 << 16, MIN_TURNED_BYTES = 1 << 20, MAX_VIEWS = 2, MANY_PIXELS = 64 };
enum { SMALL_TIMES = 16, CACHE_TIMES = 3 }; /* multiples of fold_max_bytes */

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

/* The readers of each value, as linked lists. */
struct readers {
    uint32_t *first;        /* [values] first read; INLAY_NONE */
    uint32_t *next;         /* [reads] next read of the same value */
    uint32_t *node, *input; /* [reads] reading node, and index of its input */
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

static bool is_matrix_transpose(const graph_node *node)
{
    const inlay_attr_info *attribute = graph_attr(node, "perm");

    return attribute == NULL || (attribute->kind == INLAY_ATTR_INTS && attribute->count == 2 &&
                                 attribute->ints[0] == 1 && attribute->ints[1] == 0);
}

/* Returns true if only MatMul and Gemm read the value as weights, possibly through Transposes (`turned`: an odd number
 * so far), with a scale axis (2: one scale) that packed kernels support. */
static bool only_products_read(const struct graph *graph, const struct readers *readers, uint32_t value, uint32_t axis,
                               bool blocked, bool turned, int depth)
{
    bool any = false;

    if (depth > MAX_VIEWS || (graph->values[value].info.flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return false;
    for (uint32_t at = readers->first[value]; at != INLAY_NONE; at = readers->next[at]) {
        const graph_node *node = graph->nodes[readers->node[at]];
        bool transposed = turned;

        any = true;
        if (readers->input[at] == 0 && pass_is_op(node, "Transpose") && is_matrix_transpose(node)) {
            if (!only_products_read(graph, readers, node->info.outputs[0], axis, blocked, !turned, depth + 1))
                return false;
            continue;
        }
        if (readers->input[at] != 1 || (!pass_is_op(node, "MatMul") && !pass_is_op(node, "Gemm")))
            return false;
        if (pass_is_op(node, "Gemm")) {
            const inlay_attr_info *alpha = graph_attr(node, "alpha");

            if (graph_attr_int(node, "transA", 0) != 0 ||
                (alpha != NULL && (alpha->kind != INLAY_ATTR_FLOAT || alpha->f != 1)))
                return false;
            transposed = turned != (graph_attr_int(node, "transB", 0) != 0);
        }
        if (axis < 2 && blocked != (axis == (transposed ? 1 : 0)))
            return false;
    }
    return any;
}

/* Returns true if input i of the node takes weights. */
static bool is_weights(const graph_node *node, uint32_t i)
{
    return (i == 1 && pass_is_among(node, "MatMul Gemm Conv ConvTranspose")) ||
           ((i == 1 || i == 2) && pass_is_among(node, "LSTM GRU RNN"));
}

/* Types that kernels convert to floats between cache and core. */
static bool is_core_converted(inlay_dtype dtype)
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

/* Returns true if each weight is provably used for many pixels. With few, the conversion costs more than the sums. */
static bool has_many_pixels(const struct graph *graph, const graph_node *node)
{
    const inlay_value_info *output = &graph->values[node->info.outputs[0]].info;
    int64_t pixels = 1;

    for (uint32_t d = 2; output->rank <= INLAY_MAX_RANK && d < output->rank && pixels < MANY_PIXELS; d++)
        pixels *= output->dims[d].kind == INLAY_DIM_FIXED ? output->dims[d].value : 0;
    return pixels >= MANY_PIXELS;
}

/* The size in bytes, as floats, that decides about the weights of input i of the node, which have `bytes`. W and R of a
 * recurrent operator have one kernel, for floats or for integers, so the larger one decides for both. */
static uint64_t deciding_bytes(const struct graph *graph, const graph_node *node, uint64_t bytes)
{
    uint64_t most = bytes;

    for (uint32_t i = 1; i <= 2 && i < node->info.input_count && pass_is_among(node, "LSTM GRU RNN"); i++) {
        const inlay_value_info *weights = &graph->values[node->info.inputs[i]].info;
        uint64_t size = sizeof(float);

        for (uint32_t d = 0; d < (weights->rank <= INLAY_MAX_RANK ? weights->rank : 0); d++)
            size *= weights->dims[d].kind == INLAY_DIM_FIXED ? (uint64_t)weights->dims[d].value : 0;
        most = size > most ? size : most;
    }
    return most;
}

/* Largest size in bytes, as floats, for which `node` is faster with floats than with integer weights, as measured
 * (tests/bench/passes.md). 3x3 kernels are transformed (Winograd) once as floats, but in each run as integers. Float
 * weights of a recurrent operator that fit into the second-level cache stay there between steps. For other low-bit
 * types, the weights of convolutions and recurrent operators are converted in each run. */
static uint64_t unpack_limit(const pass_ctx *ctx, const struct graph *graph, const graph_node *node,
                             const inlay_value_info *weights, bool core_converted)
{
    const uint64_t limit = ctx->limits.fold_bytes * SMALL_TIMES;
    bool prefers_floats = false, square = weights->rank == 4;

    if (weights->rank > INLAY_MAX_RANK) /* not inferred yet: the question is repeated once shapes are known */
        return 0;
    if (pass_is_among(node, "LSTM GRU RNN"))
        return core_converted ? ctx->limits.fold_bytes * CACHE_TIMES : limit;
    for (uint32_t d = 2; weights->rank <= INLAY_MAX_RANK && d < weights->rank; d++) {
        prefers_floats |= weights->dims[d].value > 1;
        square &= weights->dims[d].value == 3;
    }
    if (pass_is_op(node, "ConvTranspose") || (pass_is_op(node, "Conv") && graph_attr_int(node, "group", 1) == 1))
        prefers_floats &=
            !core_converted || !has_many_pixels(graph, node) ||
            (square && pass_is_op(node, "Conv") && all_ones(node, "strides") && all_ones(node, "dilations"));
    else if (!pass_is_op(node, "Conv"))
        prefers_floats = false;
    return prefers_floats ? limit : 0;
}

/* Returns true if the value is read as weights only, possibly through views, and no reader is faster with floats. */
static bool only_weights_read(const pass_ctx *ctx, const struct graph *graph, const struct readers *readers,
                              uint32_t value, uint64_t bytes, bool core_converted, int depth)
{
    bool any = false;

    if (depth > MAX_VIEWS || (graph->values[value].info.flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return false;
    for (uint32_t at = readers->first[value]; at != INLAY_NONE; at = readers->next[at]) {
        const graph_node *node = graph->nodes[readers->node[at]];
        const bool view = readers->input[at] == 0 && pass_is_among(node, "Transpose Reshape Flatten Squeeze Unsqueeze");

        if (view ? !only_weights_read(ctx, graph, readers, node->info.outputs[0], bytes, core_converted, depth + 1)
                 : !is_weights(node, readers->input[at]) ||
                       deciding_bytes(graph, node, bytes) <=
                           unpack_limit(ctx, graph, node, &graph->values[value].info, core_converted))
            return false;
        any = true;
    }
    return any;
}

/* Returns true if the node is a DequantizeLinear that must not be folded. */
static bool keeps_packed(const pass_ctx *ctx, const struct graph *graph, const struct readers *readers,
                         const graph_node *node)
{
    const inlay_value_info *input, *scale;
    int64_t axis = graph_attr_int(node, "axis", 1), count = 1, elements = 1;

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
        graph->values[node->info.outputs[0]].info.dtype != INLAY_FLOAT || elements < MIN_FLOATS)
        return false;
    if ((ctx->providers.keeps_weights & INLAY_WEIGHTS_ANY) != 0)
        return only_weights_read(ctx, graph, readers, node->info.outputs[0], (uint64_t)elements * sizeof(float),
                                 is_core_converted(input->dtype), 0);
    for (uint32_t d = 0; d < scale->rank; d++)
        count *= scale->dims[d].value;
    axis += axis < 0 ? 2 : 0;
    if (!is_integer(input->dtype) || input->rank != 2 ||
        (count != 1 && (axis < 0 || axis > 1 || scale->rank != (graph_attr_int(node, "block_size", 0) > 0 ? 2u : 1u))))
        return false;
    return only_products_read(graph, readers, node->info.outputs[0], count == 1 ? 2 : (uint32_t)axis,
                              graph_attr_int(node, "block_size", 0) > 0, false, 0);
}

/* Returns true if a constant after the convolution will be folded into its weights (conv_batch_norm, conv_scale). */
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

/* Whether input i of the node are the weights of a mixture of experts. */
static bool is_of_experts(const graph_node *node, uint32_t i)
{
    return strcmp(node->info.domain.data, "com.microsoft") == 0 && strcmp(node->info.op_type.data, "MoE") == 0 &&
           (i == 2 || i == 4 || i == 6);
}

/* Returns true for a Cast of float16 weights that only matrix multiplications, convolutions and mixtures of experts
 * read. They are converted while packing or while they are multiplied, so that the floats never exist all at once. */
static bool keeps_halves(const pass_ctx *ctx, const struct graph *graph, const struct readers *readers,
                         const graph_node *node)
{
    const inlay_value_info *input, *output;

    if ((ctx->providers.keeps_weights & INLAY_WEIGHTS_HALVES) == 0 || !pass_is_op(node, "Cast") ||
        node->info.inputs[0] == INLAY_NONE || node->info.outputs[0] == INLAY_NONE)
        return false;
    input = &graph->values[node->info.inputs[0]].info;
    output = &graph->values[node->info.outputs[0]].info;
    if ((input->flags & INLAY_VALUE_CONSTANT) == 0 || (output->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0 ||
        (input->dtype != INLAY_FLOAT16 && input->dtype != INLAY_BFLOAT16) || output->dtype != INLAY_FLOAT ||
        input->data_bytes / 2 < MIN_HALVES || readers->first[node->info.outputs[0]] == INLAY_NONE)
        return false;
    for (uint32_t at = readers->first[node->info.outputs[0]]; at != INLAY_NONE; at = readers->next[at]) {
        const graph_node *reader = graph->nodes[readers->node[at]];
        const bool product = pass_is_op(reader, "MatMul") || pass_is_op(reader, "Gemm");

        if (is_of_experts(reader, readers->input[at]) && input->dtype == INLAY_FLOAT16 && input->rank == 3 &&
            input->dims[2].value % 16 == 0)
            continue;
        if (readers->input[at] == 0 && pass_is_op(reader, "Transpose") && input->rank == 2 &&
            is_matrix_transpose(reader) &&
            only_products_read(graph, readers, reader->info.outputs[0], 2, false, true, 1))
            continue;
        if (readers->input[at] != 1 ||
            (product ? input->rank != 2 : !pass_is_op(reader, "Conv") || is_scaled(graph, readers, reader)))
            return false;
    }
    return true;
}

/* Is the number of rows that the products multiply known at run time only? Products of few rows are merged, which needs
 * constants (pass merge_products). */
static bool has_any_rows(const struct graph *graph, const struct readers *readers, uint32_t value)
{
    for (uint32_t at = readers->first[value]; at != INLAY_NONE; at = readers->next[at]) {
        const uint32_t rows = graph->nodes[readers->node[at]]->info.inputs[0];
        const inlay_value_info *info = rows == INLAY_NONE ? NULL : &graph->values[rows].info;
        bool known = true;

        for (uint32_t d = 0; info != NULL && info->rank <= INLAY_MAX_RANK && d + 1 < info->rank; d++)
            known = known && info->dims[d].kind == INLAY_DIM_FIXED;
        if (known)
            return false;
    }
    return true;
}

/* The value before Casts to its own type, which are folded without a copy. */
static const inlay_value_info *before_casts(const struct graph *graph, uint32_t value)
{
    const inlay_value_info *info = &graph->values[value].info, *from = info;

    while (from->producer < graph->node_count && pass_is_op(graph->nodes[from->producer], "Cast")) {
        from = &graph->values[graph->nodes[from->producer]->info.inputs[0]].info;
        if (from->dtype != info->dtype)
            break;
        info = from;
    }
    return info;
}

/* Returns true for the Transpose of a large constant matrix of floats that only matrix multiplications with any number
 * of rows read. Option reduce rounds constants of products. */
static bool keeps_turned(const pass_ctx *ctx, const struct graph *graph, const struct readers *readers,
                         const graph_node *node)
{
    const inlay_value_info *input = !pass_is_op(node, "Transpose") || node->info.inputs[0] == INLAY_NONE
                                        ? NULL
                                        : before_casts(graph, node->info.inputs[0]);

    return (ctx->providers.keeps_weights & INLAY_WEIGHTS_TURNED) != 0 && ctx->options.reduction_count == 0 &&
           input != NULL && (input->flags & INLAY_VALUE_CONSTANT) != 0 && input->dtype == INLAY_FLOAT &&
           input->rank == 2 && input->data_bytes >= MIN_TURNED_BYTES && is_matrix_transpose(node) &&
           only_products_read(graph, readers, node->info.outputs[0], 2, false, true, MAX_VIEWS) &&
           has_any_rows(graph, readers, node->info.outputs[0]);
}

bool *pass_packed_weights(const pass_ctx *ctx, const struct graph *graph, struct arena *arena)
{
    bool *found = NULL, any = false;
    struct readers readers;

    for (uint32_t node = 0; ctx->providers.keeps_weights != 0 && !any && node < graph->node_count; node++)
        any =
            pass_is_op(graph->nodes[node], "DequantizeLinear") ||
            ((ctx->providers.keeps_weights & INLAY_WEIGHTS_HALVES) != 0 && pass_is_op(graph->nodes[node], "Cast")) ||
            ((ctx->providers.keeps_weights & INLAY_WEIGHTS_TURNED) != 0 && pass_is_op(graph->nodes[node], "Transpose"));
    if (!any || (found = arena_array(arena, (size_t)graph->node_count + 1, sizeof *found)) == NULL ||
        !find_readers(graph, &readers, arena))
        return NULL;
    for (uint32_t node = 0; node < graph->node_count; node++)
        found[node] = keeps_packed(ctx, graph, &readers, graph->nodes[node]) ||
                      keeps_halves(ctx, graph, &readers, graph->nodes[node]) ||
                      keeps_turned(ctx, graph, &readers, graph->nodes[node]);
    return found;
}
