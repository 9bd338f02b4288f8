/* onnx/classify.c - IsInf and IsNaN: tests of each element. */
#include "schema.h"

static const op_row onnx_classify_rows[] = {
    { "IsInf", 10, 0, "X:T1 -> Y:T2; T1=float|double, T2=bool; detect_negative:i=1, detect_positive:i=1",
      infer_same_as_first },
    { "IsInf", 20, 0, "X:T1 -> Y:T2; T1=@float8|@float_ir4, T2=bool; detect_negative:i=1, detect_positive:i=1",
      infer_same_as_first },
    { "IsNaN", 9, 0, "X:T1 -> Y:T2; T1=@float, T2=bool", infer_same_as_first },
    { "IsNaN", 13, 0, "X:T1 -> Y:T2; T1=@float_ir4, T2=bool", infer_same_as_first },
    { "IsNaN", 20, 0, "X:T1 -> Y:T2; T1=@float8|@float_ir4, T2=bool", infer_same_as_first },
};

const op_table op_onnx_classify = { "ai.onnx", onnx_classify_rows, OP_COUNT(onnx_classify_rows) };
