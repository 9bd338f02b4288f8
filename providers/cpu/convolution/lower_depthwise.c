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
OPTIONAL_IF_CALLED(kernel_fused_depthwise_ns);

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
    cpu_native native;
    const tile_set *set;
    const sgemm_kernel *kernel;
    kernel_conv_shape window;
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
    const struct depthwise *depthwise;
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

static const float zeros[DEPTHWISE_CHANNELS];

/* Taps of a window along an axis of `size` that lie in the image: [*first, *end). at: of its first tap. */
static void inside(int64_t at, int64_t taps, int64_t dilation, int64_t size, int64_t *first, int64_t *end)
{
    *first = at < 0 ? (-at + dilation - 1) / dilation : 0;
    *end = at >= size ? 0 : (size - at + dilation - 1) / dilation;
    *end = *end < taps ? *end : taps;
    *first = *first < *end ? *first : *end;
}

/* Makes pixels of the input up to number `until`, all channels of the strip. */
static void make_pixels(const depthwise_call *call, int64_t until, struct strip *strip)
{
    const struct depthwise *depthwise = call->depthwise;
    const struct maker *maker = &depthwise->maker;
    const tile_ending *ending = &maker->ending;
    const int64_t tap = 0, panel_floats = maker->depth * TILE_WIDTH;
    const float *input = (const float *)call->args[ARG_X] + strip->image * maker->in.image;
    const float *weights = (const float *)call->args[maker->w] + strip->channel / TILE_WIDTH * panel_floats;
    const bool fetch = strip->past - strip->start <= FETCHING_TILES * TILE_ROWS;
    tile_product product = { .a_row = maker->in.pixel,
                             .taps = &tap,
                             .tap_count = 1,
                             .depth = maker->depth,
                             .chain = maker->chain,
                             .ahead_lines = 1,
                             .c_row = depthwise->block,
                             .clamp = ending->clamp,
                             .low = ending->low,
                             .high = ending->high };

    while (strip->made < until && strip->made < strip->past) {
        const int64_t rows = strip->past - strip->made < strip->tile ? strip->past - strip->made : strip->tile;
        float *c = strip->ring + (strip->made - strip->start) % strip->places * depthwise->block;

        product.a = input + strip->made * maker->in.pixel;
        for (int64_t k = 0; k < strip->count; k += TILE_WIDTH) {
            const int64_t after = strip->channel + k + TILE_WIDTH, turn = (strip->made - strip->start) / strip->tile;

            product.b = weights + k / TILE_WIDTH * panel_floats;
            product.bias =
                ending->bias != INLAY_NONE ? (const float *)call->args[ending->bias] + strip->channel + k : NULL;
            product.c = c + k;
            product.columns = strip->count - k < TILE_WIDTH ? strip->count - k : TILE_WIDTH;
            product.ahead = fetch && turn < 2 && after < depthwise->window.in
                                ? product.b + panel_floats + turn * panel_floats / 2
                                : NULL;
            depthwise->set->multiply(&product, (int)rows);
        }
        if (ending->post_count > 0)
            tiles_end(depthwise->set, depthwise->kernel, ending, call->args, c, depthwise->block, strip->made, rows,
                      strip->channel, strip->count);
        strip->made += rows;
    }
}

/* Fills the part of a table whose pixels are in the image, from number `pixel` on. */
static void find_made(const struct depthwise *depthwise, const struct strip *strip, int64_t pixel, int64_t count,
                      const float **table)
{
    int64_t at = (pixel - strip->start) % strip->places;

    for (int64_t i = 0; i < count;) {
        const int64_t run = strip->places - at < count - i ? strip->places - at : count - i;

        for (int64_t k = 0; k < run; k++)
            table[i + k] = strip->ring + (at + k) * depthwise->block;
        i += run;
        at = 0;
    }
}

/* The table of row `at` of the input. */
static const float *const *find_row(const depthwise_call *call, int64_t at, struct strip *strip)
{
    const struct depthwise *depthwise = call->depthwise;
    const kernel_conv_shape *window = &depthwise->window;
    const int64_t slot = at % depthwise->slots, step = depthwise->in.pixel,
                  first = strip->first * window->stride[1] - window->begin[1];
    const float **table = &strip->pixels[slot * depthwise->columns];
    const int64_t begin = first < 0 ? (-first < depthwise->columns ? -first : depthwise->columns) : 0;
    int64_t end = window->width - first < depthwise->columns ? window->width - first : depthwise->columns;

    if (strip->row[slot] == at)
        return table;
    strip->row[slot] = at;
    end = end > begin ? end : begin;
    for (int64_t i = 0; i < begin; i++)
        table[i] = zeros;
    for (int64_t i = end; i < depthwise->columns; i++)
        table[i] = zeros;
    if (depthwise->maker.depth > 0) {
        if (end > begin)
            find_made(depthwise, strip, at * window->width + first + begin, end - begin, table + begin);
    } else {
        const float *row = (const float *)call->args[ARG_X] + strip->image * depthwise->in.image +
                           at * depthwise->in.row + first * step + strip->channel;

        for (int64_t i = begin; i < end; i++)
            table[i] = row + i * step;
    }
    return table;
}

static int64_t fitting(int64_t pixels, int64_t most)
{
    return pixels >= most ? most : pixels >= 4 ? 4 : pixels >= 2 ? 2 : 1;
}

static void one_row(const depthwise_call *call, int64_t y, struct strip *strip)
{
    const struct depthwise *depthwise = call->depthwise;
    const kernel_conv_shape *window = &depthwise->window;
    const tile_ending *ending = &depthwise->ending;
    const int64_t at = y * window->stride[0] - window->begin[0];
    const int64_t pixel = (strip->image * window->out_height + y) * window->out_width + strip->first;
    const float *const *rows[DEPTHWISE_ROWS];
    float *out = (float *)call->args[ARG_Y] + pixel * depthwise->y_pixel + strip->channel;
    int64_t from, end;
    depthwise_block block;

    inside(at, window->kernel[0], window->dilation[0], window->height, &from, &end);
    if (depthwise->maker.depth > 0 && end > from)
        make_pixels(call, (at + (end - 1) * window->dilation[0] + 1) * window->width, strip);
    for (int64_t r = from; r < end; r++)
        rows[r - from] = find_row(call, at + r * window->dilation[0], strip);
    block.rows = end - from;
    block.width = window->kernel[1];
    block.ahead = window->stride[0] * depthwise->in.row;
    block.fetch = depthwise->maker.depth > 0 ? 0 : window->stride[0];
    block.w_step = window->kernel[0] * window->kernel[1] * TILE_LANES;
    block.weights = (const float *)call->args[ARG_W] + strip->channel / TILE_LANES * block.w_step +
                    from * window->kernel[1] * TILE_LANES;
    block.bias = ending->bias != INLAY_NONE ? (const float *)call->args[ending->bias] + strip->channel : NULL;
    block.add = ending->add != INLAY_NONE
                    ? (const float *)call->args[ending->add] + pixel * ending->add_pixel + strip->channel
                    : NULL;
    block.add_step = ending->add_pixel;
    block.output = out;
    block.y_step = depthwise->y_pixel;
    block.channels = strip->count;
    block.stride = window->stride[1];
    block.dilation = window->dilation[1];
    block.reused = depthwise->reused;
    block.clamp = ending->clamp;
    block.low = ending->low;
    block.high = ending->high;
    for (int64_t x = 0; x < strip->last - strip->first; x += block.pixels) {
        block.pixels = (int32_t)fitting(strip->last - strip->first - x, depthwise->step);
        for (int64_t row = 0; row < block.rows; row++)
            block.x[row] = rows[row] + x * window->stride[1];
        depthwise->set->depthwise(&block);
        block.output += block.pixels * depthwise->y_pixel;
        block.add += block.add != NULL ? block.pixels * ending->add_pixel : 0;
    }
    if (ending->post_count > 0)
        tiles_end(depthwise->set, depthwise->kernel, ending, call->args, out, depthwise->y_pixel, pixel,
                  strip->last - strip->first, strip->channel, strip->count);
}

/* What is to be made for rows [top, bottom) of the output, and how. */
static void begin_ring(const struct depthwise *depthwise, int64_t top, int64_t bottom, float *ring, struct strip *strip)
{
    const kernel_conv_shape *window = &depthwise->window;
    const int64_t first = top * window->stride[0] - window->begin[0];
    const int64_t last =
        (bottom - 1) * window->stride[0] - window->begin[0] + (window->kernel[0] - 1) * window->dilation[0] + 1;
    int64_t count, tiles;

    strip->ring = ring;
    strip->start = strip->made = (first < 0 ? 0 : first < window->height ? first : window->height) * window->width;
    strip->past = (last < window->height ? last < 0 ? 0 : last : window->height) * window->width;
    count = strip->past > strip->start ? strip->past - strip->start : 1;
    tiles = (count + TILE_ROWS - 1) / TILE_ROWS;
    strip->tile = (count + tiles - 1) / tiles;
    strip->places = depthwise->maker.places / strip->tile * strip->tile;
}

static inlay_status depthwise_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const depthwise_call *call = user;
    const struct depthwise *depthwise = call->depthwise;
    const int64_t blocks = (depthwise->window.in + depthwise->block - 1) / depthwise->block;

    for (int64_t u = begin; u < end; u++) {
        const int64_t part = u / blocks, image = part / depthwise->parts,
                      top = part % depthwise->parts * depthwise->part;
        const int64_t bottom =
            top + depthwise->part < depthwise->window.out_height ? top + depthwise->part : depthwise->window.out_height;
        struct strip strip;

        strip.image = image;
        strip.channel = u % blocks * depthwise->block;
        strip.count = strip.channel + depthwise->block < depthwise->window.in ? depthwise->block
                                                                              : depthwise->window.in - strip.channel;
        if (depthwise->maker.depth > 0)
            begin_ring(depthwise, top, bottom,
                       (float *)call->args[depthwise->maker.ring] +
                           worker % depthwise->maker.workers * depthwise->maker.places * depthwise->block,
                       &strip);
        for (strip.first = 0; strip.first < depthwise->window.out_width; strip.first += depthwise->strip) {
            strip.last = strip.first + depthwise->strip < depthwise->window.out_width ? strip.first + depthwise->strip
                                                                                      : depthwise->window.out_width;
            for (int64_t i = 0; i < depthwise->slots; i++)
                strip.row[i] = -1;
            for (int64_t y = top; y < bottom; y++)
                one_row(call, y, &strip);
        }
    }
    return INLAY_OK;
}

static inlay_status run_depthwise(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    const struct depthwise *depthwise = (const struct depthwise *)(const void *)native;
    depthwise_call call = { depthwise, args };
    const int64_t units = depthwise->window.images * depthwise->parts *
                          ((depthwise->window.in + depthwise->block - 1) / depthwise->block);

    if (threads <= 1 || units < 2 || depthwise->window.flops < ALONE_FLOPS)
        return depthwise_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, depthwise_units, &call);
}

static int64_t share(int64_t count, int64_t size, int64_t multiple)
{
    int64_t parts = (count + size - 1) / size, each = (count + parts - 1) / parts;

    return (each + multiple - 1) / multiple * multiple;
}

/* Blocks of channels and strips of columns whose rows stay near, parts of the rows for threads. */
static void cut(struct depthwise *depthwise, uint32_t threads)
{
    const kernel_conv_shape *window = &depthwise->window;
    const int64_t rows = window->kernel[0] + window->stride[0];
    int64_t fit = NEAR_BYTES / (int64_t)sizeof(float) / (rows * window->out_width * window->stride[1]);

    fit = fit / TILE_LANES * TILE_LANES;
    fit = fit < LEAST_CHANNELS ? LEAST_CHANNELS : fit > DEPTHWISE_CHANNELS ? DEPTHWISE_CHANNELS : fit;
    depthwise->block = share(window->in, fit, TILE_LANES);
    depthwise->step = window->out_width % 7 == 0 && window->out_width % DEPTHWISE_PIXELS != 0 ? 7 : DEPTHWISE_PIXELS;
    fit = NEAR_BYTES / (int64_t)sizeof(float) / (rows * window->stride[1] * depthwise->block);
    depthwise->strip = share(window->out_width, fit > depthwise->step ? fit : depthwise->step, depthwise->step);
    depthwise->slots = (window->kernel[0] - 1) * window->dilation[0] + 1;
    depthwise->columns = (depthwise->strip - 1) * window->stride[1] + (window->kernel[1] - 1) * window->dilation[1] + 1;
    while (depthwise->slots * depthwise->columns > TABLE_PIXELS && depthwise->strip > 1) {
        depthwise->strip = (depthwise->strip + 1) / 2;
        depthwise->columns =
            (depthwise->strip - 1) * window->stride[1] + (window->kernel[1] - 1) * window->dilation[1] + 1;
    }
    depthwise->parts = threads > 1 ? 2 * (int64_t)threads : 1;
    depthwise->part = (window->out_height + depthwise->parts - 1) / depthwise->parts;
    depthwise->parts = (window->out_height + depthwise->part - 1) / depthwise->part;
}

/* How many pixels a ring holds: those of a window's rows, and of a tile that is made too early. */
static int64_t ring_places(const kernel_conv_shape *window)
{
    return ((window->kernel[0] - 1) * window->dilation[0] + 1) * window->width + 2 * TILE_ROWS;
}

/* The cut of one whose input is made on the way: blocks of channels as wide as a few panels of weights, and no more
 * parts than threads need, since each makes the first rows of its windows for itself. Returns what it takes in
 * nanoseconds; made: of a tile. */
static double cut_made(const kernel_conv_shape *w, double tile_ns, double vector_ns, uint32_t threads,
                       int64_t *out_block, int64_t *out_parts)
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

bool depthwise_makes(const kernel_conv_shape *w)
{
    const int64_t window = (w->kernel[0] - 1) * w->dilation[0] + 1;
    const int64_t columns = (w->out_width - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] + 1;

    return w->width <= TABLE_PIXELS && w->out_width <= TABLE_PIXELS && window * columns <= TABLE_PIXELS &&
           window * w->width <= TABLE_PIXELS;
}

double kernel_fused_depthwise_ns(const kernel_layer *layer, const kernel_layer *d)
{
    double taps = (double)(d->window.kernel[0] * d->window.kernel[1]) * d->window.share;
    int64_t block, parts;

    return cut_made(&d->window, TILE_NS + DEPTH_NS * (double)layer->window.in, 0.5 + 0.15 * taps, KERNEL_THREADS,
                    &block, &parts) +
           1000;
}

bool depthwise_runs(const cpu_build *build, const kernel_layer *layer)
{
    const kernel_conv_shape *window = &layer->window;

    return build->state->tiles != NULL && build->state->sgemm != NULL && window->flat && window->group > 1 &&
           window->in == window->group && window->out == window->group &&
           (window->kernel[0] - 1) * window->dilation[0] < TABLE_ROWS && window->kernel[0] <= DEPTHWISE_ROWS &&
           (window->kernel[1] - 1) * window->dilation[1] < TABLE_PIXELS / TABLE_ROWS;
}

/* Its weights, bias and ring become arguments; places has room for them. */
static inlay_status read_maker(cpu_build *build, struct depthwise *depthwise, const kernel_ahead *ahead, cpu_place *own,
                               const cpu_place **places, uint32_t *io_count)
{
    struct maker *maker = &depthwise->maker;
    const int64_t block_floats = maker->places * depthwise->block * (int64_t)maker->workers;
    inlay_status status;
    memory_desc md;

    if (!tiles_panel_layout(&ahead->layer.weights, &md))
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", build->op->name);
    INLAY_TRY(
        cpu_read_constant(build, build->compiled->ops[ahead->group->op].in[1], &ahead->layer.weights, &md, &own[0]));
    INLAY_TRY(cpu_new_floats(build, block_floats, &own[1]));
    maker->w = *io_count;
    places[(*io_count)++] = &own[0];
    maker->ring = *io_count;
    places[(*io_count)++] = &own[1];
    if (ahead->layer.bias_value != INLAY_NONE) {
        INLAY_TRY(cpu_read_floats(build, ahead->layer.bias_value, ahead->layer.window.out, &own[2]));
        maker->ending.bias = *io_count;
        places[(*io_count)++] = &own[2];
    }
done:
    return status;
}

/* The cut and distances of one whose input is made on the way. */
static void begin_maker(const cpu_build *build, struct depthwise *depthwise, const kernel_ahead *ahead)
{
    const double taps = (double)(depthwise->window.kernel[0] * depthwise->window.kernel[1]) * depthwise->window.share;
    struct maker *maker = &depthwise->maker;

    depthwise->window.flops += ahead->layer.window.flops;
    maker->depth = ahead->layer.window.in;
    maker->chain = sgemm_chain(maker->depth, build->state->strict);
    maker->in = depthwise->in;
    maker->workers = build->instance->threads > 0 ? build->instance->threads : 1;
    (void)tiles_functions(ahead->group, &maker->ending);
    (void)cut_made(&depthwise->window, TILE_NS + DEPTH_NS * (double)maker->depth, 0.5 + 0.15 * taps, maker->workers,
                   &depthwise->block, &depthwise->parts);
    depthwise->part = (depthwise->window.out_height + depthwise->parts - 1) / depthwise->parts;
    depthwise->parts = (depthwise->window.out_height + depthwise->part - 1) / depthwise->part;
    depthwise->strip = depthwise->window.out_width;
    depthwise->columns = (depthwise->strip - 1) * depthwise->window.stride[1] +
                         (depthwise->window.kernel[1] - 1) * depthwise->window.dilation[1] + 1;
    maker->places = ring_places(&depthwise->window);
}

inlay_status depthwise_emit(cpu_build *build, const kernel_layer *layer, const tile_ending *ending,
                            const cpu_place **places, uint32_t count)
{
    const memory_desc *input = &places[ARG_X]->md, *output = &places[ARG_Y]->md;
    const kernel_ahead *ahead = build->ahead[build->op->in[0]];
    struct depthwise *depthwise;
    cpu_place weights, own[3];
    inlay_status status;
    memory_desc md;

    if (!memory_desc_blocks(&md, (uint32_t)layer->weights.ndims, layer->weights.dims,
                            layer->weights.ndims == 5 ? "Abcde16a" : "Abcd16a"))
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", build->op->name);
    status = cpu_read_constant(build, build->op->in[1], &layer->weights, &md, &weights);
    if (status != INLAY_OK)
        return status;
    depthwise = calloc(1, sizeof *depthwise);
    if (depthwise == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", build->op->name);
    *depthwise = (struct depthwise){ .native.run = run_depthwise,
                                     .set = build->state->tiles,
                                     .kernel = build->state->sgemm,
                                     .window = layer->window,
                                     .y_pixel = tiles_pixel_step(output),
                                     .ending = *ending,
                                     .reused = depthwise_reuses(layer->window.kernel[1], layer->window.stride[1],
                                                                layer->window.dilation[1]) };
    depthwise->in.pixel = tiles_pixel_step(input);
    depthwise->in.row = layer->window.width * depthwise->in.pixel;
    depthwise->in.image = layer->window.height * depthwise->in.row;
    cut(depthwise, build->instance->threads);
    places[ARG_W] = &weights;
    if (ahead != NULL) {
        begin_maker(build, depthwise, ahead);
        status = read_maker(build, depthwise, ahead, own, places, &count);
        if (status != INLAY_OK) {
            free(depthwise);
            return status;
        }
        build->instance->buffers[ahead->layer.input.buffer].pending--;
    }
    return cpu_emit_native(build, &depthwise->native, places, count);
}
