/* Group convolutions (Conv-1..22) in one, two or three dimensions, channels-last. Groups of one channel are computed
 * along vectors of channels, others as tiles of pixels by the channels of a group. For groups of few channels in one or
 * two dimensions, and for depthwise convolutions of images, lower_depthwise.c is faster. */
#include "cpu/convolution/groups.h"
#include "cpu/convolution/tiles.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/images/pad.h"
#include "cpu/region/window.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(cpu_lower_groups);

enum { MAX_SPATIAL = 3, CHANNEL_BLOCK = 64, ALONE_FLOPS = 200000 };

/* The function for this CPU; NULL: none. */
static void (*thin_row_of_cpu(void))(const thin_row *row)
{
    return KERNEL_BEST(thin_row);
}

typedef struct group_conv {
    cpu_native native;
    const tile_set *set;
    void (*thin_row)(const thin_row *row);
    bool thin; /* groups have one channel */
    bool biased;
    int64_t rows;                      /* output positions of all axes but the innermost one */
    int64_t sizes[MAX_SPATIAL];        /* of the output, innermost axis last; unused ones are 1, in front */
    int64_t image, steps[MAX_SPATIAL]; /* floats of the input from one image, or output position, to the next */
    int64_t groups, in, out;           /* in, out: channels of a group */
    int64_t panels, depth;             /* panels of weights of a group, and their lines */
    int64_t tap_count, chain;          /* chain: maximum terms of a chain */
    int64_t taps[];
} group_conv;

typedef struct group_conv_call {
    const group_conv *conv;
    void *const *args; /* x, w, y, bias */
} group_conv_call;

enum { ARG_X, ARG_W, ARG_Y, ARG_BIAS };

/* Start of the receptive field of a row's first pixel. */
static const float *row_of(const group_conv_call *call, int64_t row)
{
    const group_conv *conv = call->conv;
    int64_t at = row % conv->sizes[1] * conv->steps[1];

    row /= conv->sizes[1];
    at += row % conv->sizes[0] * conv->steps[0];
    return (const float *)call->args[ARG_X] + at + row / conv->sizes[0] * conv->image;
}

/* Computes an output row for channels [first, first + count); each channel is a group. */
static void thin_unit(const group_conv_call *call, int64_t row, int64_t first, int64_t count)
{
    const group_conv *conv = call->conv;
    const thin_row r = {
        .input = row_of(call, row) + first,
        .x_step = conv->steps[MAX_SPATIAL - 1],
        .taps = conv->taps,
        .tap_count = conv->tap_count,
        .weights = (const float *)call->args[ARG_W] + first,
        .w_step = conv->groups,
        .bias = conv->biased ? (const float *)call->args[ARG_BIAS] + first : NULL,
        .output = (float *)call->args[ARG_Y] + row * conv->sizes[MAX_SPATIAL - 1] * conv->groups + first,
        .y_step = conv->groups,
        .pixels = conv->sizes[MAX_SPATIAL - 1],
        .channels = count,
    };

    conv->thin_row(&r);
}

static void wide_unit(const group_conv_call *call, int64_t row, int64_t group)
{
    const group_conv *conv = call->conv;
    const int64_t pixels = conv->sizes[MAX_SPATIAL - 1], channels = conv->groups * conv->out;
    const float *input = row_of(call, row) + group * conv->in;
    float *output = (float *)call->args[ARG_Y] + row * pixels * channels + group * conv->out;

    INLAY_CHECK(group >= 0 && group < conv->groups);

    for (int64_t panel = 0; panel < conv->panels; panel++) {
        const int64_t column = panel * TILE_WIDTH;
        tile_product product = {
            .a_row = conv->steps[MAX_SPATIAL - 1],
            .taps = conv->taps,
            .tap_count = conv->tap_count,
            .depth = conv->in,
            .chain = conv->chain,
            .b = (const float *)call->args[ARG_W] + (group * conv->panels + panel) * conv->depth * TILE_WIDTH,
            .bias = conv->biased ? (const float *)call->args[ARG_BIAS] + group * conv->out + column : NULL,
            .c_row = channels,
            .columns = conv->out - column < TILE_WIDTH ? conv->out - column : TILE_WIDTH,
        };

        for (int64_t first = 0; first < pixels; first += TILE_ROWS) {
            product.a = input + first * product.a_row;
            product.c = output + first * channels + column;
            conv->set->multiply(&product, (int)(pixels - first < TILE_ROWS ? pixels - first : TILE_ROWS));
        }
    }
}

static int64_t parts_of(const group_conv *conv)
{
    return conv->thin ? (conv->groups + CHANNEL_BLOCK - 1) / CHANNEL_BLOCK : conv->groups;
}

/* Units: groups, or blocks of channels, of a row. Threads divide rows, since the channels of a pixel share lines of the
 * caches. */
static inlay_status group_conv_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const group_conv_call *call = user;
    const group_conv *conv = call->conv;
    const int64_t parts = parts_of(conv);

    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t row = unit / parts, part = unit % parts, first = part * CHANNEL_BLOCK;

        if (conv->thin)
            thin_unit(call, row, first, conv->groups - first < CHANNEL_BLOCK ? conv->groups - first : CHANNEL_BLOCK);
        else
            wide_unit(call, row, part);
    }
    return INLAY_OK;
}

static inlay_status run_group_conv(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                   uint32_t threads)
{
    const group_conv *conv = (const group_conv *)(const void *)native;
    group_conv_call call = { conv, args };
    const int64_t units = parts_of(conv) * conv->rows;
    int64_t grain;
    double flops =
        2.0 * (double)(conv->rows * conv->sizes[MAX_SPATIAL - 1] * conv->groups) * (double)(conv->out * conv->depth);

    if (threads <= 1 || units < 2 || flops < ALONE_FLOPS)
        return group_conv_units(&call, 0, units, 0);
    grain = (int64_t)(ALONE_FLOPS / 4 / (flops / (double)units)) + 1;
    return state->host->parallel_for(state->host->ctx, run, units, grain, group_conv_units, &call);
}

/* The layout [taps][channels] if groups have one channel, otherwise panels of [group][out /
 * TILE_WIDTH][window][in][TILE_WIDTH]. */
static bool weights_layout(const tensor_layout *weights, bool thin, tensor_layout *layout)
{
    static const char *const tags[] = { "aBdc32b", "aBdec32b", "aBdefc32b" };
    int64_t strides[TENSOR_MAX_RANK], stride = weights->dims[0];

    INLAY_CHECK(weights->rank >= 4 && weights->rank <= 6);
    if (!thin)
        return layout_blocks(layout, (uint32_t)weights->rank, weights->dims, tags[weights->rank - 4]);
    for (int d = weights->rank; d-- > 1; stride *= weights->dims[d])
        strides[d] = stride;
    strides[0] = 1;
    layout_strides(layout, (uint32_t)weights->rank, weights->dims, strides);
    return layout->rank > 0;
}

/* Reads the input channels-last, with its border, or the pixels that were gathered from it. */
static inlay_status read_image(cpu_build *build, const cpu_op *op, const kernel_layer *layer, cpu_place *input)
{
    const int64_t *dims = build->dims[op->in[0]];
    int64_t before[CPU_MAX_RANK] = { 0 }, after[CPU_MAX_RANK] = { 0 };
    uint32_t rank = build->ranks[op->in[0]];
    cpu_place bordered;
    bool padded = false;
    inlay_status status;
    tensor_layout layout;

    if (layer->gathered) {
        layout_channels_last(&layout, rank, layer->input.layout.dims);
        return cpu_reorder(build, &layer->input, &layout, input);
    }
    layout_channels_last(&layout, rank, dims);
    INLAY_TRY(cpu_read_as(build, op->in[0], &layout, input));
    input->layout = layout;
    cpu_window_pads(op, dims + 2, build->dims[op->out[0]] + 2, op->window.kernel, before + 2, after + 2);
    for (uint32_t d = 2; d < rank; d++) {
        after[d] = after[d] > 0 ? after[d] : 0;
        padded = padded || before[d] > 0 || after[d] > 0;
    }
    if (padded) {
        INLAY_TRY(cpu_emit_border(build, input, before, after, &bordered));
        *input = bordered;
    }
done:
    return status;
}

/* Creates the step and sets its shapes and strides. `input` includes its border. */
static group_conv *new_step(const cpu_build *build, const cpu_op *op, const kernel_layer *layer, const cpu_place *input,
                            bool thin)
{
    const tensor_layout *weights = &layer->weights;
    const int64_t *weight_dims = weights->dims, *output = build->dims[op->out[0]], *strides = input->layout.strides;
    const uint32_t spatial = op->window.spatial, skip = MAX_SPATIAL - spatial;
    int64_t taps = 1;
    group_conv *conv;

    for (uint32_t i = 0; i < spatial; i++)
        taps *= op->window.kernel[i];
    conv = calloc(1, sizeof *conv + (size_t)taps * sizeof conv->taps[0]);
    if (conv == NULL)
        return NULL;
    *conv = (group_conv){ .native.run = run_group_conv,
                          .set = build->state->tiles,
                          .thin_row = thin_row_of_cpu(),
                          .thin = thin,
                          .rows = output[0],
                          .sizes = { 1, 1, 1 },
                          .image = strides[0],
                          .groups = weight_dims[0],
                          .out = weight_dims[1],
                          .in = weight_dims[2],
                          .panels = (weight_dims[1] + TILE_WIDTH - 1) / TILE_WIDTH,
                          .depth = taps * weight_dims[2],
                          .tap_count = taps,
                          .chain = sgemm_chain(taps * weight_dims[2], build->state->strict) };
    for (uint32_t i = 0; i < spatial; i++) {
        conv->sizes[skip + i] = output[2 + i];
        conv->steps[skip + i] = strides[2 + i] * (layer->gathered ? 1 : op->window.strides[i]);
        conv->rows *= i + 1 < spatial ? output[2 + i] : 1;
    }
    for (int64_t tap = 0; tap < taps; tap++) {
        int64_t left = tap;

        for (uint32_t i = spatial; i-- > 0; left /= op->window.kernel[i])
            conv->taps[tap] += left % op->window.kernel[i] * op->window.dilations[i] * strides[2 + i];
    }
    return conv;
}

inlay_status cpu_lower_groups(cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool *out_done)
{
    const cpu_op *op = build->op;
    const tensor_layout *weights = &layer->weights;
    const uint32_t bias = layer->bias_value;
    const bool thin = op->window.group > 1 && weights->dims[1] == 1 && weights->dims[2] == 1;
    cpu_place input, weights_place, output, bias_place;
    inlay_status status;
    group_conv *conv = NULL;
    tensor_layout layout;

    *out_done = false;
    if (build->state->tiles == NULL || op->window.group < 2 || op->window.spatial > MAX_SPATIAL ||
        !weights_layout(weights, thin, &layout))
        return INLAY_OK;
    INLAY_TRY(read_image(build, op, layer, &input));
    INLAY_TRY(cpu_read_constant(build, op->in[1], weights, &layout, &weights_place));
    if (bias != INLAY_NONE) {
        INLAY_TRY(cpu_read_floats(build, bias, build->dims[op->out[0]][1], &bias_place));
    }
    layout_channels_last(&layout, build->ranks[op->out[0]], build->dims[op->out[0]]);
    INLAY_TRY(cpu_step_result_place(build, group, 0, &layout, &output));
    conv = new_step(build, op, layer, &input, thin);
    if (conv == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
    conv->biased = bias != INLAY_NONE;
    INLAY_TRY(cpu_emit_native(build, &conv->native,
                              (const cpu_place *const[]){ &input, &weights_place, &output, &bias_place },
                              conv->biased ? ARG_BIAS + 1 : ARG_BIAS));
    if (layout_is_plain(&output.layout))
        layout_plain(&output.layout, build->ranks[group->out], build->dims[group->out]);
    INLAY_TRY(cpu_finish(build, group, 0, &output, true));
    *out_done = true;
done:
    return status;
}
