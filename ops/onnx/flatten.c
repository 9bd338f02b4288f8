/* onnx/flatten.c - Flatten to a matrix. */
#include "schema.h"

/* Flatten-11: the axes before `axis` become the rows, the others the columns; axis may equal the rank. */
static inlay_status infer_flatten(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    int64_t axis = infer_attr_int(infer, "axis", 1);
    inlay_dim dims[2] = { dim_unknown(), dim_unknown() };

    if (rank == INLAY_RANK_UNKNOWN)
        return infer_set_shape(infer, 0, 2, dims);
    if (axis < -(int64_t)rank || axis > (int64_t)rank)
        return infer_fail(infer, INLAY_INVALID_MODEL, "axis is %lld, outside [-%u, %u]", (long long)axis, rank, rank);
    axis = axis < 0 ? axis + (int64_t)rank : axis;
    dims[0] = dim_product(infer, infer->in[0]->dims, (uint32_t)axis);
    dims[1] = dim_product(infer, infer->in[0]->dims + axis, rank - (uint32_t)axis);
    return infer_set_shape(infer, 0, 2, dims);
}

static const op_row onnx_flatten_rows[] = {
    { "Flatten", 1, 0, "input:T -> output:T; T=@float; axis:i=1", infer_flatten },
    { "Flatten", 9, 0, "input:T -> output:T; T=@all; axis:i=1", infer_flatten },
    { "Flatten", 11, 0, "input:T -> output:T; T=@all; axis:i=1", infer_flatten },
    { "Flatten", 13, 0, "input:T -> output:T; T=@all_ir4; axis:i=1", infer_flatten },
    { "Flatten", 21, 0, "input:T -> output:T; T=@all_ir10; axis:i=1", infer_flatten },
    { "Flatten", 23, 0, "input:T -> output:T; T=@all_ir11; axis:i=1", infer_flatten },
    { "Flatten", 24, 0, "input:T -> output:T; T=@all_ir12; axis:i=1", infer_flatten },
    { "Flatten", 25, 0, "input:T -> output:T; T=@all_ir13; axis:i=1", infer_flatten },
};

const op_table op_onnx_flatten = { "ai.onnx", onnx_flatten_rows, OP_COUNT(onnx_flatten_rows) };
