/* onnx/pool.c - pooling. */
#include "schema.h"
#include "onnx/pool.h"
#include "inlay/check.h"
#include <string.h>

/* Value d of a list attribute; `otherwise` if the list is shorter or absent. */
static int64_t pool_attr(const op_infer *infer, const char *name, uint32_t d, int64_t otherwise)
{
    uint32_t count;
    const int64_t *values = infer_attr_ints(infer, name, &count);

    return d < count ? values[d] : otherwise;
}

/* The number of windows along one axis (AveragePool-22: output shape). With ceil_mode, a last window that would start
 * in the padding after the input is dropped. */
static inlay_dim pool_fixed(int64_t in, int64_t reach, int64_t stride, int64_t begin, int64_t end, bool ceil_mode)
{
    int64_t room = in + begin + end - reach, out = room / stride + 1;

    INLAY_CHECK(in >= 0 && reach > 0);
    if (room < 0)
        return dim_fixed(0);
    if (ceil_mode && room % stride != 0 && out * stride < in + begin)
        out++;
    return dim_fixed(out);
}

static inlay_status pool_axis(op_infer *infer, uint32_t d, uint32_t spatial, inlay_dim in, inlay_dim *out)
{
    const char *auto_pad = infer_attr_string(infer, "auto_pad", "NOTSET");
    const bool ceil_mode = infer_attr_int(infer, "ceil_mode", 0) != 0, valid = strcmp(auto_pad, "VALID") == 0;
    const int64_t kernel = pool_attr(infer, "kernel_shape", d, 1), stride = pool_attr(infer, "strides", d, 1);
    const int64_t dilation = pool_attr(infer, "dilations", d, 1), reach = (kernel - 1) * dilation + 1;
    const int64_t begin = valid ? 0 : pool_attr(infer, "pads", d, 0);
    const int64_t end = valid ? 0 : pool_attr(infer, "pads", d + spatial, 0);

    if (kernel < 1 || stride < 1 || dilation < 1 || begin < 0 || end < 0 || kernel > INT32_MAX || stride > INT32_MAX ||
        dilation > INT32_MAX || begin > INT32_MAX || end > INT32_MAX)
        return infer_fail(
            infer, INLAY_INVALID_MODEL,
            "along spatial axis %u kernel_shape is %lld, strides %lld, dilations %lld, pads %lld and %lld; "
            "the first three must be at least 1, pads at least 0, all below 2^31",
            d, (long long)kernel, (long long)stride, (long long)dilation, (long long)begin, (long long)end);
    if (strncmp(auto_pad, "SAME", 4) == 0) {
        *out = dim_ceil_div(infer, in, dim_fixed(stride));
    } else if (in.kind == INLAY_DIM_FIXED) {
        if (in.value > INT64_MAX / 4)
            return infer_fail(infer, INLAY_LIMIT_EXCEEDED, "spatial axis %u of X is too large", d);
        *out = pool_fixed(in.value, reach, stride, begin, end, ceil_mode && !valid);
        if (out->value == 0 && in.value > 0)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH,
                              "the window of %lld along spatial axis %u is larger than the padded input, %lld",
                              (long long)reach, d, (long long)(in.value + begin + end));
    } else if (!ceil_mode || valid || stride == 1) {
        in = dim_add(infer, in, dim_fixed(begin + end - reach));
        *out = dim_add(infer, dim_div(infer, in, dim_fixed(stride)), dim_fixed(1));
    } else {
        *out = dim_unknown(); /* the size decides whether the last window is dropped */
    }
    return INLAY_OK;
}

inlay_status infer_pool(op_infer *infer)
{
    uint32_t rank = infer_rank(infer, 0), spatial;
    inlay_dim dims[INLAY_MAX_RANK];
    inlay_status status = INLAY_OK;

    (void)infer_attr_ints(infer, "kernel_shape", &spatial);
    if (spatial == 0 || spatial > INLAY_MAX_RANK - 2)
        return infer_fail(infer, INLAY_INVALID_MODEL, "kernel_shape has %u entries; it must have one a spatial axis",
                          spatial);
    if (infer_attr_int(infer, "storage_order", 0) >> 1 != 0)
        return infer_fail(infer, INLAY_INVALID_MODEL, "storage_order is %lld; it must be 0 or 1",
                          (long long)infer_attr_int(infer, "storage_order", 0));
    if (rank == INLAY_RANK_UNKNOWN)
        rank = spatial + 2;
    if (rank != spatial + 2)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "X has rank %u; with this kernel_shape it must have %u", rank,
                          spatial + 2);
    dims[0] = infer_dim(infer, 0, 0);
    dims[1] = infer_dim(infer, 0, 1);
    for (uint32_t d = 0; d < spatial; d++)
        INLAY_TRY(pool_axis(infer, d, spatial, infer_dim(infer, 0, 2 + d), &dims[2 + d]));
    for (uint32_t o = 0; o < infer->out_count; o++)
        INLAY_TRY(infer_set_shape(infer, o, rank, dims));
done:
    return status;
}

static const op_row onnx_pool_rows[] = {
    { "AveragePool", 1, 0, "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', kernel_shape:is!, pads:is, strides:is",
      infer_pool },
    { "AveragePool", 7, 0,
      "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', count_include_pad:i=0, kernel_shape:is!, pads:is, strides:is",
      infer_pool },
    { "AveragePool", 10, 0,
      "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', ceil_mode:i=0, count_include_pad:i=0, kernel_shape:is!, pads:is, "
      "strides:is",
      infer_pool },
    { "AveragePool", 11, 0,
      "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', ceil_mode:i=0, count_include_pad:i=0, kernel_shape:is!, pads:is, "
      "strides:is",
      infer_pool },
    { "AveragePool", 19, 0,
      "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', ceil_mode:i=0, count_include_pad:i=0, dilations:is, "
      "kernel_shape:is!, pads:is, strides:is",
      infer_pool },
    { "AveragePool", 22, 0,
      "X:T -> Y:T; T=@float_ir4; auto_pad:s='NOTSET', ceil_mode:i=0, count_include_pad:i=0, dilations:is, "
      "kernel_shape:is!, pads:is, strides:is",
      infer_pool },

    { "LpPool", 1, 0, "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', kernel_shape:is, p:f=2, pads:is, strides:is",
      infer_pool },
    { "LpPool", 2, 0, "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', kernel_shape:is!, p:i=2, pads:is, strides:is",
      infer_pool },
    { "LpPool", 11, 0, "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', kernel_shape:is!, p:i=2, pads:is, strides:is",
      infer_pool },
    { "LpPool", 18, 0,
      "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', ceil_mode:i=0, dilations:is, kernel_shape:is!, p:i=2, pads:is, "
      "strides:is",
      infer_pool },
    { "LpPool", 22, 0,
      "X:T -> Y:T; T=@float_ir4; auto_pad:s='NOTSET', ceil_mode:i=0, dilations:is, kernel_shape:is!, p:i=2, pads:is, "
      "strides:is",
      infer_pool },

    { "MaxPool", 1, 0, "X:T -> Y:T; T=@float; auto_pad:s='NOTSET', kernel_shape:is!, pads:is, strides:is", infer_pool },
    { "MaxPool", 8, 0,
      "X:T -> Y:T, Indices?:I; T=@float, I=int64; auto_pad:s='NOTSET', kernel_shape:is!, pads:is, storage_order:i=0, "
      "strides:is",
      infer_pool },
    { "MaxPool", 10, 0,
      "X:T -> Y:T, Indices?:I; T=@float, I=int64; auto_pad:s='NOTSET', ceil_mode:i=0, dilations:is, kernel_shape:is!, "
      "pads:is, storage_order:i=0, strides:is",
      infer_pool },
    { "MaxPool", 11, 0,
      "X:T -> Y:T, Indices?:I; T=@float, I=int64; auto_pad:s='NOTSET', ceil_mode:i=0, dilations:is, kernel_shape:is!, "
      "pads:is, storage_order:i=0, strides:is",
      infer_pool },
    { "MaxPool", 12, 0,
      "X:T -> Y:T, Indices?:I; T=@float|uint8|int8, I=int64; auto_pad:s='NOTSET', ceil_mode:i=0, dilations:is, "
      "kernel_shape:is!, pads:is, storage_order:i=0, strides:is",
      infer_pool },
    { "MaxPool", 22, 0,
      "X:T -> Y:T, Indices?:I; T=@float_ir4|uint8|int8, I=int64; auto_pad:s='NOTSET', ceil_mode:i=0, dilations:is, "
      "kernel_shape:is!, pads:is, storage_order:i=0, strides:is",
      infer_pool },
};

const op_table op_onnx_pool = { "ai.onnx", onnx_pool_rows, OP_COUNT(onnx_pool_rows) };
