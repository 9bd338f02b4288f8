/* onnx/non_zero.c - indices of the elements that are not zero. */
#include "schema.h"

static const op_row rows[] = {
    { "NonZero", 9, 0, "X:T -> Y:int64; T=@all", NULL },
    { "NonZero", 13, 0, "X:T -> Y:int64; T=@all_ir4", NULL },
};

const op_table op_onnx_non_zero = { "ai.onnx", rows, OP_COUNT(rows) };
