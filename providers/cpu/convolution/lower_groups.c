/* Convolutions with groups in one, two or three dimensions, with channels last: where each channel is a group by itself
 * along vectors of channels, otherwise as tiles of pixels by the channels of a group. oneDNN has fast kernels for two
 * dimensions; for one and three it unfolds windows in memory. Conv-1..22. */
#include "convolution/groups.h"
#include "convolution/tiles.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(rg_lower_groups);

enum { MAX_SPATIAL = 3, CHANNEL_BLOCK = 64, ALONE_FLOPS = 200000 };

/* NULL: this CPU has none. */
static void (*thin_row_of_cpu(void))(const thin_row *row)
{
    return KERNEL_BEST(thin_row);
}

struct grouped {
    rg_native native;
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
    const struct grouped *g;
    void *const *args; /* x, w, y, bias */
} grouped_call;

enum { ARG_X, ARG_W, ARG_Y, ARG_BIAS };

/* Where the window of the first pixel of a row lies. */
static const float *row_of(const grouped_call *call, int64_t row)
{
    const struct grouped *g = call->g;
    int64_t at = row % g->sizes[1] * g->steps[1];

    row /= g->sizes[1];
    at += row % g->sizes[0] * g->steps[0];
    return (const float *)call->args[ARG_X] + at + row / g->sizes[0] * g->image;
}

/* Channels [first, first + count), each by itself. */
static void thin_unit(const grouped_call *call, int64_t row, int64_t first, int64_t count)
{
    const struct grouped *g = call->g;
    const thin_row r = {
        .x = row_of(call, row) + first,
        .x_step = g->steps[MAX_SPATIAL - 1],
        .taps = g->taps,
        .tap_count = g->tap_count,
        .w = (const float *)call->args[ARG_W] + first,
        .w_step = g->groups,
        .bias = g->biased ? (const float *)call->args[ARG_BIAS] + first : NULL,
        .y = (float *)call->args[ARG_Y] + row * g->sizes[MAX_SPATIAL - 1] * g->groups + first,
        .y_step = g->groups,
        .pixels = g->sizes[MAX_SPATIAL - 1],
        .channels = count,
    };

    g->thin_row(&r);
}

static void wide_unit(const grouped_call *call, int64_t row, int64_t group)
{
    const struct grouped *g = call->g;
    const int64_t pixels = g->sizes[MAX_SPATIAL - 1], channels = g->groups * g->out;
    const float *x = row_of(call, row) + group * g->in;
    float *y = (float *)call->args[ARG_Y] + row * pixels * channels + group * g->out;

    for (int64_t panel = 0; panel < g->panels; panel++) {
        const int64_t column = panel * TILE_WIDTH;
        tile_product p = {
            .a_row = g->steps[MAX_SPATIAL - 1],
            .taps = g->taps,
            .tap_count = g->tap_count,
            .depth = g->in,
            .chain = g->chain,
            .b = (const float *)call->args[ARG_W] + (group * g->panels + panel) * g->depth * TILE_WIDTH,
            .bias = g->biased ? (const float *)call->args[ARG_BIAS] + group * g->out + column : NULL,
            .c_row = channels,
            .columns = g->out - column < TILE_WIDTH ? g->out - column : TILE_WIDTH,
        };

        for (int64_t first = 0; first < pixels; first += TILE_ROWS) {
            p.a = x + first * p.a_row;
            p.c = y + first * channels + column;
            g->set->multiply(&p, (int)(pixels - first < TILE_ROWS ? pixels - first : TILE_ROWS));
        }
    }
}

/* Units: rows within a group, or within a block of channels, so that its weights stay near. */
static inlay_status grouped_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const grouped_call *call = user;
    const struct grouped *g = call->g;

    (void)worker;
    for (int64_t u = begin; u < end; u++) {
        int64_t part = u / g->rows, first = part * CHANNEL_BLOCK;

        if (g->thin)
            thin_unit(call, u % g->rows, first, g->groups - first < CHANNEL_BLOCK ? g->groups - first : CHANNEL_BLOCK);
        else
            wide_unit(call, u % g->rows, part);
    }
    return INLAY_OK;
}

static inlay_status run_grouped(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                                uint32_t threads)
{
    const struct grouped *g = (const struct grouped *)(const void *)native;
    grouped_call call = { g, args };
    int64_t parts = g->thin ? (g->groups + CHANNEL_BLOCK - 1) / CHANNEL_BLOCK : g->groups, units = parts * g->rows;
    int64_t grain;
    double flops = 2.0 * (double)(g->rows * g->sizes[MAX_SPATIAL - 1] * g->groups) * (double)(g->out * g->depth);

    if (threads <= 1 || units < 2 || flops < ALONE_FLOPS)
        return grouped_units(&call, 0, units, 0);
    grain = (int64_t)(ALONE_FLOPS / 4 / (flops / (double)units)) + 1;
    return state->host->parallel_for(state->host->ctx, run, units, grain, grouped_units, &call);
}

/* ------------------------------------------------------------------ lowering */

/* [taps][channels], or panels: [group][out / TILE_WIDTH][window][in][TILE_WIDTH]. */
static bool weights_layout(const rg_md *weights, bool thin, rg_md *md)
{
    static const char *const tags[] = { "aBdc32b", "aBdec32b", "aBdefc32b" };
    int64_t strides[DN_MAX_NDIMS], stride = weights->dims[0];

    if (!thin)
        return rg_md_blocks(md, (uint32_t)weights->ndims, weights->dims, tags[weights->ndims - 4]);
    for (int d = weights->ndims; d-- > 1; stride *= weights->dims[d])
        strides[d] = stride;
    strides[0] = 1;
    rg_md_strides(md, (uint32_t)weights->ndims, weights->dims, strides);
    return md->ndims > 0;
}

/* x with channels last and with its border. */
static inlay_status read_image(rg_build *b, const rg_op *op, rg_place *x)
{
    const int64_t *dims = b->dims[op->in[0]];
    int64_t before[RG_MAX_RANK] = { 0 }, after[RG_MAX_RANK] = { 0 };
    uint32_t rank = b->ranks[op->in[0]];
    rg_place bordered;
    bool padded = false;
    inlay_status status;
    rg_md md;

    rg_md_channels_last(&md, rank, dims);
    INLAY_TRY(rg_read_as(b, op->in[0], &md, x));
    x->md = md;
    rg_window_pads(op, dims + 2, b->dims[op->out[0]] + 2, op->window.kernel, before + 2, after + 2);
    for (uint32_t d = 2; d < rank; d++) {
        after[d] = after[d] > 0 ? after[d] : 0;
        padded = padded || before[d] > 0 || after[d] > 0;
    }
    if (padded) {
        INLAY_TRY(rg_emit_border(b, x, before, after, &bordered));
        *x = bordered;
    }
done:
    return status;
}

/* The step: shapes and distances. x: bordered. */
static struct grouped *new_step(const rg_build *b, const rg_op *op, const rg_place *x, const rg_md *weights, bool thin)
{
    const int64_t *w = weights->dims, *y = b->dims[op->out[0]], *by = x->md.strides;
    const uint32_t n = op->window.spatial, skip = MAX_SPATIAL - n;
    int64_t taps = 1;
    struct grouped *g;

    for (uint32_t i = 0; i < n; i++)
        taps *= op->window.kernel[i];
    g = calloc(1, sizeof *g + (size_t)taps * sizeof g->taps[0]);
    if (g == NULL)
        return NULL;
    *g = (struct grouped){ .native.run = run_grouped,
                           .set = b->state->tiles,
                           .thin_row = thin_row_of_cpu(),
                           .thin = thin,
                           .rows = y[0],
                           .sizes = { 1, 1, 1 },
                           .image = by[0],
                           .groups = w[0],
                           .out = w[1],
                           .in = w[2],
                           .panels = (w[1] + TILE_WIDTH - 1) / TILE_WIDTH,
                           .depth = taps * w[2],
                           .tap_count = taps,
                           .chain = sg_chain(taps * w[2], b->state->strict) };
    for (uint32_t i = 0; i < n; i++) {
        g->sizes[skip + i] = y[2 + i];
        g->steps[skip + i] = by[2 + i] * op->window.strides[i];
        g->rows *= i + 1 < n ? y[2 + i] : 1;
    }
    for (int64_t t = 0; t < taps; t++) {
        int64_t left = t;

        for (uint32_t i = n; i-- > 0; left /= op->window.kernel[i])
            g->taps[t] += left % op->window.kernel[i] * op->window.dilations[i] * by[2 + i];
    }
    return g;
}

inlay_status rg_lower_groups(rg_build *b, const rg_group *group, const rg_md *weights, uint32_t bias, bool *out_done)
{
    const rg_op *op = b->op;
    const bool thin = op->window.group > 1 && weights->dims[1] == 1 && weights->dims[2] == 1;
    rg_place x, w, y, bias_place;
    inlay_status status;
    struct grouped *g = NULL;
    rg_md md;

    *out_done = false;
    if (b->state->tiles == NULL || op->window.group < 2 || op->window.spatial > MAX_SPATIAL ||
        !weights_layout(weights, thin, &md))
        return INLAY_OK;
    INLAY_TRY(read_image(b, op, &x));
    INLAY_TRY(rg_read_constant(b, op->in[1], weights, &md, &w));
    if (bias != INLAY_NONE) {
        INLAY_TRY(rg_read_floats(b, bias, b->dims[op->out[0]][1], &bias_place));
    }
    rg_md_channels_last(&md, b->ranks[op->out[0]], b->dims[op->out[0]]);
    INLAY_TRY(rg_made_place(b, group, 0, &md, &y));
    g = new_step(b, op, &x, weights, thin);
    if (g == NULL)
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
    g->biased = bias != INLAY_NONE;
    INLAY_TRY(rg_emit_native(b, &g->native, (const rg_place *const[]){ &x, &w, &y, &bias_place },
                             g->biased ? ARG_BIAS + 1 : ARG_BIAS));
    if (rg_md_is_plain(&y.md))
        rg_md_plain(&y.md, b->ranks[group->out], b->dims[group->out]);
    INLAY_TRY(rg_finish(b, group, 0, &y, true));
    *out_done = true;
done:
    return status;
}
