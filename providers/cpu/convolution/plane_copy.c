/* Copies of image rows with their border, see plane_copy.h. */
#include "cpu/convolution/plane_copy.h"
#include "inlay/check.h"
#include "simd/move_set.h"
#include <string.h>

static int64_t aligned(int64_t count)
{
    return (count + PLANES_LANES - 1) / PLANES_LANES * PLANES_LANES;
}

static plane_phase find_phase(const plane_copy *copy, const kernel_conv_shape *window, int64_t number)
{
    const int64_t step = copy->step, begin = window->begin[1];
    const int64_t first = ((number - begin) % step + step) % step;
    plane_phase phase = { .from = first, .to = (begin + first) / step };

    if (begin + first < 0) /* no kernel window covers the columns before this one */
        phase = (plane_phase){ .from = number - begin, .to = 0 };
    phase.count = phase.from < window->width ? (window->width - phase.from + step - 1) / step : 0;
    phase.count = phase.count < copy->part - phase.to ? phase.count : copy->part - phase.to;
    phase.to += number * copy->part;
    return phase;
}

void plane_copy_plan(plane_copy *out, const kernel_conv_shape *window)
{
    *out = (plane_copy){ .set = KERNEL_BEST(planes), .step = window->stride[1] };
    out->part = aligned(window->out_width) + aligned((window->kernel[1] - 1) * window->dilation[1] / out->step + 1);
    out->row = out->part * out->step;
    /* keeps rows from sharing a few sets of the cache */
    out->row += out->row / PLANES_LANES % 2 == 0 ? PLANES_LANES : 0;
    for (int64_t i = 0; i < out->step && i < PLANES_LANES; i++)
        out->phases[i] = find_phase(out, window, i);
}

void plane_copy_row(const plane_copy *copy, const float *input, float *to)
{
    const plane_phase *even = &copy->phases[0], *odd = &copy->phases[1];
    int64_t both;

    INLAY_CHECK(copy->step > 0 && copy->step <= PLANES_LANES);
    if (input == NULL) {
        memset(to, 0, (size_t)copy->row * sizeof *to);
        return;
    }
    if (copy->step == 2 && even->from > odd->from) {
        even = &copy->phases[1];
        odd = &copy->phases[0];
    }
    both = even->count < odd->count ? even->count : odd->count;
    if (copy->step == 2 && odd->from == even->from + 1 && both > 0) {
        copy->set->part(input + even->from, to + even->to, to + odd->to, both);
        if (even->count > both) /* the last column */
            KERNEL_BEST(moves)->every(input + even->from + 2 * both, 2, to + even->to + both, even->count - both);
        if (odd->count > both)
            KERNEL_BEST(moves)->every(input + odd->from + 2 * both, 2, to + odd->to + both, odd->count - both);
        return;
    }
    for (int64_t i = 0; i < copy->step; i++)
        if (copy->phases[i].count > 0)
            KERNEL_BEST(moves)->every(input + copy->phases[i].from, copy->step, to + copy->phases[i].to,
                                      copy->phases[i].count);
}

void plane_copy_rows(const plane_copy *copy, const float *image, int64_t height, int64_t width, int64_t top,
                     int64_t seen, float *to)
{
    const int64_t first = top < 0 ? (-top < seen ? -top : seen) : 0, past = height - top < seen ? height - top : seen;
    const plane_phase *all = &copy->phases[0];

    for (int64_t row = 0; row < seen; row++)
        if (row < first || row >= past || copy->step > 1)
            plane_copy_row(copy, row < first || row >= past ? NULL : image + (top + row) * width, to + row * copy->row);
    if (copy->step == 1 && past > first && all->count > 0)
        KERNEL_BEST(moves)->rows(image + (top + first) * width + all->from, width, to + first * copy->row + all->to,
                                 copy->row, past - first, all->count);
}
