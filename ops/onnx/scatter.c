/* onnx/scatter.c - scattering by index. */
#include "schema.h"

/* Indices and updates have the same shape. */
static inlay_status infer_scatter_elements(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 1);

    if (rank == INLAY_RANK_UNKNOWN || infer_rank(infer, 2) == INLAY_RANK_UNKNOWN)
        return infer_same_as_first(infer);
    if (infer_rank(infer, 2) != rank)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "indices have rank %u, but updates rank %u", rank,
                          infer_rank(infer, 2));
    for (uint32_t d = 0; d < rank; d++) {
        const inlay_dim index = infer_dim(infer, 1, d), update = infer_dim(infer, 2, d);

        if (index.kind == INLAY_DIM_FIXED && update.kind == INLAY_DIM_FIXED && index.value != update.value)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "indices have %lld elements along axis %u, but updates %lld",
                              (long long)index.value, d, (long long)update.value);
    }
    return infer_same_as_first(infer);
}

static const op_row onnx_scatter_rows[] = {
    { "Scatter", 9, 0, "data:T, indices:Tind, updates:T -> output:T; T=@all, Tind=int32|int64; axis:i=0",
      infer_scatter_elements },
    { "Scatter", 11, OP_DEPRECATED, "data:T, indices:Tind, updates:T -> output:T; T=@all, Tind=int32|int64; axis:i=0",
      infer_scatter_elements },

    { "ScatterElements", 11, 0, "data:T, indices:Tind, updates:T -> output:T; T=@all, Tind=int32|int64; axis:i=0",
      infer_scatter_elements },
    { "ScatterElements", 13, 0, "data:T, indices:Tind, updates:T -> output:T; T=@all_ir4, Tind=int32|int64; axis:i=0",
      infer_scatter_elements },
    { "ScatterElements", 16, 0,
      "data:T, indices:Tind, updates:T -> output:T; T=@all_ir4, Tind=int32|int64; axis:i=0, reduction:s='none'",
      infer_scatter_elements },
    { "ScatterElements", 18, 0,
      "data:T, indices:Tind, updates:T -> output:T; T=@all_ir4, Tind=int32|int64; axis:i=0, reduction:s='none'",
      infer_scatter_elements },

    { "ScatterND", 11, 0, "data:T, indices:int64, updates:T -> output:T; T=@all", infer_same_as_first },
    { "ScatterND", 13, 0, "data:T, indices:int64, updates:T -> output:T; T=@all_ir4", infer_same_as_first },
    { "ScatterND", 16, 0, "data:T, indices:int64, updates:T -> output:T; T=@all_ir4; reduction:s='none'",
      infer_same_as_first },
    { "ScatterND", 18, 0, "data:T, indices:int64, updates:T -> output:T; T=@all_ir4; reduction:s='none'",
      infer_same_as_first },
};

const op_table op_onnx_scatter = { "ai.onnx", onnx_scatter_rows, OP_COUNT(onnx_scatter_rows) };
