/* ml/svm.c - support vector machines. */
#include "ml.h"

/* Without probabilities there is a score for each pair of classes. */
static inlay_status infer_svm_classifier(op_infer *infer)
{
    return ml_infer_classifier(infer, "classlabels_ints", ml_length(infer, "prob_a") > 0);
}

static inlay_status infer_svm_regressor(op_infer *infer)
{
    return ml_infer_columns(infer, 0, dim_fixed(1));
}

static const op_row ml_svm_rows[] = {
    { "SVMClassifier", 1, 0,
      "X:T1 -> Y:T2, Z:float; T1=int32|int64|float|double, T2=int64|string; classlabels_ints:is, "
      "classlabels_strings:ss, coefficients:fs, kernel_params:fs, kernel_type:s='LINEAR', post_transform:s='NONE', "
      "prob_a:fs, prob_b:fs, rho:fs, support_vectors:fs, vectors_per_class:is",
      infer_svm_classifier },
    { "SVMRegressor", 1, 0,
      "X:T -> Y:float; T=int32|int64|float|double; coefficients:fs, kernel_params:fs, kernel_type:s='LINEAR', "
      "n_supports:i=0, one_class:i=0, post_transform:s='NONE', rho:fs, support_vectors:fs",
      infer_svm_regressor },
};

const op_table op_ml_svm = { "ai.onnx.ml", ml_svm_rows, OP_COUNT(ml_svm_rows) };
