/* MaxPool and AveragePool of images that lie row by row, in one or two dimensions (ONNX MaxPool-1..22,
 * AveragePool-1..22): the rows of a window are joined first, which are vectors as they lie, then columns of that. A
 * pool of an image that nobody has turned needs no turning. A NaN stays one. */
#include "pooling/pool_loops.h"
#include "region/build.h"
#include "simd/move_set.h"
#include "simd/row_set.h"
#include "convolution/window.h"
#include "simd/optional.h"
#include <math.h>

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(rg_lower_planes);
OPTIONAL_IF_CALLED(rg_lower_rows);

enum { MOST = 4096 }; /* a row with its padding */

typedef struct row_pool {
    rg_native native;
    int64_t planes, in[2], out[2], kernel[2], stride[2], dilation[2], begin[2];
    int64_t reach; /* what the windows of a row see, padding included */
    bool is_mean, counts_pads;
} row_pool;

typedef struct row_pool_call {
    const row_pool *m;
    const float *x;
    float *y;
} row_pool_call;

/* t[i] = all of x[i], x[i + step] ... joined, any number of them. stride: from one i to the next in x. */
static void join(float *t, const float *x, int64_t n, int64_t taps, int64_t step, int64_t stride, bool adds)
{
    const pool_loops *const loops = KERNEL_BEST(pool_loops);

    for (int64_t k = 0; k < taps; k += POOL_TAPS)
        (adds ? loops->join_sums : loops->join_tops)(
            t, x + k * step, n, (int)(taps - k < POOL_TAPS ? taps - k : POOL_TAPS), step, stride, k > 0);
}

/* How many taps of the window that begins at `first` lie in the image. */
static int64_t taps_inside(const row_pool *m, int axis, int64_t first, int64_t *out_low)
{
    const int64_t step = m->dilation[axis];
    const int64_t low = first < 0 ? (-first + step - 1) / step : 0;
    int64_t high = first < m->in[axis] ? (m->in[axis] - 1 - first) / step + 1 : 0;

    high = high < m->kernel[axis] ? high : m->kernel[axis];
    *out_low = low;
    return high > low ? high - low : 0;
}

/* How many columns count in each window of a row. */
static void count_columns(const row_pool *m, float *counts)
{
    for (int64_t p = 0; p < m->out[1]; p++) {
        int64_t low;

        counts[p] = (float)(m->counts_pads ? m->kernel[1] : taps_inside(m, 1, p * m->stride[1] - m->begin[1], &low));
    }
}

/* Rows [oh, oh + count) of the output, whose windows see numbers that are finite all: rows are joined for all of them
 * first, each in its `reach` of t, then columns. A vector that is read right after parts of it were written would wait
 * for these. Of columns all are made, of which those that count are picked. */
static void top_rows(const row_pool *m, const float *x, float *y, int64_t oh, int64_t count, float *t, float *columns)
{
    const row_set *set = KERNEL_BEST(rows);
    const int64_t width = m->in[1] < m->reach - m->begin[1] ? m->in[1] : m->reach - m->begin[1];

    for (int64_t r = 0; r < count; r++) {
        int64_t low;
        const int64_t top = (oh + r) * m->stride[0] - m->begin[0], rows = taps_inside(m, 0, top, &low);

        set->windows(x + (top + low * m->dilation[0]) * m->in[1], t + r * m->reach + m->begin[1], width, rows,
                     m->dilation[0] * m->in[1]);
    }
    set->windows(t, columns, count * m->reach - (m->kernel[1] - 1) * m->dilation[1], m->kernel[1], m->dilation[1]);
    if (m->stride[1] == 1)
        KERNEL_BEST(moves)->rows(columns, m->reach, y, m->out[1], count, m->out[1]);
    for (int64_t r = 0; r < count && m->stride[1] > 1; r++)
        KERNEL_BEST(pool_loops)->pick(columns + r * m->reach, y + r * m->out[1], m->out[1], m->stride[1]);
}

/* How many rows of the output from oh on, at most `most`, can be made so; 0: none. */
static int64_t top_rows_count(const row_pool *m, const float *x, int64_t oh, int64_t most)
{
    enum { DENSE = 4 }; /* strides up to which other columns are made for nothing */
    const int64_t count = most < MOST / m->reach ? most : MOST / m->reach;
    int64_t first = INT64_MAX, last = 0; /* of the rows seen: with dilation a window may end before the one above */

    if (m->is_mean || m->stride[1] > DENSE)
        return 0;
    for (int64_t r = oh; r < oh + count; r++) {
        int64_t low;
        const int64_t top = r * m->stride[0] - m->begin[0], rows = taps_inside(m, 0, top, &low);

        if (rows == 0)
            return 0;
        first = top + low * m->dilation[0] < first ? top + low * m->dilation[0] : first;
        last = top + (low + rows - 1) * m->dilation[0] > last ? top + (low + rows - 1) * m->dilation[0] : last;
    }
    return KERNEL_BEST(rows)->finite(x + first * m->in[1], (last - first + 1) * m->in[1]) ? count : 0;
}

/* Row oh of the output; x is its plane, t has room for `reach`, padded on both sides already. */
static void make_row(const row_pool *m, const float *x, float *y, int64_t oh, float *t, const float *counts)
{
    const int64_t top = oh * m->stride[0] - m->begin[0],
                  width = m->in[1] < m->reach - m->begin[1] ? m->in[1] : m->reach - m->begin[1];
    float *inside = t + m->begin[1];
    int64_t low;
    const int64_t rows = taps_inside(m, 0, top, &low);

    if (rows > 0)
        join(inside, x + (top + low * m->dilation[0]) * m->in[1], width, rows, m->dilation[0] * m->in[1], 1,
             m->is_mean);
    for (int64_t i = 0; i < width && rows == 0; i++)
        inside[i] = m->is_mean ? 0 : -INFINITY;
    join(y, t, m->out[1], m->kernel[1], m->dilation[1], m->stride[1], m->is_mean);
    if (m->is_mean)
        KERNEL_BEST(pool_loops)->divide(y, counts, (float)(m->counts_pads ? m->kernel[0] : rows), m->out[1]);
}

/* Planes whose only window is all of them. */
static inlay_status planes_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const row_pool_call *c = user;
    const row_pool *m = c->m;
    const int64_t pixels = m->in[0] * m->in[1];

    (void)worker;
    (m->is_mean ? KERNEL_BEST(rows)->means : KERNEL_BEST(rows)->tops)(c->x + begin * pixels, c->y + begin, end - begin,
                                                                      pixels);
    return INLAY_OK;
}

static inlay_status run_planes(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const row_pool *m = (const row_pool *)(const void *)native;
    row_pool_call c = { m, args[0], args[1] };
    const int64_t grain = 65536 / (m->in[0] * m->in[1] + 1) + 1;

    if (threads <= 1 || m->planes <= grain)
        return planes_some(&c, 0, m->planes, 0);
    return state->host->parallel_for(state->host->ctx, run, m->planes, grain, planes_some, &c);
}

inlay_status rg_lower_planes(rg_build *b, const rg_place *x, uint32_t result, rg_place *out)
{
    const uint32_t rank = (uint32_t)x->md.ndims;
    row_pool m = { .native.run = run_planes,
                   .planes = x->md.dims[0] * x->md.dims[1],
                   .in = { 1, 1 },
                   .is_mean = b->op->alg != DN_POOLING_MAX };
    int64_t dims[RG_MAX_RANK];
    inlay_status status;
    rg_md y;

    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = d < 2 ? x->md.dims[d] : 1;
        m.in[1] *= d < 2 ? 1 : x->md.dims[d];
    }
    rg_md_plain(&y, rank, dims);
    INLAY_TRY(rg_result_place(b, result, &y, out));
    status = rg_emit_step(b, &m.native, sizeof m, (const rg_place *const[]){ x, out }, 2);
done:
    return status;
}

static inlay_status rows_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const row_pool_call *c = user;
    const row_pool *m = c->m;
    float t[MOST], columns[MOST], counts[MOST];

    (void)worker;
    if (m->is_mean)
        count_columns(m, counts);
    for (int64_t i = 0; i < MOST; i++)
        t[i] = m->is_mean ? 0 : -INFINITY;
    for (int64_t r = begin, done; r < end; r += done) {
        const float *x = c->x + r / m->out[0] * m->in[0] * m->in[1];
        const int64_t oh = r % m->out[0], left = m->out[0] - oh;

        done = top_rows_count(m, x, oh, left < end - r ? left : end - r);
        if (done > 0) {
            top_rows(m, x, c->y + r * m->out[1], oh, done, t, columns);
            continue;
        }
        make_row(m, x, c->y + r * m->out[1], oh, t, counts);
        done = 1;
    }
    return INLAY_OK;
}

/* Planes that are small with their padding, and windows one by one: all rows of a plane are joined by one loop, then
 * all columns; what that makes of the ends of rows nobody reads. */
static void make_plane(const row_pool *m, const float *x, float *y, const float *counts, float *room)
{
    const int64_t height = m->out[0] + (m->kernel[0] - 1) * m->dilation[0], reach = m->reach, all = height * reach;
    const int64_t seen = m->in[0] < height - m->begin[0] ? m->in[0] : height - m->begin[0];
    const int64_t width = m->in[1] < reach - m->begin[1] ? m->in[1] : reach - m->begin[1];
    const int64_t rows = m->out[0] * reach, columns = rows - (m->kernel[1] - 1) * m->dilation[1];
    float *padded = room, *joined_rows = room + MOST;

    for (int64_t i = 0; i < all; i++)
        padded[i] = m->is_mean ? 0 : -INFINITY;
    KERNEL_BEST(moves)->rows(x, m->in[1], padded + m->begin[0] * reach + m->begin[1], reach, seen, width);
    if (!m->is_mean && KERNEL_BEST(rows)->finite(x, m->in[0] * m->in[1])) {
        KERNEL_BEST(rows)->windows(padded, joined_rows, rows, m->kernel[0], m->dilation[0] * reach);
        KERNEL_BEST(rows)->windows(joined_rows, padded, columns, m->kernel[1], m->dilation[1]);
        KERNEL_BEST(moves)->rows(padded, reach, y, m->out[1], m->out[0], m->out[1]);
        return;
    }
    join(joined_rows, padded, rows, m->kernel[0], m->dilation[0] * reach, 1, m->is_mean);
    join(padded, joined_rows, columns, m->kernel[1], m->dilation[1], 1, m->is_mean);
    for (int64_t h = 0; h < m->out[0]; h++) {
        int64_t low;
        const int64_t taps = m->counts_pads ? m->kernel[0] : taps_inside(m, 0, h - m->begin[0], &low);

        memcpy(y + h * m->out[1], padded + h * reach, (size_t)m->out[1] * sizeof *y);
        if (m->is_mean)
            KERNEL_BEST(pool_loops)->divide(y + h * m->out[1], counts, (float)taps, m->out[1]);
    }
}

static bool is_small(const row_pool *m)
{
    return m->stride[0] == 1 && m->stride[1] == 1 && m->dilation[0] <= MOST && m->kernel[0] <= MOST &&
           m->out[0] <= MOST && (m->out[0] + (m->kernel[0] - 1) * m->dilation[0]) * m->reach <= MOST;
}

static inlay_status small_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const row_pool_call *c = user;
    const row_pool *m = c->m;
    float room[2 * MOST], counts[MOST];

    (void)worker;
    if (m->is_mean)
        count_columns(m, counts);
    for (int64_t p = begin; p < end; p++)
        make_plane(m, c->x + p * m->in[0] * m->in[1], c->y + p * m->out[0] * m->out[1], counts, room);
    return INLAY_OK;
}

static inlay_status run_rows(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const row_pool *m = (const row_pool *)(const void *)native;
    row_pool_call c = { m, args[0], args[1] };
    const bool small = is_small(m);
    const int64_t units = small ? m->planes : m->planes * m->out[0];
    const int64_t one = (m->kernel[0] < m->in[0] ? m->kernel[0] : m->in[0]) * m->reach * (small ? m->out[0] : 1);
    const int64_t grain = 65536 / (one + 1) + 1;
    const inlay_parallel_fn some = small ? small_some : rows_some;

    if (threads <= 1 || units <= grain)
        return some(&c, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, grain, some, &c);
}

inlay_status rg_lower_rows(rg_build *b, const rg_place *x, const int64_t *out_dims, const int64_t *kernel,
                           const int64_t *strides, const int64_t *dilations, const int64_t *begins, uint32_t result,
                           rg_place *out, bool *out_done)
{
    const rg_op *op = b->op;
    const uint32_t rank = (uint32_t)x->md.ndims, first = rank == 3 ? 1 : 0;
    row_pool m = { .native.run = run_rows,
                   .in = { 1, 1 },
                   .out = { 1, 1 },
                   .kernel = { 1, 1 },
                   .stride = { 1, 1 },
                   .dilation = { 1, 1 },
                   .is_mean = op->alg != DN_POOLING_MAX,
                   .counts_pads = op->alg == DN_POOLING_AVG_INCLUDE_PADDING };
    inlay_status status = INLAY_OK;
    rg_md y;

    *out_done = false;
    if (x->md.data_type != DN_F32 || rank < 3 || rank > 4)
        goto done;
    m.planes = x->md.dims[0] * x->md.dims[1];
    for (uint32_t i = 0; i < rank - 2; i++) {
        m.in[first + i] = x->md.dims[2 + i];
        m.out[first + i] = out_dims[2 + i];
        m.kernel[first + i] = kernel[i];
        m.stride[first + i] = strides[i];
        m.dilation[first + i] = dilations[i] + 1;
        m.begin[first + i] = begins[i];
    }
    /* As far as windows reach; one much larger than the image is left to whoever looks at what is in it alone. */
    if (m.kernel[1] / 8 > m.in[1] || m.kernel[0] > INT32_MAX || m.stride[1] > INT32_MAX || m.dilation[1] > INT32_MAX)
        goto done;
    m.reach = (m.out[1] - 1) * m.stride[1] + (m.kernel[1] - 1) * m.dilation[1] + 1;
    if (m.reach > MOST || m.begin[1] >= m.reach || m.planes == 0)
        goto done;
    rg_md_plain(&y, rank, out_dims);
    INLAY_TRY(rg_result_place(b, result, &y, out));
    *out_done = true;
    status = rg_emit_step(b, &m.native, sizeof m, (const rg_place *const[]){ x, out }, 2);
done:
    return status;
}
