/* onnx/resize.c - resampling of grids. */
#include "schema.h"

static const op_row rows[] = {
    { "Resize", 10, 0, "X:T, scales:float -> Y:T; T=@all; mode:s='nearest'", NULL },
    { "Resize", 11, 0,
      "X:T1, roi:T2, scales:float, sizes?:int64 -> Y:T1; T1=@all, T2=@float; "
      "coordinate_transformation_mode:s='half_pixel', cubic_coeff_a:f=-0.75, exclude_outside:i=0, "
      "extrapolation_value:f=0, mode:s='nearest', nearest_mode:s='round_prefer_floor'",
      NULL },
    { "Resize", 13, 0,
      "X:T1, roi?:T2, scales?:float, sizes?:int64 -> Y:T1; T1=@all_ir4, T2=@float; "
      "coordinate_transformation_mode:s='half_pixel', cubic_coeff_a:f=-0.75, exclude_outside:i=0, "
      "extrapolation_value:f=0, mode:s='nearest', nearest_mode:s='round_prefer_floor'",
      NULL },
    { "Resize", 18, 0,
      "X:T1, roi?:T2, scales?:float, sizes?:int64 -> Y:T1; T1=@all_ir4, T2=@float; antialias:i=0, axes:is, "
      "coordinate_transformation_mode:s='half_pixel', cubic_coeff_a:f=-0.75, exclude_outside:i=0, "
      "extrapolation_value:f=0, keep_aspect_ratio_policy:s='stretch', mode:s='nearest', "
      "nearest_mode:s='round_prefer_floor'",
      NULL },
    { "Resize", 19, 0,
      "X:T1, roi?:T2, scales?:float, sizes?:int64 -> Y:T1; T1=@all_ir4, T2=@float; antialias:i=0, axes:is, "
      "coordinate_transformation_mode:s='half_pixel', cubic_coeff_a:f=-0.75, exclude_outside:i=0, "
      "extrapolation_value:f=0, keep_aspect_ratio_policy:s='stretch', mode:s='nearest', "
      "nearest_mode:s='round_prefer_floor'",
      NULL },

    { "Upsample", 1, 0, "X:T -> Y:T; T=@float|bool|int32|int64; height_scale:f!, mode:s='nearest', width_scale:f!",
      NULL },
    { "Upsample", 7, 0, "X:T -> Y:T; T=@all; mode:s='nearest', scales:fs!", NULL },
    { "Upsample", 9, 0, "X:T, scales:float -> Y:T; T=@all; mode:s='nearest'", NULL },
    { "Upsample", 10, OP_DEPRECATED, "X:T, scales:float -> Y:T; T=@all; mode:s='nearest'", NULL },
};

const op_table op_onnx_resize = { "ai.onnx", rows, OP_COUNT(rows) };
