/* Scaled dot-product attention, spelled out, is Attention-23 on [batch, heads, length, size]:
 *
 *     MatMul(Softmax(MatMul(q, Transpose(k)) * scale + mask), v)
 *
 * The scale may stand as a product or quotient of the scores, of q, of k, or of both (its root each). The mask may be
 * missing; be the sum of two; be Where(seen, scores, c) with a c so low that what it is added to is not felt; or be a
 * constant triangle, which is is_causal. Keys and values that are repeated for groups of heads are read before that.
 * Where(IsNaN(p), 0, p) behind Softmax is what Attention does with rows that see nothing. */
#include "base/element.h"
#include "passes/rewrite.h"
#include <math.h>

/* Nothing that scores are is felt beside it: what is added to it rounds away, and Exp of it is 0. */
static const double LEAST_MASK = -1e20;

static bool same_dim(const inlay_dim *a, const inlay_dim *b)
{
    if (a->kind != b->kind)
        return false;
    return a->kind == INLAY_DIM_FIXED ? a->value == b->value : a->kind == INLAY_DIM_SYMBOLIC && a->symbol == b->symbol;
}

/* v without constant factors; these multiply *scale. */
static uint32_t unscaled(const rewrite *w, uint32_t v, double *scale)
{
    for (uint32_t steps = 0; steps < 4; steps++) {
        const graph_node *mul = rw_maker_op(w, v, "Mul"), *div = rw_maker_op(w, v, "Div");
        double c;

        if (!rw_is_only_use(w, v))
            return v;
        if (div != NULL && rw_scalar(w, rw_input(w, div, 1), &c) && c != 0) {
            *scale /= c;
            v = rw_input(w, div, 0);
        } else if (mul != NULL && rw_scalar(w, rw_input(w, mul, 1), &c)) {
            *scale *= c;
            v = rw_input(w, mul, 0);
        } else if (mul != NULL && rw_scalar(w, rw_input(w, mul, 0), &c)) {
            *scale *= c;
            v = rw_input(w, mul, 1);
        } else {
            return v;
        }
    }
    return v;
}

/* k as [batch, heads, length, size] from the value that MatMul reads as [batch, heads, size, length]. When the
 * Transpose also moved heads forward ([batch, length, heads, size] with perm 0 2 3 1), one that only does this is put
 * in. */
static inlay_status find_keys(rewrite *w, uint32_t kt, double *scale, uint32_t *out_k)
{
    const graph_node *t;
    const int64_t *perm;
    uint32_t count = 0;

    *out_k = INLAY_NONE;
    kt = unscaled(w, kt, scale);
    t = rw_maker_op(w, kt, "Transpose");
    if (t == NULL || rw_info(w, kt)->rank != 4)
        return INLAY_OK;
    perm = rw_attr_ints(t, "perm", &count);
    if (count != 4 || perm[0] != 0)
        return INLAY_OK;
    if (perm[1] == 1 && perm[2] == 3 && perm[3] == 2) {
        *out_k = unscaled(w, rw_input(w, t, 0), scale);
    } else if (perm[1] == 2 && perm[2] == 3 && perm[3] == 1 && *scale > 0 && isfinite(*scale)) {
        graph_node *fresh = rw_make(w, "Transpose", t->opset, NULL, t->info.inputs, 1, 1);

        if (fresh == NULL ||
            graph_set_attr_ints(w->g, fresh, "perm", (const int64_t[]){ 0, 2, 1, 3 }, 4) != INLAY_OK ||
            rw_insert(w, fresh, rw_info(w, kt)->dtype) != INLAY_OK)
            return rw_no_memory(w);
        *out_k = fresh->info.outputs[0];
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ masks */

/* What the scores go through before Softmax. */
typedef struct masks {
    uint32_t list[2]; /* [count] that are added */
    uint32_t count;
    const graph_node *choice; /* Where, or NULL */
    uint32_t hidden;          /* its input that is the c, 1 or 2 */
} masks;

/* May it be a mask for these scores? It is broadcast to [batch, heads, queries, keys], and its last dim must be that of
 * the keys: Attention pads shorter ones. */
static bool is_mask(const rewrite *w, uint32_t mask, uint32_t scores, inlay_dtype dtype)
{
    const inlay_value_info *m = rw_info(w, mask), *s = rw_info(w, scores);

    return m != NULL && m->rank != INLAY_RANK_UNKNOWN && m->rank >= 2 && m->rank <= 4 && m->dtype == dtype &&
           s->rank == 4 && same_dim(&m->dims[m->rank - 1], &s->dims[3]);
}

/* Is it 0 where a query may look, up to its own place, and too low to count elsewhere? A constant [.., n, n]. */
static bool is_triangle(rewrite *w, uint32_t mask)
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

/* Is v, without its constant factors, a product of matrices? */
static bool is_product(const rewrite *w, uint32_t v)
{
    return rw_maker_op(w, unscaled(w, v, &(double){ 1 }), "MatMul") != NULL;
}

/* Where(seen, v, c) or Where(hidden, c, v): gives v, otherwise INLAY_NONE. */
static uint32_t find_choice(const rewrite *w, uint32_t v, masks *m)
{
    const graph_node *where = rw_maker_op(w, v, "Where");
    double c;

    for (uint32_t i = 1; where != NULL && i < 3; i++) {
        uint32_t hidden = rw_input(w, where, i), scores = rw_input(w, where, 3 - i);

        if (rw_info(w, v)->dtype == INLAY_FLOAT && rw_scalar(w, hidden, &c) && c <= LEAST_MASK &&
            rw_info(w, hidden)->rank <= 1 && rw_same_type(w, scores, v) &&
            is_mask(w, rw_input(w, where, 0), v, INLAY_BOOL)) {
            m->choice = where;
            m->hidden = i;
            return scores;
        }
    }
    return INLAY_NONE;
}

/* What v, the input of Softmax, is before masks; INLAY_NONE: something else than scores. */
static uint32_t find_scores(const rewrite *w, uint32_t v, masks *m)
{
    uint32_t chosen = find_choice(w, v, m);

    v = chosen != INLAY_NONE ? chosen : v;
    for (; m->count < 2 && !is_product(w, v); m->count++) {
        const graph_node *sum = rw_maker_op(w, v, "Add");
        uint32_t next = INLAY_NONE;

        if (sum == NULL || !rw_is_only_use(w, v))
            return INLAY_NONE;
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t inner = rw_input(w, sum, i);
            bool fits = rw_same_type(w, inner, v) && is_mask(w, rw_input(w, sum, 1 - i), v, rw_info(w, v)->dtype);

            if (fits && (is_product(w, inner) || (next == INLAY_NONE && rw_maker_op(w, inner, "Add") != NULL))) {
                next = inner;
                m->list[m->count] = rw_input(w, sum, 1 - i);
            }
        }
        if (next == INLAY_NONE)
            return INLAY_NONE;
        v = next;
    }
    return is_product(w, v) && rw_is_only_use(w, v) ? v : INLAY_NONE;
}

/* The sum of all masks as one value; INLAY_NONE: there is none, or (status) no memory. */
static inlay_status join_masks(rewrite *w, const masks *m, inlay_dtype dtype, uint32_t *out_mask)
{
    uint32_t all[3], count = 0, none;
    graph_node *fresh;

    *out_mask = INLAY_NONE;
    for (uint32_t i = 0; i < m->count; i++)
        all[count++] = m->list[i];
    if (m->choice != NULL) {
        none = rw_constant(w, INLAY_FLOAT, 0, NULL, &(float){ 0 }, sizeof(float));
        all[count] = rw_input(w, m->choice, m->hidden);
        fresh = none == INLAY_NONE ? NULL
                                   : rw_make(w, "Where", m->choice->opset, NULL,
                                             (const uint32_t[]){ rw_input(w, m->choice, 0),
                                                                 m->hidden == 1 ? all[count] : none,
                                                                 m->hidden == 1 ? none : all[count] }, 3, 1);
        if (fresh == NULL || rw_insert(w, fresh, dtype) != INLAY_OK)
            return rw_no_memory(w);
        all[count++] = fresh->info.outputs[0];
    }
    for (; count > 1; count--) {
        fresh = rw_make(w, "Add", 0, NULL, &all[count - 2], 2, 1);
        if (fresh == NULL || rw_insert(w, fresh, dtype) != INLAY_OK)
            return rw_no_memory(w);
        all[count - 2] = fresh->info.outputs[0];
    }
    *out_mask = count > 0 ? all[0] : INLAY_NONE;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ groups of heads */

/* What [batch, heads, length, size] is a repetition of along the heads, times of them for each: Reshape of Expand of
 * Unsqueeze, [batch, groups, 1, length, size] in between. INLAY_NONE: it is none. */
static uint32_t unrepeated(const rewrite *w, uint32_t v, int64_t *out_times)
{
    const graph_node *merge = rw_maker_op(w, v, "Reshape");
    const graph_node *expand = merge == NULL ? NULL : rw_maker_op(w, rw_input(w, merge, 0), "Expand");
    const graph_node *split = expand == NULL ? NULL : rw_maker(w, rw_input(w, expand, 0));
    const inlay_value_info *y = rw_info(w, v), *e, *x;
    uint32_t from;

    if (split == NULL || !(pass_is_op(split, "Unsqueeze") || pass_is_op(split, "Reshape")) || y->rank != 4)
        return INLAY_NONE;
    from = rw_input(w, split, 0);
    e = rw_info(w, rw_input(w, merge, 0));
    x = rw_info(w, from);
    if (e->rank != 5 || x->rank != 4 || rw_info(w, rw_input(w, expand, 0))->rank != 5 ||
        rw_dim(rw_info(w, rw_input(w, expand, 0)), 2) != 1 || rw_dim(x, 1) <= 0 || rw_dim(e, 1) != rw_dim(x, 1) ||
        rw_dim(e, 2) <= 0 || rw_dim(y, 1) != rw_dim(e, 1) * rw_dim(e, 2))
        return INLAY_NONE;
    for (uint32_t d = 0; d < 4; d++) {
        const inlay_dim *between = &e->dims[d < 2 ? d : d + 1];

        if (d != 1 && (!same_dim(&x->dims[d], between) || !same_dim(&y->dims[d], between)))
            return INLAY_NONE;
    }
    for (uint32_t d = 0; d < 4; d++) /* Unsqueeze, even as Reshape */
        if (!same_dim(&x->dims[d], &rw_info(w, rw_input(w, expand, 0))->dims[d < 2 ? d : d + 1]))
            return INLAY_NONE;
    *out_times = rw_dim(e, 2);
    return from;
}

/* ------------------------------------------------------------------ the pattern */

/* The Softmax that makes p, with Where(IsNaN(p), 0, p) behind it or not; NULL if others read it, too. */
static graph_node *find_softmax(const rewrite *w, uint32_t p)
{
    const graph_node *where = rw_maker_op(w, p, "Where"), *test;

    if (!rw_is_only_use(w, p))
        return NULL;
    if (where == NULL)
        return rw_maker_op(w, p, "Softmax");
    test = rw_maker_op(w, rw_input(w, where, 0), "IsNaN");
    p = rw_input(w, where, 2);
    return test != NULL && rw_input(w, test, 0) == p && w->uses[p] == 2 && rw_is_only_use(w, test->info.outputs[0]) &&
                   rw_is_scalar(w, rw_input(w, where, 1), 0) && rw_info(w, rw_input(w, where, 1))->rank <= 1
               ? rw_maker_op(w, p, "Softmax")
               : NULL;
}

static inlay_status match(rewrite *w, graph_node *n)
{
    graph_node *softmax = pass_is_op(n, "MatMul") ? find_softmax(w, rw_input(w, n, 0)) : NULL, *scores, *fresh;
    uint32_t v, mask = INLAY_NONE, q, k, values = rw_input(w, n, 1), shared_k, shared_v;
    int64_t times_k, times_v;
    double scale = 1;
    bool causal;
    masks m = { .count = 0 };
    inlay_status status;

    if (softmax == NULL || rw_info(w, softmax->info.outputs[0])->rank != 4 || rw_info(w, values)->rank != 4 ||
        !(rw_attr_int(softmax, "axis", softmax->info.since_version < 13 ? 1 : -1) == -1 ||
          rw_attr_int(softmax, "axis", 1) == 3))
        return INLAY_OK;
    v = rw_input(w, softmax, 0);
    if (!rw_is_only_use(w, v) || !element_is_float(rw_info(w, v)->dtype))
        return INLAY_OK;
    v = find_scores(w, v, &m);
    if (v == INLAY_NONE)
        return INLAY_OK;
    v = unscaled(w, v, &scale);
    scores = rw_maker_op(w, v, "MatMul");
    if (scores == NULL || !rw_is_only_use(w, v) || rw_info(w, rw_input(w, scores, 0))->rank != 4)
        return INLAY_OK;
    q = unscaled(w, rw_input(w, scores, 0), &scale);
    /* The scale must be a positive number, for Attention spreads its root over q and k. */
    if (!(scale > 0) || !isfinite(scale))
        return INLAY_OK;
    status = find_keys(w, rw_input(w, scores, 1), &scale, &k);
    if (status != INLAY_OK || k == INLAY_NONE || !(scale > 0) || !isfinite(scale))
        return status;
    causal = m.count == 1 && m.choice == NULL && is_triangle(w, m.list[0]);
    INLAY_TRY(causal ? INLAY_OK : join_masks(w, &m, rw_info(w, v)->dtype, &mask));
    shared_k = unrepeated(w, k, &times_k);
    shared_v = unrepeated(w, values, &times_v);
    if (shared_k != INLAY_NONE && shared_v != INLAY_NONE && times_k == times_v) {
        k = shared_k;
        values = shared_v;
    }
    fresh = rw_make(w, "Attention", n->opset > 23 ? n->opset : 23, n, (const uint32_t[]){ q, k, values, mask },
                    mask == INLAY_NONE ? 3 : 4, 1);
    if (fresh == NULL || graph_set_attr_float(w->g, fresh, "scale", scale) != INLAY_OK ||
        (causal && graph_set_attr_int(w->g, fresh, "is_causal", 1) != INLAY_OK))
        return rw_no_memory(w);
    return rw_replace(w, n, fresh);
done:
    return status;
}

inlay_status pass_attention(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
