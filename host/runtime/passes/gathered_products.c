/* Multiplies rows with matrices of a constant that are chosen by index, such as the experts of a mixture, without a
 * copy of the matrices (GatherMatMul of ai.inlay, which also multiplies rows of the same matrix together):
 *
 *     MatMul(x, Gather(W, i))                    ->  GatherMatMul(x, W, i)                          W [E, K, N]
 *     MatMul(x, Transpose(Gather(W, i)))         ->  GatherMatMul(x, W, i), transposed              W [E, N, K]
 *     MatMul(Gather(W, i), column x)             ->  the same of the row x, whose result is a column
 *
 * for axis 0, x [..., M, K] and i [...]. GatherND with one index is such a Gather. A Cast of the chosen matrices to
 * float is dropped, since the products read other types, too. */
#include "passes/rewrite.h"

static const char GATHERED_DOMAIN[] = "ai.inlay";

struct gathered {
    uint32_t weights, indices; /* values; indices are [...], or [..., 1] of GatherND */
    uint32_t rank;             /* of the chosen indices */
    bool from_nd, transposed;
};

/* Whether the permutation of a Transpose exchanges the last two axes of `rank` alone. */
static bool exchanges_last(const graph_node *transpose, uint32_t rank)
{
    uint32_t count = 0;
    const int64_t *perm = rewrite_attr_ints(transpose, "perm", &count);

    if (perm == NULL || count != rank || rank < 2 || perm[rank - 2] != rank - 1 || perm[rank - 1] != rank - 2)
        return false;
    for (uint32_t d = 0; d + 2 < rank; d++)
        if (perm[d] != d)
            return false;
    return true;
}

/* Matches value = [Transpose of] [Cast of] selected matrices of a constant; each of these values has one reader. */
static bool find_gathered(const struct rewrite *rewrite, uint32_t value, struct gathered *out)
{
    const inlay_value_info *weights, *indices;
    const graph_node *node;

    *out = (struct gathered){ .weights = INLAY_NONE };
    for (;;) {
        node = rewrite_producer(rewrite, value);
        if (node == NULL || !rewrite_has_one_use(rewrite, value))
            return false;
        if (pass_is_op(node, "Transpose") && exchanges_last(node, rewrite_value_info(rewrite, value)->rank))
            out->transposed = !out->transposed;
        else if (!pass_is_op(node, "Cast") || rewrite_value_info(rewrite, value)->dtype != INLAY_FLOAT)
            break;
        value = rewrite_input(rewrite, node, 0);
    }
    out->from_nd = pass_is_op(node, "GatherND") && graph_attr_int(node, "batch_dims", 0) == 0;
    if (!out->from_nd && (!pass_is_op(node, "Gather") || graph_attr_int(node, "axis", 0) != 0))
        return false;
    out->weights = rewrite_input(rewrite, node, 0);
    out->indices = rewrite_input(rewrite, node, 1);
    weights = rewrite_value_info(rewrite, out->weights);
    indices = rewrite_value_info(rewrite, out->indices);
    if (weights == NULL || indices == NULL || !rewrite_is_constant(rewrite, out->weights) || weights->rank != 3 ||
        (weights->dtype != INLAY_FLOAT && weights->dtype != INLAY_FLOAT16 && weights->dtype != INLAY_BFLOAT16) ||
        weights->data_bytes == 0 || indices->rank == INLAY_RANK_UNKNOWN ||
        (out->from_nd && rewrite_dim(indices, -1) != 1))
        return false;
    out->rank = indices->rank - out->from_nd;
    return true;
}

/* Returns true if x has the axes of the indices, followed by two more. */
static bool fits(const struct rewrite *rewrite, const struct gathered *found, uint32_t x)
{
    const inlay_value_info *info = rewrite_value_info(rewrite, x),
                           *indices = rewrite_value_info(rewrite, found->indices);

    if (info == NULL || info->rank != found->rank + 2)
        return false;
    for (uint32_t d = 0; d < found->rank; d++)
        if (!rewrite_same_dim(&info->dims[d], &indices->dims[d]))
            return false;
    return true;
}

/* A Reshape of value that keeps the first `kept` axes and gives the last two these sizes. NULL: out of memory. */
static graph_node *make_reshape(struct rewrite *rewrite, const graph_node *like, uint32_t value, uint32_t kept,
                                int64_t rows, int64_t columns)
{
    int64_t dims[INLAY_MAX_RANK] = { 0 };
    uint32_t inputs[2] = { value };

    INLAY_CHECK(kept + 2 <= INLAY_MAX_RANK);
    dims[kept] = rows;
    dims[kept + 1] = columns;
    inputs[1] = rewrite_constant_ints(rewrite, dims, kept + 2);
    return inputs[1] == INLAY_NONE
               ? NULL
               : rewrite_make_node(rewrite, "Reshape", like->opset > 13 ? like->opset : 13, like, inputs, 2, 1);
}

/* The indices of the matrices without GatherND's last axis. INLAY_NONE: out of memory. */
static uint32_t plain_indices(struct rewrite *rewrite, const graph_node *like, const struct gathered *found)
{
    const int64_t last = -1;
    uint32_t inputs[2] = { found->indices };
    graph_node *squeeze;

    if (!found->from_nd)
        return found->indices;
    inputs[1] = rewrite_constant_ints(rewrite, &last, 1);
    squeeze = inputs[1] == INLAY_NONE ? NULL : rewrite_make_node(rewrite, "Squeeze", 13, like, inputs, 2, 1);
    return squeeze == NULL ||
                   rewrite_insert_node(rewrite, squeeze, rewrite_value_info(rewrite, found->indices)->dtype) != INLAY_OK
               ? INLAY_NONE
               : squeeze->info.outputs[0];
}

static graph_node *make_product(struct rewrite *rewrite, const graph_node *node, const struct gathered *found,
                                uint32_t x, bool transposed)
{
    const uint32_t indices = plain_indices(rewrite, node, found);
    graph_node *product = indices == INLAY_NONE
                              ? NULL
                              : rewrite_make_node(rewrite, "GatherMatMul", 1, node,
                                                  (const uint32_t[]){ x, found->weights, indices }, 3, 1);

    if (product == NULL || (transposed && graph_set_attr_int(rewrite->graph, product, "transposed", 1) != INLAY_OK))
        return NULL;
    product->info.domain = (inlay_str){ GATHERED_DOMAIN, sizeof GATHERED_DOMAIN - 1 };
    return product;
}

/* The matrices are the first operand, and x is a column. */
static inlay_status replace_columns(struct rewrite *rewrite, graph_node *node, const struct gathered *found, uint32_t x)
{
    const inlay_value_info *weights = rewrite_value_info(rewrite, found->weights);
    const inlay_dtype dtype = rewrite_value_info(rewrite, x)->dtype;
    graph_node *row = make_reshape(rewrite, node, x, found->rank, 1, rewrite_dim(weights, found->transposed ? 1 : 2)),
               *product, *column;

    if (row == NULL || rewrite_insert_node(rewrite, row, dtype) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    product = make_product(rewrite, node, found, row->info.outputs[0], !found->transposed);
    if (product == NULL || rewrite_insert_node(rewrite, product, dtype) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    column = make_reshape(rewrite, node, product->info.outputs[0], found->rank,
                          rewrite_dim(weights, found->transposed ? 2 : 1), 1);
    return column == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, column);
}

static inlay_status match_gathered_products(struct rewrite *rewrite, graph_node *node)
{
    uint32_t a, b;
    struct gathered found;
    graph_node *product;

    if (!pass_is_op(node, "MatMul") || rewrite_is_quantized_later(rewrite, node->info.outputs[0]))
        return INLAY_OK;
    a = rewrite_input(rewrite, node, 0);
    b = rewrite_input(rewrite, node, 1);
    if (find_gathered(rewrite, b, &found) && fits(rewrite, &found, a)) {
        product = make_product(rewrite, node, &found, a, found.transposed);
        return product == NULL ? rewrite_no_memory(rewrite) : rewrite_replace_node(rewrite, node, product);
    }
    if (find_gathered(rewrite, a, &found) && fits(rewrite, &found, b) &&
        rewrite_dim(rewrite_value_info(rewrite, b), -1) == 1)
        return replace_columns(rewrite, node, &found, b);
    return INLAY_OK;
}

inlay_status pass_gathered_products(pass_ctx *ctx, bool *out_changed)
{
    /* GatherMatMul is not an operator of ONNX, so files do not get it */
    return ctx->options.newest_opset == 0 ? rewrite_each_graph(ctx, match_gathered_products, out_changed) : INLAY_OK;
}
