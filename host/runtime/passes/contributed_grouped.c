/* Decomposes GroupQueryAttention and SparseAttention of contributed.def: fewer heads of keys than of queries, a buffer
 * of past keys and values, which may hold codes of 8 or 4 bits. */
#include "passes/contributed_attention.h"

/* Repeats each head of keys or values for `times` heads of queries. */
static uint32_t repeat_heads(subgraph_builder *builder, uint32_t value, int64_t times, int64_t count)
{
    uint32_t shape, axes;

    if (times == 1)
        return value;
    shape = emit_typed(builder, "Shape", 13, INLAY_INT64, value);
    value = emit_op(builder, "Unsqueeze", 13, value, emit_list(builder, 2));
    axes = emit_concat(builder, emit_op(builder, "Slice", 13, shape, emit_list(builder, 0), emit_list(builder, 2)),
                       emit_list(builder, times), 0);
    axes = emit_concat(builder, axes,
                       emit_op(builder, "Slice", 13, shape, emit_list(builder, 2), emit_list(builder, 4)), 0);
    value = emit_op(builder, "Expand", 13, value, axes);
    axes = emit_concat(builder, emit_op(builder, "Slice", 13, shape, emit_list(builder, 0), emit_list(builder, 1)),
                       emit_list(builder, count), 0);
    axes = emit_concat(builder, axes,
                       emit_op(builder, "Slice", 13, shape, emit_list(builder, 2), emit_list(builder, 4)), 0);
    return emit_op(builder, "Reshape", 13, value, axes);
}

/* The present state: the past, extended to `length` keys, with the new keys written after the `used` valid ones. The
 * extension is a slice of the new keys, because that is what belongs there except in shorter sequences. */
static uint32_t append_past(subgraph_builder *builder, uint32_t past, uint32_t new_rows, uint32_t used, uint32_t length)
{
    uint32_t room;

    if (past == INLAY_NONE)
        return new_rows;
    room = RESHAPED(builder, emit_op(builder, "Sub", 14, length, emit_size(builder, past, 2)), 1);
    room = emit_op(builder, "Slice", 13, new_rows, emit_list(builder, 0), room, emit_list(builder, 2));
    past = emit_op(builder, "TensorScatter", 24, emit_concat(builder, past, room, 2), new_rows, used);
    emit_attr_int(builder, "axis", 2);
    return past;
}

/* A cache of GroupQueryAttention in 8 or 4 bits. */
typedef struct quantized_cache {
    int64_t bits; /* 0: the cache is not quantized */
    int64_t size; /* of a head */
} quantized_cache;

/* Why the scales do not fit the way in which the cache is quantized; NULL: they do. */
static const char *scale_error(const subgraph_builder *builder, const quantized_cache *cache, const char *attribute,
                               uint32_t scales, const char *missing, const char *wrong)
{
    const inlay_value_info *info = rewrite_value_info(builder->rewrite, scales);
    int64_t count = 1;

    if ((scales == INLAY_NONE) != rewrite_attr_is(builder->node, attribute, "NONE"))
        return missing;
    if (scales == INLAY_NONE || info->rank == INLAY_RANK_UNKNOWN)
        return NULL;
    for (uint32_t d = 0; d < info->rank && count >= 0; d++)
        count = rewrite_dim(info, d) < 0 ? -1 : count * rewrite_dim(info, d);
    if (rewrite_attr_is(builder->node, attribute, "PER_TENSOR"))
        return count >= 0 && count != 1 ? wrong : NULL;
    return (info->rank != 4 && info->rank != 1) ||
                   (count >= 0 && cache->size > 0 &&
                    count != graph_attr_int(builder->node, "kv_num_heads", 0) * cache->size)
               ? wrong
               : NULL;
}

/* The size of a head of a quantized cache: from the width of the query, the past keys in 8 bits, or the scales of
 * channels. -1: unknown. */
static int64_t cached_head_size(const subgraph_builder *builder, int64_t bits)
{
    const graph_node *node = builder->node;
    const int64_t heads = graph_attr_int(node, "num_heads", 0), shared = graph_attr_int(node, "kv_num_heads", 0),
                  wide = rewrite_dim(rewrite_value_info(builder->rewrite, builder_input(builder, 0)), -1);
    const uint32_t past = builder_input(builder, 3), scales = builder_input(builder, 12);
    const inlay_value_info *info = scales != INLAY_NONE ? rewrite_value_info(builder->rewrite, scales) : NULL;

    if (wide >= 0)
        return wide / (builder_input(builder, 1) != INLAY_NONE ? heads : heads + 2 * shared);
    if (bits == 8 && past != INLAY_NONE && rewrite_dim(rewrite_value_info(builder->rewrite, past), 3) > 0)
        return rewrite_dim(rewrite_value_info(builder->rewrite, past), 3);
    if (info == NULL || !rewrite_attr_is(node, "k_quant_type", "PER_CHANNEL"))
        return -1;
    return info->rank == 1 && rewrite_dim(info, 0) > 0 ? rewrite_dim(info, 0) / shared : rewrite_dim(info, 3);
}

/* Why the cache of a GroupQueryAttention cannot be used; NULL: it can. Fills *cache. */
static const char *cache_error(const subgraph_builder *builder, quantized_cache *cache)
{
    const graph_node *node = builder->node;
    const int64_t bits = graph_attr_int(node, "kv_cache_bit_width", 0);
    const bool keys = !rewrite_attr_is(node, "k_quant_type", "NONE"),
               values = !rewrite_attr_is(node, "v_quant_type", "NONE");
    const uint32_t past = builder_input(builder, 3);
    const inlay_dtype type = !keys       ? builder_dtype(builder, builder_input(builder, 0))
                             : bits == 4 ? INLAY_UINT8
                                         : INLAY_INT8;
    const char *why;

    if (keys || values)
        *cache = (quantized_cache){ .bits = bits, .size = cached_head_size(builder, bits) };
    why = scale_error(builder, cache, "k_quant_type", builder_input(builder, 12),
                      "k_scale must be given if k_quant_type is not NONE, and only then",
                      "k_scale has not the shape of its k_quant_type: 1 element, or kv_num_heads * head size");
    if (why == NULL)
        why = scale_error(builder, cache, "v_quant_type", builder_input(builder, 13),
                          "v_scale must be given if v_quant_type is not NONE, and only then",
                          "v_scale has not the shape of its v_quant_type: 1 element, or kv_num_heads * head size");
    if (why != NULL)
        return why;
    if (keys != values)
        return "only one of k_quant_type and v_quant_type is NONE";
    if (keys && bits != 4 && bits != 8)
        return "kv_cache_bit_width of a quantized cache is neither 4 nor 8";
    if (keys && cache->size < 1)
        return "the head size of its quantized cache is not known; declare the width of the query";
    if (past != INLAY_NONE && builder_dtype(builder, past) != type)
        return "past_key is not of the type of its cache: int8 for 8 bits, uint8 for 4, otherwise that of the query";
    return NULL;
}

/* Scales [1, kv_num_heads, 1, size] of flat ones. */
static uint32_t ranked_scales(subgraph_builder *builder, const quantized_cache *cache, uint32_t scales)
{
    const int64_t shared = graph_attr_int(builder->node, "kv_num_heads", 0);

    if (scales == INLAY_NONE || builder_rank(builder, scales) != 1 ||
        rewrite_dim(rewrite_value_info(builder->rewrite, scales), 0) == 1)
        return scales;
    return RESHAPED(builder, scales, 1, shared, 1, cache->size);
}

/* Codes of new keys or values. */
static uint32_t emit_codes(subgraph_builder *builder, const quantized_cache *cache, uint32_t rows, uint32_t scales)
{
    uint32_t codes;

    if (cache->bits == 0)
        return rows;
    codes = emit_inlay(builder, "QuantizeRows", cache->bits == 4 ? INLAY_UINT8 : INLAY_INT8,
                       (const uint32_t[]){ emit_cast(builder, rows, INLAY_FLOAT), scales, EMIT_END });
    emit_attr_int(builder, "bits", cache->bits);
    return codes;
}

/* The keys or values of codes. */
static uint32_t emit_rows(subgraph_builder *builder, const quantized_cache *cache, uint32_t codes, uint32_t scales,
                          inlay_dtype dtype)
{
    uint32_t rows;

    if (cache->bits == 0)
        return codes;
    rows = emit_inlay(builder, "DequantizeRows", INLAY_FLOAT, (const uint32_t[]){ codes, scales, EMIT_END });
    emit_attr_int(builder, "bits", cache->bits);
    emit_attr_int(builder, "size", cache->size);
    return emit_cast(builder, rows, dtype);
}

/* Whether emit_grouped_attention() has an operator for them. */
static bool is_one_operator(const attention_operands *operands, const quantized_cache *cache)
{
    return operands->sink == INLAY_NONE || cache->bits != 0 || operands->softcap == 0;
}

/* Attention-23, whose keys may have fewer heads than the queries; inlay's Attention, which may have a sink; or
 * CachedAttention, whose keys and values are codes. All layers share the mask. */
static uint32_t emit_grouped_attention(subgraph_builder *builder, const attention_operands *operands,
                                       const quantized_cache *cache, uint32_t k_scale, uint32_t v_scale)
{
    uint32_t output;

    if (operands->sink != INLAY_NONE && cache->bits == 0) {
        output =
            emit_inlay(builder, "Attention", builder_dtype(builder, operands->q),
                       (const uint32_t[]){ operands->q, operands->k, operands->v, emit_added_mask(builder, operands),
                                           INLAY_NONE, operands->sink, EMIT_END });
        emit_score_attributes(builder, operands);
        return output;
    }
    if (cache->bits == 0)
        return emit_hiding_attention(builder, operands);
    output = emit_inlay(builder, "CachedAttention", builder_dtype(builder, operands->q),
                        (const uint32_t[]){ operands->q, operands->k, operands->v, emit_added_mask(builder, operands),
                                            INLAY_NONE, k_scale, v_scale,
                                            operands->sink != INLAY_NONE ? operands->sink : EMIT_END, EMIT_END });
    emit_attr_int(builder, "bits", cache->bits);
    emit_attr_int(builder, "value_size", cache->size);
    emit_score_attributes(builder, operands);
    return output;
}

/* Visible keys: none after the row's own position and its last one, if that is given, and, with a window, none more
 * than `window` before its own. */
static uint32_t emit_visible_keys(subgraph_builder *builder, uint32_t positions, uint32_t last, uint32_t length,
                                  int64_t window)
{
    const uint32_t keys = emit_range(builder, length);
    uint32_t visible, begin;

    last = last == INLAY_NONE ? positions : emit_op(builder, "Max", 13, positions, last);
    positions = emit_op(builder, "Unsqueeze", 13, positions, emit_list(builder, 1, 3));
    last = emit_op(builder, "Unsqueeze", 13, last, emit_list(builder, 1, 3));
    visible = emit_typed(builder, "LessOrEqual", 16, INLAY_BOOL, keys, last);
    if (window < 0)
        return visible;
    begin = emit_op(builder, "Sub", 14, positions, emit_scalar(builder, window));
    return emit_op(builder, "And", 7, visible, emit_typed(builder, "Greater", 13, INLAY_BOOL, keys, begin));
}

/* Splits queries, keys and values by head; they are separate inputs or packed in one. */
static void split_groups(subgraph_builder *builder, attention_operands *operands, int64_t count, int64_t shared)
{
    uint32_t *const parts[] = { &operands->q, &operands->k, &operands->v };
    const int64_t each[] = { count, shared, shared };
    const int64_t wide = rewrite_dim(rewrite_value_info(builder->rewrite, operands->q), -1),
                  size = wide / (count + 2 * shared);
    uint32_t packed = operands->q;
    int64_t from = 0;

    if (operands->k != INLAY_NONE) {
        for (uint32_t i = 0; i < 3; i++)
            *parts[i] = split_heads(builder, emit_ranked(builder, *parts[i], 3), each[i]);
        return;
    }
    packed = emit_ranked(builder, packed, 3);
    if (wide < 0)
        packed = RESHAPED(builder, packed, 0, 0, count + 2 * shared, -1);
    for (uint32_t i = 0; i < 3; i++) {
        *parts[i] = wide < 0 ? emit_op(builder, "Slice", 13, packed, emit_list(builder, from),
                                       emit_list(builder, from + each[i]), emit_list(builder, 2))
                             : RESHAPED(builder, slice_columns(builder, packed, from * size, (from + each[i]) * size),
                                        0, 0, each[i], size);
        *parts[i] = emit_transpose(builder, *parts[i], by_head, 4);
        from += each[i];
    }
}

/* emit_rotary() for an unknown number of angles, which may cover only the first elements of a head. */
static uint32_t emit_partial_rotary(subgraph_builder *builder, uint32_t input, uint32_t cosines, uint32_t sines,
                                    uint32_t positions, bool interleaved)
{
    const uint32_t half = RESHAPED(builder, emit_size(builder, cosines, 1), 1),
                   size = emit_op(builder, "Add", 14, half, half);
    const uint32_t rotated = emit_op(builder, "Slice", 13, input, emit_list(builder, 0), size, emit_list(builder, 3));
    const uint32_t rest =
        emit_op(builder, "Slice", 13, input, size, emit_list(builder, INT64_MAX), emit_list(builder, 3));

    return emit_concat(builder, emit_rotary(builder, rotated, cosines, sines, positions, interleaved, 0, 0), rest, 3);
}

/* Pads the bias to the number of keys in the buffer. The added keys are hidden by the mask. */
static uint32_t pad_bias(subgraph_builder *builder, uint32_t bias, uint32_t length)
{
    const uint32_t addend = RESHAPED(builder, emit_op(builder, "Sub", 14, length, emit_size(builder, bias, 3)), 1);

    return emit_op(builder, "Pad", 13, bias, emit_concat(builder, emit_list(builder, 0, 0, 0, 0, 0, 0, 0), addend, 0));
}

/* SparseAttention: which keys the blocks of each layout show to the queries at `positions` [batch, rows]: bool [batch,
 * layouts, rows, keys], or for each head: head h uses layout h modulo `layouts`. Row r of a layout has the columns
 * first[r] to first[r + 1] - 1 of its list. */
static uint32_t emit_block_mask(subgraph_builder *builder, uint32_t positions, uint32_t length, int64_t heads)
{
    const int64_t layouts = rewrite_dim(rewrite_value_info(builder->rewrite, builder_input(builder, 5)), 0);
    const uint32_t block = emit_scalar(builder, graph_attr_int(builder->node, "sparse_block_size", 1));
    const uint32_t first = emit_cast(builder, builder_input(builder, 5), INLAY_INT64),
                   columns = emit_cast(builder, builder_input(builder, 6), INLAY_INT64);
    const uint32_t row = emit_op(builder, "Div", 14, positions, block),
                   place = emit_range(builder, emit_size(builder, columns, 1));
    const uint32_t key = emit_op(builder, "Div", 14, emit_range(builder, length), block);
    uint32_t begin, end, listed, found;

    begin = emit_op(builder, "Gather", 13, first, row);
    emit_attr_int(builder, "axis", 1);
    end = emit_op(builder, "Gather", 13, first, emit_op(builder, "Add", 14, row, emit_scalar(builder, 1)));
    emit_attr_int(builder, "axis", 1);
    begin = emit_op(builder, "Unsqueeze", 13, begin, emit_list(builder, 3));
    end = emit_op(builder, "Unsqueeze", 13, end, emit_list(builder, 3));
    listed = emit_op(builder, "And", 7, emit_typed(builder, "LessOrEqual", 16, INLAY_BOOL, begin, place),
                     emit_typed(builder, "Less", 13, INLAY_BOOL, place, end)); /* [layouts, batch, rows, places] */
    found = emit_typed(builder, "Equal", 13, INLAY_BOOL,
                       emit_op(builder, "Unsqueeze", 13, columns, emit_list(builder, 1, 3)), key);
    found = emit_op(builder, "MatMul", 13, emit_cast(builder, listed, INLAY_FLOAT),
                    emit_cast(builder, found, INLAY_FLOAT)); /* [layouts, batch, rows, keys] */
    found = emit_typed(builder, "Greater", 13, INLAY_BOOL, found, emit_number(builder, INLAY_FLOAT, 0));
    found = emit_transpose(builder, found, (const int64_t[]){ 1, 0, 2, 3 }, 4);
    return layouts == 1 || layouts == heads
               ? found
               : emit_op(builder, "Tile", 13, found, emit_list(builder, 1, heads / layouts, 1, 1));
}

/* Normalizes each head of queries or keys [batch, heads, rows, size], if there is a weight. */
static uint32_t normalized_heads(subgraph_builder *builder, uint32_t heads, uint32_t weight)
{
    if (weight == INLAY_NONE)
        return heads;
    heads = emit_op(builder, "RMSNormalization", 23, heads, weight);
    emit_attr_float(builder, "epsilon", graph_attr_float(builder->node, "qk_norm_epsilon", 1e-6));
    return heads;
}

/* The inputs in which GroupQueryAttention and SparseAttention differ. SparseAttention gives the lengths with the new
 * tokens, GroupQueryAttention one less. */
typedef struct grouped_inputs {
    uint32_t lengths, total, cosines, sines, positions, bias, sink, q_norm, k_norm, last;
} grouped_inputs;

static uint32_t optional_input(const subgraph_builder *builder, uint32_t i)
{
    return i == INLAY_NONE ? INLAY_NONE : builder_input(builder, i);
}

/* Why the layouts of a SparseAttention cannot be used; NULL: they can. */
static const char *sparse_error(const subgraph_builder *builder, int64_t heads)
{
    const int64_t layouts = rewrite_dim(rewrite_value_info(builder->rewrite, builder_input(builder, 5)), 0);

    return layouts < 1 || heads % layouts != 0 ? "num_heads is not a multiple of the layouts in block_row_indices"
           : builder_rank(builder, builder_input(builder, 6)) != 2     ? "block_col_indices is not of rank 2"
           : graph_attr_int(builder->node, "sparse_block_size", 0) < 1 ? "sparse_block_size is not positive"
                                                                       : NULL;
}

/* Which keys are before `end` [batch]: [batch, 1, keys, 1]. */
static uint32_t emit_before(subgraph_builder *builder, uint32_t end, uint32_t length)
{
    return emit_typed(builder, "Less", 13, INLAY_BOOL, RESHAPED(builder, emit_range(builder, length), -1, 1),
                      RESHAPED(builder, end, -1, 1, 1, 1));
}

/* Positions of the new keys: those of the queries. A layer that attends to the keys of another layer, all in its past,
 * has no new keys, and so no positions. */
static uint32_t key_positions(subgraph_builder *builder, uint32_t positions, uint32_t rows)
{
    const uint32_t key = builder_input(builder, 1);
    const inlay_value_info *query = rewrite_value_info(builder->rewrite, builder_input(builder, 0)),
                           *info = key != INLAY_NONE ? rewrite_value_info(builder->rewrite, key) : NULL;

    if (info == NULL || (query->rank == 3 && info->rank == 3 && rewrite_same_dim(&query->dims[1], &info->dims[1])))
        return positions;
    return emit_op(builder, "Slice", 13, positions, emit_list(builder, 0),
                   RESHAPED(builder, emit_op(builder, "Mul", 14, emit_size(builder, key, 1), rows), 1),
                   emit_list(builder, 1));
}

void decompose_group_query_attention(subgraph_builder *builder)
{
    static const grouped_inputs group = { 5, 6, 7, 8, 9, 10, 11, 14, 15, 16 },
                                blocks = { 8,          7,          9,          10,         INLAY_NONE,
                                           INLAY_NONE, INLAY_NONE, INLAY_NONE, INLAY_NONE, INLAY_NONE };
    const graph_node *node = builder->node;
    const bool sparse = node->info.op_type.data[0] == 'S';
    const grouped_inputs *in = sparse ? &blocks : &group;
    const uint32_t cosines = builder_input(builder, in->cosines), sines = builder_input(builder, in->sines);
    const uint32_t q_norm = optional_input(builder, in->q_norm), k_norm = optional_input(builder, in->k_norm);
    const int64_t count = graph_attr_int(node, "num_heads", 0), shared = graph_attr_int(node, "kv_num_heads", 0);
    const int64_t window = graph_attr_int(node, "local_window_size", -1);
    const bool is_rotary = graph_attr_int(node, "do_rotary", 0) != 0,
               smooth = graph_attr_int(node, "smooth_softmax", 0) > 0;
    attention_operands operands = { .q = builder_input(builder, 0),
                                    .k = builder_input(builder, 1),
                                    .v = builder_input(builder, 2),
                                    .bias = optional_input(builder, in->bias),
                                    .mask = INLAY_NONE,
                                    .sink = optional_input(builder, in->sink),
                                    .scale = graph_attr_float(node, "scale", 0),
                                    .softcap = graph_attr_float(node, "softcap", 0) };
    const inlay_dtype dtype = builder_dtype(builder, operands.q);
    uint32_t k_scale, v_scale;
    quantized_cache cache = { .bits = 0 };
    const char *why = count <= 0 || shared <= 0 || count % shared != 0 ? "num_heads is not a multiple of kv_num_heads"
                      : rank_or(builder, operands.q, 3) != 3           ? "query is not of rank 3"
                      : (operands.k == INLAY_NONE) != (operands.v == INLAY_NONE) ? "one of key and value is missing"
                      : is_rotary && (cosines == INLAY_NONE || sines == INLAY_NONE)
                          ? "do_rotary is set, and cos_cache or sin_cache is missing"
                      : builder_wants(builder, 3) ? "output 3 (the scores) is not supported"
                      : sparse                    ? sparse_error(builder, count)
                      : (q_norm == INLAY_NONE) != (k_norm == INLAY_NONE)
                          ? "one of q_norm_weight and k_norm_weight is missing"
                      : q_norm != INLAY_NONE && (!is_rotary || operands.k == INLAY_NONE)
                          ? "q_norm_weight and k_norm_weight need do_rotary and separate keys"
                          : cache_error(builder, &cache);
    uint32_t rows, total, end, used, positions, length;

    if (builder_refuse(builder, why))
        return;
    k_scale = ranked_scales(builder, &cache, sparse ? INLAY_NONE : builder_input(builder, 12));
    v_scale = ranked_scales(builder, &cache, sparse ? INLAY_NONE : builder_input(builder, 13));
    split_groups(builder, &operands, count, shared);
    operands.q = normalized_heads(builder, operands.q, q_norm);
    operands.k = normalized_heads(builder, operands.k, k_norm);
    rows = emit_size(builder, builder_input(builder, 0), 1);
    total = emit_cast(builder, emit_reshape(builder, builder_input(builder, in->total), NULL, 0), INLAY_INT64);
    end = emit_cast(builder, RESHAPED(builder, builder_input(builder, in->lengths), -1), INLAY_INT64);
    if (!sparse)
        end = emit_op(builder, "Add", 14, end, emit_scalar(builder, 1));
    /* Number of valid past positions in each batch row: 0 for the first step (total equals rows). */
    used = emit_op(builder, "Sub", 14, end, rows);
    used = emit_typed(builder, "Where", 16, INLAY_INT64, emit_typed(builder, "Equal", 13, INLAY_BOOL, total, rows),
                      emit_scalar(builder, 0), used);
    positions =
        emit_op(builder, "Add", 14, RESHAPED(builder, used, -1, 1), emit_range(builder, rows)); /* [batch, rows] */
    if (is_rotary) {
        const uint32_t stated = optional_input(builder, in->positions),
                       given = stated != INLAY_NONE ? stated : positions;
        const bool interleaved = graph_attr_int(node, "rotary_interleaved", 0) != 0;
        const int64_t half = rewrite_dim(rewrite_value_info(builder->rewrite, cosines), -1);
        const uint32_t places[] = { given, key_positions(builder, given, rows) };
        uint32_t *const both[] = { &operands.q, &operands.k };

        for (uint32_t i = 0; i < 2; i++)
            *both[i] = half < 0 ? emit_partial_rotary(builder, *both[i], cosines, sines, places[i], interleaved)
                                : emit_rotary(builder, *both[i], cosines, sines, places[i], interleaved, 2 * half, 0);
    }
    length = builder_input(builder, 3) == INLAY_NONE
                 ? rows
                 : emit_op(builder, "Max", 13, total, emit_size(builder, builder_input(builder, 3), 2));
    operands.k = emit_codes(builder, &cache, operands.k, k_scale);
    operands.v = emit_codes(builder, &cache, operands.v, v_scale);
    operands.k = append_past(builder, builder_input(builder, 3), operands.k, used, length);
    operands.v = append_past(builder, builder_input(builder, 4), operands.v, used, length);
    if (operands.bias != INLAY_NONE && builder_input(builder, 3) != INLAY_NONE)
        operands.bias = pad_bias(builder, operands.bias, length);
    builder_set_output(builder, 1, operands.k);
    builder_set_output(builder, 2, operands.v);
    operands.mask = emit_visible_keys(builder, positions, optional_input(builder, in->last), length, window);
    if (sparse)
        operands.mask = emit_op(builder, "And", 7, operands.mask, emit_block_mask(builder, positions, length, count));
    operands.hidden = lowest_score(dtype);
    if (operands.sink != INLAY_NONE)
        operands.sink = RESHAPED(builder, operands.sink, 1, -1, 1, 1);
    else if (smooth)
        operands.sink = RESHAPED(builder, emit_number(builder, dtype, 0), 1, 1, 1, 1);
    if (!sparse && dtype == INLAY_FLOAT && is_one_operator(&operands, &cache)) {
        builder_set_output(builder, 0,
                           join_heads(builder, emit_grouped_attention(builder, &operands, &cache, k_scale, v_scale)));
        return;
    }
    operands.k = emit_rows(builder, &cache, operands.k, k_scale, dtype);
    operands.v = emit_rows(builder, &cache, operands.v, v_scale, dtype);
    operands.v = emit_written(builder, operands.v, emit_before(builder, end, length));
    operands.k = repeat_heads(builder, operands.k, count / shared, count);
    operands.v = repeat_heads(builder, operands.v, count / shared, count);
    builder_set_output(builder, 0, join_heads(builder, emit_attention(builder, &operands)));
}
