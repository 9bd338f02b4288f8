/* onnx/swiglu.c - SwiGLU. */
#include "schema.h"

static const op_row onnx_swiglu_rows[] = {
    { "SwiGLU", 28, 0, "A:T, B:T -> Y:T; T=@float_ir4; alpha:f=1", infer_broadcast_all },
};

const op_table op_onnx_swiglu = { "ai.onnx", onnx_swiglu_rows, OP_COUNT(onnx_swiglu_rows) };
