/* Convolutions of row-major images with large kernels, by the fast Fourier transform.
 *
 * The image is divided into overlapping blocks (overlap-save): the transform of a block, times the transform of a
 * filter, is the transform of the convolution. The results whose receptive fields are inside the block are kept.
 * Weights are real, so two neighbouring blocks of an image are the real and the imaginary part of one complex block.
 * Filters are transformed in each run: transforms of all weights would take up to 16 times the memory of the weights,
 * and several blocks share each of them.
 *
 * A slice is some pairs of blocks, and a group of channels. It has three steps: the guard, the transforms of the input,
 * and for each output channel the sum of the products, its inverse transform, and the results. Groups of one input
 * channel run the steps of a slice on one thread, others divide each step among threads.
 *
 * The guard: the rounding error of a result is proportional to the magnitude of the whole pair of blocks. If the pixels
 * around any result are much smaller, or are only a few, or if a pixel is NaN or infinity, all results of the pair are
 * direct sums. The pixels are tested in cells of at most half the size of the kernel: the receptive field of each
 * result contains at least one cell. The decision depends on the pair of blocks alone. */
#include "cpu/convolution/fft_conv.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include <float.h>
#include <math.h>

/* Within these bounds no product of transforms can overflow, and underflow is negligible. */
static const float MIN_NORM = 1e-16F, MAX_NORM = 1e16F;

/* A slice of a run. spectra: transforms of the input [pairs][in]. failed: for each pair, 1 if it failed the guard. */
typedef struct fft_slice {
    const fft_conv *conv;
    void *const *args;
    int64_t image, group, first, count; /* pairs */
    float *spectra, *failed;
} fft_slice;

/* The memory of a worker. */
typedef struct fft_memory {
    float *block, *work, *filters, *results;
} fft_memory;

typedef struct block_area {
    int64_t top, bottom, left, right;
} block_area;

static fft_memory memory_of(const fft_slice *slice, uint32_t worker)
{
    const fft_conv *conv = slice->conv;
    float *from = (float *)slice->args[conv->scratch] + conv->slice_floats +
                  (int64_t)(worker % conv->workers) * conv->worker_floats;

    return (fft_memory){ from, from + conv->block_floats, from + conv->block_floats + conv->work_floats,
                         from + conv->block_floats + conv->work_floats +
                             conv->cut.filters * conv->cut.inputs * conv->block_floats };
}

/* The results of a block. */
static block_area results_of(const fft_conv *conv, int64_t block)
{
    const fft_cut *cut = &conv->cut;
    const int64_t top = block / cut->across * cut->valid[0], left = block % cut->across * cut->valid[1];

    return (block_area){
        top, top + cut->valid[0] < conv->window.out_height ? top + cut->valid[0] : conv->window.out_height, left,
        left + cut->valid[1] < conv->window.out_width ? left + cut->valid[1] : conv->window.out_width
    };
}

/* The pixels that the results depend on, without those outside the image. */
static block_area pixels_of(const fft_conv *conv, const block_area *results)
{
    const kernel_conv_shape *window = &conv->window;
    block_area pixels = { results->top - window->begin[0], results->bottom - window->begin[0] + window->kernel[0] - 1,
                          results->left - window->begin[1], results->right - window->begin[1] + window->kernel[1] - 1 };

    pixels.top = pixels.top > 0 ? pixels.top : 0;
    pixels.left = pixels.left > 0 ? pixels.left : 0;
    pixels.bottom = pixels.bottom < window->height ? pixels.bottom : window->height;
    pixels.right = pixels.right < window->width ? pixels.right : window->width;
    return pixels;
}

static const float *plane_of(const fft_slice *slice, int64_t channel)
{
    const kernel_conv_shape *window = &slice->conv->window;

    return (const float *)slice->args[FFT_X] +
           ((slice->image * window->group + slice->group) * window->in + channel) * window->height * window->width;
}

static int64_t blocks_of(const fft_slice *slice, int64_t pair)
{
    return 2 * (slice->first + pair) + 1 < slice->conv->cut.blocks ? 2 : 1;
}

typedef struct cell_tally {
    float total, energy, least; /* sums of magnitudes and squares; the smallest sum of a cell */
    bool many;
} cell_tally;

/* Adds a row of cells to *count. sums, squares: of each column of pixels. whole: the cells have all their rows. */
static void count_cells(const fft_conv *conv, const block_area *pixels, bool whole, const float *sums,
                        const float *squares, cell_tally *count)
{
    const int64_t size = conv->cell[1];

    for (int64_t left = pixels->left, right; left < pixels->right; left = right) {
        const int64_t next = (left / size + 1) * size;
        float sum, square;

        right = next < pixels->right ? next : pixels->right;
        sum = conv->set->sum(sums + left - pixels->left, right - left);
        square = conv->set->sum(squares + left - pixels->left, right - left);
        count->total += sum;
        count->energy += square;
        if (!whole || left % size != 0 || (right < next && right < conv->window.width))
            continue;
        count->least = sum < count->least ? sum : count->least;
        count->many = count->many && sum * sum >= (float)TILE_LEAST_TERMS * square;
    }
}

static void count_block(const fft_slice *slice, const block_area *pixels, float *sums, cell_tally *count)
{
    const fft_conv *conv = slice->conv;
    const int64_t columns = pixels->right - pixels->left, size = conv->cell[0];
    float *squares = sums + columns;

    for (int64_t top = pixels->top, bottom; top < pixels->bottom; top = bottom) {
        const int64_t next = (top / size + 1) * size;

        bottom = next < pixels->bottom ? next : pixels->bottom;
        memset(sums, 0, 2 * (size_t)columns * sizeof *sums);
        for (int64_t channel = 0; channel < conv->window.in; channel++)
            for (int64_t row = top; row < bottom; row++)
                conv->set->weigh(plane_of(slice, channel) + row * conv->window.width + pixels->left, columns,
                                 conv->accuracy->weight[channel], sums, squares);
        count_cells(conv, pixels, top % size == 0 && (bottom == next || bottom == conv->window.height), sums, squares,
                    count);
    }
}

/* NaN fails every comparison. */
static bool passes(const fft_conv *conv, const cell_tally *count)
{
    const float top = conv->accuracy->top, norm = sqrtf(count->energy);
    const float mean = norm / sqrtf((float)(conv->block.rows * conv->block.columns));

    if (count->total == 0)
        return true;
    return norm <= (top > 1 ? MAX_NORM / top : MAX_NORM) && norm >= (top < 1 ? MIN_NORM / top : MIN_NORM) &&
           (conv->fast || (count->many && mean <= (float)conv->accuracy->uneven * count->least));
}

static inlay_status test_pairs(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const fft_slice *slice = user;
    const fft_memory memory = memory_of(slice, worker);

    for (int64_t pair = begin; pair < end; pair++) {
        cell_tally count = { .least = FLT_MAX, .many = true };

        for (int64_t i = 0; i < blocks_of(slice, pair); i++) {
            const block_area results = results_of(slice->conv, 2 * (slice->first + pair) + i),
                             pixels = pixels_of(slice->conv, &results);

            count_block(slice, &pixels, memory.work, &count);
        }
        slice->failed[pair] = !passes(slice->conv, &count);
    }
    return INLAY_OK;
}

/* Copies n numbers to the real (part 0) or imaginary parts of a block, from position row * columns + column on. */
static void place(const fft_block *block, float *x, int64_t position, int part, const float *from, int64_t n)
{
    const int64_t row_floats = fft_row_floats(block->columns);

    for (int64_t run; n > 0; n -= run, from += run, position += run) {
        const int64_t row = position / block->columns, column = position % block->columns, lane = column % FFT_LANES;

        run = FFT_LANES - lane < n ? FFT_LANES - lane : n;
        memcpy(x + row * row_floats + column / FFT_LANES * 2 * FFT_LANES + part * FFT_LANES + lane, from,
               (size_t)run * sizeof *x);
    }
}

static void clear(const fft_conv *conv, float *x)
{
    memset(x, 0, (size_t)(conv->block.rows * fft_row_floats(conv->block.columns)) * sizeof *x);
}

static inlay_status transform_inputs(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const fft_slice *slice = user;
    const fft_conv *conv = slice->conv;
    const kernel_conv_shape *window = &conv->window;
    float *x = memory_of(slice, worker).block;

    for (int64_t i = begin; i < end; i++) {
        const int64_t pair = i / window->in;

        if (slice->failed[pair] != 0)
            continue;
        clear(conv, x);
        for (int part = 0; part < blocks_of(slice, pair); part++) {
            const block_area results = results_of(conv, 2 * (slice->first + pair) + part),
                             pixels = pixels_of(conv, &results);
            const int64_t left = pixels.left - (results.left - window->begin[1]);

            for (int64_t row = pixels.top; row < pixels.bottom; row++)
                place(&conv->block, x, (row - (results.top - window->begin[0])) * conv->block.columns + left, part,
                      plane_of(slice, i % window->in) + row * window->width + pixels.left, pixels.right - pixels.left);
        }
        conv->set->forward(&conv->block, x, conv->block.columns, slice->spectra + i * conv->block_floats);
    }
    return INLAY_OK;
}

static void transform_filter(const fft_conv *conv, const float *weights, float *x, float *to)
{
    const int64_t width = conv->window.kernel[1];

    clear(conv, x);
    for (int64_t row = 0; row < conv->window.kernel[0]; row++)
        place(&conv->block, x, row * conv->block.columns, 0, weights + row * width, width);
    conv->set->forward(&conv->block, x, width < conv->block.columns ? width : conv->block.columns, to);
}

static float bias_of(const fft_slice *slice, int64_t output)
{
    return slice->conv->biased ? ((const float *)slice->args[FFT_BIAS])[slice->group * slice->conv->window.out + output]
                               : 0;
}

static float *output_of(const fft_slice *slice, int64_t output)
{
    const kernel_conv_shape *window = &slice->conv->window;

    return (float *)slice->args[FFT_Y] + ((slice->image * window->group + slice->group) * window->out + output) *
                                             window->out_height * window->out_width;
}

static const float *weights_of(const fft_slice *slice, int64_t output, int64_t channel)
{
    const kernel_conv_shape *window = &slice->conv->window;

    return (const float *)slice->args[FFT_W] +
           ((slice->group * window->out + output) * window->in + channel) * window->kernel[0] * window->kernel[1];
}

/* Stores the results of a pair of blocks, for one output channel. */
static void put_pair(const fft_slice *slice, int64_t pair, int64_t output, const float *x)
{
    const fft_conv *conv = slice->conv;
    const int64_t columns = conv->block.columns, row_floats = fft_row_floats(columns);
    const float scale = 1.0F / (float)(conv->block.rows * columns);

    for (int64_t part = 0; part < blocks_of(slice, pair); part++) {
        const block_area at = results_of(conv, 2 * (slice->first + pair) + part);
        const float *from = x + part * FFT_LANES;

        for (int64_t row = at.top; row < at.bottom; row++) {
            float *to = output_of(slice, output) + row * conv->window.out_width + at.left;

            for (int64_t n = at.right - at.left; n > 0; n -= columns, to += columns, from += row_floats)
                conv->set->put(from, n < columns ? n : columns, scale, bias_of(slice, output), conv->clamp, conv->low,
                               conv->high, to);
        }
    }
}

/* Copies the pixels of a block, with zeros around them, to rows of `step` floats. */
static void copy_pixels(const fft_slice *slice, int64_t channel, const block_area *results, int64_t step, float *copy)
{
    const kernel_conv_shape *window = &slice->conv->window;
    const block_area pixels = pixels_of(slice->conv, results);
    const int64_t rows = results->bottom - results->top + window->kernel[0] - 1;

    memset(copy, 0, (size_t)(rows * step) * sizeof *copy);
    for (int64_t row = pixels.top; row < pixels.bottom; row++)
        memcpy(copy + (row - (results->top - window->begin[0])) * step + pixels.left -
                   (results->left - window->begin[1]),
               plane_of(slice, channel) + row * window->width + pixels.left,
               (size_t)(pixels.right - pixels.left) * sizeof *copy);
}

/* Adds the direct sums over one input channel to the results of a block; the first channel sets them. */
static void sum_channel_directly(const fft_slice *slice, int64_t channel, int64_t output, const block_area *at,
                                 float *copy)
{
    const fft_conv *conv = slice->conv;
    const kernel_conv_shape *window = &conv->window;
    const int64_t columns = at->right - at->left, step = columns + window->kernel[1] - 1 + FFT_SPARE;
    float *to = output_of(slice, output) + at->top * window->out_width + at->left,
          *sums = copy + (at->bottom - at->top + window->kernel[0] - 1) * step;
    planes_rows args = { .x_row = step,
                         .x_step = 1,
                         .chain = SGEMM_CHAIN,
                         .height = window->kernel[0],
                         .width = window->kernel[1],
                         .weights = weights_of(slice, output, channel),
                         .stride = 1,
                         .dilation = 1,
                         .y_row = channel == 0 ? window->out_width : columns,
                         .n = columns,
                         .bias = channel == 0 ? bias_of(slice, output) : 0,
                         .clamp = conv->clamp && window->in == 1,
                         .low = conv->low,
                         .high = conv->high };

    copy_pixels(slice, channel, at, step, copy);
    for (int64_t row = at->top; row < at->bottom; row += args.rows, to += args.rows * window->out_width) {
        args.rows = (int32_t)(at->bottom - row < PLANES_ROWS ? at->bottom - row : PLANES_ROWS);
        args.input = copy + (row - at->top) * step;
        args.output = channel == 0 ? to : sums;
        conv->planes->long_rows(&args);
        for (int64_t i = 0; channel > 0 && i < args.rows; i++)
            conv->planes->add(sums + i * columns, 0, &(plane_tap){ .n = columns }, 1, to + i * window->out_width);
    }
}

static void clamp_block(const fft_slice *slice, int64_t output, const block_area *at)
{
    const fft_conv *conv = slice->conv;

    for (int64_t row = at->top; row < at->bottom; row++) {
        float *to = output_of(slice, output) + row * conv->window.out_width;

        for (int64_t column = at->left; column < at->right; column++) {
            to[column] = to[column] < conv->low ? conv->low : to[column]; /* NaN is kept */
            to[column] = to[column] > conv->high ? conv->high : to[column];
        }
    }
}

static void sum_directly(const fft_slice *slice, int64_t pair, int64_t output, float *copy)
{
    for (int64_t i = 0; i < blocks_of(slice, pair); i++) {
        const block_area at = results_of(slice->conv, 2 * (slice->first + pair) + i);

        for (int64_t channel = 0; channel < slice->conv->window.in; channel++)
            sum_channel_directly(slice, channel, output, &at, copy);
        if (slice->conv->clamp && slice->conv->window.in > 1)
            clamp_block(slice, output, &at);
    }
}

/* Multiplies `inputs` channels from `channel` on of all pairs by the filters of `outputs` output channels from `output`
 * on. After the last channel, the results are stored. */
static void multiply_channels(const fft_slice *slice, int64_t output, int32_t outputs, int64_t channel, int32_t inputs,
                              const fft_memory *memory)
{
    const fft_conv *conv = slice->conv;
    const int64_t in = conv->window.in, floats = conv->block_floats;

    for (int32_t k = 0; k < outputs; k++)
        for (int32_t c = 0; c < inputs; c++)
            transform_filter(conv, weights_of(slice, output + k, channel + c), memory->block,
                             memory->filters + (k * inputs + c) * floats);
    for (int64_t pair = 0; pair < slice->count; pair++) {
        const fft_product product = { .inputs = slice->spectra + (pair * in + channel) * floats,
                                      .filters = memory->filters,
                                      .results = memory->results + pair % conv->cut.kept * conv->cut.filters * floats,
                                      .input_step = floats,
                                      .filter_step = floats,
                                      .result_step = floats,
                                      .input_count = inputs,
                                      .filter_count = outputs,
                                      .first = channel == 0 };

        if (slice->failed[pair] != 0)
            continue;
        conv->set->multiply(&conv->block, &product);
        for (int32_t k = 0; channel + inputs == in && k < outputs; k++) {
            conv->set->inverse(&conv->block, product.results + k * floats, memory->block);
            put_pair(slice, pair, output + k, memory->block);
        }
    }
}

/* Units: FFT_FILTERS output channels. */
static inlay_status compute_outputs(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const fft_slice *slice = user;
    const kernel_conv_shape *window = &slice->conv->window;
    const fft_memory memory = memory_of(slice, worker);
    bool all_failed = true;

    for (int64_t pair = 0; pair < slice->count; pair++)
        all_failed = all_failed && slice->failed[pair] != 0;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t output = unit * FFT_FILTERS,
                      outputs = window->out - output < FFT_FILTERS ? window->out - output : FFT_FILTERS;

        for (int64_t channel = 0; channel < window->in && !all_failed; channel += FFT_INPUTS)
            multiply_channels(slice, output, (int32_t)outputs, channel,
                              (int32_t)(window->in - channel < FFT_INPUTS ? window->in - channel : FFT_INPUTS),
                              &memory);
        for (int64_t pair = 0; pair < slice->count; pair++)
            for (int64_t k = 0; slice->failed[pair] != 0 && k < outputs; k++)
                sum_directly(slice, pair, output + k, memory.work);
    }
    return INLAY_OK;
}

static fft_slice slice_of(const fft_conv *conv, void *const *args, int64_t number)
{
    const int64_t first = number % conv->cut.slices * conv->cut.slice, left = conv->cut.pairs - first;

    return (fft_slice){ .conv = conv,
                        .args = args,
                        .group = number / conv->cut.slices % conv->window.group,
                        .image = number / conv->cut.slices / conv->window.group,
                        .first = first,
                        .count = left < conv->cut.slice ? left : conv->cut.slice };
}

static int64_t units_of(const fft_conv *conv)
{
    return (conv->window.out + FFT_FILTERS - 1) / FFT_FILTERS;
}

/* Units: slices. */
static inlay_status whole_slices(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const fft_slice *all = user;
    const fft_conv *conv = all->conv;

    for (int64_t unit = begin; unit < end; unit++) {
        fft_slice slice = slice_of(conv, all->args, unit);
        const fft_memory memory = memory_of(&slice, worker);

        slice.spectra = memory.results + conv->cut.kept * conv->cut.filters * conv->block_floats;
        slice.failed = slice.spectra + conv->cut.slice * conv->window.in * conv->block_floats;
        (void)test_pairs(&slice, 0, slice.count, worker);
        (void)transform_inputs(&slice, 0, slice.count * conv->window.in, worker);
        (void)compute_outputs(&slice, 0, units_of(conv), worker);
    }
    return INLAY_OK;
}

/* Runs one step of a slice, of `count` units. */
static inlay_status run_step(fft_slice *slice, const cpu_state *state, inlay_run *run, uint32_t threads, int64_t count,
                             inlay_parallel_fn step)
{
    return threads <= 1 ? step(slice, 0, count, 0)
                        : state->host->parallel_for(state->host->ctx, run, count, 1, step, slice);
}

static inlay_status run_slice(fft_slice *slice, const cpu_state *state, inlay_run *run, uint32_t threads)
{
    inlay_status status = INLAY_OK;

    INLAY_TRY(run_step(slice, state, run, threads, slice->count, test_pairs));
    INLAY_TRY(run_step(slice, state, run, threads, slice->count * slice->conv->window.in, transform_inputs));
    INLAY_TRY(run_step(slice, state, run, threads, units_of(slice->conv), compute_outputs));
done:
    return status;
}

inlay_status fft_conv_run(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                          uint32_t threads)
{
    const fft_conv *conv = (const fft_conv *)(const void *)native;
    const int64_t count = conv->window.images * conv->window.group * conv->cut.slices;
    fft_slice all = { .conv = conv, .args = args };
    inlay_status status = INLAY_OK;

    if (conv->cut.alone)
        return run_step(&all, state, run, threads, count, whole_slices);
    for (int64_t i = 0; i < count && status == INLAY_OK; i++) {
        fft_slice slice = slice_of(conv, args, i);

        slice.spectra = args[conv->scratch];
        slice.failed = slice.spectra + conv->cut.slice * conv->window.in * conv->block_floats;
        status = run_slice(&slice, state, run, threads);
    }
    return status;
}
