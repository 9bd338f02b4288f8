/* MaxPool and AveragePool of row-major images in one to three dimensions (ONNX MaxPool-1..22, AveragePool-1..22),
 * without a change of layout. The slices of a window are combined first, to a plane in scratch memory, then its rows,
 * by contiguous vectors, then the columns of the result. NaN is propagated. */
#include "cpu/pooling/pool.h"
#include "cpu/pooling/pool_lanes.h"
#include "cpu/pooling/pool_loops.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "cpu/region/build.h"
#include "simd/move_set.h"
#include "simd/row_set.h"
#include "simd/optional.h"
#include <math.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(cpu_lower_planes);
OPTIONAL_IF_CALLED(cpu_lower_rows);

/* MAX_ROW: elements of a row with its padding. WIDE: of a row of the output that fills vectors by itself. LINE: of a
 * line of the cache. NEAR: of combined rows, which stay in the nearest cache. */
enum { MAX_ROW = 4096, WIDE = 16, LINE = 16, NEAR = 1024 };

typedef struct row_pool {
    cpu_native native;
    pool_window window;
    int64_t images; /* of one channel */
    int64_t reach;  /* width of a row with the padding that windows cover */
    bool is_square; /* windows of 2x2 with stride 2, inside the image */
} row_pool;

/* Buffers of a range of rows or planes. */
typedef struct row_buffer {
    _Alignas(64) float t[MAX_ROW + 2 * LINE], columns[MAX_ROW], counts[MAX_ROW];
    float counted; /* means: slices and rows of the divisors in `columns`; below 0: there are none */
} row_buffer;

typedef struct row_pool_call {
    const row_pool *pool;
    const float *input;
    float *output, *planes; /* planes: if windows have several slices, the combined ones of each worker */
} row_pool_call;

/* t[i] = the maximum or sum of input[i * stride + k * step] for k < taps; any number of taps. */
static void combine_taps(float *t, const float *input, int64_t n, int64_t taps, int64_t step, int64_t stride, bool adds)
{
    const pool_loops *const loops = KERNEL_BEST(pool_loops);

    for (int64_t k = 0; k < taps; k += POOL_TAPS)
        (adds ? loops->window_sum : loops->window_max)(
            t, input + k * step, n, (int)(taps - k < POOL_TAPS ? taps - k : POOL_TAPS), step, stride, k > 0);
}

/* The number of columns in the divisor of each window of a row. */
static void count_columns(const row_pool *pool, float *counts)
{
    const pool_window *window = &pool->window;

    for (int64_t p = 0; p < window->out[2]; p++) {
        int64_t low;

        counts[p] = (float)(window->counts_pads ? window->kernel[2]
                                                : pool_taps(window, 2, p * window->stride[2] - window->begin[2], &low));
    }
}

/* Computes the maxima of rows [row_out, row_out + count) of the output, whose windows contain only finite numbers.
 * First rows are combined for all output rows, `reach` elements of t each, then columns, because reading a vector right
 * after parts of it were written would stall. Except for windows of 2 or 3 columns at a stride of 2, all columns are
 * computed, and every stride-th one is used. */
static void max_rows(const row_pool *pool, const float *input, float *output, int64_t row_out, int64_t count, float *t,
                     float *columns)
{
    const pool_window *window = &pool->window;
    const row_set *set = KERNEL_BEST(rows);
    const int64_t width =
        window->in[2] < pool->reach - window->begin[2] ? window->in[2] : pool->reach - window->begin[2];

    for (int64_t r = 0; r < count; r++) {
        int64_t low;
        const int64_t top = (row_out + r) * window->stride[1] - window->begin[1],
                      rows = pool_taps(window, 1, top, &low);

        set->windows(input + (top + low * window->dilation[1]) * window->in[2], t + r * pool->reach + window->begin[2],
                     width, rows, window->dilation[1] * window->in[2]);
    }
    if (window->stride[2] == 2 && (window->kernel[2] == 2 || window->kernel[2] == 3)) {
        for (int64_t r = 0; r < count; r++)
            KERNEL_BEST(pool_loops)
                ->window_max_two(t + r * pool->reach, output + r * window->out[2], window->out[2], window->kernel[2],
                                 window->dilation[2]);
        return;
    }
    set->windows(t, columns, count * pool->reach - (window->kernel[2] - 1) * window->dilation[2], window->kernel[2],
                 window->dilation[2]);
    if (window->stride[2] == 1)
        KERNEL_BEST(moves)->rows(columns, pool->reach, output, window->out[2], count, window->out[2]);
    for (int64_t r = 0; r < count && window->stride[2] > 1; r++)
        KERNEL_BEST(moves)->every(columns + r * pool->reach, window->stride[2], output + r * window->out[2],
                                  window->out[2]);
}

/* The rows from `row` on, at most up to `end`, whose windows have the same taps as the first; *out_taps: their number;
 * *out_from: the input row of the first tap. */
static int64_t alike_rows(const pool_window *window, int64_t row, int64_t end, int64_t *out_taps, int64_t *out_from)
{
    const int64_t top = row * window->stride[1] - window->begin[1];
    int64_t low, next_low, past = row + 1;

    *out_taps = pool_taps(window, 1, top, &low);
    *out_from = top + low * window->dilation[1];
    while (past < end && pool_taps(window, 1, past * window->stride[1] - window->begin[1], &next_low) == *out_taps &&
           next_low == low)
        past++;
    return past - row;
}

/* The same for means, of any numbers. slices: of the divisor. Returns the number of rows: at most `most`. In t, the
 * image part of each combined row starts at a line of the cache. */
static int64_t mean_rows(const row_pool *pool, const float *input, float *output, int64_t row_out, int64_t most,
                         float slices, row_buffer *buffer)
{
    const pool_loops *const loops = KERNEL_BEST(pool_loops);
    const pool_window *window = &pool->window;
    const int64_t width =
                      window->in[2] < pool->reach - window->begin[2] ? window->in[2] : pool->reach - window->begin[2],
                  pitch = (pool->reach + LINE - 1) / LINE * LINE, fitting = NEAR / pitch > 0 ? NEAR / pitch : 1,
                  count = most < fitting ? most : fitting;
    float *t = buffer->t + (LINE - window->begin[2] % LINE) % LINE;
    int64_t taps, from;
    pool_rows rows = { .in_pitch = window->stride[1] * window->in[2],
                       .out_pitch = pitch,
                       .n = width,
                       .step = window->dilation[1] * window->in[2],
                       .stride = 1 };

    for (int64_t r = 0; r < count; r += rows.rows) {
        rows.rows = alike_rows(window, row_out + r, row_out + count, &taps, &from);
        rows.taps = taps;
        rows.input = input + from * window->in[2];
        rows.output = t + r * pitch + window->begin[2];
        if (taps > 0)
            loops->sums_of_rows(&rows);
        for (int64_t i = 0; i < rows.rows && taps == 0; i++)
            memset(rows.output + i * pitch, 0, (size_t)width * sizeof(float));
    }
    rows = (pool_rows){ .in_pitch = pitch,
                        .out_pitch = window->out[2],
                        .n = window->out[2],
                        .taps = window->kernel[2],
                        .step = window->dilation[2],
                        .stride = window->stride[2],
                        .divisors = buffer->columns };
    for (int64_t r = 0; r < count; r += rows.rows) {
        float counted;

        rows.rows = alike_rows(window, row_out + r, row_out + count, &taps, &from);
        counted = slices * (float)(window->counts_pads ? window->kernel[1] : taps);
        for (int64_t c = 0; c < window->out[2] && counted != buffer->counted; c++)
            buffer->columns[c] = buffer->counts[c] * counted;
        buffer->counted = counted;
        rows.input = t + r * pitch;
        rows.output = output + r * window->out[2];
        loops->means_of_rows(&rows);
    }
    return count;
}

/* The number of rows of the output from row_out on, at most `most`, that max_rows() can compute. */
static int64_t joint_rows_count(const row_pool *pool, const float *input, int64_t row_out, int64_t most)
{
    enum { DENSE = 4 };
    const pool_window *window = &pool->window;
    const int64_t fitting = NEAR / pool->reach > 0 ? NEAR / pool->reach : 1, count = most < fitting ? most : fitting;
    int64_t first = INT64_MAX, last = 0; /* rows read: with dilation, a window may end above the previous one */

    if (window->stride[2] > DENSE || (window->stride[2] > 1 && window->stride[2] >= window->kernel[2]))
        return 0;
    for (int64_t r = row_out; r < row_out + count; r++) {
        int64_t low;
        const int64_t top = r * window->stride[1] - window->begin[1], rows = pool_taps(window, 1, top, &low);

        if (rows == 0)
            return 0;
        first = top + low * window->dilation[1] < first ? top + low * window->dilation[1] : first;
        last =
            top + (low + rows - 1) * window->dilation[1] > last ? top + (low + rows - 1) * window->dilation[1] : last;
    }
    return KERNEL_BEST(rows)->finite(input + first * window->in[2], (last - first + 1) * window->in[2]) ? count : 0;
}

/* Computes the maxima of row `row_out` of the output. input: its plane; t: `reach` elements, with the padding on both
 * sides already set. */
static void max_row(const row_pool *pool, const float *input, float *output, int64_t row_out, float *t)
{
    const pool_window *window = &pool->window;
    const int64_t top = row_out * window->stride[1] - window->begin[1],
                  width =
                      window->in[2] < pool->reach - window->begin[2] ? window->in[2] : pool->reach - window->begin[2];
    float *inside = t + window->begin[2];
    int64_t low;
    const int64_t rows = pool_taps(window, 1, top, &low);

    INLAY_CHECK(pool->reach <= MAX_ROW && window->begin[2] + width <= pool->reach);
    if (rows > 0)
        combine_taps(inside, input + (top + low * window->dilation[1]) * window->in[2], width, rows,
                     window->dilation[1] * window->in[2], 1, false);
    for (int64_t i = 0; i < width && rows == 0; i++)
        inside[i] = -INFINITY;
    combine_taps(output, t, window->out[2], window->kernel[2], window->dilation[2], window->stride[2], false);
}

/* Reduces planes that one window covers completely. */
static inlay_status planes_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const row_pool_call *call = user;
    const pool_window *window = &call->pool->window;
    const int64_t pixels = window->in[2];

    (void)worker;
    (window->is_mean ? KERNEL_BEST(rows)->means : KERNEL_BEST(rows)->tops)(call->input + begin * pixels,
                                                                           call->output + begin, end - begin, pixels);
    return INLAY_OK;
}

static inlay_status run_planes(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const row_pool *pool = (const row_pool *)(const void *)native;
    row_pool_call call = { .pool = pool, .input = args[0], .output = args[1] };
    const int64_t grain = 65536 / (pool->window.in[2] + 1) + 1;

    if (threads <= 1 || pool->images <= grain)
        return planes_range(&call, 0, pool->images, 0);
    return state->host->parallel_for(state->host->ctx, run, pool->images, grain, planes_range, &call);
}

inlay_status cpu_lower_planes(cpu_build *build, const cpu_place *input, uint32_t result, cpu_place *out)
{
    const uint32_t rank = (uint32_t)input->layout.rank;
    row_pool pool = { .native.run = run_planes,
                      .images = input->layout.dims[0] * input->layout.dims[1],
                      .window = { .in = { 1, 1, 1 }, .is_mean = build->op->function != FUNCTION_POOL_MAX } };
    int64_t dims[CPU_MAX_RANK];
    inlay_status status;
    tensor_layout output;

    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = d < 2 ? input->layout.dims[d] : 1;
        pool.window.in[2] *= d < 2 ? 1 : input->layout.dims[d];
    }
    layout_plain(&output, rank, dims);
    INLAY_TRY(cpu_result_place(build, result, &output, out));
    status = cpu_emit_step(build, &pool.native, sizeof pool, (const cpu_place *const[]){ input, out }, 2);
done:
    return status;
}

static void row_buffer_init(row_buffer *buffer, const row_pool *pool)
{
    const bool is_mean = pool->window.is_mean;

    buffer->counted = -1;
    if (is_mean && !pool->is_square)
        count_columns(pool, buffer->counts);
    for (size_t i = 0; i < KIT_COUNT(buffer->t) && !pool->is_square; i++)
        buffer->t[i] = is_mean ? 0 : -INFINITY;
}

/* Computes rows [begin, end) of a plane of the output. */
static void make_rows(const row_pool *pool, const float *input, float *output, int64_t begin, int64_t end, float slices,
                      row_buffer *buffer)
{
    const pool_loops *const loops = KERNEL_BEST(pool_loops);
    const pool_window *window = &pool->window;

    for (int64_t r = begin, done; r < end; r += done) {
        float *row = output + r * window->out[2];

        done = 1;
        if (pool->is_square) {
            (window->is_mean ? loops->mean_of_squares : loops->max_of_squares)(
                input + r * window->stride[1] * window->in[2], row, window->out[2], window->in[2]);
            continue;
        }
        if (window->is_mean) {
            done = mean_rows(pool, input, row, r, end - r, slices, buffer);
            continue;
        }
        done = joint_rows_count(pool, input, r, end - r);
        if (done > 0) {
            max_rows(pool, input, row, r, done, buffer->t, buffer->columns);
            continue;
        }
        max_row(pool, input, row, r, buffer->t);
        done = 1;
    }
}

static inlay_status rows_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const row_pool_call *call = user;
    const pool_window *window = &call->pool->window;
    row_buffer buffer;

    (void)worker;
    row_buffer_init(&buffer, call->pool);
    for (int64_t r = begin; r < end;) {
        const int64_t plane = r / window->out[1], first = r % window->out[1],
                      past = window->out[1] - first < end - r ? window->out[1] : first + end - r;

        make_rows(call->pool, call->input + plane * window->in[1] * window->in[2],
                  call->output + plane * window->out[1] * window->out[2], first, past, 1, &buffer);
        r += past - first;
    }
    return INLAY_OK;
}

/* Small planes: one loop combines all rows, another all columns. The elements computed across the ends of rows, and
 * between rows at a stride, are not used. A padded row has `pitch` elements, whole steps of the stride. */
typedef struct small_plane {
    int64_t height, pitch; /* the padded plane */
    int64_t rows, columns; /* elements of both combinations */
    int64_t out_pitch;     /* distance of the rows of the output in the combined columns */
} small_plane;

static small_plane small_plane_of(const row_pool *pool)
{
    const pool_window *window = &pool->window;
    const int64_t step = window->stride[2], pitch = (pool->reach + step - 1) / step * step,
                  last = (window->out[1] - 1) * window->stride[1];

    return (small_plane){ .height = last + (window->kernel[1] - 1) * window->dilation[1] + 1,
                          .pitch = pitch,
                          .out_pitch = window->stride[1] * (pitch / step),
                          .rows = (last + 1) * pitch,
                          .columns = last * (pitch / step) + window->out[2] };
}

static bool is_small(const row_pool *pool)
{
    enum { DENSE = 2 }; /* the largest stride */
    const pool_window *window = &pool->window;

    return !pool->is_square && window->stride[1] <= DENSE && window->stride[2] <= DENSE &&
           ((window->stride[1] * window->stride[2] == 1 && !window->is_mean) || window->out[2] < WIDE) &&
           window->dilation[1] <= MAX_ROW && window->kernel[1] <= MAX_ROW && window->out[1] <= MAX_ROW &&
           small_plane_of(pool).height * (pool->reach + DENSE) <= MAX_ROW;
}

/* The divisors of the means of a small plane, without slices. */
static void count_plane(const row_pool *pool, float *counts)
{
    const small_plane plane = small_plane_of(pool);
    const pool_window *window = &pool->window;
    float columns[MAX_ROW];

    count_columns(pool, columns);
    for (int64_t i = 0; i < plane.columns; i++)
        counts[i] = 1;
    for (int64_t r = 0; r < window->out[1]; r++) {
        int64_t low;
        const int64_t taps = pool_taps(window, 1, r * window->stride[1] - window->begin[1], &low);

        for (int64_t c = 0; c < window->out[2]; c++)
            counts[r * plane.out_pitch + c] = columns[c] * (float)(window->counts_pads ? window->kernel[1] : taps);
    }
}

/* Computes a small plane. slices: of the divisor, whose other factors are in buffer->counts. */
static void make_plane(const row_pool *pool, const small_plane *plane, const float *input, float *output, float slices,
                       row_buffer *buffer)
{
    const pool_window *window = &pool->window;
    const int64_t step = window->stride[2], below = plane->height - window->begin[1],
                  right = pool->reach - window->begin[2], row_step = window->dilation[1] * plane->pitch;
    const int64_t in_rows = window->in[1] < below ? window->in[1] : below,
                  width = window->in[2] < right ? window->in[2] : right;
    const float *padded = input;
    float *rows = buffer->columns, *result = buffer->t;

    INLAY_CHECK(plane->height * plane->pitch <= MAX_ROW && plane->columns > 0);
    if (window->begin[1] != 0 || in_rows != plane->height || width != plane->pitch || window->in[2] != plane->pitch) {
        for (int64_t i = 0; i < plane->height * plane->pitch; i++)
            buffer->t[i] = window->is_mean ? 0 : -INFINITY;
        KERNEL_BEST(moves)->rows(input, window->in[2], buffer->t + window->begin[1] * plane->pitch + window->begin[2],
                                 plane->pitch, in_rows, width);
        padded = buffer->t;
    }
    if (!window->is_mean && KERNEL_BEST(rows)->finite(input, window->in[1] * window->in[2])) {
        KERNEL_BEST(rows)->windows(padded, rows, plane->rows, window->kernel[1], row_step);
        KERNEL_BEST(rows)->windows(rows, result, (plane->columns - 1) * step + 1, window->kernel[2],
                                   window->dilation[2]);
        if (step > 1) {
            KERNEL_BEST(moves)->every(result, step, rows, plane->columns);
            result = rows;
        }
    } else {
        combine_taps(rows, padded, plane->rows, window->kernel[1], row_step, 1, window->is_mean);
        combine_taps(result, rows, plane->columns, window->kernel[2], window->dilation[2], step, window->is_mean);
    }
    if (window->is_mean)
        KERNEL_BEST(pool_loops)->divide(result, buffer->counts, slices, plane->columns);
    KERNEL_BEST(moves)->rows(result, plane->out_pitch, output, window->out[2], window->out[1], window->out[2]);
}

static bool is_volume(const row_pool *pool)
{
    return pool->window.in[0] > 1 || pool->window.kernel[0] > 1;
}

/* Returns the combined slices of a window: one of the image's, or `plane`. out_slices: the number in the divisor. */
static const float *combine_slices(const row_pool *pool, const float *image, int64_t slice_out, float *plane,
                                   float *out_slices)
{
    const pool_window *window = &pool->window;
    const int64_t front = slice_out * window->stride[0] - window->begin[0], size = window->in[1] * window->in[2];
    int64_t low;
    const int64_t slices = pool_taps(window, 0, front, &low);
    const float *first = image + (front + low * window->dilation[0]) * size;

    *out_slices = (float)(window->counts_pads ? window->kernel[0] : slices > 0 ? slices : 1);
    if (slices == 1)
        return first;
    for (int64_t i = 0; i < size && slices == 0; i++)
        plane[i] = window->is_mean ? 0 : -INFINITY;
    if (slices > 0)
        combine_taps(plane, first, size, slices, window->dilation[0] * size, 1, window->is_mean);
    return plane;
}

/* Computes whole planes of the output. */
static inlay_status whole_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const row_pool_call *call = user;
    const row_pool *pool = call->pool;
    const pool_window *window = &pool->window;
    const int64_t size = window->in[1] * window->in[2];
    const bool small = is_small(pool);
    const small_plane plane = small ? small_plane_of(pool) : (small_plane){ 0 };
    row_buffer buffer;

    if (!small)
        row_buffer_init(&buffer, pool);
    else if (window->is_mean)
        count_plane(pool, buffer.counts);
    for (int64_t p = begin; p < end; p++) {
        float slices = 1, *output = call->output + p * window->out[1] * window->out[2];
        const float *input = call->input + p / window->out[0] * window->in[0] * size;

        if (is_volume(pool))
            input = combine_slices(pool, input, p % window->out[0], call->planes + worker * size, &slices);
        if (small)
            make_plane(pool, &plane, input, output, slices, &buffer);
        else
            make_rows(pool, input, output, 0, window->out[1], slices, &buffer);
    }
    return INLAY_OK;
}

static inlay_status run_rows(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const row_pool *pool = (const row_pool *)(const void *)native;
    const pool_window *window = &pool->window;
    row_pool_call call = { pool, args[0], args[1], is_volume(pool) ? args[2] : NULL };
    const bool whole = is_small(pool) || is_volume(pool);
    const int64_t units = pool->images * window->out[0] * (whole ? 1 : window->out[1]);
    const int64_t one = (window->kernel[0] < window->in[0] ? window->kernel[0] : window->in[0]) *
                        (window->kernel[1] < window->in[1] ? window->kernel[1] : window->in[1]) * pool->reach *
                        (whole ? window->out[1] : 1);
    const int64_t grain = 32768 / (one + 1) + 1;
    const inlay_parallel_fn run_range = whole ? whole_range : rows_range;

    if (threads <= 1 || units <= grain)
        return run_range(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, grain, run_range, &call);
}

inlay_status cpu_lower_rows(cpu_build *build, const cpu_place *input, const int64_t *out_dims,
                            const pool_window *window, uint32_t result, cpu_place *out, bool *out_done)
{
    const uint32_t rank = (uint32_t)input->layout.rank;
    row_pool pool = { .native.run = run_rows, .window = *window };
    cpu_place planes;
    inlay_status status = INLAY_OK;
    tensor_layout output;

    *out_done = false;
    if (input->layout.type != ELEMENT_FLOAT || rank < 3 || rank > 5)
        goto done;
    pool.images = input->layout.dims[0] * input->layout.dims[1];
    /* Kernels much larger than the image are left to implementations that skip the padding. */
    if (window->kernel[2] / 8 > window->in[2] || window->kernel[1] > INT32_MAX || window->stride[2] > INT32_MAX ||
        window->dilation[2] > INT32_MAX)
        goto done;
    pool.reach = (window->out[2] - 1) * window->stride[2] + (window->kernel[2] - 1) * window->dilation[2] + 1;
    if (pool.reach > MAX_ROW || window->begin[2] >= pool.reach || pool.images == 0)
        goto done;
    pool.is_square = !is_volume(&pool) && (window->is_mean || window->out[2] >= WIDE);
    for (int axis = 1; axis < 3; axis++)
        pool.is_square = pool.is_square && window->kernel[axis] == 2 && window->stride[axis] == 2 &&
                         window->dilation[axis] == 1 && window->begin[axis] == 0 &&
                         2 * window->out[axis] <= window->in[axis];
    layout_plain(&output, rank, out_dims);
    INLAY_TRY(cpu_result_place(build, result, &output, out));
    if (is_volume(&pool))
        INLAY_TRY(cpu_new_floats(build, window->in[1] * window->in[2] * build->instance->threads, &planes));
    *out_done = true;
    status = cpu_emit_step(build, &pool.native, sizeof pool, (const cpu_place *const[]){ input, out, &planes },
                           is_volume(&pool) ? 3 : 2);
done:
    return status;
}
