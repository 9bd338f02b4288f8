/* Convolutions of images that lie row by row, in one or two dimensions, whose results nobody wants otherwise: weights
 * as they lie by the windows of some rows of the output, laid out in panels of neighbours (sgemm.h). The product of one
 * element of the window with all of a panel is a row of the image, cut where panels end, and of columns that are a
 * stride apart where windows are; so a unit first copies the rows that it sees, with their border. */
#include "convolution/plane_copy.h"
#include "convolution/tiles.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(conv_rows_lower);

enum {
    ARG_X,
    ARG_W,
    ARG_Y,
    ARG_BIAS,
    PANEL_FLOATS = 96 * 1024,
    COPY_FLOATS = 64 * 1024,
    ALONE_FLOPS = 200000,
    LEAST_CHANNELS = 48
};

typedef struct conv_rows {
    cpu_native native;
    const sgemm_kernel *kernel;
    plane_copy copy; /* of the rows that a unit sees of one channel */
    kernel_conv_shape window;
    int64_t in, out, chain; /* channels of a group; terms in a row */
    int64_t rows, blocks;   /* of the output in a unit; units of an image's group */
    bool copied;            /* otherwise rows are read where they lie: no border, no strides */
    int64_t panel_floats, copy_floats;
    uint32_t workers, scratch;
    bool biased, clamp;
    float low, high;
} conv_rows;

typedef struct conv_rows_call {
    const conv_rows *rows;
    void *const *args;
    int64_t parts; /* of a unit's channels of the output, each of them work for a thread */
} conv_rows_call;

/* The panels of `rows` rows of the output. input: a channel's rows from the first that is seen on, x_row apart. */
static void lay_out(const conv_rows *r, const float *input, int64_t x_row, int64_t channel, int64_t rows, float *panels)
{
    const kernel_conv_shape *window = &r->window;
    const plane_set *set = r->copy.set;
    const int64_t taps = window->kernel[0] * window->kernel[1], depth = r->in * taps;
    const bool joined = window->out_width == x_row && window->stride[0] == 1; /* rows run on into each other */

    for (int64_t a = 0; a < window->kernel[0]; a++)
        for (int64_t c = 0; c < window->kernel[1]; c++) {
            const int64_t k = channel * taps + a * window->kernel[1] + c;
            const float *from = input + a * window->dilation[0] * x_row + plane_offset(&r->copy, window, c);

            if (joined) {
                set->put(from, rows * window->out_width, panels + k * SGEMM_WIDTH, SGEMM_WIDTH * depth, 0);
                continue;
            }
            for (int64_t i = 0; i < rows; i++)
                set->put(from + i * window->stride[0] * x_row, window->out_width, panels + k * SGEMM_WIDTH,
                         SGEMM_WIDTH * depth, i * window->out_width);
        }
}

static void one_unit(const conv_rows_call *call, int64_t unit, int64_t part, float *panels, float *copy)
{
    const conv_rows *r = call->rows;
    const kernel_conv_shape *window = &r->window;
    const int64_t image = unit / r->blocks / window->group, group = unit / r->blocks % window->group;
    const int64_t first = unit % r->blocks * r->rows;
    const int64_t low = r->out * part / call->parts, high = r->out * (part + 1) / call->parts;
    const int64_t channel = group * r->out + low; /* the first that is made */
    const int64_t rows = window->out_height - first < r->rows ? window->out_height - first : r->rows;
    const int64_t depth = r->in * window->kernel[0] * window->kernel[1],
                  places = window->out_height * window->out_width;
    const int64_t top = first * window->stride[0] - window->begin[0];
    const int64_t seen = plane_rows_seen(window, rows);
    sgemm_post posts[2];
    sgemm_job job = { .kernel = r->kernel,
                      .m = high - low,
                      .n = rows * window->out_width,
                      .k = depth,
                      .chain = r->chain,
                      .a = (const float *)call->args[ARG_W] + channel * depth,
                      .a_row = depth,
                      .b = panels,
                      .width = SGEMM_WIDTH,
                      .b_panel = SGEMM_WIDTH * depth,
                      .b_step = SGEMM_WIDTH,
                      .c_row = places,
                      .c = (float *)call->args[ARG_Y] + (image * window->group * r->out + channel) * places +
                           first * window->out_width,
                      .posts = posts };

    for (int64_t c = 0; c < r->in; c++) {
        const float *input = (const float *)call->args[ARG_X] +
                             ((image * window->group + group) * r->in + c) * window->height * window->width;

        if (r->copied) {
            for (int64_t i = 0; i < seen; i++)
                plane_copy_row(&r->copy,
                               top + i >= 0 && top + i < window->height ? input + (top + i) * window->width : NULL,
                               copy + i * r->copy.row);
            lay_out(r, copy, r->copy.row, c, rows, panels);
        } else {
            lay_out(r, input + top * window->width, window->width, c, rows, panels);
        }
    }
    if (r->biased)
        posts[job.post_count++] =
            (sgemm_post){ .fn = SGEMM_ADD, .other = (const float *)call->args[ARG_BIAS] + channel, .row = 1 };
    if (r->clamp)
        posts[job.post_count++] = (sgemm_post){ .fn = SGEMM_CLIP, .alpha = r->low, .beta = r->high };
    sgemm_run(&job, 0, sgemm_units(&job));
}

static inlay_status conv_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const conv_rows_call *call = user;
    const conv_rows *rows = call->rows;
    float *panels =
        (float *)call->args[rows->scratch] + worker % rows->workers * (rows->panel_floats + rows->copy_floats);
    float *copy = panels + rows->panel_floats;

    memset(copy, 0, (size_t)rows->copy_floats * sizeof *copy);
    for (int64_t u = begin; u < end; u++)
        one_unit(call, u / call->parts, u % call->parts, panels, copy);
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
    /* Few units, as of a row of sound: their channels are shared, too, though each part lays the panels out again. */
    for (; units * call.parts < threads && rows->out / (2 * call.parts) >= LEAST_CHANNELS;)
        call.parts *= 2;
    units *= call.parts;
    return units < 2 ? conv_units(&call, 0, units, 0)
                     : state->host->parallel_for(state->host->ctx, run, units, 1, conv_units, &call);
}

/* ------------------------------------------------------------------ the choice, and lowering */

/* Rows of the output in a unit, and what that needs; false: one row has no room. */
static bool cut(conv_rows *rows)
{
    const kernel_conv_shape *window = &rows->window;
    const int64_t depth = rows->in * window->kernel[0] * window->kernel[1];
    /* enough for two threads and more, whatever there are: a unit reads all weights */
    const int64_t most = window->out_height >= 8 ? (window->out_height + 7) / 8 : window->out_height;

    for (rows->rows = most; rows->rows > 0; rows->rows--) {
        rows->panel_floats = depth * ((rows->rows * window->out_width + SGEMM_WIDTH - 1) / SGEMM_WIDTH * SGEMM_WIDTH);
        rows->copy_floats = rows->copied ? plane_rows_seen(window, rows->rows) * rows->copy.row : 0;
        if (rows->panel_floats <= PANEL_FLOATS && rows->copy_floats <= COPY_FLOATS)
            break;
    }
    if (rows->rows < 1)
        return false;
    rows->blocks = (window->out_height + rows->rows - 1) / rows->rows;
    return true;
}

static bool measure(const cpu_build *build, const kernel_layer *layer, conv_rows *rows)
{
    const kernel_conv_shape *window = &layer->window;

    *rows = (conv_rows){ .kernel = build->state->sgemm,
                         .window = *window,
                         .in = window->in / window->group,
                         .out = window->out / window->group,
                         .copied = window->padded || window->stride[1] > 1 };
    if (window->stride[1] > PLANES_LANES)
        return false;
    plane_copy_plan(&rows->copy, window);
    return cut(rows);
}

bool conv_rows_run(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const kernel_conv_shape *window = &layer->window;
    conv_rows rows;

    return build->state->sgemm != NULL && window->flat && !window->home && kernel_input_is_ready(build) &&
           memory_desc_is_plain(&layer->input.md) && !memory_desc_is_image(&layer->input.md) &&
           layer->input.md.data_type == LIBRARY_F32 && build->compiled->values[group->out].uses == 0 &&
           window->in > window->group && window->out_width > 0 && window->out_height > 0 &&
           measure(build, layer, &rows);
}

inlay_status conv_rows_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const cpu_op *op = build->op;
    tile_ending ending = { 0 };
    cpu_place input, weights, output, bias, scratch;
    const cpu_place *places[ARG_BIAS + 2];
    uint32_t count = ARG_BIAS, posts;
    inlay_status status;
    int64_t floats;
    conv_rows rows;
    memory_desc md;

    if (!measure(build, layer, &rows))
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': no room for its rows", op->name);
    rows.native.run = run_conv_rows;
    rows.chain = sgemm_chain(rows.in * rows.window.kernel[0] * rows.window.kernel[1], build->state->strict);
    rows.workers = build->instance->threads > 0 ? build->instance->threads : 1;
    INLAY_TRY(cpu_read_plain(build, op->in[0], &input));
    memory_desc_plain(&md, (uint32_t)layer->weights.ndims, layer->weights.dims);
    INLAY_TRY(cpu_read_constant(build, op->in[1], &layer->weights, &md, &weights));
    posts = group->post_count > 0 && group->posts[0].kind == CPU_POST_ELTWISE &&
            tiles_clamps(&group->posts[0].eltwise, &ending);
    rows.clamp = ending.clamp;
    rows.low = ending.low;
    rows.high = ending.high;
    memory_desc_plain(&md, build->ranks[op->out[0]], build->dims[op->out[0]]);
    INLAY_TRY(cpu_made_place(build, group, posts, &md, &output));
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
