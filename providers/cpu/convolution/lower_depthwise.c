/* Convolutions of single channels (as many groups as channels, in and out) in one or two dimensions, channels last.
 *
 * A unit of work is a part of the rows and a block of channels; it goes down through the rows in strips of columns so
 * narrow that the rows of a window stay in the first-level cache. Borders are pixels of a table that point to zeros. */
#include "convolution/depthwise.h"
#include "convolution/tiles.h"
#include "simd/optional.h"
#include <math.h>

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(depthwise_emit);
OPTIONAL_IF_CALLED(depthwise_makes);
OPTIONAL_IF_CALLED(depthwise_runs);
OPTIONAL_IF_CALLED(kn_waiting_ns);

/* The convolution that makes the input, row by row, in a ring that each worker has for itself. Places in rings count
 * pixels of `block` floats. */
struct maker {
    int64_t depth, chain; /* channels that it reads, 0: there is none; terms in a row */
    tile_image in;        /* of its input */
    uint32_t w, ring;     /* arguments */
    int64_t places;       /* of a ring */
    uint32_t workers;
    tile_ending ending;
};

struct depthwise {
    rg_native native;
    const tile_set *set;
    const sg_kernel *kernel;
    kn_window w;
    tile_image in;
    int64_t y_pixel;
    int64_t block;          /* channels */
    int64_t strip;          /* pixels of a row of the output */
    int64_t part, parts;    /* rows of the output in a unit */
    int64_t step;           /* pixels of a block of the loop */
    int64_t slots, columns; /* tables of rows: how many, their pixels */
    bool reused;
    tile_ending ending;
    struct maker maker;
};

typedef struct depthwise_call {
    const struct depthwise *d;
    void *const *args;
} depthwise_call;

enum { ARG_X, ARG_W, ARG_Y };
enum { RING_BYTES = 64 * 1024, UNIT_NS = 150 };
enum { TABLE_ROWS = 32, TABLE_PIXELS = 2048 };
enum { NEAR_BYTES = 32 * 1024, LEAST_CHANNELS = 64, ALONE_FLOPS = 200000, FETCHING_TILES = 8 };

/* A strip of an image: columns [first, last) of channels [channel, channel + count). Tables of the rows of the input
 * that the last windows saw: row i is at i % slots. */
struct strip {
    int64_t image, first, last, channel, count;
    float *ring;
    int64_t start, made, past; /* pixels of the image: the first in the ring, after the last, of all to be made */
    int64_t tile;              /* pixels that are made at once, a divisor of the ring's places */
    int64_t places;
    const float *pixels[TABLE_PIXELS];
    int64_t row[TABLE_ROWS]; /* which one it is, -1: none */
};

static const float zeros[DW_CHANNELS];

/* Taps of a window along an axis of `size` that lie in the image: [*first, *end). at: of its first tap. */
static void inside(int64_t at, int64_t taps, int64_t dilation, int64_t size, int64_t *first, int64_t *end)
{
    *first = at < 0 ? (-at + dilation - 1) / dilation : 0;
    *end = at >= size ? 0 : (size - at + dilation - 1) / dilation;
    *end = *end < taps ? *end : taps;
    *first = *first < *end ? *first : *end;
}

/* Makes pixels of the input up to number `until`, all channels of the strip. */
static void make_pixels(const depthwise_call *call, int64_t until, struct strip *s)
{
    const struct depthwise *d = call->d;
    const struct maker *m = &d->maker;
    const tile_ending *e = &m->ending;
    const int64_t tap = 0, panel_floats = m->depth * TILE_WIDTH;
    const float *x = (const float *)call->args[ARG_X] + s->image * m->in.image;
    const float *w = (const float *)call->args[m->w] + s->channel / TILE_WIDTH * panel_floats;
    const bool fetch = s->past - s->start <= FETCHING_TILES * TILE_ROWS;
    tile_product p = { .a_row = m->in.pixel,
                       .taps = &tap,
                       .tap_count = 1,
                       .depth = m->depth,
                       .chain = m->chain,
                       .ahead_lines = 1,
                       .c_row = d->block,
                       .clamp = e->clamp,
                       .low = e->low,
                       .high = e->high };

    while (s->made < until && s->made < s->past) {
        const int64_t rows = s->past - s->made < s->tile ? s->past - s->made : s->tile;
        float *c = s->ring + (s->made - s->start) % s->places * d->block;

        p.a = x + s->made * m->in.pixel;
        for (int64_t k = 0; k < s->count; k += TILE_WIDTH) {
            const int64_t after = s->channel + k + TILE_WIDTH, turn = (s->made - s->start) / s->tile;

            p.b = w + k / TILE_WIDTH * panel_floats;
            p.bias = e->bias != INLAY_NONE ? (const float *)call->args[e->bias] + s->channel + k : NULL;
            p.c = c + k;
            p.columns = s->count - k < TILE_WIDTH ? s->count - k : TILE_WIDTH;
            p.ahead = fetch && turn < 2 && after < d->w.in ? p.b + panel_floats + turn * panel_floats / 2 : NULL;
            d->set->multiply(&p, (int)rows);
        }
        if (e->post_count > 0)
            tiles_end(d->set, d->kernel, e, call->args, c, d->block, s->made, rows, s->channel, s->count);
        s->made += rows;
    }
}

/* Fills the part of a table whose pixels are in the image, from number `pixel` on. */
static void find_made(const struct depthwise *d, const struct strip *s, int64_t pixel, int64_t count,
                      const float **table)
{
    int64_t at = (pixel - s->start) % s->places;

    for (int64_t i = 0; i < count;) {
        const int64_t run = s->places - at < count - i ? s->places - at : count - i;

        for (int64_t k = 0; k < run; k++)
            table[i + k] = s->ring + (at + k) * d->block;
        i += run;
        at = 0;
    }
}

/* The table of row `at` of the input. */
static const float *const *find_row(const depthwise_call *call, int64_t at, struct strip *s)
{
    const struct depthwise *d = call->d;
    const kn_window *w = &d->w;
    const int64_t slot = at % d->slots, step = d->in.pixel, first = s->first * w->stride[1] - w->begin[1];
    const float **table = &s->pixels[slot * d->columns];
    const int64_t begin = first < 0 ? (-first < d->columns ? -first : d->columns) : 0;
    int64_t end = w->width - first < d->columns ? w->width - first : d->columns;

    if (s->row[slot] == at)
        return table;
    s->row[slot] = at;
    end = end > begin ? end : begin;
    for (int64_t i = 0; i < begin; i++)
        table[i] = zeros;
    for (int64_t i = end; i < d->columns; i++)
        table[i] = zeros;
    if (d->maker.depth > 0) {
        if (end > begin)
            find_made(d, s, at * w->width + first + begin, end - begin, table + begin);
    } else {
        const float *row =
            (const float *)call->args[ARG_X] + s->image * d->in.image + at * d->in.row + first * step + s->channel;

        for (int64_t i = begin; i < end; i++)
            table[i] = row + i * step;
    }
    return table;
}

static int64_t fitting(int64_t pixels, int64_t most)
{
    return pixels >= most ? most : pixels >= 4 ? 4 : pixels >= 2 ? 2 : 1;
}

static void one_row(const depthwise_call *call, int64_t y, struct strip *s)
{
    const struct depthwise *d = call->d;
    const kn_window *w = &d->w;
    const tile_ending *e = &d->ending;
    const int64_t at = y * w->stride[0] - w->begin[0];
    const int64_t pixel = (s->image * w->out_height + y) * w->out_width + s->first;
    const float *const *rows[DW_ROWS];
    float *out = (float *)call->args[ARG_Y] + pixel * d->y_pixel + s->channel;
    int64_t from, end;
    dw_block b;

    inside(at, w->kernel[0], w->dilation[0], w->height, &from, &end);
    if (d->maker.depth > 0 && end > from)
        make_pixels(call, (at + (end - 1) * w->dilation[0] + 1) * w->width, s);
    for (int64_t r = from; r < end; r++)
        rows[r - from] = find_row(call, at + r * w->dilation[0], s);
    b.rows = end - from;
    b.width = w->kernel[1];
    b.ahead = w->stride[0] * d->in.row;
    b.fetch = d->maker.depth > 0 ? 0 : w->stride[0];
    b.w_step = w->kernel[0] * w->kernel[1] * TILE_LANES;
    b.w = (const float *)call->args[ARG_W] + s->channel / TILE_LANES * b.w_step + from * w->kernel[1] * TILE_LANES;
    b.bias = e->bias != INLAY_NONE ? (const float *)call->args[e->bias] + s->channel : NULL;
    b.add = e->add != INLAY_NONE ? (const float *)call->args[e->add] + pixel * e->add_pixel + s->channel : NULL;
    b.add_step = e->add_pixel;
    b.y = out;
    b.y_step = d->y_pixel;
    b.channels = s->count;
    b.stride = w->stride[1];
    b.dilation = w->dilation[1];
    b.reused = d->reused;
    b.clamp = e->clamp;
    b.low = e->low;
    b.high = e->high;
    for (int64_t x = 0; x < s->last - s->first; x += b.pixels) {
        b.pixels = (int32_t)fitting(s->last - s->first - x, d->step);
        for (int64_t r = 0; r < b.rows; r++)
            b.x[r] = rows[r] + x * w->stride[1];
        d->set->depthwise(&b);
        b.y += b.pixels * d->y_pixel;
        b.add += b.add != NULL ? b.pixels * e->add_pixel : 0;
    }
    if (e->post_count > 0)
        tiles_end(d->set, d->kernel, e, call->args, out, d->y_pixel, pixel, s->last - s->first, s->channel, s->count);
}

/* What is to be made for rows [top, bottom) of the output, and how. */
static void begin_ring(const struct depthwise *d, int64_t top, int64_t bottom, float *ring, struct strip *s)
{
    const kn_window *w = &d->w;
    const int64_t first = top * w->stride[0] - w->begin[0];
    const int64_t last = (bottom - 1) * w->stride[0] - w->begin[0] + (w->kernel[0] - 1) * w->dilation[0] + 1;
    int64_t count, tiles;

    s->ring = ring;
    s->start = s->made = (first < 0 ? 0 : first < w->height ? first : w->height) * w->width;
    s->past = (last < w->height ? last < 0 ? 0 : last : w->height) * w->width;
    count = s->past > s->start ? s->past - s->start : 1;
    tiles = (count + TILE_ROWS - 1) / TILE_ROWS;
    s->tile = (count + tiles - 1) / tiles;
    s->places = d->maker.places / s->tile * s->tile;
}

static inlay_status depthwise_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const depthwise_call *call = user;
    const struct depthwise *d = call->d;
    const int64_t blocks = (d->w.in + d->block - 1) / d->block;

    for (int64_t u = begin; u < end; u++) {
        const int64_t part = u / blocks, image = part / d->parts, top = part % d->parts * d->part;
        const int64_t bottom = top + d->part < d->w.out_height ? top + d->part : d->w.out_height;
        struct strip s;

        s.image = image;
        s.channel = u % blocks * d->block;
        s.count = s.channel + d->block < d->w.in ? d->block : d->w.in - s.channel;
        if (d->maker.depth > 0)
            begin_ring(d, top, bottom,
                       (float *)call->args[d->maker.ring] + worker % d->maker.workers * d->maker.places * d->block, &s);
        for (s.first = 0; s.first < d->w.out_width; s.first += d->strip) {
            s.last = s.first + d->strip < d->w.out_width ? s.first + d->strip : d->w.out_width;
            for (int64_t i = 0; i < d->slots; i++)
                s.row[i] = -1;
            for (int64_t y = top; y < bottom; y++)
                one_row(call, y, &s);
        }
    }
    return INLAY_OK;
}

static inlay_status run_depthwise(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    const struct depthwise *d = (const struct depthwise *)(const void *)native;
    depthwise_call call = { d, args };
    const int64_t units = d->w.images * d->parts * ((d->w.in + d->block - 1) / d->block);

    if (threads <= 1 || units < 2 || d->w.flops < ALONE_FLOPS)
        return depthwise_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, depthwise_units, &call);
}

static int64_t share(int64_t count, int64_t size, int64_t multiple)
{
    int64_t parts = (count + size - 1) / size, each = (count + parts - 1) / parts;

    return (each + multiple - 1) / multiple * multiple;
}

/* Blocks of channels and strips of columns whose rows stay near, parts of the rows for threads. */
static void cut(struct depthwise *d, uint32_t threads)
{
    const kn_window *w = &d->w;
    const int64_t rows = w->kernel[0] + w->stride[0];
    int64_t fit = NEAR_BYTES / (int64_t)sizeof(float) / (rows * w->out_width * w->stride[1]);

    fit = fit / TILE_LANES * TILE_LANES;
    fit = fit < LEAST_CHANNELS ? LEAST_CHANNELS : fit > DW_CHANNELS ? DW_CHANNELS : fit;
    d->block = share(w->in, fit, TILE_LANES);
    d->step = w->out_width % 7 == 0 && w->out_width % DW_PIXELS != 0 ? 7 : DW_PIXELS;
    fit = NEAR_BYTES / (int64_t)sizeof(float) / (rows * w->stride[1] * d->block);
    d->strip = share(w->out_width, fit > d->step ? fit : d->step, d->step);
    d->slots = (w->kernel[0] - 1) * w->dilation[0] + 1;
    d->columns = (d->strip - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] + 1;
    while (d->slots * d->columns > TABLE_PIXELS && d->strip > 1) {
        d->strip = (d->strip + 1) / 2;
        d->columns = (d->strip - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] + 1;
    }
    d->parts = threads > 1 ? 2 * (int64_t)threads : 1;
    d->part = (w->out_height + d->parts - 1) / d->parts;
    d->parts = (w->out_height + d->part - 1) / d->part;
}

/* How many pixels a ring holds: those of a window's rows, and of a tile that is made too early. */
static int64_t ring_places(const kn_window *w)
{
    return ((w->kernel[0] - 1) * w->dilation[0] + 1) * w->width + 2 * TILE_ROWS;
}

/* The cut of one whose input is made on the way: blocks of channels as wide as a few panels of weights, and no more
 * parts than threads need, since each makes the first rows of its windows for itself. Returns what it takes in
 * nanoseconds; made: of a tile. */
static double cut_made(const kn_window *w, double tile_ns, double vector_ns, uint32_t threads, int64_t *out_block,
                       int64_t *out_parts)
{
    const double rows_ns = 0.4 * (double)(w->out_width * w->stride[1]); /* a table */
    const int64_t window = (w->kernel[0] - 1) * w->dilation[0] + 1;
    double best = -1;

    for (int64_t most = TILE_WIDTH; most <= 4 * TILE_WIDTH; most += TILE_WIDTH) {
        const int64_t block = share(w->in, most, TILE_WIDTH), blocks = (w->in + block - 1) / block;
        const int64_t width = threads > 1 && block < w->in ? block : (w->in + blocks - 1) / blocks;
        const double lines = (double)((width + TILE_LANES - 1) / TILE_LANES);
        const double far = ring_places(w) * block * (int64_t)sizeof(float) > RING_BYTES ? 1.25 : 1;

        for (int64_t parts = 1; parts <= (threads > 1 ? 4 * (int64_t)threads : 1) && parts <= w->out_height; parts++) {
            const int64_t part = (w->out_height + parts - 1) / parts, units = w->images * parts * blocks;
            const int64_t made =
                (part - 1) * w->stride[0] + window < w->height ? (part - 1) * w->stride[0] + window : w->height;
            const double tiles = (double)(made * w->width) / TILE_ROWS;
            const double ns = (tiles > 0.5 ? tiles : 0.5) * tile_ns * lines / 2 +
                              far * vector_ns * (double)(part * w->out_width) * lines + (double)made * rows_ns +
                              UNIT_NS;
            const double all = ns * (double)((units + threads - 1) / threads);

            if (best >= 0 && all >= best)
                continue;
            best = all;
            *out_block = block;
            *out_parts = parts;
        }
    }
    return best;
}

bool depthwise_makes(const kn_window *w)
{
    const int64_t window = (w->kernel[0] - 1) * w->dilation[0] + 1;
    const int64_t columns = (w->out_width - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] + 1;

    return w->width <= TABLE_PIXELS && w->out_width <= TABLE_PIXELS && window * columns <= TABLE_PIXELS &&
           window * w->width <= TABLE_PIXELS;
}

double kn_waiting_ns(const kn_case *c, const kn_case *d)
{
    double taps = (double)(d->w.kernel[0] * d->w.kernel[1]) * d->w.share;
    int64_t block, parts;

    return cut_made(&d->w, TILE_NS + DEPTH_NS * (double)c->w.in, 0.5 + 0.15 * taps, KN_THREADS, &block, &parts) + 1000;
}

bool depthwise_runs(const rg_build *b, const kn_case *c)
{
    const kn_window *w = &c->w;

    return b->state->tiles != NULL && b->state->sgemm != NULL && w->flat && w->group > 1 && w->in == w->group &&
           w->out == w->group && (w->kernel[0] - 1) * w->dilation[0] < TABLE_ROWS && w->kernel[0] <= DW_ROWS &&
           (w->kernel[1] - 1) * w->dilation[1] < TABLE_PIXELS / TABLE_ROWS;
}

/* Its weights, bias and ring become arguments; places has room for them. */
static inlay_status read_maker(rg_build *b, struct depthwise *d, const kn_ahead *a, rg_place *own,
                               const rg_place **places, uint32_t *io_count)
{
    struct maker *m = &d->maker;
    const int64_t block_floats = m->places * d->block * (int64_t)m->workers;
    inlay_status status;
    rg_md md;

    if (!tiles_panel_layout(&a->c.weights, &md))
        return inlay_fail(b->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", b->op->name);
    INLAY_TRY(rg_read_constant(b, b->c->ops[a->group->op].in[1], &a->c.weights, &md, &own[0]));
    INLAY_TRY(rg_new_floats(b, block_floats, &own[1]));
    m->w = *io_count;
    places[(*io_count)++] = &own[0];
    m->ring = *io_count;
    places[(*io_count)++] = &own[1];
    if (a->c.bias_value != INLAY_NONE) {
        INLAY_TRY(rg_read_floats(b, a->c.bias_value, a->c.w.out, &own[2]));
        m->ending.bias = *io_count;
        places[(*io_count)++] = &own[2];
    }
done:
    return status;
}

/* The cut and distances of one whose input is made on the way. */
static void begin_maker(const rg_build *b, struct depthwise *d, const kn_ahead *a)
{
    const double taps = (double)(d->w.kernel[0] * d->w.kernel[1]) * d->w.share;
    struct maker *m = &d->maker;

    d->w.flops += a->c.w.flops;
    m->depth = a->c.w.in;
    m->chain = sg_chain(m->depth, b->state->strict);
    m->in = d->in;
    m->workers = b->instance->threads > 0 ? b->instance->threads : 1;
    (void)tiles_functions(a->group, &m->ending);
    (void)cut_made(&d->w, TILE_NS + DEPTH_NS * (double)m->depth, 0.5 + 0.15 * taps, m->workers, &d->block, &d->parts);
    d->part = (d->w.out_height + d->parts - 1) / d->parts;
    d->parts = (d->w.out_height + d->part - 1) / d->part;
    d->strip = d->w.out_width;
    d->columns = (d->strip - 1) * d->w.stride[1] + (d->w.kernel[1] - 1) * d->w.dilation[1] + 1;
    m->places = ring_places(&d->w);
}

inlay_status depthwise_emit(rg_build *b, const kn_case *c, const tile_ending *ending, const rg_place **places,
                            uint32_t count)
{
    const rg_md *x = &places[ARG_X]->md, *y = &places[ARG_Y]->md;
    const kn_ahead *ahead = b->ahead[b->op->in[0]];
    struct depthwise *d;
    rg_place w, own[3];
    inlay_status status;
    rg_md md;

    if (!rg_md_blocks(&md, (uint32_t)c->weights.ndims, c->weights.dims, c->weights.ndims == 5 ? "Abcde16a" : "Abcd16a"))
        return inlay_fail(b->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", b->op->name);
    status = rg_read_constant(b, b->op->in[1], &c->weights, &md, &w);
    if (status != INLAY_OK)
        return status;
    d = calloc(1, sizeof *d);
    if (d == NULL)
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", b->op->name);
    *d = (struct depthwise){ .native.run = run_depthwise,
                             .set = b->state->tiles,
                             .kernel = b->state->sgemm,
                             .w = c->w,
                             .y_pixel = tiles_pixel_step(y),
                             .ending = *ending,
                             .reused = dw_reuses(c->w.kernel[1], c->w.stride[1], c->w.dilation[1]) };
    d->in.pixel = tiles_pixel_step(x);
    d->in.row = c->w.width * d->in.pixel;
    d->in.image = c->w.height * d->in.row;
    cut(d, b->instance->threads);
    places[ARG_W] = &w;
    if (ahead != NULL) {
        begin_maker(b, d, ahead);
        status = read_maker(b, d, ahead, own, places, &count);
        if (status != INLAY_OK) {
            free(d);
            return status;
        }
        b->instance->buffers[ahead->c.x.buffer].pending--;
    }
    return rg_emit_native(b, &d->native, places, count);
}
