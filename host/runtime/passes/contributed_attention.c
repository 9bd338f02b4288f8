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

static uint32_t scalar(struct spell *b, int64_t value)
{
    uint32_t v = b->status != INLAY_OK ? INLAY_NONE : rw_constant(b->w, INLAY_INT64, 0, NULL, &value, sizeof value);

    if (v == INLAY_NONE && b->status == INLAY_OK)
        b->status = rw_no_memory(b->w);
    return v;
}

/* The first input of the model with an axis of the same name as axis *d of v, and that axis; v itself: there is none.
 * All layers then ask the same for the same sizes, and share what is made of them. */
static uint32_t named_alike(const struct spell *b, uint32_t v, int64_t *d)
{
    const inlay_value_info *info = rw_info(b->w, v), *in;
    const struct graph *g = b->w->g;

    if (g->parent != NULL || info->rank == INLAY_RANK_UNKNOWN || *d >= info->rank ||
        info->dims[*d].kind != INLAY_DIM_SYMBOLIC)
        return v;
    for (uint32_t i = 0; i < g->input_count; i++) {
        in = rw_info(b->w, g->inputs[i]);
        for (uint32_t e = 0; in->rank != INLAY_RANK_UNKNOWN && e < in->rank; e++)
            if (in->dims[e].kind == INLAY_DIM_SYMBOLIC && in->dims[e].symbol == info->dims[*d].symbol) {
                *d = e;
                return g->inputs[i];
            }
    }
    return v;
}

/* Size d of v, as int64 of rank 0. */
static uint32_t size_of(struct spell *b, uint32_t v, int64_t d)
{
    v = named_alike(b, v, &d);
    return spell_op(b, "Gather", 13, spell_typed(b, "Shape", 13, INLAY_INT64, v), scalar(b, d));
}

static uint32_t count_to(struct spell *b, uint32_t end)
{
    return spell_op(b, "Range", 11, scalar(b, 0), end, scalar(b, 1));
}

static uint32_t shaped(struct spell *b, uint32_t v, const int64_t *dims, uint32_t count)
{
    return spell_op(b, "Reshape", 13, v, spell_integers(b, dims, count));
}
#define SHAPED(b, v, ...)                                                                                              \
    shaped(b, v, (const int64_t[]){ __VA_ARGS__ },                                                                     \
           (uint32_t)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

static uint32_t joined(struct spell *b, uint32_t x, uint32_t y, int64_t axis)
{
    uint32_t v = spell_op(b, "Concat", 13, x, y);

    spell_int(b, "axis", axis);
    return v;
}

static const int64_t by_head[] = { 0, 2, 1, 3 };

/* [batch, rows, heads * size] to [batch, heads, rows, size]; other ranks are there already. */
static uint32_t split_heads(struct spell *b, uint32_t v, int64_t count)
{
    const int64_t wide = rw_dim(rw_info(b->w, v), -1);

    if (spell_rank(b, v) == 4)
        return v;
    return spell_transpose(b, SHAPED(b, v, 0, 0, count, wide > 0 ? wide / count : -1), by_head, 4);
}

static uint32_t join_heads(struct spell *b, uint32_t v)
{
    return SHAPED(b, spell_transpose(b, v, by_head, 4), 0, 0, -1);
}

static uint32_t attend(struct spell *b, const struct heads *h)
{
    const inlay_dtype dtype = spell_dtype(b, h->q);
    const uint32_t turned = spell_transpose(b, h->k, (const int64_t[]){ 0, 1, 3, 2 }, 4);
    uint32_t scores, scale;

    if (h->scale != 0) {
        scale = spell_number(b, dtype, h->scale);
    } else {
        scale = spell_cast(b, size_of(b, h->q, 3), dtype);
        scale = spell_op(b, "Reciprocal", 13, spell_op(b, "Sqrt", 13, scale));
    }
    scores = spell_op(b, "Mul", 14, spell_op(b, "MatMul", 13, h->q, turned), scale);
    if (h->softcap > 0) {
        const uint32_t cap = spell_number(b, dtype, h->softcap);

        scores = spell_op(b, "Mul", 14, spell_op(b, "Tanh", 13, spell_op(b, "Div", 14, scores, cap)), cap);
    }
    if (h->bias != INLAY_NONE)
        scores = spell_op(b, "Add", 14, scores, h->bias);
    if (h->mask != INLAY_NONE)
        scores = spell_typed(b, "Where", 16, dtype, h->mask, scores, spell_number(b, dtype, h->hidden));
    if (h->sink == INLAY_NONE) {
        scores = spell_op(b, "Softmax", 13, scores);
        spell_int(b, "axis", -1);
        return spell_op(b, "MatMul", 13, scores, h->v);
    }
    {
        const uint32_t first = spell_op(b, "Slice", 13, scores, spell_list(b, 0), spell_list(b, 1), spell_list(b, 3));
        const uint32_t zero = spell_op(b, "Mul", 14, first, spell_number(b, dtype, 0));

        /* The column takes part in the sum and goes again. A hidden score times 0 is 0 all the same. */
        scores = joined(b, scores, spell_op(b, "Add", 14, zero, h->sink), 3);
        scores = spell_op(b, "Softmax", 13, scores);
        spell_int(b, "axis", -1);
        scores = spell_op(b, "Slice", 13, scores, spell_list(b, 0), spell_list(b, -1), spell_list(b, 3));
    }
    return spell_op(b, "MatMul", 13, scores, h->v);
}

/* ------------------------------------------------------------------ masks */

/* The lowest number of a float type: what hides a key altogether. */
static double lowest(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT16 ? -65504.0 : -3.4028234663852886e38;
}

/* true at [rows, keys] where the key is not after the row; the last row meets the last key. */
static uint32_t causal(struct spell *b, uint32_t q, uint32_t k)
{
    const uint32_t rows = size_of(b, q, 2), keys = size_of(b, k, 2);
    const uint32_t place = spell_op(b, "Add", 14, count_to(b, rows), spell_op(b, "Sub", 14, keys, rows));

    return spell_typed(b, "LessOrEqual", 16, INLAY_BOOL, count_to(b, keys), SHAPED(b, place, -1, 1));
}

/* Why a mask of the caller's cannot be read; NULL: it can, or there is none. x is [batch, ..]. */
static const char *why_not_mask(const struct spell *b, uint32_t mask, uint32_t x)
{
    const int64_t count = mask == INLAY_NONE ? -1 : rw_dim(rw_info(b->w, mask), 0);
    const int64_t batch = rw_dim(rw_info(b->w, x), 0);
    const uint32_t rank = spell_rank(b, mask);

    return mask == INLAY_NONE           ? NULL
           : rank == INLAY_RANK_UNKNOWN ? NULL /* spell_by_rank() */
           : rank == 0 || rank > 3      ? "its mask is neither of rank 1, 2 nor 3"
           : rank == 1 && count >= 0 && batch >= 0 && count != batch && count != 2 * batch && count != 3 * batch + 2
               ? "its mask of rank 1 is neither [batch], [2 * batch] nor [3 * batch + 2]"
               : NULL;
}

/* Is dimension 0 of both the same for sure? */
static bool same_first(const struct spell *b, uint32_t v, uint32_t x)
{
    const inlay_value_info *p = rw_info(b->w, v), *q = rw_info(b->w, x);

    if (p->rank == INLAY_RANK_UNKNOWN || q->rank == INLAY_RANK_UNKNOWN || p->dims[0].kind != q->dims[0].kind)
        return false;
    return p->dims[0].kind == INLAY_DIM_FIXED      ? p->dims[0].value == q->dims[0].value
           : p->dims[0].kind == INLAY_DIM_SYMBOLIC ? p->dims[0].symbol == q->dims[0].symbol
                                                   : false;
}

/* Which keys a mask of rank 1 lets count, [batch, 1, 1, keys]. It has where the keys of each row of the batch end, as
 * [batch]; or that, then where they begin, as [2 * batch]; or that, then what is of use to kernels of packed rows
 * only, as [3 * batch + 2]. Which of them may be known by a run alone. */
static uint32_t keys_between(struct spell *b, uint32_t mask, uint32_t x, uint32_t keys)
{
    uint32_t batch, ends = mask, begins = INLAY_NONE, counts, doubled;

    if (!same_first(b, mask, x)) {
        batch = SHAPED(b, size_of(b, x, 0), 1);
        doubled = spell_op(b, "Add", 14, batch, batch);
        ends = spell_op(b, "Slice", 13, mask, spell_list(b, 0), batch);
        begins = spell_op(b, "Slice", 13, mask, spell_op(b, "Neg", 13, batch), spell_list(b, INT64_MAX));
        begins =
            spell_op(b, "Where", 16,
                     spell_typed(b, "Equal", 13, INLAY_BOOL, spell_typed(b, "Shape", 13, INLAY_INT64, mask), doubled),
                     spell_cast(b, begins, INLAY_INT64), scalar(b, 0));
        b->w->g->values[begins].info.dtype = INLAY_INT64;
    }
    counts = spell_typed(b, "Less", 13, INLAY_BOOL, keys, spell_cast(b, SHAPED(b, ends, -1, 1, 1, 1), INLAY_INT64));
    if (begins == INLAY_NONE)
        return counts;
    return spell_op(b, "And", 7, counts,
                    spell_typed(b, "GreaterOrEqual", 16, INLAY_BOOL, keys, SHAPED(b, begins, -1, 1, 1, 1)));
}

/* A mask of the caller's that why_not_mask() takes, as what is added to the scores: which keys of each row of x,
 * [batch, ..], count, of rank 1 or as [batch, keys] or [batch, rows, keys]. */
static void add_mask(struct spell *b, struct heads *h, uint32_t mask, uint32_t x, double hidden)
{
    const uint32_t rank = spell_rank(b, mask);
    const inlay_dtype dtype = spell_dtype(b, h->q);
    uint32_t counts, bias;

    if (mask == INLAY_NONE)
        return;
    if (rank == 1)
        counts = keys_between(b, mask, x, count_to(b, size_of(b, h->k, 2)));
    else
        counts = spell_cast(b, spell_op(b, "Unsqueeze", 13, mask, rank == 2 ? spell_list(b, 1, 2) : spell_list(b, 1)),
                            INLAY_BOOL);
    bias = spell_typed(b, "Where", 16, dtype, counts, spell_number(b, dtype, 0), spell_number(b, dtype, hidden));
    h->bias = h->bias == INLAY_NONE ? bias : spell_op(b, "Add", 14, h->bias, bias);
}

/* ------------------------------------------------------------------ MultiHeadAttention */

/* Part `at` of `count` along the given axis, which goes away. */
static uint32_t part(struct spell *b, uint32_t v, int64_t at, int64_t axis)
{
    uint32_t made = spell_op(b, "Gather", 13, v, scalar(b, at));

    spell_int(b, "axis", axis);
    return made;
}

/* Columns [from, to) of the last axis. */
static uint32_t columns(struct spell *b, uint32_t v, int64_t from, int64_t to)
{
    return spell_op(b, "Slice", 13, v, spell_list(b, from), spell_list(b, to), spell_list(b, -1));
}

/* Adds to *v, of rank 3, its part of a bias for queries, keys and values: queries are `wide` columns, or as many as x
 * where that is not known (-1). */
static void add_columns(struct spell *b, uint32_t *v, uint32_t bias, uint32_t x, int64_t wide, int64_t at)
{
    uint32_t from, to;

    if (bias == INLAY_NONE || spell_rank(b, *v) != 3)
        return;
    if (wide > 0) {
        from = spell_list(b, at * wide);
        to = spell_list(b, at == 2 ? INT64_MAX : (at + 1) * wide);
    } else {
        const uint32_t one = SHAPED(b, size_of(b, x, 2), 1);

        from = spell_op(b, "Mul", 14, one, scalar(b, at));
        to = at == 2 ? spell_list(b, INT64_MAX) : spell_op(b, "Mul", 14, one, scalar(b, at + 1));
    }
    *v = spell_op(b, "Add", 14, *v, spell_op(b, "Slice", 13, bias, from, to, spell_list(b, -1)));
}

/* Queries, keys and values that came packed, of rank 5, which are by head then. */
static void unpack(struct spell *b, struct heads *h)
{
    const uint32_t packed = h->k == INLAY_NONE ? h->q : h->k;

    if (h->v != INLAY_NONE)
        return;
    if (h->k == INLAY_NONE) /* [batch, rows, heads, 3, size], otherwise [batch, rows, heads, 2, size] */
        h->q = spell_transpose(b, part(b, packed, 0, 3), by_head, 4);
    h->v = spell_transpose(b, part(b, packed, h->k == INLAY_NONE ? 2 : 1, 3), by_head, 4);
    h->k = spell_transpose(b, part(b, packed, h->k == INLAY_NONE ? 1 : 0, 3), by_head, 4);
}

/* The rank of v, `otherwise` where it is not known. */
static uint32_t rank_or(const struct spell *b, uint32_t v, uint32_t otherwise)
{
    const uint32_t rank = spell_rank(b, v);

    return rank == INLAY_RANK_UNKNOWN ? otherwise : rank;
}

void spell_multi_head(struct spell *b)
{
    const int64_t count = rw_attr_int(b->n, "num_heads", 0);
    const uint32_t bias = spell_in(b, 3), past_k = spell_in(b, 6), past_v = spell_in(b, 7), x = spell_in(b, 0);
    struct heads h = { x, spell_in(b, 1), spell_in(b, 2), spell_in(b, 5), INLAY_NONE, INLAY_NONE, 0, 0, 0 };
    const int64_t wide = rw_dim(rw_info(b->w, x), -1);
    const bool packed = h.v == INLAY_NONE;
    const uint32_t rank = h.k == INLAY_NONE ? 5 : 3; /* of queries */
    const uint32_t key_rank = rank_or(b, h.k, packed ? 5 : spell_rank(b, h.v));
    const bool open = !packed && key_rank == INLAY_RANK_UNKNOWN;
    const char *why = count <= 0                                     ? "num_heads is not positive"
                      : spell_wants(b, 3)                            ? "it is to give the scores (output 3)"
                      : spell_in(b, 8) != INLAY_NONE                 ? "its past is in a buffer (input 8)"
                      : rank_or(b, x, rank) != rank                  ? "query is not of the rank that key asks for"
                      : h.k == INLAY_NONE && !packed                 ? "value is there, but no key"
                      : h.k != INLAY_NONE && packed && key_rank != 5 ? "value is missing, and key is not packed"
                      : !packed && !open && key_rank != 3 && key_rank != 4 ? "key is neither of rank 3 nor 4"
                      : !packed && (rank_or(b, h.v, key_rank) != key_rank) ? "key and value are of different ranks"
                      : bias != INLAY_NONE && rank != 3                    ? "it has a bias, and query is packed"
                                                                           : why_not_mask(b, spell_in(b, 4), x);
    uint32_t y;

    if (spell_refuse(b, why) || (open && spell_by_rank(b, 1, 3, 4)) || spell_by_rank(b, 4, 1, 3))
        return;
    h.q = spell_ranked(b, h.q, rank);
    if (h.k != INLAY_NONE)
        h.k = spell_ranked(b, h.k, key_rank);
    if (h.v != INLAY_NONE)
        h.v = spell_ranked(b, h.v, key_rank);
    unpack(b, &h);
    add_columns(b, &h.q, bias, x, wide, 0);
    if (!packed) {
        add_columns(b, &h.k, bias, x, wide, 1);
        add_columns(b, &h.v, bias, x, wide, 2);
    }
    if (rank != 5)
        h.q = split_heads(b, h.q, count);
    if (!packed) {
        h.k = split_heads(b, h.k, count);
        h.v = split_heads(b, h.v, count);
    }
    if (past_k != INLAY_NONE)
        h.k = joined(b, past_k, h.k, 2);
    if (past_v != INLAY_NONE)
        h.v = joined(b, past_v, h.v, 2);
    h.scale = rw_attr_float(b->n, "scale", 0);
    h.hidden = lowest(spell_dtype(b, h.q));
    add_mask(b, &h, spell_in(b, 4), x, rw_attr_float(b->n, "mask_filter_value", -10000));
    if (rw_attr_int(b->n, "unidirectional", 0) != 0)
        h.mask = causal(b, h.q, h.k);
    y = join_heads(b, attend(b, &h));
    spell_output(b, 0, y);
    spell_output(b, 1, h.k);
    spell_output(b, 2, h.v);
}

/* Keys or values [batch, heads, 1, size] written into those of the past behind the `used` ones, as both stand in one
 * buffer; *all are those that count. */
static uint32_t in_buffer(struct spell *b, uint32_t past, uint32_t fresh, uint32_t used, uint32_t *all)
{
    const uint32_t batch =
        spell_op(b, "Slice", 13, spell_typed(b, "Shape", 13, INLAY_INT64, past), spell_list(b, 0), spell_list(b, 1));
    const uint32_t end = SHAPED(b, spell_op(b, "Add", 14, used, scalar(b, 1)), 1);
    uint32_t buffer =
        spell_op(b, "TensorScatter", 24, past, fresh, spell_op(b, "Expand", 13, SHAPED(b, used, 1), batch));

    spell_int(b, "axis", 2);
    *all = spell_op(b, "Slice", 13, buffer, spell_list(b, 0), end, spell_list(b, 2));
    return buffer;
}

/* One row of queries for each sequence; keys and values of one row and a past, or those of an encoder, by head. */
void spell_decoder_masked(struct spell *b)
{
    const int64_t count = rw_attr_int(b->n, "num_heads", 0);
    const uint32_t bias = spell_in(b, 10), past_k = spell_in(b, 5), past_v = spell_in(b, 6), x = spell_in(b, 0);
    const bool shares = rw_attr_int(b->n, "past_present_share_buffer", 0) != 0 && past_k != INLAY_NONE;
    struct heads h = { x, spell_in(b, 1), spell_in(b, 2), spell_in(b, 4), INLAY_NONE, INLAY_NONE, 0, 0, 0 };
    const int64_t wide = rw_dim(rw_info(b->w, x), -1);
    const uint32_t rank = rank_or(b, h.k, past_k != INLAY_NONE ? 3 : spell_rank(b, h.v));
    const bool open = rank == INLAY_RANK_UNKNOWN;
    const char *why = count <= 0                                         ? "num_heads is not positive"
                      : spell_wants(b, 3)                                ? "it is to give the scores (output 3)"
                      : rank_or(b, x, 3) != 3                            ? "query is not of rank 3"
                      : h.k == INLAY_NONE || h.v == INLAY_NONE           ? "key or value is missing"
                      : !open && rank != 3 && rank != 4                  ? "key is neither of rank 3 nor 4"
                      : rank_or(b, h.v, rank) != rank                    ? "key and value are of different ranks"
                      : spell_in(b, 9) != INLAY_NONE                     ? "it is a step of a beam search (input 9)"
                      : (past_k == INLAY_NONE) != (past_v == INLAY_NONE) ? "one of the pasts is missing"
                      : shares && spell_in(b, 7) == INLAY_NONE
                          ? "past_sequence_length is missing, and its past is in a buffer"
                          : why_not_mask(b, spell_in(b, 3), x);
    uint32_t present_k, present_v, used;

    if (spell_refuse(b, why) || (open && spell_by_rank(b, 1, 3, 4)) || spell_by_rank(b, 3, 1, 3))
        return;
    h.q = spell_ranked(b, h.q, 3);
    h.k = spell_ranked(b, h.k, rank);
    h.v = spell_ranked(b, h.v, rank);
    add_columns(b, &h.q, bias, x, wide, 0);
    add_columns(b, &h.k, bias, x, wide, 1);
    add_columns(b, &h.v, bias, x, wide, 2);
    h.q = split_heads(b, h.q, count);
    present_k = h.k = split_heads(b, h.k, count);
    present_v = h.v = split_heads(b, h.v, count);
    if (shares) {
        used = spell_cast(b, shaped(b, spell_in(b, 7), NULL, 0), INLAY_INT64);
        present_k = in_buffer(b, past_k, h.k, used, &h.k);
        present_v = in_buffer(b, past_v, h.v, used, &h.v);
    } else if (past_k != INLAY_NONE) {
        present_k = h.k = joined(b, past_k, h.k, 2);
        present_v = h.v = joined(b, past_v, h.v, 2);
    }
    h.scale = rw_attr_float(b->n, "scale", 0);
    h.hidden = lowest(spell_dtype(b, h.q));
    add_mask(b, &h, spell_in(b, 3), x, rw_attr_float(b->n, "mask_filter_value", -10000));
    spell_output(b, 0, join_heads(b, attend(b, &h)));
    spell_output(b, 1, present_k);
    spell_output(b, 2, present_v);
}

/* ------------------------------------------------------------------ Attention, QAttention */

/* Queries, keys and values of one product, [batch, rows, columns], by head. given: how many columns each of them has,
 * NULL: equally many. wide: columns; -1: not known. */
static void split_product(struct spell *b, struct heads *h, uint32_t all, const int64_t *given, int64_t wide,
                          int64_t count)
{
    uint32_t *const parts[] = { &h->q, &h->k, &h->v };
    int64_t from = 0;

    if (given == NULL && wide < 0)
        all = SHAPED(b, all, 0, 0, 3, count, -1);
    for (uint32_t i = 0; i < 3; i++) {
        const int64_t size = given != NULL ? given[i] : wide / 3;

        if (given == NULL && wide < 0)
            *parts[i] = part(b, all, i, 2);
        else
            *parts[i] = SHAPED(b, columns(b, all, from, from + size), 0, 0, count, size / count);
        from += size;
    }
    for (uint32_t i = 0; i < 3; i++)
        *parts[i] = spell_transpose(b, *parts[i], by_head, 4);
}

void spell_attention(struct spell *b)
{
    const bool quantized = b->n->info.op_type.data[0] == 'Q';
    const int64_t count = rw_attr_int(b->n, "num_heads", 0);
    const uint32_t x = spell_in(b, 0), weights = spell_in(b, 1), bias = spell_in(b, 2);
    const uint32_t mask = spell_in(b, quantized ? 5 : 3), past = spell_in(b, quantized ? 8 : 4);
    const int64_t wide = rw_dim(rw_info(b->w, weights), 1);
    struct heads h = { .bias = quantized ? INLAY_NONE : spell_in(b, 5), .mask = INLAY_NONE, .sink = INLAY_NONE };
    uint32_t sizes = 0, all;
    const int64_t *given = rw_attr_ints(b->n, "qkv_hidden_sizes", &sizes);
    const char *why = count <= 0                                   ? "num_heads is not positive"
                      : rank_or(b, x, 3) != 3                      ? "input is not of rank 3"
                      : rw_attr_int(b->n, "do_rotary", 0) != 0     ? "do_rotary is set"
                      : !quantized && spell_in(b, 6) != INLAY_NONE ? "its past is in a buffer (input 6)"
                      : given != NULL && sizes != 3                ? "qkv_hidden_sizes are not three"
                      : given != NULL && wide >= 0 && given[0] + given[1] + given[2] != wide
                          ? "qkv_hidden_sizes are not those of weights"
                          : why_not_mask(b, mask, x);

    if (spell_refuse(b, why) || spell_by_rank(b, quantized ? 5 : 3, 1, 3))
        return;
    all = quantized ? contributed_in_units(b, spell_ranked(b, x, 3), weights, spell_in(b, 6), spell_in(b, 7),
                                           spell_in(b, 3), spell_in(b, 4), INLAY_NONE)
                    : spell_op(b, "MatMul", 13, spell_ranked(b, x, 3), weights);
    if (bias != INLAY_NONE)
        all = spell_op(b, "Add", 14, all, bias);
    split_product(b, &h, all, given, wide, count);
    if (past != INLAY_NONE) { /* [2, batch, heads, rows, size] */
        h.k = joined(b, part(b, past, 0, 0), h.k, 2);
        h.v = joined(b, part(b, past, 1, 0), h.v, 2);
    }
    h.scale = rw_attr_float(b->n, "scale", 0);
    h.hidden = lowest(spell_dtype(b, h.q));
    add_mask(b, &h, mask, x, rw_attr_float(b->n, "mask_filter_value", -10000));
    if (rw_attr_int(b->n, "unidirectional", 0) != 0)
        h.mask = causal(b, h.q, h.k);
    spell_output(b, 0, join_heads(b, attend(b, &h)));
    if (spell_wants(b, 1))
        spell_output(b, 1,
                     joined(b, spell_op(b, "Unsqueeze", 13, h.k, spell_list(b, 0)),
                            spell_op(b, "Unsqueeze", 13, h.v, spell_list(b, 0)), 0));
}

/* ------------------------------------------------------------------ RotaryEmbedding */

static uint32_t rotated(struct spell *b, uint32_t x, uint32_t cosines, uint32_t sines, uint32_t places,
                        bool interleaved, int64_t size, int64_t count)
{
    uint32_t y = spell_op(b, "RotaryEmbedding", 23, x, cosines, sines, places);

    spell_int(b, "interleaved", interleaved);
    if (size > 0)
        spell_int(b, "rotary_embedding_dim", size);
    if (count > 0)
        spell_int(b, "num_heads", count);
    return y;
}

/* [batch, rows, heads * size] as [batch, heads, rows, size], where size is twice what cosines has in a row. */
static uint32_t split_by_angles(struct spell *b, uint32_t x, uint32_t cosines)
{
    const uint32_t half = SHAPED(b, size_of(b, cosines, 1), 1);
    const uint32_t dims = joined(b, spell_list(b, 0, 0, -1), spell_op(b, "Add", 14, half, half), 0);

    return spell_transpose(b, spell_op(b, "Reshape", 13, x, dims), by_head, 4);
}

void spell_rotary(struct spell *b)
{
    const uint32_t x = spell_in(b, 0), rank = spell_rank(b, x), cosines = spell_in(b, 2), sines = spell_in(b, 3);
    const int64_t half = rw_dim(rw_info(b->w, cosines), -1), wide = rw_dim(rw_info(b->w, x), -1);
    const int64_t size = rw_attr_int(b->n, "rotary_embedding_dim", 0);
    const bool interleaved = rw_attr_int(b->n, "interleaved", 0) != 0;
    int64_t count = rw_attr_int(b->n, "num_heads", 0);
    uint32_t places = spell_in(b, 1), first;
    const char *why = rank != INLAY_RANK_UNKNOWN && rank != 3 && rank != 4 ? "input is neither of rank 3 nor 4"
                      : rw_attr_int(b->n, "is_packed_batching", 0) != 0    ? "is_packed_batching is set"
                      : rw_attr_float(b->n, "scale", 1) != 1               ? "scale is not 1"
                                                                           : NULL;

    if (spell_refuse(b, why) || spell_by_rank(b, 0, 3, 4) || spell_by_rank(b, 1, 1, 2))
        return;
    if (spell_rank(b, places) == 1) { /* where the first row is; the others follow */
        const uint32_t shape = spell_typed(b, "Shape", 13, INLAY_INT64, x);

        first = spell_op(b, "Add", 14, places, count_to(b, size_of(b, x, rank - 2)));
        places = spell_op(b, "Expand", 13, first,
                          joined(b, spell_op(b, "Slice", 13, shape, spell_list(b, 0), spell_list(b, 1)),
                                 spell_op(b, "Slice", 13, shape, spell_list(b, rank - 2), spell_list(b, rank - 1)), 0));
    }
    if (rank == 3 && count == 0 && half > 0 && wide > 0)
        count = wide / (2 * half);
    if (rank == 3 && count == 0)
        spell_output(
            b, 0,
            join_heads(b, rotated(b, split_by_angles(b, x, cosines), cosines, sines, places, interleaved, size, 0)));
    else
        spell_output(b, 0, rotated(b, x, cosines, sines, places, interleaved, size, rank == 3 ? count : 0));
}

/* ------------------------------------------------------------------ GroupQueryAttention */

/* Keys or values of fewer heads, each for `times` heads of queries. */
static uint32_t repeated(struct spell *b, uint32_t v, int64_t times, int64_t count)
{
    uint32_t shape, axes;

    if (times == 1)
        return v;
    shape = spell_typed(b, "Shape", 13, INLAY_INT64, v);
    v = spell_op(b, "Unsqueeze", 13, v, spell_list(b, 2));
    axes = joined(b, spell_op(b, "Slice", 13, shape, spell_list(b, 0), spell_list(b, 2)), spell_list(b, times), 0);
    axes = joined(b, axes, spell_op(b, "Slice", 13, shape, spell_list(b, 2), spell_list(b, 4)), 0);
    v = spell_op(b, "Expand", 13, v, axes);
    axes = joined(b, spell_op(b, "Slice", 13, shape, spell_list(b, 0), spell_list(b, 1)), spell_list(b, count), 0);
    axes = joined(b, axes, spell_op(b, "Slice", 13, shape, spell_list(b, 2), spell_list(b, 4)), 0);
    return spell_op(b, "Reshape", 13, v, axes);
}

/* The present: the past with room for all keys, the new ones written behind what counts of it. What makes the room are
 * the new ones, too, for that is where they go but in sequences that are shorter than others. */
static uint32_t present(struct spell *b, uint32_t past, uint32_t fresh, uint32_t used, uint32_t length)
{
    uint32_t room;

    if (past == INLAY_NONE)
        return fresh;
    room = SHAPED(b, spell_op(b, "Sub", 14, length, size_of(b, past, 2)), 1);
    room = spell_op(b, "Slice", 13, fresh, spell_list(b, 0), room, spell_list(b, 2));
    past = spell_op(b, "TensorScatter", 24, joined(b, past, room, 2), fresh, used);
    spell_int(b, "axis", 2);
    return past;
}

/* Attention-23, whose keys may have fewer heads than queries; all layers share the mask. */
static uint32_t attend_shared(struct spell *b, const struct heads *h)
{
    const inlay_dtype dtype = spell_dtype(b, h->q);
    const uint32_t seen = h->bias != INLAY_NONE ? h->bias : spell_number(b, dtype, 0);
    const uint32_t mask = spell_typed(b, "Where", 16, dtype, h->mask, seen, spell_number(b, dtype, h->hidden));
    const uint32_t y = spell_op(b, "Attention", 23, h->q, h->k, h->v, mask);

    if (h->scale != 0)
        spell_float(b, "scale", h->scale);
    return y;
}

/* Which keys count: none behind the row's own place, and of a window none too far before it. */
static uint32_t seen_keys(struct spell *b, uint32_t places, uint32_t length, int64_t window)
{
    const uint32_t keys = count_to(b, length);
    uint32_t seen, begin;

    places = spell_op(b, "Unsqueeze", 13, places, spell_list(b, 1, 3));
    seen = spell_typed(b, "LessOrEqual", 16, INLAY_BOOL, keys, places);
    if (window < 0)
        return seen;
    begin = spell_op(b, "Sub", 14, places, scalar(b, window));
    return spell_op(b, "And", 7, seen, spell_typed(b, "Greater", 13, INLAY_BOOL, keys, begin));
}

/* Queries, keys and values by head: they come so, or packed side by side. */
static void split_groups(struct spell *b, struct heads *h, int64_t count, int64_t shared)
{
    uint32_t *const parts[] = { &h->q, &h->k, &h->v };
    const int64_t each[] = { count, shared, shared };
    const int64_t wide = rw_dim(rw_info(b->w, h->q), -1), size = wide / (count + 2 * shared);
    uint32_t packed = h->q;
    int64_t from = 0;

    if (h->k != INLAY_NONE) {
        for (uint32_t i = 0; i < 3; i++)
            *parts[i] = split_heads(b, spell_ranked(b, *parts[i], 3), each[i]);
        return;
    }
    packed = spell_ranked(b, packed, 3);
    if (wide < 0)
        packed = SHAPED(b, packed, 0, 0, count + 2 * shared, -1);
    for (uint32_t i = 0; i < 3; i++) {
        *parts[i] = wide < 0 ? spell_op(b, "Slice", 13, packed, spell_list(b, from), spell_list(b, from + each[i]),
                                        spell_list(b, 2))
                             : SHAPED(b, columns(b, packed, from * size, (from + each[i]) * size), 0, 0, each[i], size);
        *parts[i] = spell_transpose(b, *parts[i], by_head, 4);
        from += each[i];
    }
}

/* rotated() where the angles, of which nobody knows how many there are, may be of a head's first elements alone. */
static uint32_t rotated_first(struct spell *b, uint32_t x, uint32_t cosines, uint32_t sines, uint32_t places,
                              bool interleaved)
{
    const uint32_t half = SHAPED(b, size_of(b, cosines, 1), 1), size = spell_op(b, "Add", 14, half, half);
    const uint32_t turns = spell_op(b, "Slice", 13, x, spell_list(b, 0), size, spell_list(b, 3));
    const uint32_t rest = spell_op(b, "Slice", 13, x, size, spell_list(b, INT64_MAX), spell_list(b, 3));

    return joined(b, rotated(b, turns, cosines, sines, places, interleaved, 0, 0), rest, 3);
}

/* What is added to the scores of the keys that count, for as many as the buffer has; the others are hidden anyway. */
static uint32_t for_all_keys(struct spell *b, uint32_t bias, uint32_t length)
{
    const uint32_t more = SHAPED(b, spell_op(b, "Sub", 14, length, size_of(b, bias, 3)), 1);

    return spell_op(b, "Pad", 13, bias, joined(b, spell_list(b, 0, 0, 0, 0, 0, 0, 0), more, 0));
}

void spell_group_query(struct spell *b)
{
    const graph_node *n = b->n;
    const int64_t count = rw_attr_int(n, "num_heads", 0), shared = rw_attr_int(n, "kv_num_heads", 0);
    const int64_t window = rw_attr_int(n, "local_window_size", -1);
    const bool turns = rw_attr_int(n, "do_rotary", 0) != 0, smooth = rw_attr_int(n, "smooth_softmax", 0) > 0;
    struct heads h = { .q = spell_in(b, 0),
                       .k = spell_in(b, 1),
                       .v = spell_in(b, 2),
                       .bias = spell_in(b, 10),
                       .mask = INLAY_NONE,
                       .sink = spell_in(b, 11),
                       .scale = rw_attr_float(n, "scale", 0),
                       .softcap = rw_attr_float(n, "softcap", 0) };
    const inlay_dtype dtype = spell_dtype(b, h.q);
    const char *why = count <= 0 || shared <= 0 || count % shared != 0 ? "num_heads is not a multiple of kv_num_heads"
                      : rank_or(b, h.q, 3) != 3                        ? "query is not of rank 3"
                      : (h.k == INLAY_NONE) != (h.v == INLAY_NONE)     ? "one of key and value is missing"
                      : turns && (spell_in(b, 7) == INLAY_NONE || spell_in(b, 8) == INLAY_NONE)
                          ? "do_rotary is set, and cos_cache or sin_cache is missing"
                      : spell_wants(b, 3)        ? "it is to give the scores (output 3)"
                      : n->info.input_count > 12 ? "its past is quantized (k_scale, v_scale)"
                                                 : NULL;
    uint32_t rows, total, used, places, length;

    if (spell_refuse(b, why))
        return;
    split_groups(b, &h, count, shared);
    rows = size_of(b, spell_in(b, 0), 1);
    total = spell_cast(b, shaped(b, spell_in(b, 6), NULL, 0), INLAY_INT64);
    /* How much of the past counts in each row of the batch: nothing where this is the beginning. */
    used =
        spell_op(b, "Sub", 14,
                 spell_op(b, "Add", 14, spell_cast(b, SHAPED(b, spell_in(b, 5), -1), INLAY_INT64), scalar(b, 1)), rows);
    used = spell_typed(b, "Where", 16, INLAY_INT64, spell_typed(b, "Equal", 13, INLAY_BOOL, total, rows), scalar(b, 0),
                       used);
    places = spell_op(b, "Add", 14, SHAPED(b, used, -1, 1), count_to(b, rows)); /* [batch, rows] */
    if (turns) {
        const uint32_t given = spell_in(b, 9) != INLAY_NONE ? spell_in(b, 9) : places;
        const bool interleaved = rw_attr_int(n, "rotary_interleaved", 0) != 0;
        const int64_t half = rw_dim(rw_info(b->w, spell_in(b, 7)), -1);
        uint32_t *const both[] = { &h.q, &h.k };

        for (uint32_t i = 0; i < 2; i++)
            *both[i] = half < 0 ? rotated_first(b, *both[i], spell_in(b, 7), spell_in(b, 8), given, interleaved)
                                : rotated(b, *both[i], spell_in(b, 7), spell_in(b, 8), given, interleaved, 2 * half, 0);
    }
    length = spell_in(b, 3) == INLAY_NONE ? rows : spell_op(b, "Max", 13, total, size_of(b, spell_in(b, 3), 2));
    h.k = present(b, spell_in(b, 3), h.k, used, length);
    h.v = present(b, spell_in(b, 4), h.v, used, length);
    if (h.bias != INLAY_NONE && spell_in(b, 3) != INLAY_NONE)
        h.bias = for_all_keys(b, h.bias, length);
    spell_output(b, 1, h.k);
    spell_output(b, 2, h.v);
    h.mask = seen_keys(b, places, length, window);
    h.hidden = lowest(dtype);
    if (h.sink != INLAY_NONE)
        h.sink = SHAPED(b, h.sink, 1, -1, 1, 1);
    else if (smooth)
        h.sink = spell_number(b, dtype, 0);
    if (h.sink == INLAY_NONE && h.softcap <= 0 && dtype == INLAY_FLOAT) {
        spell_output(b, 0, join_heads(b, attend_shared(b, &h)));
        return;
    }
    h.k = repeated(b, h.k, count / shared, count);
    h.v = repeated(b, h.v, count / shared, count);
    spell_output(b, 0, join_heads(b, attend(b, &h)));
}
