/* Decomposes operators of com.microsoft of language models with linear attention: its gates, and rotary embeddings with
 * three positions. */
#include "passes/contributed.h"
#include <stdlib.h>

/* x / sqrt(mean(x^2) + epsilon) over the last axis, in float. */
static uint32_t root_mean_normalized(subgraph_builder *builder, uint32_t input)
{
    uint32_t mean =
        emit_op(builder, "ReduceMean", 18, emit_op(builder, "Mul", 14, input, input), emit_list(builder, -1));

    mean = emit_op(builder, "Add", 14, mean,
                   emit_number(builder, INLAY_FLOAT, graph_attr_float(builder->node, "epsilon", 1e-5)));
    return emit_op(builder, "Div", 14, input, emit_op(builder, "Sqrt", 13, mean));
}

static uint32_t float_input(subgraph_builder *builder, uint32_t i)
{
    const uint32_t value = builder_input(builder, i);

    return value == INLAY_NONE ? value : emit_cast(builder, value, INLAY_FLOAT);
}

/* x + y * gate */
void decompose_gated_add(subgraph_builder *builder)
{
    const uint32_t product = emit_op(builder, "Mul", 14, builder_input(builder, 1), builder_input(builder, 2));

    builder_set_output(builder, 0, emit_op(builder, "Add", 14, builder_input(builder, 0), product));
}

/* RMSNormalization(x) * scale * silu(gate). scale may be shorter than the last axis of x: each group of that size is
 * normalized by itself. */
void decompose_gated_rms_norm(subgraph_builder *builder)
{
    const uint32_t input = float_input(builder, 0), scale = float_input(builder, 1), gate = float_input(builder, 2);
    const uint32_t size = emit_typed(builder, "Shape", 13, INLAY_INT64, builder_input(builder, 1));
    const uint32_t groups = emit_typed(builder, "Concat", 13, INLAY_INT64, emit_list(builder, -1), size);
    uint32_t sizes, output;

    emit_attr_int(builder, "axis", 0);
    sizes = emit_typed(builder, "Shape", 13, INLAY_INT64, builder_input(builder, 0));
    output = emit_op(builder, "Reshape", 13, input, groups);
    output = emit_op(builder, "Mul", 14, root_mean_normalized(builder, output), scale);
    output = emit_op(builder, "Reshape", 13, output, sizes);
    output =
        emit_op(builder, "Mul", 14, output, emit_op(builder, "Mul", 14, gate, emit_op(builder, "Sigmoid", 13, gate)));
    builder_set_output(builder, 0, emit_cast(builder, output, builder_dtype(builder, builder_input(builder, 0))));
}

/* gate * value for each connection of hyper-connections: key and query are [batch, length, connections, size], value
 * [batch, length, size]. The gate is the sigmoid of sign(dot) * sqrt(max(|dot|, 1e-6)), where dot is the product of the
 * normalized key and query, divided by sqrt(size). */
void decompose_engram_gate(subgraph_builder *builder)
{
    const inlay_dtype dtype = builder_dtype(builder, builder_input(builder, 0));
    const uint32_t value = emit_op(builder, "Unsqueeze", 13, float_input(builder, 2), emit_list(builder, 2));
    uint32_t parts[2], size, dot, gate;

    size = emit_op(builder, "Gather", 13, emit_typed(builder, "Shape", 13, INLAY_INT64, builder_input(builder, 0)),
                   emit_list(builder, 3));
    size = emit_op(builder, "Sqrt", 13, emit_cast(builder, size, INLAY_FLOAT));
    for (uint32_t i = 0; i < 2; i++)
        parts[i] = emit_op(builder, "Mul", 14, root_mean_normalized(builder, float_input(builder, i)),
                           float_input(builder, 3 + i));
    dot = emit_op(builder, "ReduceSum", 13, emit_op(builder, "Mul", 14, parts[0], parts[1]), emit_list(builder, -1));
    dot = emit_op(builder, "Div", 14, dot, size);
    gate = emit_op(builder, "Max", 13, emit_op(builder, "Abs", 13, dot), emit_number(builder, INLAY_FLOAT, 1e-6));
    gate = emit_op(builder, "Mul", 14, emit_op(builder, "Sign", 13, dot), emit_op(builder, "Sqrt", 13, gate));
    gate = emit_op(builder, "Mul", 14, emit_op(builder, "Sigmoid", 13, gate), value);
    builder_set_output(builder, 0, emit_cast(builder, gate, dtype));
}

/* decay = decay_scale * softplus(a + dt_bias), beta = sigmoid(b) */
void decompose_linear_attention_gate(subgraph_builder *builder)
{
    const inlay_dtype dtype = builder_dtype(builder, builder_input(builder, 0));
    uint32_t decay;

    if (builder_refuse(builder, builder_wants(builder, 1) && builder_input(builder, 3) == INLAY_NONE
                                    ? "output beta needs input b"
                                    : NULL))
        return;
    decay = emit_op(builder, "Add", 14, float_input(builder, 0), float_input(builder, 1));
    decay = emit_op(builder, "Mul", 14, emit_op(builder, "Softplus", 13, decay), float_input(builder, 2));
    builder_set_output(builder, 0, emit_cast(builder, decay, dtype));
    if (builder_wants(builder, 1))
        builder_set_output(builder, 1,
                           emit_cast(builder, emit_op(builder, "Sigmoid", 13, float_input(builder, 3)), dtype));
}

/* A constant bool[pairs]: true for the pairs that are rotated by this position (0 time, 1 height, 2 width).
 * Interleaved, height and width take every third pair, up to their section's size. */
static uint32_t pairs_of(subgraph_builder *builder, const int64_t sections[3], bool interleaved, int64_t position)
{
    const int64_t pairs = sections[0] + sections[1] + sections[2];
    const int64_t begin = position == 1 ? sections[0] : sections[0] + sections[1];
    bool *chosen = builder->status == INLAY_OK ? calloc((size_t)pairs + 1, sizeof *chosen) : NULL;
    uint32_t constant = INLAY_NONE;

    for (int64_t pair = 0; chosen != NULL && pair < pairs; pair++)
        chosen[pair] = interleaved ? pair % 3 == position && pair < 3 * sections[position]
                                   : pair >= begin && pair < begin + sections[position];
    if (chosen != NULL)
        constant = rewrite_constant(builder->rewrite, INLAY_BOOL, 1, &pairs, chosen, (uint64_t)pairs);
    if (constant == INLAY_NONE && builder->status == INLAY_OK)
        builder->status = rewrite_no_memory(builder->rewrite);
    free(chosen);
    return constant;
}

/* The rows of a cache [positions, pairs] that rotate each token: [batch, length, pairs], each pair from the row of its
 * position. */
static uint32_t cache_rows(subgraph_builder *builder, uint32_t cache, const uint32_t chosen[2])
{
    const inlay_dtype dtype = builder_dtype(builder, cache);
    const double scale = graph_attr_float(builder->node, "scale", 1);
    const uint32_t rows = emit_op(builder, "Gather", 13, cache, builder_input(builder, 1));
    uint32_t output = emit_node(builder, "Split", 13, dtype, 3, (const uint32_t[]){ rows, EMIT_END });
    const uint32_t others[] = { emitted_output(builder, 1), emitted_output(builder, 2) };

    emit_attr_int(builder, "axis", 0);
    for (uint32_t i = 0; i < 2; i++)
        output = emit_typed(builder, "Where", 16, dtype, chosen[i], others[i], output);
    output = emit_op(builder, "Squeeze", 13, output, emit_list(builder, 0));
    return scale == 1 ? output : emit_op(builder, "Mul", 14, output, emit_number(builder, dtype, scale));
}

void decompose_m_rotary_embedding(subgraph_builder *builder)
{
    static const char *const attributes[] = { "interleaved", "num_heads", "rotary_embedding_dim", NULL };
    const graph_node *node = builder->node;
    const bool interleaved = graph_attr_int(node, "mrope_layout", 0) != 0;
    uint32_t count = 0, chosen[2], cosines, output;
    const int64_t *sections = rewrite_attr_ints(node, "mrope_section", &count);

    if (builder_refuse(builder, count != 3 || sections[0] < 0 || sections[1] < 0 || sections[2] < 0 ||
                                        sections[0] > INT16_MAX || sections[1] > INT16_MAX || sections[2] > INT16_MAX
                                    ? "mrope_section must have three sizes"
                                    : NULL))
        return;
    for (int64_t i = 0; i < 2; i++)
        chosen[i] = pairs_of(builder, sections, interleaved, i + 1);
    cosines = cache_rows(builder, builder_input(builder, 2), chosen);
    output = emit_op(builder, "RotaryEmbedding", 23, builder_input(builder, 0), cosines,
                     cache_rows(builder, builder_input(builder, 3), chosen));
    emit_attr_copies(builder, attributes);
    builder_set_output(builder, 0, output);
}
