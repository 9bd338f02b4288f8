/* onnx/tile.c - repetition along axes. */
#include "schema.h"

/* Tile-6 has a repeat count for each axis. Tile-1 has float inputs `tiles` and `axis`: it repeats one axis. */
static inlay_status infer_tile(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK];
    uint32_t count;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = dim_unknown();
    if (infer->node->since_version < 6) {
        double tiles, axis_value;
        uint32_t one, axis;
        inlay_status status;

        if (infer_floats(infer, 1, &tiles, 1, &count) && infer_floats(infer, 2, &axis_value, 1, &one) && count == 1 &&
            one == 1 && tiles >= 0 && axis_value > -1e9 && axis_value < 1e9) {
            status = infer_axis(infer, (int64_t)axis_value, rank, "axis", &axis);
            if (status != INLAY_OK)
                return status;
            for (uint32_t i = 0; i < rank; i++)
                dims[i] = infer_dim(infer, 0, i);
            dims[axis] = dim_mul(infer, dims[axis], tiles < 0x1p63 ? dim_fixed((int64_t)tiles) : dim_beyond(false));
        }
    } else {
        const inlay_dim *repeats = infer_elements(infer, 1, &count);
        const inlay_status status = infer_check_list(infer, 1);

        if (status != INLAY_OK)
            return status;
        if (repeats != NULL && count != rank)
            return infer_fail(infer, INLAY_INVALID_MODEL, "repeats has %u values for an input of rank %u", count, rank);
        for (uint32_t i = 0; i < rank && repeats != NULL; i++) {
            if (repeats[i].kind == INLAY_DIM_FIXED && repeats[i].value < 0)
                return infer_fail(infer, INLAY_INVALID_MODEL, "repeats[%u] is %lld", i, (long long)repeats[i].value);
            dims[i] = dim_mul(infer, infer_dim(infer, 0, i), repeats[i]);
        }
    }
    return infer_set_shape(infer, 0, rank, dims);
}

static const op_row onnx_tile_rows[] = {
    { "Tile", 1, 0, "input:T, tiles:T, axis:T -> output:T; T=@float, T1=int64", infer_tile },
    { "Tile", 6, 0, "input:T, repeats:T1 -> output:T; T=@all, T1=int64", infer_tile },
    { "Tile", 13, 0, "input:T, repeats:T1 -> output:T; T=@all_ir4, T1=int64", infer_tile },
};

const op_table op_onnx_tile = { "ai.onnx", onnx_tile_rows, OP_COUNT(onnx_tile_rows) };
