/* ml/feature_vectorizer.c - concatenation of features. */
#include "schema.h"

static const op_row rows[] = {
    { "FeatureVectorizer", 1, 0, "X*:T1 -> Y:float; T1=int32|int64|float|double; inputdimensions:is", NULL },
};

const op_table op_ml_feature_vectorizer = { "ai.onnx.ml", rows, OP_COUNT(rows) };
