/* onnx/conv_transpose.c - transposed convolution. */
#include "onnx/conv.h"
#include "schema.h"
#include <string.h>

/* Size of the output along spatial axis d (ONNX ConvTranspose-11): stride * (in - 1) + output_padding - pads +
 * dilated kernel, unless output_shape or auto_pad determines it. */
static inlay_status infer_axis_of_transpose(op_infer *infer, uint32_t spatial, uint32_t d, inlay_dim in, inlay_dim *out)
{
    const char *auto_pad = infer_attr_string(infer, "auto_pad", "NOTSET");
    inlay_dim kernel = infer_dim(infer, 1, 2 + d);
    int64_t stride, dilation, begin, end, extra, size;
    uint32_t shape_count;
    const int64_t *shape = infer_attr_ints(infer, "output_shape", &shape_count);
    inlay_status status;

    *out = dim_unknown();
    INLAY_TRY(infer_conv_attr(infer, "kernel_shape", spatial, d, 1, 0, &size));
    INLAY_TRY(infer_conv_attr(infer, "strides", spatial, d, 1, 1, &stride));
    INLAY_TRY(infer_conv_attr(infer, "dilations", spatial, d, 1, 1, &dilation));
    INLAY_TRY(infer_conv_attr(infer, "output_padding", spatial, d, 0, 0, &extra));
    INLAY_TRY(infer_conv_attr(infer, "pads", 2 * spatial, d, INT32_MIN, 0, &begin));
    INLAY_TRY(infer_conv_attr(infer, "pads", 2 * spatial, d + spatial, INT32_MIN, 0, &end));
    if (shape != NULL) {
        /* Some exporters also list the sizes of the batch and channel axes. */
        if (shape_count != spatial && shape_count != spatial + 2)
            return infer_fail(infer, INLAY_INVALID_MODEL, "output_shape has %u values for %u spatial axes", shape_count,
                              spatial);
        size = shape[shape_count - spatial + d];
        if (size < 0 || size > INT32_MAX)
            return infer_fail(infer, INLAY_INVALID_MODEL, "output_shape has the size %lld, not 0 to 2147483647",
                              (long long)size);
        *out = dim_fixed(size);
        return INLAY_OK;
    }
    if (strncmp(auto_pad, "SAME", 4) == 0) {
        *out = dim_mul(infer, in, dim_fixed(stride));
        return INLAY_OK;
    }
    if (size > 0)
        INLAY_TRY(dim_merge(infer, kernel, dim_fixed(size), "kernel_shape and weights", &kernel));
    if (kernel.kind != INLAY_DIM_FIXED)
        return INLAY_OK;
    if (strcmp(auto_pad, "VALID") == 0)
        begin = end = 0;
    if (kernel.value < 1 || kernel.value > INT32_MAX)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "the kernel size along spatial axis %u is %lld", d,
                          (long long)kernel.value);
    if (in.kind == INLAY_DIM_FIXED && in.value > INT32_MAX)
        return infer_fail(infer, INLAY_LIMIT_EXCEEDED, "spatial axis %u of the input is too large", d);
    size = extra + (kernel.value - 1) * dilation + 1 - begin - end - stride;
    *out = dim_add(infer, dim_mul(infer, in, dim_fixed(stride)), dim_fixed(size));
    if (out->kind == INLAY_DIM_FIXED && out->value < 0) {
        if (in.value > 0)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "padding leaves nothing of spatial axis %u", d);
        *out = dim_fixed(0);
    }
done:
    return status;
}

static inlay_status infer_conv_transpose(op_infer *infer)
{
    uint32_t rank = infer_rank(infer, 0), wr = infer_rank(infer, 1);
    inlay_dim dims[INLAY_MAX_RANK], channels;
    inlay_status status = INLAY_OK;

    if (rank == INLAY_RANK_UNKNOWN)
        rank = wr;
    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank < 3 || (wr != INLAY_RANK_UNKNOWN && wr != rank))
        return infer_fail(infer, INLAY_SHAPE_MISMATCH,
                          "the input has rank %u and the weights %u; both need the same, at least 3", rank, wr);
    INLAY_TRY(dim_merge(infer, infer_dim(infer, 0, 1), infer_dim(infer, 1, 0), "channels of X and W", &channels));
    dims[0] = infer_dim(infer, 0, 0);
    dims[1] = dim_mul(infer, infer_dim(infer, 1, 1), dim_fixed(infer_attr_int(infer, "group", 1)));
    INLAY_TRY(infer_check_count(infer, 2, dims[1]));
    for (uint32_t d = 0; d + 2 < rank; d++)
        INLAY_TRY(infer_axis_of_transpose(infer, rank - 2, d, infer_dim(infer, 0, 2 + d), &dims[2 + d]));
    INLAY_TRY(infer_set_shape(infer, 0, rank, dims));
done:
    return status;
}

static const op_row onnx_conv_transpose_rows[] = {
    { "ConvTranspose", 1, 0,
      "X:T, W:T, B?:T -> Y:T; T=@float; auto_pad:s='NOTSET', dilations:is, group:i=1, kernel_shape:is, "
      "output_padding:is, output_shape:is, pads:is, strides:is",
      infer_conv_transpose },
    { "ConvTranspose", 11, 0,
      "X:T, W:T, B?:T -> Y:T; T=@float; auto_pad:s='NOTSET', dilations:is, group:i=1, kernel_shape:is, "
      "output_padding:is, output_shape:is, pads:is, strides:is",
      infer_conv_transpose },
    { "ConvTranspose", 22, 0,
      "X:T, W:T, B?:T -> Y:T; T=@float_ir4; auto_pad:s='NOTSET', dilations:is, group:i=1, kernel_shape:is, "
      "output_padding:is, output_shape:is, pads:is, strides:is",
      infer_conv_transpose },
};

const op_table op_onnx_conv_transpose = { "ai.onnx", onnx_conv_transpose_rows, OP_COUNT(onnx_conv_transpose_rows) };
