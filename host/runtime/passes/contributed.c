/* Decomposes operators of com.microsoft, operators of ai.onnx that only ONNX Runtime has, and SwiGLU into ONNX
 * operators:
 *
 *     BiasGelu(a, b)  ->  Gelu(Add(a, b))
 *
 * Level 0, because no provider runs them. A node that ONNX operators cannot express is left unchanged. The reason for
 * that (builder_refuse) becomes part of the error if no provider runs the node. The operators are defined in
 * "ContribOperators.md" of ONNX Runtime. */
#include "passes/contributed.h"
#include <math.h>
#include <string.h>

static const struct {
    const char *domain, *name;
    void (*decompose)(subgraph_builder *builder);
} table[] = {
#define CONTRIBUTED(name, function) { "com.microsoft", #name, function },
#define CONTRIBUTED_ONNX(name, function) { "ai.onnx", #name, function },
#include "passes/contributed.def"
#undef CONTRIBUTED
};

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    subgraph_builder builder = { .rewrite = rewrite, .node = node };

    if (node->schema == NULL)
        return INLAY_OK;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(node->info.op_type.data, table[i].name) != 0 || strcmp(node->info.domain.data, table[i].domain) != 0)
            continue;
        table[i].decompose(&builder);
        return builder.status != INLAY_OK || builder.last == NULL ? builder.status : builder_finish(&builder);
    }
    return INLAY_OK;
}

inlay_status pass_contributed(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}

static uint32_t gelu(subgraph_builder *builder, uint32_t input, bool tanh)
{
    uint32_t output = emit_op(builder, "Gelu", 20, input);

    emit_attr_string(builder, "approximate", tanh ? "tanh" : "none");
    return output;
}

void decompose_gelu(subgraph_builder *builder)
{
    builder_set_output(builder, 0, gelu(builder, builder_input(builder, 0), false));
}

void decompose_bias_gelu(subgraph_builder *builder)
{
    uint32_t input = builder_input(builder, 0);

    if (builder_input(builder, 1) != INLAY_NONE)
        input = emit_op(builder, "Add", 14, input, builder_input(builder, 1));
    builder_set_output(builder, 0, gelu(builder, input, strcmp(builder->node->info.op_type.data, "FastGelu") == 0));
}

void decompose_quick_gelu(subgraph_builder *builder)
{
    const uint32_t input = builder_input(builder, 0);
    uint32_t scaled =
        emit_op(builder, "Mul", 14, input,
                emit_number(builder, builder_dtype(builder, input), graph_attr_float(builder->node, "alpha", 1.702)));

    builder_set_output(builder, 0, emit_op(builder, "Mul", 14, input, emit_op(builder, "Sigmoid", 13, scaled)));
}

/* SwiGLU-28: Swish(A) * B. */
void decompose_swiglu(subgraph_builder *builder)
{
    uint32_t gate = emit_op(builder, "Swish", 24, builder_input(builder, 0));

    emit_attr_float(builder, "alpha", graph_attr_float(builder->node, "alpha", 1));
    builder_set_output(builder, 0, emit_op(builder, "Mul", 14, gate, builder_input(builder, 1)));
}

/* alpha * op(beta * input); NaN stands for 1. */
static uint32_t scaled(subgraph_builder *builder, const char *op, uint32_t input, double alpha, double beta)
{
    const inlay_dtype dtype = builder_dtype(builder, input);

    if (!isnan(beta) && beta != 1)
        input = emit_op(builder, "Mul", 14, input, emit_number(builder, dtype, beta));
    if (op != NULL)
        input = emit_op(builder, op, 13, input);
    return isnan(alpha) || alpha == 1 ? input : emit_op(builder, "Mul", 14, input, emit_number(builder, dtype, alpha));
}

uint32_t contributed_activation(subgraph_builder *builder, const char *name, uint32_t input, const double params[3])
{
    static const char *const names[] = { "alpha", "beta", "gamma" };
    uint32_t output;

    if (strcmp(name, "Clip") == 0) {
        const inlay_dtype dtype = builder_dtype(builder, input);
        const uint32_t low = isnan(params[0]) ? INLAY_NONE : emit_number(builder, dtype, params[0]);

        return emit_op(builder, "Clip", 13, input, low,
                       isnan(params[1]) ? INLAY_NONE : emit_number(builder, dtype, params[1]));
    }
    if (strcmp(name, "ParametricSoftplus") == 0 || strcmp(name, "ScaledTanh") == 0)
        return scaled(builder, name[0] == 'P' ? "Softplus" : "Tanh", input, params[0], params[1]);
    output = emit_op(builder, name, strcmp(name, "HardSigmoid") == 0 || strcmp(name, "LeakyRelu") == 0 ? 6 : 13, input);
    for (uint32_t i = 0; i < 3; i++)
        if (!isnan(params[i]))
            emit_attr_float(builder, names[i], params[i]);
    return output;
}

void decompose_renamed(subgraph_builder *builder)
{
    static const char *const attributes[] = { "mode", "padding_mode", "align_corners", "upper", NULL };
    const char *op = builder->node->info.op_type.data;
    uint32_t output = emit_node(builder, op, strcmp(op, "GridSample") == 0 ? 16 : 14, INLAY_UNDEFINED, 1,
                                (const uint32_t[]){ builder_input(builder, 0), builder_input(builder, 1),
                                                    builder_input(builder, 2), EMIT_END });

    emit_attr_copies(builder, attributes);
    builder_set_output(builder, 0, output);
}

void decompose_range(subgraph_builder *builder)
{
    const uint32_t start = builder_input(builder, 0), step = builder_input(builder, 2);
    uint32_t output =
        emit_op(builder, "Range", 11, start, builder_input(builder, 1),
                step != INLAY_NONE ? step
                                   : emit_cast(builder, emit_op(builder, "Squeeze", 13, emit_list(builder, 1)),
                                               builder_dtype(builder, start)));

    builder_set_output(builder, 0, output);
}

void decompose_unique(subgraph_builder *builder)
{
    uint32_t output =
        emit_node(builder, "Unique", 11, INLAY_UNDEFINED, 4, (const uint32_t[]){ builder_input(builder, 0), EMIT_END });

    emit_attr_int(builder, "sorted", 0);
    builder_set_output(builder, 0, output);
    if (builder->status == INLAY_OK) {
        builder->rewrite->graph->values[emitted_output(builder, 2)].info.dtype =
            builder->rewrite->graph->values[emitted_output(builder, 3)].info.dtype = INLAY_INT64;
        builder_set_output(builder, 1, builder->last->info.outputs[2]);
        builder_set_output(builder, 2, builder->last->info.outputs[3]);
    }
}

void decompose_expand_dims(subgraph_builder *builder)
{
    uint32_t axis = emit_cast(builder, builder_input(builder, 1), INLAY_INT64);

    axis = emit_op(builder, "Reshape", 13, axis, emit_list(builder, 1));
    builder_set_output(builder, 0, emit_op(builder, "Unsqueeze", 13, builder_input(builder, 0), axis));
}

void decompose_pad(subgraph_builder *builder)
{
    static const char *const attributes[] = { "mode", NULL };
    const uint32_t pads =
        emit_op(builder, "Reshape", 13, builder_input(builder, 1), emit_list(builder, -1)); /* may be [1, 2 * rank] */
    uint32_t value = builder_input(builder, 2), output;

    if (value != INLAY_NONE)
        value = emit_op(builder, "Reshape", 13, value, emit_integers(builder, NULL, 0));
    output = emit_op(builder, "Pad", 13, builder_input(builder, 0), pads, value);
    emit_attr_copies(builder, attributes);
    builder_set_output(builder, 0, output);
}

void decompose_gather_nd(subgraph_builder *builder)
{
    builder_set_output(builder, 0,
                       emit_op(builder, "GatherND", 13, builder_input(builder, 0),
                               emit_cast(builder, builder_input(builder, 1), INLAY_INT64)));
}

void decompose_sample(subgraph_builder *builder)
{
    builder_set_output(builder, 0, emit_op(builder, "Identity", 13, builder_input(builder, 0)));
}

/* Windows of `size` elements along an axis, `step` apart. The axis holds the windows, a new last axis their
 * elements. */
void decompose_unfold_tensor(subgraph_builder *builder)
{
    const uint32_t input = builder_input(builder, 0), rank = builder_rank(builder, input);
    const int64_t size = graph_attr_int(builder->node, "size", 0), step = graph_attr_int(builder->node, "step", 1);
    int64_t axis = graph_attr_int(builder->node, "dim", -1), perm[INLAY_MAX_RANK];
    uint32_t zero, count, starts, output;

    axis += axis < 0 && rank != INLAY_RANK_UNKNOWN ? rank : 0;
    if (builder_refuse(builder, rank == INLAY_RANK_UNKNOWN ? "the rank of the input is not known"
                                : rank >= INLAY_MAX_RANK   ? "the input has 16 axes, and the result would have 17"
                                : axis < 0 || axis >= rank ? "dim is not an axis of the input"
                                : size < 1 || size > INT32_MAX || step < 1 ? "size or step is out of range"
                                                                           : NULL))
        return;
    zero = emit_op(builder, "Squeeze", 13, emit_list(builder, 0));
    count = emit_op(builder, "Gather", 13, emit_typed(builder, "Shape", 13, INLAY_INT64, input),
                    emit_op(builder, "Squeeze", 13, emit_list(builder, axis)));
    starts = emit_op(builder, "Range", 11, zero,
                     emit_op(builder, "Sub", 14, count, emit_op(builder, "Squeeze", 13, emit_list(builder, size - 1))),
                     emit_op(builder, "Squeeze", 13, emit_list(builder, step)));
    output = emit_op(builder, "Range", 11, zero, emit_op(builder, "Squeeze", 13, emit_list(builder, size)),
                     emit_op(builder, "Squeeze", 13, emit_list(builder, 1)));
    output = emit_op(builder, "Add", 14, emit_op(builder, "Unsqueeze", 13, starts, emit_list(builder, 1)), output);
    output = emit_op(builder, "Gather", 13, input, output); /* [.., windows, size, ..] */
    emit_attr_int(builder, "axis", axis);
    for (uint32_t d = 0; d <= rank; d++)
        perm[d] = d <= axis ? d : d == rank ? axis + 1 : d + 1;
    builder_set_output(builder, 0, axis + 1 == rank ? output : emit_transpose(builder, output, perm, rank + 1));
}

void decompose_image_scaler(subgraph_builder *builder)
{
    const uint32_t input = builder_input(builder, 0);
    uint32_t count = 0, bias;
    const inlay_attr_info *list = graph_attr(builder->node, "bias");
    const int64_t dims[3] = { list == NULL ? 0 : list->count, 1, 1 };
    uint32_t output =
        emit_op(builder, "Mul", 13, input,
                emit_number(builder, builder_dtype(builder, input), graph_attr_float(builder->node, "scale", 1)));

    count = list == NULL ? 0 : list->count;
    if (count > 0) {
        bias = builder->status != INLAY_OK ? INLAY_NONE
                                           : rewrite_constant(builder->rewrite, INLAY_FLOAT, 3, dims, list->floats,
                                                              (uint64_t)count * sizeof(float));
        if (bias == INLAY_NONE)
            builder->status = builder->status == INLAY_OK ? rewrite_no_memory(builder->rewrite) : builder->status;
        output = emit_op(builder, "Add", 13, output, emit_cast(builder, bias, builder_dtype(builder, input)));
    }
    builder_set_output(builder, 0, output);
}

void decompose_simplified_layer_norm(subgraph_builder *builder)
{
    static const char *const attributes[] = { "axis", "epsilon", "stash_type", NULL };
    const uint32_t input = builder_input(builder, 0), scale = builder_input(builder, 1);
    const inlay_dtype dtype = builder_dtype(builder, input);
    const int64_t axis = graph_attr_int(builder->node, "axis", -1);
    uint32_t output, variance;

    output = emit_op(builder, "RMSNormalization", 23, input, emit_cast(builder, scale, dtype));
    emit_attr_copies(builder, attributes);
    builder_set_output(builder, 0, emit_cast(builder, output, builder_dtype(builder, scale)));
    if (!builder_wants(builder, 1) || (axis != -1 && axis + 1 != (int64_t)builder_rank(builder, input)))
        return;
    variance = emit_cast(builder, input, INLAY_FLOAT);
    variance =
        emit_op(builder, "ReduceMean", 18, emit_op(builder, "Mul", 14, variance, variance), emit_list(builder, -1));
    variance = emit_op(builder, "Add", 14, variance,
                       emit_number(builder, INLAY_FLOAT, graph_attr_float(builder->node, "epsilon", 1e-5)));
    builder_set_output(builder, 1, emit_op(builder, "Reciprocal", 13, emit_op(builder, "Sqrt", 13, variance)));
}

/* Looks up rows of a table; the quantized form has 8-bit elements with a scale and a zero point. */
static uint32_t embedding_rows(subgraph_builder *builder, uint32_t from, uint32_t ids, uint32_t scale, uint32_t zero)
{
    uint32_t rows = emit_op(builder, "Gather", 13, from, ids);

    return scale == INLAY_NONE ? rows : emit_typed(builder, "DequantizeLinear", 13, INLAY_FLOAT, rows, scale, zero);
}

/* Inputs: word ids, segment ids?, tables of words, positions and segments?, gamma, beta, mask?, position ids?. In the
 * quantized form, the scales of the five tables and then their zero points replace the position ids. */
void decompose_embed_layer_norm(subgraph_builder *builder)
{
    const bool quantized = builder->node->info.op_type.data[0] == 'Q';
    const uint32_t ids = builder_input(builder, 0), segments = builder_input(builder, 1),
                   mask = builder_input(builder, 7);
    uint32_t positions = quantized ? INLAY_NONE : builder_input(builder, 8), scales[5], zeros[5], sum, output, gamma,
             beta;

    for (uint32_t i = 0; i < 5; i++) {
        scales[i] = quantized ? builder_input(builder, 8 + i) : INLAY_NONE;
        zeros[i] = quantized ? builder_input(builder, 13 + i) : INLAY_NONE;
    }
    sum = embedding_rows(builder, builder_input(builder, 2), ids, scales[0], zeros[0]);
    if (positions == INLAY_NONE) {
        const uint32_t shape = emit_typed(builder, "Shape", 13, INLAY_INT64, ids);
        const uint32_t length =
            emit_op(builder, "Gather", 13, shape, emit_op(builder, "Squeeze", 13, emit_list(builder, 1)));
        const uint32_t one = emit_op(builder, "Squeeze", 13, emit_list(builder, 1));

        positions = emit_op(builder, "Range", 11, emit_op(builder, "Sub", 14, one, one), length, one);
    }
    sum = emit_op(builder, "Add", 14, sum,
                  embedding_rows(builder, builder_input(builder, 3), positions, scales[1], zeros[1]));
    if (segments != INLAY_NONE)
        sum = emit_op(builder, "Add", 14, sum,
                      embedding_rows(builder, builder_input(builder, 4), segments, scales[2], zeros[2]));
    gamma = builder_input(builder, 5);
    beta = builder_input(builder, 6);
    if (quantized) {
        gamma = emit_typed(builder, "DequantizeLinear", 13, INLAY_FLOAT, gamma, scales[3], zeros[3]);
        beta = emit_typed(builder, "DequantizeLinear", 13, INLAY_FLOAT, beta, scales[4], zeros[4]);
    }
    output = emit_op(builder, "LayerNormalization", 17, sum, gamma, beta);
    emit_attr_int(builder, "axis", -1);
    emit_attr_float(builder, "epsilon", graph_attr_float(builder->node, "epsilon", 1e-12));
    builder_set_output(builder, 0, output);
    if (builder_wants(builder, 1)) { /* in each row, the number of ids whose mask is 1; 0 without a mask */
        const uint32_t kept = mask == INLAY_NONE
                                  ? emit_op(builder, "Sub", 14, ids, ids)
                                  : emit_cast(builder,
                                              emit_typed(builder, "Equal", 13, INLAY_BOOL,
                                                         emit_cast(builder, mask, INLAY_INT64), emit_list(builder, 1)),
                                              INLAY_INT64);
        const uint32_t total = emit_op(builder, "ReduceSum", 13, kept, emit_list(builder, 1));

        emit_attr_int(builder, "keepdims", 0);
        builder_set_output(builder, 1, emit_cast(builder, total, INLAY_INT32));
    }
    builder_set_output(builder, 2, sum);
}
