/* The convolution in hand: its sizes, and its window without what lies outside the image. */
#include "choice/kernels.h"

void kn_measure(const rg_build *b, const rg_op *op, kn_window *g)
{
    const int64_t *x = b->dims[op->in[0]], *y = b->dims[op->out[0]];
    const bool linear = op->row->family == &rg_int8_conv && op->in_count > 4; /* scale and zero point of x first */
    uint32_t n = op->window.spatial, o = 2 - n;
    dn_dims begins, ends;

    *g = (kn_window){ .flat = n <= 2,
                      .images = x[0],
                      .in = x[1],
                      .out = y[1],
                      .group = op->window.group,
                      .share = 1,
                      .kernel = { 1, 1 },
                      .stride = { 1, 1 },
                      .dilation = { 1, 1 } };
    rg_window_pads(op, x + 2, y + 2, op->window.kernel, begins, ends);
    g->flops = 2 * (double)rg_count(b, op->out[0]) * (double)b->dims[op->in[linear ? 3 : 1]][1];
    for (uint32_t i = 0; i < n; i++) {
        double share = rg_window_share(op->window.kernel[i], op->window.dilations[i], op->window.strides[i], begins[i],
                                       x[2 + i], y[2 + i]);

        g->share *= share;
        g->flops *= (double)op->window.kernel[i] * share;
        g->padded = g->padded || begins[i] > 0 || ends[i] > 0;
    }
    if (!g->flat)
        return;
    g->height = n == 2 ? x[2] : 1;
    g->width = x[1 + n];
    g->out_height = n == 2 ? y[2] : 1;
    g->out_width = y[1 + n];
    for (uint32_t i = 0; i < n; i++) {
        g->kernel[o + i] = op->window.kernel[i];
        g->stride[o + i] = op->window.strides[i];
        g->dilation[o + i] = op->window.dilations[i];
        g->begin[o + i] = begins[i];
        g->end[o + i] = ends[i];
    }
}

/* Does the tap lie in the image for some pixel? */
static bool meets(const kn_window *w, int axis, int64_t tap)
{
    const int64_t size = axis == 0 ? w->height : w->width, outs = axis == 0 ? w->out_height : w->out_width;
    const int64_t step = w->stride[axis], at = tap * w->dilation[axis] - w->begin[axis];
    const int64_t pixel = at >= 0 ? 0 : (step - 1 - at) / step; /* the first for which it is not before the image */

    return pixel < outs && at + pixel * step < size;
}

kn_window kn_trimmed(const kn_window *w, int64_t *out_first)
{
    int64_t first[2] = { 0, 0 }, end[2] = { w->kernel[0], w->kernel[1] };
    kn_window inner = *w;

    *out_first = 0;
    if (!w->flat)
        return inner;
    for (int i = 0; i < 2; i++) {
        while (first[i] + 1 < end[i] && !meets(w, i, first[i]))
            first[i]++;
        while (first[i] + 1 < end[i] && !meets(w, i, end[i] - 1))
            end[i]--;
        if (i == 1 && inner.kernel[0] > 1) { /* they would not follow one another */
            first[1] = 0;
            end[1] = w->kernel[1];
        }
        inner.kernel[i] = end[i] - first[i];
        inner.begin[i] -= first[i] * w->dilation[i];
        inner.end[i] -= (w->kernel[i] - end[i]) * w->dilation[i];
    }
    inner.share *= (double)(w->kernel[0] * w->kernel[1]) / (double)(inner.kernel[0] * inner.kernel[1]);
    inner.padded = inner.begin[0] != 0 || inner.begin[1] != 0 || inner.end[0] != 0 || inner.end[1] != 0;
    *out_first = first[0] * w->kernel[1] + first[1];
    return inner;
}
