/* onnx/softmax.c - softmax and its kin. */
#include "schema.h"

static const op_row rows[] = {
    { "Hardmax", 1, 0, "input:T -> output:T; T=@float; axis:i=1", NULL },
    { "Hardmax", 11, 0, "input:T -> output:T; T=@float; axis:i=1", NULL },
    { "Hardmax", 13, 0, "input:T -> output:T; T=@float_ir4; axis:i=-1", NULL },
    { "LogSoftmax", 1, 0, "input:T -> output:T; T=@float; axis:i=1", NULL },
    { "LogSoftmax", 11, 0, "input:T -> output:T; T=@float; axis:i=1", NULL },
    { "LogSoftmax", 13, 0, "input:T -> output:T; T=@float_ir4; axis:i=-1", NULL },
    { "Softmax", 1, 0, "input:T -> output:T; T=@float; axis:i=1", NULL },
    { "Softmax", 11, 0, "input:T -> output:T; T=@float; axis:i=1", NULL },
    { "Softmax", 13, 0, "input:T -> output:T; T=@float_ir4; axis:i=-1", NULL },
};

const op_table op_onnx_softmax = { "ai.onnx", rows, OP_COUNT(rows) };
