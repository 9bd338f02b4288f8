/* onnx/top_k.c - the largest or smallest elements along an axis. */
#include "schema.h"

/* The outputs have the shape of X with size K along the axis; K is an attribute before TopK-10. */
static inlay_status infer_top_k(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK], k = dim_fixed(infer_attr_int(infer, "k", 0));
    inlay_status status = INLAY_OK;
    uint32_t axis, count;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    INLAY_TRY(infer_axis(infer, infer_attr_int(infer, "axis", -1), rank, "axis", &axis));
    if (infer->node->since_version >= 10) {
        const inlay_dim *elements = infer_elements(infer, 1, &count);

        INLAY_TRY(infer_check_list(infer, 1));
        k = elements != NULL && count == 1 ? elements[0] : dim_unknown();
    }
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = infer_dim(infer, 0, i);
    if (k.kind == INLAY_DIM_FIXED &&
        (k.value < 0 || (dims[axis].kind == INLAY_DIM_FIXED && k.value > dims[axis].value)))
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "K is %lld of %lld elements", (long long)k.value,
                          (long long)dims[axis].value);
    dims[axis] = k;
    INLAY_TRY(infer_set_shape(infer, 0, rank, dims));
    status = infer_set_shape(infer, 1, rank, dims);
done:
    return status;
}

static const op_row onnx_top_k_rows[] = {
    { "TopK", 1, 0, "X:T -> Values:T, Indices:I; T=@float, I=int64; axis:i=-1, k:i!", infer_top_k },
    { "TopK", 10, 0, "X:T, K:int64 -> Values:T, Indices:I; T=@float, I=int64; axis:i=-1", infer_top_k },
    { "TopK", 11, 0, "X:T, K:int64 -> Values:T, Indices:I; T=@numeric, I=int64; axis:i=-1, largest:i=1, sorted:i=1",
      infer_top_k },
    { "TopK", 24, 0, "X:T, K:int64 -> Values:T, Indices:I; T=@numeric_ir4, I=int64; axis:i=-1, largest:i=1, sorted:i=1",
      infer_top_k },
};

const op_table op_onnx_top_k = { "ai.onnx", onnx_top_k_rows, OP_COUNT(onnx_top_k_rows) };
