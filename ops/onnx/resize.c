/* onnx/resize.c - resampling. */
#include "schema.h"
#include <math.h>
#include <string.h>

/* True if the node has input i. Models of Resize-11 pass an empty tensor to omit roi, scales or sizes. */
static bool resize_given(const op_infer *infer, uint32_t i)
{
    return infer_has_in(infer, i) && !(infer_rank(infer, i) == 1 && infer_dim(infer, i, 0).kind == INLAY_DIM_FIXED &&
                                       infer_dim(infer, i, 0).value == 0);
}

/* floor(in * scale), in float as in ONNX's own inference. A symbolic size has a result only if the scale or its
 * inverse is an integer. */
static inlay_dim resize_scaled(op_infer *infer, inlay_dim in, double scale)
{
    const double inverse = 1 / scale;

    if (in.kind == INLAY_DIM_FIXED) {
        double out = floor((double)((float)in.value * (float)scale));
        return out >= 0 && out < 0x1p63 ? dim_fixed((int64_t)out) : dim_beyond(out < 0);
    }
    if (scale >= 1 && scale < 1e9 && scale == floor(scale))
        return dim_mul(infer, in, dim_fixed((int64_t)scale));
    if (inverse >= 1 && inverse < 1e9 && inverse == floor(inverse))
        return dim_div(infer, in, dim_fixed((int64_t)inverse));
    return dim_unknown();
}

/* Sizes that keep the aspect ratio: all axes are scaled by the smallest, or the largest, of the requested factors. */
static bool resize_keep_aspect(const inlay_dim *in, const inlay_dim *sizes, uint32_t n, bool larger, inlay_dim *out)
{
    double common = 0;

    for (uint32_t i = 0; i < n; i++) {
        double scale;
        if (in[i].kind != INLAY_DIM_FIXED || sizes[i].kind != INLAY_DIM_FIXED || in[i].value <= 0)
            return false;
        scale = (double)sizes[i].value / (double)in[i].value;
        common = i == 0 || (larger ? scale > common : scale < common) ? scale : common;
    }
    for (uint32_t i = 0; i < n; i++) {
        double size = floor(common * (double)in[i].value + 0.5);
        out[i] = size < 0x1p63 ? dim_fixed((int64_t)size) : dim_beyond(false);
    }
    return true;
}

/* The axes to resize: attribute axes, or all axes. */
static inlay_status resize_axes(const op_infer *infer, uint32_t rank, uint32_t *axes, uint32_t *out_count)
{
    const int64_t *listed = infer_attr_ints(infer, "axes", out_count);
    inlay_status status = INLAY_OK;

    if (listed == NULL) {
        *out_count = rank;
        for (uint32_t d = 0; d < rank; d++)
            axes[d] = d;
        return INLAY_OK;
    }
    if (*out_count > rank)
        return infer_fail(infer, INLAY_INVALID_MODEL, "axes has %u entries, but X has rank %u", *out_count, rank);
    for (uint32_t i = 0; i < *out_count && status == INLAY_OK; i++) {
        status = infer_axis(infer, listed[i], rank, "axes", &axes[i]);
        for (uint32_t k = 0; k < i && status == INLAY_OK; k++)
            if (axes[k] == axes[i])
                status = infer_fail(infer, INLAY_INVALID_MODEL, "axes contains axis %u twice", axes[i]);
    }
    return status;
}

/* The scales: an attribute (Upsample-1, 7) or an input. False if not known. */
static bool resize_scales(op_infer *infer, uint32_t input, double *scales, uint32_t *out_count)
{
    const inlay_attr_info *attribute = infer_attr(infer, "scales");

    *out_count = 0;
    if (attribute != NULL && attribute->kind == INLAY_ATTR_FLOATS && attribute->count <= INLAY_MAX_RANK) {
        *out_count = attribute->count;
        for (uint32_t i = 0; i < attribute->count; i++)
            scales[i] = (double)attribute->floats[i];
        return true;
    }
    if (infer_attr(infer, "height_scale") != NULL) {
        scales[0] = scales[1] = 1;
        scales[2] = infer_attr_float(infer, "height_scale", 1);
        scales[3] = infer_attr_float(infer, "width_scale", 1);
        *out_count = 4;
        return true;
    }
    return infer_floats(infer, input, scales, INLAY_MAX_RANK, out_count);
}

/* Replaces dims[axes[0 .. n-1]] by the sizes in input 3. */
static inlay_status resize_by_sizes(op_infer *infer, const uint32_t *axes, uint32_t n, inlay_dim *dims)
{
    const char *policy = infer_attr_string(infer, "keep_aspect_ratio_policy", "stretch");
    inlay_dim in[INLAY_MAX_RANK], out[INLAY_MAX_RANK];
    uint32_t count;
    const inlay_dim *sizes = infer_elements(infer, 3, &count);

    for (uint32_t i = 0; i < n; i++) {
        in[i] = dims[axes[i]];
        dims[axes[i]] = dim_unknown();
    }
    if (sizes == NULL)
        return INLAY_OK;
    if (count != n)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "sizes has %u entries for %u axes", count, n);
    for (uint32_t i = 0; i < n; i++) {
        if (sizes[i].kind == INLAY_DIM_FIXED && sizes[i].value < 0)
            return infer_fail(infer, INLAY_INVALID_MODEL, "sizes[%u] is %lld; it must not be negative", i,
                              (long long)sizes[i].value);
        out[i] = sizes[i];
    }
    if (strcmp(policy, "stretch") != 0 && !resize_keep_aspect(in, sizes, n, strcmp(policy, "not_smaller") == 0, out))
        return INLAY_OK;
    for (uint32_t i = 0; i < n; i++)
        dims[axes[i]] = out[i];
    return INLAY_OK;
}

static inlay_status infer_resize(op_infer *infer)
{
    const bool old = infer->node->op_type.data[0] == 'U' || infer->node->since_version < 11;
    const uint32_t rank = infer_rank(infer, 0), scales_input = old ? 1 : 2;
    uint32_t axes[INLAY_MAX_RANK], n, count;
    inlay_dim dims[INLAY_MAX_RANK];
    double scales[INLAY_MAX_RANK];
    inlay_status status = INLAY_OK;

    if (rank == INLAY_RANK_UNKNOWN || rank > INLAY_MAX_RANK)
        return INLAY_OK;
    INLAY_TRY(resize_axes(infer, rank, axes, &n));
    for (uint32_t i = 1; i < 4; i++)
        INLAY_TRY(infer_check_list(infer, i));
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = infer_dim(infer, 0, d);
    if (!old && resize_given(infer, 3)) {
        if (infer_has_in(infer, 2) && infer_rank(infer, 2) == 1 && infer_dim(infer, 2, 0).value > 0)
            return infer_fail(infer, INLAY_INVALID_MODEL, "both scales and sizes are given; omit one of them");
        INLAY_TRY(resize_by_sizes(infer, axes, n, dims));
    } else if (resize_scales(infer, scales_input, scales, &count)) {
        if (count != n)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "scales has %u entries for %u axes", count, n);
        for (uint32_t i = 0; i < n; i++) {
            if (!(scales[i] > 0))
                return infer_fail(infer, INLAY_INVALID_MODEL, "scales[%u] is %g; it must be positive", i, scales[i]);
            dims[axes[i]] = resize_scaled(infer, dims[axes[i]], scales[i]);
        }
    } else {
        for (uint32_t i = 0; i < n; i++)
            dims[axes[i]] = dim_unknown();
    }
    status = infer_set_shape(infer, 0, rank, dims);
done:
    return status;
}

static const op_row onnx_resize_rows[] = {
    { "Resize", 10, 0, "X:T, scales:float -> Y:T; T=@all; mode:s='nearest'", infer_resize },
    { "Resize", 11, 0,
      "X:T1, roi:T2, scales:float, sizes?:int64 -> Y:T1; T1=@all, T2=@float; "
      "coordinate_transformation_mode:s='half_pixel', cubic_coeff_a:f=-0.75, exclude_outside:i=0, "
      "extrapolation_value:f=0, mode:s='nearest', nearest_mode:s='round_prefer_floor'",
      infer_resize },
    { "Resize", 13, 0,
      "X:T1, roi?:T2, scales?:float, sizes?:int64 -> Y:T1; T1=@all_ir4, T2=@float; "
      "coordinate_transformation_mode:s='half_pixel', cubic_coeff_a:f=-0.75, exclude_outside:i=0, "
      "extrapolation_value:f=0, mode:s='nearest', nearest_mode:s='round_prefer_floor'",
      infer_resize },
    { "Resize", 18, 0,
      "X:T1, roi?:T2, scales?:float, sizes?:int64 -> Y:T1; T1=@all_ir4, T2=@float; antialias:i=0, axes:is, "
      "coordinate_transformation_mode:s='half_pixel', cubic_coeff_a:f=-0.75, exclude_outside:i=0, "
      "extrapolation_value:f=0, keep_aspect_ratio_policy:s='stretch', mode:s='nearest', "
      "nearest_mode:s='round_prefer_floor'",
      infer_resize },
    { "Resize", 19, 0,
      "X:T1, roi?:T2, scales?:float, sizes?:int64 -> Y:T1; T1=@all_ir4, T2=@float; antialias:i=0, axes:is, "
      "coordinate_transformation_mode:s='half_pixel', cubic_coeff_a:f=-0.75, exclude_outside:i=0, "
      "extrapolation_value:f=0, keep_aspect_ratio_policy:s='stretch', mode:s='nearest', "
      "nearest_mode:s='round_prefer_floor'",
      infer_resize },

    { "Upsample", 1, 0, "X:T -> Y:T; T=@float|bool|int32|int64; height_scale:f!, mode:s='nearest', width_scale:f!",
      infer_resize },
    { "Upsample", 7, 0, "X:T -> Y:T; T=@all; mode:s='nearest', scales:fs!", infer_resize },
    { "Upsample", 9, 0, "X:T, scales:float -> Y:T; T=@all; mode:s='nearest'", infer_resize },
    { "Upsample", 10, OP_DEPRECATED, "X:T, scales:float -> Y:T; T=@all; mode:s='nearest'", infer_resize },
};

const op_table op_onnx_resize = { "ai.onnx", onnx_resize_rows, OP_COUNT(onnx_resize_rows) };
