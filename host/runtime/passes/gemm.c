/* Fuses MatMul of matrices and Add into Gemm, makes a Transpose before Gemm or before MatMul of matrices a flag of
 * Gemm, and makes an Add after a Gemm without C its C. */
#include "base/element.h"
#include "passes/rewrite.h"

/* Returns true if c can be Gemm's C: it broadcasts to [M, N], but [M, N] does not broadcast to it. */
static bool fits_as_c(const struct rewrite *rewrite, uint32_t c, uint32_t product)
{
    const inlay_value_info *c_info = rewrite_value_info(rewrite, c),
                           *product_info = rewrite_value_info(rewrite, product);

    if (c_info == NULL || c_info->rank == INLAY_RANK_UNKNOWN || c_info->rank > 2 || product_info->rank != 2 ||
        c_info->dtype != product_info->dtype)
        return false;
    for (uint32_t d = 0; d < c_info->rank; d++) {
        const inlay_dim *a = &c_info->dims[d], *b = &product_info->dims[2 - c_info->rank + d];
        if (a->kind != INLAY_DIM_FIXED || (a->value != 1 && (b->kind != INLAY_DIM_FIXED || a->value != b->value)))
            return false;
    }
    return true;
}

/* The input of a Transpose with permutation (1, 0); INLAY_NONE: not such a Transpose. */
static uint32_t untransposed(const struct rewrite *rewrite, uint32_t value)
{
    const graph_node *node = rewrite_producer_op(rewrite, value, "Transpose");
    const inlay_value_info *input = rewrite_value_info(rewrite, value);
    const int64_t *perm;
    uint32_t count;

    if (node == NULL || input->rank != 2)
        return INLAY_NONE;
    perm = rewrite_attr_ints(node, "perm", &count);
    return perm == NULL || (count == 2 && perm[0] == 1) ? rewrite_input(rewrite, node, 0) : INLAY_NONE;
}

/* Replaces node by a Gemm that absorbs transposes of a and b. like: a Gemm whose alpha and flags apply, or NULL. */
static inlay_status make_gemm(struct rewrite *rewrite, graph_node *node, const graph_node *like, uint32_t a, uint32_t b,
                              uint32_t c)
{
    uint32_t ta = untransposed(rewrite, a), tb = untransposed(rewrite, b);
    int64_t trans_a = like == NULL ? 0 : graph_attr_int(like, "transA", 0);
    int64_t trans_b = like == NULL ? 0 : graph_attr_int(like, "transB", 0);
    int64_t opset = node->opset < 11 ? 11 : node->opset; /* C is optional from version 11 on */
    graph_node *new_node;

    if (c == INLAY_NONE && !pass_allows(rewrite->ctx, opset))
        return INLAY_OK;
    new_node = rewrite_make_node(rewrite, "Gemm", opset, node,
                                 (const uint32_t[]){ ta != INLAY_NONE ? ta : a, tb != INLAY_NONE ? tb : b, c },
                                 c == INLAY_NONE ? 2 : 3, 1);
    if (new_node == NULL ||
        graph_set_attr_int(rewrite->graph, new_node, "transA", ta != INLAY_NONE ? !trans_a : trans_a) != INLAY_OK ||
        graph_set_attr_int(rewrite->graph, new_node, "transB", tb != INLAY_NONE ? !trans_b : trans_b) != INLAY_OK ||
        (like != NULL &&
         graph_set_attr_float(rewrite->graph, new_node, "alpha", graph_attr_float(like, "alpha", 1)) != INLAY_OK) ||
        (like != NULL && like == node &&
         graph_set_attr_float(rewrite->graph, new_node, "beta", graph_attr_float(like, "beta", 1)) != INLAY_OK))
        return rewrite_no_memory(rewrite);
    return rewrite_replace_node(rewrite, node, new_node);
}

static bool is_matrix_product(const struct rewrite *rewrite, const graph_node *node)
{
    const inlay_value_info *a = rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0)),
                           *b = rewrite_value_info(rewrite, rewrite_input(rewrite, node, 1));

    return pass_is_op(node, "MatMul") && a != NULL && b != NULL && a->rank == 2 && b->rank == 2 &&
           element_is_float(a->dtype);
}

static inlay_status match_sum(struct rewrite *rewrite, graph_node *node)
{
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t value = rewrite_input(rewrite, node, side), c = rewrite_input(rewrite, node, 1 - side);
        graph_node *product = rewrite_producer(rewrite, value);

        if (product == NULL || c == INLAY_NONE || !rewrite_has_one_use(rewrite, value) || !fits_as_c(rewrite, c, value))
            continue;
        if (is_matrix_product(rewrite, product))
            return make_gemm(rewrite, node, NULL, rewrite_input(rewrite, product, 0),
                             rewrite_input(rewrite, product, 1), c);
        if (pass_is_op(product, "Gemm") && product->info.since_version >= 7 &&
            rewrite_input(rewrite, product, 2) == INLAY_NONE)
            return make_gemm(rewrite, node, product, rewrite_input(rewrite, product, 0),
                             rewrite_input(rewrite, product, 1), c);
    }
    return INLAY_OK;
}

inlay_status match_gemm(struct rewrite *rewrite, graph_node *node)
{
    uint32_t a = rewrite_input(rewrite, node, 0), b = rewrite_input(rewrite, node, 1);

    if (pass_is_op(node, "Add") && node->info.since_version >= 7)
        return match_sum(rewrite, node);
    if (a == INLAY_NONE || b == INLAY_NONE ||
        (untransposed(rewrite, a) == INLAY_NONE && untransposed(rewrite, b) == INLAY_NONE))
        return INLAY_OK;
    if (is_matrix_product(rewrite, node))
        return make_gemm(rewrite, node, NULL, a, b, INLAY_NONE);
    if (pass_is_op(node, "Gemm") && node->info.since_version >= 7)
        return make_gemm(rewrite, node, node, a, b, rewrite_input(rewrite, node, 2));
    return INLAY_OK;
}
