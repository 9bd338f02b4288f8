/* The attentions among the operators of contributed.def, as products and softmax; pass `attention` makes one operator
 * of them again where it may. */
#include "passes/contributed.h"
#include <math.h>
#include <string.h>

/* What all of them come to: [batch, heads, rows, size] each, keys and values with the past in front. */
struct heads {
    uint32_t q, k, v;
    uint32_t bias; /* added to the scores, or INLAY_NONE; broadcasts */
    uint32_t mask; /* bool: true where a key counts, or INLAY_NONE; broadcasts */
    uint32_t sink; /* [1, heads, 1, 1] one more score of each row, or INLAY_NONE */
    double scale;  /* 0: one over the root of the size */
    double softcap;
    double hidden; /* the score of a key that does not count */
};

static uint32_t scalar(subgraph_builder *builder, int64_t value)
{
    uint32_t value_index = builder->status != INLAY_OK
                               ? INLAY_NONE
                               : rw_constant(builder->rewrite, INLAY_INT64, 0, NULL, &value, sizeof value);

    if (value_index == INLAY_NONE && builder->status == INLAY_OK)
        builder->status = rw_no_memory(builder->rewrite);
    return value_index;
}

/* The first input of the model with an axis of the same name as axis *d of value, and that axis; value itself: there is
 * none. All layers then ask the same for the same sizes, and share what is made of them. */
static uint32_t named_alike(const subgraph_builder *builder, uint32_t value, int64_t *d)
{
    const inlay_value_info *info = rw_info(builder->rewrite, value), *in;
    const struct graph *graph = builder->rewrite->graph;

    if (graph->parent != NULL || info->rank == INLAY_RANK_UNKNOWN || *d >= info->rank ||
        info->dims[*d].kind != INLAY_DIM_SYMBOLIC)
        return value;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        in = rw_info(builder->rewrite, graph->inputs[i]);
        for (uint32_t e = 0; in->rank != INLAY_RANK_UNKNOWN && e < in->rank; e++)
            if (in->dims[e].kind == INLAY_DIM_SYMBOLIC && in->dims[e].symbol == info->dims[*d].symbol) {
                *d = e;
                return graph->inputs[i];
            }
    }
    return value;
}

/* Size d of value, as int64 of rank 0. */
static uint32_t size_of(subgraph_builder *builder, uint32_t value, int64_t d)
{
    value = named_alike(builder, value, &d);
    return emit_op(builder, "Gather", 13, emit_typed(builder, "Shape", 13, INLAY_INT64, value), scalar(builder, d));
}

static uint32_t count_to(subgraph_builder *builder, uint32_t end)
{
    return emit_op(builder, "Range", 11, scalar(builder, 0), end, scalar(builder, 1));
}

static uint32_t shaped(subgraph_builder *builder, uint32_t value, const int64_t *dims, uint32_t count)
{
    return emit_op(builder, "Reshape", 13, value, emit_integers(builder, dims, count));
}
#define SHAPED(b, v, ...)                                                                                              \
    shaped(b, v, (const int64_t[]){ __VA_ARGS__ },                                                                     \
           (uint32_t)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

static uint32_t joined(subgraph_builder *builder, uint32_t input, uint32_t output, int64_t axis)
{
    uint32_t value = emit_op(builder, "Concat", 13, input, output);

    emit_attr_int(builder, "axis", axis);
    return value;
}

static const int64_t by_head[] = { 0, 2, 1, 3 };

/* [batch, rows, heads * size] to [batch, heads, rows, size]; other ranks are there already. */
static uint32_t split_heads(subgraph_builder *builder, uint32_t value, int64_t count)
{
    const int64_t wide = rw_dim(rw_info(builder->rewrite, value), -1);

    if (builder_rank(builder, value) == 4)
        return value;
    return emit_transpose(builder, SHAPED(builder, value, 0, 0, count, wide > 0 ? wide / count : -1), by_head, 4);
}

static uint32_t join_heads(subgraph_builder *builder, uint32_t value)
{
    return SHAPED(builder, emit_transpose(builder, value, by_head, 4), 0, 0, -1);
}

static uint32_t attend(subgraph_builder *builder, const struct heads *heads)
{
    const inlay_dtype dtype = builder_dtype(builder, heads->q);
    const uint32_t turned = emit_transpose(builder, heads->k, (const int64_t[]){ 0, 1, 3, 2 }, 4);
    uint32_t scores, scale;

    if (heads->scale != 0) {
        scale = emit_number(builder, dtype, heads->scale);
    } else {
        scale = emit_cast(builder, size_of(builder, heads->q, 3), dtype);
        scale = emit_op(builder, "Reciprocal", 13, emit_op(builder, "Sqrt", 13, scale));
    }
    scores = emit_op(builder, "Mul", 14, emit_op(builder, "MatMul", 13, heads->q, turned), scale);
    if (heads->softcap > 0) {
        const uint32_t cap = emit_number(builder, dtype, heads->softcap);

        scores =
            emit_op(builder, "Mul", 14, emit_op(builder, "Tanh", 13, emit_op(builder, "Div", 14, scores, cap)), cap);
    }
    if (heads->bias != INLAY_NONE)
        scores = emit_op(builder, "Add", 14, scores, heads->bias);
    if (heads->mask != INLAY_NONE)
        scores =
            emit_typed(builder, "Where", 16, dtype, heads->mask, scores, emit_number(builder, dtype, heads->hidden));
    if (heads->sink == INLAY_NONE) {
        scores = emit_op(builder, "Softmax", 13, scores);
        emit_attr_int(builder, "axis", -1);
        return emit_op(builder, "MatMul", 13, scores, heads->v);
    }
    {
        const uint32_t first =
            emit_op(builder, "Slice", 13, scores, emit_list(builder, 0), emit_list(builder, 1), emit_list(builder, 3));
        const uint32_t zero = emit_op(builder, "Mul", 14, first, emit_number(builder, dtype, 0));

        /* The column takes part in the sum and goes again. A hidden score times 0 is 0 all the same. */
        scores = joined(builder, scores, emit_op(builder, "Add", 14, zero, heads->sink), 3);
        scores = emit_op(builder, "Softmax", 13, scores);
        emit_attr_int(builder, "axis", -1);
        scores =
            emit_op(builder, "Slice", 13, scores, emit_list(builder, 0), emit_list(builder, -1), emit_list(builder, 3));
    }
    return emit_op(builder, "MatMul", 13, scores, heads->v);
}

/* ------------------------------------------------------------------ masks */

/* The lowest number of a float type: what hides a key altogether. */
static double lowest(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT16 ? -65504.0 : -3.4028234663852886e38;
}

/* true at [rows, keys] where the key is not after the row; the last row meets the last key. */
static uint32_t causal(subgraph_builder *builder, uint32_t q, uint32_t k)
{
    const uint32_t rows = size_of(builder, q, 2), keys = size_of(builder, k, 2);
    const uint32_t place =
        emit_op(builder, "Add", 14, count_to(builder, rows), emit_op(builder, "Sub", 14, keys, rows));

    return emit_typed(builder, "LessOrEqual", 16, INLAY_BOOL, count_to(builder, keys), SHAPED(builder, place, -1, 1));
}

/* Why a mask of the caller's cannot be read; NULL: it can, or there is none. input is [batch, ..]. */
static const char *why_not_mask(const subgraph_builder *builder, uint32_t mask, uint32_t input)
{
    const int64_t count = mask == INLAY_NONE ? -1 : rw_dim(rw_info(builder->rewrite, mask), 0);
    const int64_t batch = rw_dim(rw_info(builder->rewrite, input), 0);
    const uint32_t rank = builder_rank(builder, mask);

    return mask == INLAY_NONE           ? NULL
           : rank == INLAY_RANK_UNKNOWN ? NULL /* decompose_by_rank() */
           : rank == 0 || rank > 3      ? "its mask is neither of rank 1, 2 nor 3"
           : rank == 1 && count >= 0 && batch >= 0 && count != batch && count != 2 * batch && count != 3 * batch + 2
               ? "its mask of rank 1 is neither [batch], [2 * batch] nor [3 * batch + 2]"
               : NULL;
}

/* Is dimension 0 of both the same for sure? */
static bool same_first(const subgraph_builder *builder, uint32_t value, uint32_t input)
{
    const inlay_value_info *info = rw_info(builder->rewrite, value), *value_info = rw_info(builder->rewrite, input);

    if (info->rank == INLAY_RANK_UNKNOWN || value_info->rank == INLAY_RANK_UNKNOWN ||
        info->dims[0].kind != value_info->dims[0].kind)
        return false;
    return info->dims[0].kind == INLAY_DIM_FIXED      ? info->dims[0].value == value_info->dims[0].value
           : info->dims[0].kind == INLAY_DIM_SYMBOLIC ? info->dims[0].symbol == value_info->dims[0].symbol
                                                      : false;
}

/* Which keys a mask of rank 1 lets count, [batch, 1, 1, keys]. It has where the keys of each row of the batch end, as
 * [batch]; or that, then where they begin, as [2 * batch]; or that, then what is of use to kernels of packed rows
 * only, as [3 * batch + 2]. Which of them may be known by a run alone. */
static uint32_t keys_between(subgraph_builder *builder, uint32_t mask, uint32_t input, uint32_t keys)
{
    uint32_t batch, ends = mask, begins = INLAY_NONE, counts, doubled;

    if (!same_first(builder, mask, input)) {
        batch = SHAPED(builder, size_of(builder, input, 0), 1);
        doubled = emit_op(builder, "Add", 14, batch, batch);
        ends = emit_op(builder, "Slice", 13, mask, emit_list(builder, 0), batch);
        begins = emit_op(builder, "Slice", 13, mask, emit_op(builder, "Neg", 13, batch), emit_list(builder, INT64_MAX));
        begins = emit_op(
            builder, "Where", 16,
            emit_typed(builder, "Equal", 13, INLAY_BOOL, emit_typed(builder, "Shape", 13, INLAY_INT64, mask), doubled),
            emit_cast(builder, begins, INLAY_INT64), scalar(builder, 0));
        builder->rewrite->graph->values[begins].info.dtype = INLAY_INT64;
    }
    counts = emit_typed(builder, "Less", 13, INLAY_BOOL, keys,
                        emit_cast(builder, SHAPED(builder, ends, -1, 1, 1, 1), INLAY_INT64));
    if (begins == INLAY_NONE)
        return counts;
    return emit_op(builder, "And", 7, counts,
                   emit_typed(builder, "GreaterOrEqual", 16, INLAY_BOOL, keys, SHAPED(builder, begins, -1, 1, 1, 1)));
}

/* A mask of the caller's that why_not_mask() takes, as what is added to the scores: which keys of each row of input,
 * [batch, ..], count, of rank 1 or as [batch, keys] or [batch, rows, keys]. */
static void add_mask(subgraph_builder *builder, struct heads *heads, uint32_t mask, uint32_t input, double hidden)
{
    const uint32_t rank = builder_rank(builder, mask);
    const inlay_dtype dtype = builder_dtype(builder, heads->q);
    uint32_t counts, bias;

    if (mask == INLAY_NONE)
        return;
    if (rank == 1)
        counts = keys_between(builder, mask, input, count_to(builder, size_of(builder, heads->k, 2)));
    else
        counts = emit_cast(
            builder,
            emit_op(builder, "Unsqueeze", 13, mask, rank == 2 ? emit_list(builder, 1, 2) : emit_list(builder, 1)),
            INLAY_BOOL);
    bias = emit_typed(builder, "Where", 16, dtype, counts, emit_number(builder, dtype, 0),
                      emit_number(builder, dtype, hidden));
    heads->bias = heads->bias == INLAY_NONE ? bias : emit_op(builder, "Add", 14, heads->bias, bias);
}

/* ------------------------------------------------------------------ MultiHeadAttention */

/* Part `at` of `count` along the given axis, which goes away. */
static uint32_t part(subgraph_builder *builder, uint32_t value, int64_t at, int64_t axis)
{
    uint32_t made = emit_op(builder, "Gather", 13, value, scalar(builder, at));

    emit_attr_int(builder, "axis", axis);
    return made;
}

/* Columns [from, to) of the last axis. */
static uint32_t columns(subgraph_builder *builder, uint32_t value, int64_t from, int64_t to)
{
    return emit_op(builder, "Slice", 13, value, emit_list(builder, from), emit_list(builder, to),
                   emit_list(builder, -1));
}

/* Adds to *v, of rank 3, its part of a bias for queries, keys and values: queries are `wide` columns, or as many as
 * input where that is not known (-1). */
static void add_columns(subgraph_builder *builder, uint32_t *v, uint32_t bias, uint32_t input, int64_t wide, int64_t at)
{
    uint32_t from, to;

    if (bias == INLAY_NONE || builder_rank(builder, *v) != 3)
        return;
    if (wide > 0) {
        from = emit_list(builder, at * wide);
        to = emit_list(builder, at == 2 ? INT64_MAX : (at + 1) * wide);
    } else {
        const uint32_t one = SHAPED(builder, size_of(builder, input, 2), 1);

        from = emit_op(builder, "Mul", 14, one, scalar(builder, at));
        to = at == 2 ? emit_list(builder, INT64_MAX) : emit_op(builder, "Mul", 14, one, scalar(builder, at + 1));
    }
    *v = emit_op(builder, "Add", 14, *v, emit_op(builder, "Slice", 13, bias, from, to, emit_list(builder, -1)));
}

/* Queries, keys and values that came packed, of rank 5, which are by head then. */
static void unpack(subgraph_builder *builder, struct heads *heads)
{
    const uint32_t packed = heads->k == INLAY_NONE ? heads->q : heads->k;

    if (heads->v != INLAY_NONE)
        return;
    if (heads->k == INLAY_NONE) /* [batch, rows, heads, 3, size], otherwise [batch, rows, heads, 2, size] */
        heads->q = emit_transpose(builder, part(builder, packed, 0, 3), by_head, 4);
    heads->v = emit_transpose(builder, part(builder, packed, heads->k == INLAY_NONE ? 2 : 1, 3), by_head, 4);
    heads->k = emit_transpose(builder, part(builder, packed, heads->k == INLAY_NONE ? 1 : 0, 3), by_head, 4);
}

/* The rank of value, `otherwise` where it is not known. */
static uint32_t rank_or(const subgraph_builder *builder, uint32_t value, uint32_t otherwise)
{
    const uint32_t rank = builder_rank(builder, value);

    return rank == INLAY_RANK_UNKNOWN ? otherwise : rank;
}

void decompose_multi_head(subgraph_builder *builder)
{
    const int64_t count = rw_attr_int(builder->node, "num_heads", 0);
    const uint32_t bias = builder_input(builder, 3), past_k = builder_input(builder, 6),
                   past_v = builder_input(builder, 7), input = builder_input(builder, 0);
    struct heads heads = { input,
                           builder_input(builder, 1),
                           builder_input(builder, 2),
                           builder_input(builder, 5),
                           INLAY_NONE,
                           INLAY_NONE,
                           0,
                           0,
                           0 };
    const int64_t wide = rw_dim(rw_info(builder->rewrite, input), -1);
    const bool packed = heads.v == INLAY_NONE;
    const uint32_t rank = heads.k == INLAY_NONE ? 5 : 3; /* of queries */
    const uint32_t key_rank = rank_or(builder, heads.k, packed ? 5 : builder_rank(builder, heads.v));
    const bool open = !packed && key_rank == INLAY_RANK_UNKNOWN;
    const char *why = count <= 0                                         ? "num_heads is not positive"
                      : builder_wants(builder, 3)                        ? "it is to give the scores (output 3)"
                      : builder_input(builder, 8) != INLAY_NONE          ? "its past is in a buffer (input 8)"
                      : rank_or(builder, input, rank) != rank            ? "query is not of the rank that key asks for"
                      : heads.k == INLAY_NONE && !packed                 ? "value is there, but no key"
                      : heads.k != INLAY_NONE && packed && key_rank != 5 ? "value is missing, and key is not packed"
                      : !packed && !open && key_rank != 3 && key_rank != 4 ? "key is neither of rank 3 nor 4"
                      : !packed && (rank_or(builder, heads.v, key_rank) != key_rank)
                          ? "key and value are of different ranks"
                      : bias != INLAY_NONE && rank != 3 ? "it has a bias, and query is packed"
                                                        : why_not_mask(builder, builder_input(builder, 4), input);
    uint32_t output;

    if (builder_refuse(builder, why) || (open && decompose_by_rank(builder, 1, 3, 4)) ||
        decompose_by_rank(builder, 4, 1, 3))
        return;
    heads.q = emit_ranked(builder, heads.q, rank);
    if (heads.k != INLAY_NONE)
        heads.k = emit_ranked(builder, heads.k, key_rank);
    if (heads.v != INLAY_NONE)
        heads.v = emit_ranked(builder, heads.v, key_rank);
    unpack(builder, &heads);
    add_columns(builder, &heads.q, bias, input, wide, 0);
    if (!packed) {
        add_columns(builder, &heads.k, bias, input, wide, 1);
        add_columns(builder, &heads.v, bias, input, wide, 2);
    }
    if (rank != 5)
        heads.q = split_heads(builder, heads.q, count);
    if (!packed) {
        heads.k = split_heads(builder, heads.k, count);
        heads.v = split_heads(builder, heads.v, count);
    }
    if (past_k != INLAY_NONE)
        heads.k = joined(builder, past_k, heads.k, 2);
    if (past_v != INLAY_NONE)
        heads.v = joined(builder, past_v, heads.v, 2);
    heads.scale = rw_attr_float(builder->node, "scale", 0);
    heads.hidden = lowest(builder_dtype(builder, heads.q));
    add_mask(builder, &heads, builder_input(builder, 4), input,
             rw_attr_float(builder->node, "mask_filter_value", -10000));
    if (rw_attr_int(builder->node, "unidirectional", 0) != 0)
        heads.mask = causal(builder, heads.q, heads.k);
    output = join_heads(builder, attend(builder, &heads));
    builder_set_output(builder, 0, output);
    builder_set_output(builder, 1, heads.k);
    builder_set_output(builder, 2, heads.v);
}

/* Keys or values [batch, heads, 1, size] written into those of the past behind the `used` ones, as both stand in one
 * buffer; *all are those that count. */
static uint32_t in_buffer(subgraph_builder *builder, uint32_t past, uint32_t fresh, uint32_t used, uint32_t *all)
{
    const uint32_t batch = emit_op(builder, "Slice", 13, emit_typed(builder, "Shape", 13, INLAY_INT64, past),
                                   emit_list(builder, 0), emit_list(builder, 1));
    const uint32_t end = SHAPED(builder, emit_op(builder, "Add", 14, used, scalar(builder, 1)), 1);
    uint32_t buffer = emit_op(builder, "TensorScatter", 24, past, fresh,
                              emit_op(builder, "Expand", 13, SHAPED(builder, used, 1), batch));

    emit_attr_int(builder, "axis", 2);
    *all = emit_op(builder, "Slice", 13, buffer, emit_list(builder, 0), end, emit_list(builder, 2));
    return buffer;
}

/* One row of queries for each sequence; keys and values of one row and a past, or those of an encoder, by head. */
void decompose_decoder_masked(subgraph_builder *builder)
{
    const int64_t count = rw_attr_int(builder->node, "num_heads", 0);
    const uint32_t bias = builder_input(builder, 10), past_k = builder_input(builder, 5),
                   past_v = builder_input(builder, 6), input = builder_input(builder, 0);
    const bool shares = rw_attr_int(builder->node, "past_present_share_buffer", 0) != 0 && past_k != INLAY_NONE;
    struct heads heads = { input,
                           builder_input(builder, 1),
                           builder_input(builder, 2),
                           builder_input(builder, 4),
                           INLAY_NONE,
                           INLAY_NONE,
                           0,
                           0,
                           0 };
    const int64_t wide = rw_dim(rw_info(builder->rewrite, input), -1);
    const uint32_t rank = rank_or(builder, heads.k, past_k != INLAY_NONE ? 3 : builder_rank(builder, heads.v));
    const bool open = rank == INLAY_RANK_UNKNOWN;
    const char *why = count <= 0                                         ? "num_heads is not positive"
                      : builder_wants(builder, 3)                        ? "it is to give the scores (output 3)"
                      : rank_or(builder, input, 3) != 3                  ? "query is not of rank 3"
                      : heads.k == INLAY_NONE || heads.v == INLAY_NONE   ? "key or value is missing"
                      : !open && rank != 3 && rank != 4                  ? "key is neither of rank 3 nor 4"
                      : rank_or(builder, heads.v, rank) != rank          ? "key and value are of different ranks"
                      : builder_input(builder, 9) != INLAY_NONE          ? "it is a step of a beam search (input 9)"
                      : (past_k == INLAY_NONE) != (past_v == INLAY_NONE) ? "one of the pasts is missing"
                      : shares && builder_input(builder, 7) == INLAY_NONE
                          ? "past_sequence_length is missing, and its past is in a buffer"
                          : why_not_mask(builder, builder_input(builder, 3), input);
    uint32_t present_k, present_v, used;

    if (builder_refuse(builder, why) || (open && decompose_by_rank(builder, 1, 3, 4)) ||
        decompose_by_rank(builder, 3, 1, 3))
        return;
    heads.q = emit_ranked(builder, heads.q, 3);
    heads.k = emit_ranked(builder, heads.k, rank);
    heads.v = emit_ranked(builder, heads.v, rank);
    add_columns(builder, &heads.q, bias, input, wide, 0);
    add_columns(builder, &heads.k, bias, input, wide, 1);
    add_columns(builder, &heads.v, bias, input, wide, 2);
    heads.q = split_heads(builder, heads.q, count);
    present_k = heads.k = split_heads(builder, heads.k, count);
    present_v = heads.v = split_heads(builder, heads.v, count);
    if (shares) {
        used = emit_cast(builder, shaped(builder, builder_input(builder, 7), NULL, 0), INLAY_INT64);
        present_k = in_buffer(builder, past_k, heads.k, used, &heads.k);
        present_v = in_buffer(builder, past_v, heads.v, used, &heads.v);
    } else if (past_k != INLAY_NONE) {
        present_k = heads.k = joined(builder, past_k, heads.k, 2);
        present_v = heads.v = joined(builder, past_v, heads.v, 2);
    }
    heads.scale = rw_attr_float(builder->node, "scale", 0);
    heads.hidden = lowest(builder_dtype(builder, heads.q));
    add_mask(builder, &heads, builder_input(builder, 3), input,
             rw_attr_float(builder->node, "mask_filter_value", -10000));
    builder_set_output(builder, 0, join_heads(builder, attend(builder, &heads)));
    builder_set_output(builder, 1, present_k);
    builder_set_output(builder, 2, present_v);
}

/* ------------------------------------------------------------------ Attention, QAttention */

/* Queries, keys and values of one product, [batch, rows, columns], by head. given: how many columns each of them has,
 * NULL: equally many. wide: columns; -1: not known. */
static void split_product(subgraph_builder *builder, struct heads *heads, uint32_t all, const int64_t *given,
                          int64_t wide, int64_t count)
{
    uint32_t *const parts[] = { &heads->q, &heads->k, &heads->v };
    int64_t from = 0;

    if (given == NULL && wide < 0)
        all = SHAPED(builder, all, 0, 0, 3, count, -1);
    for (uint32_t i = 0; i < 3; i++) {
        const int64_t size = given != NULL ? given[i] : wide / 3;

        if (given == NULL && wide < 0)
            *parts[i] = part(builder, all, i, 2);
        else
            *parts[i] = SHAPED(builder, columns(builder, all, from, from + size), 0, 0, count, size / count);
        from += size;
    }
    for (uint32_t i = 0; i < 3; i++)
        *parts[i] = emit_transpose(builder, *parts[i], by_head, 4);
}

void decompose_attention(subgraph_builder *builder)
{
    const bool quantized = builder->node->info.op_type.data[0] == 'Q';
    const int64_t count = rw_attr_int(builder->node, "num_heads", 0);
    const uint32_t input = builder_input(builder, 0), weights = builder_input(builder, 1),
                   bias = builder_input(builder, 2);
    const uint32_t mask = builder_input(builder, quantized ? 5 : 3), past = builder_input(builder, quantized ? 8 : 4);
    const int64_t wide = rw_dim(rw_info(builder->rewrite, weights), 1);
    struct heads heads = { .bias = quantized ? INLAY_NONE : builder_input(builder, 5),
                           .mask = INLAY_NONE,
                           .sink = INLAY_NONE };
    uint32_t sizes = 0, all;
    const int64_t *given = rw_attr_ints(builder->node, "qkv_hidden_sizes", &sizes);
    const char *why = count <= 0                                              ? "num_heads is not positive"
                      : rank_or(builder, input, 3) != 3                       ? "input is not of rank 3"
                      : rw_attr_int(builder->node, "do_rotary", 0) != 0       ? "do_rotary is set"
                      : !quantized && builder_input(builder, 6) != INLAY_NONE ? "its past is in a buffer (input 6)"
                      : given != NULL && sizes != 3                           ? "qkv_hidden_sizes are not three"
                      : given != NULL && wide >= 0 && given[0] + given[1] + given[2] != wide
                          ? "qkv_hidden_sizes are not those of weights"
                          : why_not_mask(builder, mask, input);

    if (builder_refuse(builder, why) || decompose_by_rank(builder, quantized ? 5 : 3, 1, 3))
        return;
    all = quantized ? contributed_in_units(builder, emit_ranked(builder, input, 3), weights, builder_input(builder, 6),
                                           builder_input(builder, 7), builder_input(builder, 3),
                                           builder_input(builder, 4), INLAY_NONE)
                    : emit_op(builder, "MatMul", 13, emit_ranked(builder, input, 3), weights);
    if (bias != INLAY_NONE)
        all = emit_op(builder, "Add", 14, all, bias);
    split_product(builder, &heads, all, given, wide, count);
    if (past != INLAY_NONE) { /* [2, batch, heads, rows, size] */
        heads.k = joined(builder, part(builder, past, 0, 0), heads.k, 2);
        heads.v = joined(builder, part(builder, past, 1, 0), heads.v, 2);
    }
    heads.scale = rw_attr_float(builder->node, "scale", 0);
    heads.hidden = lowest(builder_dtype(builder, heads.q));
    add_mask(builder, &heads, mask, input, rw_attr_float(builder->node, "mask_filter_value", -10000));
    if (rw_attr_int(builder->node, "unidirectional", 0) != 0)
        heads.mask = causal(builder, heads.q, heads.k);
    builder_set_output(builder, 0, join_heads(builder, attend(builder, &heads)));
    if (builder_wants(builder, 1))
        builder_set_output(builder, 1,
                           joined(builder, emit_op(builder, "Unsqueeze", 13, heads.k, emit_list(builder, 0)),
                                  emit_op(builder, "Unsqueeze", 13, heads.v, emit_list(builder, 0)), 0));
}

/* ------------------------------------------------------------------ RotaryEmbedding */

static uint32_t rotated(subgraph_builder *builder, uint32_t input, uint32_t cosines, uint32_t sines, uint32_t places,
                        bool interleaved, int64_t size, int64_t count)
{
    uint32_t output = emit_op(builder, "RotaryEmbedding", 23, input, cosines, sines, places);

    emit_attr_int(builder, "interleaved", interleaved);
    if (size > 0)
        emit_attr_int(builder, "rotary_embedding_dim", size);
    if (count > 0)
        emit_attr_int(builder, "num_heads", count);
    return output;
}

/* [batch, rows, heads * size] as [batch, heads, rows, size], where size is twice what cosines has in a row. */
static uint32_t split_by_angles(subgraph_builder *builder, uint32_t input, uint32_t cosines)
{
    const uint32_t half = SHAPED(builder, size_of(builder, cosines, 1), 1);
    const uint32_t dims = joined(builder, emit_list(builder, 0, 0, -1), emit_op(builder, "Add", 14, half, half), 0);

    return emit_transpose(builder, emit_op(builder, "Reshape", 13, input, dims), by_head, 4);
}

void decompose_rotary(subgraph_builder *builder)
{
    const uint32_t input = builder_input(builder, 0), rank = builder_rank(builder, input),
                   cosines = builder_input(builder, 2), sines = builder_input(builder, 3);
    const int64_t half = rw_dim(rw_info(builder->rewrite, cosines), -1),
                  wide = rw_dim(rw_info(builder->rewrite, input), -1);
    const int64_t size = rw_attr_int(builder->node, "rotary_embedding_dim", 0);
    const bool interleaved = rw_attr_int(builder->node, "interleaved", 0) != 0;
    int64_t count = rw_attr_int(builder->node, "num_heads", 0);
    uint32_t places = builder_input(builder, 1), first;
    const char *why = rank != INLAY_RANK_UNKNOWN && rank != 3 && rank != 4       ? "input is neither of rank 3 nor 4"
                      : rw_attr_int(builder->node, "is_packed_batching", 0) != 0 ? "is_packed_batching is set"
                      : rw_attr_float(builder->node, "scale", 1) != 1            ? "scale is not 1"
                                                                                 : NULL;

    if (builder_refuse(builder, why) || decompose_by_rank(builder, 0, 3, 4) || decompose_by_rank(builder, 1, 1, 2))
        return;
    if (builder_rank(builder, places) == 1) { /* where the first row is; the others follow */
        const uint32_t shape = emit_typed(builder, "Shape", 13, INLAY_INT64, input);

        first = emit_op(builder, "Add", 14, places, count_to(builder, size_of(builder, input, rank - 2)));
        places = emit_op(
            builder, "Expand", 13, first,
            joined(builder, emit_op(builder, "Slice", 13, shape, emit_list(builder, 0), emit_list(builder, 1)),
                   emit_op(builder, "Slice", 13, shape, emit_list(builder, rank - 2), emit_list(builder, rank - 1)),
                   0));
    }
    if (rank == 3 && count == 0 && half > 0 && wide > 0)
        count = wide / (2 * half);
    if (rank == 3 && count == 0)
        builder_set_output(builder, 0,
                           join_heads(builder, rotated(builder, split_by_angles(builder, input, cosines), cosines,
                                                       sines, places, interleaved, size, 0)));
    else
        builder_set_output(builder, 0,
                           rotated(builder, input, cosines, sines, places, interleaved, size, rank == 3 ? count : 0));
}

/* ------------------------------------------------------------------ GroupQueryAttention */

/* Keys or values of fewer heads, each for `times` heads of queries. */
static uint32_t repeated(subgraph_builder *builder, uint32_t value, int64_t times, int64_t count)
{
    uint32_t shape, axes;

    if (times == 1)
        return value;
    shape = emit_typed(builder, "Shape", 13, INLAY_INT64, value);
    value = emit_op(builder, "Unsqueeze", 13, value, emit_list(builder, 2));
    axes = joined(builder, emit_op(builder, "Slice", 13, shape, emit_list(builder, 0), emit_list(builder, 2)),
                  emit_list(builder, times), 0);
    axes = joined(builder, axes, emit_op(builder, "Slice", 13, shape, emit_list(builder, 2), emit_list(builder, 4)), 0);
    value = emit_op(builder, "Expand", 13, value, axes);
    axes = joined(builder, emit_op(builder, "Slice", 13, shape, emit_list(builder, 0), emit_list(builder, 1)),
                  emit_list(builder, count), 0);
    axes = joined(builder, axes, emit_op(builder, "Slice", 13, shape, emit_list(builder, 2), emit_list(builder, 4)), 0);
    return emit_op(builder, "Reshape", 13, value, axes);
}

/* The present: the past with room for all keys, the new ones written behind what counts of it. What makes the room are
 * the new ones, too, for that is where they go but in sequences that are shorter than others. */
static uint32_t present(subgraph_builder *builder, uint32_t past, uint32_t fresh, uint32_t used, uint32_t length)
{
    uint32_t room;

    if (past == INLAY_NONE)
        return fresh;
    room = SHAPED(builder, emit_op(builder, "Sub", 14, length, size_of(builder, past, 2)), 1);
    room = emit_op(builder, "Slice", 13, fresh, emit_list(builder, 0), room, emit_list(builder, 2));
    past = emit_op(builder, "TensorScatter", 24, joined(builder, past, room, 2), fresh, used);
    emit_attr_int(builder, "axis", 2);
    return past;
}

/* Attention-23, whose keys may have fewer heads than queries; all layers share the mask. */
static uint32_t attend_shared(subgraph_builder *builder, const struct heads *heads)
{
    const inlay_dtype dtype = builder_dtype(builder, heads->q);
    const uint32_t seen = heads->bias != INLAY_NONE ? heads->bias : emit_number(builder, dtype, 0);
    const uint32_t mask =
        emit_typed(builder, "Where", 16, dtype, heads->mask, seen, emit_number(builder, dtype, heads->hidden));
    const uint32_t output = emit_op(builder, "Attention", 23, heads->q, heads->k, heads->v, mask);

    if (heads->scale != 0)
        emit_attr_float(builder, "scale", heads->scale);
    return output;
}

/* Which keys count: none behind the row's own place, and of a window none too far before it. */
static uint32_t seen_keys(subgraph_builder *builder, uint32_t places, uint32_t length, int64_t window)
{
    const uint32_t keys = count_to(builder, length);
    uint32_t seen, begin;

    places = emit_op(builder, "Unsqueeze", 13, places, emit_list(builder, 1, 3));
    seen = emit_typed(builder, "LessOrEqual", 16, INLAY_BOOL, keys, places);
    if (window < 0)
        return seen;
    begin = emit_op(builder, "Sub", 14, places, scalar(builder, window));
    return emit_op(builder, "And", 7, seen, emit_typed(builder, "Greater", 13, INLAY_BOOL, keys, begin));
}

/* Queries, keys and values by head: they come so, or packed side by side. */
static void split_groups(subgraph_builder *builder, struct heads *heads, int64_t count, int64_t shared)
{
    uint32_t *const parts[] = { &heads->q, &heads->k, &heads->v };
    const int64_t each[] = { count, shared, shared };
    const int64_t wide = rw_dim(rw_info(builder->rewrite, heads->q), -1), size = wide / (count + 2 * shared);
    uint32_t packed = heads->q;
    int64_t from = 0;

    if (heads->k != INLAY_NONE) {
        for (uint32_t i = 0; i < 3; i++)
            *parts[i] = split_heads(builder, emit_ranked(builder, *parts[i], 3), each[i]);
        return;
    }
    packed = emit_ranked(builder, packed, 3);
    if (wide < 0)
        packed = SHAPED(builder, packed, 0, 0, count + 2 * shared, -1);
    for (uint32_t i = 0; i < 3; i++) {
        *parts[i] = wide < 0 ? emit_op(builder, "Slice", 13, packed, emit_list(builder, from),
                                       emit_list(builder, from + each[i]), emit_list(builder, 2))
                             : SHAPED(builder, columns(builder, packed, from * size, (from + each[i]) * size), 0, 0,
                                      each[i], size);
        *parts[i] = emit_transpose(builder, *parts[i], by_head, 4);
        from += each[i];
    }
}

/* rotated() where the angles, of which nobody knows how many there are, may be of a head's first elements alone. */
static uint32_t rotated_first(subgraph_builder *builder, uint32_t input, uint32_t cosines, uint32_t sines,
                              uint32_t places, bool interleaved)
{
    const uint32_t half = SHAPED(builder, size_of(builder, cosines, 1), 1),
                   size = emit_op(builder, "Add", 14, half, half);
    const uint32_t turns = emit_op(builder, "Slice", 13, input, emit_list(builder, 0), size, emit_list(builder, 3));
    const uint32_t rest =
        emit_op(builder, "Slice", 13, input, size, emit_list(builder, INT64_MAX), emit_list(builder, 3));

    return joined(builder, rotated(builder, turns, cosines, sines, places, interleaved, 0, 0), rest, 3);
}

/* What is added to the scores of the keys that count, for as many as the buffer has; the others are hidden anyway. */
static uint32_t for_all_keys(subgraph_builder *builder, uint32_t bias, uint32_t length)
{
    const uint32_t more = SHAPED(builder, emit_op(builder, "Sub", 14, length, size_of(builder, bias, 3)), 1);

    return emit_op(builder, "Pad", 13, bias, joined(builder, emit_list(builder, 0, 0, 0, 0, 0, 0, 0), more, 0));
}

void decompose_group_query(subgraph_builder *builder)
{
    const graph_node *node = builder->node;
    const int64_t count = rw_attr_int(node, "num_heads", 0), shared = rw_attr_int(node, "kv_num_heads", 0);
    const int64_t window = rw_attr_int(node, "local_window_size", -1);
    const bool turns = rw_attr_int(node, "do_rotary", 0) != 0, smooth = rw_attr_int(node, "smooth_softmax", 0) > 0;
    struct heads heads = { .q = builder_input(builder, 0),
                           .k = builder_input(builder, 1),
                           .v = builder_input(builder, 2),
                           .bias = builder_input(builder, 10),
                           .mask = INLAY_NONE,
                           .sink = builder_input(builder, 11),
                           .scale = rw_attr_float(node, "scale", 0),
                           .softcap = rw_attr_float(node, "softcap", 0) };
    const inlay_dtype dtype = builder_dtype(builder, heads.q);
    const char *why = count <= 0 || shared <= 0 || count % shared != 0 ? "num_heads is not a multiple of kv_num_heads"
                      : rank_or(builder, heads.q, 3) != 3              ? "query is not of rank 3"
                      : (heads.k == INLAY_NONE) != (heads.v == INLAY_NONE) ? "one of key and value is missing"
                      : turns && (builder_input(builder, 7) == INLAY_NONE || builder_input(builder, 8) == INLAY_NONE)
                          ? "do_rotary is set, and cos_cache or sin_cache is missing"
                      : builder_wants(builder, 3)   ? "it is to give the scores (output 3)"
                      : node->info.input_count > 12 ? "its past is quantized (k_scale, v_scale)"
                                                    : NULL;
    uint32_t rows, total, used, places, length;

    if (builder_refuse(builder, why))
        return;
    split_groups(builder, &heads, count, shared);
    rows = size_of(builder, builder_input(builder, 0), 1);
    total = emit_cast(builder, shaped(builder, builder_input(builder, 6), NULL, 0), INLAY_INT64);
    /* How much of the past counts in each row of the batch: nothing where this is the beginning. */
    used = emit_op(builder, "Sub", 14,
                   emit_op(builder, "Add", 14,
                           emit_cast(builder, SHAPED(builder, builder_input(builder, 5), -1), INLAY_INT64),
                           scalar(builder, 1)),
                   rows);
    used = emit_typed(builder, "Where", 16, INLAY_INT64, emit_typed(builder, "Equal", 13, INLAY_BOOL, total, rows),
                      scalar(builder, 0), used);
    places = emit_op(builder, "Add", 14, SHAPED(builder, used, -1, 1), count_to(builder, rows)); /* [batch, rows] */
    if (turns) {
        const uint32_t given = builder_input(builder, 9) != INLAY_NONE ? builder_input(builder, 9) : places;
        const bool interleaved = rw_attr_int(node, "rotary_interleaved", 0) != 0;
        const int64_t half = rw_dim(rw_info(builder->rewrite, builder_input(builder, 7)), -1);
        uint32_t *const both[] = { &heads.q, &heads.k };

        for (uint32_t i = 0; i < 2; i++)
            *both[i] = half < 0 ? rotated_first(builder, *both[i], builder_input(builder, 7), builder_input(builder, 8),
                                                given, interleaved)
                                : rotated(builder, *both[i], builder_input(builder, 7), builder_input(builder, 8),
                                          given, interleaved, 2 * half, 0);
    }
    length = builder_input(builder, 3) == INLAY_NONE
                 ? rows
                 : emit_op(builder, "Max", 13, total, size_of(builder, builder_input(builder, 3), 2));
    heads.k = present(builder, builder_input(builder, 3), heads.k, used, length);
    heads.v = present(builder, builder_input(builder, 4), heads.v, used, length);
    if (heads.bias != INLAY_NONE && builder_input(builder, 3) != INLAY_NONE)
        heads.bias = for_all_keys(builder, heads.bias, length);
    builder_set_output(builder, 1, heads.k);
    builder_set_output(builder, 2, heads.v);
    heads.mask = seen_keys(builder, places, length, window);
    heads.hidden = lowest(dtype);
    if (heads.sink != INLAY_NONE)
        heads.sink = SHAPED(builder, heads.sink, 1, -1, 1, 1);
    else if (smooth)
        heads.sink = emit_number(builder, dtype, 0);
    if (heads.sink == INLAY_NONE && heads.softcap <= 0 && dtype == INLAY_FLOAT) {
        builder_set_output(builder, 0, join_heads(builder, attend_shared(builder, &heads)));
        return;
    }
    heads.k = repeated(builder, heads.k, count / shared, count);
    heads.v = repeated(builder, heads.v, count / shared, count);
    builder_set_output(builder, 0, join_heads(builder, attend(builder, &heads)));
}
