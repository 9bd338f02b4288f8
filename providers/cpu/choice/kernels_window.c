/* The shape of a convolution, and that shape without the kernel taps that lie outside the image. */
#include "cpu/choice/kernels.h"
#include "cpu/region/window.h"
#include "inlay/check.h"

/* Single pixels of a volume have no neighbours: they form an image whose rows are those of all its slices. */
static void take_rows_of_slices(const cpu_op *op, const int64_t *in, const int64_t *out, kernel_conv_shape *window)
{
    for (uint32_t i = 0; i < 3; i++) {
        if (op->window.kernel[i] != 1 || window->padded)
            return;
        window->spread = window->spread || op->window.strides[i] > 1;
    }
    window->flat = true;
    window->height = in[0] * in[1];
    window->out_height = out[0] * out[1];
    window->width = in[2];
    window->out_width = out[2];
}

void kernel_conv_shape_at(const cpu_op *op, const int64_t *input, const int64_t *output, int64_t depth,
                          kernel_conv_shape *window)
{
    const int64_t *in = input + 2, *out = output + 2;
    const uint32_t spatial = op->window.spatial, first_axis = 2 - spatial;
    tensor_dims begins, ends;
    INLAY_CHECK(spatial >= 1 && spatial <= 3);

    *window = (kernel_conv_shape){ .flat = spatial <= 2,
                                   .images = input[0],
                                   .in = input[1],
                                   .out = output[1],
                                   .group = op->window.group,
                                   .share = 1,
                                   .kernel = { 1, 1 },
                                   .stride = { 1, 1 },
                                   .dilation = { 1, 1 } };
    cpu_window_pads(op, in, out, op->window.kernel, begins, ends);
    window->flops = 2 * (double)output[0] * (double)output[1] * (double)depth;
    for (uint32_t i = 0; i < spatial; i++) {
        double share = cpu_window_share(op->window.kernel[i], op->window.dilations[i], op->window.strides[i], begins[i],
                                        in[i], out[i]);

        window->share *= share;
        window->flops *= (double)out[i] * (double)op->window.kernel[i] * share;
        window->padded = window->padded || begins[i] > 0 || ends[i] > 0;
    }
    if (spatial == 3)
        take_rows_of_slices(op, in, out, window);
    if (spatial == 3)
        return;
    window->height = spatial == 2 ? in[0] : 1;
    window->width = in[spatial - 1];
    window->out_height = spatial == 2 ? out[0] : 1;
    window->out_width = out[spatial - 1];
    for (uint32_t i = 0; i < spatial; i++) {
        window->kernel[first_axis + i] = op->window.kernel[i];
        window->stride[first_axis + i] = op->window.strides[i];
        window->dilation[first_axis + i] = op->window.dilations[i];
        window->begin[first_axis + i] = begins[i];
        window->end[first_axis + i] = ends[i];
    }
}

void kernel_conv_shape_of(const cpu_build *build, const cpu_op *op, kernel_conv_shape *window)
{
    /* inputs: x, scale, zero point, weights */
    const bool linear = op->row->family->kind == CPU_FAMILY_INT8_CONV && op->in_count > 4;

    kernel_conv_shape_at(op, build->dims[op->in[0]], build->dims[op->out[0]], build->dims[op->in[linear ? 3 : 1]][1],
                         window);
}

/* Depthwise convolutions read single pixels of an image at a stride themselves (lower_planes.c). */
static bool gathers(const kernel_conv_shape *window)
{
    const bool strided = window->stride[0] > 1 || window->stride[1] > 1,
               depthwise = window->group > 1 && window->in == window->group && window->out == window->group;

    return window->flat && !window->padded && window->kernel[0] * window->kernel[1] == 1 && window->flops > 0 &&
           (window->spread || (strided && !depthwise));
}

bool kernel_gather_pixels(kernel_conv_shape *window, bool row_major)
{
    if ((!row_major && !window->spread) || !gathers(window))
        return false;
    window->spread = false;
    window->height = window->out_height;
    window->width = window->out_width;
    window->stride[0] = window->stride[1] = 1;
    return true;
}

void kernel_filters(const kernel_conv_shape *window, tensor_layout *out)
{
    const tensor_dims dims = { window->out, window->in / window->group, window->kernel[0] * window->kernel[1] };

    layout_plain(out, 3, dims);
}

/* True if the tap lies inside the image for at least one output pixel. */
static bool tap_is_used(const kernel_conv_shape *window, int axis, int64_t tap)
{
    const int64_t size = axis == 0 ? window->height : window->width,
                  outs = axis == 0 ? window->out_height : window->out_width;
    const int64_t step = window->stride[axis], at = tap * window->dilation[axis] - window->begin[axis];
    /* the first output pixel whose tap is not before the image */
    const int64_t pixel = at >= 0 ? 0 : (step - 1 - at) / step;

    return pixel < outs && at + pixel * step < size;
}

kernel_conv_shape kernel_trim_conv(const kernel_conv_shape *window, int64_t *out_first)
{
    int64_t first[2] = { 0, 0 }, end[2] = { window->kernel[0], window->kernel[1] };
    kernel_conv_shape inner = *window;

    *out_first = 0;
    if (!window->flat)
        return inner;
    INLAY_CHECK(window->kernel[0] > 0 && window->kernel[1] > 0);
    for (int i = 0; i < 2; i++) {
        while (first[i] + 1 < end[i] && !tap_is_used(window, i, first[i]))
            first[i]++;
        while (first[i] + 1 < end[i] && !tap_is_used(window, i, end[i] - 1))
            end[i]--;
        if (i == 1 && inner.kernel[0] > 1) { /* the remaining taps would not be contiguous */
            first[1] = 0;
            end[1] = window->kernel[1];
        }
        inner.kernel[i] = end[i] - first[i];
        inner.begin[i] -= first[i] * window->dilation[i];
        inner.end[i] -= (window->kernel[i] - end[i]) * window->dilation[i];
    }
    inner.share *= (double)(window->kernel[0] * window->kernel[1]) / (double)(inner.kernel[0] * inner.kernel[1]);
    inner.padded = inner.begin[0] != 0 || inner.begin[1] != 0 || inner.end[0] != 0 || inner.end[1] != 0;
    *out_first = first[0] * window->kernel[1] + first[1];
    return inner;
}

/* True if C of Gemm is a constant bias with one element for each column. */
static bool is_row(const cpu_build *build, uint32_t value, int64_t columns)
{
    uint32_t rank = build->ranks[value];

    return build->compiled->values[value].constant != INLAY_NONE && rank >= 1 &&
           build->dims[value][rank - 1] == columns && cpu_count(build, value) == columns;
}

bool cpu_is_packed(const cpu_build *build, const cpu_op *op)
{
    uint32_t weights = op->in[1];
    bool row = op->in_count < 3 || op->in[2] == INLAY_NONE ||
               is_row(build, op->in[2], build->dims[op->out[0]][build->ranks[op->out[0]] - 1]);

    return build->compiled->values[weights].constant != INLAY_NONE && build->ranks[weights] == 2 &&
           !op->product.trans_a && row && cpu_count(build, op->in[0]) > 0;
}

void kernel_gemm_shape_of(const cpu_build *build, kernel_gemm_shape *product)
{
    const cpu_op *op = build->op;
    const uint32_t output = op->out[0], rank = build->ranks[output], a_rank = build->ranks[op->in[0]];
    const int64_t *a_dims = build->dims[op->in[0]], *dims = build->dims[output];
    const cpu_place *weights = &build->places[op->in[1]];

    *product = (kernel_gemm_shape){
        .packed = cpu_is_packed(build, op), .transposed = op->product.trans_b, .rank = rank, .batch = 1, .m = 1, .n = 1
    };
    product->k = a_dims[a_rank - (op->product.trans_a ? 2 : 1)];
    if (rank >= 2) {
        product->m = dims[rank - 2];
        product->n = dims[rank - 1];
    }
    for (uint32_t d = 0; d + 2 < rank; d++)
        product->batch *= dims[d];
    if (product->packed) {
        product->m *= product->batch;
        product->batch = 1;
    }
    if (weights->buffer != INLAY_NONE && weights->layout.rank >= 2)
        product->transposed = product->transposed != (weights->layout.strides[weights->layout.rank - 1] != 1);
}

bool kernel_weights_are_low_bit(const cpu_build *build)
{
    const uint32_t constant = build->op->in_count > 1 ? build->compiled->values[build->op->in[1]].constant : INLAY_NONE;

    return constant != INLAY_NONE && build->compiled->constants[constant].kind == CONSTANT_LOW_BIT;
}

/* Deferred channel scales and deferred producers are supported by tiled kernels only. */
bool kernel_input_is_ready(const cpu_build *build)
{
    return build->scales[build->op->in[0]] == INLAY_NONE && build->ahead[build->op->in[0]] == NULL;
}
