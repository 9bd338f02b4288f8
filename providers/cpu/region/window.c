/* Attributes of kernel windows, for convolutions and pooling. */
#include "cpu/region/window.h"
#include "common/window.h"

bool cpu_parse_window(const kit_node *node, uint32_t spatial, cpu_op *op, kit_refusal *why)
{
    const char *pad = kit_attr_string(node->info, "auto_pad", "NOTSET");

    op->window.spatial = spatial;
    op->window.auto_pad = strcmp(pad, "SAME_UPPER") == 0   ? CPU_PAD_SAME_UPPER
                          : strcmp(pad, "SAME_LOWER") == 0 ? CPU_PAD_SAME_LOWER
                          : strcmp(pad, "VALID") == 0      ? CPU_PAD_VALID
                                                           : CPU_PAD_EXPLICIT;
    return window_ints(node, "strides", spatial, 1, 1, op->window.strides, why) &&
           window_ints(node, "dilations", spatial, 1, 1, op->window.dilations, why) &&
           window_ints(node, "output_padding", spatial, 0, 0, op->window.output_padding, why) &&
           window_ints(node, "pads", 2 * spatial, 0, 0, op->window.pads, why);
}

void cpu_window_pads(const cpu_op *op, const int64_t *in, const int64_t *out, const int64_t *kernel, int64_t *begins,
                     int64_t *ends)
{
    for (uint32_t i = 0; i < op->window.spatial; i++) {
        int64_t total = (out[i] - 1) * op->window.strides[i] + (kernel[i] - 1) * op->window.dilations[i] + 1 - in[i];

        INLAY_CHECK(op->window.strides[i] > 0 && op->window.dilations[i] > 0);

        begins[i] = op->window.auto_pad == CPU_PAD_EXPLICIT ? op->window.pads[i] : 0;
        ends[i] = op->window.auto_pad == CPU_PAD_EXPLICIT ? op->window.pads[op->window.spatial + i] : 0;
        if (op->window.auto_pad == CPU_PAD_SAME_UPPER || op->window.auto_pad == CPU_PAD_SAME_LOWER) {
            total = total > 0 ? total : 0;
            begins[i] = (total + (op->window.auto_pad == CPU_PAD_SAME_LOWER)) / 2;
            ends[i] = total - begins[i];
        }
        if (op->window.ceil_mode) { /* the last window may reach past the padding */
            int64_t needed = (out[i] - 1) * op->window.strides[i] + (kernel[i] - 1) * op->window.dilations[i] + 1 -
                             in[i] - begins[i];

            ends[i] = needed > ends[i] ? needed : ends[i];
        }
    }
}

double cpu_window_share(int64_t kernel, int64_t dilation, int64_t stride, int64_t begin, int64_t in, int64_t out)
{
    /* Skips taps that are in the padding for every output; the kernel may be far larger than the image. */
    const int64_t before = begin - (out - 1) * stride, past = (in - 1 + begin) / dilation + 1;
    double inside = 0;

    for (int64_t tap = before > 0 ? before / dilation : 0; tap < kernel && tap < past; tap++) {
        int64_t shift = tap * dilation - begin; /* output o reads input o * stride + shift */
        int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
        int64_t last = shift < in ? (in - 1 - shift) / stride : -1;

        last = last < out - 1 ? last : out - 1;
        inside += last >= first ? (double)(last - first + 1) : 0;
    }
    return out > 0 ? inside / ((double)out * (double)kernel) : 1;
}

void cpu_window_weights(const cpu_build *build, uint32_t value, tensor_layout *out)
{
    const int64_t *source = build->dims[value];
    uint32_t rank = build->ranks[value], axes = 0;
    int64_t dims[CPU_MAX_RANK];

    if (build->op->window.group > 1)
        dims[axes++] = build->op->window.group;
    dims[axes++] = source[0] / build->op->window.group;
    for (uint32_t d = 1; d < rank; d++)
        dims[axes++] = source[d];
    layout_plain(out, axes, dims);
}
