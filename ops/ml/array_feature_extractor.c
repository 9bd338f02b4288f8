/* ml/array_feature_extractor.c - selection of features by index. */
#include "schema.h"

static const op_row rows[] = {
    { "ArrayFeatureExtractor", 1, 0, "X:T, Y:int64 -> Z:T; T=int32|int64|float|double|string", NULL },
};

const op_table op_ml_array_feature_extractor = { "ai.onnx.ml", rows, OP_COUNT(rows) };
