/* MaxPool, GlobalMaxPool, ReduceMax and AveragePool of images in one to three dimensions (ONNX MaxPool-1..22,
 * AveragePool-1..22), in the layout of the input: channels last or, for maxima only, row-major. The maximum is NaN
 * if any element is NaN, and -inf if all are -inf. */
#include "cpu/pooling/pool_lanes.h"
#include "cpu/pooling/pool_loops.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "cpu/region/build.h"
#include <math.h>

/* Strides of an image in elements. A plane holds one channel, a block of channels, or all channels; a pixel of a plane
 * has `lanes` contiguous elements. */
struct image {
    int64_t batch, plane, slice, row, pixel;
};

typedef struct image_pool {
    cpu_native native;
    int64_t batches, planes, batch_step, plane_step, out_batch_step, out_plane_step;
    pool_plane plane;
} image_pool;

typedef struct image_call {
    const image_pool *pool;
    const float *input;
    float *output;
} image_call;

static void max_taps(const float *input, float *output, int64_t pixels, int64_t lanes, int64_t x_step, int64_t y_step,
                     int64_t taps, int64_t tap_step)
{
    for (; taps >= 3; taps -= 3, input += 3 * tap_step)
        KERNEL_BEST(pool_loops)->max3_into(input, output, pixels, lanes, x_step, y_step, tap_step);
    for (; taps > 0; taps--, input += tap_step)
        KERNEL_BEST(pool_loops)->max_into(input, output, pixels, lanes, x_step, y_step);
}

/* *output = the maximum of *output and n contiguous elements. */
static void max_row(const float *input, float *output, int64_t n)
{
    enum { LANES = 64 };
    float lanes[LANES];
    int64_t i = 0;

    if (n >= LANES) {
        memcpy(lanes, input, sizeof lanes);
        i = n / LANES * LANES;
        KERNEL_BEST(pool_loops)->max_into(input + LANES, lanes, i / LANES - 1, LANES, LANES, 0);
        for (int64_t half = LANES / 2; half > 0; half /= 2)
            KERNEL_BEST(pool_loops)->max_into(lanes + half, lanes, 1, half, 0, 0);
        KERNEL_BEST(pool_loops)->max_into(lanes, output, 1, 1, 0, 0);
    }
    for (; i < n; i++)
        *output = input[i] > *output || input[i] != input[i] ? input[i] : *output;
}

/* Includes a row of the image in the maximum of an output row that has one pixel. */
static void max_pixel(const pool_plane *plane, const float *row, float *output)
{
    const pool_window *window = &plane->window;
    int64_t low;
    const int64_t taps = pool_taps(window, 2, -window->begin[2], &low), step = window->dilation[2] * plane->pixel_step;

    row += low * step - window->begin[2] * plane->pixel_step;
    if (taps > 0 && plane->lanes == 1 && step == 1)
        max_row(row, output, taps);
    else if (taps > 0)
        KERNEL_BEST(pool_loops)->max_into(row, output, taps, plane->lanes, step, 0);
}

/* Includes a row of the image in the maxima of an output row. */
static void max_pixels(const pool_plane *plane, const float *row, float *output)
{
    const pool_window *window = &plane->window;
    const int64_t step = window->dilation[2] * plane->pixel_step, x_step = window->stride[2] * plane->pixel_step;

    for (int64_t p = 0; p < window->out[2];) { /* groups pixels with the same taps inside the image */
        const int64_t first = p * window->stride[2] - window->begin[2];
        const float *input = row + first * plane->pixel_step;
        int64_t low, next_low, last = p;
        const int64_t taps = pool_taps(window, 2, first, &low);

        do
            last++;
        while (last < window->out[2] &&
               pool_taps(window, 2, last * window->stride[2] - window->begin[2], &next_low) == taps && next_low == low);
        if (taps > 0 && plane->lanes == plane->out_pixel_step && x_step == plane->lanes)
            max_taps(input + low * step, output + p * plane->out_pixel_step, 1, (last - p) * plane->lanes, 0, 0, taps,
                     step);
        else if (taps > 0)
            max_taps(input + low * step, output + p * plane->out_pixel_step, last - p, plane->lanes, x_step,
                     plane->out_pixel_step, taps, step);
        p = last;
    }
}

/* Computes a row of maxima of any numbers; input and output point to the beginning of the plane. */
static void make_row(const pool_plane *plane, const float *input, float *output, int64_t slice_out, int64_t row_out)
{
    const pool_window *window = &plane->window;
    const int64_t front = slice_out * window->stride[0] - window->begin[0],
                  top = row_out * window->stride[1] - window->begin[1];
    int64_t first_slice, first_row;
    const int64_t slices = pool_taps(window, 0, front, &first_slice), rows = pool_taps(window, 1, top, &first_row);

    output += slice_out * plane->out_slice_step + row_out * plane->out_row_step;
    for (int64_t p = 0; p < window->out[2]; p++)
        for (int64_t i = 0; i < plane->lanes; i++)
            output[p * plane->out_pixel_step + i] = -INFINITY;
    for (int64_t k = 0; k < slices * rows; k++) {
        const int64_t slice = front + (first_slice + k / rows) * window->dilation[0],
                      row = top + (first_row + k % rows) * window->dilation[1];

        (window->out[2] == 1 ? max_pixel : max_pixels)(plane, input + slice * plane->slice_step + row * plane->row_step,
                                                       output);
    }
}

static inlay_status rows_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const image_call *call = user;
    const image_pool *pool = call->pool;
    const pool_plane *plane = &pool->plane;
    const int64_t *out = plane->window.out;

    (void)worker;
    INLAY_CHECK(begin <= end && end <= pool->batches * pool->planes * out[0] * out[1]);
    for (int64_t r = begin; r < end; r++) {
        const int64_t row_out = r % out[1], slice_out = r / out[1] % out[0], i = r / out[1] / out[0];
        const float *input = call->input + i / pool->planes * pool->batch_step + i % pool->planes * pool->plane_step;
        float *output =
            call->output + i / pool->planes * pool->out_batch_step + i % pool->planes * pool->out_plane_step;

        if (plane->lanes == 1 || !KERNEL_BEST(pool_lanes)->row(plane, input, output, slice_out, row_out))
            make_row(plane, input, output, slice_out, row_out);
    }
    return INLAY_OK;
}

static inlay_status run_image(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const image_pool *pool = (const image_pool *)(const void *)native;
    const pool_window *window = &pool->plane.window;
    image_call call = { pool, args[0], args[1] };
    const int64_t rows = pool->batches * pool->planes * window->out[0] * window->out[1];
    const double row = (double)window->out[2] * (double)pool->plane.lanes * (double)window->kernel[0] *
                       (double)window->kernel[1] * (double)window->kernel[2];
    const int64_t grain = row < 32768 ? (int64_t)(32768 / (row + 1)) + 1 : 1;

    if (threads <= 1 || rows <= grain)
        return rows_range(&call, 0, rows, 0);
    return state->host->parallel_for(state->host->ctx, run, rows, grain, rows_range, &call);
}

/* Reads the strides, planes and lanes of an image; false: the layout is not supported. */
static bool read_image(const tensor_layout *layout, struct image *out, int64_t *planes, int64_t *lanes)
{
    const uint32_t rank = (uint32_t)layout->rank;

    if (layout->kind != LAYOUT_STRIDED || layout->type != ELEMENT_FLOAT || rank < 3 || rank > 5)
        return false;
    *out = (struct image){ .batch = layout->strides[0],
                           .plane = layout->strides[1],
                           .slice = rank > 4 ? layout->strides[2] : 0,
                           .row = rank > 3 ? layout->strides[rank - 2] : 0,
                           .pixel = layout->strides[rank - 1] };
    *lanes = 1;
    *planes = layout->dims[1];
    if (layout->strides[1] == 1 && (layout->dims[1] > 1 || out->pixel != 1)) {
        *lanes = layout->dims[1];
        *planes = 1;
    }
    return true;
}

inlay_status cpu_lower_image(cpu_build *build, const cpu_place *input, const int64_t *out_dims,
                             const pool_window *window, uint32_t result, cpu_place *out, bool *out_done)
{
    const uint32_t rank = (uint32_t)input->layout.rank;
    image_pool pool = { .native.run = run_image, .batches = input->layout.dims[0], .plane.window = *window };
    struct image image, made = { 0 };
    int64_t planes = 0, lanes = 0;
    inlay_status status = INLAY_OK;
    tensor_layout output;

    *out_done = false;
    if (!read_image(&input->layout, &image, &pool.planes, &pool.plane.lanes) ||
        (window->is_mean && pool.plane.lanes == 1))
        goto done;
    if (pool.plane.lanes > 1) {
        layout_channels_last(&output, rank, out_dims);
    } else {
        layout_plain(&output, rank, out_dims);
    }
    (void)read_image(&output, &made, &planes, &lanes);
    if (planes != pool.planes || lanes != pool.plane.lanes) { /* both layouts are equal for one pixel */
        lanes = pool.plane.lanes;
        made = (struct image){ .batch = pool.planes * lanes, .plane = lanes, .pixel = lanes };
        if (window->out[0] != 1 || window->out[1] != 1 || window->out[2] != 1)
            goto done;
    }
    pool.batch_step = image.batch;
    pool.plane_step = image.plane;
    pool.out_batch_step = made.batch;
    pool.out_plane_step = made.plane;
    pool.plane.slice_step = image.slice;
    pool.plane.row_step = image.row;
    pool.plane.pixel_step = image.pixel;
    pool.plane.out_slice_step = made.slice;
    pool.plane.out_row_step = made.row;
    pool.plane.out_pixel_step = made.pixel;
    INLAY_TRY(cpu_result_place(build, result, &output, out));
    *out_done = true;
    status = cpu_emit_step(build, &pool.native, sizeof pool, (const cpu_place *const[]){ input, out }, 2);
done:
    return status;
}
