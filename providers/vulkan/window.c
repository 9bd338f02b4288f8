/* Windows of convolutions and pools: attributes, and what the shapes make of them. */
#include "region.h"

static int64_t attr_at(const inlay_node_info *node, const char *name, uint32_t i, int64_t otherwise)
{
    uint32_t count;
    const int64_t *list = kit_attr_ints(node, name, &count);

    return list != NULL && i < count ? list[i] : otherwise;
}

/* Dimension d of the three, i of the image's. false: no window is like that. */
static bool read_sizes(const inlay_node_info *node, const vr_tensor *x, const vr_tensor *y, const vr_tensor *weights,
                       uint32_t d, uint32_t i, vr_window *v)
{
    v->out[d] = y->dims[i + 2];
    v->in[d] = x->dims[i + 2];
    v->window[d] = weights != NULL ? weights->dims[i + 2] : attr_at(node, "kernel_shape", i, 1);
    v->stride[d] = attr_at(node, "strides", i, 1);
    v->dilation[d] = attr_at(node, "dilations", i, 1);
    v->begin[d] = attr_at(node, "pads", i, 0);
    v->end[d] = attr_at(node, "pads", i + x->rank - 2, 0);
    return v->window[d] >= 1 && v->stride[d] >= 1 && v->dilation[d] >= 1;
}

/* Padding in all, where auto_pad asks for it: half of it at the front, and what is odd too where `more` says so. */
static void share_padding(vr_window *v, uint32_t d, int64_t total, bool more)
{
    total = total > 0 ? total : 0;
    v->begin[d] = more ? total - total / 2 : total / 2;
    v->end[d] = total - v->begin[d];
}

bool vr_window_read(vr_build *b, const vr_op *op, const vr_tensor *weights, bool transposed, vr_window *v)
{
    const inlay_node_info *node = &op->info;
    const vr_tensor *x = vr_in(b, op, 0), *y = vr_out(b, op, 0);
    const char *pad = kit_attr_string(node, "auto_pad", "NOTSET");
    const bool same = strncmp(pad, "SAME", 4) == 0, valid = strcmp(pad, "VALID") == 0;
    const uint32_t first = 5 - x->rank;
    uint32_t count;
    const bool has_shape = transposed && kit_attr_ints(node, "output_shape", &count) != NULL && count > 0;
    bool fits = weights == NULL || weights->rank == x->rank;

    *v = (vr_window){ { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, .plain = true };
    for (uint32_t d = first; d < 3 && fits; d++) {
        int64_t span, total;

        fits = read_sizes(node, x, y, weights, d, d - first, v);
        span = (v->window[d] - 1) * v->dilation[d] + 1;
        if (transposed)
            total = v->stride[d] * (v->in[d] - 1) + attr_at(node, "output_padding", d - first, 0) + span - v->out[d];
        else
            total = (v->out[d] - 1) * v->stride[d] + span - v->in[d];
        if (same || has_shape) /* ONNX, transposed: the larger half at the front, but for SAME_UPPER */
            share_padding(v, d, total, transposed ? strcmp(pad, "SAME_UPPER") != 0 : strcmp(pad, "SAME_LOWER") == 0);
        else if (valid)
            v->begin[d] = v->end[d] = 0;
        v->plain &= v->window[d] == 1 && v->stride[d] == 1 && v->begin[d] == 0 && v->out[d] == v->in[d];
    }
    v->taps = v->window[0] * v->window[1] * v->window[2];
    v->pixels = v->out[0] * v->out[1] * v->out[2];
    if (!fits)
        (void)vr_decline(b, op, "its window does not fit the input");
    return fits;
}

void vr_put_window(const vr_build *b, const vr_dispatch *d, uint32_t first, const vr_window *v)
{
    const int64_t *const lists[] = { v->out, v->in, v->window, v->stride, v->dilation, v->begin };

    for (uint32_t l = 0; l < KIT_COUNT(lists); l++)
        vr_put(b, d, first + 3 * l, 3, lists[l]);
}
