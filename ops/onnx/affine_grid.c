/* onnx/affine_grid.c - sampling coordinates of an affine map. */
#include "schema.h"

/* AffineGrid-20: size [N, C, H, W] -> [N, H, W, 2], [N, C, D, H, W] -> [N, D, H, W, 3]. */
static inlay_status infer_affine_grid(op_infer *infer)
{
    inlay_dim dims[5], length = infer_dim(infer, 1, 0);
    uint32_t count;
    const inlay_dim *size = infer_elements(infer, 1, &count);
    const inlay_status status = infer_check_list(infer, 1);

    if (status != INLAY_OK || (size == NULL && length.kind != INLAY_DIM_FIXED))
        return status;
    if (size == NULL)
        count = length.value == 4 || length.value == 5 ? (uint32_t)length.value : 0;
    if (count != 4 && count != 5)
        return infer_fail(infer, INLAY_INVALID_MODEL, "size must have 4 or 5 values");
    dims[0] = size != NULL ? size[0] : infer_dim(infer, 0, 0);
    for (uint32_t i = 2; i < count; i++)
        dims[i - 1] = size != NULL ? size[i] : dim_unknown();
    dims[count - 1] = dim_fixed((int64_t)count - 2);
    return infer_set_shape(infer, 0, count, dims);
}

static const op_row onnx_affine_grid_rows[] = {
    { "AffineGrid", 20, 0, "theta:T1, size:T2 -> grid:T1; T1=@float_ir4, T2=int64; align_corners:i=0",
      infer_affine_grid },
};

const op_table op_onnx_affine_grid = { "ai.onnx", onnx_affine_grid_rows, OP_COUNT(onnx_affine_grid_rows) };
