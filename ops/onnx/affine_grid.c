/* onnx/affine_grid.c - sampling coordinates of an affine map. */
#include "schema.h"

static const op_row rows[] = {
    { "AffineGrid", 20, 0, "theta:T1, size:T2 -> grid:T1; T1=@float_ir4, T2=int64; align_corners:i=0", NULL },
};

const op_table op_onnx_affine_grid = { "ai.onnx", rows, OP_COUNT(rows) };
