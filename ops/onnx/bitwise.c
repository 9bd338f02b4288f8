/* onnx/bitwise.c - bits of integers, broadcast. */
#include "schema.h"

static const op_row onnx_bitwise_rows[] = {
    { "BitShift", 11, 0, "X:T, Y:T -> Z:T; T=@unsigned; direction:s!", infer_broadcast_all },
    { "BitwiseAnd", 18, 0, "A:T, B:T -> C:T; T=@integer", infer_broadcast_all },
    { "BitwiseNot", 18, 0, "X:T -> Y:T; T=@integer", infer_broadcast_all },
    { "BitwiseOr", 18, 0, "A:T, B:T -> C:T; T=@integer", infer_broadcast_all },
    { "BitwiseXor", 18, 0, "A:T, B:T -> C:T; T=@integer", infer_broadcast_all },
};

const op_table op_onnx_bitwise = { "ai.onnx", onnx_bitwise_rows, OP_COUNT(onnx_bitwise_rows) };
