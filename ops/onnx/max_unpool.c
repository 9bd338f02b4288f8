/* onnx/max_unpool.c - MaxUnpool: the inverse of MaxPool by its indices. */
#include "schema.h"

/* MaxUnpool-11: output_shape if the node has it, otherwise the inverse of the pooling: (in - 1) * stride +
 * kernel - pads. */
static inlay_status infer_max_unpool(op_infer *infer)
{
    const uint32_t rank = infer_rank(infer, 0);
    inlay_dim dims[INLAY_MAX_RANK];
    uint32_t kernel_count, stride_count, pad_count, count;
    const int64_t *kernel = infer_attr_ints(infer, "kernel_shape", &kernel_count);
    const int64_t *strides = infer_attr_ints(infer, "strides", &stride_count);
    const int64_t *pads = infer_attr_ints(infer, "pads", &pad_count);

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank < 3 || kernel_count != rank - 2 || (strides != NULL && stride_count != rank - 2) ||
        (pads != NULL && pad_count != 2 * (rank - 2)))
        return infer_fail(infer, INLAY_INVALID_MODEL, "kernel_shape, strides or pads do not fit an input of rank %u",
                          rank);
    if (infer_has_in(infer, 2)) {
        const inlay_dim *shape = infer_elements(infer, 2, &count);

        if (shape != NULL && count != rank)
            return infer_fail(infer, INLAY_INVALID_MODEL, "output_shape has %u values for an input of rank %u", count,
                              rank);
        for (uint32_t i = 0; i < rank; i++)
            dims[i] = shape != NULL ? shape[i] : i < 2 ? infer_dim(infer, 0, i) : dim_unknown();
        return infer_set_shape(infer, 0, rank, dims);
    }
    for (uint32_t i = 0; i < rank; i++) {
        const uint32_t spatial = i - 2;

        dims[i] = infer_dim(infer, 0, i);
        if (i < 2)
            continue;
        dims[i] =
            dim_mul(infer, dim_sub(infer, dims[i], dim_fixed(1)), dim_fixed(strides != NULL ? strides[spatial] : 1));
        dims[i] = dim_add(infer, dims[i], dim_fixed(kernel[spatial]));
        if (pads != NULL)
            dims[i] =
                dim_sub(infer, dim_sub(infer, dims[i], dim_fixed(pads[spatial])), dim_fixed(pads[spatial + rank - 2]));
    }
    return infer_set_shape(infer, 0, rank, dims);
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
