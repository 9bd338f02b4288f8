/* onnx/pool.c - pooling windows. */
#include "schema.h"

static const op_row rows[] = {
    { "AveragePool", 1, 0, "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', kernel_shape:is!, pads:is, strides:is", NULL },
    { "AveragePool", 7, 0,
      "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', count_include_pad:i=0, kernel_shape:is!, pads:is, strides:is", NULL },
    { "AveragePool", 10, 0,
      "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', ceil_mode:i=0, count_include_pad:i=0, kernel_shape:is!, pads:is, "
      "strides:is",
      NULL },
    { "AveragePool", 11, 0,
      "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', ceil_mode:i=0, count_include_pad:i=0, kernel_shape:is!, pads:is, "
      "strides:is",
      NULL },
    { "AveragePool", 19, 0,
      "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', ceil_mode:i=0, count_include_pad:i=0, dilations:is, "
      "kernel_shape:is!, pads:is, strides:is",
      NULL },
    { "AveragePool", 22, 0,
      "X:T -> Y:T; T=@float_ir4; auto_pad:s='NOTSET', ceil_mode:i=0, count_include_pad:i=0, dilations:is, "
      "kernel_shape:is!, pads:is, strides:is",
      NULL },

    { "LpPool", 1, 0, "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', kernel_shape:is, p:f=2, pads:is, strides:is", NULL },
    { "LpPool", 2, 0, "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', kernel_shape:is!, p:i=2, pads:is, strides:is", NULL },
    { "LpPool", 11, 0, "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', kernel_shape:is!, p:i=2, pads:is, strides:is",
      NULL },
    { "LpPool", 18, 0,
      "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', ceil_mode:i=0, dilations:is, kernel_shape:is!, p:i=2, pads:is, "
      "strides:is",
      NULL },
    { "LpPool", 22, 0,
      "X:T -> Y:T; T=@float_ir4; auto_pad:s='NOTSET', ceil_mode:i=0, dilations:is, kernel_shape:is!, p:i=2, pads:is, "
      "strides:is",
      NULL },

    { "MaxPool", 1, 0, "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', kernel_shape:is!, pads:is, strides:is", NULL },
    { "MaxPool", 8, 0,
      "X:T -> Y:T, Indices?:I; T=@float, I=int64; auto_pad:s='NOTSET', kernel_shape:is!, pads:is, storage_order:i=0, "
      "strides:is",
      NULL },
    { "MaxPool", 10, 0,
      "X:T -> Y:T, Indices?:I; T=@float, I=int64; auto_pad:s='NOTSET', ceil_mode:i=0, dilations:is, kernel_shape:is!, "
      "pads:is, storage_order:i=0, strides:is",
      NULL },
    { "MaxPool", 11, 0,
      "X:T -> Y:T, Indices?:I; T=@float, I=int64; auto_pad:s='NOTSET', ceil_mode:i=0, dilations:is, kernel_shape:is!, "
      "pads:is, storage_order:i=0, strides:is",
      NULL },
    { "MaxPool", 12, 0,
      "X:T -> Y:T, Indices?:I; T=@float|uint8|int8, I=int64; auto_pad:s='NOTSET', ceil_mode:i=0, dilations:is, "
      "kernel_shape:is!, pads:is, storage_order:i=0, strides:is",
      NULL },
    { "MaxPool", 22, 0,
      "X:T -> Y:T, Indices?:I; T=@float_ir4|uint8|int8, I=int64; auto_pad:s='NOTSET', ceil_mode:i=0, dilations:is, "
      "kernel_shape:is!, pads:is, storage_order:i=0, strides:is",
      NULL },
};

const op_table op_onnx_pool = { "ai.onnx", rows, OP_COUNT(rows) };
