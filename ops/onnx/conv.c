/* onnx/conv.c - convolution. */
#include "onnx/conv.h"
#include "schema.h"
#include "inlay/check.h"
#include <string.h>

inlay_status infer_conv_attr(const op_infer *infer, const char *name, uint32_t count, uint32_t d, int64_t low,
                             int64_t otherwise, int64_t *out)
{
    uint32_t have;
    const int64_t *values = infer_attr_ints(infer, name, &have);

    INLAY_CHECK(d < count);
    *out = otherwise;
    if (values == NULL)
        return INLAY_OK;
    if (have != count)
        return infer_fail(infer, INLAY_INVALID_MODEL, "attribute %s has %u values, not %u", name, have, count);
    if (values[d] < low || values[d] > INT32_MAX)
        return infer_fail(infer, INLAY_INVALID_MODEL, "attribute %s has the value %lld, outside [%lld, 2^31)", name,
                          (long long)values[d], (long long)low);
    *out = values[d];
    return INLAY_OK;
}

/* Size of the output along spatial axis d (ONNX Conv-11: auto_pad and pads). */
static inlay_status infer_axis_of_conv(op_infer *infer, uint32_t w, uint32_t spatial, uint32_t d, inlay_dim in,
                                       inlay_dim *out)
{
    const char *auto_pad = infer_attr_string(infer, "auto_pad", "NOTSET");
    inlay_dim kernel = infer_dim(infer, w, 2 + d);
    int64_t stride, dilation, begin, end, size;
    inlay_status status;

    *out = dim_unknown();
    INLAY_TRY(infer_conv_attr(infer, "kernel_shape", spatial, d, 1, 0, &size));
    INLAY_TRY(infer_conv_attr(infer, "strides", spatial, d, 1, 1, &stride));
    INLAY_TRY(infer_conv_attr(infer, "dilations", spatial, d, 1, 1, &dilation));
    INLAY_TRY(infer_conv_attr(infer, "pads", 2 * spatial, d, INT32_MIN, 0, &begin));
    INLAY_TRY(infer_conv_attr(infer, "pads", 2 * spatial, d + spatial, INT32_MIN, 0, &end));
    if (size > 0)
        INLAY_TRY(dim_merge(infer, kernel, dim_fixed(size), "kernel_shape and weights", &kernel));
    if (strncmp(auto_pad, "SAME", 4) == 0) {
        *out = dim_ceil_div(infer, in, dim_fixed(stride));
        return INLAY_OK;
    }
    if (kernel.kind != INLAY_DIM_FIXED)
        return INLAY_OK;
    if (kernel.value < 1 || kernel.value > INT32_MAX)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "the kernel size along spatial axis %u is %lld", d,
                          (long long)kernel.value);
    if (strcmp(auto_pad, "VALID") == 0)
        begin = end = 0;
    INLAY_CHECK(stride > 0 && dilation > 0);
    size = begin + end - (kernel.value - 1) * dilation - 1;
    if (in.kind == INLAY_DIM_FIXED) {
        if (in.value > INT64_MAX / 4)
            return infer_fail(infer, INLAY_LIMIT_EXCEEDED, "spatial axis %u of the input is too large", d);
        if (in.value + size < 0 && in.value > 0)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH,
                              "the window of %lld along spatial axis %u does not fit the padded input of %lld",
                              (long long)((kernel.value - 1) * dilation + 1), d, (long long)(in.value + begin + end));
        *out = dim_fixed(in.value + size < 0 ? 0 : (in.value + size) / stride + 1);
        return INLAY_OK;
    }
    *out = dim_add(infer, dim_div(infer, dim_add(infer, in, dim_fixed(size)), dim_fixed(stride)), dim_fixed(1));
done:
    return status;
}

/* Input [N, C, ...] and weights [M, C / group, ...] must have the same C, and M must be a multiple of group. */
static inlay_status check_channels(op_infer *infer, uint32_t x, uint32_t w)
{
    int64_t group = infer_attr_int(infer, "group", 1);
    inlay_dim in = infer_dim(infer, x, 1), per_group = infer_dim(infer, w, 1), out = infer_dim(infer, w, 0);

    if (group < 1)
        return infer_fail(infer, INLAY_INVALID_MODEL, "group is %lld; it must be at least 1", (long long)group);
    per_group = dim_mul(infer, per_group, dim_fixed(group));
    if (in.kind == INLAY_DIM_FIXED && per_group.kind == INLAY_DIM_FIXED && in.value != per_group.value)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH,
                          "the input has %lld channels, but the weights with group %lld need %lld", (long long)in.value,
                          (long long)group, (long long)per_group.value);
    if (out.kind == INLAY_DIM_FIXED && out.value % group != 0)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "%lld output channels cannot be split into %lld groups",
                          (long long)out.value, (long long)group);
    return INLAY_OK;
}

inlay_status infer_conv_of(op_infer *infer, uint32_t x, uint32_t w)
{
    const uint32_t x_rank = infer_rank(infer, x), w_rank = infer_rank(infer, w);
    const uint32_t rank = x_rank == INLAY_RANK_UNKNOWN ? w_rank : x_rank;
    inlay_dim dims[INLAY_MAX_RANK];
    inlay_status status = INLAY_OK;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank < 3 || (w_rank != INLAY_RANK_UNKNOWN && w_rank != rank))
        return infer_fail(infer, INLAY_SHAPE_MISMATCH,
                          "the input has rank %u and the weights %u; both need the same, at least 3", rank, w_rank);
    INLAY_TRY(check_channels(infer, x, w));
    dims[0] = infer_dim(infer, x, 0);
    dims[1] = infer_dim(infer, w, 0);
    for (uint32_t d = 0; d + 2 < rank; d++)
        INLAY_TRY(infer_axis_of_conv(infer, w, rank - 2, d, infer_dim(infer, x, 2 + d), &dims[2 + d]));
    INLAY_TRY(infer_set_shape(infer, 0, rank, dims));
done:
    return status;
}

static inlay_status infer_conv(op_infer *infer)
{
    inlay_status status = infer_conv_of(infer, 0, 1);

    return status == INLAY_OK ? infer_check_count(infer, 2, infer_dim(infer, 1, 0)) : status;
}

static const op_row onnx_conv_rows[] = {
    { "Conv", 1, 0,
      "X:T, W:T, B?:T -> Y:T; T=@float; auto_pad:s='NOTSET', dilations:is, group:i=1, kernel_shape:is, pads:is, "
      "strides:is",
      infer_conv },
    { "Conv", 11, 0,
      "X:T, W:T, B?:T -> Y:T; T=@float; auto_pad:s='NOTSET', dilations:is, group:i=1, kernel_shape:is, pads:is, "
      "strides:is",
      infer_conv },
    { "Conv", 22, 0,
      "X:T, W:T, B?:T -> Y:T; T=@float_ir4; auto_pad:s='NOTSET', dilations:is, group:i=1, kernel_shape:is, pads:is, "
      "strides:is",
      infer_conv },
};

const op_table op_onnx_conv = { "ai.onnx", onnx_conv_rows, OP_COUNT(onnx_conv_rows) };
