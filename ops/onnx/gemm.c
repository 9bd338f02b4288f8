/* onnx/gemm.c - alpha * A * B + beta * C. */
#include "schema.h"

static inlay_status infer_gemm(op_infer *infer)
{
    uint32_t ta = infer_attr_int(infer, "transA", 0) != 0, tb = infer_attr_int(infer, "transB", 0) != 0;
    inlay_dim dims[2], dim;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < 2; i++) {
        uint32_t rank = infer_rank(infer, i);
        if (rank != INLAY_RANK_UNKNOWN && rank != 2)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input %s has rank %u; Gemm takes matrices",
                              i == 0 ? "A" : "B", rank);
    }
    INLAY_TRY(dim_merge(infer, infer_dim(infer, 0, 1 - ta), infer_dim(infer, 1, tb), "depth of A and B", &dim));
    dims[0] = infer_dim(infer, 0, ta);
    dims[1] = infer_dim(infer, 1, 1 - tb);
    if (infer->node->since_version >= 7)
        INLAY_TRY(infer_broadcasts_to(infer, 2, 2, dims));
    INLAY_TRY(infer_set_shape(infer, 0, 2, dims));
done:
    return status;
}

static const op_row onnx_gemm_rows[] = {
    { "Gemm", 1, 0, "A:T, B:T, C:T -> Y:T; T=@float; alpha:f=1, beta:f=1, broadcast:i=0, transA:i=0, transB:i=0",
      infer_gemm },
    { "Gemm", 6, 0, "A:T, B:T, C:T -> Y:T; T=@float; alpha:f=1, beta:f=1, broadcast:i=0, transA:i=0, transB:i=0",
      infer_gemm },
    { "Gemm", 7, 0, "A:T, B:T, C:T -> Y:T; T=@float; alpha:f=1, beta:f=1, transA:i=0, transB:i=0", infer_gemm },
    { "Gemm", 9, 0, "A:T, B:T, C:T -> Y:T; T=@math; alpha:f=1, beta:f=1, transA:i=0, transB:i=0", infer_gemm },
    { "Gemm", 11, 0, "A:T, B:T, C?:T -> Y:T; T=@math; alpha:f=1, beta:f=1, transA:i=0, transB:i=0", infer_gemm },
    { "Gemm", 13, 0, "A:T, B:T, C?:T -> Y:T; T=@math_ir4; alpha:f=1, beta:f=1, transA:i=0, transB:i=0", infer_gemm },
};

const op_table op_onnx_gemm = { "ai.onnx", onnx_gemm_rows, OP_COUNT(onnx_gemm_rows) };
