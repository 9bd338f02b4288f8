/* pool.h - the geometry of pooling windows: sizes of the output, and which input rows an output row comes from. */
#ifndef POOL_H
#define POOL_H
#include "reference.h"

/* One spatial axis. */
typedef struct pool_axis {
    int64_t in, out, kernel, stride, dilation;
    int64_t pad_begin, pad_end;
} pool_axis;

/* Pooling at concrete shapes. counts is allocated behind the struct. */
typedef struct pool_plan {
    pool_axis axes[INLAY_MAX_RANK]; /* [rank] spatial axes */
    int64_t steps[INLAY_MAX_RANK];  /* elements between neighbours along an axis of the input */
    uint32_t rank;                  /* at least 1 */
    bool include_pad;               /* padding counts in AveragePool's divisor */
    bool column_major;              /* indices */
    double p;                       /* LpPool */
    int64_t in_plane;               /* elements of a plane of the input */
    int64_t rows;                   /* output rows of a plane: product of all out but the last */
    int64_t planes;                 /* N * C */
    /* The folded row: width elements, of which used, from first on, come from the beginning of the input's. Where most
     * of it would be padding (sparse), it has none, and each window takes the taps that are inside. */
    int64_t width, first, used;
    bool sparse;
    float *counts; /* [out of the last axis] positions that count, at least 1 */
} pool_plan;

/* The input rows under one output row. */
typedef struct pool_window {
    int64_t taps;   /* rows to come from pool_window_next */
    int64_t count;  /* positions that count along these axes, at least 1 */
    int64_t offset; /* of the first row, in elements of the input */
    int64_t moved;  /* from there */
    int64_t index[INLAY_MAX_RANK];
    int64_t spans[INLAY_MAX_RANK]; /* taps inside the input, by axis */
} pool_window;

/* How many kernel positions of window o lie in [0, limit), and the first of them. */
static inline int64_t pool_span(const pool_axis *axis, int64_t o, int64_t low, int64_t limit, int64_t *out_first)
{
    int64_t start = o * axis->stride - axis->pad_begin;
    int64_t first = start >= low ? 0 : (low - start + axis->dilation - 1) / axis->dilation;
    int64_t end = start >= limit ? 0 : (limit - start + axis->dilation - 1) / axis->dilation;

    if (end > axis->kernel)
        end = axis->kernel;
    *out_first = first;
    return end > first ? end - first : 0;
}

/* The positions of window o that count in an average. */
static inline int64_t pool_count(const pool_plan *plan, const pool_axis *axis, int64_t o)
{
    int64_t first, n;

    n = plan->include_pad ? pool_span(axis, o, -axis->pad_begin, axis->in + axis->pad_end, &first)
                          : pool_span(axis, o, 0, axis->in, &first);
    return n > 0 ? n : 1;
}

/* Output row `row` counted over all planes. */
static inline void pool_window_at(const pool_plan *plan, int64_t row, pool_window *window)
{
    int64_t rest = row % plan->rows;

    window->taps = plan->in_plane > 0; /* an image without pixels has no rows, whatever its height */
    window->count = 1;
    window->moved = 0;
    window->offset = row / plan->rows * plan->in_plane;
    for (uint32_t d = plan->rank - 1; d-- > 0;) {
        const pool_axis *axis = &plan->axes[d];
        int64_t o = rest % axis->out, first;
        rest /= axis->out;
        window->spans[d] = pool_span(axis, o, 0, axis->in, &first);
        window->taps *= window->spans[d];
        window->count *= pool_count(plan, axis, o);
        window->offset += (o * axis->stride - axis->pad_begin + first * axis->dilation) * plan->steps[d];
        window->index[d] = 0;
    }
}

/* The offset of the next input row; call it `taps` times. */
static inline int64_t pool_window_next(const pool_plan *plan, pool_window *window)
{
    int64_t offset = window->offset + window->moved;

    for (uint32_t d = plan->rank - 1; d-- > 0;) {
        int64_t step = plan->axes[d].dilation * plan->steps[d];
        window->moved += step;
        if (++window->index[d] < window->spans[d])
            break;
        window->moved -= step * window->spans[d];
        window->index[d] = 0;
    }
    return offset;
}

/* What MaxPool calls the element at that offset of the input. */
static inline int64_t pool_index(const pool_plan *plan, int64_t at)
{
    int64_t plane, rest, index = 0, scale = 1;

    if (!plan->column_major)
        return at;
    plane = at / plan->in_plane;
    rest = at % plan->in_plane;
    for (uint32_t d = 0; d < plan->rank; d++) {
        index += rest / plan->steps[d] * scale;
        rest %= plan->steps[d];
        scale *= plan->axes[d].in;
    }
    return plane * plan->in_plane + index;
}
#endif
