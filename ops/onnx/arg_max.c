/* onnx/arg_max.c - index of the largest or smallest element along an axis. */
#include "schema.h"

static const op_row rows[] = {
    { "ArgMax", 1, 0, "data:T -> reduced:int64; T=@numeric; axis:i=0, keepdims:i=1", NULL },
    { "ArgMax", 11, 0, "data:T -> reduced:int64; T=@numeric; axis:i=0, keepdims:i=1", NULL },
    { "ArgMax", 12, 0, "data:T -> reduced:int64; T=@numeric; axis:i=0, keepdims:i=1, select_last_index:i=0", NULL },
    { "ArgMax", 13, 0, "data:T -> reduced:int64; T=@numeric_ir4; axis:i=0, keepdims:i=1, select_last_index:i=0", NULL },
    { "ArgMin", 1, 0, "data:T -> reduced:int64; T=@numeric; axis:i=0, keepdims:i=1", NULL },
    { "ArgMin", 11, 0, "data:T -> reduced:int64; T=@numeric; axis:i=0, keepdims:i=1", NULL },
    { "ArgMin", 12, 0, "data:T -> reduced:int64; T=@numeric; axis:i=0, keepdims:i=1, select_last_index:i=0", NULL },
    { "ArgMin", 13, 0, "data:T -> reduced:int64; T=@numeric_ir4; axis:i=0, keepdims:i=1, select_last_index:i=0", NULL },
};

const op_table op_onnx_arg_max = { "ai.onnx", rows, OP_COUNT(rows) };
