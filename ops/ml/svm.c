/* ml/svm.c - support vector machines. */
#include "schema.h"

static const op_row rows[] = {
    { "SVMClassifier", 1, 0,
      "X:T1 -> Y:T2, Z:float; T1=int32|int64|float|double, T2=int64|string; classlabels_ints:is, "
      "classlabels_strings:ss, coefficients:fs, kernel_params:fs, kernel_type:s='LINEAR', post_transform:s='NONE', "
      "prob_a:fs, prob_b:fs, rho:fs, support_vectors:fs, vectors_per_class:is",
      NULL },
    { "SVMRegressor", 1, 0,
      "X:T -> Y:float; T=int32|int64|float|double; coefficients:fs, kernel_params:fs, kernel_type:s='LINEAR', "
      "n_supports:i=0, one_class:i=0, post_transform:s='NONE', rho:fs, support_vectors:fs",
      NULL },
};

const op_table op_ml_svm = { "ai.onnx.ml", rows, OP_COUNT(rows) };
