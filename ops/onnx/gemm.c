/* onnx/gemm.c - alpha * A * B + beta * C. */
#include "schema.h"

static const op_row rows[] = {
    { "Gemm", 1, 0, "A:T, B:T, C:T -> Y:T; T=@float; alpha:f=1, beta:f=1, broadcast:i=0, transA:i=0, transB:i=0",
      NULL },
    { "Gemm", 6, 0, "A:T, B:T, C:T -> Y:T; T=@float; alpha:f=1, beta:f=1, broadcast:i=0, transA:i=0, transB:i=0",
      NULL },
    { "Gemm", 7, 0, "A:T, B:T, C:T -> Y:T; T=@float; alpha:f=1, beta:f=1, transA:i=0, transB:i=0", NULL },
    { "Gemm", 9, 0, "A:T, B:T, C:T -> Y:T; T=@math; alpha:f=1, beta:f=1, transA:i=0, transB:i=0", NULL },
    { "Gemm", 11, 0, "A:T, B:T, C?:T -> Y:T; T=@math; alpha:f=1, beta:f=1, transA:i=0, transB:i=0", NULL },
    { "Gemm", 13, 0, "A:T, B:T, C?:T -> Y:T; T=@math_ir4; alpha:f=1, beta:f=1, transA:i=0, transB:i=0", NULL },
};

const op_table op_onnx_gemm = { "ai.onnx", rows, OP_COUNT(rows) };
