/* onnx/grid_sample.c - sampling at given coordinates. */
#include "schema.h"

static const op_row rows[] = {
    { "GridSample", 16, 0,
      "X:T1, grid:T2 -> Y:T1; T1=@all, T2=@float; align_corners:i=0, mode:s='bilinear', padding_mode:s='zeros'", NULL },
    { "GridSample", 20, 0,
      "X:T1, grid:T2 -> Y:T1; T1=@all, T2=@float; align_corners:i=0, mode:s='linear', padding_mode:s='zeros'", NULL },
    { "GridSample", 22, 0,
      "X:T1, grid:T2 -> Y:T1; T1=@all_ir4, T2=@float_ir4; align_corners:i=0, mode:s='linear', padding_mode:s='zeros'",
      NULL },
};

const op_table op_onnx_grid_sample = { "ai.onnx", rows, OP_COUNT(rows) };
