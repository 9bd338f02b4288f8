/* onnx/softmax.c - Softmax, LogSoftmax and Hardmax. */
#include "schema.h"

static const op_row onnx_softmax_rows[] = {
    { "Hardmax", 1, 0, "input:T -> output:T; T=@float; axis:i=1", infer_same_as_first },
    { "Hardmax", 11, 0, "input:T -> output:T; T=@float; axis:i=1", infer_same_as_first },
    { "Hardmax", 13, 0, "input:T -> output:T; T=@float_ir4; axis:i=-1", infer_same_as_first },
    { "LogSoftmax", 1, 0, "input:T -> output:T; T=@float; axis:i=1", infer_same_as_first },
    { "LogSoftmax", 11, 0, "input:T -> output:T; T=@float; axis:i=1", infer_same_as_first },
    { "LogSoftmax", 13, 0, "input:T -> output:T; T=@float_ir4; axis:i=-1", infer_same_as_first },
    { "Softmax", 1, 0, "input:T -> output:T; T=@float; axis:i=1", infer_same_as_first },
    { "Softmax", 11, 0, "input:T -> output:T; T=@float; axis:i=1", infer_same_as_first },
    { "Softmax", 13, 0, "input:T -> output:T; T=@float_ir4; axis:i=-1", infer_same_as_first },
};

const op_table op_onnx_softmax = { "ai.onnx", onnx_softmax_rows, OP_COUNT(onnx_softmax_rows) };
