/* onnx/instance_normalization.c - instance normalization. */
#include "schema.h"

static const op_row onnx_instance_normalization_rows[] = {
    { "InstanceNormalization", 1, 0, "input:T, scale:T, B:T -> output:T; T=@float; consumed_inputs:is, epsilon:f=1e-05",
      infer_same_as_first },
    { "InstanceNormalization", 6, 0, "input:T, scale:T, B:T -> output:T; T=@float; epsilon:f=1e-05",
      infer_same_as_first },
    { "InstanceNormalization", 22, 0, "input:T, scale:T, B:T -> output:T; T=@float_ir4; epsilon:f=1e-05",
      infer_same_as_first },
};

const op_table op_onnx_instance_normalization = { "ai.onnx", onnx_instance_normalization_rows,
                                                  OP_COUNT(onnx_instance_normalization_rows) };
