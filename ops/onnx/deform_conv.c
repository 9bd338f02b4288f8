/* onnx/deform_conv.c - deformable convolution. */
#include "onnx/conv.h"
#include "schema.h"

static inlay_status infer_deform_conv(op_infer *infer)
{
    return infer_conv_of(infer, 0, 1);
}

static const op_row onnx_deform_conv_rows[] = {
    { "DeformConv", 19, 0,
      "X:T, W:T, offset:T, B?:T, mask?:T -> Y:T; T=@float; dilations:is, group:i=1, kernel_shape:is, "
      "offset_group:i=1, pads:is, strides:is",
      infer_deform_conv },
    { "DeformConv", 22, 0,
      "X:T, W:T, offset:T, B?:T, mask?:T -> Y:T; T=@float_ir4; dilations:is, group:i=1, kernel_shape:is, "
      "offset_group:i=1, pads:is, strides:is",
      infer_deform_conv },
};

const op_table op_onnx_deform_conv = { "ai.onnx", onnx_deform_conv_rows, OP_COUNT(onnx_deform_conv_rows) };
