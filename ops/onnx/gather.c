/* onnx/gather.c - gathering by index. */
#include "schema.h"
#include "inlay/check.h"

/* Propagates elements of a vector. */
static inlay_status gather_elements(op_infer *infer)
{
    inlay_dim picked[INFER_MAX_ELEMENTS];
    uint32_t count, index_count;
    const inlay_dim *elements = infer_elements(infer, 0, &count), *indices = infer_elements(infer, 1, &index_count);

    if (elements == NULL || indices == NULL)
        return INLAY_OK;
    INLAY_CHECK(index_count <= INFER_MAX_ELEMENTS);
    for (uint32_t i = 0; i < index_count; i++) {
        int64_t at = indices[i].value;

        if (indices[i].kind != INLAY_DIM_FIXED)
            return INLAY_OK;
        if (at < -(int64_t)count || at >= (int64_t)count)
            return infer_fail(infer, INLAY_INVALID_MODEL, "indices[%u] is %lld, outside [-%u, %u)", i, (long long)at,
                              count, count);
        picked[i] = elements[at < 0 ? at + (int64_t)count : at];
    }
    return infer_set_elements(infer, 0, index_count, picked);
}

/* The axis is replaced by the axes of the indices. */
static inlay_status infer_gather(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0), index_rank = infer_rank(infer, 1);
    inlay_dim dims[2 * INLAY_MAX_RANK];
    inlay_status status = INLAY_OK;
    uint32_t axis, n = 0;

    if (rank == INLAY_RANK_UNKNOWN || index_rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    INLAY_TRY(infer_axis(infer, infer_attr_int(infer, "axis", 0), rank, "axis", &axis));
    for (uint32_t i = 0; i < axis; i++)
        dims[n++] = infer_dim(infer, 0, i);
    for (uint32_t i = 0; i < index_rank; i++)
        dims[n++] = infer_dim(infer, 1, i);
    for (uint32_t i = axis + 1; i < rank; i++)
        dims[n++] = infer_dim(infer, 0, i);
    INLAY_CHECK(n == rank - 1 + index_rank);
    INLAY_TRY(infer_set_shape(infer, 0, n, dims));
    if (rank == 1)
        status = gather_elements(infer);
done:
    return status;
}

/* The output has the shape of the indices. */
static inlay_status infer_gather_elements(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0), index_rank = infer_rank(infer, 1);
    inlay_status status;

    if (rank != INLAY_RANK_UNKNOWN && index_rank != INLAY_RANK_UNKNOWN && rank != index_rank)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "indices have rank %u, data %u; they must agree", index_rank,
                          rank);
    if (!infer_has_in(infer, 1))
        return INLAY_OK;
    status = infer_set_shape(infer, 0, index_rank, infer->in[1]->dims);
    return status == INLAY_OK && index_rank == 1 ? gather_elements(infer) : status;
}

/* GatherND-12: the indices without their last axis, then the axes of data that the index tuples do not cover. */
static inlay_status infer_gather_nd(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0), index_rank = infer_rank(infer, 1);
    const int64_t batch = infer_attr_int(infer, "batch_dims", 0);
    inlay_dim dims[2 * INLAY_MAX_RANK], depth;
    uint32_t n = 0;

    if (rank == INLAY_RANK_UNKNOWN || index_rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (index_rank == 0 || rank == 0 || batch < 0 || batch >= (int64_t)index_rank || batch >= (int64_t)rank)
        return infer_fail(infer, INLAY_INVALID_MODEL,
                          "batch_dims %lld does not fit data of rank %u and indices of rank %u", (long long)batch, rank,
                          index_rank);
    for (uint32_t i = 0; i < batch; i++)
        if (infer_dim(infer, 0, i).kind == INLAY_DIM_FIXED && infer_dim(infer, 1, i).kind == INLAY_DIM_FIXED &&
            infer_dim(infer, 0, i).value != infer_dim(infer, 1, i).value)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "batch axis %u has size %lld in data and %lld in indices", i,
                              (long long)infer_dim(infer, 0, i).value, (long long)infer_dim(infer, 1, i).value);
    depth = infer_dim(infer, 1, index_rank - 1);
    if (depth.kind != INLAY_DIM_FIXED)
        return INLAY_OK;
    if (depth.value > (int64_t)rank - batch)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH,
                          "index tuples of %lld values after %lld batch axes, but data has rank %u",
                          (long long)depth.value, (long long)batch, rank);
    for (uint32_t i = 0; i + 1 < index_rank; i++)
        dims[n++] = infer_dim(infer, 1, i);
    for (uint32_t i = (uint32_t)(batch + depth.value); i < rank; i++)
        dims[n++] = infer_dim(infer, 0, i);
    return infer_set_shape(infer, 0, n, dims);
}

static const op_row onnx_gather_rows[] = {
    { "Gather", 1, 0, "data:T, indices:Tind -> output:T; T=@all, Tind=int32|int64; axis:i=0", infer_gather },
    { "Gather", 11, 0, "data:T, indices:Tind -> output:T; T=@all, Tind=int32|int64; axis:i=0", infer_gather },
    { "Gather", 13, 0, "data:T, indices:Tind -> output:T; T=@all_ir4, Tind=int32|int64; axis:i=0", infer_gather },
    { "GatherElements", 11, 0, "data:T, indices:Tind -> output:T; T=@all, Tind=int32|int64; axis:i=0",
      infer_gather_elements },
    { "GatherElements", 13, 0, "data:T, indices:Tind -> output:T; T=@all_ir4, Tind=int32|int64; axis:i=0",
      infer_gather_elements },
    { "GatherND", 11, 0, "data:T, indices:int64 -> output:T; T=@all", infer_gather_nd },
    { "GatherND", 12, 0, "data:T, indices:int64 -> output:T; T=@all; batch_dims:i=0", infer_gather_nd },
    { "GatherND", 13, 0, "data:T, indices:int64 -> output:T; T=@all_ir4; batch_dims:i=0", infer_gather_nd },
};

const op_table op_onnx_gather = { "ai.onnx", onnx_gather_rows, OP_COUNT(onnx_gather_rows) };
