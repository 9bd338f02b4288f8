/* onnx/max_unpool.c - MaxUnpool: the inverse of MaxPool by its indices. */
#include "schema.h"

static const op_row rows[] = {
    { "MaxUnpool", 9, 0,
      "X:T1, I:T2, output_shape?:T2 -> output:T1; T1=@float, T2=int64; kernel_shape:is!, pads:is, strides:is", NULL },
    { "MaxUnpool", 11, 0,
      "X:T1, I:T2, output_shape?:T2 -> output:T1; T1=@float, T2=int64; kernel_shape:is!, pads:is, strides:is", NULL },
    { "MaxUnpool", 22, 0,
      "X:T1, I:T2, output_shape?:T2 -> output:T1; T1=@float_ir4, T2=int64; kernel_shape:is!, pads:is, strides:is",
      NULL },
};

const op_table op_onnx_max_unpool = { "ai.onnx", rows, OP_COUNT(rows) };
