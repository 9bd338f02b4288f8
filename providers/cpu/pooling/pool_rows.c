/* MaxPool and AveragePool of row-major images in one or two dimensions (ONNX MaxPool-1..22, AveragePool-1..22), without
 * a change of layout. The rows of a window are combined first, by contiguous vectors, then the columns of the result.
 * NaN is propagated. */
#include "cpu/pooling/pool.h"
#include "cpu/pooling/pool_loops.h"
#include "inlay/check.h"
#include "cpu/region/build.h"
#include "simd/move_set.h"
#include "simd/row_set.h"
#include "simd/optional.h"
#include <math.h>

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(cpu_lower_planes);
OPTIONAL_IF_CALLED(cpu_lower_rows);

enum { MAX_ROW = 4096 }; /* elements of a row with its padding */

typedef struct row_pool {
    cpu_native native;
    int64_t planes, in[2], out[2], kernel[2], stride[2], dilation[2], begin[2];
    int64_t reach; /* width of a row with the padding that windows cover */
    bool is_mean, counts_pads;
    bool is_square; /* means of windows of 2x2 with stride 2, inside the image */
} row_pool;

typedef struct row_pool_call {
    const row_pool *pool;
    const float *input;
    float *output;
} row_pool_call;

/* t[i] = the maximum or sum of input[i * stride + k * step] for k < taps; any number of taps. */
static void combine_taps(float *t, const float *input, int64_t n, int64_t taps, int64_t step, int64_t stride, bool adds)
{
    const pool_loops *const loops = KERNEL_BEST(pool_loops);

    for (int64_t k = 0; k < taps; k += POOL_TAPS)
        (adds ? loops->window_sum : loops->window_max)(
            t, input + k * step, n, (int)(taps - k < POOL_TAPS ? taps - k : POOL_TAPS), step, stride, k > 0);
}

/* The number of taps inside the image, and the first of them, of a window that begins at `first`. */
static int64_t taps_inside(const row_pool *pool, int axis, int64_t first, int64_t *out_low)
{
    const int64_t step = pool->dilation[axis];
    const int64_t low = first < 0 ? (-first + step - 1) / step : 0;
    int64_t high = first < pool->in[axis] ? (pool->in[axis] - 1 - first) / step + 1 : 0;

    high = high < pool->kernel[axis] ? high : pool->kernel[axis];
    *out_low = low;
    return high > low ? high - low : 0;
}

/* The number of columns in the divisor of each window of a row. */
static void count_columns(const row_pool *pool, float *counts)
{
    for (int64_t p = 0; p < pool->out[1]; p++) {
        int64_t low;

        counts[p] = (float)(pool->counts_pads ? pool->kernel[1]
                                              : taps_inside(pool, 1, p * pool->stride[1] - pool->begin[1], &low));
    }
}

/* Computes the maxima of rows [row_out, row_out + count) of the output, whose windows contain only finite numbers. Rows
 * are combined for all of them first, `reach` elements of t each, then columns: reading a vector right after parts of
 * it were written would stall. All columns are computed, and those at the stride are taken. */
static void max_rows(const row_pool *pool, const float *input, float *output, int64_t row_out, int64_t count, float *t,
                     float *columns)
{
    const row_set *set = KERNEL_BEST(rows);
    const int64_t width = pool->in[1] < pool->reach - pool->begin[1] ? pool->in[1] : pool->reach - pool->begin[1];

    for (int64_t r = 0; r < count; r++) {
        int64_t low;
        const int64_t top = (row_out + r) * pool->stride[0] - pool->begin[0], rows = taps_inside(pool, 0, top, &low);

        set->windows(input + (top + low * pool->dilation[0]) * pool->in[1], t + r * pool->reach + pool->begin[1], width,
                     rows, pool->dilation[0] * pool->in[1]);
    }
    set->windows(t, columns, count * pool->reach - (pool->kernel[1] - 1) * pool->dilation[1], pool->kernel[1],
                 pool->dilation[1]);
    if (pool->stride[1] == 1)
        KERNEL_BEST(moves)->rows(columns, pool->reach, output, pool->out[1], count, pool->out[1]);
    for (int64_t r = 0; r < count && pool->stride[1] > 1; r++)
        KERNEL_BEST(pool_loops)
            ->take_strided(columns + r * pool->reach, output + r * pool->out[1], pool->out[1], pool->stride[1]);
}

/* The number of rows of the output from row_out on, at most `most`, that max_rows() can compute. */
static int64_t max_rows_count(const row_pool *pool, const float *input, int64_t row_out, int64_t most)
{
    enum { DENSE = 4 }; /* largest stride for which computing all columns is worth it */
    const int64_t count = most < MAX_ROW / pool->reach ? most : MAX_ROW / pool->reach;
    int64_t first = INT64_MAX, last = 0; /* rows read: with dilation, a window may end above the previous one */

    if (pool->is_mean || pool->stride[1] > DENSE || (pool->stride[1] > 1 && pool->stride[1] >= pool->kernel[1]))
        return 0;
    for (int64_t r = row_out; r < row_out + count; r++) {
        int64_t low;
        const int64_t top = r * pool->stride[0] - pool->begin[0], rows = taps_inside(pool, 0, top, &low);

        if (rows == 0)
            return 0;
        first = top + low * pool->dilation[0] < first ? top + low * pool->dilation[0] : first;
        last = top + (low + rows - 1) * pool->dilation[0] > last ? top + (low + rows - 1) * pool->dilation[0] : last;
    }
    return KERNEL_BEST(rows)->finite(input + first * pool->in[1], (last - first + 1) * pool->in[1]) ? count : 0;
}

/* Computes row `row_out` of the output. input: its plane; t: `reach` elements, with the padding on both sides already
 * set. */
static void make_row(const row_pool *pool, const float *input, float *output, int64_t row_out, float *t,
                     const float *counts)
{
    const int64_t top = row_out * pool->stride[0] - pool->begin[0],
                  width = pool->in[1] < pool->reach - pool->begin[1] ? pool->in[1] : pool->reach - pool->begin[1];
    float *inside = t + pool->begin[1];
    int64_t low;
    const int64_t rows = taps_inside(pool, 0, top, &low);

    INLAY_CHECK(pool->reach <= MAX_ROW && pool->begin[1] + width <= pool->reach);
    if (rows > 0)
        combine_taps(inside, input + (top + low * pool->dilation[0]) * pool->in[1], width, rows,
                     pool->dilation[0] * pool->in[1], 1, pool->is_mean);
    for (int64_t i = 0; i < width && rows == 0; i++)
        inside[i] = pool->is_mean ? 0 : -INFINITY;
    combine_taps(output, t, pool->out[1], pool->kernel[1], pool->dilation[1], pool->stride[1], pool->is_mean);
    if (pool->is_mean)
        KERNEL_BEST(pool_loops)
            ->divide(output, counts, (float)(pool->counts_pads ? pool->kernel[0] : rows), pool->out[1]);
}

/* Reduces planes that one window covers completely. */
static inlay_status planes_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const row_pool_call *call = user;
    const row_pool *pool = call->pool;
    const int64_t pixels = pool->in[0] * pool->in[1];

    (void)worker;
    (pool->is_mean ? KERNEL_BEST(rows)->means : KERNEL_BEST(rows)->tops)(call->input + begin * pixels,
                                                                         call->output + begin, end - begin, pixels);
    return INLAY_OK;
}

static inlay_status run_planes(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const row_pool *pool = (const row_pool *)(const void *)native;
    row_pool_call call = { pool, args[0], args[1] };
    const int64_t grain = 65536 / (pool->in[0] * pool->in[1] + 1) + 1;

    if (threads <= 1 || pool->planes <= grain)
        return planes_range(&call, 0, pool->planes, 0);
    return state->host->parallel_for(state->host->ctx, run, pool->planes, grain, planes_range, &call);
}

inlay_status cpu_lower_planes(cpu_build *build, const cpu_place *input, uint32_t result, cpu_place *out)
{
    const uint32_t rank = (uint32_t)input->layout.rank;
    row_pool pool = { .native.run = run_planes,
                      .planes = input->layout.dims[0] * input->layout.dims[1],
                      .in = { 1, 1 },
                      .is_mean = build->op->function != FUNCTION_POOL_MAX };
    int64_t dims[CPU_MAX_RANK];
    inlay_status status;
    tensor_layout output;

    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = d < 2 ? input->layout.dims[d] : 1;
        pool.in[1] *= d < 2 ? 1 : input->layout.dims[d];
    }
    layout_plain(&output, rank, dims);
    INLAY_TRY(cpu_result_place(build, result, &output, out));
    status = cpu_emit_step(build, &pool.native, sizeof pool, (const cpu_place *const[]){ input, out }, 2);
done:
    return status;
}

static inlay_status rows_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const row_pool_call *call = user;
    const row_pool *pool = call->pool;
    float t[MAX_ROW], columns[MAX_ROW], counts[MAX_ROW];

    (void)worker;
    if (pool->is_mean && !pool->is_square)
        count_columns(pool, counts);
    for (int64_t i = 0; i < (pool->is_mean ? pool->reach : MAX_ROW) && !pool->is_square; i++)
        t[i] = pool->is_mean ? 0 : -INFINITY;
    for (int64_t r = begin, done; r < end; r += done) {
        const float *input = call->input + r / pool->out[0] * pool->in[0] * pool->in[1];
        const int64_t row_out = r % pool->out[0], left = pool->out[0] - row_out;

        if (pool->is_square) {
            KERNEL_BEST(pool_loops)
                ->mean_of_squares(input + row_out * pool->stride[0] * pool->in[1], call->output + r * pool->out[1],
                                  pool->out[1], pool->in[1]);
            done = 1;
            continue;
        }
        done = max_rows_count(pool, input, row_out, left < end - r ? left : end - r);
        if (done > 0) {
            max_rows(pool, input, call->output + r * pool->out[1], row_out, done, t, columns);
            continue;
        }
        make_row(pool, input, call->output + r * pool->out[1], row_out, t, counts);
        done = 1;
    }
    return INLAY_OK;
}

/* Computes a small plane with stride 1: one loop combines all rows, another all columns. The elements computed across
 * the ends of rows are not used. buffer: 2 * MAX_ROW elements. */
static void make_plane(const row_pool *pool, const float *input, float *output, const float *counts, float *buffer)
{
    const int64_t height = pool->out[0] + (pool->kernel[0] - 1) * pool->dilation[0], reach = pool->reach,
                  all = height * reach;
    const int64_t in_rows = pool->in[0] < height - pool->begin[0] ? pool->in[0] : height - pool->begin[0];
    const int64_t width = pool->in[1] < reach - pool->begin[1] ? pool->in[1] : reach - pool->begin[1];
    const int64_t rows = pool->out[0] * reach, columns = rows - (pool->kernel[1] - 1) * pool->dilation[1];
    float *padded = buffer, *combined_rows = buffer + MAX_ROW;

    INLAY_CHECK(all <= MAX_ROW && columns > 0);
    for (int64_t i = 0; i < all; i++)
        padded[i] = pool->is_mean ? 0 : -INFINITY;
    KERNEL_BEST(moves)->rows(input, pool->in[1], padded + pool->begin[0] * reach + pool->begin[1], reach, in_rows,
                             width);
    if (!pool->is_mean && KERNEL_BEST(rows)->finite(input, pool->in[0] * pool->in[1])) {
        KERNEL_BEST(rows)->windows(padded, combined_rows, rows, pool->kernel[0], pool->dilation[0] * reach);
        KERNEL_BEST(rows)->windows(combined_rows, padded, columns, pool->kernel[1], pool->dilation[1]);
        KERNEL_BEST(moves)->rows(padded, reach, output, pool->out[1], pool->out[0], pool->out[1]);
        return;
    }
    combine_taps(combined_rows, padded, rows, pool->kernel[0], pool->dilation[0] * reach, 1, pool->is_mean);
    combine_taps(padded, combined_rows, columns, pool->kernel[1], pool->dilation[1], 1, pool->is_mean);
    for (int64_t h = 0; h < pool->out[0]; h++) {
        int64_t low;
        const int64_t taps = pool->counts_pads ? pool->kernel[0] : taps_inside(pool, 0, h - pool->begin[0], &low);

        memcpy(output + h * pool->out[1], padded + h * reach, (size_t)pool->out[1] * sizeof *output);
        if (pool->is_mean)
            KERNEL_BEST(pool_loops)->divide(output + h * pool->out[1], counts, (float)taps, pool->out[1]);
    }
}

static bool is_small(const row_pool *pool)
{
    return pool->stride[0] == 1 && pool->stride[1] == 1 && pool->dilation[0] <= MAX_ROW && pool->kernel[0] <= MAX_ROW &&
           pool->out[0] <= MAX_ROW &&
           (pool->out[0] + (pool->kernel[0] - 1) * pool->dilation[0]) * pool->reach <= MAX_ROW;
}

static inlay_status small_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const row_pool_call *call = user;
    const row_pool *pool = call->pool;
    float buffer[2 * MAX_ROW], counts[MAX_ROW];

    (void)worker;
    if (pool->is_mean)
        count_columns(pool, counts);
    for (int64_t p = begin; p < end; p++)
        make_plane(pool, call->input + p * pool->in[0] * pool->in[1], call->output + p * pool->out[0] * pool->out[1],
                   counts, buffer);
    return INLAY_OK;
}

static inlay_status run_rows(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const row_pool *pool = (const row_pool *)(const void *)native;
    row_pool_call call = { pool, args[0], args[1] };
    const bool small = is_small(pool);
    const int64_t units = small ? pool->planes : pool->planes * pool->out[0];
    const int64_t one =
        (pool->kernel[0] < pool->in[0] ? pool->kernel[0] : pool->in[0]) * pool->reach * (small ? pool->out[0] : 1);
    const int64_t grain = 65536 / (one + 1) + 1;
    const inlay_parallel_fn run_range = small ? small_range : rows_range;

    if (threads <= 1 || units <= grain)
        return run_range(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, grain, run_range, &call);
}

inlay_status cpu_lower_rows(cpu_build *build, const cpu_place *input, const int64_t *out_dims, const int64_t *kernel,
                            const int64_t *strides, const int64_t *dilations, const int64_t *begins, uint32_t result,
                            cpu_place *out, bool *out_done)
{
    const cpu_op *op = build->op;
    const uint32_t rank = (uint32_t)input->layout.rank, first = rank == 3 ? 1 : 0;
    row_pool pool = { .native.run = run_rows,
                      .in = { 1, 1 },
                      .out = { 1, 1 },
                      .kernel = { 1, 1 },
                      .stride = { 1, 1 },
                      .dilation = { 1, 1 },
                      .is_mean = op->function != FUNCTION_POOL_MAX,
                      .counts_pads = op->function == FUNCTION_POOL_MEAN_OF_PADS };
    inlay_status status = INLAY_OK;
    tensor_layout output;

    *out_done = false;
    if (input->layout.type != ELEMENT_FLOAT || rank < 3 || rank > 4)
        goto done;
    pool.planes = input->layout.dims[0] * input->layout.dims[1];
    for (uint32_t i = 0; i < rank - 2; i++) {
        pool.in[first + i] = input->layout.dims[2 + i];
        pool.out[first + i] = out_dims[2 + i];
        pool.kernel[first + i] = kernel[i];
        pool.stride[first + i] = strides[i];
        pool.dilation[first + i] = dilations[i] + 1;
        pool.begin[first + i] = begins[i];
    }
    /* Kernels much larger than the image are left to implementations that skip the padding. */
    if (pool.kernel[1] / 8 > pool.in[1] || pool.kernel[0] > INT32_MAX || pool.stride[1] > INT32_MAX ||
        pool.dilation[1] > INT32_MAX)
        goto done;
    pool.reach = (pool.out[1] - 1) * pool.stride[1] + (pool.kernel[1] - 1) * pool.dilation[1] + 1;
    if (pool.reach > MAX_ROW || pool.begin[1] >= pool.reach || pool.planes == 0)
        goto done;
    pool.is_square = pool.is_mean;
    for (int axis = 0; axis < 2; axis++)
        pool.is_square = pool.is_square && pool.kernel[axis] == 2 && pool.stride[axis] == 2 &&
                         pool.dilation[axis] == 1 && pool.begin[axis] == 0 && 2 * pool.out[axis] <= pool.in[axis];
    layout_plain(&output, rank, out_dims);
    INLAY_TRY(cpu_result_place(build, result, &output, out));
    *out_done = true;
    status = cpu_emit_step(build, &pool.native, sizeof pool, (const cpu_place *const[]){ input, out }, 2);
done:
    return status;
}
