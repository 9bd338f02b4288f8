/* inlay/gather_mat_mul.c - products with matrices chosen by index, such as the experts of a mixture. The optimiser
 * makes the nodes (host/runtime/passes/gathered_products.c). */
#include "schema.h"
#include "inlay/check.h"

enum { IN_X, IN_WEIGHTS, IN_INDICES };

static inlay_status infer_gather_mat_mul(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, IN_X), chosen = infer_rank(infer, IN_INDICES);
    const uint32_t transposed = infer_attr_int(infer, "transposed", 0) != 0;
    inlay_dim dims[INLAY_MAX_RANK], inner;
    inlay_status status = INLAY_OK;

    if (infer_rank(infer, IN_WEIGHTS) != INLAY_RANK_UNKNOWN && infer_rank(infer, IN_WEIGHTS) != 3)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "the matrices have rank %u, not 3",
                          infer_rank(infer, IN_WEIGHTS));
    if (rank == INLAY_RANK_UNKNOWN || chosen == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank != chosen + 2)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "x has rank %u, but indices of rank %u choose matrices", rank,
                          chosen);
    INLAY_CHECK(rank <= INLAY_MAX_RANK);
    for (uint32_t d = 0; d < chosen; d++)
        INLAY_TRY(
            dim_merge(infer, infer_dim(infer, IN_X, d), infer_dim(infer, IN_INDICES, d), "x and indices", &dims[d]));
    INLAY_TRY(dim_merge(infer, infer_dim(infer, IN_X, rank - 1), infer_dim(infer, IN_WEIGHTS, 1 + transposed),
                        "columns of x and rows of the matrices", &inner));
    dims[rank - 2] = infer_dim(infer, IN_X, rank - 2);
    dims[rank - 1] = infer_dim(infer, IN_WEIGHTS, 2 - transposed);
    INLAY_TRY(infer_set_shape(infer, 0, rank, dims));
done:
    return status;
}

/* y[i] = x[i] * weights[indices[i]] for x [..., M, K], weights [E, K, N] ([E, N, K] if transposed) and indices [...] in
 * [-E, E): MatMul(x, Gather(weights, indices)) without a copy of the weights. */
static const op_row inlay_gather_mat_mul_rows[] = {
    { "GatherMatMul", 1, 0,
      "x:T, weights:W, indices:I -> y:T; T=float|float16|bfloat16, W=float|float16|bfloat16, I=int32|int64; "
      "transposed:i=0",
      infer_gather_mat_mul },
};

const op_table op_inlay_gather_mat_mul = { "ai.inlay", inlay_gather_mat_mul_rows, OP_COUNT(inlay_gather_mat_mul_rows) };
