/* Scaled dot-product attention, spelled out, is ai.inlay's Attention on [batch, heads, length, size]:
 *
 *     MatMul(Softmax(MatMul(q, Transpose(k)) * scale + mask), v)
 *
 * The scale may stand as a product or quotient of the scores, of q, of k, or of both (its root each). Masks may be
 * missing; be sums, or Where(seen, scores, c), up to four of them (attention_masks.c); or be a constant triangle. Keys
 * and values that are repeated for groups of heads are read before that. Where(IsNaN(p), 0, p) may stand behind
 * Softmax.
 *
 * It is not ONNX's Attention, which means something else where a row of scores is -infinity throughout (zeros for NaN),
 * where a score that is replaced is NaN, and for the guard against NaN (ops/inlay/attention.c). So a model that is
 * written to a file keeps its nodes.
 *
 * Operands of rank 3, [batch * heads, length, size], are those of one batch with so many heads: views put an axis in
 * front of them. */
#include "passes/attention.h"
#include "base/element.h"
#include <math.h>
#include <string.h>

static const char OWN[] = "ai.inlay";

/* k as [.., length, size] from the value that MatMul reads as [.., size, length]. When the Transpose also moved other
 * axes ([batch, length, heads, size] with perm 0 2 3 1), one that only does this is put in. */
static inlay_status find_keys(struct rewrite *w, uint32_t kt, double *scale, uint32_t *out_k)
{
    const graph_node *t;
    const int64_t *perm;
    int64_t rest[4];
    uint32_t count = 0, rank;
    bool moves = false;

    *out_k = INLAY_NONE;
    kt = attention_unscaled(w, kt, scale);
    t = rw_maker_op(w, kt, "Transpose");
    rank = rw_info(w, kt)->rank;
    if (t == NULL || rank < 3 || rank > 4)
        return INLAY_OK;
    perm = rw_attr_ints(t, "perm", &count);
    if (count != rank)
        return INLAY_OK;
    for (uint32_t d = 0; d < rank; d++) {
        rest[d] = perm[d + 2 < rank ? d : d + 2 == rank ? rank - 1 : rank - 2];
        moves |= rest[d] != (int64_t)d;
    }
    if (!moves) {
        *out_k = attention_unscaled(w, rw_input(w, t, 0), scale);
    } else if (*scale > 0 && isfinite(*scale)) {
        graph_node *fresh = rw_make(w, "Transpose", t->opset, NULL, t->info.inputs, 1, 1);

        if (fresh == NULL || graph_set_attr_ints(w->g, fresh, "perm", rest, rank) != INLAY_OK ||
            rw_insert(w, fresh, rw_info(w, kt)->dtype) != INLAY_OK)
            return rw_no_memory(w);
        *out_k = fresh->info.outputs[0];
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ groups of heads */

/* What [batch, heads, length, size] is a repetition of along the heads, times of them for each: Reshape of Expand of
 * Unsqueeze, [batch, groups, 1, length, size] in between. INLAY_NONE: it is none. */
static uint32_t unrepeated(const struct rewrite *w, uint32_t v, int64_t *out_times)
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

        if (d != 1 && (!attention_same_dim(&x->dims[d], between) || !attention_same_dim(&y->dims[d], between)))
            return INLAY_NONE;
    }
    for (uint32_t d = 0; d < 4; d++) /* Unsqueeze, even as Reshape */
        if (!attention_same_dim(&x->dims[d], &rw_info(w, rw_input(w, expand, 0))->dims[d < 2 ? d : d + 1]))
            return INLAY_NONE;
    *out_times = rw_dim(e, 2);
    return from;
}

/* ------------------------------------------------------------------ the pattern */

/* The Softmax that makes p, with Where(IsNaN(p), 0, p) behind it (*guarded) or not; NULL if others read it, too. */
static graph_node *find_softmax(const struct rewrite *w, uint32_t p, bool *guarded)
{
    const graph_node *where = rw_maker_op(w, p, "Where"), *test;

    *guarded = where != NULL;
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

/* Do queries, keys (as the product reads them, [.., size, length]) and values have the same batch, and as many heads,
 * or keys and values one for all? MatMul would broadcast them, too. */
static bool heads_agree(const struct rewrite *w, uint32_t q, uint32_t kt, uint32_t v)
{
    const inlay_value_info *a = rw_info(w, q), *b = rw_info(w, kt), *c = rw_info(w, v);
    uint32_t rank = a->rank;

    if (rank == INLAY_RANK_UNKNOWN || rank < 3 || rank > 4 || b->rank != rank || c->rank != rank ||
        !attention_same_dim(&b->dims[rank - 1], &c->dims[rank - 2]))
        return false;
    for (uint32_t d = 0; d + 2 < rank; d++) {
        bool one = rank == 4 && d == 1 && rw_dim(b, 1) == 1 && rw_dim(a, 1) > 0;

        if (!attention_same_dim(&b->dims[d], &c->dims[d]) || (!one && !attention_same_dim(&a->dims[d], &b->dims[d])))
            return false;
    }
    return true;
}

/* The value with an axis of 1 in front; INLAY_NONE: no memory. */
static uint32_t with_batch(struct rewrite *w, uint32_t v)
{
    const int64_t first = 0;
    inlay_dtype dtype = rw_info(w, v)->dtype;
    uint32_t axes = rw_constant_ints(w, &first, 1);
    graph_node *view =
        axes == INLAY_NONE ? NULL : rw_make(w, "Unsqueeze", 13, NULL, (const uint32_t[]){ v, axes }, 2, 1);

    return view == NULL || rw_insert(w, view, dtype) != INLAY_OK ? INLAY_NONE : view->info.outputs[0];
}

struct operands {
    uint32_t q, k, v, bias, hidden;
    double scale;
    bool causal, guarded;
};

/* Is n what this pass makes? */
static bool is_own(const graph_node *n)
{
    return n != NULL && strcmp(n->info.op_type.data, "Attention") == 0 && strcmp(n->info.domain.data, OWN) == 0;
}

static inlay_status become(struct rewrite *w, graph_node *n, const struct operands *o, uint32_t rank)
{
    const int64_t first = 0;
    uint32_t inputs[5] = { o->q, o->k, o->v, o->bias, o->hidden }, squeezed[2];
    const uint32_t count = o->hidden != INLAY_NONE ? 5 : o->bias != INLAY_NONE ? 4 : 3;
    graph_node *fresh, *view;

    for (uint32_t i = 0; rank == 3 && i < 3; i++)
        if ((inputs[i] = with_batch(w, inputs[i])) == INLAY_NONE)
            return rw_no_memory(w);
    fresh = rw_make(w, "Attention", 1, n, inputs, count, 1);
    if (fresh == NULL || graph_set_attr_float(w->g, fresh, "scale", o->scale) != INLAY_OK ||
        (o->causal && graph_set_attr_int(w->g, fresh, "causal", 1) != INLAY_OK) ||
        (o->guarded && graph_set_attr_int(w->g, fresh, "guarded", 1) != INLAY_OK))
        return rw_no_memory(w);
    fresh->info.domain = (inlay_str){ OWN, sizeof OWN - 1 };
    if (rank == 4)
        return rw_replace(w, n, fresh);
    if (rw_insert(w, fresh, rw_info(w, n->info.outputs[0])->dtype) != INLAY_OK)
        return rw_no_memory(w);
    squeezed[0] = fresh->info.outputs[0];
    squeezed[1] = rw_constant_ints(w, &first, 1);
    view = squeezed[1] == INLAY_NONE ? NULL : rw_make(w, "Squeeze", 13, n, squeezed, 2, 1);
    return view == NULL ? rw_no_memory(w) : rw_replace(w, n, view);
}

/* Is the product n read by a Transpose and `reshape` alone, from which it is sure to have as many rows as q? Masks that
 * might have more do not say so. */
static bool rows_are_sure(const struct rewrite *w, const graph_node *n, const graph_node *reshape, uint32_t q)
{
    const inlay_value_info *out = reshape == NULL ? NULL : rw_info(w, reshape->info.outputs[0]);
    const inlay_value_info *y = rw_info(w, n->info.outputs[0]), *from = rw_info(w, q);

    return out != NULL && out->rank == 3 && from->rank == 4 && y->rank == 4 && rw_dim(y, 1) > 0 && rw_dim(y, 3) > 0 &&
           rw_dim(out, 2) == rw_dim(y, 1) * rw_dim(y, 3) && attention_same_dim(&out->dims[0], &from->dims[0]) &&
           attention_same_dim(&out->dims[1], &from->dims[2]);
}

/* reshape: what reads the product, when that is where the visit is; otherwise NULL. */
static inlay_status match_product(struct rewrite *w, graph_node *n, const graph_node *reshape)
{
    struct operands o = { .v = rw_input(w, n, 1), .bias = INLAY_NONE, .hidden = INLAY_NONE, .scale = 1 };
    graph_node *softmax = find_softmax(w, rw_input(w, n, 0), &o.guarded), *scores;
    uint32_t v, rank, shared_k, shared_v;
    int64_t times_k, times_v, axis;
    attention_masks m;
    inlay_status status;

    /* What is quantized later is made at every level, or at none. */
    if (softmax == NULL || w->ctx->newest_opset != 0 || w->ctx->lowers != rw_is_quantized_later(w, n->info.outputs[0]))
        return INLAY_OK;
    rank = rw_info(w, softmax->info.outputs[0])->rank;
    axis = rw_attr_int(softmax, "axis", softmax->info.since_version < 13 ? 1 : -1);
    if (rank < 3 || rank > 4 || rw_info(w, o.v)->rank != rank || (axis != -1 && axis != (int64_t)rank - 1))
        return INLAY_OK;
    v = rw_input(w, softmax, 0);
    if (!element_is_float(rw_info(w, v)->dtype) || (v = attention_scores(w, v, &m)) == INLAY_NONE)
        return INLAY_OK;
    v = attention_unscaled(w, v, &o.scale);
    scores = rw_maker_op(w, v, "MatMul");
    if (scores == NULL || !rw_is_only_use(w, v) ||
        !heads_agree(w, rw_input(w, scores, 0), rw_input(w, scores, 1), o.v) ||
        (m.rows_open && !rows_are_sure(w, n, reshape, rw_input(w, scores, 0))))
        return INLAY_OK;
    o.q = attention_unscaled(w, rw_input(w, scores, 0), &o.scale);
    /* The scale must be a positive number, for Attention spreads its root over q and k. */
    if (!(o.scale > 0) || !isfinite(o.scale))
        return INLAY_OK;
    status = find_keys(w, rw_input(w, scores, 1), &o.scale, &o.k);
    if (status != INLAY_OK || o.k == INLAY_NONE || !(o.scale > 0) || !isfinite(o.scale))
        return status;
    o.causal = attention_is_causal(w, &m);
    INLAY_TRY(attention_join_masks(w, &m, o.q, o.v, &o.bias, &o.hidden));
    shared_k = unrepeated(w, o.k, &times_k);
    shared_v = unrepeated(w, o.v, &times_v);
    if (shared_k != INLAY_NONE && shared_v != INLAY_NONE && times_k == times_v) {
        o.k = shared_k;
        o.v = shared_v;
    }
    return become(w, n, &o, rank);
done:
    return status;
}

/* Transpose of the Squeeze behind an Attention of ours: the Transpose first, which the kernel then writes through. */
static inlay_status match_transpose(struct rewrite *w, graph_node *n)
{
    const graph_node *view = rw_maker_op(w, rw_input(w, n, 0), "Squeeze");
    uint32_t x = view == NULL ? INLAY_NONE : rw_input(w, view, 0), count = 0;
    const int64_t *perm = rw_attr_ints(n, "perm", &count);
    int64_t whole[4] = { 0 };
    graph_node *moved, *fresh;

    if (view == NULL || count != 3 || !rw_is_only_use(w, rw_input(w, n, 0)) || !is_own(rw_maker(w, x)) ||
        rw_info(w, x)->rank != 4 || rw_dim(rw_info(w, x), 0) != 1 || rw_input(w, view, 1) == INLAY_NONE ||
        rw_info(w, rw_input(w, n, 0))->rank != 3)
        return INLAY_OK;
    for (uint32_t d = 0; d < 3; d++)
        whole[d + 1] = perm[d] + 1;
    moved = rw_make(w, "Transpose", n->opset, NULL, &x, 1, 1);
    if (moved == NULL || graph_set_attr_ints(w->g, moved, "perm", whole, 4) != INLAY_OK ||
        rw_insert(w, moved, rw_info(w, x)->dtype) != INLAY_OK)
        return rw_no_memory(w);
    fresh =
        rw_make(w, "Squeeze", view->opset, n, (const uint32_t[]){ moved->info.outputs[0], rw_input(w, view, 1) }, 2, 1);
    return fresh == NULL ? rw_no_memory(w) : rw_replace(w, n, fresh);
}

/* The product behind a Reshape of its Transpose, whose rows are known from there. */
static inlay_status match_reshape(struct rewrite *w, graph_node *n)
{
    graph_node *turn = rw_maker_op(w, rw_input(w, n, 0), "Transpose");
    graph_node *product = turn == NULL ? NULL : rw_maker_op(w, rw_input(w, turn, 0), "MatMul");

    return product == NULL || !rw_is_only_use(w, rw_input(w, n, 0)) || !rw_is_only_use(w, rw_input(w, turn, 0))
               ? INLAY_OK
               : match_product(w, product, n);
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    if (pass_is_op(n, "Transpose"))
        return match_transpose(w, n);
    if (pass_is_op(n, "Reshape"))
        return match_reshape(w, n);
    return pass_is_op(n, "MatMul") ? match_product(w, n, NULL) : INLAY_OK;
}

inlay_status pass_attention(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
