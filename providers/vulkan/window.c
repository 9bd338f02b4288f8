#include "window.h"

static int64_t attr_at(const inlay_node_info *node, const char *name, uint32_t i, int64_t otherwise)
{
    uint32_t count;
    const int64_t *list = kit_attr_ints(node, name, &count);

    return list != NULL && i < count ? list[i] : otherwise;
}

static void read_sizes(const inlay_node_info *node, const vr_tensor *x, const vr_tensor *y, const int64_t *window,
                       vr_window *v)
{
    const uint32_t spatial = x->rank - 2, first = 3 - spatial;

    *v = (vr_window){ .plain = true };
    for (uint32_t d = 0; d < 3; d++) {
        const bool here = d >= first;
        const uint32_t i = here ? d - first : 0;

        v->out[d] = here ? y->dims[i + 2] : 1;
        v->in[d] = here ? x->dims[i + 2] : 1;
        v->window[d] = !here ? 1 : window != NULL ? window[i] : attr_at(node, "kernel_shape", i, 1);
        v->stride[d] = here ? attr_at(node, "strides", i, 1) : 1;
        v->dilation[d] = here ? attr_at(node, "dilations", i, 1) : 1;
        v->begin[d] = here ? attr_at(node, "pads", i, 0) : 0;
        v->end[d] = here ? attr_at(node, "pads", i + spatial, 0) : 0;
    }
}

static bool is_plausible(const vr_window *v)
{
    for (uint32_t d = 0; d < 3; d++)
        if (v->window[d] < 1 || v->stride[d] < 1 || v->dilation[d] < 1 || v->out[d] < 0)
            return false;
    return true;
}

/* Padding that auto_pad asks for: all of it at the end, but for half. */
static void share_padding(vr_window *v, uint32_t d, int64_t total, bool lower)
{
    total = total > 0 ? total : 0;
    v->begin[d] = lower ? total - total / 2 : total / 2;
    v->end[d] = total - v->begin[d];
}

bool vr_window_read(const inlay_node_info *node, const vr_tensor *x, const vr_tensor *y, const int64_t *window,
                    vr_window *v)
{
    const char *pad = kit_attr_string(node, "auto_pad", "NOTSET");

    read_sizes(node, x, y, window, v);
    if (!is_plausible(v))
        return false;
    for (uint32_t d = 0; d < 3; d++) {
        const int64_t span = (v->window[d] - 1) * v->dilation[d] + 1;

        if (strncmp(pad, "SAME", 4) == 0)
            share_padding(v, d, (v->out[d] - 1) * v->stride[d] + span - v->in[d], strcmp(pad, "SAME_LOWER") == 0);
        else if (strcmp(pad, "VALID") == 0)
            v->begin[d] = v->end[d] = 0;
        v->plain &= v->window[d] == 1 && v->stride[d] == 1 && v->begin[d] == 0 && v->out[d] == v->in[d];
    }
    return true;
}

bool vr_window_read_transposed(const inlay_node_info *node, const vr_tensor *x, const vr_tensor *y,
                               const int64_t *window, vr_window *v)
{
    const char *pad = kit_attr_string(node, "auto_pad", "NOTSET");
    const uint32_t first = 5 - x->rank;
    uint32_t count;
    const bool has_shape = kit_attr_ints(node, "output_shape", &count) != NULL && count > 0;

    read_sizes(node, x, y, window, v);
    if (!is_plausible(v))
        return false;
    for (uint32_t d = first; d < 3; d++) {
        const int64_t span = (v->window[d] - 1) * v->dilation[d] + 1;
        const int64_t total =
            v->stride[d] * (v->in[d] - 1) + attr_at(node, "output_padding", d - first, 0) + span - v->out[d];

        if (has_shape || strncmp(pad, "SAME", 4) == 0) /* ONNX: the larger half at the front, but for SAME_UPPER */
            share_padding(v, d, total, strcmp(pad, "SAME_UPPER") != 0);
        else if (strcmp(pad, "VALID") == 0)
            v->begin[d] = 0;
    }
    return true;
}

void vr_window_words(const vr_window *v, uint32_t out[18])
{
    const int64_t *const lists[] = { v->out, v->in, v->window, v->stride, v->dilation, v->begin };

    for (uint32_t l = 0; l < 6; l++)
        for (uint32_t d = 0; d < 3; d++)
            out[3 * l + d] = (uint32_t)lists[l][d];
}
