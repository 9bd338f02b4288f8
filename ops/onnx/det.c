/* onnx/det.c - determinant. */
#include "schema.h"

static const op_row rows[] = {
    { "Det", 11, 0, "X:T -> Y:T; T=@float", NULL },
    { "Det", 22, 0, "X:T -> Y:T; T=@float_ir4", NULL },
};

const op_table op_onnx_det = { "ai.onnx", rows, OP_COUNT(rows) };
