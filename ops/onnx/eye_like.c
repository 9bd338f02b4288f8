/* onnx/eye_like.c - a diagonal of ones. */
#include "schema.h"

static inlay_status infer_eye_like(op_infer *infer)
{
    inlay_dtype dtype;
    inlay_status status =
        infer_attr_dtype(infer, "dtype", infer_has_in(infer, 0) ? infer->in[0]->dtype : INLAY_UNDEFINED, &dtype);

    if (status != INLAY_OK)
        return status;
    if (infer_rank(infer, 0) != INLAY_RANK_UNKNOWN && infer_rank(infer, 0) != 2)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "input 0 must be a matrix, it has rank %u",
                          infer_rank(infer, 0));
    if (dtype != INLAY_UNDEFINED)
        infer_set_dtype(infer, 0, dtype);
    return infer_same_as_first(infer);
}

static const op_row onnx_eye_like_rows[] = {
    { "EyeLike", 9, 0, "input:T1 -> output:T2; T1=@numeric|bool, T2=@numeric|bool; dtype:i, k:i=0", infer_eye_like },
    { "EyeLike", 22, 0, "input:T1 -> output:T2; T1=@numeric_ir4|bool, T2=@numeric_ir4|bool; dtype:i, k:i=0",
      infer_eye_like },
};

const op_table op_onnx_eye_like = { "ai.onnx", onnx_eye_like_rows, OP_COUNT(onnx_eye_like_rows) };
