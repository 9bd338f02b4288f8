/* MatMul of matrices with a sum behind it is Gemm; Transpose before Gemm, or before MatMul of matrices, is a flag of
 * Gemm; a sum behind Gemm without C is its C. */
#include "base/element.h"
#include "passes/rewrite.h"

/* May c be Gemm's C: broadcast to [M, N] and not the other way round? */
static bool fits_as_c(const struct rewrite *w, uint32_t c, uint32_t product)
{
    const inlay_value_info *x = rw_info(w, c), *y = rw_info(w, product);

    if (x == NULL || x->rank == INLAY_RANK_UNKNOWN || x->rank > 2 || y->rank != 2 || x->dtype != y->dtype)
        return false;
    for (uint32_t d = 0; d < x->rank; d++) {
        const inlay_dim *a = &x->dims[d], *b = &y->dims[2 - x->rank + d];
        if (a->kind != INLAY_DIM_FIXED || (a->value != 1 && (b->kind != INLAY_DIM_FIXED || a->value != b->value)))
            return false;
    }
    return true;
}

/* The value before Transpose(1, 0), or INLAY_NONE. */
static uint32_t untransposed(const struct rewrite *w, uint32_t v)
{
    const graph_node *t = rw_maker_op(w, v, "Transpose");
    const inlay_value_info *x = rw_info(w, v);
    const int64_t *perm;
    uint32_t count;

    if (t == NULL || x->rank != 2)
        return INLAY_NONE;
    perm = rw_attr_ints(t, "perm", &count);
    return perm == NULL || (count == 2 && perm[0] == 1) ? rw_input(w, t, 0) : INLAY_NONE;
}

/* Gemm in the place of n, with whatever transposes can go into its flags. like: a Gemm whose alpha and flags hold, or
 * NULL. */
static inlay_status make_gemm(struct rewrite *w, graph_node *n, const graph_node *like, uint32_t a, uint32_t b,
                              uint32_t c)
{
    uint32_t ta = untransposed(w, a), tb = untransposed(w, b);
    int64_t trans_a = like == NULL ? 0 : rw_attr_int(like, "transA", 0);
    int64_t trans_b = like == NULL ? 0 : rw_attr_int(like, "transB", 0);
    int64_t opset = n->opset < 11 ? 11 : n->opset; /* C is optional from there on */
    graph_node *fresh;

    if (c == INLAY_NONE && !pass_allows(w->ctx, opset))
        return INLAY_OK;
    fresh = rw_make(w, "Gemm", opset, n, (const uint32_t[]){ ta != INLAY_NONE ? ta : a, tb != INLAY_NONE ? tb : b, c },
                    c == INLAY_NONE ? 2 : 3, 1);
    if (fresh == NULL || graph_set_attr_int(w->g, fresh, "transA", ta != INLAY_NONE ? !trans_a : trans_a) != INLAY_OK ||
        graph_set_attr_int(w->g, fresh, "transB", tb != INLAY_NONE ? !trans_b : trans_b) != INLAY_OK ||
        (like != NULL && graph_set_attr_float(w->g, fresh, "alpha", rw_attr_float(like, "alpha", 1)) != INLAY_OK) ||
        (like != NULL && like == n &&
         graph_set_attr_float(w->g, fresh, "beta", rw_attr_float(like, "beta", 1)) != INLAY_OK))
        return rw_no_memory(w);
    return rw_replace(w, n, fresh);
}

static bool is_matrix_product(const struct rewrite *w, const graph_node *n)
{
    const inlay_value_info *a = rw_info(w, rw_input(w, n, 0)), *b = rw_info(w, rw_input(w, n, 1));

    return pass_is_op(n, "MatMul") && a != NULL && b != NULL && a->rank == 2 && b->rank == 2 &&
           element_is_float(a->dtype);
}

static inlay_status match_sum(struct rewrite *w, graph_node *n)
{
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t v = rw_input(w, n, side), c = rw_input(w, n, 1 - side);
        graph_node *product = rw_maker(w, v);

        if (product == NULL || c == INLAY_NONE || !rw_is_only_use(w, v) || !fits_as_c(w, c, v))
            continue;
        if (is_matrix_product(w, product))
            return make_gemm(w, n, NULL, rw_input(w, product, 0), rw_input(w, product, 1), c);
        if (pass_is_op(product, "Gemm") && product->info.since_version >= 7 && rw_input(w, product, 2) == INLAY_NONE)
            return make_gemm(w, n, product, rw_input(w, product, 0), rw_input(w, product, 1), c);
    }
    return INLAY_OK;
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    uint32_t a = rw_input(w, n, 0), b = rw_input(w, n, 1);

    if (pass_is_op(n, "Add") && n->info.since_version >= 7)
        return match_sum(w, n);
    if (a == INLAY_NONE || b == INLAY_NONE || (untransposed(w, a) == INLAY_NONE && untransposed(w, b) == INLAY_NONE))
        return INLAY_OK;
    if (is_matrix_product(w, n))
        return make_gemm(w, n, NULL, a, b, INLAY_NONE);
    if (pass_is_op(n, "Gemm") && n->info.since_version >= 7)
        return make_gemm(w, n, n, a, b, rw_input(w, n, 2));
    return INLAY_OK;
}

inlay_status pass_gemm(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
