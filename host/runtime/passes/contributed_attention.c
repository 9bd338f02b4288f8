/* Decomposes the attention operators of contributed.def into matrix multiplications and Softmax. Pass `attention` fuses
 * the result again where it can. */
#include "passes/contributed_attention.h"
#include <math.h>

/* Exp of a score of ordinary size plus this, or less, is 0. */
static const double FAINT_FILTER = -1000;

uint32_t emit_scalar(subgraph_builder *builder, int64_t value)
{
    uint32_t constant = builder->status != INLAY_OK
                            ? INLAY_NONE
                            : rewrite_constant(builder->rewrite, INLAY_INT64, 0, NULL, &value, sizeof value);

    if (constant == INLAY_NONE && builder->status == INLAY_OK)
        builder->status = rewrite_no_memory(builder->rewrite);
    return constant;
}

/* The first graph input with an axis of the same symbol as axis *d of value; *d becomes its axis. Returns value if
 * there is none, or after an error. All layers then compute sizes from the same input, so that common subexpressions
 * merge. */
static uint32_t input_with_dim(const subgraph_builder *builder, uint32_t value, int64_t *d)
{
    const inlay_value_info *info = rewrite_value_info(builder->rewrite, value), *in;
    const struct graph *graph = builder->rewrite->graph;

    if (info == NULL || graph->parent != NULL || info->rank == INLAY_RANK_UNKNOWN || *d >= info->rank ||
        info->dims[*d].kind != INLAY_DIM_SYMBOLIC)
        return value;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        in = rewrite_value_info(builder->rewrite, graph->inputs[i]);
        for (uint32_t e = 0; in->rank != INLAY_RANK_UNKNOWN && e < in->rank; e++)
            if (in->dims[e].kind == INLAY_DIM_SYMBOLIC && in->dims[e].symbol == info->dims[*d].symbol) {
                *d = e;
                return graph->inputs[i];
            }
    }
    return value;
}

uint32_t emit_size(subgraph_builder *builder, uint32_t value, int64_t d)
{
    value = input_with_dim(builder, value, &d);
    return emit_op(builder, "Gather", 13, emit_typed(builder, "Shape", 13, INLAY_INT64, value),
                   emit_scalar(builder, d));
}

uint32_t emit_range(subgraph_builder *builder, uint32_t end)
{
    return emit_op(builder, "Range", 11, emit_scalar(builder, 0), end, emit_scalar(builder, 1));
}

uint32_t emit_reshape(subgraph_builder *builder, uint32_t value, const int64_t *dims, uint32_t count)
{
    return emit_op(builder, "Reshape", 13, value, emit_integers(builder, dims, count));
}

uint32_t emit_concat(subgraph_builder *builder, uint32_t first, uint32_t second, int64_t axis)
{
    uint32_t value = emit_op(builder, "Concat", 13, first, second);

    emit_attr_int(builder, "axis", axis);
    return value;
}

const int64_t by_head[4] = { 0, 2, 1, 3 };
static const int64_t by_column[4] = { 0, 1, 3, 2 };

uint32_t split_heads(subgraph_builder *builder, uint32_t value, int64_t count)
{
    const int64_t wide = rewrite_dim(rewrite_value_info(builder->rewrite, value), -1);

    if (builder_rank(builder, value) == 4)
        return value;
    return emit_transpose(builder, RESHAPED(builder, value, 0, 0, count, wide > 0 ? wide / count : -1), by_head, 4);
}

uint32_t join_heads(subgraph_builder *builder, uint32_t value)
{
    return RESHAPED(builder, emit_transpose(builder, value, by_head, 4), 0, 0, -1);
}

uint32_t emit_attention(subgraph_builder *builder, const attention_operands *operands)
{
    const inlay_dtype dtype = builder_dtype(builder, operands->q);
    const uint32_t keys_transposed = emit_transpose(builder, operands->k, by_column, 4);
    uint32_t scores, scale;

    if (operands->scale != 0) {
        scale = emit_number(builder, dtype, operands->scale);
    } else {
        scale = emit_cast(builder, emit_size(builder, operands->q, 3), dtype);
        scale = emit_op(builder, "Reciprocal", 13, emit_op(builder, "Sqrt", 13, scale));
    }
    scores = emit_op(builder, "Mul", 14, emit_op(builder, "MatMul", 13, operands->q, keys_transposed), scale);
    if (operands->softcap > 0) {
        const uint32_t cap = emit_number(builder, dtype, operands->softcap);

        scores =
            emit_op(builder, "Mul", 14, emit_op(builder, "Tanh", 13, emit_op(builder, "Div", 14, scores, cap)), cap);
    }
    if (operands->bias != INLAY_NONE)
        scores = emit_op(builder, "Add", 14, scores, operands->bias);
    if (operands->mask != INLAY_NONE)
        scores = emit_typed(builder, "Where", 16, dtype, operands->mask, scores,
                            emit_number(builder, dtype, operands->hidden));
    if (operands->sink == INLAY_NONE) {
        scores = emit_op(builder, "Softmax", 13, scores);
        emit_attr_int(builder, "axis", -1);
        return emit_op(builder, "MatMul", 13, scores, operands->v);
    }
    {
        const uint32_t first =
            emit_op(builder, "Slice", 13, scores, emit_list(builder, 0), emit_list(builder, 1), emit_list(builder, 3));
        const uint32_t zero = emit_op(builder, "Mul", 14, first, emit_number(builder, dtype, 0));

        /* The extra column takes part in the sum and is then cut off. A hidden score times 0 is still 0. */
        scores = emit_concat(builder, scores, emit_op(builder, "Add", 14, zero, operands->sink), 3);
        scores = emit_op(builder, "Softmax", 13, scores);
        emit_attr_int(builder, "axis", -1);
        scores =
            emit_op(builder, "Slice", 13, scores, emit_list(builder, 0), emit_list(builder, -1), emit_list(builder, 3));
    }
    return emit_op(builder, "MatMul", 13, scores, operands->v);
}

double lowest_score(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT16 ? -65504.0 : -3.4028234663852886e38;
}

bool hides_in_attention(const subgraph_builder *builder, inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT && pass_allows(builder->rewrite->ctx, 23);
}

uint32_t emit_added_mask(subgraph_builder *builder, const attention_operands *operands)
{
    const inlay_dtype dtype = builder_dtype(builder, operands->q);
    const uint32_t visible = operands->bias != INLAY_NONE ? operands->bias : emit_number(builder, dtype, 0);

    return emit_typed(builder, "Where", 16, dtype, operands->mask, visible,
                      emit_number(builder, dtype, operands->hidden));
}

void emit_score_attributes(subgraph_builder *builder, const attention_operands *operands)
{
    if (operands->scale != 0)
        emit_attr_float(builder, "scale", operands->scale);
    if (operands->softcap > 0)
        emit_attr_float(builder, "softcap", operands->softcap);
}

uint32_t emit_hiding_attention(subgraph_builder *builder, const attention_operands *operands)
{
    const uint32_t mask = emit_added_mask(builder, operands),
                   output = emit_op(builder, "Attention", 23, operands->q, operands->k, operands->v, mask);

    emit_score_attributes(builder, operands);
    return output;
}

uint32_t emit_written(subgraph_builder *builder, uint32_t values, uint32_t written)
{
    const inlay_dtype dtype = builder_dtype(builder, values);
    const uint32_t finite = emit_typed(builder, "LessOrEqual", 16, INLAY_BOOL, emit_op(builder, "Abs", 13, values),
                                       emit_number(builder, dtype, -lowest_score(dtype)));

    return emit_typed(builder, "Where", 16, dtype, emit_typed(builder, "Or", 7, INLAY_BOOL, written, finite), values,
                      emit_number(builder, dtype, 0));
}

/* Causal mask [rows, keys]: true where the key is not after the row. The last row matches the last key. */
static uint32_t emit_causal_mask(subgraph_builder *builder, uint32_t q, uint32_t k)
{
    const uint32_t rows = emit_size(builder, q, 2), keys = emit_size(builder, k, 2);
    const uint32_t positions =
        emit_op(builder, "Add", 14, emit_range(builder, rows), emit_op(builder, "Sub", 14, keys, rows));

    return emit_typed(builder, "LessOrEqual", 16, INLAY_BOOL, emit_range(builder, keys),
                      RESHAPED(builder, positions, -1, 1));
}

/* The reason why the node's mask cannot be used; NULL: it can, or there is no mask. input is [batch, ..]. */
static const char *mask_error(const subgraph_builder *builder, uint32_t mask, uint32_t input)
{
    const int64_t count = mask == INLAY_NONE ? -1 : rewrite_dim(rewrite_value_info(builder->rewrite, mask), 0);
    const int64_t batch = rewrite_dim(rewrite_value_info(builder->rewrite, input), 0);
    const uint32_t rank = builder_rank(builder, mask);

    return mask == INLAY_NONE           ? NULL
           : rank == INLAY_RANK_UNKNOWN ? NULL /* decompose_by_rank() */
           : rank == 0 || rank > 3      ? "its mask is neither of rank 1, 2 nor 3"
           : rank == 1 && count >= 0 && batch >= 0 && count != batch && count != 2 * batch && count != 3 * batch + 2
               ? "its mask of rank 1 is neither [batch], [2 * batch] nor [3 * batch + 2]"
               : NULL;
}

/* Returns true if dimension 0 of both is provably the same. */
static bool same_first(const subgraph_builder *builder, uint32_t value, uint32_t input)
{
    const inlay_value_info *info = rewrite_value_info(builder->rewrite, value),
                           *other = rewrite_value_info(builder->rewrite, input);

    if (info->rank == INLAY_RANK_UNKNOWN || other->rank == INLAY_RANK_UNKNOWN ||
        info->dims[0].kind != other->dims[0].kind)
        return false;
    return info->dims[0].kind == INLAY_DIM_FIXED      ? info->dims[0].value == other->dims[0].value
           : info->dims[0].kind == INLAY_DIM_SYMBOLIC ? info->dims[0].symbol == other->dims[0].symbol
                                                      : false;
}

/* Visible keys [batch, 1, 1, keys] for a mask of rank 1. The mask holds the end of the keys of each batch row, [batch];
 * or ends and begins, [2 * batch]; or these and data for kernels with packed rows, [3 * batch + 2], which is ignored.
 * The form may be known at run time only. */
static uint32_t emit_key_range_mask(subgraph_builder *builder, uint32_t mask, uint32_t input, uint32_t keys)
{
    uint32_t batch, ends = mask, begins = INLAY_NONE, visible, doubled;

    if (!same_first(builder, mask, input)) {
        batch = RESHAPED(builder, emit_size(builder, input, 0), 1);
        doubled = emit_op(builder, "Add", 14, batch, batch);
        ends = emit_op(builder, "Slice", 13, mask, emit_list(builder, 0), batch);
        begins = emit_op(builder, "Slice", 13, mask, emit_op(builder, "Neg", 13, batch), emit_list(builder, INT64_MAX));
        begins = emit_op(
            builder, "Where", 16,
            emit_typed(builder, "Equal", 13, INLAY_BOOL, emit_typed(builder, "Shape", 13, INLAY_INT64, mask), doubled),
            emit_cast(builder, begins, INLAY_INT64), emit_scalar(builder, 0));
        builder->rewrite->graph->values[begins].info.dtype = INLAY_INT64;
    }
    visible = emit_typed(builder, "Less", 13, INLAY_BOOL, keys,
                         emit_cast(builder, RESHAPED(builder, ends, -1, 1, 1, 1), INLAY_INT64));
    if (begins == INLAY_NONE)
        return visible;
    return emit_op(builder, "And", 7, visible,
                   emit_typed(builder, "GreaterOrEqual", 16, INLAY_BOOL, keys, RESHAPED(builder, begins, -1, 1, 1, 1)));
}

/* Keys that a mask accepted by mask_error() shows, [batch, 1, 1 or rows, keys]. The mask is of rank 1 (see above),
 * [batch, keys], [batch, 1], whose column stands for all keys, or [batch, rows, keys]; input is [batch, ..]. */
static uint32_t emit_padding(subgraph_builder *builder, uint32_t mask, uint32_t input, uint32_t k)
{
    const uint32_t rank = builder_rank(builder, mask);
    uint32_t shown;

    if (rank == 1)
        return emit_key_range_mask(builder, mask, input, emit_range(builder, emit_size(builder, k, 2)));
    shown = emit_cast(
        builder, emit_op(builder, "Unsqueeze", 13, mask, rank == 2 ? emit_list(builder, 1, 2) : emit_list(builder, 1)),
        INLAY_BOOL);
    if (rank != 2 || rewrite_dim(rewrite_value_info(builder->rewrite, mask), 1) > 1)
        return shown;
    /* Attention repeats no column: a row of `false` for each key does. */
    return emit_op(builder, "Or", 7, shown,
                   emit_typed(builder, "Less", 13, INLAY_BOOL, emit_range(builder, emit_size(builder, k, 2)),
                              emit_scalar(builder, 0)));
}

/* Is any element along the axis true? [batch, 1, rows, keys] with size 1 in that axis. */
static uint32_t emit_any(subgraph_builder *builder, uint32_t flags, int64_t axis)
{
    return emit_cast(
        builder, emit_op(builder, "ReduceMax", 18, emit_cast(builder, flags, INLAY_INT32), emit_list(builder, axis)),
        INLAY_BOOL);
}

static uint32_t emit_and(subgraph_builder *builder, uint32_t flags, uint32_t others)
{
    return others == INLAY_NONE ? flags : emit_op(builder, "And", 7, flags, others);
}

/* Attention whose keys a mask accepted by mask_error() and attribute `unidirectional` hide. Hidden keys take no part,
 * whatever they and their values hold. ONNX Runtime adds mask_filter_value to the scores of keys that the mask hides,
 * so a query from which the mask hides every key uses them all, up to its own position if unidirectional. A filter
 * value that leaves hidden keys with some weight is added here, too. In 16 bits, and for opsets without Attention, NaN
 * and infinity in values that only some of the queries may use spread to all of them. */
static uint32_t emit_padded_attention(subgraph_builder *builder, attention_operands *operands, uint32_t mask,
                                      uint32_t input)
{
    const inlay_dtype dtype = builder_dtype(builder, operands->q);
    const double filter = graph_attr_float(builder->node, "mask_filter_value", -10000);
    const uint32_t padding = mask == INLAY_NONE ? INLAY_NONE : emit_padding(builder, mask, input, operands->k);

    operands->scale = graph_attr_float(builder->node, "scale", 0);
    operands->hidden = lowest_score(dtype);
    if (graph_attr_int(builder->node, "unidirectional", 0) != 0)
        operands->mask = emit_causal_mask(builder, operands->q, operands->k);
    if (padding != INLAY_NONE && filter > FAINT_FILTER) {
        const uint32_t bias = emit_typed(builder, "Where", 16, dtype, padding, emit_number(builder, dtype, 0),
                                         emit_number(builder, dtype, filter));

        operands->bias = operands->bias == INLAY_NONE ? bias : emit_op(builder, "Add", 14, operands->bias, bias);
    } else if (padding != INLAY_NONE) {
        const uint32_t none =
            emit_op(builder, "Not", 1, emit_any(builder, emit_and(builder, padding, operands->mask), 3));

        operands->mask = emit_and(builder, emit_op(builder, "Or", 7, padding, none), operands->mask);
        if (!hides_in_attention(builder, dtype)) {
            const uint32_t written = emit_transpose(builder, emit_any(builder, operands->mask, 2), by_column, 4);

            operands->v = emit_written(builder, operands->v, written);
        }
    }
    return operands->mask != INLAY_NONE && hides_in_attention(builder, dtype) ? emit_hiding_attention(builder, operands)
                                                                              : emit_attention(builder, operands);
}

/* Element `at` along the given axis, which is removed. */
static uint32_t gather_part(subgraph_builder *builder, uint32_t value, int64_t at, int64_t axis)
{
    uint32_t made = emit_op(builder, "Gather", 13, value, emit_scalar(builder, at));

    emit_attr_int(builder, "axis", axis);
    return made;
}

uint32_t slice_columns(subgraph_builder *builder, uint32_t value, int64_t from, int64_t to)
{
    return emit_op(builder, "Slice", 13, value, emit_list(builder, from), emit_list(builder, to),
                   emit_list(builder, -1));
}

/* Adds to *v, of rank 3, its slice of the combined bias of queries, keys and values (`at` = 0, 1, 2). Queries have
 * `wide` columns; -1: as many as input, known at run time. */
static void add_bias_columns(subgraph_builder *builder, uint32_t *v, uint32_t bias, uint32_t input, int64_t wide,
                             int64_t at)
{
    uint32_t from, to;

    if (bias == INLAY_NONE || builder_rank(builder, *v) != 3)
        return;
    if (wide > 0) {
        from = emit_list(builder, at * wide);
        to = emit_list(builder, at == 2 ? INT64_MAX : (at + 1) * wide);
    } else {
        const uint32_t one = RESHAPED(builder, emit_size(builder, input, 2), 1);

        from = emit_op(builder, "Mul", 14, one, emit_scalar(builder, at));
        to = at == 2 ? emit_list(builder, INT64_MAX) : emit_op(builder, "Mul", 14, one, emit_scalar(builder, at + 1));
    }
    *v = emit_op(builder, "Add", 14, *v, emit_op(builder, "Slice", 13, bias, from, to, emit_list(builder, -1)));
}

/* Splits packed queries, keys and values of rank 5; the results are [batch, heads, rows, size]. */
static void unpack_qkv(subgraph_builder *builder, attention_operands *operands)
{
    const uint32_t packed = operands->k == INLAY_NONE ? operands->q : operands->k;

    if (operands->v != INLAY_NONE)
        return;
    if (operands->k == INLAY_NONE) /* [batch, rows, heads, 3, size], otherwise [batch, rows, heads, 2, size] */
        operands->q = emit_transpose(builder, gather_part(builder, packed, 0, 3), by_head, 4);
    operands->v =
        emit_transpose(builder, gather_part(builder, packed, operands->k == INLAY_NONE ? 2 : 1, 3), by_head, 4);
    operands->k =
        emit_transpose(builder, gather_part(builder, packed, operands->k == INLAY_NONE ? 1 : 0, 3), by_head, 4);
}

uint32_t rank_or(const subgraph_builder *builder, uint32_t value, uint32_t otherwise)
{
    const uint32_t rank = builder_rank(builder, value);

    return rank == INLAY_RANK_UNKNOWN ? otherwise : rank;
}

void decompose_multi_head_attention(subgraph_builder *builder)
{
    const int64_t count = graph_attr_int(builder->node, "num_heads", 0);
    const uint32_t bias = builder_input(builder, 3), past_k = builder_input(builder, 6),
                   past_v = builder_input(builder, 7), input = builder_input(builder, 0);
    attention_operands operands = { input,
                                    builder_input(builder, 1),
                                    builder_input(builder, 2),
                                    builder_input(builder, 5),
                                    INLAY_NONE,
                                    INLAY_NONE,
                                    0,
                                    0,
                                    0 };
    const int64_t wide = rewrite_dim(rewrite_value_info(builder->rewrite, input), -1);
    const bool packed = operands.v == INLAY_NONE;
    const uint32_t rank = operands.k == INLAY_NONE ? 5 : 3; /* of the queries */
    const uint32_t key_rank = rank_or(builder, operands.k, packed ? 5 : builder_rank(builder, operands.v));
    const bool open = !packed && key_rank == INLAY_RANK_UNKNOWN;
    const char *why = count <= 0                                ? "num_heads is not positive"
                      : builder_wants(builder, 3)               ? "output 3 (the scores) is not supported"
                      : builder_input(builder, 8) != INLAY_NONE ? "a past in a shared buffer (input 8) is not supported"
                      : rank_or(builder, input, rank) != rank   ? "the rank of query does not match key"
                      : operands.k == INLAY_NONE && !packed     ? "value is given without key"
                      : operands.k != INLAY_NONE && packed && key_rank != 5 ? "value is missing, and key is not packed"
                      : !packed && !open && key_rank != 3 && key_rank != 4  ? "key is neither of rank 3 nor 4"
                      : !packed && (rank_or(builder, operands.v, key_rank) != key_rank)
                          ? "key and value have different ranks"
                      : bias != INLAY_NONE && rank != 3 ? "a bias with packed query is not supported"
                                                        : mask_error(builder, builder_input(builder, 4), input);

    if (builder_refuse(builder, why) || (open && decompose_by_rank(builder, 1, 3, 4)) ||
        decompose_by_rank(builder, 4, 1, 3))
        return;
    operands.q = emit_ranked(builder, operands.q, rank);
    if (operands.k != INLAY_NONE)
        operands.k = emit_ranked(builder, operands.k, key_rank);
    if (operands.v != INLAY_NONE)
        operands.v = emit_ranked(builder, operands.v, key_rank);
    unpack_qkv(builder, &operands);
    add_bias_columns(builder, &operands.q, bias, input, wide, 0);
    if (!packed) {
        add_bias_columns(builder, &operands.k, bias, input, wide, 1);
        add_bias_columns(builder, &operands.v, bias, input, wide, 2);
    }
    if (rank != 5)
        operands.q = split_heads(builder, operands.q, count);
    if (!packed) {
        operands.k = split_heads(builder, operands.k, count);
        operands.v = split_heads(builder, operands.v, count);
    }
    if (past_k != INLAY_NONE)
        operands.k = emit_concat(builder, past_k, operands.k, 2);
    if (past_v != INLAY_NONE)
        operands.v = emit_concat(builder, past_v, operands.v, 2);
    builder_set_output(builder, 1, operands.k);
    builder_set_output(builder, 2, operands.v);
    builder_set_output(
        builder, 0, join_heads(builder, emit_padded_attention(builder, &operands, builder_input(builder, 4), input)));
}

/* Writes keys or values [batch, heads, 1, size] into the buffer `past` after the `used` positions. Returns the buffer;
 * *all receives the valid part. */
static uint32_t append_in_buffer(subgraph_builder *builder, uint32_t past, uint32_t new_rows, uint32_t used,
                                 uint32_t *all)
{
    const uint32_t batch = emit_op(builder, "Slice", 13, emit_typed(builder, "Shape", 13, INLAY_INT64, past),
                                   emit_list(builder, 0), emit_list(builder, 1));
    const uint32_t end = RESHAPED(builder, emit_op(builder, "Add", 14, used, emit_scalar(builder, 1)), 1);
    uint32_t buffer = emit_op(builder, "TensorScatter", 24, past, new_rows,
                              emit_op(builder, "Expand", 13, RESHAPED(builder, used, 1), batch));

    emit_attr_int(builder, "axis", 2);
    *all = emit_op(builder, "Slice", 13, buffer, emit_list(builder, 0), end, emit_list(builder, 2));
    return buffer;
}

/* One row of queries for each sequence. Keys and values are one row plus a past, or those of an encoder in rank 4. */
void decompose_decoder_masked_attention(subgraph_builder *builder)
{
    const int64_t count = graph_attr_int(builder->node, "num_heads", 0);
    const uint32_t bias = builder_input(builder, 10), past_k = builder_input(builder, 5),
                   past_v = builder_input(builder, 6), input = builder_input(builder, 0);
    const bool shares = graph_attr_int(builder->node, "past_present_share_buffer", 0) != 0 && past_k != INLAY_NONE;
    attention_operands operands = { input,
                                    builder_input(builder, 1),
                                    builder_input(builder, 2),
                                    builder_input(builder, 4),
                                    INLAY_NONE,
                                    INLAY_NONE,
                                    0,
                                    0,
                                    0 };
    const int64_t wide = rewrite_dim(rewrite_value_info(builder->rewrite, input), -1);
    const uint32_t rank = rank_or(builder, operands.k, past_k != INLAY_NONE ? 3 : builder_rank(builder, operands.v));
    const bool open = rank == INLAY_RANK_UNKNOWN;
    const char *why =
        count <= 0                                             ? "num_heads is not positive"
        : builder_wants(builder, 3)                            ? "output 3 (the scores) is not supported"
        : rank_or(builder, input, 3) != 3                      ? "query is not of rank 3"
        : operands.k == INLAY_NONE || operands.v == INLAY_NONE ? "key or value is missing"
        : !open && rank != 3 && rank != 4                      ? "key is neither of rank 3 nor 4"
        : rank_or(builder, operands.v, rank) != rank           ? "key and value have different ranks"
        : builder_input(builder, 9) != INLAY_NONE              ? "beam search (input 9) is not supported"
        : (past_k == INLAY_NONE) != (past_v == INLAY_NONE)     ? "only one of past key and past value is given"
        : shares && builder_input(builder, 7) == INLAY_NONE ? "past_present_share_buffer requires past_sequence_length"
                                                            : mask_error(builder, builder_input(builder, 3), input);
    uint32_t present_k, present_v, used;

    if (builder_refuse(builder, why) || (open && decompose_by_rank(builder, 1, 3, 4)) ||
        decompose_by_rank(builder, 3, 1, 3))
        return;
    operands.q = emit_ranked(builder, operands.q, 3);
    operands.k = emit_ranked(builder, operands.k, rank);
    operands.v = emit_ranked(builder, operands.v, rank);
    add_bias_columns(builder, &operands.q, bias, input, wide, 0);
    add_bias_columns(builder, &operands.k, bias, input, wide, 1);
    add_bias_columns(builder, &operands.v, bias, input, wide, 2);
    operands.q = split_heads(builder, operands.q, count);
    present_k = operands.k = split_heads(builder, operands.k, count);
    present_v = operands.v = split_heads(builder, operands.v, count);
    if (shares) {
        used = emit_cast(builder, emit_reshape(builder, builder_input(builder, 7), NULL, 0), INLAY_INT64);
        present_k = append_in_buffer(builder, past_k, operands.k, used, &operands.k);
        present_v = append_in_buffer(builder, past_v, operands.v, used, &operands.v);
    } else if (past_k != INLAY_NONE) {
        present_k = operands.k = emit_concat(builder, past_k, operands.k, 2);
        present_v = operands.v = emit_concat(builder, past_v, operands.v, 2);
    }
    builder_set_output(
        builder, 0, join_heads(builder, emit_padded_attention(builder, &operands, builder_input(builder, 3), input)));
    builder_set_output(builder, 1, present_k);
    builder_set_output(builder, 2, present_v);
}

/* Splits one product [batch, rows, columns] into queries, keys and values by head. given: number of columns of each;
 * NULL: equal parts. wide: number of columns; -1: unknown. */
static void split_product(subgraph_builder *builder, attention_operands *operands, uint32_t all, const int64_t *given,
                          int64_t wide, int64_t count)
{
    uint32_t *const parts[] = { &operands->q, &operands->k, &operands->v };
    int64_t from = 0;

    if (given == NULL && wide < 0)
        all = RESHAPED(builder, all, 0, 0, 3, count, -1);
    for (uint32_t i = 0; i < 3; i++) {
        const int64_t size = given != NULL ? given[i] : wide / 3;

        if (given == NULL && wide < 0)
            *parts[i] = gather_part(builder, all, i, 2);
        else
            *parts[i] = RESHAPED(builder, slice_columns(builder, all, from, from + size), 0, 0, count, size / count);
        from += size;
    }
    for (uint32_t i = 0; i < 3; i++)
        *parts[i] = emit_transpose(builder, *parts[i], by_head, 4);
}

void decompose_attention(subgraph_builder *builder)
{
    const bool quantized = builder->node->info.op_type.data[0] == 'Q';
    const int64_t count = graph_attr_int(builder->node, "num_heads", 0);
    const uint32_t input = builder_input(builder, 0), weights = builder_input(builder, 1),
                   bias = builder_input(builder, 2);
    const uint32_t mask = builder_input(builder, quantized ? 5 : 3), past = builder_input(builder, quantized ? 8 : 4);
    const int64_t wide = rewrite_dim(rewrite_value_info(builder->rewrite, weights), 1);
    attention_operands operands = { .bias = quantized ? INLAY_NONE : builder_input(builder, 5),
                                    .mask = INLAY_NONE,
                                    .sink = INLAY_NONE };
    uint32_t sizes = 0, all;
    const int64_t *given = rewrite_attr_ints(builder->node, "qkv_hidden_sizes", &sizes);
    const char *why = count <= 0                                           ? "num_heads is not positive"
                      : rank_or(builder, input, 3) != 3                    ? "input is not of rank 3"
                      : graph_attr_int(builder->node, "do_rotary", 0) != 0 ? "do_rotary is set"
                      : !quantized && builder_input(builder, 6) != INLAY_NONE
                          ? "a past in a shared buffer (input 6) is not supported"
                      : given != NULL && sizes != 3 ? "qkv_hidden_sizes does not have 3 elements"
                      : given != NULL && wide >= 0 && given[0] + given[1] + given[2] != wide
                          ? "qkv_hidden_sizes does not match weights"
                          : mask_error(builder, mask, input);

    if (builder_refuse(builder, why) || decompose_by_rank(builder, quantized ? 5 : 3, 1, 3))
        return;
    all = quantized ? contributed_scaled_mat_mul(builder, emit_ranked(builder, input, 3), weights,
                                                 builder_input(builder, 6), builder_input(builder, 7),
                                                 builder_input(builder, 3), builder_input(builder, 4), INLAY_NONE)
                    : emit_op(builder, "MatMul", 13, emit_ranked(builder, input, 3), weights);
    if (bias != INLAY_NONE)
        all = emit_op(builder, "Add", 14, all, bias);
    split_product(builder, &operands, all, given, wide, count);
    if (past != INLAY_NONE) { /* [2, batch, heads, rows, size] */
        operands.k = emit_concat(builder, gather_part(builder, past, 0, 0), operands.k, 2);
        operands.v = emit_concat(builder, gather_part(builder, past, 1, 0), operands.v, 2);
    }
    if (builder_wants(builder, 1))
        builder_set_output(builder, 1,
                           emit_concat(builder, emit_op(builder, "Unsqueeze", 13, operands.k, emit_list(builder, 0)),
                                       emit_op(builder, "Unsqueeze", 13, operands.v, emit_list(builder, 0)), 0));
    builder_set_output(builder, 0, join_heads(builder, emit_padded_attention(builder, &operands, mask, input)));
}

uint32_t emit_rotary(subgraph_builder *builder, uint32_t input, uint32_t cosines, uint32_t sines, uint32_t positions,
                     bool interleaved, int64_t size, int64_t count)
{
    uint32_t output = emit_op(builder, "RotaryEmbedding", 23, input, cosines, sines, positions);

    emit_attr_int(builder, "interleaved", interleaved);
    if (size > 0)
        emit_attr_int(builder, "rotary_embedding_dim", size);
    if (count > 0)
        emit_attr_int(builder, "num_heads", count);
    return output;
}

/* [batch, rows, heads * size] to [batch, heads, rows, size], where size is twice the row length of cosines. */
static uint32_t split_by_angles(subgraph_builder *builder, uint32_t input, uint32_t cosines)
{
    const uint32_t half = RESHAPED(builder, emit_size(builder, cosines, 1), 1);
    const uint32_t dims =
        emit_concat(builder, emit_list(builder, 0, 0, -1), emit_op(builder, "Add", 14, half, half), 0);

    return emit_transpose(builder, emit_op(builder, "Reshape", 13, input, dims), by_head, 4);
}

void decompose_rotary_embedding(subgraph_builder *builder)
{
    const uint32_t input = builder_input(builder, 0), rank = builder_rank(builder, input),
                   cosines = builder_input(builder, 2), sines = builder_input(builder, 3);
    const int64_t half = rewrite_dim(rewrite_value_info(builder->rewrite, cosines), -1),
                  wide = rewrite_dim(rewrite_value_info(builder->rewrite, input), -1);
    const int64_t size = graph_attr_int(builder->node, "rotary_embedding_dim", 0);
    const bool interleaved = graph_attr_int(builder->node, "interleaved", 0) != 0;
    int64_t count = graph_attr_int(builder->node, "num_heads", 0);
    uint32_t positions = builder_input(builder, 1), first;
    const char *why = rank != INLAY_RANK_UNKNOWN && rank != 3 && rank != 4          ? "input is neither of rank 3 nor 4"
                      : graph_attr_int(builder->node, "is_packed_batching", 0) != 0 ? "is_packed_batching is set"
                      : graph_attr_float(builder->node, "scale", 1) != 1            ? "scale is not 1"
                                                                                    : NULL;

    if (builder_refuse(builder, why) || decompose_by_rank(builder, 0, 3, 4) || decompose_by_rank(builder, 1, 1, 2))
        return;
    if (builder_rank(builder, positions) == 1) { /* the position of the first row; the others follow */
        const uint32_t shape = emit_typed(builder, "Shape", 13, INLAY_INT64, input);

        first = emit_op(builder, "Add", 14, positions, emit_range(builder, emit_size(builder, input, rank - 2)));
        positions = emit_op(
            builder, "Expand", 13, first,
            emit_concat(
                builder, emit_op(builder, "Slice", 13, shape, emit_list(builder, 0), emit_list(builder, 1)),
                emit_op(builder, "Slice", 13, shape, emit_list(builder, rank - 2), emit_list(builder, rank - 1)), 0));
    }
    if (rank == 3 && count == 0 && half > 0 && wide > 0)
        count = wide / (2 * half);
    if (rank == 3 && count == 0)
        builder_set_output(builder, 0,
                           join_heads(builder, emit_rotary(builder, split_by_angles(builder, input, cosines), cosines,
                                                           sines, positions, interleaved, size, 0)));
    else
        builder_set_output(
            builder, 0,
            emit_rotary(builder, input, cosines, sines, positions, interleaved, size, rank == 3 ? count : 0));
}

/* The mask of an Attention of ONNX with a past, as numbers that are added: its own, or, with is_causal, that of its
 * rows after the past. */
static uint32_t emit_past_mask(subgraph_builder *builder, uint32_t q, uint32_t keys, inlay_dtype dtype)
{
    uint32_t mask = builder_input(builder, 3);

    if (graph_attr_int(builder->node, "is_causal", 0) != 0)
        mask = emit_causal_mask(builder, q, keys);
    else if (mask == INLAY_NONE || builder_dtype(builder, mask) != INLAY_BOOL)
        return mask;
    return emit_typed(builder, "Where", 16, dtype, mask, emit_number(builder, dtype, 0),
                      emit_number(builder, dtype, -(double)INFINITY));
}

void decompose_attention_past(subgraph_builder *builder)
{
    static const char *const attributes[] = { "scale", "softcap", "softmax_precision", NULL };
    const graph_node *node = builder->node;
    const int64_t count = graph_attr_int(node, "q_num_heads", 0), shared = graph_attr_int(node, "kv_num_heads", 0);
    const uint32_t query = builder_input(builder, 0), mask = builder_input(builder, 3);
    const inlay_dtype dtype = builder_dtype(builder, query);
    const inlay_value_info *q_info = rewrite_value_info(builder->rewrite, query),
                           *k_info = rewrite_value_info(builder->rewrite, builder_input(builder, 1));
    const bool causal = graph_attr_int(node, "is_causal", 0) != 0;
    const uint32_t rank = q_info->rank;
    uint32_t q, k, v, output;

    if (builder_input(builder, 4) == INLAY_NONE || builder_input(builder, 5) == INLAY_NONE ||
        builder_input(builder, 6) != INLAY_NONE || builder_wants(builder, 3) || dtype != INLAY_FLOAT ||
        graph_attr_int(node, "left_window_size", -1) >= 0 || graph_attr_int(node, "right_window_size", -1) >= 0 ||
        (causal && mask != INLAY_NONE))
        return;
    for (uint32_t i = 1; i < 6; i++)
        if (i != 3 && (builder_dtype(builder, builder_input(builder, i)) != dtype ||
                       builder_rank(builder, builder_input(builder, i)) != (i < 3 ? rank : 4)))
            return;
    if ((rank != 4 && (rank != 3 || count < 1 || shared < 1)) ||
        (causal && !rewrite_same_dim(&q_info->dims[rank - 2], &k_info->dims[rank - 2])))
        return;
    q = split_heads(builder, query, count);
    k = emit_concat(builder, builder_input(builder, 4), split_heads(builder, builder_input(builder, 1), shared), 2);
    v = emit_concat(builder, builder_input(builder, 5), split_heads(builder, builder_input(builder, 2), shared), 2);
    output = emit_op(builder, "Attention", 23, q, k, v, emit_past_mask(builder, q, k, dtype));
    emit_attr_copies(builder, attributes);
    builder_set_output(builder, 0, rank == 4 ? output : join_heads(builder, output));
    if (builder_wants(builder, 1))
        builder_set_output(builder, 1, k);
    if (builder_wants(builder, 2))
        builder_set_output(builder, 2, v);
}
