/* onnx/reshape.c - Reshape. */
#include "schema.h"
#include "inlay/check.h"

/* The requested shape: an attribute in Reshape-1, an input in later versions. NULL if unknown. */
static const inlay_dim *requested_shape(op_infer *infer, inlay_dim *room, uint32_t *out_count)
{
    const int64_t *ints;

    if (infer->node->since_version >= 5)
        return infer_elements(infer, 1, out_count);
    ints = infer_attr_ints(infer, "shape", out_count);
    for (uint32_t i = 0; i < *out_count && i < INLAY_MAX_RANK; i++)
        room[i] = dim_fixed(ints[i]);
    return room;
}

/* Computes the size of axis `rest`: the elements of the input divided by the other sizes. Bits of `copied` are axes
 * that the output copies from the input, which cancel out. */
static inlay_status infer_rest(op_infer *infer, inlay_dim *dims, uint32_t count, uint32_t rest, uint32_t copied)
{
    inlay_dim have = dim_fixed(1), want = dim_fixed(1);

    INLAY_CHECK(rest < count && (copied >> rest & 1) == 0);
    for (uint32_t i = 0; i < infer_rank(infer, 0); i++)
        if (i >= 32 || (copied >> i & 1) == 0)
            have = dim_mul(infer, have, infer_dim(infer, 0, i));
    for (uint32_t i = 0; i < count; i++)
        if (i != rest && (copied >> i & 1) == 0)
            want = dim_mul(infer, want, dims[i]);
    dims[rest] = dim_div(infer, have, want);
    if (have.kind != INLAY_DIM_FIXED || want.kind != INLAY_DIM_FIXED)
        return INLAY_OK;
    if (want.value == 0)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "the size for -1 is ambiguous, because another size is 0");
    if (have.value % want.value != 0)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "%lld elements do not fill axes of %lld elements and one of -1",
                          (long long)have.value, (long long)want.value);
    return INLAY_OK;
}

/* Reshape-5, Reshape-14: 0 copies the size of the input unless allowzero is set; one -1 takes the remaining
 * elements. */
static inlay_status infer_reshape(op_infer *infer)
{
    const bool allowzero = infer_attr_int(infer, "allowzero", 0) != 0;
    const bool ranked = infer_rank(infer, 0) != INLAY_RANK_UNKNOWN;
    inlay_dim dims[INLAY_MAX_RANK], room[INLAY_MAX_RANK];
    uint32_t count, rest = UINT32_MAX, unknown = 0, unknown_at = 0, copied = 0;
    const inlay_dim *shape = requested_shape(infer, room, &count);
    inlay_status status = INLAY_OK;

    INLAY_TRY(infer_check_list(infer, 1));
    if (shape == NULL) {
        const inlay_dim length = infer_dim(infer, 1, 0);

        if (length.kind != INLAY_DIM_FIXED)
            return INLAY_OK;
        if (length.value < 0 || length.value > INLAY_MAX_RANK)
            return infer_fail(infer, INLAY_LIMIT_EXCEEDED, "shape has %lld values; at most %d axes are supported",
                              (long long)length.value, INLAY_MAX_RANK);
        for (uint32_t i = 0; i < (uint32_t)length.value; i++)
            dims[i] = dim_unknown();
        return infer_set_shape(infer, 0, (uint32_t)length.value, dims);
    }
    if (count > INLAY_MAX_RANK)
        return infer_fail(infer, INLAY_LIMIT_EXCEEDED, "shape has %u values; at most %d axes are supported", count,
                          INLAY_MAX_RANK);
    for (uint32_t i = 0; i < count; i++) {
        dims[i] = shape[i];
        if (shape[i].kind == INLAY_DIM_UNKNOWN) {
            unknown++;
            unknown_at = i;
        } else if (shape[i].kind == INLAY_DIM_FIXED && shape[i].value == 0 && !allowzero) {
            if (ranked && i >= infer_rank(infer, 0))
                return infer_fail(infer, INLAY_INVALID_MODEL, "shape[%u] is 0, but the input has only %u axes", i,
                                  infer_rank(infer, 0));
            dims[i] = infer_dim(infer, 0, i);
            copied |= 1u << i;
        } else if (shape[i].kind == INLAY_DIM_FIXED && shape[i].value == -1) {
            if (rest != UINT32_MAX)
                return infer_fail(infer, INLAY_INVALID_MODEL, "shape has more than one -1");
            rest = i;
            dims[i] = dim_unknown();
        } else if (shape[i].kind == INLAY_DIM_FIXED && shape[i].value < 0) {
            return infer_fail(infer, INLAY_INVALID_MODEL, "shape[%u] is %lld", i, (long long)shape[i].value);
        }
    }
    /* A single unknown size follows from the number of elements, as a -1 does. */
    if (unknown == 1 && rest == UINT32_MAX)
        rest = unknown_at;
    else if (unknown > 0)
        rest = UINT32_MAX;
    if (ranked && rest != UINT32_MAX) {
        INLAY_TRY(infer_rest(infer, dims, count, rest, copied));
    } else if (ranked && unknown == 0) {
        const inlay_dim have = dim_product(infer, infer->in[0]->dims, infer_rank(infer, 0));
        const inlay_dim want = dim_product(infer, dims, count);

        if (have.kind == INLAY_DIM_FIXED && want.kind == INLAY_DIM_FIXED && have.value != want.value)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "%lld elements do not fill a shape of %lld",
                              (long long)have.value, (long long)want.value);
    }
    INLAY_TRY(infer_set_shape(infer, 0, count, dims));
    status = infer_same_elements(infer);
done:
    return status;
}

static const op_row onnx_reshape_rows[] = {
    { "Reshape", 1, 0, "data:T -> reshaped:T; T=@float; consumed_inputs:is, shape:is", infer_reshape },
    { "Reshape", 5, 0, "data:T, shape:int64 -> reshaped:T; T=@all", infer_reshape },
    { "Reshape", 13, 0, "data:T, shape:int64 -> reshaped:T; T=@all_ir4", infer_reshape },
    { "Reshape", 14, 0, "data:T, shape:int64 -> reshaped:T; T=@all_ir4; allowzero:i=0", infer_reshape },
    { "Reshape", 19, 0, "data:T, shape:int64 -> reshaped:T; T=@all_ir9; allowzero:i=0", infer_reshape },
    { "Reshape", 21, 0, "data:T, shape:int64 -> reshaped:T; T=@all_ir10; allowzero:i=0", infer_reshape },
    { "Reshape", 23, 0, "data:T, shape:int64 -> reshaped:T; T=@all_ir11; allowzero:i=0", infer_reshape },
    { "Reshape", 24, 0, "data:T, shape:int64 -> reshaped:T; T=@all_ir12; allowzero:i=0", infer_reshape },
    { "Reshape", 25, 0, "data:T, shape:int64 -> reshaped:T; T=@all_ir13; allowzero:i=0", infer_reshape },
};

const op_table op_onnx_reshape = { "ai.onnx", onnx_reshape_rows, OP_COUNT(onnx_reshape_rows) };
