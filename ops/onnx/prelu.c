/* onnx/prelu.c - PRelu: a leaky Relu with a slope tensor. */
#include "schema.h"

static inlay_status infer_prelu(op_infer *infer)
{
    inlay_status status = infer_same_as_first(infer);

    return status == INLAY_OK && infer_rank(infer, 0) != INLAY_RANK_UNKNOWN
               ? infer_broadcasts_to(infer, 1, infer->in[0]->rank, infer->in[0]->dims)
               : status;
}

static const op_row onnx_prelu_rows[] = {
    { "PRelu", 1, 0, "X:T, slope:T -> Y:T; T=@float; consumed_inputs:is", infer_same_as_first },
    { "PRelu", 6, 0, "X:T, slope:T -> Y:T; T=@float", infer_same_as_first },
    { "PRelu", 7, 0, "X:T, slope:T -> Y:T; T=@float", infer_prelu },
    { "PRelu", 9, 0, "X:T, slope:T -> Y:T; T=@math", infer_prelu },
    { "PRelu", 16, 0, "X:T, slope:T -> Y:T; T=@math_ir4", infer_prelu },
};

const op_table op_onnx_prelu = { "ai.onnx", onnx_prelu_rows, OP_COUNT(onnx_prelu_rows) };
