/* Depthwise convolutions of row-major images (planes), in one or two dimensions, where no consumer wants
 * channels-last, those of one channel if the kernel has many taps, and those of single pixels whose groups have few
 * weights. A unit of work copies some rows of a plane with their border, and computes output rows from the copy
 * (convolution/planes.h). Single pixels are read in place. */
#include "cpu/convolution/plane_copy.h"
#include "cpu/convolution/tiles.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "simd/move_set.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(planes_lower);

/* MOST_SINGLE: most weights of a group of single pixels; with more, a GEMM reads its input less often. */
enum { COPY_FLOATS = 6144, MAX_TAPS = 128, MOST_SINGLE = 32, UNIT_FLOPS = 20000, ARG_X = 0, ARG_W, ARG_Y, ARG_BIAS };

/* Kernels of more than LONG_TAPS taps: their copies, in scratch memory, should have at most LONG_FLOATS and must not
 * have more than LONG_MOST. A unit has at most LONG_ROWS rows and LONG_COLUMNS columns, so that there are several. */
enum {
    LONG_TAPS = 64,
    LONG_FLOATS = 64 * 1024,
    LONG_MOST = 512 * 1024,
    LONG_ROWS = 32,
    LONG_COLUMNS = 4096,
    LONG_WIDTH = 1 << 14, /* of a kernel */
    LONG_CHAIN = 128
};

struct planes {
    cpu_native native;
    plane_copy copy;
    kernel_conv_shape window;
    int64_t count;  /* number of planes */
    int64_t block;  /* output rows in a unit */
    int64_t blocks; /* units of a plane, or of a part of its columns */
    bool biased, clamp, is_long, is_single;
    /* is_long: */
    int64_t part, parts; /* columns in a unit; units along a row */
    int64_t chain, copy_floats;
    uint32_t scratch, workers; /* scratch: number of the argument */
    float low, high;
    int64_t at[MAX_TAPS]; /* offsets of the taps of a kernel row in the copy */
};

typedef struct planes_call {
    const struct planes *planes;
    void *const *args;
} planes_call;

static bool is_apart(const kernel_conv_shape *window)
{
    return window->stride[0] > 1 || window->stride[1] > 1;
}

/* Single pixels: adds the weighted pixels of the channels of a group, for rows [first, first + rows) of a plane of the
 * output. Those of a single channel that are apart are copied first. */
static void single_unit(const planes_call *call, int64_t plane, int64_t first, int64_t rows)
{
    const struct planes *planes = call->planes;
    const kernel_conv_shape *window = &planes->window;
    const int64_t channel = plane % window->out, n = window->out_width, depth = window->in / window->group,
                  plane_in = (plane / window->out * window->group + channel / (window->out / window->group)) * depth;
    const float *input =
        (const float *)call->args[ARG_X] + (plane_in * window->height + first * window->stride[0]) * window->width;
    float *output = (float *)call->args[ARG_Y] + (plane * window->out_height + first) * n;
    const bool apart = is_apart(window);

    for (int64_t row = 0; row < rows && apart; row++)
        KERNEL_BEST(moves)->every(input + row * window->stride[0] * window->width, window->stride[1], output + row * n,
                                  n);
    planes->copy.set->mix(&(planes_rows){ .input = apart ? output : input,
                                          .x_step = window->height * window->width,
                                          .width = depth,
                                          .weights = (const float *)call->args[ARG_W] + channel * depth,
                                          .bias = planes->biased ? ((const float *)call->args[ARG_BIAS])[channel] : 0,
                                          .output = output,
                                          .n = rows * n,
                                          .clamp = planes->clamp,
                                          .low = planes->low,
                                          .high = planes->high });
}

/* Units of single pixels: those of one group are neighbours, so that its pixels stay in the cache. */
static inlay_status single_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const planes_call *call = user;
    const struct planes *planes = call->planes;
    const int64_t out = planes->window.out / planes->window.group, height = planes->window.out_height;

    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit / out % planes->blocks * planes->block;

        single_unit(call, unit / out / planes->blocks * out + unit % out, first,
                    height - first < planes->block ? height - first : planes->block);
    }
    return INLAY_OK;
}

static void one_unit(const planes_call *call, int64_t plane, int64_t first, int64_t rows, float *copy)
{
    const struct planes *planes = call->planes;
    const kernel_conv_shape *window = &planes->window;
    const int64_t channel = plane % window->in, seen = plane_rows_seen(window, rows),
                  top = first * window->stride[0] - window->begin[0];
    const float *input = (const float *)call->args[ARG_X] + plane * window->height * window->width;
    planes_rows args = { .x_row = planes->copy.row,
                         .at = planes->at,
                         .height = window->kernel[0],
                         .width = window->kernel[1],
                         .weights = (const float *)call->args[ARG_W] + channel * window->kernel[0] * window->kernel[1],
                         .stride = window->stride[0],
                         .dilation = window->dilation[0],
                         .y_row = window->out_width,
                         .n = window->out_width,
                         .bias = planes->biased ? ((const float *)call->args[ARG_BIAS])[channel] : 0,
                         .clamp = planes->clamp,
                         .low = planes->low,
                         .high = planes->high,
                         .input = copy,
                         .output =
                             (float *)call->args[ARG_Y] + (plane * window->out_height + first) * window->out_width,
                         .rows = (int32_t)rows };

    INLAY_CHECK(seen * planes->copy.row <= COPY_FLOATS);
    plane_copy_rows(&planes->copy, input, window->height, window->width, top, seen, copy);
    planes->copy.set->rows(&args);
}

static inlay_status planes_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const planes_call *call = user;
    const struct planes *planes = call->planes;
    const int64_t height = planes->window.out_height;
    _Alignas(64) float copy[COPY_FLOATS];

    (void)worker;
    memset(copy, 0, sizeof copy);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit % planes->blocks * planes->block;

        one_unit(call, unit / planes->blocks, first, height - first < planes->block ? height - first : planes->block,
                 copy);
    }
    return INLAY_OK;
}

/* Computes columns [first, first + count) of `rows` output rows from row_out on, of a kernel of many taps. copied: the
 * plan of a copy for these columns. */
static void long_unit(const planes_call *call, int64_t plane, int64_t row_out, int64_t rows, int64_t first,
                      int64_t count, const plane_copy *copied, float *copy)
{
    const struct planes *planes = call->planes;
    const kernel_conv_shape *window = &planes->window;
    const int64_t channel = plane % window->in, seen = plane_rows_seen(window, rows),
                  top = row_out * window->stride[0] - window->begin[0], width = window->out_width;
    const float *input = (const float *)call->args[ARG_X] + plane * window->height * window->width;
    float *output = (float *)call->args[ARG_Y] + (plane * window->out_height + row_out) * width + first;
    planes_rows args = { .x_row = copied->row,
                         .x_step = window->dilation[1],
                         .chain = planes->chain,
                         .height = window->kernel[0],
                         .width = window->kernel[1],
                         .weights = (const float *)call->args[ARG_W] + channel * window->kernel[0] * window->kernel[1],
                         .stride = window->stride[0],
                         .dilation = window->dilation[0],
                         .y_row = width,
                         .n = count,
                         .bias = planes->biased ? ((const float *)call->args[ARG_BIAS])[channel] : 0,
                         .clamp = planes->clamp,
                         .low = planes->low,
                         .high = planes->high };

    INLAY_CHECK(seen * copied->row <= planes->copy_floats);
    memset(copy, 0, (size_t)(seen * copied->row) * sizeof *copy);
    plane_copy_rows(copied, input, window->height, window->width, top, seen, copy);
    for (int64_t row = 0; row < rows; row += args.rows) {
        args.rows = (int32_t)(rows - row < PLANES_ROWS ? rows - row : PLANES_ROWS);
        args.input = copy + row * window->stride[0] * copied->row;
        args.output = output + row * width;
        copied->set->long_rows(&args);
    }
}

static inlay_status long_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const planes_call *call = user;
    const struct planes *planes = call->planes;
    const kernel_conv_shape *window = &planes->window;
    float *copy = (float *)call->args[planes->scratch] + worker % planes->workers * planes->copy_floats;
    plane_copy copied;
    int64_t planned = -1; /* first column of the plan */

    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit % planes->parts * planes->part,
                      count = window->out_width - first < planes->part ? window->out_width - first : planes->part,
                      row = unit / planes->parts % planes->blocks * planes->block;

        if (first != planned) {
            kernel_conv_shape columns = *window;

            columns.begin[1] -= first;
            columns.out_width = count;
            plane_copy_plan(&copied, &columns);
            planned = first;
        }
        long_unit(call, unit / planes->parts / planes->blocks, row,
                  window->out_height - row < planes->block ? window->out_height - row : planes->block, first, count,
                  &copied, copy);
    }
    return INLAY_OK;
}

static inlay_status run_planes(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct planes *planes = (const struct planes *)(const void *)native;
    planes_call call = { planes, args };
    const int64_t units = planes->count * planes->blocks * (planes->is_long ? planes->parts : 1);
    const inlay_parallel_fn run_range = planes->is_long ? long_units : planes->is_single ? single_units : planes_units;
    const double unit = planes->window.flops / (double)units;
    const int64_t grain = unit < UNIT_FLOPS ? (int64_t)(UNIT_FLOPS / (unit + 1)) + 1 : 1;

    if (threads <= 1 || units <= grain)
        return run_range(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, grain, run_range, &call);
}

bool planes_is_long(const kernel_conv_shape *window)
{
    /* With one row of taps and several channels per group, the general loop is as fast, and copies less. */
    if (window->group > 1 && window->kernel[0] == 1 && window->kernel[1] <= MAX_TAPS)
        return false;
    return window->flat && window->in == window->group && window->out == window->group && window->stride[1] == 1 &&
           window->kernel[0] * window->kernel[1] > LONG_TAPS && window->kernel[1] <= LONG_WIDTH;
}

/* Divides the output of a kernel of many taps into units; false: the copy of the smallest one is too large. */
static bool cut_long(struct planes *planes)
{
    enum { LEAST = 256 };
    kernel_conv_shape part = planes->window;

    planes->part = part.out_width < LONG_COLUMNS ? part.out_width : LONG_COLUMNS;
    planes->block = part.out_height < LONG_ROWS ? part.out_height : LONG_ROWS;
    for (;;) {
        part.out_width = planes->part;
        plane_copy_plan(&planes->copy, &part);
        planes->copy_floats = planes->copy.row * plane_rows_seen(&part, planes->block);
        if (planes->copy_floats <= LONG_FLOATS)
            break;
        if (planes->block > PLANES_ROWS)
            planes->block = (planes->block + 1) / 2;
        else if (planes->part > LEAST)
            planes->part = (planes->part + 1) / 2;
        else
            break;
    }
    planes->blocks = (part.out_height + planes->block - 1) / planes->block;
    planes->parts = (planes->window.out_width + planes->part - 1) / planes->part;
    return planes->copy_floats <= LONG_MOST;
}

bool planes_is_single(const kernel_conv_shape *window)
{
    const int64_t in = window->in / window->group, out = window->out / window->group;

    return window->flat && !window->padded && window->kernel[0] * window->kernel[1] == 1 &&
           (in == 1 || !is_apart(window)) && in <= MOST_SINGLE && out <= MOST_SINGLE / in;
}

bool planes_fit(const cpu_state *state, const kernel_conv_shape *window)
{
    plane_copy copy;

    if (planes_is_long(window))
        return state->tiles != NULL && cut_long(&(struct planes){ .window = *window });
    if (planes_is_single(window))
        return state->tiles != NULL;
    if (!depthwise_fits(state, window) || window->kernel[1] > MAX_TAPS || window->stride[1] > PLANES_LANES)
        return false;
    plane_copy_plan(&copy, window);
    return copy.row * plane_rows_seen(window, 1) <= COPY_FLOATS;
}

bool planes_run(const cpu_build *build, const kernel_layer *layer)
{
    return !layer->window.in_concat && kernel_input_is_ready(build) && !layout_is_image(&layer->input.layout) &&
           layer->input.layout.kind == LAYOUT_STRIDED && planes_fit(build->state, &layer->window);
}

/* Divides single pixels into units whose input stays in the nearest cache. Pixels that are not apart count as rows. */
static void cut_single(struct planes *planes)
{
    kernel_conv_shape *window = &planes->window;
    int64_t floats;

    if (!is_apart(window)) {
        window->height = window->out_height = window->height * window->width;
        window->width = window->out_width = 1;
    }
    floats = window->out_width * (window->in / window->group);
    planes->copy.set = KERNEL_BEST(planes);
    planes->block = floats < COPY_FLOATS ? COPY_FLOATS / floats : 1;
    planes->blocks = (window->out_height + planes->block - 1) / planes->block;
}

/* Chooses as many rows as the copy has space for, evenly divided among units. */
static void cut_short(struct planes *planes)
{
    const kernel_conv_shape *window = &planes->window;

    plane_copy_plan(&planes->copy, window);
    for (int64_t k = 0; k < window->kernel[1]; k++)
        planes->at[k] = plane_offset(&planes->copy, window, k);
    planes->block = window->out_height;
    while (planes->block > 1 && plane_rows_seen(window, planes->block) * planes->copy.row > COPY_FLOATS)
        planes->block--;
    planes->blocks = (window->out_height + planes->block - 1) / planes->block;
    planes->block = (window->out_height + planes->blocks - 1) / planes->blocks;
    planes->blocks = (window->out_height + planes->block - 1) / planes->block;
}

inlay_status planes_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const cpu_op *op = build->op;
    tile_epilogue epilogue = { 0 };
    struct planes planes = { .native.run = run_planes,
                             .window = layer->window,
                             .count = layer->window.images * layer->window.out,
                             .biased = layer->bias_value != INLAY_NONE };
    cpu_place input, weights, output, bias, scratch;
    const cpu_place *places[ARG_BIAS + 2] = { &input, &weights, &output };
    inlay_status status;
    uint32_t posts, count = ARG_BIAS;
    tensor_layout layout;

    input = layer->input;
    if (!layer->gathered)
        INLAY_TRY(cpu_read_plain(build, op->in[0], &input));
    layout_plain(&layout, (uint32_t)layer->weights.rank, layer->weights.dims);
    INLAY_TRY(cpu_read_constant(build, op->in[1], &layer->weights, &layout, &weights));
    if (planes.biased) {
        INLAY_TRY(cpu_read_floats(build, layer->bias_value, layer->window.out, &bias));
        places[count++] = &bias;
    }
    posts = group->post_count > 0 && group->posts[0].kind == CPU_POST_UNARY &&
            tiles_fuse_clamp(&group->posts[0].unary, &epilogue);
    planes.clamp = epilogue.clamp;
    planes.low = epilogue.low;
    planes.high = epilogue.high;
    planes.is_long = planes_is_long(&planes.window);
    planes.is_single = planes_is_single(&planes.window);
    if (planes.is_long) {
        const int64_t taps = planes.window.kernel[0] * planes.window.kernel[1];

        (void)cut_long(&planes);
        planes.chain = build->state->strict ? sgemm_chain(taps, true) : LONG_CHAIN;
        planes.workers = build->instance->threads > 0 ? build->instance->threads : 1;
        INLAY_TRY(cpu_new_floats(build, planes.copy_floats * planes.workers, &scratch));
        planes.scratch = count;
        places[count++] = &scratch;
    } else if (planes.is_single) {
        cut_single(&planes);
    } else {
        cut_short(&planes);
    }
    layout_plain(&layout, build->ranks[op->out[0]], build->dims[op->out[0]]);
    INLAY_TRY(cpu_step_result_place(build, group, posts, &layout, &output));
    INLAY_TRY(cpu_emit_step(build, &planes.native, sizeof planes, places, count));
    status = cpu_finish(build, group, posts, &output, true);
done:
    return status;
}
