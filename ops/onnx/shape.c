/* onnx/shape.c - dimensions as data. */
#include "schema.h"

static const op_row rows[] = {
    { "Shape", 1, 0, "data:T -> shape:T1; T=@all, T1=int64", NULL },
    { "Shape", 13, 0, "data:T -> shape:T1; T=@all_ir4, T1=int64", NULL },
    { "Shape", 15, 0, "data:T -> shape:T1; T=@all_ir4, T1=int64; end:i, start:i=0", NULL },
    { "Shape", 19, 0, "data:T -> shape:T1; T=@all_ir9, T1=int64; end:i, start:i=0", NULL },
    { "Shape", 21, 0, "data:T -> shape:T1; T=@all_ir10, T1=int64; end:i, start:i=0", NULL },
    { "Shape", 23, 0, "data:T -> shape:T1; T=@all_ir11, T1=int64; end:i, start:i=0", NULL },
    { "Shape", 24, 0, "data:T -> shape:T1; T=@all_ir12, T1=int64; end:i, start:i=0", NULL },
    { "Shape", 25, 0, "data:T -> shape:T1; T=@all_ir13, T1=int64; end:i, start:i=0", NULL },

    { "Size", 1, 0, "data:T -> size:T1; T=@all, T1=int64", NULL },
    { "Size", 13, 0, "data:T -> size:T1; T=@all_ir4, T1=int64", NULL },
    { "Size", 19, 0, "data:T -> size:T1; T=@all_ir9, T1=int64", NULL },
    { "Size", 21, 0, "data:T -> size:T1; T=@all_ir10, T1=int64", NULL },
    { "Size", 23, 0, "data:T -> size:T1; T=@all_ir11, T1=int64", NULL },
    { "Size", 24, 0, "data:T -> size:T1; T=@all_ir12, T1=int64", NULL },
    { "Size", 25, 0, "data:T -> size:T1; T=@all_ir13, T1=int64", NULL },
};

const op_table op_onnx_shape = { "ai.onnx", rows, OP_COUNT(rows) };
