/* onnx/window.c - window functions of signal processing. */
#include "schema.h"

static const op_row rows[] = {
    { "BlackmanWindow", 17, 0,
      "size:T1 -> output:T2; T1=int32|int64, T2=@numeric_ir4; output_datatype:i=1, periodic:i=1", NULL },
    { "HammingWindow", 17, 0,
      "size:T1 -> output:T2; T1=int32|int64, T2=@numeric_ir4; output_datatype:i=1, periodic:i=1", NULL },
    { "HannWindow", 17, 0, "size:T1 -> output:T2; T1=int32|int64, T2=@numeric_ir4; output_datatype:i=1, periodic:i=1",
      NULL },
};

const op_table op_onnx_window = { "ai.onnx", rows, OP_COUNT(rows) };
