/* onnx/reshape.c - Reshape. */
#include "schema.h"

static const op_row rows[] = {
    { "Reshape", 1, 0, "data:T -> reshaped:T; T=@float; consumed_inputs:is, shape:is", NULL },
    { "Reshape", 5, 0, "data:T, shape:int64 -> reshaped:T; T=@all", NULL },
    { "Reshape", 13, 0, "data:T, shape:int64 -> reshaped:T; T=@all_ir4", NULL },
    { "Reshape", 14, 0, "data:T, shape:int64 -> reshaped:T; T=@all_ir4; allowzero:i=0", NULL },
    { "Reshape", 19, 0, "data:T, shape:int64 -> reshaped:T; T=@all_ir9; allowzero:i=0", NULL },
    { "Reshape", 21, 0, "data:T, shape:int64 -> reshaped:T; T=@all_ir10; allowzero:i=0", NULL },
    { "Reshape", 23, 0, "data:T, shape:int64 -> reshaped:T; T=@all_ir11; allowzero:i=0", NULL },
    { "Reshape", 24, 0, "data:T, shape:int64 -> reshaped:T; T=@all_ir12; allowzero:i=0", NULL },
    { "Reshape", 25, 0, "data:T, shape:int64 -> reshaped:T; T=@all_ir13; allowzero:i=0", NULL },
};

const op_table op_onnx_reshape = { "ai.onnx", rows, OP_COUNT(rows) };
