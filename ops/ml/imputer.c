/* ml/imputer.c - replacement of missing values. */
#include "schema.h"

static const op_row ml_imputer_rows[] = {
    { "Imputer", 1, 0,
      "X:T -> Y:T; T=int32|int64|float|double; imputed_value_floats:fs, imputed_value_int64s:is, "
      "replaced_value_float:f=0, replaced_value_int64:i=0",
      infer_same_as_first },
};

const op_table op_ml_imputer = { "ai.onnx.ml", ml_imputer_rows, OP_COUNT(ml_imputer_rows) };
