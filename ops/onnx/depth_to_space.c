/* onnx/depth_to_space.c - moves between channels and spatial blocks. */
#include "schema.h"

/* [N, C, H, W]: DepthToSpace divides C by b * b and multiplies H and W by b; SpaceToDepth does the reverse. */
static inlay_status infer_blocks(op_infer *infer, bool to_space)
{
    const int64_t b = infer_attr_int(infer, "blocksize", 0);
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[4];

    if (b <= 0 || b > INT32_MAX)
        return infer_fail(infer, INLAY_INVALID_MODEL, "blocksize is %lld; it must be at least 1, below 2^31",
                          (long long)b);
    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank != 4)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "the input has rank %u; [N, C, H, W] is needed", rank);
    for (uint32_t i = 0; i < 4; i++) {
        const int64_t by = i == 1 ? b * b : b;
        const inlay_dim dim = infer_dim(infer, 0, i);
        const bool divide = i > 0 && (i == 1) == to_space;

        if (divide && dim.kind == INLAY_DIM_FIXED && dim.value % by != 0)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "axis %u of size %lld is not a multiple of %lld", i,
                              (long long)dim.value, (long long)by);
        dims[i] = i == 0 ? dim : divide ? dim_div(infer, dim, dim_fixed(by)) : dim_mul(infer, dim, dim_fixed(by));
    }
    return infer_set_shape(infer, 0, 4, dims);
}

static inlay_status infer_depth_to_space(op_infer *infer)
{
    return infer_blocks(infer, true);
}

static inlay_status infer_space_to_depth(op_infer *infer)
{
    return infer_blocks(infer, false);
}

static const op_row onnx_depth_to_space_rows[] = {
    { "DepthToSpace", 1, 0, "input:T -> output:T; T=@all; blocksize:i!", infer_depth_to_space },
    { "DepthToSpace", 11, 0, "input:T -> output:T; T=@all; blocksize:i!, mode:s='DCR'", infer_depth_to_space },
    { "DepthToSpace", 13, 0, "input:T -> output:T; T=@all_ir4; blocksize:i!, mode:s='DCR'", infer_depth_to_space },
    { "SpaceToDepth", 1, 0, "input:T -> output:T; T=@all; blocksize:i!", infer_space_to_depth },
    { "SpaceToDepth", 13, 0, "input:T -> output:T; T=@all_ir4; blocksize:i!", infer_space_to_depth },
};

const op_table op_onnx_depth_to_space = { "ai.onnx", onnx_depth_to_space_rows, OP_COUNT(onnx_depth_to_space_rows) };
