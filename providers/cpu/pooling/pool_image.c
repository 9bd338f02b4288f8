/* MaxPool, GlobalMaxPool, ReduceMax and AveragePool of images in one or two dimensions (ONNX MaxPool-1..22,
 * AveragePool-1..22), in the layout of the input: channels last or, for maxima only, row-major. The maximum is NaN
 * if any element is NaN, and -inf if all are -inf. */
#include "cpu/pooling/pool_lanes.h"
#include "cpu/pooling/pool_loops.h"
#include "inlay/check.h"
#include "cpu/region/build.h"
#include <math.h>

/* Strides of an image in elements. A plane holds one channel, a block of channels, or all channels; a pixel of a plane
 * has `lanes` contiguous elements. */
struct image {
    int64_t batch, plane, row, pixel;
};

typedef struct image_pool {
    cpu_native native;
    int64_t batches, planes, batch_step, plane_step, out_batch_step, out_plane_step;
    pool_window window;
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
static void max_pixel(const pool_window *window, const float *row, float *output)
{
    int64_t low;
    const int64_t taps = pool_taps(window, 1, -window->begin[1], &low), step = window->dilation[1] * window->pixel_step;

    row += low * step - window->begin[1] * window->pixel_step;
    if (taps > 0 && window->lanes == 1 && step == 1)
        max_row(row, output, taps);
    else if (taps > 0)
        KERNEL_BEST(pool_loops)->max_into(row, output, taps, window->lanes, step, 0);
}

/* Computes row `row_out` of maxima of any numbers; input and output point to the beginning of the plane. */
static void make_row(const pool_window *window, const float *input, float *output, int64_t row_out)
{
    const int64_t top = row_out * window->stride[0] - window->begin[0], step = window->dilation[1] * window->pixel_step;
    int64_t first_row;
    const int64_t rows = pool_taps(window, 0, top, &first_row);

    output += row_out * window->out_row_step;
    for (int64_t p = 0; p < window->out[1]; p++)
        for (int64_t i = 0; i < window->lanes; i++)
            output[p * window->out_pixel_step + i] = -INFINITY;
    for (int64_t kernel_row = first_row; kernel_row < first_row + rows; kernel_row++) {
        const float *row = input + (top + kernel_row * window->dilation[0]) * window->row_step;

        if (window->out[1] == 1) {
            max_pixel(window, row, output);
            continue;
        }
        for (int64_t p = 0; p < window->out[1];) { /* groups pixels with the same taps inside the image */
            const int64_t first = p * window->stride[1] - window->begin[1];
            int64_t low, next_low, last = p;
            const int64_t taps = pool_taps(window, 1, first, &low);

            do
                last++;
            while (last < window->out[1] &&
                   pool_taps(window, 1, last * window->stride[1] - window->begin[1], &next_low) == taps &&
                   next_low == low);
            if (taps > 0 && window->lanes == window->out_pixel_step &&
                window->stride[1] * window->pixel_step == window->lanes)
                max_taps(row + first * window->pixel_step + low * step, output + p * window->out_pixel_step, 1,
                         (last - p) * window->lanes, 0, 0, taps, step);
            else if (taps > 0)
                max_taps(row + first * window->pixel_step + low * step, output + p * window->out_pixel_step, last - p,
                         window->lanes, window->stride[1] * window->pixel_step, window->out_pixel_step, taps, step);
            p = last;
        }
    }
}

static inlay_status rows_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const image_call *call = user;
    const image_pool *pool = call->pool;
    const pool_window *window = &pool->window;

    (void)worker;
    INLAY_CHECK(begin <= end && end <= pool->batches * pool->planes * window->out[0]);
    for (int64_t r = begin; r < end; r++) {
        const int64_t row_out = r % window->out[0], plane = r / window->out[0] % pool->planes,
                      batch = r / window->out[0] / pool->planes;
        const float *input = call->input + batch * pool->batch_step + plane * pool->plane_step;
        float *output = call->output + batch * pool->out_batch_step + plane * pool->out_plane_step;

        if (window->lanes == 1 || !KERNEL_BEST(pool_lanes)->row(window, input, output, row_out))
            make_row(window, input, output, row_out);
    }
    return INLAY_OK;
}

static inlay_status run_image(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const image_pool *pool = (const image_pool *)(const void *)native;
    const pool_window *window = &pool->window;
    image_call call = { pool, args[0], args[1] };
    const int64_t rows = pool->batches * pool->planes * window->out[0];
    const double row =
        (double)window->out[1] * (double)window->lanes * (double)window->kernel[0] * (double)window->kernel[1];
    const int64_t grain = row < 32768 ? (int64_t)(32768 / (row + 1)) + 1 : 1;

    if (threads <= 1 || rows <= grain)
        return rows_range(&call, 0, rows, 0);
    return state->host->parallel_for(state->host->ctx, run, rows, grain, rows_range, &call);
}

/* Reads the strides, planes and lanes of an image; false: the layout is not supported. */
static bool read_image(const tensor_layout *layout, struct image *out, int64_t *planes, int64_t *lanes)
{
    const uint32_t rank = (uint32_t)layout->rank;

    if (layout->kind != LAYOUT_STRIDED || layout->type != ELEMENT_FLOAT || rank < 3 || rank > 4)
        return false;
    *out = (struct image){ .batch = layout->strides[0],
                           .plane = layout->strides[1],
                           .row = rank == 4 ? layout->strides[2] : 0,
                           .pixel = layout->strides[rank - 1] };
    *lanes = 1;
    *planes = layout->dims[1];
    if (layout->strides[1] == 1 && (layout->dims[1] > 1 || out->pixel != 1)) {
        *lanes = layout->dims[1];
        *planes = 1;
    }
    return true;
}

inlay_status cpu_lower_image(cpu_build *build, const cpu_place *input, const int64_t *out_dims, const int64_t *kernel,
                             const int64_t *strides, const int64_t *dilations, const int64_t *begins, uint32_t result,
                             cpu_place *out, bool *out_done)
{
    const element_function function = build->op->function;
    const uint32_t rank = (uint32_t)input->layout.rank, first = rank == 3 ? 1 : 0;
    pool_window window = { .in = { 1, 1 },
                           .out = { 1, 1 },
                           .kernel = { 1, 1 },
                           .stride = { 1, 1 },
                           .dilation = { 1, 1 },
                           .is_mean = function != FUNCTION_POOL_MAX,
                           .counts_pads = function == FUNCTION_POOL_MEAN_OF_PADS };
    image_pool pool = { .native.run = run_image, .batches = input->layout.dims[0] };
    struct image image, made = { 0 };
    int64_t planes = 0, lanes = 0;
    inlay_status status = INLAY_OK;
    tensor_layout output;

    *out_done = false;
    if (!read_image(&input->layout, &image, &pool.planes, &window.lanes) || (window.is_mean && window.lanes == 1))
        goto done;
    if (window.lanes > 1) {
        layout_channels_last(&output, rank, out_dims);
    } else {
        layout_plain(&output, rank, out_dims);
    }
    (void)read_image(&output, &made, &planes, &lanes);
    if (planes != pool.planes || lanes != window.lanes) { /* both layouts are equal for one pixel */
        made = (struct image){
            .batch = pool.planes * window.lanes, .plane = window.lanes, .row = 0, .pixel = window.lanes
        };
        if (out_dims[rank - 1] != 1 || out_dims[2] != 1)
            goto done;
    }
    pool.batch_step = image.batch;
    pool.plane_step = image.plane;
    pool.out_batch_step = made.batch;
    pool.out_plane_step = made.plane;
    window.row_step = image.row;
    window.pixel_step = image.pixel;
    window.out_row_step = made.row;
    window.out_pixel_step = made.pixel;
    for (uint32_t i = 0; i < rank - 2; i++) {
        window.in[first + i] = input->layout.dims[2 + i];
        window.out[first + i] = out_dims[2 + i];
        window.kernel[first + i] = kernel[i];
        window.stride[first + i] = strides[i];
        window.dilation[first + i] = dilations[i] + 1;
        window.begin[first + i] = begins[i];
    }
    pool.window = window;
    INLAY_TRY(cpu_result_place(build, result, &output, out));
    *out_done = true;
    status = cpu_emit_step(build, &pool.native, sizeof pool, (const cpu_place *const[]){ input, out }, 2);
done:
    return status;
}
