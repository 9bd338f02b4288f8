/* Convolutions of row-major images, in one or two dimensions, whose result is consumed row-major, too. Each unit of
 * work is a GEMM of the unpacked weights by the receptive fields of several output rows, which are unfolded (im2col)
 * into panels (sgemm.h). For one tap and one channel, a line of a panel is a piece of an image row, strided if the
 * convolution is. So each unit first copies the rows that it reads, with their border. */
#include "cpu/convolution/plane_copy.h"
#include "cpu/convolution/tiles.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(conv_rows_lower);

enum {
    ARG_X,
    ARG_W,
    ARG_Y,
    ARG_BIAS,
    PANEL_FLOATS = 96 * 1024,
    COPY_FLOATS = 64 * 1024,
    ALONE_FLOPS = 200000,
    MOST_UNITS = 8,
    UNIT_FLOPS = 300000,
    MIN_CHANNELS = 48
};

typedef struct conv_rows {
    cpu_native native;
    const sgemm_kernel *kernel;
    plane_copy copy; /* copy of the rows of one channel that a unit reads */
    kernel_conv_shape window;
    int64_t in, out, chain; /* channels of a group; maximum terms of a chain (sgemm_chain) */
    int64_t rows, blocks;   /* output rows in a unit; units for one group of an image */
    int64_t height, width;  /* output rows of an image, and their columns; in_place: panels of columns */
    bool copied;            /* false: rows are read without a copy, because there is no border and no stride */
    bool in_place;          /* single pixels without border and stride: the image is the second operand */
    int64_t panel_floats, copy_floats;
    uint32_t workers, scratch;
    bool biased, clamp;
    float low, high;
} conv_rows;

typedef struct conv_rows_call {
    const conv_rows *rows;
    void *const *args;
    int64_t parts; /* slices of a unit's output channels; each is a work item */
} conv_rows_call;

/* Unfolds `rows` output rows into panels. input: a channel's rows, from the first that is read, x_row apart. */
static void unfold_rows(const conv_rows *conv, const float *input, int64_t x_row, int64_t channel, int64_t rows,
                        float *panels)
{
    const kernel_conv_shape *window = &conv->window;
    const plane_set *set = conv->copy.set;
    const int64_t taps = window->kernel[0] * window->kernel[1], depth = conv->in * taps;
    const bool joined = window->out_width == x_row && window->stride[0] == 1; /* consecutive rows are contiguous */

    for (int64_t kernel_row = 0; kernel_row < window->kernel[0]; kernel_row++)
        for (int64_t kernel_column = 0; kernel_column < window->kernel[1]; kernel_column++) {
            const int64_t k = channel * taps + kernel_row * window->kernel[1] + kernel_column;
            const float *from =
                input + kernel_row * window->dilation[0] * x_row + plane_offset(&conv->copy, window, kernel_column);

            if (joined) {
                set->put(from, rows * window->out_width, panels + k * SGEMM_WIDTH, SGEMM_WIDTH * depth, 0);
                continue;
            }
            for (int64_t row = 0; row < rows; row++)
                set->put(from + row * window->stride[0] * x_row, window->out_width, panels + k * SGEMM_WIDTH,
                         SGEMM_WIDTH * depth, row * window->out_width);
        }
}

static void one_unit(const conv_rows_call *call, int64_t unit, int64_t part, float *panels, float *copy)
{
    const conv_rows *conv = call->rows;
    const kernel_conv_shape *window = &conv->window;
    const int64_t image = unit / conv->blocks / window->group, group = unit / conv->blocks % window->group;
    const int64_t first = unit % conv->blocks * conv->rows;
    const int64_t low = conv->out * part / call->parts, high = conv->out * (part + 1) / call->parts;
    const int64_t channel = group * conv->out + low; /* first output channel of the slice */
    const int64_t rows = conv->height - first < conv->rows ? conv->height - first : conv->rows;
    const int64_t depth = conv->in * window->kernel[0] * window->kernel[1],
                  places = window->out_height * window->out_width, at = first * conv->width;
    const int64_t top = first * window->stride[0] - window->begin[0];
    const int64_t seen = plane_rows_seen(window, rows), skip = window->kernel[0] == 1 ? window->stride[0] : 1;
    sgemm_post posts[2];
    sgemm_job job = { .kernel = conv->kernel,
                      .m = high - low,
                      .n = places - at < rows * conv->width ? places - at : rows * conv->width,
                      .k = depth,
                      .chain = conv->chain,
                      .a = (const float *)call->args[ARG_W] + channel * depth,
                      .a_row = depth,
                      .b = panels,
                      .width = SGEMM_WIDTH,
                      .b_panel = SGEMM_WIDTH * depth,
                      .b_step = SGEMM_WIDTH,
                      .c_row = places,
                      .c = (float *)call->args[ARG_Y] + (image * window->group * conv->out + channel) * places + at,
                      .posts = posts };

    INLAY_CHECK(rows > 0 && (!conv->copied || seen * conv->copy.row <= conv->copy_floats));
    if (conv->in_place) {
        job.b = (const float *)call->args[ARG_X] + (image * window->group + group) * conv->in * places + at;
        job.b_panel = SGEMM_WIDTH;
        job.b_step = places;
    }
    for (int64_t channel_in = 0; !conv->in_place && channel_in < conv->in; channel_in++) {
        const float *input = (const float *)call->args[ARG_X] +
                             ((image * window->group + group) * conv->in + channel_in) * window->height * window->width;

        if (conv->copied) {
            for (int64_t row = 0; row < seen; row += skip)
                plane_copy_row(&conv->copy,
                               top + row >= 0 && top + row < window->height ? input + (top + row) * window->width
                                                                            : NULL,
                               copy + row * conv->copy.row);
            unfold_rows(conv, copy, conv->copy.row, channel_in, rows, panels);
        } else {
            unfold_rows(conv, input + top * window->width, window->width, channel_in, rows, panels);
        }
    }
    if (conv->biased)
        posts[job.post_count++] =
            (sgemm_post){ .fn = SGEMM_ADD, .other = (const float *)call->args[ARG_BIAS] + channel, .row = 1 };
    if (conv->clamp)
        posts[job.post_count++] = (sgemm_post){ .fn = SGEMM_CLIP, .alpha = conv->low, .beta = conv->high };
    sgemm_run(&job, 0, sgemm_units(&job));
}

static inlay_status conv_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const conv_rows_call *call = user;
    const conv_rows *rows = call->rows;
    const int64_t floats = rows->panel_floats + rows->copy_floats; /* 0: the image is read in place */
    float *panels = floats > 0 ? (float *)call->args[rows->scratch] + worker % rows->workers * floats : NULL;
    float *copy = NULL;

    if (rows->copy_floats > 0) {
        copy = panels + rows->panel_floats;
        memset(copy, 0, (size_t)rows->copy_floats * sizeof *copy);
    }
    for (int64_t unit = begin; unit < end; unit++)
        one_unit(call, unit / call->parts, unit % call->parts, panels, copy);
    return INLAY_OK;
}

static inlay_status run_conv_rows(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    const conv_rows *rows = (const conv_rows *)(const void *)native;
    conv_rows_call call = { rows, args, 1 };
    int64_t units = rows->window.images * rows->window.group * rows->blocks;

    if (threads <= 1 || rows->window.flops < ALONE_FLOPS)
        return conv_units(&call, 0, units, 0);
    /* If there are few units, as for a row of audio, their output channels are divided, too, although each slice
     * unfolds the panels again. */
    for (; units * call.parts < threads && rows->out / (2 * call.parts) >= MIN_CHANNELS;)
        call.parts *= 2;
    units *= call.parts;
    return units < 2 ? conv_units(&call, 0, units, 0)
                     : state->host->parallel_for(state->host->ctx, run, units, 1, conv_units, &call);
}

/* The columns of all vectors of an image that is divided into units of `unit` rows. */
static int64_t vector_columns(const conv_rows *rows, int64_t unit)
{
    const int64_t whole = rows->height / unit, rest = rows->height % unit;

    return (whole * ((unit * rows->width + SGEMM_LANES - 1) / SGEMM_LANES) +
            (rest * rows->width + SGEMM_LANES - 1) / SGEMM_LANES) *
           SGEMM_LANES;
}

/* The most rows of a unit. There are enough units for two threads and more, independent of the thread count, because
 * each unit reads all weights. But short units have too few columns for the kernel, and others fill its vectors
 * badly. */
static int64_t most_rows(const conv_rows *rows)
{
    const double groups = (double)(rows->window.images * rows->window.group), flops = rows->window.flops / groups;
    const int64_t most = rows->height < MOST_UNITS ? rows->height : MOST_UNITS;
    int64_t units = flops < UNIT_FLOPS * (double)most ? (int64_t)(flops / UNIT_FLOPS) + 1 : most,
            least = vector_columns(rows, rows->height);

    for (int64_t i = 2; i <= units; i++) {
        const int64_t columns = vector_columns(rows, (rows->height + i - 1) / i);

        least = columns < least ? columns : least;
    }
    while (units > 1 && (double)vector_columns(rows, (rows->height + units - 1) / units) > 1.1 * (double)least)
        units--;
    return (rows->height + units - 1) / units;
}

/* Chooses the output rows of a unit and the buffer sizes. false: the buffers are too small for one row. */
static bool cut(conv_rows *rows)
{
    const kernel_conv_shape *window = &rows->window;
    const int64_t depth = rows->in * window->kernel[0] * window->kernel[1];

    for (rows->rows = most_rows(rows); rows->rows > 0; rows->rows--) {
        rows->panel_floats =
            rows->in_place ? 0 : depth * ((rows->rows * rows->width + SGEMM_WIDTH - 1) / SGEMM_WIDTH * SGEMM_WIDTH);
        rows->copy_floats = rows->copied ? plane_rows_seen(window, rows->rows) * rows->copy.row : 0;
        if (rows->panel_floats <= PANEL_FLOATS && rows->copy_floats <= COPY_FLOATS)
            break;
    }
    if (rows->rows < 1)
        return false;
    rows->blocks = (rows->height + rows->rows - 1) / rows->rows;
    return true;
}

bool conv_rows_reads_in_place(const kernel_conv_shape *window)
{
    return !window->padded && window->stride[0] == 1 && window->stride[1] == 1 && window->kernel[0] == 1 &&
           window->kernel[1] == 1;
}

static bool plan_units(const cpu_state *state, const kernel_conv_shape *window, conv_rows *rows)
{
    *rows = (conv_rows){ .kernel = state->sgemm,
                         .window = *window,
                         .in = window->in / window->group,
                         .out = window->out / window->group,
                         .copied = window->padded || window->stride[1] > 1 };
    if (window->stride[1] > PLANES_LANES)
        return false;
    rows->in_place = conv_rows_reads_in_place(window);
    rows->height =
        rows->in_place ? (window->out_height * window->out_width + SGEMM_WIDTH - 1) / SGEMM_WIDTH : window->out_height;
    rows->width = rows->in_place ? SGEMM_WIDTH : window->out_width;
    plane_copy_plan(&rows->copy, window);
    return cut(rows);
}

bool conv_rows_fit(const cpu_state *state, const kernel_conv_shape *window)
{
    conv_rows rows;

    const bool depthwise = window->in == window->group && window->out == window->group;

    return state->sgemm != NULL && window->flat && !depthwise && window->out_width > 0 && window->out_height > 0 &&
           plan_units(state, window, &rows);
}

bool conv_rows_run(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    return !layer->window.in_concat && kernel_input_is_ready(build) && layout_is_plain(&layer->input.layout) &&
           !layout_is_image(&layer->input.layout) && layer->input.layout.type == ELEMENT_FLOAT &&
           build->compiled->values[group->out].uses == 0 && conv_rows_fit(build->state, &layer->window);
}

inlay_status conv_rows_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const cpu_op *op = build->op;
    tile_epilogue epilogue = { 0 };
    cpu_place input, weights, output, bias, scratch;
    const cpu_place *places[ARG_BIAS + 2];
    uint32_t count = ARG_BIAS, posts;
    inlay_status status;
    int64_t floats;
    conv_rows rows;
    tensor_layout layout;

    if (!plan_units(build->state, &layer->window, &rows))
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': its rows exceed the buffers", op->name);
    rows.native.run = run_conv_rows;
    rows.chain = sgemm_chain(rows.in * rows.window.kernel[0] * rows.window.kernel[1], build->state->strict);
    rows.workers = build->instance->threads > 0 ? build->instance->threads : 1;
    input = layer->input;
    if (!layer->gathered)
        INLAY_TRY(cpu_read_plain(build, op->in[0], &input));
    layout_plain(&layout, (uint32_t)layer->weights.rank, layer->weights.dims);
    INLAY_TRY(cpu_read_constant(build, op->in[1], &layer->weights, &layout, &weights));
    posts = group->post_count > 0 && group->posts[0].kind == CPU_POST_UNARY &&
            tiles_fuse_clamp(&group->posts[0].unary, &epilogue);
    rows.clamp = epilogue.clamp;
    rows.low = epilogue.low;
    rows.high = epilogue.high;
    layout_plain(&layout, build->ranks[op->out[0]], build->dims[op->out[0]]);
    INLAY_TRY(cpu_step_result_place(build, group, posts, &layout, &output));
    places[ARG_X] = &input;
    places[ARG_W] = &weights;
    places[ARG_Y] = &output;
    rows.biased = layer->bias_value != INLAY_NONE;
    if (rows.biased) {
        INLAY_TRY(cpu_read_floats(build, layer->bias_value, rows.window.out, &bias));
        places[count++] = &bias;
    }
    floats = (rows.panel_floats + rows.copy_floats) * rows.workers;
    INLAY_TRY(cpu_new_floats(build, floats, &scratch));
    rows.scratch = count;
    places[count++] = &scratch;
    INLAY_TRY(cpu_emit_step(build, &rows.native, sizeof rows, places, count));
    status = cpu_finish(build, group, posts, &output, true);
done:
    return status;
}
