/* onnx/squeeze.c - removal and insertion of axes of size 1. */
#include "schema.h"

static const op_row rows[] = {
    { "Squeeze", 1, 0, "data:T -> squeezed:T; T=@all; axes:is", NULL },
    { "Squeeze", 11, 0, "data:T -> squeezed:T; T=@all; axes:is", NULL },
    { "Squeeze", 13, 0, "data:T, axes?:int64 -> squeezed:T; T=@all_ir4", NULL },
    { "Squeeze", 21, 0, "data:T, axes?:int64 -> squeezed:T; T=@all_ir10", NULL },
    { "Squeeze", 23, 0, "data:T, axes?:int64 -> squeezed:T; T=@all_ir11", NULL },
    { "Squeeze", 24, 0, "data:T, axes?:int64 -> squeezed:T; T=@all_ir12", NULL },
    { "Squeeze", 25, 0, "data:T, axes?:int64 -> squeezed:T; T=@all_ir13", NULL },

    { "Unsqueeze", 1, 0, "data:T -> expanded:T; T=@all; axes:is!", NULL },
    { "Unsqueeze", 11, 0, "data:T -> expanded:T; T=@all; axes:is!", NULL },
    { "Unsqueeze", 13, 0, "data:T, axes:int64 -> expanded:T; T=@all_ir4", NULL },
    { "Unsqueeze", 21, 0, "data:T, axes:int64 -> expanded:T; T=@all_ir10", NULL },
    { "Unsqueeze", 23, 0, "data:T, axes:int64 -> expanded:T; T=@all_ir11", NULL },
    { "Unsqueeze", 24, 0, "data:T, axes:int64 -> expanded:T; T=@all_ir12", NULL },
    { "Unsqueeze", 25, 0, "data:T, axes:int64 -> expanded:T; T=@all_ir13", NULL },
};

const op_table op_onnx_squeeze = { "ai.onnx", rows, OP_COUNT(rows) };
