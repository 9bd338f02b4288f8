/* onnx/roi_pool.c - pooling of regions of interest. */
#include "schema.h"

static const op_row rows[] = {
    { "MaxRoiPool", 1, 0, "X:T, rois:T -> Y:T; T=@float; pooled_shape:is!, spatial_scale:f=1", NULL },
    { "MaxRoiPool", 22, 0, "X:T, rois:T -> Y:T; T=@float_ir4; pooled_shape:is!, spatial_scale:f=1", NULL },

    { "RoiAlign", 10, 0,
      "X:T1, rois:T1, batch_indices:T2 -> Y:T1; T1=@float, T2=int64; mode:s='avg', output_height:i=1, "
      "output_width:i=1, sampling_ratio:i=0, spatial_scale:f=1",
      NULL },
    { "RoiAlign", 16, 0,
      "X:T1, rois:T1, batch_indices:T2 -> Y:T1; T1=@float, T2=int64; coordinate_transformation_mode:s='half_pixel', "
      "mode:s='avg', output_height:i=1, output_width:i=1, sampling_ratio:i=0, spatial_scale:f=1",
      NULL },
    { "RoiAlign", 22, 0,
      "X:T1, rois:T1, batch_indices:T2 -> Y:T1; T1=@float_ir4, T2=int64; "
      "coordinate_transformation_mode:s='half_pixel', mode:s='avg', output_height:i=1, output_width:i=1, "
      "sampling_ratio:i=0, spatial_scale:f=1",
      NULL },
};

const op_table op_onnx_roi_pool = { "ai.onnx", rows, OP_COUNT(rows) };
