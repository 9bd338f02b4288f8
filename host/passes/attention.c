/* Scaled dot-product attention, spelled out, is Attention-23 on [batch, heads, length, size]:
 *
 *     MatMul(Softmax(MatMul(q, Transpose(k)) * scale + mask), v)
 *
 * The scale may stand as a product or quotient of the scores, of q, of k, or of both (its root each); the mask may be
 * missing. */
#include "base/element.h"
#include "passes/rewrite.h"
#include <math.h>

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

/* k as [batch, heads, length, size] from the value that MatMul reads as [batch, heads, size, length]. When the Transpose
 * also moved heads forward ([batch, length, heads, size] with perm 0 2 3 1), one that only does this is put in. */
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
    } else if (perm[1] == 2 && perm[2] == 3 && perm[3] == 1) {
        graph_node *fresh = rw_make(w, "Transpose", t->opset, NULL, t->info.inputs, 1, 1);

        if (fresh == NULL ||
            graph_set_attr_ints(w->g, fresh, "perm", (const int64_t[]){ 0, 2, 1, 3 }, 4) != INLAY_OK ||
            rw_insert(w, fresh, rw_info(w, kt)->dtype) != INLAY_OK)
            return rw_no_memory(w);
        *out_k = fresh->info.outputs[0];
    }
    return INLAY_OK;
}

/* May the mask be Attention's? It is broadcast to [batch, heads, queries, keys], and its last dim must be that of the
 * keys: Attention pads shorter ones. */
static bool is_mask(const rewrite *w, uint32_t mask, uint32_t scores)
{
    const inlay_value_info *m = rw_info(w, mask), *s = rw_info(w, scores);
    const inlay_dim *a, *b;

    if (m == NULL || m->rank == INLAY_RANK_UNKNOWN || m->rank < 2 || m->rank > 4 || m->dtype != s->dtype ||
        s->rank != 4)
        return false;
    a = &m->dims[m->rank - 1];
    b = &s->dims[3];
    return a->kind == b->kind && (a->kind == INLAY_DIM_FIXED ? a->value == b->value
                                                             : a->kind == INLAY_DIM_SYMBOLIC && a->symbol == b->symbol);
}

static inlay_status match(rewrite *w, graph_node *n)
{
    graph_node *softmax, *sum, *scores, *fresh;
    uint32_t v, mask = INLAY_NONE, q, k, kt;
    double scale = 1;
    inlay_status status;

    softmax = pass_is_op(n, "MatMul") ? rw_maker_op(w, rw_input(w, n, 0), "Softmax") : NULL;
    if (softmax == NULL || !rw_is_only_use(w, rw_input(w, n, 0)) || rw_info(w, softmax->info.outputs[0])->rank != 4 ||
        rw_info(w, rw_input(w, n, 1))->rank != 4 ||
        !(rw_attr_int(softmax, "axis", softmax->info.since_version < 13 ? 1 : -1) == -1 ||
          rw_attr_int(softmax, "axis", 1) == 3))
        return INLAY_OK;
    v = rw_input(w, softmax, 0);
    if (!rw_is_only_use(w, v) || !element_is_float(rw_info(w, v)->dtype))
        return INLAY_OK;
    sum = rw_maker_op(w, v, "Add");
    if (sum != NULL) {
        bool left = is_mask(w, rw_input(w, sum, 1), v) &&
                    rw_maker_op(w, unscaled(w, rw_input(w, sum, 0), &(double){ 1 }), "MatMul") != NULL;
        mask = rw_input(w, sum, left ? 1 : 0);
        if (!is_mask(w, mask, v))
            return INLAY_OK;
        v = rw_input(w, sum, left ? 0 : 1);
    }
    v = unscaled(w, v, &scale);
    scores = rw_maker_op(w, v, "MatMul");
    if (scores == NULL || !rw_is_only_use(w, v) || rw_info(w, rw_input(w, scores, 0))->rank != 4)
        return INLAY_OK;
    q = unscaled(w, rw_input(w, scores, 0), &scale);
    kt = rw_input(w, scores, 1);
    /* The scale must be a positive number, for Attention spreads its root over q and k. */
    if (!(scale > 0) || !isfinite(scale))
        return INLAY_OK;
    status = find_keys(w, kt, &scale, &k);
    if (status != INLAY_OK || k == INLAY_NONE || !(scale > 0) || !isfinite(scale))
        return status;
    fresh = rw_make(w, "Attention", n->opset > 23 ? n->opset : 23, n,
                    (const uint32_t[]){ q, k, rw_input(w, n, 1), mask }, mask == INLAY_NONE ? 3 : 4, 1);
    if (fresh == NULL || graph_set_attr_float(w->g, fresh, "scale", scale) != INLAY_OK)
        return rw_no_memory(w);
    return rw_replace(w, n, fresh);
}

inlay_status pass_attention(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
