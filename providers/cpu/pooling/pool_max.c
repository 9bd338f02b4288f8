/* MaxPool, GlobalMaxPool and ReduceMax of images in one or two dimensions (ONNX MaxPool-1..22), by a loop over the
 * image as it lies: row-major, channels last, or in blocks of channels. The maximum of anything and NaN is NaN, of -inf
 * alone -inf; oneDNN's kernels have another number there, and are no faster, for this is all loads. */
#include "pooling/pool_loops.h"
#include "region/build.h"
#include "convolution/window.h"
#include <math.h>

/* Images as planes (of one channel, of a block of them, or of all), rows, pixels, and `lanes` numbers side by side. */
struct image {
    int64_t batch, plane, row, pixel; /* steps, in elements */
};

struct maxima {
    rg_native native;
    int64_t batches, planes, lanes;
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], begin[2];
    struct image x, y;
};

typedef struct maxima_call {
    const struct maxima *m;
    const float *x;
    float *y;
} maxima_call;

static void take(const float *x, float *y, int64_t pixels, int64_t lanes, int64_t x_step, int64_t y_step, int64_t taps,
                 int64_t tap_step)
{
    for (; taps >= 3; taps -= 3, x += 3 * tap_step)
        KERNEL_BEST(pool_loops)->take_three(x, y, pixels, lanes, x_step, y_step, tap_step);
    for (; taps > 0; taps--, x += tap_step)
        KERNEL_BEST(pool_loops)->take_one(x, y, pixels, lanes, x_step, y_step);
}

/* n numbers one after the other into one. */
static void take_row(const float *x, float *y, int64_t n)
{
    enum { SIDE = 64 };
    float side[SIDE];
    int64_t i = 0;

    if (n >= SIDE) {
        memcpy(side, x, sizeof side);
        i = n / SIDE * SIDE;
        KERNEL_BEST(pool_loops)->take_one(x + SIDE, side, i / SIDE - 1, SIDE, SIDE, 0);
        for (int64_t half = SIDE / 2; half > 0; half /= 2)
            KERNEL_BEST(pool_loops)->take_one(side + half, side, 1, half, 0, 0);
        KERNEL_BEST(pool_loops)->take_one(side, y, 1, 1, 0, 0);
    }
    for (; i < n; i++)
        *y = x[i] > *y || x[i] != x[i] ? x[i] : *y;
}

/* Taps [*low, *high) of a window that begins at that row (axis 0) or column (1) lie in the image. */
static void taps_along(const struct maxima *m, int axis, int64_t first, int64_t *low, int64_t *high)
{
    const int64_t step = m->dilation[axis];

    *low = first < 0 ? (-first + step - 1) / step : 0;
    *high = first < m->in[axis] ? (m->in[axis] - 1 - first) / step + 1 : 0;
    *high = *high < m->kernel[axis] ? *high : m->kernel[axis];
}

static void taps_inside(const struct maxima *m, int64_t first, int64_t *low, int64_t *high)
{
    taps_along(m, 1, first, low, high);
}

static bool has_taps(const struct maxima *m, int64_t first, int64_t low, int64_t high)
{
    int64_t l, h;

    taps_inside(m, first, &l, &h);
    return l == low && h == high;
}

/* A row of the image into the only pixel of the output's. */
static void one_pixel(const struct maxima *m, const float *row, float *y)
{
    int64_t low, high;

    taps_inside(m, -m->begin[1], &low, &high);
    row += (low * m->dilation[1] - m->begin[1]) * m->x.pixel;
    if (high > low && m->lanes == 1 && m->dilation[1] * m->x.pixel == 1)
        take_row(row, y, high - low);
    else if (high > low)
        KERNEL_BEST(pool_loops)->take_one(row, y, high - low, m->lanes, m->dilation[1] * m->x.pixel, 0);
}

/* One row of the output; x and y are where its plane begins. */
static void make_row(const struct maxima *m, const float *x, float *y, int64_t oh)
{
    const int64_t top = oh * m->stride[0] - m->begin[0];
    int64_t first_row, last_row;

    taps_along(m, 0, top, &first_row, &last_row);
    y += oh * m->y.row;
    for (int64_t p = 0; p < m->out[1]; p++)
        for (int64_t i = 0; i < m->lanes; i++)
            y[p * m->y.pixel + i] = -INFINITY;
    for (int64_t kh = first_row; kh < last_row; kh++) {
        const float *row = x + (top + kh * m->dilation[0]) * m->x.row;

        if (m->out[1] == 1) {
            one_pixel(m, row, y);
            continue;
        }
        for (int64_t p = 0; p < m->out[1];) { /* pixels whose taps are in the image alike go together */
            int64_t low, high, last = p, first = p * m->stride[1] - m->begin[1];

            taps_inside(m, first, &low, &high);
            do
                last++;
            while (last < m->out[1] && has_taps(m, last * m->stride[1] - m->begin[1], low, high));
            if (high > low && m->lanes == m->y.pixel && m->stride[1] * m->x.pixel == m->lanes)
                take(row + (first + low * m->dilation[1]) * m->x.pixel, y + p * m->y.pixel, 1, (last - p) * m->lanes, 0,
                     0, high - low, m->dilation[1] * m->x.pixel);
            else if (high > low)
                take(row + (first + low * m->dilation[1]) * m->x.pixel, y + p * m->y.pixel, last - p, m->lanes,
                     m->stride[1] * m->x.pixel, m->y.pixel, high - low, m->dilation[1] * m->x.pixel);
            p = last;
        }
    }
}

static inlay_status rows_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const maxima_call *c = user;
    const struct maxima *m = c->m;

    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        const int64_t oh = r % m->out[0], plane = r / m->out[0] % m->planes, n = r / m->out[0] / m->planes;

        make_row(m, c->x + n * m->x.batch + plane * m->x.plane, c->y + n * m->y.batch + plane * m->y.plane, oh);
    }
    return INLAY_OK;
}

static inlay_status run_maxima(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct maxima *m = (const struct maxima *)(const void *)native;
    maxima_call c = { m, args[0], args[1] };
    const int64_t rows = m->batches * m->planes * m->out[0];
    const double row = (double)m->out[1] * (double)m->lanes * (double)m->kernel[0] * (double)m->kernel[1];
    const int64_t grain = row < 32768 ? (int64_t)(32768 / (row + 1)) + 1 : 1;

    if (threads <= 1 || rows <= grain)
        return rows_some(&c, 0, rows, 0);
    return state->host->parallel_for(state->host->ctx, run, rows, grain, rows_some, &c);
}

/* How the image lies; false: in a way that the loop does not know. */
static bool read_image(const rg_md *md, struct image *out, int64_t *planes, int64_t *lanes)
{
    const rg_md *b = md;
    const uint32_t rank = (uint32_t)md->ndims;

    if (md->kind != RG_BLOCKED || md->data_type != DN_F32 || rank < 3 || rank > 4 || b->inner_nblks > 1 ||
        (b->inner_nblks == 1 && b->inner_idxs[0] != 1))
        return false;
    *out = (struct image){ .batch = b->strides[0],
                           .plane = b->strides[1],
                           .row = rank == 4 ? b->strides[2] : 0,
                           .pixel = b->strides[rank - 1] };
    *lanes = 1;
    *planes = md->dims[1];
    if (b->inner_nblks == 1) {
        *lanes = b->inner_blks[0];
        *planes = md->padded_dims[1] / *lanes;
    } else if (b->strides[1] == 1 && (md->dims[1] > 1 || out->pixel != 1)) {
        *lanes = md->dims[1];
        *planes = 1;
    }
    return true;
}

inlay_status rg_lower_max(rg_build *b, const rg_place *x, const int64_t *out_dims, const int64_t *kernel,
                          const int64_t *strides, const int64_t *dilations, const int64_t *begins, uint32_t result,
                          rg_place *out, bool *out_done)
{
    const uint32_t rank = (uint32_t)x->md.ndims, first = rank == 3 ? 1 : 0;
    struct maxima m = { .native.run = run_maxima,
                        .batches = x->md.dims[0],
                        .in = { 1, 1 },
                        .out = { 1, 1 },
                        .kernel = { 1, 1 },
                        .stride = { 1, 1 },
                        .dilation = { 1, 1 } };
    int64_t planes = 0, lanes = 0;
    inlay_status status = INLAY_OK;
    rg_md y;

    *out_done = false;
    if (!read_image(&x->md, &m.x, &m.planes, &m.lanes))
        goto done;
    if (rg_md_is_blocked(&x->md)) {
        if (!rg_md_same_blocks(&x->md, rank, out_dims, &y))
            goto done;
    } else if (m.lanes > 1) {
        rg_md_channels_last(&y, rank, out_dims);
    } else {
        rg_md_plain(&y, rank, out_dims);
    }
    (void)read_image(&y, &m.y, &planes, &lanes);
    if (planes != m.planes || lanes != m.lanes) { /* an image of one pixel, which lies either way */
        m.y = (struct image){ .batch = m.planes * m.lanes, .plane = m.lanes, .row = 0, .pixel = m.lanes };
        if (out_dims[rank - 1] != 1 || out_dims[2] != 1)
            goto done;
    }
    for (uint32_t i = 0; i < rank - 2; i++) {
        m.in[first + i] = x->md.dims[2 + i];
        m.out[first + i] = out_dims[2 + i];
        m.kernel[first + i] = kernel[i];
        m.stride[first + i] = strides[i];
        m.dilation[first + i] = dilations[i] + 1;
        m.begin[first + i] = begins[i];
    }
    INLAY_TRY(rg_result_place(b, result, &y, out));
    *out_done = true;
    status = rg_emit_step(b, &m.native, sizeof m, (const rg_place *const[]){ x, out }, 2);
done:
    return status;
}
