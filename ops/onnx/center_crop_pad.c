/* onnx/center_crop_pad.c - cropping or padding around the centre. */
#include "schema.h"

/* CenterCropPad-18: the axes in `axes`, or all axes, get the sizes in input `shape`. */
static inlay_status infer_center_crop_pad(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    const bool has_axes = infer_attr(infer, "axes") != NULL;
    inlay_dim dims[INLAY_MAX_RANK];
    uint32_t count, axis_count;
    const inlay_dim *shape = infer_elements(infer, 1, &count);
    const int64_t *axes = infer_attr_ints(infer, "axes", &axis_count);
    inlay_status status = infer_check_list(infer, 1);

    if (status != INLAY_OK || rank == INLAY_RANK_UNKNOWN)
        return status;
    axis_count = has_axes ? axis_count : rank;
    if (axis_count > rank || (shape != NULL && count != axis_count))
        return infer_fail(infer, INLAY_INVALID_MODEL, "%u axes are named, but shape has %u values", axis_count, count);
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = infer_dim(infer, 0, i);
    for (uint32_t i = 0; i < axis_count; i++) {
        uint32_t axis;
        status = infer_axis(infer, has_axes ? axes[i] : (int64_t)i, rank, "axes", &axis);
        if (status != INLAY_OK)
            return status;
        dims[axis] = shape != NULL ? shape[i] : dim_unknown();
    }
    return infer_set_shape(infer, 0, rank, dims);
}

static const op_row onnx_center_crop_pad_rows[] = {
    { "CenterCropPad", 18, 0, "input_data:T, shape:Tind -> output_data:T; T=@all_ir4, Tind=int32|int64; axes:is",
      infer_center_crop_pad },
};

const op_table op_onnx_center_crop_pad = { "ai.onnx", onnx_center_crop_pad_rows, OP_COUNT(onnx_center_crop_pad_rows) };
