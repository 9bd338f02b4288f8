/* onnx/rms_normalization.c - root mean square normalization. */
#include "schema.h"

static const op_row onnx_rms_normalization_rows[] = {
    { "RMSNormalization", 23, 0,
      "X:T, scale:V -> Y:V; T=@float_ir4, V=@float_ir4; axis:i=-1, epsilon:f=1e-05, stash_type:i=1",
      infer_same_as_first },
};

const op_table op_onnx_rms_normalization = { "ai.onnx", onnx_rms_normalization_rows,
                                             OP_COUNT(onnx_rms_normalization_rows) };
