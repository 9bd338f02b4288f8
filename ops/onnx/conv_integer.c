/* onnx/conv_integer.c - convolution of quantized tensors. */
#include "onnx/conv.h"
#include "schema.h"

static inlay_status infer_conv_integer(op_infer *infer)
{
    return infer_conv_of(infer, 0, 1);
}

static inlay_status infer_q_linear_conv(op_infer *infer)
{
    inlay_status status = infer_conv_of(infer, 0, 3);

    return status == INLAY_OK ? infer_check_count(infer, 8, infer_dim(infer, 3, 0)) : status;
}

static const op_row onnx_conv_integer_rows[] = {
    { "ConvInteger", 10, 0,
      "x:T1, w:T2, x_zero_point?:T1, w_zero_point?:T2 -> y:T3; T1=uint8|int8, T2=uint8|int8, T3=int32; "
      "auto_pad:s='NOTSET', dilations:is, group:i=1, kernel_shape:is, pads:is, strides:is",
      infer_conv_integer },
    { "QLinearConv", 10, 0,
      "x:T1, x_scale:float, x_zero_point:T1, w:T2, w_scale:float, w_zero_point:T2, y_scale:float, y_zero_point:T3, "
      "B?:T4 -> y:T3; T1=uint8|int8, T2=uint8|int8, T3=uint8|int8, T4=int32; auto_pad:s='NOTSET', dilations:is, "
      "group:i=1, kernel_shape:is, pads:is, strides:is",
      infer_q_linear_conv },
};

const op_table op_onnx_conv_integer = { "ai.onnx", onnx_conv_integer_rows, OP_COUNT(onnx_conv_integer_rows) };
