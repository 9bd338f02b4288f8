/* onnx/pad.c - padding, or cropping by negative pads. */
#include "schema.h"

static const op_row rows[] = {
    { "Pad", 1, 0, "data:T -> output:T; T=@float; mode:s='constant', paddings:is!, value:f=0", NULL },
    { "Pad", 2, 0, "data:T -> output:T; T=@float; mode:s='constant', pads:is!, value:f=0", NULL },
    { "Pad", 11, 0, "data:T, pads:int64, constant_value?:T -> output:T; T=@numeric; mode:s='constant'", NULL },
    { "Pad", 13, 0, "data:T, pads:int64, constant_value?:T -> output:T; T=@all_ir4; mode:s='constant'", NULL },
    { "Pad", 18, 0,
      "data:T, pads:int64, constant_value?:T, axes?:Tind -> output:T; T=@all_ir4, Tind=int32|int64; mode:s='constant'",
      NULL },
    { "Pad", 19, 0,
      "data:T, pads:int64, constant_value?:T, axes?:Tind -> output:T; T=@all_ir4, Tind=int32|int64; mode:s='constant'",
      NULL },
    { "Pad", 21, 0,
      "data:T, pads:int64, constant_value?:T, axes?:Tind -> output:T; T=@all_ir10, Tind=int32|int64; mode:s='constant'",
      NULL },
    { "Pad", 23, 0,
      "data:T, pads:int64, constant_value?:T, axes?:Tind -> output:T; T=@all_ir11, Tind=int32|int64; mode:s='constant'",
      NULL },
    { "Pad", 24, 0,
      "data:T, pads:int64, constant_value?:T, axes?:Tind -> output:T; T=@all_ir12, Tind=int32|int64; mode:s='constant'",
      NULL },
    { "Pad", 25, 0,
      "data:T, pads:int64, constant_value?:T, axes?:Tind -> output:T; T=@all_ir13, Tind=int32|int64; mode:s='constant'",
      NULL },
};

const op_table op_onnx_pad = { "ai.onnx", rows, OP_COUNT(rows) };
