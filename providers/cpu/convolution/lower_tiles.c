/* Convolutions by tiles: any window, stride and dilation, one group, in one or two dimensions.
 *
 * Where a window reaches past the image, a copy with a border of zeros is read instead. Then each row of output pixels
 * reads rows of elements that lie one after the other: a tap is a row of the window, all of its pixels and channels. */
#include "convolution/tiles.h"
#include "layout/moves.h"
#include "weights/narrow.h"
#include "convolution/window.h"
#include "simd/optional.h"
#include <math.h>

const tile_set *tiles_of_cpu(void)
{
    return KERNEL_BEST(tiles);
}

/* ------------------------------------------------------------------ the border */

/* Copies an image, however it lies, into one with channels last and a border. */
typedef struct border {
    rg_native native;
    const move_set *moves;
    int64_t images, channels, height, width;
    int64_t top, left, out_height, out_width;
    int64_t s_image, s_channel, s_row, s_pixel; /* of the source */
} border;

typedef struct border_call {
    const border *b;
    const float *x;
    float *y;
} border_call;

/* A row of pixels whose channels are apart: a row of each channel at a time, since that is how they lie. */
static void copy_row(const border *b, const float *x, float *y)
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
    const border *b = call->b;
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
    const border *b = (const border *)(const void *)native;
    border_call call = { b, args[0], args[1] };
    int64_t rows = b->images * b->out_height, grain = GRAIN_FLOATS / (b->out_width * b->channels) + 1;

    if (threads <= 1 || rows <= grain)
        return border_rows(&call, 0, rows, 0);
    return state->host->parallel_for(state->host->ctx, run, rows, grain, border_rows, &call);
}

/* ------------------------------------------------------------------ the product */

typedef struct direct {
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
} direct;

typedef struct direct_call {
    const direct *d;
    void *const *args;
} direct_call;

enum { ARG_X, ARG_W, ARG_Y, ARG_OTHERS };

void tiles_end(const tile_set *set, const sg_kernel *kernel, const tile_ending *e, void *const *args, float *c,
               int64_t c_pixel, int64_t pixel, int64_t rows, int64_t column, int64_t columns)
{
    for (uint32_t p = 0; p < e->post_count; p++) {
        sg_post post = e->posts[p].post;
        /* Pixels without gaps are one row to a function of one operand: few channels would fill no vector. */
        const bool one = e->posts[p].arg == INLAY_NONE && c_pixel == columns;
        const int64_t count = one ? 1 : rows, width = one ? rows * columns : columns;

        if (e->posts[p].arg != INLAY_NONE)
            post.other = (const float *)args[e->posts[p].arg] + pixel * post.row + column;
        if (!set->function(&post, c, c_pixel, count, width))
            kernel->post(&post, c, c_pixel, count, width);
    }
}

/* One panel of weights, w, by tiles [first, last): each of the first two fetches half of `next`, if there is one. */
static void one_panel(const direct_call *call, int64_t panel, const float *w, int64_t first, int64_t last,
                      const float *next)
{
    const direct *d = call->d;
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

        p.a = (const float *)call->args[ARG_X] + begin * d->in.pixel +
              (d->rows == 1 ? row * d->in.image : row / d->rows * d->in.image + row % d->rows * d->in.row);
        p.add = add != NULL ? add + pixel * e->add_pixel + column : NULL;
        p.c = (float *)call->args[ARG_Y] + pixel * d->y_pixel + column;
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

enum { BLOCK_BYTES = 200 * 1024, ALONE_FLOPS = 400000, FETCHING_TILES = 8 };

/* Of a core with AVX-512: a unit of work, and what it reads that the one before did not. */
#define UNIT_NS 100.0
#define UNIT_BYTES_PER_NS 60.0

/* Units: blocks of tiles by chunks of panels. */
static inlay_status direct_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const direct_call *call = user;
    const direct *d = call->d;
    int64_t chunks = (d->panels + d->chunk - 1) / d->chunk, tiles = d->images * d->rows * d->row_tiles;
    int64_t panel_floats = d->tap_count * d->depth * TILE_WIDTH;
    float *room = d->room_arg != INLAY_NONE
                      ? (float *)call->args[d->room_arg] + worker % d->workers * (uint64_t)panel_floats
                      : NULL;

    for (int64_t u = begin; u < end; u++) {
        int64_t first = u / chunks * d->block, last = first + d->block < tiles ? first + d->block : tiles;
        int64_t panel = u % chunks * d->chunk, past = panel + d->chunk < d->panels ? panel + d->chunk : d->panels;

        for (; panel < past; panel++) {
            const float *w = (const float *)call->args[ARG_W] + panel * panel_floats;

            if (room != NULL) {
                narrow_unfold(call->args[ARG_W], panel * panel_floats, (panel + 1) * panel_floats, room);
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
    const direct *d = (const direct *)(const void *)native;
    direct_call call = { d, args };
    int64_t tiles = d->images * d->rows * d->row_tiles;
    int64_t units = (tiles + d->block - 1) / d->block * ((d->panels + d->chunk - 1) / d->chunk);

    if (threads <= 1 || units < 2)
        return direct_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, direct_units, &call);
}

/* How the work is cut: pixels in blocks that stay in the second-level cache while all panels pass, and both so that
 * threads end together, without reading much twice. */
static void cut(direct *d, uint32_t threads)
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

void tiles_find_cut(int64_t tiles, int64_t tile_bytes, int64_t panels, int64_t depth, uint32_t threads, tiles_cut *out)
{
    int64_t fit = BLOCK_BYTES / (tile_bytes > 0 ? tile_bytes : 1), least, most;
    double tile_ns = TILE_NS + (double)depth * DEPTH_NS, panel_bytes = (double)(depth * TILE_WIDTH) * sizeof(float);

    tiles = tiles > 0 ? tiles : 1;
    panels = panels > 0 ? panels : 1;
    fit = fit < 4 ? 4 : fit;
    least = (tiles + fit - 1) / fit;
    most = threads > 1 ? least + 4 * (int64_t)threads : least;
    *out = (tiles_cut){ .ns = -1 };
    for (int64_t b = least; b <= most && b <= tiles; b++) {
        int64_t block = (tiles + b - 1) / b, blocks = (tiles + block - 1) / block;

        for (int64_t c = 1; c <= panels && c <= (threads > 1 ? 4 * (int64_t)threads : 1); c++) {
            int64_t chunk = (panels + c - 1) / c, chunks = (panels + chunk - 1) / chunk;
            int64_t rounds = (blocks * chunks + threads - 1) / threads;
            double reads = (double)(block * tile_bytes) + (double)chunk * panel_bytes;
            double ns = (double)rounds * (UNIT_NS + reads / UNIT_BYTES_PER_NS + (double)(block * chunk) * tile_ns);

            if (out->ns < 0 || ns < out->ns)
                *out = (tiles_cut){ block, chunk, ns };
        }
    }
}

/* ------------------------------------------------------------------ lowering */

bool tiles_lie_well(const rg_md *md)
{
    const int64_t *s = md->strides;
    int last = md->ndims - 1;

    if (md->kind != RG_BLOCKED || rg_md_is_blocked(md))
        return false;
    if (md->dims[1] > 1 && s[1] != 1)
        return false;
    if (md->ndims == 4 && md->dims[2] > 1 && s[2] != s[3] * md->dims[3])
        return false;
    return s[last] >= md->dims[1] &&
           (md->dims[0] == 1 || s[0] == s[last] * md->dims[last] * (last == 3 ? md->dims[2] : 1));
}

int64_t tiles_pixel_step(const rg_md *md)
{
    return md->strides[md->ndims - 1];
}

/* x in a copy with a border; *g then has the size of the copy. */
static inlay_status add_border(rg_build *b, kn_window *g, rg_place *x)
{
    const int64_t *s = x->md.strides;
    const int64_t dims[] = { g->images, g->in, g->height + g->begin[0] + g->end[0],
                             g->width + g->begin[1] + g->end[1] };
    const border step = { .native.run = run_border,
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

bool tiles_panel_layout(const rg_md *weights, rg_md *md)
{
    return rg_md_blocks(md, (uint32_t)weights->ndims, weights->dims, weights->ndims == 4 ? "Acdb32a" : "Acb32a");
}

static inlay_status emit_direct(rg_build *b, const rg_op *op, const kn_case *c, const tile_ending *ending,
                                const rg_place **places, uint32_t count)
{
    const rg_md *weights = &c->weights;
    kn_window g = c->w;
    const bool narrow = kn_is_narrow(b) && b->scales[op->in[0]] == INLAY_NONE;
    rg_place x = *places[ARG_X], w, room;
    bool merged;
    int64_t tap_count, pixel, at = 0;
    inlay_status status;
    direct *d;
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
    *d = (direct){ .native.run = run_direct,
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
                   .y_pixel = tiles_pixel_step(&places[ARG_Y]->md),
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
    places[ARG_X] = &x;
    places[ARG_W] = &w;
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

bool tiles_clamps(const rg_eltwise *f, tile_ending *e)
{
    bool relu = f->alg == DN_ELTWISE_RELU && f->alpha == 0;

    if (!relu && f->alg != DN_ELTWISE_CLIP_V2)
        return false;
    e->clamp = true;
    e->low = relu ? 0 : f->alpha;
    e->high = relu ? INFINITY : f->beta;
    return true;
}

bool tiles_functions(const rg_group *group, tile_ending *out)
{
    *out = (tile_ending){ .bias = INLAY_NONE, .add = INLAY_NONE };
    for (uint32_t p = 0; p < group->post_count; p++) {
        tile_post *t = &out->posts[out->post_count];

        if (group->posts[p].kind != RG_POST_ELTWISE)
            return false;
        if (p == 0 && tiles_clamps(&group->posts[p].eltwise, out))
            continue;
        if (!rg_function_of(&group->posts[p].eltwise, &t->post))
            return false;
        t->arg = INLAY_NONE;
        out->post_count++;
    }
    return true;
}

/* An operand [C, 1, ..] of an output [N, C, ..]. */
static bool one_a_channel(const rg_build *b, const rg_group *group, uint32_t other)
{
    uint32_t rank = b->ranks[group->out], own = b->ranks[other];
    int64_t channels = b->dims[group->out][1];

    return own <= rank && own + 1 >= rank && rg_count(b, other) == channels &&
           b->dims[other][own + 1 == rank ? 0 : 1] == channels;
}

/* The posts that tiles do, as a part of the group; *out_count says how many. Operands become places from number
 * *io_args on. */
static inlay_status take_posts(rg_build *b, const rg_group *group, tile_ending *e, rg_place *others,
                               const rg_place **places, uint32_t *io_args, uint32_t *out_count, bool *out_in_place)
{
    uint32_t p = 0;
    inlay_status status = INLAY_OK;

    *out_in_place = false;
    for (; p < group->post_count; p++) {
        const rg_post *post = &group->posts[p];
        tile_post *t = &e->posts[e->post_count];
        rg_place *other = &others[p];
        bool whole;

        if (post->kind == RG_POST_ELTWISE) {
            if (e->post_count == 0 && !e->clamp && tiles_clamps(&post->eltwise, e))
                continue;
            if (!rg_function_of(&post->eltwise, &t->post))
                break;
            t->arg = INLAY_NONE;
            e->post_count++;
            continue;
        }
        if (post->alg == RG_PRELU && one_a_channel(b, group, post->other)) {
            INLAY_TRY(rg_read_plain(b, post->other, other));
            places[*io_args] = other;
            *t = (tile_post){ .post = { .fn = SG_PRELU, .col = 1 }, .arg = (*io_args)++ };
            e->post_count++;
            continue;
        }
        if (post->alg != DN_BINARY_ADD && post->alg != DN_BINARY_MUL)
            break;
        whole = b->ranks[post->other] == b->ranks[group->out] &&
                memcmp(b->dims[post->other], b->dims[group->out], b->ranks[group->out] * sizeof(int64_t)) == 0;
        if (!whole)
            break; /* one for each channel mostly is a bias already */
        {
            bool last = rg_is_last_use(b, post->other);
            rg_md md;

            INLAY_TRY(rg_read(b, post->other, other));
            if (!tiles_lie_well(&other->md)) {
                rg_md_channels_last(&md, b->ranks[group->out], b->dims[group->out]);
                INLAY_TRY(rg_read_as(b, post->other, &md, other));
                last = false;
            }
            places[*io_args] = other;
            if (post->alg == DN_BINARY_ADD && e->add == INLAY_NONE && e->post_count == 0 && !e->clamp) {
                e->add = (*io_args)++;
                e->add_pixel = tiles_pixel_step(&other->md);
                *out_in_place = last;
                continue;
            }
            *t = (tile_post){ .post = { .fn = post->alg == DN_BINARY_ADD ? SG_ADD : SG_MUL,
                                        .col = 1,
                                        .row = tiles_pixel_step(&other->md) },
                              .arg = (*io_args)++ };
            e->post_count++;
        }
    }
    *out_count = p;
done:
    return status;
}

inlay_status tiles_lower(rg_build *b, const rg_group *group, const kn_case *c, int64_t points)
{
    const rg_op *op = b->op;
    const kn_window *g = &c->w;
    tile_ending ending = { .bias = INLAY_NONE, .add = INLAY_NONE };
    const rg_place *places[ARG_OTHERS + 1 + RG_MAX_POSTS + DW_PLACES];
    rg_place x, y, bias_place, others[RG_MAX_POSTS];
    uint32_t count = ARG_OTHERS, posts = 0;
    bool in_place = false, at_home = false;
    inlay_status status;
    rg_md md;

    if (b->ahead[op->in[0]] != NULL)
        x = b->ahead[op->in[0]]->c.x;
    else
        INLAY_TRY(rg_read(b, op->in[0], &x));
    if (!tiles_lie_well(&x.md) &&
        (points != 0 || !g->padded || rg_md_is_blocked(&x.md) || g->in > 4 || x.md.kind != RG_BLOCKED)) {
        rg_md_channels_last(&md, b->ranks[op->in[0]], b->dims[op->in[0]]);
        INLAY_TRY(rg_read_as(b, op->in[0], &md, &x));
    }
    if (c->bias_value != INLAY_NONE) {
        INLAY_TRY(rg_read_floats(b, c->bias_value, g->out, &bias_place));
        places[count] = &bias_place;
        ending.bias = count++;
    }
    INLAY_TRY(take_posts(b, group, &ending, others, places, &count, &posts, &in_place));
    rg_md_channels_last(&md, b->ranks[op->out[0]], b->dims[op->out[0]]);
    if (!in_place && posts == group->post_count)
        INLAY_TRY(tiles_home(b, group->out, &y, &at_home));
    if (in_place)
        y = *places[ending.add];
    else if (!at_home && posts == group->post_count)
        INLAY_TRY(rg_result_place(b, group->out, &md, &y));
    else if (!at_home)
        INLAY_TRY(rg_new_place(b, &md, &y));
    places[ARG_X] = &x;
    places[ARG_Y] = &y;
    if (points == TILES_GEMM || points == TILES_PAIRS)
        INLAY_TRY(tiles_lower_gemm(b, c, points == TILES_PAIRS, &x, &ending, places, count, &y));
    else if (points > TILES_DEPTHWISE)
        INLAY_TRY(tiles_lower_window(b, op, points, &x, &c->weights, &ending, places, count, &y));
    else if (points == TILES_DEPTHWISE)
        INLAY_TRY(depthwise_emit(b, c, &ending, places, count));
    else
        INLAY_TRY(emit_direct(b, op, c, &ending, places, count));
    if (rg_md_is_plain(&y.md))
        rg_md_plain(&y.md, b->ranks[group->out], b->dims[group->out]);
    status = rg_finish(b, group, posts, &y, true);
done:
    return status;
}

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(tiles_of_cpu, "rg_conv rg_conv_transpose");
OPTIONAL_IF_CALLED(tiles_lower);
