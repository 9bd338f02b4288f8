/* onnx/tile.c - repetition along axes. */
#include "schema.h"

static const op_row rows[] = {
    { "Tile", 1, 0, "input:T, tiles:T, axis:T -> output:T; T=@float, T1=int64", NULL },
    { "Tile", 6, 0, "input:T, repeats:T1 -> output:T; T=@all, T1=int64", NULL },
    { "Tile", 13, 0, "input:T, repeats:T1 -> output:T; T=@all_ir4, T1=int64", NULL },
};

const op_table op_onnx_tile = { "ai.onnx", rows, OP_COUNT(rows) };
