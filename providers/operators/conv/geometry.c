/* geometry.c - attributes and window geometry of the convolutions (ONNX Conv-1, 11, 22). */
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "operators/conv.h"

inlay_status conv_read_attrs(const kit_node *node, conv_attrs *out, inlay_diag *diag)
{
    static const char *const names[] = { "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID" };
    const char *pad = kit_attr_string(node->info, "auto_pad", "NOTSET");
    inlay_status status = INLAY_OK;

    *out = (conv_attrs){ .auto_pad = KIT_COUNT(names) };
    for (uint32_t i = 0; i < KIT_COUNT(names); i++)
        if (strcmp(pad, names[i]) == 0)
            out->auto_pad = i;
    if (out->auto_pad == KIT_COUNT(names))
        return inlay_fail(diag, INLAY_INVALID_MODEL, "auto_pad is '%s'; use NOTSET, SAME_UPPER, SAME_LOWER or VALID",
                          pad);
    out->group = kit_attr_int(node->info, "group", 1);
    if (out->group < 1)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "group is %lld; it must be at least 1", (long long)out->group);
    INLAY_TRY(arg_ints(node, "kernel_shape", out->kernel, CONV_MAX_SPATIAL, &out->kernel_count, diag));
    INLAY_TRY(arg_ints(node, "strides", out->strides, CONV_MAX_SPATIAL, &out->strides_count, diag));
    INLAY_TRY(arg_ints(node, "dilations", out->dilations, CONV_MAX_SPATIAL, &out->dilations_count, diag));
    INLAY_TRY(arg_ints(node, "pads", out->pads, 2 * CONV_MAX_SPATIAL, &out->pads_count, diag));
done:
    return status;
}

bool conv_supports(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *input = kit_input(node, 0);

    if (input != NULL && input->rank != INLAY_RANK_UNKNOWN && (input->rank < 3 || input->rank > 2 + CONV_MAX_SPATIAL))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "give the input 1 to 3 spatial dims",
                          "the input has rank %u; convolutions take 3 to 5", input->rank);
    return true;
}

/* Computes the padding before the first element and the number of outputs along one dim. */
static inlay_status resolve_dim(const conv_attrs *attrs, uint32_t spatial, uint32_t d, int64_t in, int64_t kernel,
                                int64_t stride, int64_t dilation, int64_t *out_begin, int64_t *out_count,
                                inlay_diag *diag)
{
    int64_t window, padded, begin = 0, end = 0, limit = INT64_C(1) << 40;

    if (kernel < 1 || stride < 1 || dilation < 1 || kernel > limit || stride > limit || dilation > limit ||
        in > limit || __builtin_mul_overflow(kernel - 1, dilation, &window))
        return inlay_fail(diag, INLAY_INVALID_MODEL, "window %lld, stride %lld, dilation %lld: each must be at least 1",
                          (long long)kernel, (long long)stride, (long long)dilation);
    window += 1;
    if (attrs->auto_pad == CONV_PAD_EXPLICIT && attrs->pads_count >= 0) {
        begin = attrs->pads[d];
        end = attrs->pads[d + spatial];
        if (begin < -limit || begin > limit || end < -limit || end > limit)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "pads %lld and %lld: each must be within -2^40 to 2^40",
                              (long long)begin, (long long)end);
    } else if (attrs->auto_pad == CONV_PAD_SAME_UPPER || attrs->auto_pad == CONV_PAD_SAME_LOWER) {
        int64_t count = (in + stride - 1) / stride, total = in > 0 ? (count - 1) * stride + window - in : 0;
        total = total > 0 ? total : 0;
        begin = attrs->auto_pad == CONV_PAD_SAME_UPPER ? total / 2 : total - total / 2;
        end = total - begin;
    }
    padded = in + begin + end;
    *out_begin = begin;
    *out_count = padded >= window ? (padded - window) / stride + 1 : 0;
    if (padded < window && in > 0)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "a window of %lld does not fit a padded input of %lld",
                          (long long)window, (long long)padded);
    return INLAY_OK;
}

static inlay_status check_counts(const conv_attrs *attrs, uint32_t spatial, inlay_diag *diag)
{
    const struct {
        const char *name;
        int32_t count;
        uint32_t want;
    } rows[] = {
        { "kernel_shape", attrs->kernel_count, spatial },
        { "strides", attrs->strides_count, spatial },
        { "dilations", attrs->dilations_count, spatial },
        { "pads", attrs->pads_count, 2 * spatial },
    };

    for (uint32_t i = 0; i < KIT_COUNT(rows); i++)
        if (rows[i].count >= 0 && (uint32_t)rows[i].count != rows[i].want)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "attribute %s has %d values; %u spatial dims take %u",
                              rows[i].name, rows[i].count, spatial, rows[i].want);
    return INLAY_OK;
}

inlay_status conv_resolve(const conv_attrs *attrs, const kit_tensor *input, const kit_tensor *weights,
                          conv_geometry *out, inlay_diag *diag)
{
    uint32_t spatial = input->rank - 2;
    inlay_status status;
    conv_geometry *geometry = out;

    if (input->rank < 3 || input->rank > 2 + CONV_MAX_SPATIAL || weights->rank != input->rank)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "the input has rank %u and the weights %u; a convolution takes two of rank 3 to 5",
                          input->rank, weights->rank);
    INLAY_TRY(check_counts(attrs, spatial, diag));
    INLAY_CHECK(attrs->group > 0);
    *geometry = (conv_geometry){ .images = input->dims[0],
                                 .group = attrs->group,
                                 .channels = input->dims[1],
                                 .filters = weights->dims[0],
                                 .taps = 1,
                                 .positions = 1,
                                 .in_positions = 1 };
    if (geometry->channels % geometry->group != 0 || geometry->filters % geometry->group != 0 ||
        weights->dims[1] != geometry->channels / geometry->group)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "%lld channels, %lld filters over %lld channels and %lld groups do not match",
                          (long long)geometry->channels, (long long)geometry->filters, (long long)weights->dims[1],
                          (long long)geometry->group);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t missing = 3 - spatial, d = i - missing;
        geometry->in[i] = geometry->out[i] = geometry->kernel[i] = geometry->stride[i] = geometry->dilation[i] = 1;
        if (i < missing)
            continue;
        geometry->in[i] = input->dims[2 + d];
        geometry->kernel[i] = weights->dims[2 + d];
        if (attrs->kernel_count >= 0 && attrs->kernel[d] != geometry->kernel[i])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "kernel_shape[%u] is %lld but the weights have %lld", d,
                              (long long)attrs->kernel[d], (long long)geometry->kernel[i]);
        if (attrs->strides_count >= 0)
            geometry->stride[i] = attrs->strides[d];
        if (attrs->dilations_count >= 0)
            geometry->dilation[i] = attrs->dilations[d];
        INLAY_TRY(resolve_dim(attrs, spatial, d, geometry->in[i], geometry->kernel[i], geometry->stride[i],
                              geometry->dilation[i], &geometry->begin[i], &geometry->out[i], diag));
        geometry->taps *= geometry->kernel[i];
        geometry->in_positions *= geometry->in[i];
        if (__builtin_mul_overflow(geometry->positions, geometry->out[i], &geometry->positions))
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the output has more elements than can be counted");
    }
done:
    return status;
}

inlay_status conv_check_output(const conv_geometry *geometry, const kit_tensor *output, inlay_diag *diag)
{
    int64_t dims[5] = { geometry->images, geometry->filters, geometry->out[0], geometry->out[1], geometry->out[2] };
    uint32_t skip = 5 - (output->rank < 3 ? 3 : output->rank > 5 ? 5 : output->rank);

    for (uint32_t i = 2; i < 5 - skip; i++)
        dims[i] = dims[i + skip];
    return arg_expect_dims(diag, output, 5 - skip, dims);
}

void conv_cost(const conv_geometry *geometry, const kit_plan *shapes, inlay_cost *cost)
{
    cost->flops = 2.0 * (double)geometry->images * (double)geometry->filters * (double)geometry->positions *
                  (double)(geometry->channels / geometry->group) * (double)geometry->taps;
    for (uint32_t i = 0; i < shapes->in_count; i++)
        if (shapes->in[i].dtype != INLAY_UNDEFINED && shapes->in[i].count > 0)
            cost->bytes_read += kit_bytes(shapes->in[i].dtype, shapes->in[i].count);
    cost->bytes_written = kit_bytes(shapes->out[0].dtype, geometry->images * geometry->filters * geometry->positions);
}
