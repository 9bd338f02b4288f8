/* onnx/squeeze.c - removal and insertion of axes of size 1. */
#include "schema.h"
#include "inlay/check.h"

/* The axes: an attribute up to version 11, then an input. False if not known. *out_absent: the node has no axes. */
static bool read_axes(op_infer *infer, int64_t *axes, uint32_t *out_count, bool *out_absent)
{
    const int64_t *ints;

    *out_absent = false;
    if (infer->node->since_version >= 13) {
        *out_absent = !infer_has_in(infer, 1);
        *out_count = 0;
        return *out_absent || infer_ints(infer, 1, axes, INLAY_MAX_RANK, out_count);
    }
    ints = infer_attr_ints(infer, "axes", out_count);
    *out_absent = infer_attr(infer, "axes") == NULL;
    for (uint32_t i = 0; i < *out_count && i < INLAY_MAX_RANK; i++)
        axes[i] = ints[i];
    return *out_count <= INLAY_MAX_RANK;
}

static inlay_status infer_squeeze(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    int64_t axes[INLAY_MAX_RANK];
    inlay_dim dims[INLAY_MAX_RANK];
    uint32_t count, kept = 0, drop = 0;
    inlay_status status;
    bool absent;

    status = infer_check_list(infer, 1);
    if (status != INLAY_OK || rank == INLAY_RANK_UNKNOWN || !read_axes(infer, axes, &count, &absent))
        return status;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis;
        inlay_dim dim;

        status = infer_axis(infer, axes[i], rank, "axes", &axis);
        if (status != INLAY_OK)
            return status;
        dim = infer_dim(infer, 0, axis);
        if (dim.kind == INLAY_DIM_FIXED && dim.value != 1)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "axis %u has size %lld; only axes of size 1 can be removed",
                              axis, (long long)dim.value);
        drop |= 1u << axis;
    }
    for (uint32_t i = 0; i < rank; i++) {
        const inlay_dim dim = infer_dim(infer, 0, i);

        if (absent && dim.kind != INLAY_DIM_FIXED)
            return INLAY_OK; /* the size may be 1 */
        if (absent ? dim.value != 1 : (drop >> i & 1) == 0)
            dims[kept++] = dim;
    }
    INLAY_CHECK(kept <= rank);
    status = infer_set_shape(infer, 0, kept, dims);
    return status == INLAY_OK ? infer_same_elements(infer) : status;
}

static inlay_status infer_unsqueeze(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    int64_t axes[INLAY_MAX_RANK];
    inlay_dim dims[INLAY_MAX_RANK];
    uint32_t count, added = 0, from = 0;
    inlay_status status = infer_check_list(infer, 1);
    bool absent;

    if (status != INLAY_OK || rank == INLAY_RANK_UNKNOWN || !read_axes(infer, axes, &count, &absent))
        return status;
    if (rank + count > INLAY_MAX_RANK)
        return infer_fail(infer, INLAY_LIMIT_EXCEEDED, "rank %u and %u new axes are more than %d", rank, count,
                          INLAY_MAX_RANK);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis;

        INLAY_TRY(infer_axis(infer, axes[i], rank + count, "axes", &axis));
        if ((added >> axis & 1) != 0)
            return infer_fail(infer, INLAY_INVALID_MODEL, "axes names axis %u twice", axis);
        added |= 1u << axis;
    }
    for (uint32_t i = 0; i < rank + count; i++)
        dims[i] = (added >> i & 1) != 0 ? dim_fixed(1) : infer_dim(infer, 0, from++);
    INLAY_CHECK(from == rank);
    INLAY_TRY(infer_set_shape(infer, 0, rank + count, dims));
    status = infer_same_elements(infer);
done:
    return status;
}

static const op_row onnx_squeeze_rows[] = {
    { "Squeeze", 1, 0, "data:T -> squeezed:T; T=@all; axes:is", infer_squeeze },
    { "Squeeze", 11, 0, "data:T -> squeezed:T; T=@all; axes:is", infer_squeeze },
    { "Squeeze", 13, 0, "data:T, axes?:int64 -> squeezed:T; T=@all_ir4", infer_squeeze },
    { "Squeeze", 21, 0, "data:T, axes?:int64 -> squeezed:T; T=@all_ir10", infer_squeeze },
    { "Squeeze", 23, 0, "data:T, axes?:int64 -> squeezed:T; T=@all_ir11", infer_squeeze },
    { "Squeeze", 24, 0, "data:T, axes?:int64 -> squeezed:T; T=@all_ir12", infer_squeeze },
    { "Squeeze", 25, 0, "data:T, axes?:int64 -> squeezed:T; T=@all_ir13", infer_squeeze },

    { "Unsqueeze", 1, 0, "data:T -> expanded:T; T=@all; axes:is!", infer_unsqueeze },
    { "Unsqueeze", 11, 0, "data:T -> expanded:T; T=@all; axes:is!", infer_unsqueeze },
    { "Unsqueeze", 13, 0, "data:T, axes:int64 -> expanded:T; T=@all_ir4", infer_unsqueeze },
    { "Unsqueeze", 21, 0, "data:T, axes:int64 -> expanded:T; T=@all_ir10", infer_unsqueeze },
    { "Unsqueeze", 23, 0, "data:T, axes:int64 -> expanded:T; T=@all_ir11", infer_unsqueeze },
    { "Unsqueeze", 24, 0, "data:T, axes:int64 -> expanded:T; T=@all_ir12", infer_unsqueeze },
    { "Unsqueeze", 25, 0, "data:T, axes:int64 -> expanded:T; T=@all_ir13", infer_unsqueeze },
};

const op_table op_onnx_squeeze = { "ai.onnx", onnx_squeeze_rows, OP_COUNT(onnx_squeeze_rows) };
