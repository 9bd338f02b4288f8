/* Convolutions with groups in one, two or three dimensions, with channels last: where each channel is a group by itself
 * along vectors of channels, otherwise as tiles of pixels by the channels of a group. oneDNN has fast kernels for two
 * dimensions; for one and three it unfolds windows in memory. Conv-1..22. */
#include "convolution/groups.h"
#include "convolution/tiles.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(cpu_lower_groups);

enum { MAX_SPATIAL = 3, CHANNEL_BLOCK = 64, ALONE_FLOPS = 200000 };

/* NULL: this CPU has none. */
static void (*thin_row_of_cpu(void))(const thin_row *row)
{
    return KERNEL_BEST(thin_row);
}

struct grouped {
    cpu_native native;
    const tile_set *set;
    void (*thin_row)(const thin_row *row);
    bool thin; /* groups of one channel */
    bool biased;
    int64_t rows;                      /* of the output: all places of the axes but the innermost one */
    int64_t sizes[MAX_SPATIAL];        /* of the output, its innermost axis last; unused ones are 1, in front */
    int64_t image, steps[MAX_SPATIAL]; /* floats of the input: to the next image, to the next place of the output */
    int64_t groups, in, out;           /* channels of a group */
    int64_t panels, depth;             /* of a group: panels of weights, their lines */
    int64_t tap_count, chain;          /* chain: of sums */
    int64_t taps[];
};

typedef struct grouped_call {
    const struct grouped *grouped;
    void *const *args; /* x, w, y, bias */
} grouped_call;

enum { ARG_X, ARG_W, ARG_Y, ARG_BIAS };

/* Where the window of the first pixel of a row lies. */
static const float *row_of(const grouped_call *call, int64_t row)
{
    const struct grouped *grouped = call->grouped;
    int64_t at = row % grouped->sizes[1] * grouped->steps[1];

    row /= grouped->sizes[1];
    at += row % grouped->sizes[0] * grouped->steps[0];
    return (const float *)call->args[ARG_X] + at + row / grouped->sizes[0] * grouped->image;
}

/* Channels [first, first + count), each by itself. */
static void thin_unit(const grouped_call *call, int64_t row, int64_t first, int64_t count)
{
    const struct grouped *grouped = call->grouped;
    const thin_row r = {
        .input = row_of(call, row) + first,
        .x_step = grouped->steps[MAX_SPATIAL - 1],
        .taps = grouped->taps,
        .tap_count = grouped->tap_count,
        .weights = (const float *)call->args[ARG_W] + first,
        .w_step = grouped->groups,
        .bias = grouped->biased ? (const float *)call->args[ARG_BIAS] + first : NULL,
        .output = (float *)call->args[ARG_Y] + row * grouped->sizes[MAX_SPATIAL - 1] * grouped->groups + first,
        .y_step = grouped->groups,
        .pixels = grouped->sizes[MAX_SPATIAL - 1],
        .channels = count,
    };

    grouped->thin_row(&r);
}

static void wide_unit(const grouped_call *call, int64_t row, int64_t group)
{
    const struct grouped *grouped = call->grouped;
    const int64_t pixels = grouped->sizes[MAX_SPATIAL - 1], channels = grouped->groups * grouped->out;
    const float *input = row_of(call, row) + group * grouped->in;
    float *output = (float *)call->args[ARG_Y] + row * pixels * channels + group * grouped->out;

    for (int64_t panel = 0; panel < grouped->panels; panel++) {
        const int64_t column = panel * TILE_WIDTH;
        tile_product product = {
            .a_row = grouped->steps[MAX_SPATIAL - 1],
            .taps = grouped->taps,
            .tap_count = grouped->tap_count,
            .depth = grouped->in,
            .chain = grouped->chain,
            .b = (const float *)call->args[ARG_W] + (group * grouped->panels + panel) * grouped->depth * TILE_WIDTH,
            .bias = grouped->biased ? (const float *)call->args[ARG_BIAS] + group * grouped->out + column : NULL,
            .c_row = channels,
            .columns = grouped->out - column < TILE_WIDTH ? grouped->out - column : TILE_WIDTH,
        };

        for (int64_t first = 0; first < pixels; first += TILE_ROWS) {
            product.a = input + first * product.a_row;
            product.c = output + first * channels + column;
            grouped->set->multiply(&product, (int)(pixels - first < TILE_ROWS ? pixels - first : TILE_ROWS));
        }
    }
}

/* Units: rows within a group, or within a block of channels, so that its weights stay near. */
static inlay_status grouped_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const grouped_call *call = user;
    const struct grouped *grouped = call->grouped;

    (void)worker;
    for (int64_t u = begin; u < end; u++) {
        int64_t part = u / grouped->rows, first = part * CHANNEL_BLOCK;

        if (grouped->thin)
            thin_unit(call, u % grouped->rows, first,
                      grouped->groups - first < CHANNEL_BLOCK ? grouped->groups - first : CHANNEL_BLOCK);
        else
            wide_unit(call, u % grouped->rows, part);
    }
    return INLAY_OK;
}

static inlay_status run_grouped(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                uint32_t threads)
{
    const struct grouped *grouped = (const struct grouped *)(const void *)native;
    grouped_call call = { grouped, args };
    int64_t parts = grouped->thin ? (grouped->groups + CHANNEL_BLOCK - 1) / CHANNEL_BLOCK : grouped->groups,
            units = parts * grouped->rows;
    int64_t grain;
    double flops = 2.0 * (double)(grouped->rows * grouped->sizes[MAX_SPATIAL - 1] * grouped->groups) *
                   (double)(grouped->out * grouped->depth);

    if (threads <= 1 || units < 2 || flops < ALONE_FLOPS)
        return grouped_units(&call, 0, units, 0);
    grain = (int64_t)(ALONE_FLOPS / 4 / (flops / (double)units)) + 1;
    return state->host->parallel_for(state->host->ctx, run, units, grain, grouped_units, &call);
}

/* ------------------------------------------------------------------ lowering */

/* [taps][channels], or panels: [group][out / TILE_WIDTH][window][in][TILE_WIDTH]. */
static bool weights_layout(const memory_desc *weights, bool thin, memory_desc *md)
{
    static const char *const tags[] = { "aBdc32b", "aBdec32b", "aBdefc32b" };
    int64_t strides[LIBRARY_MAX_NDIMS], stride = weights->dims[0];

    if (!thin)
        return memory_desc_blocks(md, (uint32_t)weights->ndims, weights->dims, tags[weights->ndims - 4]);
    for (int d = weights->ndims; d-- > 1; stride *= weights->dims[d])
        strides[d] = stride;
    strides[0] = 1;
    memory_desc_strides(md, (uint32_t)weights->ndims, weights->dims, strides);
    return md->ndims > 0;
}

/* input with channels last and with its border. */
static inlay_status read_image(cpu_build *build, const cpu_op *op, cpu_place *input)
{
    const int64_t *dims = build->dims[op->in[0]];
    int64_t before[CPU_MAX_RANK] = { 0 }, after[CPU_MAX_RANK] = { 0 };
    uint32_t rank = build->ranks[op->in[0]];
    cpu_place bordered;
    bool padded = false;
    inlay_status status;
    memory_desc md;

    memory_desc_channels_last(&md, rank, dims);
    INLAY_TRY(cpu_read_as(build, op->in[0], &md, input));
    input->md = md;
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

/* The step: shapes and distances. input: bordered. */
static struct grouped *new_step(const cpu_build *build, const cpu_op *op, const cpu_place *input,
                                const memory_desc *weights, bool thin)
{
    const int64_t *w = weights->dims, *output = build->dims[op->out[0]], *by = input->md.strides;
    const uint32_t n = op->window.spatial, skip = MAX_SPATIAL - n;
    int64_t taps = 1;
    struct grouped *grouped;

    for (uint32_t i = 0; i < n; i++)
        taps *= op->window.kernel[i];
    grouped = calloc(1, sizeof *grouped + (size_t)taps * sizeof grouped->taps[0]);
    if (grouped == NULL)
        return NULL;
    *grouped = (struct grouped){ .native.run = run_grouped,
                                 .set = build->state->tiles,
                                 .thin_row = thin_row_of_cpu(),
                                 .thin = thin,
                                 .rows = output[0],
                                 .sizes = { 1, 1, 1 },
                                 .image = by[0],
                                 .groups = w[0],
                                 .out = w[1],
                                 .in = w[2],
                                 .panels = (w[1] + TILE_WIDTH - 1) / TILE_WIDTH,
                                 .depth = taps * w[2],
                                 .tap_count = taps,
                                 .chain = sgemm_chain(taps * w[2], build->state->strict) };
    for (uint32_t i = 0; i < n; i++) {
        grouped->sizes[skip + i] = output[2 + i];
        grouped->steps[skip + i] = by[2 + i] * op->window.strides[i];
        grouped->rows *= i + 1 < n ? output[2 + i] : 1;
    }
    for (int64_t tap = 0; tap < taps; tap++) {
        int64_t left = tap;

        for (uint32_t i = n; i-- > 0; left /= op->window.kernel[i])
            grouped->taps[tap] += left % op->window.kernel[i] * op->window.dilations[i] * by[2 + i];
    }
    return grouped;
}

inlay_status cpu_lower_groups(cpu_build *build, const cpu_group *group, const memory_desc *weights, uint32_t bias,
                              bool *out_done)
{
    const cpu_op *op = build->op;
    const bool thin = op->window.group > 1 && weights->dims[1] == 1 && weights->dims[2] == 1;
    cpu_place input, w, output, bias_place;
    inlay_status status;
    struct grouped *grouped = NULL;
    memory_desc md;

    *out_done = false;
    if (build->state->tiles == NULL || op->window.group < 2 || op->window.spatial > MAX_SPATIAL ||
        !weights_layout(weights, thin, &md))
        return INLAY_OK;
    INLAY_TRY(read_image(build, op, &input));
    INLAY_TRY(cpu_read_constant(build, op->in[1], weights, &md, &w));
    if (bias != INLAY_NONE) {
        INLAY_TRY(cpu_read_floats(build, bias, build->dims[op->out[0]][1], &bias_place));
    }
    memory_desc_channels_last(&md, build->ranks[op->out[0]], build->dims[op->out[0]]);
    INLAY_TRY(cpu_made_place(build, group, 0, &md, &output));
    grouped = new_step(build, op, &input, weights, thin);
    if (grouped == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
    grouped->biased = bias != INLAY_NONE;
    INLAY_TRY(cpu_emit_native(build, &grouped->native, (const cpu_place *const[]){ &input, &w, &output, &bias_place },
                              grouped->biased ? ARG_BIAS + 1 : ARG_BIAS));
    if (memory_desc_is_plain(&output.md))
        memory_desc_plain(&output.md, build->ranks[group->out], build->dims[group->out]);
    INLAY_TRY(cpu_finish(build, group, 0, &output, true));
    *out_done = true;
done:
    return status;
}
