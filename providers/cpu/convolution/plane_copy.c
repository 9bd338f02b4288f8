/* Copies of rows with their border, see plane_copy.h. */
#include "convolution/plane_copy.h"
#include <string.h>

static int64_t aligned(int64_t n)
{
    return (n + PL_LANES - 1) / PL_LANES * PL_LANES;
}

static plane_phase find_phase(const plane_copy *c, const kn_window *w, int64_t number)
{
    const int64_t step = c->step, begin = w->begin[1];
    const int64_t first = ((number - begin) % step + step) % step;
    plane_phase f = { .from = first, .to = (begin + first) / step };

    if (begin + first < 0) /* no window begins with columns before this */
        f = (plane_phase){ .from = number - begin, .to = 0 };
    f.n = f.from < w->width ? (w->width - f.from + step - 1) / step : 0;
    f.n = f.n < c->part - f.to ? f.n : c->part - f.to;
    f.to += number * c->part;
    return f;
}

void plane_copy_plan(plane_copy *out, const kn_window *w)
{
    *out = (plane_copy){ .set = KERNEL_BEST(planes), .step = w->stride[1] };
    out->part = aligned(w->out_width) + aligned((w->kernel[1] - 1) * w->dilation[1] / out->step + 1);
    out->row = out->part * out->step;
    out->row += out->row / PL_LANES % 2 == 0 ? PL_LANES : 0; /* rows do not share a few sets of the cache */
    for (int64_t i = 0; i < out->step && i < PL_LANES; i++)
        out->phases[i] = find_phase(out, w, i);
}

void plane_copy_row(const plane_copy *c, const float *x, float *to)
{
    if (x == NULL) {
        memset(to, 0, (size_t)c->row * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < c->step; i++)
        if (c->phases[i].n > 0)
            c->set->every(x + c->phases[i].from, c->step, to + c->phases[i].to, c->phases[i].n);
}
