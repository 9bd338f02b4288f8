/* onnx/one_hot.c - one-hot vectors. */
#include "schema.h"

/* OneHot-11: the shape of the indices with an additional axis. Input depth is the size of this axis and may have any
 * numeric type. */
static inlay_status infer_one_hot(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK + 1], depth = dim_unknown();
    inlay_status status;
    uint32_t axis, count;
    const inlay_dim *elements = infer_elements(infer, 1, &count);
    double value;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (elements != NULL && count == 1)
        depth = elements[0];
    else if (infer_floats(infer, 1, &value, 1, &count) && count == 1)
        depth = dim_fixed(value >= 0 && value < 9e15 ? (int64_t)value : -1);
    status = infer_axis(infer, infer_attr_int(infer, "axis", -1), rank + 1, "axis", &axis);
    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < axis; i++)
        dims[i] = infer_dim(infer, 0, i);
    dims[axis] = depth;
    for (uint32_t i = axis; i < rank; i++)
        dims[i + 1] = infer_dim(infer, 0, i);
    return infer_set_shape(infer, 0, rank + 1, dims);
}

static const op_row onnx_one_hot_rows[] = {
    { "OneHot", 9, 0, "indices:T1, depth:T2, values:T3 -> output:T3; T1=@numeric, T2=@numeric, T3=@all; axis:i=-1",
      infer_one_hot },
    { "OneHot", 11, 0, "indices:T1, depth:T2, values:T3 -> output:T3; T1=@numeric, T2=@numeric, T3=@all; axis:i=-1",
      infer_one_hot },
};

const op_table op_onnx_one_hot = { "ai.onnx", onnx_one_hot_rows, OP_COUNT(onnx_one_hot_rows) };
