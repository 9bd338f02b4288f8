/* MaxPool, GlobalMaxPool and ReduceMax of images in one or two dimensions (ONNX MaxPool-1..22), in the layout of the
 * input: row-major, channels last, or blocked channels. The maximum is NaN if any element is NaN, and -inf if all are
 * -inf. oneDNN's kernels have other results there, and are not faster, because loads dominate. */
#include "cpu/pooling/pool_loops.h"
#include "inlay/check.h"
#include "cpu/region/build.h"
#include <math.h>

/* Strides of an image in elements. A plane holds one channel, a block of channels, or all channels; a pixel of a plane
 * has `lanes` contiguous elements. */
struct image {
    int64_t batch, plane, row, pixel;
};

struct maxima {
    cpu_native native;
    int64_t batches, planes, lanes;
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], begin[2];
    struct image image, y;
};

typedef struct maxima_call {
    const struct maxima *maxima;
    const float *input;
    float *output;
} maxima_call;

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

/* The taps [*low, *high) inside the image, of a window that begins at row (axis 0) or column (axis 1) `first`. */
static void taps_along(const struct maxima *maxima, int axis, int64_t first, int64_t *low, int64_t *high)
{
    const int64_t step = maxima->dilation[axis];

    *low = first < 0 ? (-first + step - 1) / step : 0;
    *high = first < maxima->in[axis] ? (maxima->in[axis] - 1 - first) / step + 1 : 0;
    *high = *high < maxima->kernel[axis] ? *high : maxima->kernel[axis];
}

static void taps_inside(const struct maxima *maxima, int64_t first, int64_t *low, int64_t *high)
{
    taps_along(maxima, 1, first, low, high);
}

static bool has_taps(const struct maxima *maxima, int64_t first, int64_t low, int64_t high)
{
    int64_t l, h;

    taps_inside(maxima, first, &l, &h);
    return l == low && h == high;
}

/* Includes a row of the image in the maximum of an output row that has one pixel. */
static void max_pixel(const struct maxima *maxima, const float *row, float *output)
{
    int64_t low, high;

    taps_inside(maxima, -maxima->begin[1], &low, &high);
    row += (low * maxima->dilation[1] - maxima->begin[1]) * maxima->image.pixel;
    if (high > low && maxima->lanes == 1 && maxima->dilation[1] * maxima->image.pixel == 1)
        max_row(row, output, high - low);
    else if (high > low)
        KERNEL_BEST(pool_loops)
            ->max_into(row, output, high - low, maxima->lanes, maxima->dilation[1] * maxima->image.pixel, 0);
}

/* Computes row `row_out` of the output; input and output point to the beginning of the plane. */
static void make_row(const struct maxima *maxima, const float *input, float *output, int64_t row_out)
{
    const int64_t top = row_out * maxima->stride[0] - maxima->begin[0];
    int64_t first_row, last_row;

    taps_along(maxima, 0, top, &first_row, &last_row);
    output += row_out * maxima->y.row;
    for (int64_t p = 0; p < maxima->out[1]; p++)
        for (int64_t i = 0; i < maxima->lanes; i++)
            output[p * maxima->y.pixel + i] = -INFINITY;
    for (int64_t kernel_row = first_row; kernel_row < last_row; kernel_row++) {
        const float *row = input + (top + kernel_row * maxima->dilation[0]) * maxima->image.row;

        if (maxima->out[1] == 1) {
            max_pixel(maxima, row, output);
            continue;
        }
        for (int64_t p = 0; p < maxima->out[1];) { /* groups pixels with the same taps inside the image */
            int64_t low, high, last = p, first = p * maxima->stride[1] - maxima->begin[1];

            taps_inside(maxima, first, &low, &high);
            do
                last++;
            while (last < maxima->out[1] && has_taps(maxima, last * maxima->stride[1] - maxima->begin[1], low, high));
            if (high > low && maxima->lanes == maxima->y.pixel &&
                maxima->stride[1] * maxima->image.pixel == maxima->lanes)
                max_taps(row + (first + low * maxima->dilation[1]) * maxima->image.pixel, output + p * maxima->y.pixel,
                         1, (last - p) * maxima->lanes, 0, 0, high - low, maxima->dilation[1] * maxima->image.pixel);
            else if (high > low)
                max_taps(row + (first + low * maxima->dilation[1]) * maxima->image.pixel, output + p * maxima->y.pixel,
                         last - p, maxima->lanes, maxima->stride[1] * maxima->image.pixel, maxima->y.pixel, high - low,
                         maxima->dilation[1] * maxima->image.pixel);
            p = last;
        }
    }
}

static inlay_status rows_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const maxima_call *call = user;
    const struct maxima *maxima = call->maxima;

    (void)worker;
    INLAY_CHECK(begin <= end && end <= maxima->batches * maxima->planes * maxima->out[0]);
    for (int64_t r = begin; r < end; r++) {
        const int64_t row_out = r % maxima->out[0], plane = r / maxima->out[0] % maxima->planes,
                      n = r / maxima->out[0] / maxima->planes;

        make_row(maxima, call->input + n * maxima->image.batch + plane * maxima->image.plane,
                 call->output + n * maxima->y.batch + plane * maxima->y.plane, row_out);
    }
    return INLAY_OK;
}

static inlay_status run_maxima(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct maxima *maxima = (const struct maxima *)(const void *)native;
    maxima_call call = { maxima, args[0], args[1] };
    const int64_t rows = maxima->batches * maxima->planes * maxima->out[0];
    const double row =
        (double)maxima->out[1] * (double)maxima->lanes * (double)maxima->kernel[0] * (double)maxima->kernel[1];
    const int64_t grain = row < 32768 ? (int64_t)(32768 / (row + 1)) + 1 : 1;

    if (threads <= 1 || rows <= grain)
        return rows_range(&call, 0, rows, 0);
    return state->host->parallel_for(state->host->ctx, run, rows, grain, rows_range, &call);
}

/* Reads the strides, planes and lanes of an image; false: the layout is not supported. */
static bool read_image(const memory_desc *md, struct image *out, int64_t *planes, int64_t *lanes)
{
    const uint32_t rank = (uint32_t)md->ndims;

    if (md->kind != CPU_BLOCKED || md->data_type != LIBRARY_F32 || rank < 3 || rank > 4 || md->inner_nblks > 1 ||
        (md->inner_nblks == 1 && md->inner_idxs[0] != 1))
        return false;
    *out = (struct image){ .batch = md->strides[0],
                           .plane = md->strides[1],
                           .row = rank == 4 ? md->strides[2] : 0,
                           .pixel = md->strides[rank - 1] };
    *lanes = 1;
    *planes = md->dims[1];
    if (md->inner_nblks == 1) {
        *lanes = md->inner_blks[0];
        *planes = md->padded_dims[1] / *lanes;
    } else if (md->strides[1] == 1 && (md->dims[1] > 1 || out->pixel != 1)) {
        *lanes = md->dims[1];
        *planes = 1;
    }
    return true;
}

inlay_status cpu_lower_max(cpu_build *build, const cpu_place *input, const int64_t *out_dims, const int64_t *kernel,
                           const int64_t *strides, const int64_t *dilations, const int64_t *begins, uint32_t result,
                           cpu_place *out, bool *out_done)
{
    const uint32_t rank = (uint32_t)input->md.ndims, first = rank == 3 ? 1 : 0;
    struct maxima maxima = { .native.run = run_maxima,
                             .batches = input->md.dims[0],
                             .in = { 1, 1 },
                             .out = { 1, 1 },
                             .kernel = { 1, 1 },
                             .stride = { 1, 1 },
                             .dilation = { 1, 1 } };
    int64_t planes = 0, lanes = 0;
    inlay_status status = INLAY_OK;
    memory_desc output;

    *out_done = false;
    if (!read_image(&input->md, &maxima.image, &maxima.planes, &maxima.lanes))
        goto done;
    if (memory_desc_is_blocked(&input->md)) {
        if (!memory_desc_same_blocks(&input->md, rank, out_dims, &output))
            goto done;
    } else if (maxima.lanes > 1) {
        memory_desc_channels_last(&output, rank, out_dims);
    } else {
        memory_desc_plain(&output, rank, out_dims);
    }
    (void)read_image(&output, &maxima.y, &planes, &lanes);
    if (planes != maxima.planes || lanes != maxima.lanes) { /* both layouts are equal for one pixel */
        maxima.y = (struct image){
            .batch = maxima.planes * maxima.lanes, .plane = maxima.lanes, .row = 0, .pixel = maxima.lanes
        };
        if (out_dims[rank - 1] != 1 || out_dims[2] != 1)
            goto done;
    }
    for (uint32_t i = 0; i < rank - 2; i++) {
        maxima.in[first + i] = input->md.dims[2 + i];
        maxima.out[first + i] = out_dims[2 + i];
        maxima.kernel[first + i] = kernel[i];
        maxima.stride[first + i] = strides[i];
        maxima.dilation[first + i] = dilations[i] + 1;
        maxima.begin[first + i] = begins[i];
    }
    INLAY_TRY(cpu_result_place(build, result, &output, out));
    *out_done = true;
    status = cpu_emit_step(build, &maxima.native, sizeof maxima, (const cpu_place *const[]){ input, out }, 2);
done:
    return status;
}
