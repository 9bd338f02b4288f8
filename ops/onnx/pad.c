/* onnx/pad.c - padding, or cropping by negative pads. */
#include "schema.h"
#include <string.h>

/* Modes other than constant repeat elements of the axis. Fails if the axis has none after negative pads have cut it. */
static inlay_status check_source(op_infer *infer, uint32_t axis, inlay_dim begin, inlay_dim end)
{
    const char *mode = infer_attr_string(infer, "mode", "constant");
    const inlay_dim size = infer_dim(infer, 0, axis);
    int64_t kept = size.value;

    if (strcmp(mode, "constant") == 0 || size.kind != INLAY_DIM_FIXED || begin.kind != INLAY_DIM_FIXED ||
        end.kind != INLAY_DIM_FIXED)
        return INLAY_OK;
    if (__builtin_add_overflow(kept, begin.value < 0 ? begin.value : 0, &kept) ||
        __builtin_add_overflow(kept, end.value < 0 ? end.value : 0, &kept))
        kept = 0;
    if (kept <= 0 && (begin.value > 0 || end.value > 0))
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "axis %u has no elements left to %s", axis,
                          strcmp(mode, "reflect") == 0 ? "reflect"
                          : strcmp(mode, "edge") == 0  ? "repeat"
                                                       : "wrap");
    return INLAY_OK;
}

/* Sets added[d] to the sum of the pads before and after axis d; *out_known is false if they are not known. */
static inlay_status read_pads(op_infer *infer, uint32_t rank, inlay_dim *added, bool *out_known)
{
    const bool attributes = infer->node->since_version < 11;
    int64_t axes[INLAY_MAX_RANK];
    inlay_dim room[2 * INLAY_MAX_RANK];
    uint32_t count = 0, axis_count = rank;
    const inlay_dim *pads = room;
    const int64_t *ints;
    const bool has_axes = !attributes && infer_has_in(infer, 3);

    *out_known = false;
    for (uint32_t i = 0; i < rank; i++) {
        axes[i] = (int64_t)i;
        added[i] = dim_fixed(0);
    }
    if (has_axes && !infer_ints(infer, 3, axes, INLAY_MAX_RANK, &axis_count))
        return INLAY_OK;
    if (attributes) {
        ints = infer_attr_ints(infer, infer->node->since_version < 2 ? "paddings" : "pads", &count);
        for (uint32_t i = 0; i < count && i < 2 * INLAY_MAX_RANK; i++)
            room[i] = dim_fixed(ints[i]);
    } else {
        pads = infer_elements(infer, 1, &count);
    }
    if (pads == NULL)
        return INLAY_OK;
    if (count != 2 * axis_count || axis_count > rank)
        return infer_fail(infer, INLAY_INVALID_MODEL, "pads has %u values; %u axes need %u", count, axis_count,
                          2 * axis_count);
    for (uint32_t i = 0; i < axis_count; i++) {
        uint32_t axis;
        inlay_status status = infer_axis(infer, axes[i], rank, "axes", &axis);

        if (status != INLAY_OK)
            return status;
        added[axis] = dim_add(infer, pads[i], pads[axis_count + i]);
        status = check_source(infer, axis, pads[i], pads[axis_count + i]);
        if (status != INLAY_OK)
            return status;
    }
    *out_known = true;
    return INLAY_OK;
}

static inlay_status infer_pad(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK];
    inlay_status status;
    bool known;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    status = read_pads(infer, rank, dims, &known);
    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = known ? dim_add(infer, infer_dim(infer, 0, i), dims[i]) : dim_unknown();
    return infer_set_shape(infer, 0, rank, dims);
}

static const op_row onnx_pad_rows[] = {
    { "Pad", 1, 0, "data:T -> output:T; T=@float; mode:s='constant', paddings:is!, value:f=0", infer_pad },
    { "Pad", 2, 0, "data:T -> output:T; T=@float; mode:s='constant', pads:is!, value:f=0", infer_pad },
    { "Pad", 11, 0, "data:T, pads:int64, constant_value?:T -> output:T; T=@numeric; mode:s='constant'", infer_pad },
    { "Pad", 13, 0, "data:T, pads:int64, constant_value?:T -> output:T; T=@all_ir4; mode:s='constant'", infer_pad },
    { "Pad", 18, 0,
      "data:T, pads:int64, constant_value?:T, axes?:Tind -> output:T; T=@all_ir4, Tind=int32|int64; mode:s='constant'",
      infer_pad },
    { "Pad", 19, 0,
      "data:T, pads:int64, constant_value?:T, axes?:Tind -> output:T; T=@all_ir4, Tind=int32|int64; mode:s='constant'",
      infer_pad },
    { "Pad", 21, 0,
      "data:T, pads:int64, constant_value?:T, axes?:Tind -> output:T; T=@all_ir10, Tind=int32|int64; mode:s='constant'",
      infer_pad },
    { "Pad", 23, 0,
      "data:T, pads:int64, constant_value?:T, axes?:Tind -> output:T; T=@all_ir11, Tind=int32|int64; mode:s='constant'",
      infer_pad },
    { "Pad", 24, 0,
      "data:T, pads:int64, constant_value?:T, axes?:Tind -> output:T; T=@all_ir12, Tind=int32|int64; mode:s='constant'",
      infer_pad },
    { "Pad", 25, 0,
      "data:T, pads:int64, constant_value?:T, axes?:Tind -> output:T; T=@all_ir13, Tind=int32|int64; mode:s='constant'",
      infer_pad },
};

const op_table op_onnx_pad = { "ai.onnx", onnx_pad_rows, OP_COUNT(onnx_pad_rows) };
