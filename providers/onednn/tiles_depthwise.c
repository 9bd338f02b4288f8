/* Convolutions with one channel a group, channels last: a row of output pixels at a time, all channels of a few pixels
 * after one another. Functions behind it are applied to the sums in registers. */
#include "tiles.h"
#include "window.h"
#include <math.h>

typedef struct depthwise {
    rg_native native;
    const tile_set *set;
    int64_t channels, height, width, out_height, out_width, images;
    int64_t kernel[2], stride[2], dilation[2], top, left;
    int64_t x_pixel, y_pixel;
    bool biased;
    sg_fn fn;
    float alpha, beta;
} depthwise;

typedef struct depthwise_call {
    const depthwise *d;
    void *const *args;
} depthwise_call;

enum { ARG_X, ARG_W, ARG_Y, ARG_BIAS };

/* The first of n steps of `stride` that starts at or behind `from`. */
static int64_t first_step(int64_t from, int64_t stride)
{
    return from <= 0 ? 0 : (from + stride - 1) / stride;
}

/* Taps that are inside [0, size) when tap 0 is at `at`. */
static void taps_inside(int64_t at, int64_t taps, int64_t dilation, int64_t size, int64_t *first, int64_t *past)
{
    *first = first_step(-at, dilation);
    *past = at >= size ? 0 : (size - at + dilation - 1) / dilation;
    *past = *past < taps ? *past : taps;
    *first = *first < *past ? *first : *past;
}

static void one_row(const depthwise_call *call, int64_t row)
{
    const depthwise *d = call->d;
    int64_t image = row / d->out_height, h = row % d->out_height * d->stride[0] - d->top, first, past;
    int64_t reach = (d->kernel[1] - 1) * d->dilation[1], begin, end;
    tile_depthwise p = {
        .channels = d->channels,
        .taps = d->kernel[1],
        .x_row = d->dilation[0] * d->width * d->x_pixel,
        .x_tap = d->dilation[1] * d->x_pixel,
        .x_step = d->stride[1] * d->x_pixel,
        .w_row = d->kernel[1] * d->channels,
        .bias = d->biased ? call->args[ARG_BIAS] : NULL,
        .y_pixel = d->y_pixel,
        .fn = d->fn,
        .alpha = d->alpha,
        .beta = d->beta,
    };
    float *y = (float *)call->args[ARG_Y] + row * d->out_width * d->y_pixel;
    const float *x;

    taps_inside(h, d->kernel[0], d->dilation[0], d->height, &first, &past);
    p.rows = past - first;
    p.w = (const float *)call->args[ARG_W] + first * p.w_row;
    x = (const float *)call->args[ARG_X] + (image * d->height + h + first * d->dilation[0]) * d->width * d->x_pixel;
    begin = first_step(d->left, d->stride[1]); /* pixels [begin, end) read all taps */
    end = d->width + d->left < reach + 1 ? 0 : (d->width + d->left - reach - 1) / d->stride[1] + 1;
    end = end < d->out_width ? end : d->out_width;
    for (int64_t w = 0; w < d->out_width; w++) {
        int64_t at = w * d->stride[1] - d->left, count = 1;

        first = 0;
        past = d->kernel[1];
        if (w >= begin && w < end)
            count = end - w;
        else
            taps_inside(at, d->kernel[1], d->dilation[1], d->width, &first, &past);
        d->set->depthwise(&p, count, first, past, x + at * d->x_pixel, y + w * d->y_pixel);
        w += count - 1;
    }
}

static inlay_status some_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    for (int64_t r = begin; r < end; r++)
        one_row(user, r);
    return INLAY_OK;
}

enum { GRAIN_PRODUCTS = 1 << 18 };

static inlay_status run_depthwise(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    const depthwise *d = (const depthwise *)(const void *)native;
    depthwise_call call = { d, args };
    int64_t rows = d->images * d->out_height;
    int64_t grain = GRAIN_PRODUCTS / (d->out_width * d->channels * d->kernel[0] * d->kernel[1]) + 1;

    if (threads <= 1 || rows <= grain)
        return some_rows(&call, 0, rows, 0);
    return state->host->parallel_for(state->host->ctx, run, rows, grain, some_rows, &call);
}

/* ------------------------------------------------------------------ lowering */

/* Takes over the first function behind it, if it is one of those that are done in registers. */
static uint32_t take_function(const rg_group *group, depthwise *d)
{
    const rg_eltwise *f = &group->posts[0].eltwise;

    d->fn = SG_FN_COUNT;
    if (group->post_count == 0 || group->posts[0].kind != RG_POST_ELTWISE)
        return 0;
    d->alpha = f->alpha;
    d->beta = f->beta;
    if (f->alg == dnnl_eltwise_relu && f->alpha == 0) {
        d->fn = SG_CLIP;
        d->beta = INFINITY;
    } else if (f->alg == dnnl_eltwise_clip_v2) {
        d->fn = SG_CLIP;
    } else if (f->alg == dnnl_eltwise_swish) {
        d->fn = SG_SWISH;
    } else if (f->alg == dnnl_eltwise_hardswish) {
        d->fn = SG_HARDSWISH;
    }
    return d->fn != SG_FN_COUNT;
}

static void measure(const rg_build *b, const rg_op *op, depthwise *d)
{
    const int64_t *x = b->dims[op->in[0]], *y = b->dims[op->out[0]];
    uint32_t n = op->spatial, o = 2 - n;
    dnnl_dims_t begins, ends;

    rg_window_pads(op, x + 2, y + 2, op->kernel, begins, ends);
    d->images = x[0];
    d->channels = x[1];
    d->height = n == 2 ? x[2] : 1;
    d->width = x[1 + n];
    d->out_height = n == 2 ? y[2] : 1;
    d->out_width = y[1 + n];
    d->kernel[0] = d->stride[0] = d->dilation[0] = 1;
    for (uint32_t i = 0; i < n; i++) {
        d->kernel[o + i] = op->kernel[i];
        d->stride[o + i] = op->strides[i];
        d->dilation[o + i] = op->dilations[i];
    }
    d->top = n == 2 ? begins[0] : 0;
    d->left = begins[n - 1];
}

/* The original, [channels, 1, 1, window], and [window][channels]. */
static void weights_layouts(const rg_build *b, const rg_op *op, rg_md *plain, rg_md *md)
{
    int64_t channels = b->dims[op->in[1]][0], dims[5] = { channels, 1, 1 }, from[5], to[5], size = 1, step = channels;
    uint32_t rank = 3 + op->spatial;

    for (uint32_t i = op->spatial; i-- > 0;) {
        dims[3 + i] = op->kernel[i];
        from[3 + i] = size;
        to[3 + i] = step;
        size *= op->kernel[i];
        step *= op->kernel[i];
    }
    from[0] = from[1] = from[2] = size;
    to[0] = 1;
    to[1] = to[2] = step;
    rg_md_strides(plain, rank, dims, from);
    rg_md_strides(md, rank, dims, to);
}

inlay_status tiles_lower_depthwise(rg_build *b, const rg_group *group, uint32_t bias, bool *out_done)
{
    const rg_op *op = b->op;
    int64_t channels = b->dims[op->in[0]][1];
    const rg_place *places[4];
    rg_place x, w, y, bias_place;
    depthwise *d = NULL;
    inlay_status status;
    uint32_t taken;
    rg_md md, plain;

    *out_done = false;
    if (b->state->tiles == NULL || op->group != channels || b->dims[op->out[0]][1] != channels || op->spatial > 2 ||
        channels < TILE_LANES / 2 || op->kernel[op->spatial - 1] > 3) /* oneDNN is faster with wider windows */
        return INLAY_OK;
    INLAY_TRY(rg_read(b, op->in[0], &x));
    if (!tiles_lie_well(&x.md)) {
        rg_md_channels_last(&md, b->ranks[op->in[0]], b->dims[op->in[0]]);
        INLAY_TRY(rg_read_as(b, op->in[0], &md, &x));
    }
    weights_layouts(b, op, &plain, &md);
    INLAY_TRY(rg_read_constant(b, op->in[1], &plain, &md, &w));
    if (bias != INLAY_NONE) {
        rg_md_plain(&md, 1, &channels);
        INLAY_TRY(rg_read_constant(b, bias, &md, &md, &bias_place));
    }
    d = calloc(1, sizeof *d);
    if (d == NULL) {
        status = inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
        goto done;
    }
    d->native.run = run_depthwise;
    d->set = b->state->tiles;
    d->biased = bias != INLAY_NONE;
    measure(b, op, d);
    taken = take_function(group, d);
    rg_md_channels_last(&md, b->ranks[op->out[0]], b->dims[op->out[0]]);
    if (taken == group->post_count)
        INLAY_TRY(rg_result_place(b, group->out, &md, &y));
    else
        INLAY_TRY(rg_new_place(b, &md, &y));
    d->x_pixel = x.md.format_desc.blocking.strides[x.md.ndims - 1];
    d->y_pixel = y.md.format_desc.blocking.strides[y.md.ndims - 1];
    places[ARG_X] = &x;
    places[ARG_W] = &w;
    places[ARG_Y] = &y;
    places[ARG_BIAS] = &bias_place;
    status = rg_emit_native(b, &d->native, places, d->biased ? 4 : 3);
    d = NULL; /* the step's, or freed */
    if (status != INLAY_OK)
        goto done;
    if (rg_md_is_plain(&y.md))
        rg_md_plain(&y.md, b->ranks[group->out], b->dims[group->out]);
    INLAY_TRY(rg_finish(b, group, taken, &y, true));
    *out_done = true;
done:
    free(d);
    return status;
}
