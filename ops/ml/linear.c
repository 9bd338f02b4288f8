/* ml/linear.c - linear models. */
#include "schema.h"

static const op_row rows[] = {
    { "LinearClassifier", 1, 0,
      "X:T1 -> Y:T2, Z:float; T1=int32|int64|float|double, T2=int64|string; classlabels_ints:is, "
      "classlabels_strings:ss, coefficients:fs!, intercepts:fs, multi_class:i=0, post_transform:s='NONE'",
      NULL },
    { "LinearRegressor", 1, 0,
      "X:T -> Y:float; T=int32|int64|float|double; coefficients:fs, intercepts:fs, post_transform:s='NONE', "
      "targets:i=1",
      NULL },
};

const op_table op_ml_linear = { "ai.onnx.ml", rows, OP_COUNT(rows) };
