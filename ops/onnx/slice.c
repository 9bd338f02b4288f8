/* onnx/slice.c - slices along axes. */
#include "schema.h"

static const op_row rows[] = {
    { "Slice", 1, 0, "data:T -> output:T; T=@all; axes:is, ends:is!, starts:is!", NULL },
    { "Slice", 10, 0, "data:T, starts:Tind, ends:Tind, axes?:Tind, steps?:Tind -> output:T; T=@all, Tind=int32|int64",
      NULL },
    { "Slice", 11, 0, "data:T, starts:Tind, ends:Tind, axes?:Tind, steps?:Tind -> output:T; T=@all, Tind=int32|int64",
      NULL },
    { "Slice", 13, 0,
      "data:T, starts:Tind, ends:Tind, axes?:Tind, steps?:Tind -> output:T; T=@all_ir4, Tind=int32|int64", NULL },
};

const op_table op_onnx_slice = { "ai.onnx", rows, OP_COUNT(rows) };
