/* onnx/lp_normalization.c - division by the Lp norm along an axis. */
#include "schema.h"

static const op_row onnx_lp_normalization_rows[] = {
    { "LpNormalization", 1, 0, "input:T -> output:T; T=@float; axis:i=-1, p:i=2", infer_same_as_first },
    { "LpNormalization", 22, 0, "input:T -> output:T; T=@float_ir4; axis:i=-1, p:i=2", infer_same_as_first },
};

const op_table op_onnx_lp_normalization = { "ai.onnx", onnx_lp_normalization_rows,
                                            OP_COUNT(onnx_lp_normalization_rows) };
