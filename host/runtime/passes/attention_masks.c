/* Masks of an attention: what is added to scores, what is put in their place, and both for windows (Swin), whose scores
 * are [batch * windows, heads, n, n] outside and [batch, windows, heads, n, n] where the mask of each window is added.
 */
#include "passes/attention.h"
#include "base/element.h"

/* No score of ordinary size is felt beside it: what is added to it rounds away, and Exp of it is 0. */
static const double LEAST_MASK = -1e20;

bool attention_same_dim(const inlay_dim *a, const inlay_dim *b)
{
    if (a->kind != b->kind)
        return false;
    return a->kind == INLAY_DIM_FIXED ? a->value == b->value : a->kind == INLAY_DIM_SYMBOLIC && a->symbol == b->symbol;
}

uint32_t attention_unscaled(const struct rewrite *w, uint32_t v, double *scale)
{
    for (uint32_t steps = 0; steps < 4; steps++) {
        const graph_node *mul = rw_maker_op(w, v, "Mul"), *n = mul != NULL ? mul : rw_maker_op(w, v, "Div");
        double c = 0;
        uint32_t side;

        if (n == NULL || !rw_is_only_use(w, v))
            return v;
        for (side = mul != NULL ? 0 : 1; side < 2; side++)
            if (rw_scalar(w, rw_input(w, n, side), &c) && (mul != NULL || c != 0))
                break;
        if (side == 2 || rw_info(w, rw_input(w, n, 1 - side))->rank != rw_info(w, v)->rank)
            return v;
        *scale *= mul != NULL ? c : 1 / c;
        v = rw_input(w, n, 1 - side);
    }
    return v;
}

/* ------------------------------------------------------------------ looking */

/* Can v be what a mask made of those scores? Both have the same type and sizes, but for the last axis, which is that of
 * the keys in the end. *rows_open: nor is it sure for the rows. */
static bool follows(const struct rewrite *w, uint32_t scores, uint32_t v, bool *rows_open)
{
    const inlay_value_info *x = rw_info(w, scores), *y = rw_info(w, v);

    if (x == NULL || x->kind != y->kind || x->dtype != y->dtype || x->rank != y->rank ||
        x->rank == INLAY_RANK_UNKNOWN || x->rank < 2)
        return false;
    for (uint32_t d = 0; d + 2 < x->rank; d++)
        if (!attention_same_dim(&x->dims[d], &y->dims[d]))
            return false;
    if (attention_same_dim(&x->dims[x->rank - 2], &y->dims[x->rank - 2]))
        return true;
    *rows_open = true;
    return x->dims[x->rank - 2].kind != INLAY_DIM_FIXED && y->dims[x->rank - 2].kind != INLAY_DIM_FIXED;
}

/* May it be a mask for these scores? It broadcasts to them; its last size is that of the keys, or named otherwise: then
 * it is that or 1, for the product behind Softmax has no other. */
static bool is_mask(const struct rewrite *w, uint32_t mask, uint32_t scores, inlay_dtype dtype, bool *out_whole)
{
    const inlay_value_info *m = rw_info(w, mask), *s = rw_info(w, scores);
    const inlay_dim *last;

    if (m == NULL || m->rank == INLAY_RANK_UNKNOWN || m->rank < 2 || m->rank > s->rank || m->dtype != dtype)
        return false;
    last = &m->dims[m->rank - 1];
    *out_whole = attention_same_dim(last, &s->dims[s->rank - 1]);
    return *out_whole || last->kind != INLAY_DIM_FIXED;
}

/* Is it 0 where a query may look, up to its own place, and too low to count elsewhere? A constant [.., n, n]. */
static bool is_triangle(struct rewrite *w, uint32_t mask)
{
    const inlay_value_info *m = rw_info(w, mask);
    const float *f = rw_floats(w, mask);
    int64_t n = rw_dim(m, -1);

    if (f == NULL || n < 2 || rw_dim(m, -2) != n)
        return false;
    for (uint32_t d = 0; d + 2 < m->rank; d++)
        if (m->dims[d].value != 1)
            return false;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++)
            if (k <= i ? f[i * n + k] != 0 : !((double)f[i * n + k] <= LEAST_MASK))
                return false;
    return true;
}

bool attention_is_causal(struct rewrite *w, const attention_masks *m)
{
    return m->count == 1 && m->list[0].choice == NULL && !m->list[0].windows && is_triangle(w, m->list[0].value);
}

static uint32_t find_scores(struct rewrite *w, uint32_t v, bool windows, attention_masks *m);

/* Of windows all sizes but that of the batch must be known: the mask is repeated for each group of them. */
static bool is_window_mask(const inlay_value_info *m, const inlay_value_info *s)
{
    for (uint32_t d = 1; d < 5; d++)
        if (s->dims[d].kind != INLAY_DIM_FIXED || s->dims[d].value <= 0)
            return false;
    for (uint32_t d = 1; d < m->rank && d <= 4; d++)
        if (m->dims[m->rank - d].kind != INLAY_DIM_FIXED)
            return false;
    return true;
}

/* Goes on with the scores that the mask is for; INLAY_NONE and without the mask if that leads nowhere. */
static uint32_t go_on(struct rewrite *w, uint32_t scores, attention_mask mask, bool rows_open, bool windows,
                      attention_masks *m)
{
    const inlay_value_info *s = rw_info(w, scores);
    uint32_t count = m->count, found, from = mask.choice != NULL ? rw_input(w, mask.choice, 0) : mask.value;

    if (windows && !is_window_mask(rw_info(w, from), s))
        return INLAY_NONE;
    mask.windows = windows && rw_info(w, from)->rank >= 4;
    if (mask.windows) {
        mask.groups = s->dims[0];
        mask.window_count = s->dims[1].value;
    }
    m->list[m->count++] = mask;
    found = find_scores(w, scores, windows, m);
    if (found == INLAY_NONE)
        m->count = count;
    else
        m->rows_open |= rows_open;
    return found;
}

/* Where(seen, scores, c) or Where(hidden, c, scores). */
static uint32_t through_choice(struct rewrite *w, uint32_t v, const graph_node *where, bool windows, attention_masks *m)
{
    attention_mask mask = { .value = INLAY_NONE, .choice = where };
    double c;

    for (uint32_t i = 1; i < 3; i++) {
        uint32_t hidden = rw_input(w, where, i), scores = rw_input(w, where, 3 - i), found;
        bool rows_open = false;

        mask.hidden = i;
        if (!rw_scalar(w, hidden, &c) || rw_info(w, hidden)->rank > 1 || !follows(w, scores, v, &rows_open) ||
            !is_mask(w, rw_input(w, where, 0), scores, INLAY_BOOL, &mask.whole))
            continue;
        found = go_on(w, scores, mask, rows_open, windows, m);
        if (found != INLAY_NONE)
            return found;
    }
    return INLAY_NONE;
}

static uint32_t through_sum(struct rewrite *w, uint32_t v, const graph_node *sum, bool windows, attention_masks *m)
{
    attention_mask mask = { .choice = NULL };

    for (uint32_t i = 0; i < 2; i++) {
        uint32_t scores = rw_input(w, sum, i), found;
        bool rows_open = false;

        mask.value = rw_input(w, sum, 1 - i);
        if (!follows(w, scores, v, &rows_open) || !is_mask(w, mask.value, scores, rw_info(w, v)->dtype, &mask.whole))
            continue;
        found = go_on(w, scores, mask, rows_open, windows, m);
        if (found != INLAY_NONE)
            return found;
    }
    return INLAY_NONE;
}

/* Reshape that puts batch and windows together again, or takes them apart: the last three axes stay. */
static bool keeps_scores(const struct rewrite *w, uint32_t a, uint32_t b)
{
    const inlay_value_info *x = rw_info(w, a), *y = rw_info(w, b);

    if (x->rank != 4 && x->rank != 5)
        return false;
    if (y->rank != 9 - x->rank)
        return false;
    for (uint32_t d = 1; d < 4; d++)
        if (x->dims[x->rank - d].kind != INLAY_DIM_FIXED || x->dims[x->rank - d].value <= 0 ||
            !attention_same_dim(&x->dims[x->rank - d], &y->dims[y->rank - d]))
            return false;
    return true;
}

static uint32_t find_scores(struct rewrite *w, uint32_t v, bool windows, attention_masks *m)
{
    const graph_node *n = rw_maker(w, v);
    uint32_t inner = n == NULL ? INLAY_NONE : rw_input(w, n, 0);

    if (n == NULL || !rw_is_only_use(w, v))
        return INLAY_NONE;
    if (!windows && rw_maker_op(w, attention_unscaled(w, v, &(double){ 1 }), "MatMul") != NULL)
        return v;
    if (pass_is_op(n, "Reshape") && inner != INLAY_NONE && rw_info(w, inner)->rank != INLAY_RANK_UNKNOWN &&
        rw_info(w, v)->rank == (windows ? 5u : 4u) && keeps_scores(w, v, inner))
        return find_scores(w, inner, !windows, m);
    if (m->count == ATTENTION_MASKS)
        return INLAY_NONE;
    if (pass_is_op(n, "Where"))
        return through_choice(w, v, n, windows, m);
    return pass_is_op(n, "Add") && n->info.since_version >= 7 ? through_sum(w, v, n, windows, m) : INLAY_NONE;
}

uint32_t attention_scores(struct rewrite *w, uint32_t v, attention_masks *m)
{
    *m = (attention_masks){ .count = 0 };
    return find_scores(w, v, false, m);
}

/* ------------------------------------------------------------------ joining */

/* Inserts a node; INLAY_NONE: no memory. */
static uint32_t insert(struct rewrite *w, const char *op, int64_t opset, const uint32_t *inputs, uint32_t count,
                       inlay_dtype dtype)
{
    graph_node *n = rw_make(w, op, opset, NULL, inputs, count, 1);

    return n == NULL || rw_insert(w, n, dtype) != INLAY_OK ? INLAY_NONE : n->info.outputs[0];
}

/* The size of one axis of v, as int64 [1]. */
static uint32_t size_of(struct rewrite *w, uint32_t v, int64_t axis)
{
    graph_node *shape = rw_make(w, "Shape", 15, NULL, &v, 1, 1);

    if (shape == NULL || graph_set_attr_int(w->g, shape, "start", axis) != INLAY_OK ||
        graph_set_attr_int(w->g, shape, "end", axis + 1) != INLAY_OK || rw_insert(w, shape, INLAY_INT64) != INLAY_OK)
        return INLAY_NONE;
    return shape->info.outputs[0];
}

/* Zeros, one for each key; all attentions over as many keys in one graph share them. */
struct zeros {
    struct zeros *next;
    inlay_dim keys;
    inlay_dtype dtype;
    uint32_t value;
};

static uint32_t zeros_for(struct rewrite *w, uint32_t k, inlay_dtype dtype)
{
    const inlay_value_info *info = rw_info(w, k);
    const inlay_dim keys = info->dims[info->rank - 2];
    uint64_t bytes = (uint64_t)inlay_dtype_bits(dtype) / 8, nothing = 0;
    struct zeros *z;

    for (z = w->memory; z != NULL; z = z->next)
        if (z->dtype == dtype && attention_same_dim(&z->keys, &keys))
            return z->value;
    z = arena_array(&w->own, 1, sizeof *z);
    if (z != NULL) {
        const uint32_t inputs[] = { rw_constant(w, dtype, 0, NULL, &nothing, bytes), size_of(w, k, info->rank - 2) };

        *z = (struct zeros){ w->memory, keys, dtype, INLAY_NONE };
        if (inputs[0] != INLAY_NONE && inputs[1] != INLAY_NONE)
            z->value = insert(w, "Expand", 13, inputs, 2, dtype);
        w->memory = z;
    }
    return z == NULL ? INLAY_NONE : z->value;
}

/* The shape that a mask of windows has for the whole batch, and what one group of it is repeated to. */
static uint32_t shape_of_groups(struct rewrite *w, const attention_mask *m, uint32_t q)
{
    const int64_t sizes[4] = { m->window_count, 1, 1, 1 };
    uint32_t parts[2] = { size_of(w, q, 0), rw_constant_ints(w, sizes, 1) };
    graph_node *join;

    if (parts[0] == INLAY_NONE || parts[1] == INLAY_NONE)
        return INLAY_NONE;
    parts[0] = insert(w, "Div", 14, parts, 2, INLAY_INT64);
    parts[1] = rw_constant_ints(w, sizes, 4);
    join = parts[0] == INLAY_NONE || parts[1] == INLAY_NONE ? NULL : rw_make(w, "Concat", 13, NULL, parts, 2, 1);
    return join == NULL || graph_set_attr_int(w->g, join, "axis", 0) != INLAY_OK ||
                   rw_insert(w, join, INLAY_INT64) != INLAY_OK
               ? INLAY_NONE
               : join->info.outputs[0];
}

/* A mask of windows, [.., windows, heads, queries, keys], once for each group of the batch: [batch * windows, heads,
 * queries, keys]. from has its sizes. */
static uint32_t repeat_windows(struct rewrite *w, const attention_mask *m, uint32_t mask, uint32_t from, uint32_t q,
                               inlay_dtype dtype)
{
    const inlay_value_info *info = rw_info(w, from);
    const bool one = m->groups.kind == INLAY_DIM_FIXED && m->groups.value == 1 && info->rank >= 4 &&
                     info->dims[info->rank - 4].value == m->window_count;
    int64_t shape[4] = { -1 };
    uint32_t to;

    for (uint32_t d = 1; d < 4; d++)
        shape[d] = info->dims[info->rank - 4 + d].value;
    if (!one) {
        to = shape_of_groups(w, m, q);
        mask = to == INLAY_NONE ? INLAY_NONE : insert(w, "Expand", 13, (const uint32_t[]){ mask, to }, 2, dtype);
    }
    to = mask == INLAY_NONE ? INLAY_NONE : rw_constant_ints(w, shape, 4);
    return to == INLAY_NONE ? INLAY_NONE : insert(w, "Reshape", 14, (const uint32_t[]){ mask, to }, 2, dtype);
}

/* Where it hides, as it broadcasts to the scores outside windows. */
static uint32_t where_hidden(struct rewrite *w, const attention_mask *m, uint32_t q)
{
    uint32_t condition = rw_input(w, m->choice, 0), hidden = condition;

    if (m->windows)
        hidden = repeat_windows(w, m, condition, condition, q, INLAY_BOOL);
    return hidden == INLAY_NONE || m->hidden == 1 ? hidden : insert(w, "Not", 1, &hidden, 1, INLAY_BOOL);
}

/* A mask that is added, on top of the bias so far. */
static uint32_t add_mask(struct rewrite *w, const attention_mask *m, uint32_t bias, uint32_t q, inlay_dtype dtype)
{
    uint32_t value = m->windows ? repeat_windows(w, m, m->value, m->value, q, dtype) : m->value;

    return value == INLAY_NONE || bias == INLAY_NONE
               ? value
               : insert(w, "Add", 14, (const uint32_t[]){ bias, value }, 2, dtype);
}

/* From the scores outwards: a choice makes both them and what was added to them its c. */
inlay_status attention_join_masks(struct rewrite *w, const attention_masks *m, uint32_t q, uint32_t v,
                                  uint32_t *out_bias, uint32_t *out_hidden)
{
    inlay_dtype dtype = rw_info(w, q)->dtype;
    uint32_t bias = INLAY_NONE, hidden = INLAY_NONE;
    bool whole = m->count == 0;

    for (uint32_t i = 0; i < m->count; i++)
        whole |= m->list[i].whole;
    if (!whole && (bias = zeros_for(w, v, dtype)) == INLAY_NONE)
        return rw_no_memory(w);
    for (uint32_t i = m->count; i-- > 0;) {
        const attention_mask *one = &m->list[i];

        if (one->choice == NULL) {
            bias = add_mask(w, one, bias, q, dtype);
        } else {
            const uint32_t low = rw_input(w, one->choice, one->hidden), here = where_hidden(w, one, q);

            if (bias == INLAY_NONE)
                bias = rw_constant(w, dtype, 0, NULL, &(uint64_t){ 0 }, (uint64_t)inlay_dtype_bits(dtype) / 8);
            if (here == INLAY_NONE || bias == INLAY_NONE)
                return rw_no_memory(w);
            hidden =
                hidden == INLAY_NONE ? here : insert(w, "Or", 7, (const uint32_t[]){ hidden, here }, 2, INLAY_BOOL);
            bias = hidden == INLAY_NONE ? INLAY_NONE
                                        : insert(w, "Where", 16, (const uint32_t[]){ here, low, bias }, 3, dtype);
        }
        if (bias == INLAY_NONE)
            return rw_no_memory(w);
    }
    *out_bias = bias;
    *out_hidden = hidden;
    return INLAY_OK;
}
