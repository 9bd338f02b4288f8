/* inlay/sparse.c - a sparse initializer that stays sparse; the loader creates the node
 * (host/runtime/model/load_sparse.c). */
#include "schema.h"

static inlay_status infer_dense(op_infer *infer)
{
    inlay_dim dims[INLAY_MAX_RANK];
    uint32_t rank = 0;
    const int64_t *shape = infer_attr_ints(infer, "shape", &rank);

    if (shape == NULL || rank > INLAY_MAX_RANK)
        return infer_fail(infer, INLAY_INVALID_MODEL, "shape has %u axes; at most %d are supported", rank,
                          INLAY_MAX_RANK);
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return infer_fail(infer, INLAY_INVALID_MODEL, "axis %u of shape is negative", i);
        dims[i] = dim_fixed(shape[i]);
    }
    return infer_set_shape(infer, 0, rank, dims);
}

/* Element indices[k] of dense is values[k], with indices in ascending order; all other elements are 0. */
static const op_row inlay_sparse_rows[] = {
    { "SparseToDense", 1, 0, "values:T, indices:I -> dense:T; T=float, I=int64; shape:is!", infer_dense },
};

const op_table op_inlay_sparse = { "ai.inlay", inlay_sparse_rows, OP_COUNT(inlay_sparse_rows) };
