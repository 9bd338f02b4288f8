/* onnx/col2im.c - columns back to images. */
#include "schema.h"

static const op_row rows[] = {
    { "Col2Im", 18, 0,
      "input:T, image_shape:int64, block_shape:int64 -> output:T; T=@all_ir4; dilations:is, pads:is, strides:is",
      NULL },
};

const op_table op_onnx_col2im = { "ai.onnx", rows, OP_COUNT(rows) };
