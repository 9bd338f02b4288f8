/* ml/binarizer.c - 0 or 1 by a threshold. */
#include "schema.h"

static const op_row ml_binarizer_rows[] = {
    { "Binarizer", 1, 0, "X:T -> Y:T; T=int32|int64|float|double; threshold:f=0", infer_same_as_first },
};

const op_table op_ml_binarizer = { "ai.onnx.ml", ml_binarizer_rows, OP_COUNT(ml_binarizer_rows) };
