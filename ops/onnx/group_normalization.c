/* onnx/group_normalization.c - group normalization. */
#include "schema.h"

static const op_row onnx_group_normalization_rows[] = {
    { "GroupNormalization", 18, OP_DEPRECATED,
      "X:T, scale:T, bias:T -> Y:T; T=@float_ir4; epsilon:f=1e-05, num_groups:i!", infer_same_as_first },
    { "GroupNormalization", 21, 0,
      "X:T, scale:T, bias:T -> Y:T; T=@float_ir4; epsilon:f=1e-05, num_groups:i!, stash_type:i=1",
      infer_same_as_first },
};

const op_table op_onnx_group_normalization = { "ai.onnx", onnx_group_normalization_rows,
                                               OP_COUNT(onnx_group_normalization_rows) };
