/* Decomposes the attention operators of contributed.def into matrix multiplications and Softmax. Pass `attention` fuses
 * the result again where it can. */
#include "passes/contributed.h"
#include <math.h>
#include <string.h>

/* Operands common to all attentions: [batch, heads, rows, size] each; keys and values include the past. */
typedef struct attention_operands {
    uint32_t q, k, v;
    uint32_t bias; /* added to the scores (broadcast), or INLAY_NONE */
    uint32_t mask; /* bool (broadcast): true where a key is visible, or INLAY_NONE */
    uint32_t sink; /* [1, heads, 1, 1]: one more score in each row, or INLAY_NONE */
    double scale;  /* 0: 1 / sqrt(size) */
    double softcap;
    double hidden; /* score of a hidden key */
} attention_operands;

static uint32_t emit_scalar(subgraph_builder *builder, int64_t value)
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

/* Size of axis d of value, as int64 of rank 0. */
static uint32_t emit_size(subgraph_builder *builder, uint32_t value, int64_t d)
{
    value = input_with_dim(builder, value, &d);
    return emit_op(builder, "Gather", 13, emit_typed(builder, "Shape", 13, INLAY_INT64, value),
                   emit_scalar(builder, d));
}

static uint32_t emit_range(subgraph_builder *builder, uint32_t end)
{
    return emit_op(builder, "Range", 11, emit_scalar(builder, 0), end, emit_scalar(builder, 1));
}

static uint32_t emit_reshape(subgraph_builder *builder, uint32_t value, const int64_t *dims, uint32_t count)
{
    return emit_op(builder, "Reshape", 13, value, emit_integers(builder, dims, count));
}
#define RESHAPED(b, v, ...)                                                                                            \
    emit_reshape(b, v, (const int64_t[]){ __VA_ARGS__ },                                                               \
                 (uint32_t)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

static uint32_t emit_concat(subgraph_builder *builder, uint32_t first, uint32_t second, int64_t axis)
{
    uint32_t value = emit_op(builder, "Concat", 13, first, second);

    emit_attr_int(builder, "axis", axis);
    return value;
}

static const int64_t by_head[] = { 0, 2, 1, 3 };

/* [batch, rows, heads * size] to [batch, heads, rows, size]; values of rank 4 have that layout already. */
static uint32_t split_heads(subgraph_builder *builder, uint32_t value, int64_t count)
{
    const int64_t wide = rewrite_dim(rewrite_value_info(builder->rewrite, value), -1);

    if (builder_rank(builder, value) == 4)
        return value;
    return emit_transpose(builder, RESHAPED(builder, value, 0, 0, count, wide > 0 ? wide / count : -1), by_head, 4);
}

static uint32_t join_heads(subgraph_builder *builder, uint32_t value)
{
    return RESHAPED(builder, emit_transpose(builder, value, by_head, 4), 0, 0, -1);
}

static uint32_t emit_attention(subgraph_builder *builder, const attention_operands *operands)
{
    const inlay_dtype dtype = builder_dtype(builder, operands->q);
    const uint32_t keys_transposed = emit_transpose(builder, operands->k, (const int64_t[]){ 0, 1, 3, 2 }, 4);
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

/* The lowest finite number of a float type, as the score of a hidden key. */
static double lowest_score(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT16 ? -65504.0 : -3.4028234663852886e38;
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

/* Adds a mask accepted by mask_error() to the bias. It selects the visible keys for each row of input [batch, ..]: rank
 * 1 (see above), [batch, keys] or [batch, rows, keys]. */
static void add_mask(subgraph_builder *builder, attention_operands *operands, uint32_t mask, uint32_t input,
                     double hidden)
{
    const uint32_t rank = builder_rank(builder, mask);
    const inlay_dtype dtype = builder_dtype(builder, operands->q);
    uint32_t visible, bias;

    if (mask == INLAY_NONE)
        return;
    if (rank == 1)
        visible = emit_key_range_mask(builder, mask, input, emit_range(builder, emit_size(builder, operands->k, 2)));
    else
        visible = emit_cast(
            builder,
            emit_op(builder, "Unsqueeze", 13, mask, rank == 2 ? emit_list(builder, 1, 2) : emit_list(builder, 1)),
            INLAY_BOOL);
    bias = emit_typed(builder, "Where", 16, dtype, visible, emit_number(builder, dtype, 0),
                      emit_number(builder, dtype, hidden));
    operands->bias = operands->bias == INLAY_NONE ? bias : emit_op(builder, "Add", 14, operands->bias, bias);
}

/* Element `at` along the given axis, which is removed. */
static uint32_t gather_part(subgraph_builder *builder, uint32_t value, int64_t at, int64_t axis)
{
    uint32_t made = emit_op(builder, "Gather", 13, value, emit_scalar(builder, at));

    emit_attr_int(builder, "axis", axis);
    return made;
}

/* Columns [from, to) of the last axis. */
static uint32_t slice_columns(subgraph_builder *builder, uint32_t value, int64_t from, int64_t to)
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

/* The rank of value, or `otherwise` if it is unknown. */
static uint32_t rank_or(const subgraph_builder *builder, uint32_t value, uint32_t otherwise)
{
    const uint32_t rank = builder_rank(builder, value);

    return rank == INLAY_RANK_UNKNOWN ? otherwise : rank;
}

void decompose_multi_head_attention(subgraph_builder *builder)
{
    const int64_t count = rewrite_attr_int(builder->node, "num_heads", 0);
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
    uint32_t output;

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
    operands.scale = rewrite_attr_float(builder->node, "scale", 0);
    operands.hidden = lowest_score(builder_dtype(builder, operands.q));
    add_mask(builder, &operands, builder_input(builder, 4), input,
             rewrite_attr_float(builder->node, "mask_filter_value", -10000));
    if (rewrite_attr_int(builder->node, "unidirectional", 0) != 0)
        operands.mask = emit_causal_mask(builder, operands.q, operands.k);
    output = join_heads(builder, emit_attention(builder, &operands));
    builder_set_output(builder, 0, output);
    builder_set_output(builder, 1, operands.k);
    builder_set_output(builder, 2, operands.v);
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
    const int64_t count = rewrite_attr_int(builder->node, "num_heads", 0);
    const uint32_t bias = builder_input(builder, 10), past_k = builder_input(builder, 5),
                   past_v = builder_input(builder, 6), input = builder_input(builder, 0);
    const bool shares = rewrite_attr_int(builder->node, "past_present_share_buffer", 0) != 0 && past_k != INLAY_NONE;
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
    operands.scale = rewrite_attr_float(builder->node, "scale", 0);
    operands.hidden = lowest_score(builder_dtype(builder, operands.q));
    add_mask(builder, &operands, builder_input(builder, 3), input,
             rewrite_attr_float(builder->node, "mask_filter_value", -10000));
    builder_set_output(builder, 0, join_heads(builder, emit_attention(builder, &operands)));
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
    const int64_t count = rewrite_attr_int(builder->node, "num_heads", 0);
    const uint32_t input = builder_input(builder, 0), weights = builder_input(builder, 1),
                   bias = builder_input(builder, 2);
    const uint32_t mask = builder_input(builder, quantized ? 5 : 3), past = builder_input(builder, quantized ? 8 : 4);
    const int64_t wide = rewrite_dim(rewrite_value_info(builder->rewrite, weights), 1);
    attention_operands operands = { .bias = quantized ? INLAY_NONE : builder_input(builder, 5),
                                    .mask = INLAY_NONE,
                                    .sink = INLAY_NONE };
    uint32_t sizes = 0, all;
    const int64_t *given = rewrite_attr_ints(builder->node, "qkv_hidden_sizes", &sizes);
    const char *why = count <= 0                                             ? "num_heads is not positive"
                      : rank_or(builder, input, 3) != 3                      ? "input is not of rank 3"
                      : rewrite_attr_int(builder->node, "do_rotary", 0) != 0 ? "do_rotary is set"
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
    operands.scale = rewrite_attr_float(builder->node, "scale", 0);
    operands.hidden = lowest_score(builder_dtype(builder, operands.q));
    add_mask(builder, &operands, mask, input, rewrite_attr_float(builder->node, "mask_filter_value", -10000));
    if (rewrite_attr_int(builder->node, "unidirectional", 0) != 0)
        operands.mask = emit_causal_mask(builder, operands.q, operands.k);
    builder_set_output(builder, 0, join_heads(builder, emit_attention(builder, &operands)));
    if (builder_wants(builder, 1))
        builder_set_output(builder, 1,
                           emit_concat(builder, emit_op(builder, "Unsqueeze", 13, operands.k, emit_list(builder, 0)),
                                       emit_op(builder, "Unsqueeze", 13, operands.v, emit_list(builder, 0)), 0));
}

static uint32_t emit_rotary(subgraph_builder *builder, uint32_t input, uint32_t cosines, uint32_t sines,
                            uint32_t positions, bool interleaved, int64_t size, int64_t count)
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
    const int64_t size = rewrite_attr_int(builder->node, "rotary_embedding_dim", 0);
    const bool interleaved = rewrite_attr_int(builder->node, "interleaved", 0) != 0;
    int64_t count = rewrite_attr_int(builder->node, "num_heads", 0);
    uint32_t positions = builder_input(builder, 1), first;
    const char *why = rank != INLAY_RANK_UNKNOWN && rank != 3 && rank != 4 ? "input is neither of rank 3 nor 4"
                      : rewrite_attr_int(builder->node, "is_packed_batching", 0) != 0 ? "is_packed_batching is set"
                      : rewrite_attr_float(builder->node, "scale", 1) != 1            ? "scale is not 1"
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
    return count >= 0 && (info->rank != 4 || count != rewrite_attr_int(builder->node, "kv_num_heads", 0) * cache->size)
               ? wrong
               : NULL;
}

/* Why the cache of a GroupQueryAttention cannot be used; NULL: it can. Fills *cache. */
static const char *cache_error(const subgraph_builder *builder, quantized_cache *cache)
{
    const graph_node *node = builder->node;
    const int64_t bits = rewrite_attr_int(node, "kv_cache_bit_width", 0),
                  heads = rewrite_attr_int(node, "num_heads", 0), shared = rewrite_attr_int(node, "kv_num_heads", 0),
                  wide = rewrite_dim(rewrite_value_info(builder->rewrite, builder_input(builder, 0)), -1);
    const bool keys = !rewrite_attr_is(node, "k_quant_type", "NONE"),
               values = !rewrite_attr_is(node, "v_quant_type", "NONE");
    const uint32_t past = builder_input(builder, 3);
    const inlay_dtype type = !keys       ? builder_dtype(builder, builder_input(builder, 0))
                             : bits == 4 ? INLAY_UINT8
                                         : INLAY_INT8;
    const char *why;

    if (keys || values)
        *cache = (quantized_cache){
            .bits = bits,
            .size = wide < 0 ? -1 : wide / (builder_input(builder, 1) != INLAY_NONE ? heads : heads + 2 * shared)
        };
    why = scale_error(builder, cache, "k_quant_type", builder_input(builder, 12),
                      "k_scale must be given if k_quant_type is not NONE, and only then",
                      "k_scale has not the shape of its k_quant_type: 1 element, or [1, kv_num_heads, 1, head size]");
    if (why == NULL)
        why =
            scale_error(builder, cache, "v_quant_type", builder_input(builder, 13),
                        "v_scale must be given if v_quant_type is not NONE, and only then",
                        "v_scale has not the shape of its v_quant_type: 1 element, or [1, kv_num_heads, 1, head size]");
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

/* Attention-23, whose keys may have fewer heads than the queries, or CachedAttention, whose keys and values are codes.
 * All layers share the mask. */
static uint32_t emit_grouped_attention(subgraph_builder *builder, const attention_operands *operands,
                                       const quantized_cache *cache, uint32_t k_scale, uint32_t v_scale)
{
    const inlay_dtype dtype = builder_dtype(builder, operands->q);
    const uint32_t visible = operands->bias != INLAY_NONE ? operands->bias : emit_number(builder, dtype, 0);
    const uint32_t mask =
        emit_typed(builder, "Where", 16, dtype, operands->mask, visible, emit_number(builder, dtype, operands->hidden));
    uint32_t output;

    if (cache->bits == 0) {
        output = emit_op(builder, "Attention", 23, operands->q, operands->k, operands->v, mask);
    } else {
        output = emit_inlay(
            builder, "CachedAttention", dtype,
            (const uint32_t[]){ operands->q, operands->k, operands->v, mask, INLAY_NONE, k_scale, v_scale, EMIT_END });
        emit_attr_int(builder, "bits", cache->bits);
        emit_attr_int(builder, "value_size", cache->size);
    }
    if (operands->scale != 0)
        emit_attr_float(builder, "scale", operands->scale);
    return output;
}

/* Visible keys: none after the row's own position and, with a window, none more than `window` before it. */
static uint32_t emit_visible_keys(subgraph_builder *builder, uint32_t positions, uint32_t length, int64_t window)
{
    const uint32_t keys = emit_range(builder, length);
    uint32_t visible, begin;

    positions = emit_op(builder, "Unsqueeze", 13, positions, emit_list(builder, 1, 3));
    visible = emit_typed(builder, "LessOrEqual", 16, INLAY_BOOL, keys, positions);
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
 * layouts, rows, keys], or for each head, which use the layouts in turn. Row r of a layout has the columns first[r] to
 * first[r + 1] - 1 of its list. */
static uint32_t emit_block_mask(subgraph_builder *builder, uint32_t positions, uint32_t length, int64_t heads)
{
    const int64_t layouts = rewrite_dim(rewrite_value_info(builder->rewrite, builder_input(builder, 5)), 0);
    const uint32_t block = emit_scalar(builder, rewrite_attr_int(builder->node, "sparse_block_size", 1));
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
    emit_attr_float(builder, "epsilon", rewrite_attr_float(builder->node, "qk_norm_epsilon", 1e-6));
    return heads;
}

/* The inputs in which GroupQueryAttention and SparseAttention differ. SparseAttention gives the lengths with the new
 * tokens, GroupQueryAttention one less. */
typedef struct grouped_inputs {
    uint32_t lengths, total, cosines, sines, positions, bias, sink, q_norm, k_norm;
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
           : builder_rank(builder, builder_input(builder, 6)) != 2       ? "block_col_indices is not of rank 2"
           : rewrite_attr_int(builder->node, "sparse_block_size", 0) < 1 ? "sparse_block_size is not positive"
                                                                         : NULL;
}

void decompose_group_query_attention(subgraph_builder *builder)
{
    static const grouped_inputs group = { 5, 6, 7, 8, 9, 10, 11, 14, 15 },
                                blocks = { 8, 7, 9, 10, INLAY_NONE, INLAY_NONE, INLAY_NONE, INLAY_NONE, INLAY_NONE };
    const graph_node *node = builder->node;
    const bool sparse = node->info.op_type.data[0] == 'S';
    const grouped_inputs *in = sparse ? &blocks : &group;
    const uint32_t cosines = builder_input(builder, in->cosines), sines = builder_input(builder, in->sines);
    const uint32_t q_norm = optional_input(builder, in->q_norm), k_norm = optional_input(builder, in->k_norm);
    const int64_t count = rewrite_attr_int(node, "num_heads", 0), shared = rewrite_attr_int(node, "kv_num_heads", 0);
    const int64_t window = rewrite_attr_int(node, "local_window_size", -1);
    const bool is_rotary = rewrite_attr_int(node, "do_rotary", 0) != 0,
               smooth = rewrite_attr_int(node, "smooth_softmax", 0) > 0;
    attention_operands operands = { .q = builder_input(builder, 0),
                                    .k = builder_input(builder, 1),
                                    .v = builder_input(builder, 2),
                                    .bias = optional_input(builder, in->bias),
                                    .mask = INLAY_NONE,
                                    .sink = optional_input(builder, in->sink),
                                    .scale = rewrite_attr_float(node, "scale", 0),
                                    .softcap = rewrite_attr_float(node, "softcap", 0) };
    const inlay_dtype dtype = builder_dtype(builder, operands.q);
    const uint32_t k_scale = sparse ? INLAY_NONE : builder_input(builder, 12),
                   v_scale = sparse ? INLAY_NONE : builder_input(builder, 13);
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
    uint32_t rows, total, used, positions, length;

    if (builder_refuse(builder, why))
        return;
    split_groups(builder, &operands, count, shared);
    operands.q = normalized_heads(builder, operands.q, q_norm);
    operands.k = normalized_heads(builder, operands.k, k_norm);
    rows = emit_size(builder, builder_input(builder, 0), 1);
    total = emit_cast(builder, emit_reshape(builder, builder_input(builder, in->total), NULL, 0), INLAY_INT64);
    /* Number of valid past positions in each batch row: 0 for the first step (total equals rows). */
    used = emit_cast(builder, RESHAPED(builder, builder_input(builder, in->lengths), -1), INLAY_INT64);
    used =
        emit_op(builder, "Sub", 14, sparse ? used : emit_op(builder, "Add", 14, used, emit_scalar(builder, 1)), rows);
    used = emit_typed(builder, "Where", 16, INLAY_INT64, emit_typed(builder, "Equal", 13, INLAY_BOOL, total, rows),
                      emit_scalar(builder, 0), used);
    positions =
        emit_op(builder, "Add", 14, RESHAPED(builder, used, -1, 1), emit_range(builder, rows)); /* [batch, rows] */
    if (is_rotary) {
        const uint32_t stated = optional_input(builder, in->positions),
                       given = stated != INLAY_NONE ? stated : positions;
        const bool interleaved = rewrite_attr_int(node, "rotary_interleaved", 0) != 0;
        const int64_t half = rewrite_dim(rewrite_value_info(builder->rewrite, cosines), -1);
        uint32_t *const both[] = { &operands.q, &operands.k };

        for (uint32_t i = 0; i < 2; i++)
            *both[i] = half < 0 ? emit_partial_rotary(builder, *both[i], cosines, sines, given, interleaved)
                                : emit_rotary(builder, *both[i], cosines, sines, given, interleaved, 2 * half, 0);
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
    operands.mask = emit_visible_keys(builder, positions, length, window);
    if (sparse)
        operands.mask = emit_op(builder, "And", 7, operands.mask, emit_block_mask(builder, positions, length, count));
    operands.hidden = lowest_score(dtype);
    if (operands.sink != INLAY_NONE)
        operands.sink = RESHAPED(builder, operands.sink, 1, -1, 1, 1);
    else if (smooth)
        operands.sink = emit_number(builder, dtype, 0);
    if (!sparse && operands.sink == INLAY_NONE && operands.softcap <= 0 && dtype == INLAY_FLOAT) {
        builder_set_output(builder, 0,
                           join_heads(builder, emit_grouped_attention(builder, &operands, &cache, k_scale, v_scale)));
        return;
    }
    operands.k = emit_rows(builder, &cache, operands.k, k_scale, dtype);
    operands.v = emit_rows(builder, &cache, operands.v, v_scale, dtype);
    operands.k = repeat_heads(builder, operands.k, count / shared, count);
    operands.v = repeat_heads(builder, operands.v, count / shared, count);
    builder_set_output(builder, 0, join_heads(builder, emit_attention(builder, &operands)));
}

/* The mask of an Attention of ONNX with a past, as numbers that are added: its own, or, with is_causal, that of its
 * rows after the past. */
static uint32_t emit_past_mask(subgraph_builder *builder, uint32_t q, uint32_t keys, inlay_dtype dtype)
{
    uint32_t mask = builder_input(builder, 3);

    if (rewrite_attr_int(builder->node, "is_causal", 0) != 0)
        mask = emit_causal_mask(builder, q, keys);
    else if (mask == INLAY_NONE || builder_dtype(builder, mask) != INLAY_BOOL)
        return mask;
    return emit_typed(builder, "Where", 16, dtype, mask, emit_number(builder, dtype, 0),
                      emit_number(builder, dtype, -(double)INFINITY));
}

void decompose_attention_past(subgraph_builder *builder)
{
    static const char *const attributes[] = { "scale", "softmax_precision", NULL };
    const graph_node *node = builder->node;
    const int64_t count = rewrite_attr_int(node, "q_num_heads", 0), shared = rewrite_attr_int(node, "kv_num_heads", 0);
    const uint32_t query = builder_input(builder, 0), mask = builder_input(builder, 3);
    const inlay_dtype dtype = builder_dtype(builder, query);
    const inlay_value_info *q_info = rewrite_value_info(builder->rewrite, query),
                           *k_info = rewrite_value_info(builder->rewrite, builder_input(builder, 1));
    const bool causal = rewrite_attr_int(node, "is_causal", 0) != 0;
    const uint32_t rank = q_info->rank;
    uint32_t q, k, v, output;

    if (builder_input(builder, 4) == INLAY_NONE || builder_input(builder, 5) == INLAY_NONE ||
        builder_input(builder, 6) != INLAY_NONE || builder_wants(builder, 3) || dtype != INLAY_FLOAT ||
        rewrite_attr_float(node, "softcap", 0) != 0 || rewrite_attr_int(node, "left_window_size", -1) >= 0 ||
        rewrite_attr_int(node, "right_window_size", -1) >= 0 || (causal && mask != INLAY_NONE))
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
