/* onnx/scatter.c - scattering by index. */
#include "schema.h"

static const op_row onnx_scatter_rows[] = {
    { "Scatter", 9, 0, "data:T, indices:Tind, updates:T -> output:T; T=@all, Tind=int32|int64; axis:i=0",
      infer_same_as_first },
    { "Scatter", 11, OP_DEPRECATED, "data:T, indices:Tind, updates:T -> output:T; T=@all, Tind=int32|int64; axis:i=0",
      infer_same_as_first },

    { "ScatterElements", 11, 0, "data:T, indices:Tind, updates:T -> output:T; T=@all, Tind=int32|int64; axis:i=0",
      infer_same_as_first },
    { "ScatterElements", 13, 0, "data:T, indices:Tind, updates:T -> output:T; T=@all_ir4, Tind=int32|int64; axis:i=0",
      infer_same_as_first },
    { "ScatterElements", 16, 0,
      "data:T, indices:Tind, updates:T -> output:T; T=@all_ir4, Tind=int32|int64; axis:i=0, reduction:s='none'",
      infer_same_as_first },
    { "ScatterElements", 18, 0,
      "data:T, indices:Tind, updates:T -> output:T; T=@all_ir4, Tind=int32|int64; axis:i=0, reduction:s='none'",
      infer_same_as_first },

    { "ScatterND", 11, 0, "data:T, indices:int64, updates:T -> output:T; T=@all", infer_same_as_first },
    { "ScatterND", 13, 0, "data:T, indices:int64, updates:T -> output:T; T=@all_ir4", infer_same_as_first },
    { "ScatterND", 16, 0, "data:T, indices:int64, updates:T -> output:T; T=@all_ir4; reduction:s='none'",
      infer_same_as_first },
    { "ScatterND", 18, 0, "data:T, indices:int64, updates:T -> output:T; T=@all_ir4; reduction:s='none'",
      infer_same_as_first },
};

const op_table op_onnx_scatter = { "ai.onnx", onnx_scatter_rows, OP_COUNT(onnx_scatter_rows) };
