/* onnx/logic.c - logic on booleans, broadcast. */
#include "schema.h"

static const op_row rows[] = {
    { "And", 1, 0, "A:T, B:T -> C:T1; T=bool, T1=bool; axis:i, broadcast:i=0", NULL },
    { "And", 7, 0, "A:T, B:T -> C:T1; T=bool, T1=bool", NULL },
    { "Not", 1, 0, "X:T -> Y:T; T=bool", NULL },
    { "Or", 1, 0, "A:T, B:T -> C:T1; T=bool, T1=bool; axis:i, broadcast:i=0", NULL },
    { "Or", 7, 0, "A:T, B:T -> C:T1; T=bool, T1=bool", NULL },
    { "Xor", 1, 0, "A:T, B:T -> C:T1; T=bool, T1=bool; axis:i, broadcast:i=0", NULL },
    { "Xor", 7, 0, "A:T, B:T -> C:T1; T=bool, T1=bool", NULL },
};

const op_table op_onnx_logic = { "ai.onnx", rows, OP_COUNT(rows) };
