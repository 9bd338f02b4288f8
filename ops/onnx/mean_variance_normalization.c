/* onnx/mean_variance_normalization.c - mean variance normalization. */
#include "schema.h"

/* Version 1 was an experiment that ONNX Runtime still has below opset 9. */
static const op_row onnx_mean_variance_normalization_rows[] = {
    { "MeanVarianceNormalization", 1, 0, "input:T -> output:T; T=@float; across_channels:i=0, normalize_variance:i=1",
      infer_same_as_first },
    { "MeanVarianceNormalization", 9, 0, "X:T -> Y:T; T=@float; axes:is=[0,2,3]", infer_same_as_first },
    { "MeanVarianceNormalization", 13, 0, "X:T -> Y:T; T=@float_ir4; axes:is=[0,2,3]", infer_same_as_first },
};

const op_table op_onnx_mean_variance_normalization = { "ai.onnx", onnx_mean_variance_normalization_rows,
                                                       OP_COUNT(onnx_mean_variance_normalization_rows) };
