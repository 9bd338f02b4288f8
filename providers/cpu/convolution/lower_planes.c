/* Depthwise convolutions of row-major images (planes), in one or two dimensions, where no consumer wants
 * channels-last. A unit of work copies some rows of a plane with their border, and computes output rows from the copy
 * (convolution/planes.h). */
#include "cpu/convolution/plane_copy.h"
#include "cpu/convolution/tiles.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(planes_lower);

enum { COPY_FLOATS = 6144, MAX_TAPS = 128, UNIT_FLOPS = 20000, ARG_X = 0, ARG_W, ARG_Y, ARG_BIAS };

struct planes {
    cpu_native native;
    plane_copy copy;
    kernel_conv_shape window;
    int64_t count;  /* number of planes */
    int64_t block;  /* output rows in a unit */
    int64_t blocks; /* units of a plane */
    bool biased, clamp;
    float low, high;
    int64_t at[MAX_TAPS]; /* offsets of the taps of a kernel row in the copy */
};

typedef struct planes_call {
    const struct planes *planes;
    void *const *args;
} planes_call;

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
                         .high = planes->high };

    INLAY_CHECK(seen * planes->copy.row <= COPY_FLOATS);
    for (int64_t row = 0; row < seen; row++)
        plane_copy_row(&planes->copy,
                       top + row >= 0 && top + row < window->height ? input + (top + row) * window->width : NULL,
                       copy + row * planes->copy.row);
    for (int64_t row = 0; row < rows; row += args.rows) {
        args.rows = (int32_t)(rows - row < PLANES_ROWS ? rows - row : PLANES_ROWS);
        args.input = copy + row * window->stride[0] * planes->copy.row;
        args.output = (float *)call->args[ARG_Y] + (plane * window->out_height + first + row) * window->out_width;
        planes->copy.set->rows(&args);
    }
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

static inlay_status run_planes(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct planes *planes = (const struct planes *)(const void *)native;
    planes_call call = { planes, args };
    const int64_t units = planes->count * planes->blocks;
    const double unit = planes->window.flops / (double)units;
    const int64_t grain = unit < UNIT_FLOPS ? (int64_t)(UNIT_FLOPS / (unit + 1)) + 1 : 1;

    if (threads <= 1 || units <= grain)
        return planes_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, grain, planes_units, &call);
}

/* ------------------------------------------------------------------ condition and lowering */

bool planes_run(const cpu_build *build, const kernel_layer *layer)
{
    const kernel_conv_shape *window = &layer->window;
    plane_copy copy;

    if (!depthwise_runs(build, layer) || window->in_concat || !kernel_input_is_ready(build) ||
        window->kernel[1] > MAX_TAPS || window->stride[1] > PLANES_LANES || layout_is_image(&layer->input.layout) ||
        layer->input.layout.kind != LAYOUT_STRIDED)
        return false;
    plane_copy_plan(&copy, window);
    return copy.row * plane_rows_seen(window, 1) <= COPY_FLOATS;
}

/* Chooses as many rows as the copy has space for, evenly divided among units. */
static void cut(struct planes *planes)
{
    const kernel_conv_shape *window = &planes->window;

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
                             .count = layer->window.images * layer->window.in,
                             .biased = layer->bias_value != INLAY_NONE };
    cpu_place input, weights, output, bias;
    inlay_status status;
    uint32_t posts;
    tensor_layout layout;

    INLAY_TRY(cpu_read_plain(build, op->in[0], &input));
    layout_plain(&layout, (uint32_t)layer->weights.rank, layer->weights.dims);
    INLAY_TRY(cpu_read_constant(build, op->in[1], &layer->weights, &layout, &weights));
    if (planes.biased) {
        INLAY_TRY(cpu_read_floats(build, layer->bias_value, layer->window.out, &bias));
    }
    posts = group->post_count > 0 && group->posts[0].kind == CPU_POST_UNARY &&
            tiles_fuse_clamp(&group->posts[0].unary, &epilogue);
    planes.clamp = epilogue.clamp;
    planes.low = epilogue.low;
    planes.high = epilogue.high;
    plane_copy_plan(&planes.copy, &planes.window);
    for (int64_t k = 0; k < planes.window.kernel[1]; k++)
        planes.at[k] = plane_offset(&planes.copy, &planes.window, k);
    cut(&planes);
    layout_plain(&layout, build->ranks[op->out[0]], build->dims[op->out[0]]);
    INLAY_TRY(cpu_step_result_place(build, group, posts, &layout, &output));
    INLAY_TRY(cpu_emit_step(build, &planes.native, sizeof planes,
                            (const cpu_place *const[]){ &input, &weights, &output, &bias },
                            planes.biased ? ARG_BIAS + 1 : ARG_BIAS));
    status = cpu_finish(build, group, posts, &output, true);
done:
    return status;
}
