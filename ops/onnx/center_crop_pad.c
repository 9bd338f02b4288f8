/* onnx/center_crop_pad.c - cropping or padding around the centre. */
#include "schema.h"

static const op_row rows[] = {
    { "CenterCropPad", 18, 0, "input_data:T, shape:Tind -> output_data:T; T=@all_ir4, Tind=int32|int64; axes:is",
      NULL },
};

const op_table op_onnx_center_crop_pad = { "ai.onnx", rows, OP_COUNT(rows) };
