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

static uint32_t scalar(struct spell *spell, int64_t value)
{
    uint32_t value_index = spell->status != INLAY_OK
                               ? INLAY_NONE
                               : rw_constant(spell->rewrite, INLAY_INT64, 0, NULL, &value, sizeof value);

    if (value_index == INLAY_NONE && spell->status == INLAY_OK)
        spell->status = rw_no_memory(spell->rewrite);
    return value_index;
}

/* The first input of the model with an axis of the same name as axis *d of value, and that axis; value itself: there is
 * none. All layers then ask the same for the same sizes, and share what is made of them. */
static uint32_t named_alike(const struct spell *spell, uint32_t value, int64_t *d)
{
    const inlay_value_info *info = rw_info(spell->rewrite, value), *in;
    const struct graph *graph = spell->rewrite->graph;

    if (graph->parent != NULL || info->rank == INLAY_RANK_UNKNOWN || *d >= info->rank ||
        info->dims[*d].kind != INLAY_DIM_SYMBOLIC)
        return value;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        in = rw_info(spell->rewrite, graph->inputs[i]);
        for (uint32_t e = 0; in->rank != INLAY_RANK_UNKNOWN && e < in->rank; e++)
            if (in->dims[e].kind == INLAY_DIM_SYMBOLIC && in->dims[e].symbol == info->dims[*d].symbol) {
                *d = e;
                return graph->inputs[i];
            }
    }
    return value;
}

/* Size d of value, as int64 of rank 0. */
static uint32_t size_of(struct spell *spell, uint32_t value, int64_t d)
{
    value = named_alike(spell, value, &d);
    return spell_op(spell, "Gather", 13, spell_typed(spell, "Shape", 13, INLAY_INT64, value), scalar(spell, d));
}

static uint32_t count_to(struct spell *spell, uint32_t end)
{
    return spell_op(spell, "Range", 11, scalar(spell, 0), end, scalar(spell, 1));
}

static uint32_t shaped(struct spell *spell, uint32_t value, const int64_t *dims, uint32_t count)
{
    return spell_op(spell, "Reshape", 13, value, spell_integers(spell, dims, count));
}
#define SHAPED(b, v, ...)                                                                                              \
    shaped(b, v, (const int64_t[]){ __VA_ARGS__ },                                                                     \
           (uint32_t)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

static uint32_t joined(struct spell *spell, uint32_t input, uint32_t output, int64_t axis)
{
    uint32_t value = spell_op(spell, "Concat", 13, input, output);

    spell_int(spell, "axis", axis);
    return value;
}

static const int64_t by_head[] = { 0, 2, 1, 3 };

/* [batch, rows, heads * size] to [batch, heads, rows, size]; other ranks are there already. */
static uint32_t split_heads(struct spell *spell, uint32_t value, int64_t count)
{
    const int64_t wide = rw_dim(rw_info(spell->rewrite, value), -1);

    if (spell_rank(spell, value) == 4)
        return value;
    return spell_transpose(spell, SHAPED(spell, value, 0, 0, count, wide > 0 ? wide / count : -1), by_head, 4);
}

static uint32_t join_heads(struct spell *spell, uint32_t value)
{
    return SHAPED(spell, spell_transpose(spell, value, by_head, 4), 0, 0, -1);
}

static uint32_t attend(struct spell *spell, const struct heads *heads)
{
    const inlay_dtype dtype = spell_dtype(spell, heads->q);
    const uint32_t turned = spell_transpose(spell, heads->k, (const int64_t[]){ 0, 1, 3, 2 }, 4);
    uint32_t scores, scale;

    if (heads->scale != 0) {
        scale = spell_number(spell, dtype, heads->scale);
    } else {
        scale = spell_cast(spell, size_of(spell, heads->q, 3), dtype);
        scale = spell_op(spell, "Reciprocal", 13, spell_op(spell, "Sqrt", 13, scale));
    }
    scores = spell_op(spell, "Mul", 14, spell_op(spell, "MatMul", 13, heads->q, turned), scale);
    if (heads->softcap > 0) {
        const uint32_t cap = spell_number(spell, dtype, heads->softcap);

        scores = spell_op(spell, "Mul", 14, spell_op(spell, "Tanh", 13, spell_op(spell, "Div", 14, scores, cap)), cap);
    }
    if (heads->bias != INLAY_NONE)
        scores = spell_op(spell, "Add", 14, scores, heads->bias);
    if (heads->mask != INLAY_NONE)
        scores = spell_typed(spell, "Where", 16, dtype, heads->mask, scores, spell_number(spell, dtype, heads->hidden));
    if (heads->sink == INLAY_NONE) {
        scores = spell_op(spell, "Softmax", 13, scores);
        spell_int(spell, "axis", -1);
        return spell_op(spell, "MatMul", 13, scores, heads->v);
    }
    {
        const uint32_t first =
            spell_op(spell, "Slice", 13, scores, spell_list(spell, 0), spell_list(spell, 1), spell_list(spell, 3));
        const uint32_t zero = spell_op(spell, "Mul", 14, first, spell_number(spell, dtype, 0));

        /* The column takes part in the sum and goes again. A hidden score times 0 is 0 all the same. */
        scores = joined(spell, scores, spell_op(spell, "Add", 14, zero, heads->sink), 3);
        scores = spell_op(spell, "Softmax", 13, scores);
        spell_int(spell, "axis", -1);
        scores =
            spell_op(spell, "Slice", 13, scores, spell_list(spell, 0), spell_list(spell, -1), spell_list(spell, 3));
    }
    return spell_op(spell, "MatMul", 13, scores, heads->v);
}

/* ------------------------------------------------------------------ masks */

/* The lowest number of a float type: what hides a key altogether. */
static double lowest(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT16 ? -65504.0 : -3.4028234663852886e38;
}

/* true at [rows, keys] where the key is not after the row; the last row meets the last key. */
static uint32_t causal(struct spell *spell, uint32_t q, uint32_t k)
{
    const uint32_t rows = size_of(spell, q, 2), keys = size_of(spell, k, 2);
    const uint32_t place = spell_op(spell, "Add", 14, count_to(spell, rows), spell_op(spell, "Sub", 14, keys, rows));

    return spell_typed(spell, "LessOrEqual", 16, INLAY_BOOL, count_to(spell, keys), SHAPED(spell, place, -1, 1));
}

/* Why a mask of the caller's cannot be read; NULL: it can, or there is none. input is [batch, ..]. */
static const char *why_not_mask(const struct spell *spell, uint32_t mask, uint32_t input)
{
    const int64_t count = mask == INLAY_NONE ? -1 : rw_dim(rw_info(spell->rewrite, mask), 0);
    const int64_t batch = rw_dim(rw_info(spell->rewrite, input), 0);
    const uint32_t rank = spell_rank(spell, mask);

    return mask == INLAY_NONE           ? NULL
           : rank == INLAY_RANK_UNKNOWN ? NULL /* spell_by_rank() */
           : rank == 0 || rank > 3      ? "its mask is neither of rank 1, 2 nor 3"
           : rank == 1 && count >= 0 && batch >= 0 && count != batch && count != 2 * batch && count != 3 * batch + 2
               ? "its mask of rank 1 is neither [batch], [2 * batch] nor [3 * batch + 2]"
               : NULL;
}

/* Is dimension 0 of both the same for sure? */
static bool same_first(const struct spell *spell, uint32_t value, uint32_t input)
{
    const inlay_value_info *info = rw_info(spell->rewrite, value), *value_info = rw_info(spell->rewrite, input);

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
static uint32_t keys_between(struct spell *spell, uint32_t mask, uint32_t input, uint32_t keys)
{
    uint32_t batch, ends = mask, begins = INLAY_NONE, counts, doubled;

    if (!same_first(spell, mask, input)) {
        batch = SHAPED(spell, size_of(spell, input, 0), 1);
        doubled = spell_op(spell, "Add", 14, batch, batch);
        ends = spell_op(spell, "Slice", 13, mask, spell_list(spell, 0), batch);
        begins = spell_op(spell, "Slice", 13, mask, spell_op(spell, "Neg", 13, batch), spell_list(spell, INT64_MAX));
        begins = spell_op(
            spell, "Where", 16,
            spell_typed(spell, "Equal", 13, INLAY_BOOL, spell_typed(spell, "Shape", 13, INLAY_INT64, mask), doubled),
            spell_cast(spell, begins, INLAY_INT64), scalar(spell, 0));
        spell->rewrite->graph->values[begins].info.dtype = INLAY_INT64;
    }
    counts = spell_typed(spell, "Less", 13, INLAY_BOOL, keys,
                         spell_cast(spell, SHAPED(spell, ends, -1, 1, 1, 1), INLAY_INT64));
    if (begins == INLAY_NONE)
        return counts;
    return spell_op(spell, "And", 7, counts,
                    spell_typed(spell, "GreaterOrEqual", 16, INLAY_BOOL, keys, SHAPED(spell, begins, -1, 1, 1, 1)));
}

/* A mask of the caller's that why_not_mask() takes, as what is added to the scores: which keys of each row of input,
 * [batch, ..], count, of rank 1 or as [batch, keys] or [batch, rows, keys]. */
static void add_mask(struct spell *spell, struct heads *heads, uint32_t mask, uint32_t input, double hidden)
{
    const uint32_t rank = spell_rank(spell, mask);
    const inlay_dtype dtype = spell_dtype(spell, heads->q);
    uint32_t counts, bias;

    if (mask == INLAY_NONE)
        return;
    if (rank == 1)
        counts = keys_between(spell, mask, input, count_to(spell, size_of(spell, heads->k, 2)));
    else
        counts = spell_cast(
            spell, spell_op(spell, "Unsqueeze", 13, mask, rank == 2 ? spell_list(spell, 1, 2) : spell_list(spell, 1)),
            INLAY_BOOL);
    bias = spell_typed(spell, "Where", 16, dtype, counts, spell_number(spell, dtype, 0),
                       spell_number(spell, dtype, hidden));
    heads->bias = heads->bias == INLAY_NONE ? bias : spell_op(spell, "Add", 14, heads->bias, bias);
}

/* ------------------------------------------------------------------ MultiHeadAttention */

/* Part `at` of `count` along the given axis, which goes away. */
static uint32_t part(struct spell *spell, uint32_t value, int64_t at, int64_t axis)
{
    uint32_t made = spell_op(spell, "Gather", 13, value, scalar(spell, at));

    spell_int(spell, "axis", axis);
    return made;
}

/* Columns [from, to) of the last axis. */
static uint32_t columns(struct spell *spell, uint32_t value, int64_t from, int64_t to)
{
    return spell_op(spell, "Slice", 13, value, spell_list(spell, from), spell_list(spell, to), spell_list(spell, -1));
}

/* Adds to *v, of rank 3, its part of a bias for queries, keys and values: queries are `wide` columns, or as many as
 * input where that is not known (-1). */
static void add_columns(struct spell *spell, uint32_t *v, uint32_t bias, uint32_t input, int64_t wide, int64_t at)
{
    uint32_t from, to;

    if (bias == INLAY_NONE || spell_rank(spell, *v) != 3)
        return;
    if (wide > 0) {
        from = spell_list(spell, at * wide);
        to = spell_list(spell, at == 2 ? INT64_MAX : (at + 1) * wide);
    } else {
        const uint32_t one = SHAPED(spell, size_of(spell, input, 2), 1);

        from = spell_op(spell, "Mul", 14, one, scalar(spell, at));
        to = at == 2 ? spell_list(spell, INT64_MAX) : spell_op(spell, "Mul", 14, one, scalar(spell, at + 1));
    }
    *v = spell_op(spell, "Add", 14, *v, spell_op(spell, "Slice", 13, bias, from, to, spell_list(spell, -1)));
}

/* Queries, keys and values that came packed, of rank 5, which are by head then. */
static void unpack(struct spell *spell, struct heads *heads)
{
    const uint32_t packed = heads->k == INLAY_NONE ? heads->q : heads->k;

    if (heads->v != INLAY_NONE)
        return;
    if (heads->k == INLAY_NONE) /* [batch, rows, heads, 3, size], otherwise [batch, rows, heads, 2, size] */
        heads->q = spell_transpose(spell, part(spell, packed, 0, 3), by_head, 4);
    heads->v = spell_transpose(spell, part(spell, packed, heads->k == INLAY_NONE ? 2 : 1, 3), by_head, 4);
    heads->k = spell_transpose(spell, part(spell, packed, heads->k == INLAY_NONE ? 1 : 0, 3), by_head, 4);
}

/* The rank of value, `otherwise` where it is not known. */
static uint32_t rank_or(const struct spell *spell, uint32_t value, uint32_t otherwise)
{
    const uint32_t rank = spell_rank(spell, value);

    return rank == INLAY_RANK_UNKNOWN ? otherwise : rank;
}

void spell_multi_head(struct spell *spell)
{
    const int64_t count = rw_attr_int(spell->node, "num_heads", 0);
    const uint32_t bias = spell_in(spell, 3), past_k = spell_in(spell, 6), past_v = spell_in(spell, 7),
                   input = spell_in(spell, 0);
    struct heads heads = {
        input, spell_in(spell, 1), spell_in(spell, 2), spell_in(spell, 5), INLAY_NONE, INLAY_NONE, 0, 0, 0
    };
    const int64_t wide = rw_dim(rw_info(spell->rewrite, input), -1);
    const bool packed = heads.v == INLAY_NONE;
    const uint32_t rank = heads.k == INLAY_NONE ? 5 : 3; /* of queries */
    const uint32_t key_rank = rank_or(spell, heads.k, packed ? 5 : spell_rank(spell, heads.v));
    const bool open = !packed && key_rank == INLAY_RANK_UNKNOWN;
    const char *why = count <= 0                                         ? "num_heads is not positive"
                      : spell_wants(spell, 3)                            ? "it is to give the scores (output 3)"
                      : spell_in(spell, 8) != INLAY_NONE                 ? "its past is in a buffer (input 8)"
                      : rank_or(spell, input, rank) != rank              ? "query is not of the rank that key asks for"
                      : heads.k == INLAY_NONE && !packed                 ? "value is there, but no key"
                      : heads.k != INLAY_NONE && packed && key_rank != 5 ? "value is missing, and key is not packed"
                      : !packed && !open && key_rank != 3 && key_rank != 4 ? "key is neither of rank 3 nor 4"
                      : !packed && (rank_or(spell, heads.v, key_rank) != key_rank)
                          ? "key and value are of different ranks"
                      : bias != INLAY_NONE && rank != 3 ? "it has a bias, and query is packed"
                                                        : why_not_mask(spell, spell_in(spell, 4), input);
    uint32_t output;

    if (spell_refuse(spell, why) || (open && spell_by_rank(spell, 1, 3, 4)) || spell_by_rank(spell, 4, 1, 3))
        return;
    heads.q = spell_ranked(spell, heads.q, rank);
    if (heads.k != INLAY_NONE)
        heads.k = spell_ranked(spell, heads.k, key_rank);
    if (heads.v != INLAY_NONE)
        heads.v = spell_ranked(spell, heads.v, key_rank);
    unpack(spell, &heads);
    add_columns(spell, &heads.q, bias, input, wide, 0);
    if (!packed) {
        add_columns(spell, &heads.k, bias, input, wide, 1);
        add_columns(spell, &heads.v, bias, input, wide, 2);
    }
    if (rank != 5)
        heads.q = split_heads(spell, heads.q, count);
    if (!packed) {
        heads.k = split_heads(spell, heads.k, count);
        heads.v = split_heads(spell, heads.v, count);
    }
    if (past_k != INLAY_NONE)
        heads.k = joined(spell, past_k, heads.k, 2);
    if (past_v != INLAY_NONE)
        heads.v = joined(spell, past_v, heads.v, 2);
    heads.scale = rw_attr_float(spell->node, "scale", 0);
    heads.hidden = lowest(spell_dtype(spell, heads.q));
    add_mask(spell, &heads, spell_in(spell, 4), input, rw_attr_float(spell->node, "mask_filter_value", -10000));
    if (rw_attr_int(spell->node, "unidirectional", 0) != 0)
        heads.mask = causal(spell, heads.q, heads.k);
    output = join_heads(spell, attend(spell, &heads));
    spell_output(spell, 0, output);
    spell_output(spell, 1, heads.k);
    spell_output(spell, 2, heads.v);
}

/* Keys or values [batch, heads, 1, size] written into those of the past behind the `used` ones, as both stand in one
 * buffer; *all are those that count. */
static uint32_t in_buffer(struct spell *spell, uint32_t past, uint32_t fresh, uint32_t used, uint32_t *all)
{
    const uint32_t batch = spell_op(spell, "Slice", 13, spell_typed(spell, "Shape", 13, INLAY_INT64, past),
                                    spell_list(spell, 0), spell_list(spell, 1));
    const uint32_t end = SHAPED(spell, spell_op(spell, "Add", 14, used, scalar(spell, 1)), 1);
    uint32_t buffer =
        spell_op(spell, "TensorScatter", 24, past, fresh, spell_op(spell, "Expand", 13, SHAPED(spell, used, 1), batch));

    spell_int(spell, "axis", 2);
    *all = spell_op(spell, "Slice", 13, buffer, spell_list(spell, 0), end, spell_list(spell, 2));
    return buffer;
}

/* One row of queries for each sequence; keys and values of one row and a past, or those of an encoder, by head. */
void spell_decoder_masked(struct spell *spell)
{
    const int64_t count = rw_attr_int(spell->node, "num_heads", 0);
    const uint32_t bias = spell_in(spell, 10), past_k = spell_in(spell, 5), past_v = spell_in(spell, 6),
                   input = spell_in(spell, 0);
    const bool shares = rw_attr_int(spell->node, "past_present_share_buffer", 0) != 0 && past_k != INLAY_NONE;
    struct heads heads = {
        input, spell_in(spell, 1), spell_in(spell, 2), spell_in(spell, 4), INLAY_NONE, INLAY_NONE, 0, 0, 0
    };
    const int64_t wide = rw_dim(rw_info(spell->rewrite, input), -1);
    const uint32_t rank = rank_or(spell, heads.k, past_k != INLAY_NONE ? 3 : spell_rank(spell, heads.v));
    const bool open = rank == INLAY_RANK_UNKNOWN;
    const char *why = count <= 0                                         ? "num_heads is not positive"
                      : spell_wants(spell, 3)                            ? "it is to give the scores (output 3)"
                      : rank_or(spell, input, 3) != 3                    ? "query is not of rank 3"
                      : heads.k == INLAY_NONE || heads.v == INLAY_NONE   ? "key or value is missing"
                      : !open && rank != 3 && rank != 4                  ? "key is neither of rank 3 nor 4"
                      : rank_or(spell, heads.v, rank) != rank            ? "key and value are of different ranks"
                      : spell_in(spell, 9) != INLAY_NONE                 ? "it is a step of a beam search (input 9)"
                      : (past_k == INLAY_NONE) != (past_v == INLAY_NONE) ? "one of the pasts is missing"
                      : shares && spell_in(spell, 7) == INLAY_NONE
                          ? "past_sequence_length is missing, and its past is in a buffer"
                          : why_not_mask(spell, spell_in(spell, 3), input);
    uint32_t present_k, present_v, used;

    if (spell_refuse(spell, why) || (open && spell_by_rank(spell, 1, 3, 4)) || spell_by_rank(spell, 3, 1, 3))
        return;
    heads.q = spell_ranked(spell, heads.q, 3);
    heads.k = spell_ranked(spell, heads.k, rank);
    heads.v = spell_ranked(spell, heads.v, rank);
    add_columns(spell, &heads.q, bias, input, wide, 0);
    add_columns(spell, &heads.k, bias, input, wide, 1);
    add_columns(spell, &heads.v, bias, input, wide, 2);
    heads.q = split_heads(spell, heads.q, count);
    present_k = heads.k = split_heads(spell, heads.k, count);
    present_v = heads.v = split_heads(spell, heads.v, count);
    if (shares) {
        used = spell_cast(spell, shaped(spell, spell_in(spell, 7), NULL, 0), INLAY_INT64);
        present_k = in_buffer(spell, past_k, heads.k, used, &heads.k);
        present_v = in_buffer(spell, past_v, heads.v, used, &heads.v);
    } else if (past_k != INLAY_NONE) {
        present_k = heads.k = joined(spell, past_k, heads.k, 2);
        present_v = heads.v = joined(spell, past_v, heads.v, 2);
    }
    heads.scale = rw_attr_float(spell->node, "scale", 0);
    heads.hidden = lowest(spell_dtype(spell, heads.q));
    add_mask(spell, &heads, spell_in(spell, 3), input, rw_attr_float(spell->node, "mask_filter_value", -10000));
    spell_output(spell, 0, join_heads(spell, attend(spell, &heads)));
    spell_output(spell, 1, present_k);
    spell_output(spell, 2, present_v);
}

/* ------------------------------------------------------------------ Attention, QAttention */

/* Queries, keys and values of one product, [batch, rows, columns], by head. given: how many columns each of them has,
 * NULL: equally many. wide: columns; -1: not known. */
static void split_product(struct spell *spell, struct heads *heads, uint32_t all, const int64_t *given, int64_t wide,
                          int64_t count)
{
    uint32_t *const parts[] = { &heads->q, &heads->k, &heads->v };
    int64_t from = 0;

    if (given == NULL && wide < 0)
        all = SHAPED(spell, all, 0, 0, 3, count, -1);
    for (uint32_t i = 0; i < 3; i++) {
        const int64_t size = given != NULL ? given[i] : wide / 3;

        if (given == NULL && wide < 0)
            *parts[i] = part(spell, all, i, 2);
        else
            *parts[i] = SHAPED(spell, columns(spell, all, from, from + size), 0, 0, count, size / count);
        from += size;
    }
    for (uint32_t i = 0; i < 3; i++)
        *parts[i] = spell_transpose(spell, *parts[i], by_head, 4);
}

void spell_attention(struct spell *spell)
{
    const bool quantized = spell->node->info.op_type.data[0] == 'Q';
    const int64_t count = rw_attr_int(spell->node, "num_heads", 0);
    const uint32_t input = spell_in(spell, 0), weights = spell_in(spell, 1), bias = spell_in(spell, 2);
    const uint32_t mask = spell_in(spell, quantized ? 5 : 3), past = spell_in(spell, quantized ? 8 : 4);
    const int64_t wide = rw_dim(rw_info(spell->rewrite, weights), 1);
    struct heads heads = { .bias = quantized ? INLAY_NONE : spell_in(spell, 5),
                           .mask = INLAY_NONE,
                           .sink = INLAY_NONE };
    uint32_t sizes = 0, all;
    const int64_t *given = rw_attr_ints(spell->node, "qkv_hidden_sizes", &sizes);
    const char *why = count <= 0                                       ? "num_heads is not positive"
                      : rank_or(spell, input, 3) != 3                  ? "input is not of rank 3"
                      : rw_attr_int(spell->node, "do_rotary", 0) != 0  ? "do_rotary is set"
                      : !quantized && spell_in(spell, 6) != INLAY_NONE ? "its past is in a buffer (input 6)"
                      : given != NULL && sizes != 3                    ? "qkv_hidden_sizes are not three"
                      : given != NULL && wide >= 0 && given[0] + given[1] + given[2] != wide
                          ? "qkv_hidden_sizes are not those of weights"
                          : why_not_mask(spell, mask, input);

    if (spell_refuse(spell, why) || spell_by_rank(spell, quantized ? 5 : 3, 1, 3))
        return;
    all = quantized ? contributed_in_units(spell, spell_ranked(spell, input, 3), weights, spell_in(spell, 6),
                                           spell_in(spell, 7), spell_in(spell, 3), spell_in(spell, 4), INLAY_NONE)
                    : spell_op(spell, "MatMul", 13, spell_ranked(spell, input, 3), weights);
    if (bias != INLAY_NONE)
        all = spell_op(spell, "Add", 14, all, bias);
    split_product(spell, &heads, all, given, wide, count);
    if (past != INLAY_NONE) { /* [2, batch, heads, rows, size] */
        heads.k = joined(spell, part(spell, past, 0, 0), heads.k, 2);
        heads.v = joined(spell, part(spell, past, 1, 0), heads.v, 2);
    }
    heads.scale = rw_attr_float(spell->node, "scale", 0);
    heads.hidden = lowest(spell_dtype(spell, heads.q));
    add_mask(spell, &heads, mask, input, rw_attr_float(spell->node, "mask_filter_value", -10000));
    if (rw_attr_int(spell->node, "unidirectional", 0) != 0)
        heads.mask = causal(spell, heads.q, heads.k);
    spell_output(spell, 0, join_heads(spell, attend(spell, &heads)));
    if (spell_wants(spell, 1))
        spell_output(spell, 1,
                     joined(spell, spell_op(spell, "Unsqueeze", 13, heads.k, spell_list(spell, 0)),
                            spell_op(spell, "Unsqueeze", 13, heads.v, spell_list(spell, 0)), 0));
}

/* ------------------------------------------------------------------ RotaryEmbedding */

static uint32_t rotated(struct spell *spell, uint32_t input, uint32_t cosines, uint32_t sines, uint32_t places,
                        bool interleaved, int64_t size, int64_t count)
{
    uint32_t output = spell_op(spell, "RotaryEmbedding", 23, input, cosines, sines, places);

    spell_int(spell, "interleaved", interleaved);
    if (size > 0)
        spell_int(spell, "rotary_embedding_dim", size);
    if (count > 0)
        spell_int(spell, "num_heads", count);
    return output;
}

/* [batch, rows, heads * size] as [batch, heads, rows, size], where size is twice what cosines has in a row. */
static uint32_t split_by_angles(struct spell *spell, uint32_t input, uint32_t cosines)
{
    const uint32_t half = SHAPED(spell, size_of(spell, cosines, 1), 1);
    const uint32_t dims = joined(spell, spell_list(spell, 0, 0, -1), spell_op(spell, "Add", 14, half, half), 0);

    return spell_transpose(spell, spell_op(spell, "Reshape", 13, input, dims), by_head, 4);
}

void spell_rotary(struct spell *spell)
{
    const uint32_t input = spell_in(spell, 0), rank = spell_rank(spell, input), cosines = spell_in(spell, 2),
                   sines = spell_in(spell, 3);
    const int64_t half = rw_dim(rw_info(spell->rewrite, cosines), -1),
                  wide = rw_dim(rw_info(spell->rewrite, input), -1);
    const int64_t size = rw_attr_int(spell->node, "rotary_embedding_dim", 0);
    const bool interleaved = rw_attr_int(spell->node, "interleaved", 0) != 0;
    int64_t count = rw_attr_int(spell->node, "num_heads", 0);
    uint32_t places = spell_in(spell, 1), first;
    const char *why = rank != INLAY_RANK_UNKNOWN && rank != 3 && rank != 4     ? "input is neither of rank 3 nor 4"
                      : rw_attr_int(spell->node, "is_packed_batching", 0) != 0 ? "is_packed_batching is set"
                      : rw_attr_float(spell->node, "scale", 1) != 1            ? "scale is not 1"
                                                                               : NULL;

    if (spell_refuse(spell, why) || spell_by_rank(spell, 0, 3, 4) || spell_by_rank(spell, 1, 1, 2))
        return;
    if (spell_rank(spell, places) == 1) { /* where the first row is; the others follow */
        const uint32_t shape = spell_typed(spell, "Shape", 13, INLAY_INT64, input);

        first = spell_op(spell, "Add", 14, places, count_to(spell, size_of(spell, input, rank - 2)));
        places = spell_op(
            spell, "Expand", 13, first,
            joined(spell, spell_op(spell, "Slice", 13, shape, spell_list(spell, 0), spell_list(spell, 1)),
                   spell_op(spell, "Slice", 13, shape, spell_list(spell, rank - 2), spell_list(spell, rank - 1)), 0));
    }
    if (rank == 3 && count == 0 && half > 0 && wide > 0)
        count = wide / (2 * half);
    if (rank == 3 && count == 0)
        spell_output(spell, 0,
                     join_heads(spell, rotated(spell, split_by_angles(spell, input, cosines), cosines, sines, places,
                                               interleaved, size, 0)));
    else
        spell_output(spell, 0, rotated(spell, input, cosines, sines, places, interleaved, size, rank == 3 ? count : 0));
}

/* ------------------------------------------------------------------ GroupQueryAttention */

/* Keys or values of fewer heads, each for `times` heads of queries. */
static uint32_t repeated(struct spell *spell, uint32_t value, int64_t times, int64_t count)
{
    uint32_t shape, axes;

    if (times == 1)
        return value;
    shape = spell_typed(spell, "Shape", 13, INLAY_INT64, value);
    value = spell_op(spell, "Unsqueeze", 13, value, spell_list(spell, 2));
    axes = joined(spell, spell_op(spell, "Slice", 13, shape, spell_list(spell, 0), spell_list(spell, 2)),
                  spell_list(spell, times), 0);
    axes = joined(spell, axes, spell_op(spell, "Slice", 13, shape, spell_list(spell, 2), spell_list(spell, 4)), 0);
    value = spell_op(spell, "Expand", 13, value, axes);
    axes = joined(spell, spell_op(spell, "Slice", 13, shape, spell_list(spell, 0), spell_list(spell, 1)),
                  spell_list(spell, count), 0);
    axes = joined(spell, axes, spell_op(spell, "Slice", 13, shape, spell_list(spell, 2), spell_list(spell, 4)), 0);
    return spell_op(spell, "Reshape", 13, value, axes);
}

/* The present: the past with room for all keys, the new ones written behind what counts of it. What makes the room are
 * the new ones, too, for that is where they go but in sequences that are shorter than others. */
static uint32_t present(struct spell *spell, uint32_t past, uint32_t fresh, uint32_t used, uint32_t length)
{
    uint32_t room;

    if (past == INLAY_NONE)
        return fresh;
    room = SHAPED(spell, spell_op(spell, "Sub", 14, length, size_of(spell, past, 2)), 1);
    room = spell_op(spell, "Slice", 13, fresh, spell_list(spell, 0), room, spell_list(spell, 2));
    past = spell_op(spell, "TensorScatter", 24, joined(spell, past, room, 2), fresh, used);
    spell_int(spell, "axis", 2);
    return past;
}

/* Attention-23, whose keys may have fewer heads than queries; all layers share the mask. */
static uint32_t attend_shared(struct spell *spell, const struct heads *heads)
{
    const inlay_dtype dtype = spell_dtype(spell, heads->q);
    const uint32_t seen = heads->bias != INLAY_NONE ? heads->bias : spell_number(spell, dtype, 0);
    const uint32_t mask =
        spell_typed(spell, "Where", 16, dtype, heads->mask, seen, spell_number(spell, dtype, heads->hidden));
    const uint32_t output = spell_op(spell, "Attention", 23, heads->q, heads->k, heads->v, mask);

    if (heads->scale != 0)
        spell_float(spell, "scale", heads->scale);
    return output;
}

/* Which keys count: none behind the row's own place, and of a window none too far before it. */
static uint32_t seen_keys(struct spell *spell, uint32_t places, uint32_t length, int64_t window)
{
    const uint32_t keys = count_to(spell, length);
    uint32_t seen, begin;

    places = spell_op(spell, "Unsqueeze", 13, places, spell_list(spell, 1, 3));
    seen = spell_typed(spell, "LessOrEqual", 16, INLAY_BOOL, keys, places);
    if (window < 0)
        return seen;
    begin = spell_op(spell, "Sub", 14, places, scalar(spell, window));
    return spell_op(spell, "And", 7, seen, spell_typed(spell, "Greater", 13, INLAY_BOOL, keys, begin));
}

/* Queries, keys and values by head: they come so, or packed side by side. */
static void split_groups(struct spell *spell, struct heads *heads, int64_t count, int64_t shared)
{
    uint32_t *const parts[] = { &heads->q, &heads->k, &heads->v };
    const int64_t each[] = { count, shared, shared };
    const int64_t wide = rw_dim(rw_info(spell->rewrite, heads->q), -1), size = wide / (count + 2 * shared);
    uint32_t packed = heads->q;
    int64_t from = 0;

    if (heads->k != INLAY_NONE) {
        for (uint32_t i = 0; i < 3; i++)
            *parts[i] = split_heads(spell, spell_ranked(spell, *parts[i], 3), each[i]);
        return;
    }
    packed = spell_ranked(spell, packed, 3);
    if (wide < 0)
        packed = SHAPED(spell, packed, 0, 0, count + 2 * shared, -1);
    for (uint32_t i = 0; i < 3; i++) {
        *parts[i] =
            wide < 0 ? spell_op(spell, "Slice", 13, packed, spell_list(spell, from), spell_list(spell, from + each[i]),
                                spell_list(spell, 2))
                     : SHAPED(spell, columns(spell, packed, from * size, (from + each[i]) * size), 0, 0, each[i], size);
        *parts[i] = spell_transpose(spell, *parts[i], by_head, 4);
        from += each[i];
    }
}

/* rotated() where the angles, of which nobody knows how many there are, may be of a head's first elements alone. */
static uint32_t rotated_first(struct spell *spell, uint32_t input, uint32_t cosines, uint32_t sines, uint32_t places,
                              bool interleaved)
{
    const uint32_t half = SHAPED(spell, size_of(spell, cosines, 1), 1), size = spell_op(spell, "Add", 14, half, half);
    const uint32_t turns = spell_op(spell, "Slice", 13, input, spell_list(spell, 0), size, spell_list(spell, 3));
    const uint32_t rest = spell_op(spell, "Slice", 13, input, size, spell_list(spell, INT64_MAX), spell_list(spell, 3));

    return joined(spell, rotated(spell, turns, cosines, sines, places, interleaved, 0, 0), rest, 3);
}

/* What is added to the scores of the keys that count, for as many as the buffer has; the others are hidden anyway. */
static uint32_t for_all_keys(struct spell *spell, uint32_t bias, uint32_t length)
{
    const uint32_t more = SHAPED(spell, spell_op(spell, "Sub", 14, length, size_of(spell, bias, 3)), 1);

    return spell_op(spell, "Pad", 13, bias, joined(spell, spell_list(spell, 0, 0, 0, 0, 0, 0, 0), more, 0));
}

void spell_group_query(struct spell *spell)
{
    const graph_node *node = spell->node;
    const int64_t count = rw_attr_int(node, "num_heads", 0), shared = rw_attr_int(node, "kv_num_heads", 0);
    const int64_t window = rw_attr_int(node, "local_window_size", -1);
    const bool turns = rw_attr_int(node, "do_rotary", 0) != 0, smooth = rw_attr_int(node, "smooth_softmax", 0) > 0;
    struct heads heads = { .q = spell_in(spell, 0),
                           .k = spell_in(spell, 1),
                           .v = spell_in(spell, 2),
                           .bias = spell_in(spell, 10),
                           .mask = INLAY_NONE,
                           .sink = spell_in(spell, 11),
                           .scale = rw_attr_float(node, "scale", 0),
                           .softcap = rw_attr_float(node, "softcap", 0) };
    const inlay_dtype dtype = spell_dtype(spell, heads.q);
    const char *why = count <= 0 || shared <= 0 || count % shared != 0 ? "num_heads is not a multiple of kv_num_heads"
                      : rank_or(spell, heads.q, 3) != 3                ? "query is not of rank 3"
                      : (heads.k == INLAY_NONE) != (heads.v == INLAY_NONE) ? "one of key and value is missing"
                      : turns && (spell_in(spell, 7) == INLAY_NONE || spell_in(spell, 8) == INLAY_NONE)
                          ? "do_rotary is set, and cos_cache or sin_cache is missing"
                      : spell_wants(spell, 3)       ? "it is to give the scores (output 3)"
                      : node->info.input_count > 12 ? "its past is quantized (k_scale, v_scale)"
                                                    : NULL;
    uint32_t rows, total, used, places, length;

    if (spell_refuse(spell, why))
        return;
    split_groups(spell, &heads, count, shared);
    rows = size_of(spell, spell_in(spell, 0), 1);
    total = spell_cast(spell, shaped(spell, spell_in(spell, 6), NULL, 0), INLAY_INT64);
    /* How much of the past counts in each row of the batch: nothing where this is the beginning. */
    used = spell_op(spell, "Sub", 14,
                    spell_op(spell, "Add", 14, spell_cast(spell, SHAPED(spell, spell_in(spell, 5), -1), INLAY_INT64),
                             scalar(spell, 1)),
                    rows);
    used = spell_typed(spell, "Where", 16, INLAY_INT64, spell_typed(spell, "Equal", 13, INLAY_BOOL, total, rows),
                       scalar(spell, 0), used);
    places = spell_op(spell, "Add", 14, SHAPED(spell, used, -1, 1), count_to(spell, rows)); /* [batch, rows] */
    if (turns) {
        const uint32_t given = spell_in(spell, 9) != INLAY_NONE ? spell_in(spell, 9) : places;
        const bool interleaved = rw_attr_int(node, "rotary_interleaved", 0) != 0;
        const int64_t half = rw_dim(rw_info(spell->rewrite, spell_in(spell, 7)), -1);
        uint32_t *const both[] = { &heads.q, &heads.k };

        for (uint32_t i = 0; i < 2; i++)
            *both[i] =
                half < 0
                    ? rotated_first(spell, *both[i], spell_in(spell, 7), spell_in(spell, 8), given, interleaved)
                    : rotated(spell, *both[i], spell_in(spell, 7), spell_in(spell, 8), given, interleaved, 2 * half, 0);
    }
    length = spell_in(spell, 3) == INLAY_NONE
                 ? rows
                 : spell_op(spell, "Max", 13, total, size_of(spell, spell_in(spell, 3), 2));
    heads.k = present(spell, spell_in(spell, 3), heads.k, used, length);
    heads.v = present(spell, spell_in(spell, 4), heads.v, used, length);
    if (heads.bias != INLAY_NONE && spell_in(spell, 3) != INLAY_NONE)
        heads.bias = for_all_keys(spell, heads.bias, length);
    spell_output(spell, 1, heads.k);
    spell_output(spell, 2, heads.v);
    heads.mask = seen_keys(spell, places, length, window);
    heads.hidden = lowest(dtype);
    if (heads.sink != INLAY_NONE)
        heads.sink = SHAPED(spell, heads.sink, 1, -1, 1, 1);
    else if (smooth)
        heads.sink = spell_number(spell, dtype, 0);
    if (heads.sink == INLAY_NONE && heads.softcap <= 0 && dtype == INLAY_FLOAT) {
        spell_output(spell, 0, join_heads(spell, attend_shared(spell, &heads)));
        return;
    }
    heads.k = repeated(spell, heads.k, count / shared, count);
    heads.v = repeated(spell, heads.v, count / shared, count);
    spell_output(spell, 0, join_heads(spell, attend(spell, &heads)));
}
