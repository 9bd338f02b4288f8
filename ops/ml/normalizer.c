/* ml/normalizer.c - normalization of rows. */
#include "schema.h"

static const op_row rows[] = {
    { "Normalizer", 1, 0, "X:T -> Y:float; T=int32|int64|float|double; norm:s='MAX'", infer_same_as_first },
};

const op_table op_ml_normalizer = { "ai.onnx.ml", rows, OP_COUNT(rows) };
