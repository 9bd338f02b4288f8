/* onnx/clip.c - Clip to a range. */
#include "schema.h"

static const op_row onnx_clip_rows[] = {
    { "Clip", 1, 0, "input:T -> output:T; T=@float; consumed_inputs:is, max:f, min:f", infer_same_as_first },
    { "Clip", 6, 0, "input:T -> output:T; T=@float; max:f=3.4028235e+38, min:f=-3.4028235e+38", infer_same_as_first },
    { "Clip", 11, 0, "input:T, min?:T, max?:T -> output:T; T=@float", infer_same_as_first },
    { "Clip", 12, 0, "input:T, min?:T, max?:T -> output:T; T=@numeric", infer_same_as_first },
    { "Clip", 13, 0, "input:T, min?:T, max?:T -> output:T; T=@numeric_ir4", infer_same_as_first },
};

const op_table op_onnx_clip = { "ai.onnx", onnx_clip_rows, OP_COUNT(onnx_clip_rows) };
