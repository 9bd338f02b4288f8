/* onnx/trilu.c - upper or lower triangle. */
#include "schema.h"

static const op_row onnx_trilu_rows[] = {
    { "Trilu", 14, 0, "input:T, k?:int64 -> output:T; T=@all_ir4; upper:i=1", infer_same_as_first },
};

const op_table op_onnx_trilu = { "ai.onnx", onnx_trilu_rows, OP_COUNT(onnx_trilu_rows) };
