/* Convolutions by tiles as they are written: any window, stride and dilation, one group, in one or two dimensions.
 *
 * Where a window reaches past the image, a copy with a border of zeros is read instead. Then each row of output pixels
 * reads rows of elements that lie one after the other: a tap is a row of the window, all of its pixels and channels. */
#include "convolution/tiles.h"
#include "convolution/window.h"
#include "layout/moves.h"
#include "weights/narrow.h"

/* ------------------------------------------------------------------ the border */

/* Copies an image, however it lies, into one with channels last and a border. */
struct border {
    rg_native native;
    const move_set *moves;
    int64_t images, channels, height, width;
    int64_t top, left, out_height, out_width;
    int64_t s_image, s_channel, s_row, s_pixel; /* of the source */
};

typedef struct border_call {
    const struct border *b;
    const float *x;
    float *y;
} border_call;

/* A row of pixels whose channels are apart: a row of each channel at a time, since that is how they lie. */
static void copy_row(const struct border *b, const float *x, float *y)
{
    if (b->s_channel == 1) {
        for (int64_t w = 0; w < b->width; w++)
            memcpy(y + w * b->channels, x + w * b->s_pixel, (size_t)b->channels * sizeof *y);
        return;
    }
    if (b->s_pixel == 1) {
        b->moves->turn(x, b->s_channel, y, b->channels, b->channels, b->width);
        return;
    }
    for (int64_t c = 0; c < b->channels; c++)
        for (int64_t w = 0; w < b->width; w++)
            y[w * b->channels + c] = x[c * b->s_channel + w * b->s_pixel];
}

static inlay_status border_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const border_call *call = user;
    const struct border *b = call->b;
    const size_t left = (size_t)(b->left * b->channels),
                 right = (size_t)((b->out_width - b->left - b->width) * b->channels),
                 row = (size_t)(b->out_width * b->channels);

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t image = i / b->out_height, h = i % b->out_height - b->top;
        float *y = call->y + i * b->out_width * b->channels;

        if (h < 0 || h >= b->height) {
            memset(y, 0, row * sizeof *y);
            continue;
        }
        memset(y, 0, left * sizeof *y);
        copy_row(b, call->x + image * b->s_image + h * b->s_row, y + left);
        memset(y + left + b->width * b->channels, 0, right * sizeof *y);
    }
    return INLAY_OK;
}

enum { GRAIN_FLOATS = 1 << 15 };

static inlay_status run_border(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct border *b = (const struct border *)(const void *)native;
    border_call call = { b, args[0], args[1] };
    int64_t rows = b->images * b->out_height, grain = GRAIN_FLOATS / (b->out_width * b->channels) + 1;

    if (threads <= 1 || rows <= grain)
        return border_rows(&call, 0, rows, 0);
    return state->host->parallel_for(state->host->ctx, run, rows, grain, border_rows, &call);
}

/* ------------------------------------------------------------------ the product */

struct direct {
    rg_native native;
    const tile_set *set;
    const sg_kernel *kernel;
    int64_t images, rows, row_pixels;          /* of the output; rows that run on into each other are one */
    tile_image in;                             /* steps in x for steps in y */
    int64_t tap_count, depth, chain, channels; /* channels: of y */
    int64_t y_pixel;
    int64_t row_tiles, block, panels, chunk; /* tiles of a row, of a block; panels in a chunk */
    bool fetch;
    bool lone; /* one row in all */
    uint32_t
        room_arg; /* of weights of few bits: where each worker makes floats of a panel; INLAY_NONE: they are floats */
    uint32_t workers;
    tile_ending ending;
    int64_t taps[];
};

typedef struct direct_call {
    const struct direct *d;
    void *const *args;
} direct_call;

/* One panel of weights, w, by tiles [first, last): each of the first two fetches half of `next`, if there is one. */
static void one_panel(const direct_call *call, int64_t panel, const float *w, int64_t first, int64_t last,
                      const float *next)
{
    const struct direct *d = call->d;
    const tile_ending *e = &d->ending;
    const float *add = e->add != INLAY_NONE ? call->args[e->add] : NULL;
    const float *bias = e->bias != INLAY_NONE ? call->args[e->bias] : NULL;
    int64_t column = panel * TILE_WIDTH, panel_floats = d->tap_count * d->depth * TILE_WIDTH;
    int64_t row = first / d->row_tiles, at = first % d->row_tiles, begin = at * d->row_pixels / d->row_tiles;
    tile_product p = {
        .a_row = d->in.pixel,
        .taps = d->taps,
        .tap_count = d->tap_count,
        .depth = d->depth,
        .chain = d->chain,
        .b = w,
        .ahead_lines = 1,
        .bias = bias != NULL ? bias + column : NULL,
        .add_row = e->add_pixel,
        .c_row = d->y_pixel,
        .columns = d->channels - column < TILE_WIDTH ? d->channels - column : TILE_WIDTH,
        .clamp = e->clamp,
        .lone = d->lone,
        .low = e->low,
        .high = e->high,
    };

    for (int64_t t = first; t < last; t++) {
        int64_t end = at + 1 == d->row_tiles ? d->row_pixels : (at + 1) * d->row_pixels / d->row_tiles;
        int64_t pixel = row * d->row_pixels + begin;

        p.a = (const float *)call->args[TILES_X] + begin * d->in.pixel +
              (d->rows == 1 ? row * d->in.image : row / d->rows * d->in.image + row % d->rows * d->in.row);
        p.add = add != NULL ? add + pixel * e->add_pixel + column : NULL;
        p.c = (float *)call->args[TILES_Y] + pixel * d->y_pixel + column;
        p.ahead = next != NULL && t < first + 2 ? next + (t - first) * panel_floats / 2 : NULL;
        d->set->multiply(&p, (int)(end - begin));
        if (e->post_count > 0)
            tiles_end(d->set, d->kernel, e, call->args, p.c, p.c_row, pixel, end - begin, column, p.columns);
        begin = end;
        if (++at == d->row_tiles) {
            at = begin = 0;
            row++;
        }
    }
}

enum { ALONE_FLOPS = 400000, FETCHING_TILES = 8 };

/* Units: blocks of tiles by chunks of panels. */
static inlay_status direct_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const direct_call *call = user;
    const struct direct *d = call->d;
    int64_t chunks = (d->panels + d->chunk - 1) / d->chunk, tiles = d->images * d->rows * d->row_tiles;
    int64_t panel_floats = d->tap_count * d->depth * TILE_WIDTH;
    float *room = d->room_arg != INLAY_NONE
                      ? (float *)call->args[d->room_arg] + worker % d->workers * (uint64_t)panel_floats
                      : NULL;

    for (int64_t u = begin; u < end; u++) {
        int64_t first = u / chunks * d->block, last = first + d->block < tiles ? first + d->block : tiles;
        int64_t panel = u % chunks * d->chunk, past = panel + d->chunk < d->panels ? panel + d->chunk : d->panels;

        for (; panel < past; panel++) {
            const float *w = (const float *)call->args[TILES_W] + panel * panel_floats;

            if (room != NULL) {
                narrow_unfold(call->args[TILES_W], panel * panel_floats, (panel + 1) * panel_floats, room);
                one_panel(call, panel, room, first, last, NULL);
            } else {
                one_panel(call, panel, w, first, last, d->fetch && panel + 1 < past ? w + panel_floats : NULL);
            }
        }
    }
    return INLAY_OK;
}

static inlay_status run_direct(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct direct *d = (const struct direct *)(const void *)native;
    direct_call call = { d, args };
    int64_t tiles = d->images * d->rows * d->row_tiles;
    int64_t units = (tiles + d->block - 1) / d->block * ((d->panels + d->chunk - 1) / d->chunk);

    if (threads <= 1 || units < 2)
        return direct_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, direct_units, &call);
}

/* How the work is cut: pixels in blocks that stay in the second-level cache while all panels pass, and both so that
 * threads end together, without reading much twice. */
static void cut(struct direct *d, uint32_t threads)
{
    int64_t tiles = d->images * d->rows * d->row_tiles, pixels = d->images * d->rows * d->row_pixels;
    int64_t tile_bytes = (d->row_pixels + d->row_tiles - 1) / d->row_tiles * d->in.pixel * (int64_t)sizeof(float);
    double flops = 2.0 * (double)(pixels * d->channels) * (double)(d->tap_count * d->depth);
    tiles_cut c;

    tiles_find_cut(tiles, tile_bytes, d->panels, d->tap_count * d->depth, flops > ALONE_FLOPS ? threads : 1, &c);
    d->block = c.block;
    d->chunk = c.chunk;
    d->fetch = tiles <= FETCHING_TILES;
}

/* ------------------------------------------------------------------ lowering */

/* x in a copy with a border; *g then has the size of the copy. */
static inlay_status add_border(rg_build *b, kn_window *g, rg_place *x)
{
    const int64_t *s = x->md.strides;
    const int64_t dims[] = { g->images, g->in, g->height + g->begin[0] + g->end[0],
                             g->width + g->begin[1] + g->end[1] };
    const struct border step = { .native.run = run_border,
                                 .moves = moves_of_cpu(),
                                 .images = g->images,
                                 .channels = g->in,
                                 .height = g->height,
                                 .width = g->width,
                                 .top = g->begin[0],
                                 .left = g->begin[1],
                                 .out_height = dims[2],
                                 .out_width = dims[3],
                                 .s_image = s[0],
                                 .s_channel = s[1],
                                 .s_row = x->md.ndims == 4 ? s[2] : 0,
                                 .s_pixel = s[x->md.ndims - 1] };
    inlay_status status;
    rg_place y;
    rg_md md;

    rg_md_channels_last(&md, 4, dims);
    INLAY_TRY(rg_new_place(b, &md, &y));
    INLAY_TRY(rg_emit_step(b, &step.native, sizeof step, (const rg_place *const[]){ x, &y }, 2));
    *x = y;
    g->height = dims[2];
    g->width = dims[3];
done:
    return status;
}

inlay_status tiles_lower_direct(rg_build *b, const rg_op *op, const kn_case *c, const tile_ending *ending,
                                const rg_place **places, uint32_t count)
{
    const rg_md *weights = &c->weights;
    kn_window g = c->w;
    const bool narrow = kn_is_narrow(b) && b->scales[op->in[0]] == INLAY_NONE;
    rg_place x = *places[TILES_X], w, room;
    bool merged;
    int64_t tap_count, pixel, at = 0;
    inlay_status status;
    struct direct *d;
    rg_md md;

    if (g.padded || !tiles_lie_well(&x.md) || (tiles_pixel_step(&x.md) != g.in && g.kernel[1] > 1))
        INLAY_TRY(add_border(b, &g, &x));
    pixel = tiles_pixel_step(&x.md);
    if (!tiles_panel_layout(weights, &md))
        return inlay_fail(b->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", op->name);
    INLAY_TRY((narrow ? narrow_read_pack : rg_read_constant)(b, op->in[1], weights, &md, &w));
    if (b->scales[op->in[0]] != INLAY_NONE)
        INLAY_TRY(tiles_scale_weights(b, b->scales[op->in[0]], g.in, &w));
    merged = g.dilation[1] == 1;
    tap_count = g.kernel[0] * (merged ? 1 : g.kernel[1]);
    d = calloc(1, sizeof *d + (size_t)tap_count * sizeof d->taps[0]);
    if (d == NULL)
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
    *d = (struct direct){ .native.run = run_direct,
                          .set = b->state->tiles,
                          .kernel = b->state->sgemm,
                          .images = g.images,
                          .rows = g.out_height,
                          .row_pixels = g.out_width,
                          .in = { g.height * g.width * pixel, g.stride[0] * g.width * pixel, g.stride[1] * pixel },
                          .tap_count = tap_count,
                          .depth = g.in * (merged ? g.kernel[1] : 1),
                          .channels = g.out,
                          .chain = sg_chain(g.in * g.kernel[0] * g.kernel[1], b->state->strict),
                          .y_pixel = tiles_pixel_step(&places[TILES_Y]->md),
                          .panels = (g.out + TILE_WIDTH - 1) / TILE_WIDTH,
                          .room_arg = INLAY_NONE,
                          .workers = b->instance->threads > 0 ? b->instance->threads : 1,
                          .ending = *ending };
    for (int64_t i = 0; i < g.kernel[0]; i++)
        for (int64_t j = 0; j < (merged ? 1 : g.kernel[1]); j++)
            d->taps[at++] = (i * g.dilation[0] * g.width + j * g.dilation[1]) * pixel;
    if (d->in.row == d->row_pixels * d->in.pixel) { /* rows run on into each other, images perhaps, too */
        d->row_pixels *= d->rows;
        d->rows = 1;
        if (d->in.image == d->row_pixels * d->in.pixel) {
            d->row_pixels *= d->images;
            d->images = 1;
        }
    }
    d->row_tiles = (d->row_pixels + TILE_ROWS - 1) / TILE_ROWS;
    d->lone = !b->state->reproducible && d->images * d->rows * d->row_pixels == 1;
    cut(d, b->instance->threads);
    places[TILES_X] = &x;
    places[TILES_W] = &w;
    if (narrow) {
        rg_md_plain(&md, 1, (const int64_t[]){ d->workers * d->tap_count * d->depth * TILE_WIDTH });
        status = rg_new_place(b, &md, &room);
        d->room_arg = count;
        places[count++] = &room;
    }
    if (status != INLAY_OK)
        free(d);
    else
        status = rg_emit_native(b, &d->native, places, count);
done:
    return status;
}
