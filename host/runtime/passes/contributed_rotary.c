/* Decomposes MRotaryEmbedding of com.microsoft: rotary embeddings with three positions. */
#include "passes/contributed.h"
#include <stdlib.h>

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
