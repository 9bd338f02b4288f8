/* Reads the filter windows of convolutions and pools from attributes and shapes. */
#include "inlay/check.h"
#include "vulkan/region.h"

static int64_t attr_at(const inlay_node_info *node, const char *name, uint32_t i, int64_t otherwise)
{
    uint32_t count;
    const int64_t *list = kit_attr_ints(node, name, &count);

    return list != NULL && i < count ? list[i] : otherwise;
}

/* Reads dimension d of the three, which is spatial dimension i of the image. false: the sizes are invalid. */
static bool read_sizes(const inlay_node_info *node, const vulkan_tensor *input, const vulkan_tensor *output,
                       const vulkan_tensor *weights, uint32_t d, uint32_t i, vulkan_window *window)
{
    window->out[d] = output->dims[i + 2];
    window->in[d] = input->dims[i + 2];
    window->size[d] = weights != NULL ? weights->dims[i + 2] : attr_at(node, "kernel_shape", i, 1);
    window->stride[d] = attr_at(node, "strides", i, 1);
    window->dilation[d] = attr_at(node, "dilations", i, 1);
    window->begin[d] = attr_at(node, "pads", i, 0);
    window->end[d] = attr_at(node, "pads", i + input->rank - 2, 0);
    return window->size[d] >= 1 && window->stride[d] >= 1 && window->dilation[d] >= 1;
}

/* Splits the total padding of auto_pad or output_shape into halves. more: the larger half of an odd total is at the
 * front. */
static void split_padding(vulkan_window *window, uint32_t d, int64_t total, bool more)
{
    total = total > 0 ? total : 0;
    window->begin[d] = more ? total - total / 2 : total / 2;
    window->end[d] = total - window->begin[d];
}

bool vulkan_window_read(vulkan_build *build, const vulkan_op *op, const vulkan_tensor *weights, bool transposed,
                        vulkan_window *window)
{
    const inlay_node_info *node = &op->info;
    const vulkan_tensor *input = vulkan_input(build, op, 0), *output = vulkan_output(build, op, 0);
    const char *pad = kit_attr_string(node, "auto_pad", "NOTSET");
    const bool same = strncmp(pad, "SAME", 4) == 0, valid = strcmp(pad, "VALID") == 0;
    const uint32_t first = 5 - input->rank;
    uint32_t count;
    const bool has_shape = transposed && kit_attr_ints(node, "output_shape", &count) != NULL && count > 0;
    bool fits = weights == NULL || weights->rank == input->rank;

    INLAY_CHECK(input->rank >= 3 && input->rank <= 5);
    *window = (vulkan_window){ { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, .is_pointwise = true };
    for (uint32_t d = first; d < 3 && fits; d++) {
        int64_t span, total;

        fits = read_sizes(node, input, output, weights, d, d - first, window);
        span = (window->size[d] - 1) * window->dilation[d] + 1;
        if (transposed)
            total = window->stride[d] * (window->in[d] - 1) + attr_at(node, "output_padding", d - first, 0) + span -
                    window->out[d];
        else
            total = (window->out[d] - 1) * window->stride[d] + span - window->in[d];
        if (same || has_shape) /* ONNX ConvTranspose: the larger half at the front, except for SAME_UPPER */
            split_padding(window, d, total,
                          transposed ? strcmp(pad, "SAME_UPPER") != 0 : strcmp(pad, "SAME_LOWER") == 0);
        else if (valid)
            window->begin[d] = window->end[d] = 0;
        window->is_pointwise &=
            window->size[d] == 1 && window->stride[d] == 1 && window->begin[d] == 0 && window->out[d] == window->in[d];
    }
    window->taps = window->size[0] * window->size[1] * window->size[2];
    window->pixels = window->out[0] * window->out[1] * window->out[2];
    if (!fits)
        (void)vulkan_decline(build, op,
                             "a window, stride or dilation is not positive, or does not match the input's rank of %u",
                             input->rank);
    else if (input->count == 0 && output->count > 0) /* shaders load an element where a window is outside, too */
        fits =
            vulkan_decline(build, op, "its image has no elements, so its windows are in the padding alone") == INLAY_OK;
    return fits;
}

void vulkan_set_window_words(const vulkan_build *build, const vulkan_dispatch *dispatch, uint32_t first,
                             const vulkan_window *window)
{
    const int64_t *const lists[] = { window->out,    window->in,       window->size,
                                     window->stride, window->dilation, window->begin };

    for (uint32_t l = 0; l < KIT_COUNT(lists); l++)
        vulkan_set_words(build, dispatch, first + 3 * l, 3, lists[l]);
}
