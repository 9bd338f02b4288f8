/* ml/array_feature_extractor.c - selection of features by index. */
#include "schema.h"

/* Z is X with only the features that Y lists along the last axis; for a single sample Z is [1, n]. */
static inlay_status infer_array_feature_extractor(op_infer *infer)
{
    uint32_t rank = infer_rank(infer, 0), index_rank = infer_rank(infer, 1);
    inlay_dim dims[INLAY_MAX_RANK + 1];

    if (rank == INLAY_RANK_UNKNOWN || index_rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank == 0)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "X is a scalar; it must have features along its last axis");
    dims[0] = dim_fixed(1);
    for (uint32_t d = 0; d + 1 < rank; d++)
        dims[d] = infer_dim(infer, 0, d);
    rank = rank == 1 ? 2 : rank;
    dims[rank - 1] = dim_product(infer, infer->in[1]->dims, index_rank);
    return infer_set_shape(infer, 0, rank, dims);
}

static const op_row ml_array_feature_extractor_rows[] = {
    { "ArrayFeatureExtractor", 1, 0, "X:T, Y:int64 -> Z:T; T=int32|int64|float|double|string",
      infer_array_feature_extractor },
};

const op_table op_ml_array_feature_extractor = { "ai.onnx.ml", ml_array_feature_extractor_rows,
                                                 OP_COUNT(ml_array_feature_extractor_rows) };
