/* onnx/conv_transpose.c - transposed convolution. */
#include "schema.h"

static const op_row rows[] = {
    { "ConvTranspose", 1, 0,
      "X:T, W:T, B?:T -> Y:T; T=@float; auto_pad:s='NOTSET', dilations:is, group:i=1, kernel_shape:is, "
      "output_padding:is, output_shape:is, pads:is, strides:is",
      NULL },
    { "ConvTranspose", 11, 0,
      "X:T, W:T, B?:T -> Y:T; T=@float; auto_pad:s='NOTSET', dilations:is, group:i=1, kernel_shape:is, "
      "output_padding:is, output_shape:is, pads:is, strides:is",
      NULL },
    { "ConvTranspose", 22, 0,
      "X:T, W:T, B?:T -> Y:T; T=@float_ir4; auto_pad:s='NOTSET', dilations:is, group:i=1, kernel_shape:is, "
      "output_padding:is, output_shape:is, pads:is, strides:is",
      NULL },
};

const op_table op_onnx_conv_transpose = { "ai.onnx", rows, OP_COUNT(rows) };
