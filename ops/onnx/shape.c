/* onnx/shape.c - Shape and Size: dimensions as data. */
#include "schema.h"

/* Shape-15: start and end count from the end when negative and are clamped to the rank. */
static inlay_status infer_shape(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    int64_t start = infer_attr_int(infer, "start", 0), end;
    inlay_dim length = dim_unknown();
    inlay_status status;

    if (rank == INLAY_RANK_UNKNOWN)
        return infer_set_shape(infer, 0, 1, &length);
    end = infer_attr_int(infer, "end", rank);
    start = start < 0 ? start + rank : start;
    end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start > (int64_t)rank ? rank : start;
    end = end < 0 ? 0 : end > (int64_t)rank ? rank : end;
    end = end < start ? start : end;
    length = dim_fixed(end - start);
    status = infer_set_shape(infer, 0, 1, &length);
    return status == INLAY_OK ? infer_set_elements(infer, 0, (uint32_t)(end - start), infer->in[0]->dims + start)
                              : status;
}

static inlay_status infer_size(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_status status = infer_scalar(infer);
    inlay_dim size;

    if (status != INLAY_OK || rank == INLAY_RANK_UNKNOWN)
        return status;
    size = dim_product(infer, infer->in[0]->dims, rank);
    return infer_set_elements(infer, 0, 1, &size);
}

static const op_row onnx_shape_rows[] = {
    { "Shape", 1, 0, "data:T -> shape:T1; T=@all, T1=int64", infer_shape },
    { "Shape", 13, 0, "data:T -> shape:T1; T=@all_ir4, T1=int64", infer_shape },
    { "Shape", 15, 0, "data:T -> shape:T1; T=@all_ir4, T1=int64; end:i, start:i=0", infer_shape },
    { "Shape", 19, 0, "data:T -> shape:T1; T=@all_ir9, T1=int64; end:i, start:i=0", infer_shape },
    { "Shape", 21, 0, "data:T -> shape:T1; T=@all_ir10, T1=int64; end:i, start:i=0", infer_shape },
    { "Shape", 23, 0, "data:T -> shape:T1; T=@all_ir11, T1=int64; end:i, start:i=0", infer_shape },
    { "Shape", 24, 0, "data:T -> shape:T1; T=@all_ir12, T1=int64; end:i, start:i=0", infer_shape },
    { "Shape", 25, 0, "data:T -> shape:T1; T=@all_ir13, T1=int64; end:i, start:i=0", infer_shape },

    { "Size", 1, 0, "data:T -> size:T1; T=@all, T1=int64", infer_size },
    { "Size", 13, 0, "data:T -> size:T1; T=@all_ir4, T1=int64", infer_size },
    { "Size", 19, 0, "data:T -> size:T1; T=@all_ir9, T1=int64", infer_size },
    { "Size", 21, 0, "data:T -> size:T1; T=@all_ir10, T1=int64", infer_size },
    { "Size", 23, 0, "data:T -> size:T1; T=@all_ir11, T1=int64", infer_size },
    { "Size", 24, 0, "data:T -> size:T1; T=@all_ir12, T1=int64", infer_size },
    { "Size", 25, 0, "data:T -> size:T1; T=@all_ir13, T1=int64", infer_size },
};

const op_table op_onnx_shape = { "ai.onnx", onnx_shape_rows, OP_COUNT(onnx_shape_rows) };
