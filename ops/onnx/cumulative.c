/* onnx/cumulative.c - cumulative sums and products. */
#include "schema.h"

static const op_row onnx_cumulative_rows[] = {
    { "CumProd", 26, 0, "x:T, axis:T2 -> y:T; T=@math_ir4, T2=int32|int64; exclusive:i=0, reverse:i=0",
      infer_same_as_first },
    { "CumSum", 11, 0, "x:T, axis:T2 -> y:T; T=@math-float16, T2=int32|int64; exclusive:i=0, reverse:i=0",
      infer_same_as_first },
    { "CumSum", 14, 0, "x:T, axis:T2 -> y:T; T=@math_ir4, T2=int32|int64; exclusive:i=0, reverse:i=0",
      infer_same_as_first },
};

const op_table op_onnx_cumulative = { "ai.onnx", onnx_cumulative_rows, OP_COUNT(onnx_cumulative_rows) };
