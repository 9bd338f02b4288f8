/* The shape of a convolution, and that shape without the kernel taps that lie outside the image. */
#include "choice/kernels.h"
#include "inlay/check.h"

void kernel_conv_shape_of(const cpu_build *build, const cpu_op *op, kernel_conv_shape *window)
{
    const int64_t *input = build->dims[op->in[0]], *output = build->dims[op->out[0]];
    /* inputs: x, scale, zero point, weights */
    const bool linear = op->row->family == &cpu_int8_conv && op->in_count > 4;
    uint32_t spatial = op->window.spatial, first_axis = 2 - spatial;
    library_dims begins, ends;
    INLAY_CHECK(op->window.spatial <= 3);

    *window = (kernel_conv_shape){ .flat = spatial <= 2,
                                   .images = input[0],
                                   .in = input[1],
                                   .out = output[1],
                                   .group = op->window.group,
                                   .share = 1,
                                   .kernel = { 1, 1 },
                                   .stride = { 1, 1 },
                                   .dilation = { 1, 1 } };
    cpu_window_pads(op, input + 2, output + 2, op->window.kernel, begins, ends);
    window->flops = 2 * (double)cpu_count(build, op->out[0]) * (double)build->dims[op->in[linear ? 3 : 1]][1];
    for (uint32_t i = 0; i < spatial; i++) {
        double share = cpu_window_share(op->window.kernel[i], op->window.dilations[i], op->window.strides[i], begins[i],
                                        input[2 + i], output[2 + i]);

        window->share *= share;
        window->flops *= (double)op->window.kernel[i] * share;
        window->padded = window->padded || begins[i] > 0 || ends[i] > 0;
    }
    if (!window->flat)
        return;
    window->height = spatial == 2 ? input[2] : 1;
    window->width = input[1 + spatial];
    window->out_height = spatial == 2 ? output[2] : 1;
    window->out_width = output[1 + spatial];
    for (uint32_t i = 0; i < spatial; i++) {
        window->kernel[first_axis + i] = op->window.kernel[i];
        window->stride[first_axis + i] = op->window.strides[i];
        window->dilation[first_axis + i] = op->window.dilations[i];
        window->begin[first_axis + i] = begins[i];
        window->end[first_axis + i] = ends[i];
    }
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
