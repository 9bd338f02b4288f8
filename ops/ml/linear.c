/* ml/linear.c - linear models. */
#include "ml.h"

static inlay_status infer_linear_classifier(op_infer *infer)
{
    return ml_infer_classifier(infer, "classlabels_ints", true);
}

static inlay_status infer_linear_regressor(op_infer *infer)
{
    return ml_infer_columns(infer, 0, dim_fixed(infer_attr_int(infer, "targets", 1)));
}

static const op_row ml_linear_rows[] = {
    { "LinearClassifier", 1, 0,
      "X:T1 -> Y:T2, Z:float; T1=int32|int64|float|double, T2=int64|string; classlabels_ints:is, "
      "classlabels_strings:ss, coefficients:fs!, intercepts:fs, multi_class:i=0, post_transform:s='NONE'",
      infer_linear_classifier },
    { "LinearRegressor", 1, 0,
      "X:T -> Y:float; T=int32|int64|float|double; coefficients:fs, intercepts:fs, post_transform:s='NONE', "
      "targets:i=1",
      infer_linear_regressor },
};

const op_table op_ml_linear = { "ai.onnx.ml", ml_linear_rows, OP_COUNT(ml_linear_rows) };
