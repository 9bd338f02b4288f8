/* onnx/gather.c - reading by index. */
#include "schema.h"

static const op_row rows[] = {
    { "Gather", 1, 0, "data:T, indices:Tind -> output:T; T=@all, Tind=int32|int64; axis:i=0", NULL },
    { "Gather", 11, 0, "data:T, indices:Tind -> output:T; T=@all, Tind=int32|int64; axis:i=0", NULL },
    { "Gather", 13, 0, "data:T, indices:Tind -> output:T; T=@all_ir4, Tind=int32|int64; axis:i=0", NULL },
    { "GatherElements", 11, 0, "data:T, indices:Tind -> output:T; T=@all, Tind=int32|int64; axis:i=0", NULL },
    { "GatherElements", 13, 0, "data:T, indices:Tind -> output:T; T=@all_ir4, Tind=int32|int64; axis:i=0", NULL },
    { "GatherND", 11, 0, "data:T, indices:int64 -> output:T; T=@all", NULL },
    { "GatherND", 12, 0, "data:T, indices:int64 -> output:T; T=@all; batch_dims:i=0", NULL },
    { "GatherND", 13, 0, "data:T, indices:int64 -> output:T; T=@all_ir4; batch_dims:i=0", NULL },
};

const op_table op_onnx_gather = { "ai.onnx", rows, OP_COUNT(rows) };
