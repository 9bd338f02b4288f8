/* onnx/tensor_scatter.c - TensorScatter: updates of a cache at per-batch positions. */
#include "schema.h"

static const op_row onnx_tensor_scatter_rows[] = {
    { "TensorScatter", 24, 0,
      "past_cache:T, update:T, write_indices?:int64 -> present_cache:T; T=@all_ir12; axis:i=-2, mode:s='linear'",
      infer_same_as_first },
};

const op_table op_onnx_tensor_scatter = { "ai.onnx", onnx_tensor_scatter_rows, OP_COUNT(onnx_tensor_scatter_rows) };
