/* Convolutions of single channels (as many groups as channels, in and out) in one or two dimensions, channels last.
 *
 * A unit of work is a part of the rows and a block of channels; it goes down through the rows in strips of columns so
 * narrow that the rows of a window stay in the first-level cache. Borders are pixels of a table that point to zeros. */
#include "depthwise.h"
#include "tiles.h"
#include <math.h>

typedef struct depthwise {
    rg_native native;
    const tile_set *set;
    const sg_kernel *kernel;
    kn_window w;
    tile_image in;
    int64_t y_pixel;
    int64_t block;            /* channels */
    int64_t strip;            /* pixels of a row of the output */
    int64_t part, parts;      /* rows of the output in a unit */
    int64_t step;             /* pixels of a block of the loop */
    int64_t slots, columns;   /* tables of rows: how many, their pixels */
    bool reused;
    tile_ending ending;
} depthwise;

typedef struct depthwise_call {
    const depthwise *d;
    void *const *args;
} depthwise_call;

enum { ARG_X, ARG_W, ARG_Y };
enum { TABLE_ROWS = 32, TABLE_PIXELS = 2048 };
enum { NEAR_BYTES = 32 * 1024, LEAST_CHANNELS = 64, ALONE_FLOPS = 200000 };

static const float zeros[DW_CHANNELS];

/* Taps of a window along an axis of `size` that lie in the image: [*first, *end). at: of its first tap. */
static void inside(int64_t at, int64_t taps, int64_t dilation, int64_t size, int64_t *first, int64_t *end)
{
    *first = at < 0 ? (-at + dilation - 1) / dilation : 0;
    *end = at >= size ? 0 : (size - at + dilation - 1) / dilation;
    *end = *end < taps ? *end : taps;
    *first = *first < *end ? *first : *end;
}

/* Tables of the rows of the input that the last windows saw: row i is at i % slots. */
typedef struct row_tables {
    const float *pixels[TABLE_PIXELS];
    int64_t row[TABLE_ROWS]; /* which one it is, -1: none */
} row_tables;

/* The table of row `at` of the input, for outputs from column x on. image: channels of the block. */
static const float *const *find_row(const depthwise *d, const float *image, int64_t at, int64_t x, row_tables *t)
{
    const kn_window *w = &d->w;
    const int64_t slot = at % d->slots, step = d->in.pixel;
    const float **table = &t->pixels[slot * d->columns];
    const float *row = image + at * d->in.row;
    int64_t first = x * w->stride[1] - w->begin[1], i = 0, end;

    if (t->row[slot] == at)
        return table;
    t->row[slot] = at;
    for (; i < d->columns && first + i < 0; i++)
        table[i] = zeros;
    end = w->width - first < d->columns ? w->width - first : d->columns;
    row += first * step;
    for (; i < end; i++)
        table[i] = row + i * step;
    for (; i < d->columns; i++)
        table[i] = zeros;
    return table;
}

static int64_t fitting(int64_t pixels, int64_t most)
{
    return pixels >= most ? most : pixels >= 4 ? 4 : pixels >= 2 ? 2 : 1;
}

/* A strip of an image: columns [first, last) of channels [channel, channel + count). */
typedef struct strip {
    int64_t image, first, last, channel, count;
    row_tables tables;
} strip;

static void one_row(const depthwise_call *call, int64_t y, strip *s)
{
    const depthwise *d = call->d;
    const kn_window *w = &d->w;
    const tile_ending *e = &d->ending;
    const int64_t at = y * w->stride[0] - w->begin[0];
    const int64_t pixel = (s->image * w->out_height + y) * w->out_width + s->first;
    const float *image = (const float *)call->args[ARG_X] + s->image * d->in.image + s->channel;
    const float *const *rows[DW_ROWS];
    float *out = (float *)call->args[ARG_Y] + pixel * d->y_pixel + s->channel;
    int64_t from, end;
    dw_block b;

    inside(at, w->kernel[0], w->dilation[0], w->height, &from, &end);
    for (int64_t r = from; r < end; r++)
        rows[r - from] = find_row(d, image, at + r * w->dilation[0], s->first, &s->tables);
    b.rows = end - from;
    b.width = w->kernel[1];
    b.ahead = w->stride[0] * d->in.row;
    b.fetch = w->stride[0];
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

static inlay_status depthwise_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const depthwise_call *call = user;
    const depthwise *d = call->d;
    const int64_t blocks = (d->w.in + d->block - 1) / d->block;

    (void)worker;
    for (int64_t u = begin; u < end; u++) {
        const int64_t part = u / blocks, image = part / d->parts, top = part % d->parts * d->part;
        const int64_t bottom = top + d->part < d->w.out_height ? top + d->part : d->w.out_height;
        strip s;

        s.image = image;
        s.channel = u % blocks * d->block;
        s.count = s.channel + d->block < d->w.in ? d->block : d->w.in - s.channel;
        for (s.first = 0; s.first < d->w.out_width; s.first += d->strip) {
            s.last = s.first + d->strip < d->w.out_width ? s.first + d->strip : d->w.out_width;
            for (int64_t i = 0; i < d->slots; i++)
                s.tables.row[i] = -1;
            for (int64_t y = top; y < bottom; y++)
                one_row(call, y, &s);
        }
    }
    return INLAY_OK;
}

static inlay_status run_depthwise(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    const depthwise *d = (const depthwise *)(const void *)native;
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
static void cut(depthwise *d, uint32_t threads)
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

bool depthwise_runs(const rg_build *b, const kn_case *c)
{
    const kn_window *w = &c->w;

    return b->state->tiles != NULL && b->state->sgemm != NULL && w->flat && w->group > 1 && w->in == w->group &&
           w->out == w->group && (w->kernel[0] - 1) * w->dilation[0] < TABLE_ROWS && w->kernel[0] <= DW_ROWS &&
           (w->kernel[1] - 1) * w->dilation[1] < TABLE_PIXELS / TABLE_ROWS;
}

inlay_status depthwise_emit(rg_build *b, const kn_case *c, const tile_ending *ending, const rg_place **places,
                            uint32_t count)
{
    const rg_md *x = &places[ARG_X]->md, *y = &places[ARG_Y]->md;
    depthwise *d;
    rg_place w;
    inlay_status status;
    rg_md md;

    if (dnnl_memory_desc_init_by_tag(&md, c->weights.ndims, c->weights.dims, dnnl_f32,
                                     c->weights.ndims == 5 ? dnnl_Abcde16a : dnnl_Abcd16a) != dnnl_success)
        return inlay_fail(b->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", b->op->name);
    status = rg_read_constant(b, b->op->in[1], &c->weights, &md, &w);
    if (status != INLAY_OK)
        return status;
    d = calloc(1, sizeof *d);
    if (d == NULL)
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", b->op->name);
    *d = (depthwise){ .native = { run_depthwise }, .set = b->state->tiles, .kernel = b->state->sgemm, .w = c->w,
                      .y_pixel = tiles_pixel_step(y), .ending = *ending,
                      .reused = dw_reuses(c->w.kernel[1], c->w.stride[1], c->w.dilation[1]) };
    d->in.pixel = tiles_pixel_step(x);
    d->in.row = c->w.width * d->in.pixel;
    d->in.image = c->w.height * d->in.row;
    cut(d, b->instance->threads);
    places[ARG_W] = &w;
    return rg_emit_native(b, &d->native, places, count);
}
