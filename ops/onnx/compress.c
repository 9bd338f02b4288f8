/* onnx/compress.c - selection by a condition. */
#include "schema.h"

/* Compress-11: the number of selected elements, or of slices along axis, depends on the data. */
static inlay_status infer_compress(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK] = { { .kind = INLAY_DIM_UNKNOWN, .value = -1 } };
    inlay_status status;
    uint32_t axis;

    if (infer_attr(infer, "axis") == NULL)
        return infer_set_shape(infer, 0, 1, dims);
    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    status = infer_axis(infer, infer_attr_int(infer, "axis", 0), rank, "axis", &axis);
    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = i == axis ? dim_unknown() : infer_dim(infer, 0, i);
    return infer_set_shape(infer, 0, rank, dims);
}

static const op_row onnx_compress_rows[] = {
    { "Compress", 9, 0, "input:T, condition:T1 -> output:T; T=@all, T1=bool; axis:i", infer_compress },
    { "Compress", 11, 0, "input:T, condition:T1 -> output:T; T=@all, T1=bool; axis:i", infer_compress },
};

const op_table op_onnx_compress = { "ai.onnx", onnx_compress_rows, OP_COUNT(onnx_compress_rows) };
