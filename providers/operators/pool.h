/* pool.h - geometry of pooling: output sizes, and the input rows that contribute to an output row. */
#ifndef POOL_H
#define POOL_H
#include "operators/operators.h"
#include "inlay/check.h"

/* One spatial axis. */
typedef struct pool_axis {
    int64_t in, out, kernel, stride, dilation;
    int64_t pad_begin, pad_end;
} pool_axis;

/* Pooling for known shapes. The array `counts` is allocated after the struct. */
typedef struct pool_plan {
    pool_axis axes[INLAY_MAX_RANK]; /* [rank] spatial axes */
    int64_t steps[INLAY_MAX_RANK];  /* distance in elements between neighbors along an axis of the input */
    uint32_t rank;                  /* at least 1 */
    inlay_dtype halves;             /* FLOAT16 or BFLOAT16; INLAY_UNDEFINED: another element type */
    bool include_pad;               /* padding counts in AveragePool's divisor */
    bool column_major;              /* MaxPool's indices are column-major: storage_order = 1 */
    double p;                       /* exponent of LpPool */
    int64_t in_plane;               /* elements of a plane of the input */
    int64_t rows;                   /* output rows of a plane: product of the output sizes but the last */
    int64_t planes;                 /* N * C */
    /* The combined row (see pool_fold.inc) has `width` elements; `used` of them, starting at `first`, correspond to the
     * start of the input's row, the others are padding. If most of it would be padding (`sparse`), there is no combined
     * row, and each window reads its taps inside the input. */
    int64_t width, first, used;
    bool sparse;
    float *counts; /* [out of the last axis]: kernel positions that count in an average, at least 1 */
} pool_plan;

/* The input rows that contribute to one output row. */
typedef struct pool_window {
    int64_t taps;   /* number of calls of pool_window_next() */
    int64_t count;  /* kernel positions that count in an average, along all axes but the last; at least 1 */
    int64_t offset; /* offset of the first row, in elements of the input */
    int64_t moved;  /* distance of the next row from `offset` */
    int64_t index[INLAY_MAX_RANK];
    int64_t spans[INLAY_MAX_RANK]; /* taps inside the input, by axis */
} pool_window;

/* Returns how many kernel positions of window `position` are in [low, limit) of the input; *out_first receives the
 * first of them. */
static inline int64_t pool_span(const pool_axis *axis, int64_t position, int64_t low, int64_t limit, int64_t *out_first)
{
    INLAY_CHECK(axis->dilation > 0 && low <= limit);
    int64_t start = position * axis->stride - axis->pad_begin;
    int64_t first = start >= low ? 0 : (low - start + axis->dilation - 1) / axis->dilation;
    int64_t end = start >= limit ? 0 : (limit - start + axis->dilation - 1) / axis->dilation;

    if (end > axis->kernel)
        end = axis->kernel;
    *out_first = first;
    return end > first ? end - first : 0;
}

/* Returns how many kernel positions of window `position` count in an average. */
static inline int64_t pool_count(const pool_plan *plan, const pool_axis *axis, int64_t position)
{
    int64_t first, count;

    count = plan->include_pad ? pool_span(axis, position, -axis->pad_begin, axis->in + axis->pad_end, &first)
                              : pool_span(axis, position, 0, axis->in, &first);
    return count > 0 ? count : 1;
}

/* Starts at output row `row`, counted over all planes. */
static inline void pool_window_at(const pool_plan *plan, int64_t row, pool_window *window)
{
    INLAY_CHECK(plan->rank >= 1 && plan->rank <= INLAY_MAX_RANK && plan->rows > 0);
    int64_t rest = row % plan->rows;

    window->taps = plan->in_plane > 0; /* an empty image has no rows, even if its height is positive */
    window->count = 1;
    window->moved = 0;
    window->offset = row / plan->rows * plan->in_plane;
    for (uint32_t d = plan->rank - 1; d-- > 0;) {
        const pool_axis *axis = &plan->axes[d];
        int64_t position = rest % axis->out, first;
        rest /= axis->out;
        window->spans[d] = pool_span(axis, position, 0, axis->in, &first);
        window->taps *= window->spans[d];
        window->count *= pool_count(plan, axis, position);
        window->offset += (position * axis->stride - axis->pad_begin + first * axis->dilation) * plan->steps[d];
        window->index[d] = 0;
    }
}

/* Returns the offset of the next input row; to be called `taps` times. */
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

/* Returns MaxPool's index for the element at offset `at` of the input. */
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
