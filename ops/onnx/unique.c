/* onnx/unique.c - distinct elements or slices. */
#include "schema.h"

/* Unique-11: the number of distinct elements depends on the data; the inverse has one index for each element or
 * slice. */
static inlay_status infer_unique(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    const bool flat = infer_attr(infer, "axis") == NULL;
    inlay_dim dims[INLAY_MAX_RANK] = { { .kind = INLAY_DIM_UNKNOWN, .value = -1 } }, unknown = dim_unknown();
    inlay_dim inverse = dim_unknown();
    inlay_status status = INLAY_OK;
    uint32_t axis = 0;

    if (rank != INLAY_RANK_UNKNOWN && flat) {
        inverse = dim_product(infer, infer->in[0]->dims, rank);
    } else if (rank != INLAY_RANK_UNKNOWN) {
        INLAY_TRY(infer_axis(infer, infer_attr_int(infer, "axis", 0), rank, "axis", &axis));
        for (uint32_t i = 0; i < rank; i++)
            dims[i] = i == axis ? unknown : infer_dim(infer, 0, i);
        inverse = infer_dim(infer, 0, axis);
    }
    if (flat || rank != INLAY_RANK_UNKNOWN)
        INLAY_TRY(infer_set_shape(infer, 0, flat ? 1 : rank, dims));
    INLAY_TRY(infer_set_shape(infer, 1, 1, &unknown));
    INLAY_TRY(infer_set_shape(infer, 2, 1, &inverse));
    status = infer_set_shape(infer, 3, 1, &unknown);
done:
    return status;
}

static const op_row onnx_unique_rows[] = {
    { "Unique", 11, 0, "X:T -> Y:T, indices?:int64, inverse_indices?:int64, counts?:int64; T=@all; axis:i, sorted:i=1",
      infer_unique },
};

const op_table op_onnx_unique = { "ai.onnx", onnx_unique_rows, OP_COUNT(onnx_unique_rows) };
