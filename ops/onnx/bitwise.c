/* onnx/bitwise.c - bits of integers, broadcast. */
#include "schema.h"

static const op_row rows[] = {
    { "BitShift", 11, 0, "X:T, Y:T -> Z:T; T=@unsigned; direction:s!", NULL },
    { "BitwiseAnd", 18, 0, "A:T, B:T -> C:T; T=@integer", NULL },
    { "BitwiseNot", 18, 0, "X:T -> Y:T; T=@integer", NULL },
    { "BitwiseOr", 18, 0, "A:T, B:T -> C:T; T=@integer", NULL },
    { "BitwiseXor", 18, 0, "A:T, B:T -> C:T; T=@integer", NULL },
};

const op_table op_onnx_bitwise = { "ai.onnx", rows, OP_COUNT(rows) };
