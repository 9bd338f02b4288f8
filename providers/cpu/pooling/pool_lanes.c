/* Pooling of images whose pixels are contiguous channels, see pool_lanes.h.
 *
 * Windows are separable: the rows of a column are combined first, then columns. Neighbouring windows share columns,
 * which stay in registers for the usual small windows, otherwise in a buffer. */
#include "cpu/pooling/pool_lanes.h"
#include "simd/vec.h"
#include <math.h>

enum {
    VECTORS = VEC_REGISTERS / 8, /* of channels that are computed together */
    HELD = 3,                    /* columns in registers */
    BUFFER = 128                 /* columns in the buffer */
};

/* A row of the output, for one group of channels. */
typedef struct lane_row {
    const pool_plane *plane;
    const float *input; /* first row of the image inside the windows */
    float *output;
    int64_t slices, rows; /* inside the windows */
    int64_t slice_step, row_step;
    vec count;            /* divisor of means of windows whose columns are inside */
    vmask mask;           /* channels of an incomplete vector */
    vec special[VECTORS]; /* NaN if an element of a maximum is NaN or infinite */
} lane_row;

/* The parts of a loop that are constant after inlining. */
typedef struct lane_kind {
    bool is_mean, whole; /* whole: all lanes of the vectors exist */
    bool deep;           /* windows have several slices */
    int vectors;
} lane_kind;

VEC_INLINE vec load(const lane_row *row, const lane_kind kind, const float *input)
{
    return kind.whole ? vec_load(input) : vec_load_some(row->mask, input);
}

VEC_INLINE vec join(const lane_kind kind, vec total, vec v)
{
    return kind.is_mean ? vec_add(total, v) : vec_max(v, total);
}

/* Adds an element of a column to its result. */
VEC_INLINE void join_element(const lane_row *row, const lane_kind kind, const float *input, vec *out, vec *special)
{
    VEC_UNROLL
    for (int v = 0; v < kind.vectors; v++) {
        const vec element = load(row, kind, input + v * VEC_LANES);

        out[v] = join(kind, out[v], element);
        special[v] = vec_fma(element, vec_zero(), special[v]);
    }
}

/* Combines the elements of column x, which may be in the padding: rows > 0 of each slice. */
VEC_INLINE void make_column(lane_row *row, const lane_kind kind, const int64_t rows, int64_t x, vec *out)
{
    const float *input = row->input + x * row->plane->pixel_step;
    vec special[VECTORS]; /* of this column, so that columns are computed at the same time */

    if (x < 0 || x >= row->plane->window.in[2]) {
        VEC_UNROLL
        for (int v = 0; v < kind.vectors; v++)
            out[v] = vec_set(kind.is_mean ? 0 : -INFINITY);
        return;
    }
    VEC_UNROLL
    for (int v = 0; v < kind.vectors; v++) {
        out[v] = load(row, kind, input + v * VEC_LANES);
        special[v] = vec_mul(out[v], vec_zero());
    }
    for (int64_t r = 1; r < rows; r++) {
        input += row->row_step;
        join_element(row, kind, input, out, special);
    }
    for (int64_t slice = 1; kind.deep && slice < row->slices; slice++) {
        input = row->input + x * row->plane->pixel_step + slice * row->slice_step;
        for (int64_t r = 0; r < rows; r++, input += row->row_step)
            join_element(row, kind, input, out, special);
    }
    VEC_UNROLL
    for (int v = 0; v < kind.vectors; v++)
        row->special[v] = kind.is_mean ? row->special[v] : vec_add(row->special[v], special[v]);
}

/* Stores pixel p of the output; a sum becomes a mean. */
VEC_INLINE void put(const lane_row *row, const lane_kind kind, int64_t p, const vec *total)
{
    const pool_window *window = &row->plane->window;
    float *output = row->output + p * row->plane->out_pixel_step;
    const int64_t first = p * window->stride[2] - window->begin[2], past = first + window->kernel[2];
    vec count = row->count;

    if (kind.is_mean && !window->counts_pads && (first < 0 || past > window->in[2])) {
        const int64_t columns = (past < window->in[2] ? past : window->in[2]) - (first > 0 ? first : 0);

        count = vec_set(columns > 0 ? (float)(columns * row->rows * row->slices) : 1);
    }
    VEC_UNROLL
    for (int v = 0; v < kind.vectors; v++) {
        const vec result = kind.is_mean ? vec_div(total[v], count) : total[v];

        if (kind.whole)
            vec_store(output + v * VEC_LANES, result);
        else
            vec_store_some(output + v * VEC_LANES, row->mask, result);
    }
}

/* Windows of `taps` columns at distance `stride`, both constant after inlining, with shared columns in registers. */
VEC_INLINE void held_columns(lane_row *row, const lane_kind kind, const int64_t rows, const int taps, const int stride)
{
    const int64_t begin = row->plane->window.begin[2];
    vec held[HELD][VECTORS];

    VEC_UNROLL
    for (int k = 0; k < taps - stride; k++)
        make_column(row, kind, rows, k - begin, held[k]);
    for (int64_t p = 0; p < row->plane->window.out[2]; p++) {
        vec total[VECTORS];

        VEC_UNROLL
        for (int k = taps - stride; k < taps; k++)
            make_column(row, kind, rows, p * stride + k - begin, held[k]);
        VEC_UNROLL
        for (int v = 0; v < kind.vectors; v++) {
            total[v] = held[0][v];
            VEC_UNROLL
            for (int k = 1; k < taps; k++)
                total[v] = join(kind, total[v], held[k][v]);
        }
        put(row, kind, p, total);
        VEC_UNROLL
        for (int k = 0; k < taps - stride; k++) {
            VEC_UNROLL
            for (int v = 0; v < kind.vectors; v++)
                held[k][v] = held[k + stride][v];
        }
    }
}

/* Windows that share no columns, or are wider than the buffer. */
VEC_INLINE void own_columns(lane_row *row, const lane_kind kind)
{
    const pool_window *window = &row->plane->window;

    for (int64_t p = 0; p < window->out[2]; p++) {
        const int64_t first = p * window->stride[2] - window->begin[2];
        vec total[VECTORS], column[VECTORS];
        int64_t low;
        const int64_t columns = pool_taps(window, 2, first, &low);

        VEC_UNROLL
        for (int v = 0; v < kind.vectors; v++)
            total[v] = vec_set(kind.is_mean ? 0 : -INFINITY);
        for (int64_t k = low; k < low + columns; k++) {
            make_column(row, kind, row->rows, first + k * window->dilation[2], column);
            VEC_UNROLL
            for (int v = 0; v < kind.vectors; v++)
                total[v] = join(kind, total[v], column[v]);
        }
        put(row, kind, p, total);
    }
}

/* Windows that share columns, which are in the buffer, for as many pixels of the output at a time as fit. */
VEC_INLINE void buffered_columns(lane_row *row, const lane_kind kind)
{
    const pool_window *window = &row->plane->window;
    const int64_t width = (window->kernel[2] - 1) * window->dilation[2] + 1, stride = window->stride[2],
                  pixels = (BUFFER - width) / stride + 1;
    vec buffer[BUFFER][VECTORS];

    for (int64_t p = 0; p < window->out[2]; p += pixels) {
        const int64_t past = p + pixels < window->out[2] ? p + pixels : window->out[2],
                      columns = (past - 1 - p) * stride + width, first = p * stride - window->begin[2];

        for (int64_t x = 0; x < columns; x++)
            make_column(row, kind, row->rows, first + x, buffer[x]);
        for (int64_t q = p; q < past; q++) {
            const vec(*column)[VECTORS] = (const vec(*)[VECTORS])buffer + (q - p) * stride;
            vec total[VECTORS];

            VEC_UNROLL
            for (int v = 0; v < kind.vectors; v++)
                total[v] = column[0][v];
            for (int64_t k = 1; k < window->kernel[2]; k++) {
                VEC_UNROLL
                for (int v = 0; v < kind.vectors; v++)
                    total[v] = join(kind, total[v], column[k * window->dilation[2]][v]);
            }
            put(row, kind, q, total);
        }
    }
}

/* The usual number of rows is a constant, too. */
VEC_INLINE void held_columns_of(lane_row *row, const lane_kind kind, const int taps, const int stride)
{
    if (row->rows == taps)
        held_columns(row, kind, taps, taps, stride);
    else
        held_columns(row, kind, row->rows, taps, stride);
}

VEC_INLINE void make_row(lane_row *row, const lane_kind kind)
{
    const pool_window *window = &row->plane->window;
    const int64_t taps = window->kernel[2], stride = window->stride[2];
    const bool dense = window->dilation[2] == 1;

    if (dense && taps == 3 && stride == 1)
        held_columns_of(row, kind, 3, 1);
    else if (dense && taps == 3 && stride == 2)
        held_columns_of(row, kind, 3, 2);
    else if (dense && taps == 2 && stride == 2)
        held_columns_of(row, kind, 2, 2);
    else if (stride >= taps || window->out[2] == 1 || taps > BUFFER || window->dilation[2] > BUFFER ||
             (taps - 1) * window->dilation[2] >= BUFFER)
        own_columns(row, kind);
    else
        buffered_columns(row, kind);
}

VEC_INLINE bool lanes_row(const pool_plane *plane, const float *input, float *output, int64_t slice_out,
                          int64_t row_out, const bool is_mean, const bool deep)
{
    const pool_window *window = &plane->window;
    const int64_t front = slice_out * window->stride[0] - window->begin[0],
                  top = row_out * window->stride[1] - window->begin[1];
    int64_t low, low_slice = 0, at = 0;
    lane_row row = { .plane = plane,
                     .slice_step = window->dilation[0] * plane->slice_step,
                     .row_step = window->dilation[1] * plane->row_step };

    for (int v = 0; v < VECTORS; v++)
        row.special[v] = vec_zero();
    row.slices = deep ? pool_taps(window, 0, front, &low_slice) : 1; /* a window of one slice is inside */
    row.rows = pool_taps(window, 1, top, &low);
    output += slice_out * plane->out_slice_step + row_out * plane->out_row_step;
    if (row.slices == 0 || row.rows == 0) {
        for (int64_t p = 0; p < window->out[2]; p++)
            for (int64_t i = 0; i < plane->lanes; i++)
                output[p * plane->out_pixel_step + i] = is_mean ? 0 : -INFINITY;
        return true;
    }
    input += (front + low_slice * window->dilation[0]) * plane->slice_step +
             (top + low * window->dilation[1]) * plane->row_step;
    row.count = vec_set((float)(window->kernel[2] *
                                (window->counts_pads ? window->kernel[1] * window->kernel[0] : row.rows * row.slices)));
    for (; at + VECTORS * VEC_LANES <= plane->lanes; at += VECTORS * VEC_LANES) {
        row.input = input + at;
        row.output = output + at;
        make_row(&row, (lane_kind){ is_mean, true, deep, VECTORS });
    }
    for (; !VEC_HAS_MASKS && at + VEC_LANES <= plane->lanes; at += VEC_LANES) { /* all of some blocked layouts */
        row.input = input + at;
        row.output = output + at;
        make_row(&row, (lane_kind){ is_mean, true, deep, 1 });
    }
    for (; at < plane->lanes; at += VEC_LANES) {
        row.input = input + at;
        row.output = output + at;
        row.mask = vec_first(plane->lanes - at);
        make_row(&row, (lane_kind){ is_mean, false, deep, 1 });
    }
    for (int v = 1; v < VECTORS; v++)
        row.special[0] = vec_add(row.special[0], row.special[v]);
    return vec_sum(row.special[0]) == 0;
}

/* Separate functions: compilers allocate the registers of a larger one worse. */
#define LANES_ROW(name, is_mean, deep)                                                                                 \
    KERNEL_PART(bool, pool_##name, const pool_plane *plane, const float *input, float *output, int64_t slice_out,      \
                int64_t row_out)                                                                                       \
    {                                                                                                                  \
        return lanes_row(plane, input, output, slice_out, row_out, is_mean, deep);                                     \
    }
LANES_ROW(max_row, false, false)
LANES_ROW(max_volume, false, true)
LANES_ROW(mean_row, true, false)
LANES_ROW(mean_volume, true, true)
#undef LANES_ROW

static bool row_of_lanes(const pool_plane *plane, const float *input, float *output, int64_t slice_out, int64_t row_out)
{
    static bool (*const rows[2][2])(const pool_plane *, const float *, float *, int64_t, int64_t) = {
        { KERNEL_PART_OF(pool_max_row), KERNEL_PART_OF(pool_max_volume) },
        { KERNEL_PART_OF(pool_mean_row), KERNEL_PART_OF(pool_mean_volume) },
    };

    return rows[plane->window.is_mean][plane->window.kernel[0] > 1](plane, input, output, slice_out, row_out);
}

const pool_lanes_set KERNEL(pool_lanes) = { .row = row_of_lanes };
