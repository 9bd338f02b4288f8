/* onnx/roi_pool.c - pooling of regions of interest. */
#include "schema.h"

/* [R, C, height, width] for R regions. */
static inlay_status set_pooled(op_infer *infer, int64_t height, int64_t width)
{
    inlay_dim dims[4] = { infer_dim(infer, 1, 0), infer_dim(infer, 0, 1), dim_fixed(height), dim_fixed(width) };

    if (height <= 0 || width <= 0)
        return infer_fail(infer, INLAY_INVALID_MODEL, "the pooled size is %lld x %lld; it must be positive",
                          (long long)height, (long long)width);
    return infer_set_shape(infer, 0, 4, dims);
}

static inlay_status infer_roi_align(op_infer *infer)
{
    return set_pooled(infer, infer_attr_int(infer, "output_height", 1), infer_attr_int(infer, "output_width", 1));
}

static inlay_status infer_max_roi_pool(op_infer *infer)
{
    uint32_t count;
    const int64_t *shape = infer_attr_ints(infer, "pooled_shape", &count);

    if (count != 2)
        return infer_fail(infer, INLAY_INVALID_MODEL, "pooled_shape has %u values; it must have 2", count);
    return set_pooled(infer, shape[0], shape[1]);
}

static const op_row onnx_roi_pool_rows[] = {
    { "MaxRoiPool", 1, 0, "X:T, rois:T -> Y:T; T=@float; pooled_shape:is!, spatial_scale:f=1", infer_max_roi_pool },
    { "MaxRoiPool", 22, 0, "X:T, rois:T -> Y:T; T=@float_ir4; pooled_shape:is!, spatial_scale:f=1",
      infer_max_roi_pool },

    { "RoiAlign", 10, 0,
      "X:T1, rois:T1, batch_indices:T2 -> Y:T1; T1=@float, T2=int64; mode:s='avg', output_height:i=1, "
      "output_width:i=1, sampling_ratio:i=0, spatial_scale:f=1",
      infer_roi_align },
    { "RoiAlign", 16, 0,
      "X:T1, rois:T1, batch_indices:T2 -> Y:T1; T1=@float, T2=int64; coordinate_transformation_mode:s='half_pixel', "
      "mode:s='avg', output_height:i=1, output_width:i=1, sampling_ratio:i=0, spatial_scale:f=1",
      infer_roi_align },
    { "RoiAlign", 22, 0,
      "X:T1, rois:T1, batch_indices:T2 -> Y:T1; T1=@float_ir4, T2=int64; "
      "coordinate_transformation_mode:s='half_pixel', mode:s='avg', output_height:i=1, output_width:i=1, "
      "sampling_ratio:i=0, spatial_scale:f=1",
      infer_roi_align },
};

const op_table op_onnx_roi_pool = { "ai.onnx", onnx_roi_pool_rows, OP_COUNT(onnx_roi_pool_rows) };
