/* onnx/reduce.c - reductions over axes. */
#include "schema.h"

static const op_row rows[] = {
    { "ReduceL1", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceL1", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceL1", 13, 0, "data:T -> reduced:T; T=@math_ir4; axes:is, keepdims:i=1", NULL },
    { "ReduceL1", 18, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      NULL },

    { "ReduceL2", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceL2", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceL2", 13, 0, "data:T -> reduced:T; T=@math_ir4; axes:is, keepdims:i=1", NULL },
    { "ReduceL2", 18, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      NULL },

    { "ReduceLogSum", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceLogSum", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceLogSum", 13, 0, "data:T -> reduced:T; T=@math_ir4; axes:is, keepdims:i=1", NULL },
    { "ReduceLogSum", 18, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      NULL },

    { "ReduceLogSumExp", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceLogSumExp", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceLogSumExp", 13, 0, "data:T -> reduced:T; T=@math_ir4; axes:is, keepdims:i=1", NULL },
    { "ReduceLogSumExp", 18, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      NULL },

    { "ReduceMax", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceMax", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceMax", 12, 0, "data:T -> reduced:T; T=@math|uint8|int8; axes:is, keepdims:i=1", NULL },
    { "ReduceMax", 13, 0, "data:T -> reduced:T; T=@math_ir4|uint8|int8; axes:is, keepdims:i=1", NULL },
    { "ReduceMax", 18, 0,
      "data:T, axes?:int64 -> reduced:T; T=@math_ir4|uint8|int8; keepdims:i=1, noop_with_empty_axes:i=0", NULL },
    { "ReduceMax", 20, 0,
      "data:T, axes?:int64 -> reduced:T; T=@math_ir4|bool|uint8|int8; keepdims:i=1, noop_with_empty_axes:i=0", NULL },

    { "ReduceMean", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceMean", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceMean", 13, 0, "data:T -> reduced:T; T=@math_ir4; axes:is, keepdims:i=1", NULL },
    { "ReduceMean", 18, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      NULL },

    { "ReduceMin", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceMin", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceMin", 12, 0, "data:T -> reduced:T; T=@math|uint8|int8; axes:is, keepdims:i=1", NULL },
    { "ReduceMin", 13, 0, "data:T -> reduced:T; T=@math_ir4|uint8|int8; axes:is, keepdims:i=1", NULL },
    { "ReduceMin", 18, 0,
      "data:T, axes?:int64 -> reduced:T; T=@math_ir4|uint8|int8; keepdims:i=1, noop_with_empty_axes:i=0", NULL },
    { "ReduceMin", 20, 0,
      "data:T, axes?:int64 -> reduced:T; T=@math_ir4|bool|uint8|int8; keepdims:i=1, noop_with_empty_axes:i=0", NULL },

    { "ReduceProd", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceProd", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceProd", 13, 0, "data:T -> reduced:T; T=@math_ir4; axes:is, keepdims:i=1", NULL },
    { "ReduceProd", 18, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      NULL },

    { "ReduceSum", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceSum", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceSum", 13, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      NULL },

    { "ReduceSumSquare", 1, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceSumSquare", 11, 0, "data:T -> reduced:T; T=@math; axes:is, keepdims:i=1", NULL },
    { "ReduceSumSquare", 13, 0, "data:T -> reduced:T; T=@math_ir4; axes:is, keepdims:i=1", NULL },
    { "ReduceSumSquare", 18, 0, "data:T, axes?:int64 -> reduced:T; T=@math_ir4; keepdims:i=1, noop_with_empty_axes:i=0",
      NULL },
};

const op_table op_onnx_reduce = { "ai.onnx", rows, OP_COUNT(rows) };
