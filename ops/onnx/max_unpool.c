/* onnx/max_unpool.c - MaxUnpool: the inverse of MaxPool by its indices. */
#include "schema.h"

/* Sets output_shape. It has the batch and the channels of the pooled tensor, and room for each of its axes: the indices
 * refer to positions in the pooled tensor. */
static inlay_status use_output_shape(op_infer *infer, uint32_t rank, const inlay_dim *pooled)
{
    inlay_dim dims[INLAY_MAX_RANK];
    uint32_t count;
    const inlay_dim *shape = infer_elements(infer, 2, &count);
    inlay_status status = infer_check_list(infer, 2);

    if (status != INLAY_OK)
        return status;
    if (shape != NULL && count != rank)
        return infer_fail(infer, INLAY_INVALID_MODEL, "output_shape has %u values for an input of rank %u", count,
                          rank);
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = shape != NULL ? shape[i] : i < 2 ? pooled[i] : dim_unknown();
        if (dims[i].kind == INLAY_DIM_FIXED && pooled[i].kind == INLAY_DIM_FIXED &&
            (i < 2 ? dims[i].value != pooled[i].value : dims[i].value < pooled[i].value))
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "output_shape[%u] is %lld; it must be %s%lld", i,
                              (long long)dims[i].value, i < 2 ? "" : "at least ", (long long)pooled[i].value);
    }
    return infer_set_shape(infer, 0, rank, dims);
}

/* MaxUnpool-11: output_shape if the node has it, otherwise the inverse of the pooling: (in - 1) * stride +
 * kernel - pads. */
static inlay_status infer_max_unpool(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim pooled[INLAY_MAX_RANK];
    uint32_t kernel_count, stride_count, pad_count;
    const int64_t *kernel = infer_attr_ints(infer, "kernel_shape", &kernel_count);
    const int64_t *strides = infer_attr_ints(infer, "strides", &stride_count);
    const int64_t *pads = infer_attr_ints(infer, "pads", &pad_count);

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank < 3 || kernel_count != rank - 2 || (strides != NULL && stride_count != rank - 2) ||
        (pads != NULL && pad_count != 2 * (rank - 2)))
        return infer_fail(infer, INLAY_INVALID_MODEL, "kernel_shape, strides or pads do not fit an input of rank %u",
                          rank);
    for (uint32_t i = 0; i < rank; i++) {
        const uint32_t spatial = i - 2;

        pooled[i] = infer_dim(infer, 0, i);
        if (i < 2)
            continue;
        pooled[i] =
            dim_mul(infer, dim_sub(infer, pooled[i], dim_fixed(1)), dim_fixed(strides != NULL ? strides[spatial] : 1));
        pooled[i] = dim_add(infer, pooled[i], dim_fixed(kernel[spatial]));
        if (pads != NULL)
            pooled[i] = dim_sub(infer, dim_sub(infer, pooled[i], dim_fixed(pads[spatial])),
                                dim_fixed(pads[spatial + rank - 2]));
    }
    return infer_has_in(infer, 2) ? use_output_shape(infer, rank, pooled) : infer_set_shape(infer, 0, rank, pooled);
}

static const op_row onnx_max_unpool_rows[] = {
    { "MaxUnpool", 9, 0,
      "X:T1, I:T2, output_shape?:T2 -> output:T1; T1=@float, T2=int64; kernel_shape:is!, pads:is, strides:is",
      infer_max_unpool },
    { "MaxUnpool", 11, 0,
      "X:T1, I:T2, output_shape?:T2 -> output:T1; T1=@float, T2=int64; kernel_shape:is!, pads:is, strides:is",
      infer_max_unpool },
    { "MaxUnpool", 22, 0,
      "X:T1, I:T2, output_shape?:T2 -> output:T1; T1=@float_ir4, T2=int64; kernel_shape:is!, pads:is, strides:is",
      infer_max_unpool },
};

const op_table op_onnx_max_unpool = { "ai.onnx", onnx_max_unpool_rows, OP_COUNT(onnx_max_unpool_rows) };
