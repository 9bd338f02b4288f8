/* onnx/eye_like.c - a diagonal of ones. */
#include "schema.h"

static const op_row rows[] = {
    { "EyeLike", 9, 0, "input:T1 -> output:T2; T1=@numeric|bool, T2=@numeric|bool; dtype:i, k:i=0", NULL },
    { "EyeLike", 22, 0, "input:T1 -> output:T2; T1=@numeric_ir4|bool, T2=@numeric_ir4|bool; dtype:i, k:i=0", NULL },
};

const op_table op_onnx_eye_like = { "ai.onnx", rows, OP_COUNT(rows) };
