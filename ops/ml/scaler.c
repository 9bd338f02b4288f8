/* ml/scaler.c - (x - offset) * scale. */
#include "schema.h"

static const op_row ml_scaler_rows[] = {
    { "Scaler", 1, 0, "X:T -> Y:float; T=int32|int64|float|double; offset:fs, scale:fs", infer_same_as_first },
};

const op_table op_ml_scaler = { "ai.onnx.ml", ml_scaler_rows, OP_COUNT(ml_scaler_rows) };
