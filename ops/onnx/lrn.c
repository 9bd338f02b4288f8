/* onnx/lrn.c - local response normalization. */
#include "schema.h"

static const op_row onnx_lrn_rows[] = {
    { "LRN", 1, 0, "X:T -> Y:T; T=@float; alpha:f=0.0001, beta:f=0.75, bias:f=1, size:i!", infer_same_as_first },
    { "LRN", 13, 0, "X:T -> Y:T; T=@float_ir4; alpha:f=0.0001, beta:f=0.75, bias:f=1, size:i!", infer_same_as_first },
};

const op_table op_onnx_lrn = { "ai.onnx", onnx_lrn_rows, OP_COUNT(onnx_lrn_rows) };
