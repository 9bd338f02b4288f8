/* onnx/grid_sample.c - sampling at given coordinates. */
#include "schema.h"

/* GridSample-20: X [N, C, D1 ... Dr], grid [N, O1 ... Or, r] -> [N, C, O1 ... Or]. */
static inlay_status infer_grid_sample(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0), grid_rank = infer_rank(infer, 1);
    inlay_dim dims[INLAY_MAX_RANK];
    inlay_status status;

    if (rank == INLAY_RANK_UNKNOWN || grid_rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank != grid_rank || rank < 3)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "X has rank %u and grid %u; they must agree and be 3 or more",
                          rank, grid_rank);
    status = dim_merge(infer, infer_dim(infer, 0, 0), infer_dim(infer, 1, 0), "the batch", &dims[0]);
    if (status != INLAY_OK)
        return status;
    dims[1] = infer_dim(infer, 0, 1);
    for (uint32_t i = 2; i < rank; i++)
        dims[i] = infer_dim(infer, 1, i - 1);
    return infer_set_shape(infer, 0, rank, dims);
}

static const op_row onnx_grid_sample_rows[] = {
    { "GridSample", 16, 0,
      "X:T1, grid:T2 -> Y:T1; T1=@all, T2=@float; align_corners:i=0, mode:s='bilinear', padding_mode:s='zeros'",
      infer_grid_sample },
    { "GridSample", 20, 0,
      "X:T1, grid:T2 -> Y:T1; T1=@all, T2=@float; align_corners:i=0, mode:s='linear', padding_mode:s='zeros'",
      infer_grid_sample },
    { "GridSample", 22, 0,
      "X:T1, grid:T2 -> Y:T1; T1=@all_ir4, T2=@float_ir4; align_corners:i=0, mode:s='linear', padding_mode:s='zeros'",
      infer_grid_sample },
};

const op_table op_onnx_grid_sample = { "ai.onnx", onnx_grid_sample_rows, OP_COUNT(onnx_grid_sample_rows) };
