/* ml/normalizer.c - normalization of rows. */
#include "schema.h"

static const op_row ml_normalizer_rows[] = {
    { "Normalizer", 1, 0, "X:T -> Y:float; T=int32|int64|float|double; norm:s='MAX'", infer_same_as_first },
};

const op_table op_ml_normalizer = { "ai.onnx.ml", ml_normalizer_rows, OP_COUNT(ml_normalizer_rows) };
