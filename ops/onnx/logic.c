/* onnx/logic.c - logic on booleans, broadcast. */
#include "schema.h"

static const op_row onnx_logic_rows[] = {
    { "And", 1, 0, "A:T, B:T -> C:T1; T=bool, T1=bool; axis:i, broadcast:i=0", infer_same_as_first },
    { "And", 7, 0, "A:T, B:T -> C:T1; T=bool, T1=bool", infer_broadcast_all },
    { "Not", 1, 0, "X:T -> Y:T; T=bool", infer_same_as_first },
    { "Or", 1, 0, "A:T, B:T -> C:T1; T=bool, T1=bool; axis:i, broadcast:i=0", infer_same_as_first },
    { "Or", 7, 0, "A:T, B:T -> C:T1; T=bool, T1=bool", infer_broadcast_all },
    { "Xor", 1, 0, "A:T, B:T -> C:T1; T=bool, T1=bool; axis:i, broadcast:i=0", infer_same_as_first },
    { "Xor", 7, 0, "A:T, B:T -> C:T1; T=bool, T1=bool", infer_broadcast_all },
};

const op_table op_onnx_logic = { "ai.onnx", onnx_logic_rows, OP_COUNT(onnx_logic_rows) };
