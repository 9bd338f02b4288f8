/* onnx/expand.c - broadcasting to a shape. */
#include "schema.h"

/* Propagates elements if the result repeats one element, or has the same elements as the input. */
static inlay_status expand_elements(op_infer *infer)
{
    inlay_dim repeated[INFER_MAX_ELEMENTS], size;
    uint32_t count;
    const inlay_dim *elements = infer_elements(infer, 0, &count);

    if (elements == NULL || !infer_has_out(infer, 0))
        return INLAY_OK;
    size = dim_product(infer, infer->out[0]->dims, infer->out[0]->rank);
    if (size.kind != INLAY_DIM_FIXED || size.value < 0 || size.value > INFER_MAX_ELEMENTS)
        return INLAY_OK;
    if (size.value == (int64_t)count)
        return infer_set_elements(infer, 0, count, elements);
    if (count != 1)
        return INLAY_OK;
    for (int64_t i = 0; i < size.value; i++)
        repeated[i] = elements[0];
    return infer_set_elements(infer, 0, (uint32_t)size.value, repeated);
}

static inlay_status infer_expand(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK], length = infer_dim(infer, 1, 0);
    inlay_status status = INLAY_OK;
    uint32_t count, n;
    const inlay_dim *shape = infer_elements(infer, 1, &count);

    INLAY_TRY(infer_check_list(infer, 1));
    if (rank == INLAY_RANK_UNKNOWN || (shape == NULL && length.kind != INLAY_DIM_FIXED))
        return INLAY_OK;
    if (shape == NULL)
        count = length.value >= 0 && length.value <= INLAY_MAX_RANK ? (uint32_t)length.value : INLAY_MAX_RANK + 1;
    if (count > INLAY_MAX_RANK)
        return infer_fail(infer, INLAY_LIMIT_EXCEEDED, "shape has too many values; at most %d axes are supported",
                          INLAY_MAX_RANK);
    n = rank > count ? rank : count;
    for (uint32_t i = 0; i < n; i++) {
        const inlay_dim have = i + rank < n ? dim_fixed(1) : infer_dim(infer, 0, i + rank - n);
        const inlay_dim want = i + count < n ? dim_fixed(1) : shape != NULL ? shape[i + count - n] : dim_unknown();

        if (want.kind == INLAY_DIM_FIXED && want.value < 0)
            return infer_fail(infer, INLAY_INVALID_MODEL, "shape has the negative size %lld", (long long)want.value);
        INLAY_TRY(dim_broadcast(infer, have, want, &dims[i]));
    }
    INLAY_TRY(infer_set_shape(infer, 0, n, dims));
    status = expand_elements(infer);
done:
    return status;
}

static const op_row onnx_expand_rows[] = {
    { "Expand", 8, 0, "input:T, shape:int64 -> output:T; T=@all", infer_expand },
    { "Expand", 13, 0, "input:T, shape:int64 -> output:T; T=@all_ir4", infer_expand },
};

const op_table op_onnx_expand = { "ai.onnx", onnx_expand_rows, OP_COUNT(onnx_expand_rows) };
