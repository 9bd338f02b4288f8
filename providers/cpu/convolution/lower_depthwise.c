/* Depthwise convolutions (as many groups as channels, in and out), and others whose groups have few channels, as many
 * in as out, in one or two dimensions, channels-last.
 *
 * A unit of work is a slice of the rows and a block of channels. It processes the rows from top to bottom in strips
 * of columns that are narrow enough to keep the rows of a kernel window in the first-level cache. Borders are entries
 * of a pointer table that point to zeros. */
#include "cpu/convolution/depthwise.h"
#include "cpu/convolution/tiles.h"
#include "cpu/choice/machine.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "simd/cpu.h"
#include "simd/optional.h"
#include <math.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(depthwise_emit);
OPTIONAL_IF_CALLED(depthwise_supports_producer);
OPTIONAL_IF_CALLED(depthwise_fits);
OPTIONAL_IF_CALLED(depthwise_vector_ns);
OPTIONAL_IF_CALLED(kernel_fused_depthwise_ns);

/* The deferred convolution that produces the input row by row, into a ring buffer of each worker. Positions in the
 * ring count pixels of `block` floats. */
struct producer {
    int64_t depth, chain; /* input channels of the producer (0: none); maximum terms of a chain */
    tile_image in;        /* input of the producer */
    uint32_t w, ring;     /* numbers of the arguments: weights and ring buffers */
    int64_t places;       /* pixels in a ring */
    uint32_t workers;
    tile_epilogue epilogue;
};

struct depthwise {
    cpu_native native;
    const tile_set *set;
    const sgemm_kernel *kernel;
    kernel_conv_shape window;
    tile_image in;
    int64_t y_pixel;
    int64_t block;                                    /* channels of a block */
    int64_t strip;                                    /* pixels of an output row in a strip */
    int64_t part, parts;                              /* output rows in a unit; slices of an image */
    int64_t step;                                     /* pixels of a block of the inner loop */
    int64_t slots, columns;                           /* tables of rows: their count and their pixels */
    bool reused, paired;                              /* paired: two output rows at once */
    int64_t fetch;                                    /* rows that are prefetched for an output row */
    int64_t depth;                                    /* channels of a group */
    int32_t spread[DEPTHWISE_LANES][DEPTHWISE_LANES]; /* depthwise_block.spread */
    tile_epilogue epilogue;
    struct producer producer;
};

typedef struct depthwise_call {
    const struct depthwise *depthwise;
    void *const *args;
} depthwise_call;

enum { ARG_X, ARG_W, ARG_Y };
/* Time of a vector of outputs, if rows are computed in pairs, of groups of one channel and of more. */
#define PAIRED_PACE 0.87
#define PAIRED_GROUPS_PACE 0.66
enum { RING_BYTES = 64 * 1024, UNIT_NS = 150 };
/* Larger images are prefetched. Loops that read each row for two output rows wait less for the shared cache. */
enum { FETCHED_BYTES = 1 << 20, FETCHED_PAIRED_BYTES = 16 << 20 };
enum { STREAMED_BYTES = 2 << 20 }; /* images beyond the second-level cache, see streams() */
enum { TABLE_ROWS = 32, TABLE_PIXELS = 2048 };
enum { NEAR_BYTES = 32 * 1024, MIN_CHANNELS = 64, ALONE_FLOPS = 200000, FETCHING_TILES = 8 };

/* A strip of an image: columns [first, last) of channels [channel, channel + count). Pointer tables of the last input
 * rows that were read: row i is in slot i % slots. */
struct strip {
    int64_t image, first, last, channel, count;
    float *ring;
    int64_t start, produced, past; /* pixels of the image: first in the ring, end of the ring, end of all needed ones */
    int64_t tile;                  /* pixels that are computed at once, a divisor of the ring's places */
    int64_t places;
    const float *pixels[TABLE_PIXELS];
    int64_t row[TABLE_ROWS]; /* the row in each slot, -1: none */
};

static const float zeros[DEPTHWISE_CHANNELS];

/* Taps of a kernel along an axis of `size` that lie inside the image: [*first, *end). at: position of the first tap. */
static void inside(int64_t at, int64_t taps, int64_t dilation, int64_t size, int64_t *first, int64_t *end)
{
    *first = at < 0 ? (-at + dilation - 1) / dilation : 0;
    *end = at >= size ? 0 : (size - at + dilation - 1) / dilation;
    *end = *end < taps ? *end : taps;
    *first = *first < *end ? *first : *end;
}

/* Produces the input's pixels up to number `until`, for all channels of the strip. */
static void produce_pixels(const depthwise_call *call, int64_t until, struct strip *strip)
{
    const struct depthwise *depthwise = call->depthwise;
    const struct producer *producer = &depthwise->producer;
    const tile_epilogue *epilogue = &producer->epilogue;
    const int64_t tap = 0, panel_floats = producer->depth * TILE_WIDTH;
    const float *input = (const float *)call->args[ARG_X] + strip->image * producer->in.image;
    const float *weights = (const float *)call->args[producer->w] + strip->channel / TILE_WIDTH * panel_floats;
    const bool fetch = strip->past - strip->start <= FETCHING_TILES * TILE_ROWS;
    tile_product product = { .a_row = producer->in.pixel,
                             .taps = &tap,
                             .tap_count = 1,
                             .depth = producer->depth,
                             .chain = producer->chain,
                             .ahead_lines = 1,
                             .c_row = depthwise->block,
                             .clamp = epilogue->clamp,
                             .low = epilogue->low,
                             .high = epilogue->high };

    while (strip->produced < until && strip->produced < strip->past) {
        const int64_t rows = strip->past - strip->produced < strip->tile ? strip->past - strip->produced : strip->tile;
        float *c = strip->ring + (strip->produced - strip->start) % strip->places * depthwise->block;

        product.a = input + strip->produced * producer->in.pixel;
        for (int64_t k = 0; k < strip->count; k += TILE_WIDTH) {
            const int64_t after = strip->channel + k + TILE_WIDTH,
                          turn = (strip->produced - strip->start) / strip->tile;

            product.b = weights + k / TILE_WIDTH * panel_floats;
            product.bias =
                epilogue->bias != INLAY_NONE ? (const float *)call->args[epilogue->bias] + strip->channel + k : NULL;
            product.c = c + k;
            product.columns = strip->count - k < TILE_WIDTH ? strip->count - k : TILE_WIDTH;
            product.ahead = fetch && turn < 2 && after < depthwise->window.in
                                ? product.b + panel_floats + turn * panel_floats / 2
                                : NULL;
            depthwise->set->multiply(&product, (int)rows);
        }
        if (epilogue->post_count > 0)
            tiles_apply_epilogue(depthwise->set, depthwise->kernel, epilogue, call->args, c, depthwise->block,
                                 strip->produced, rows, strip->channel, strip->count);
        strip->produced += rows;
    }
}

/* Fills the part of a table whose pixels are inside the image, from pixel number `pixel` on. */
static void find_produced(const struct depthwise *depthwise, const struct strip *strip, int64_t pixel, int64_t count,
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

/* Returns the pointer table of input row `at`. */
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
    if (depthwise->producer.depth > 0) {
        if (end > begin)
            find_produced(depthwise, strip, at * window->width + first + begin, end - begin, table + begin);
    } else {
        const float *row = (const float *)call->args[ARG_X] + strip->image * depthwise->in.image +
                           at * depthwise->in.row + first * step + strip->channel;

        for (int64_t i = begin; i < end; i++)
            table[i] = row + i * step;
    }
    return table;
}

static int64_t fitting(int64_t pixels, int64_t limit)
{
    return pixels >= limit ? limit : pixels >= 4 ? 4 : pixels >= 2 ? 2 : 1;
}

/* Computes an output row of a strip, or two. */
static void some_rows(const depthwise_call *call, int64_t row_out, int64_t count, struct strip *strip)
{
    const struct depthwise *depthwise = call->depthwise;
    const kernel_conv_shape *window = &depthwise->window;
    const tile_epilogue *epilogue = &depthwise->epilogue;
    const int64_t at = row_out * window->stride[0] - window->begin[0],
                  height = window->kernel[0] + (count - 1) * window->stride[0];
    const int64_t pixel = (strip->image * window->out_height + row_out) * window->out_width + strip->first;
    const float *const *rows[DEPTHWISE_ROWS];
    float *out = (float *)call->args[ARG_Y] + pixel * depthwise->y_pixel + strip->channel;
    int64_t from, end;
    depthwise_block block;

    INLAY_CHECK(count == 1 || (depthwise->paired && count == 2 && height <= DEPTHWISE_ROWS));
    inside(at, height, window->dilation[0], window->height, &from, &end);
    if (depthwise->producer.depth > 0 && end > from)
        produce_pixels(call, (at + (end - 1) * window->dilation[0] + 1) * window->width, strip);
    for (int64_t tap = from; tap < end; tap++)
        rows[tap - from] = find_row(call, at + tap * window->dilation[0], strip);
    block.rows = end - from;
    block.width = window->kernel[1];
    block.ahead = count * window->stride[0] * depthwise->in.row;
    block.fetch = count * depthwise->fetch;
    block.pair.active = count == 2;
    block.pair.top = from;
    block.pair.height = window->kernel[0];
    block.pair.y_row = window->out_width * depthwise->y_pixel;
    block.pair.add_row = window->out_width * epilogue->add_pixel;
    block.w_step = window->kernel[0] * window->kernel[1] * depthwise->depth * DEPTHWISE_LANES;
    block.weights = (const float *)call->args[ARG_W] + strip->channel / DEPTHWISE_LANES * block.w_step +
                    (count == 1 ? from * window->kernel[1] * depthwise->depth * DEPTHWISE_LANES : 0);
    block.bias = epilogue->bias != INLAY_NONE ? (const float *)call->args[epilogue->bias] + strip->channel : NULL;
    block.add = epilogue->add != INLAY_NONE
                    ? (const float *)call->args[epilogue->add] + pixel * epilogue->add_pixel + strip->channel
                    : NULL;
    block.add_step = epilogue->add_pixel;
    block.output = out;
    block.y_step = depthwise->y_pixel;
    block.channels = strip->count;
    block.stride = window->stride[1];
    block.dilation = window->dilation[1];
    block.depth = depthwise->depth;
    block.spread = depthwise->spread;
    block.reused = depthwise->reused;
    block.clamp = epilogue->clamp;
    block.low = epilogue->low;
    block.high = epilogue->high;
    for (int64_t column = 0; column < strip->last - strip->first; column += block.pixels) {
        block.pixels = (int32_t)fitting(strip->last - strip->first - column, depthwise->step);
        for (int64_t row = 0; row < block.rows; row++)
            block.x[row] = rows[row] + column * window->stride[1];
        depthwise->set->depthwise(&block);
        block.output += block.pixels * depthwise->y_pixel;
        block.add += block.add != NULL ? block.pixels * epilogue->add_pixel : 0;
    }
    for (int64_t row = 0; row < count && epilogue->post_count > 0; row++)
        tiles_apply_epilogue(depthwise->set, depthwise->kernel, epilogue, call->args, out + row * block.pair.y_row,
                             depthwise->y_pixel, pixel + row * window->out_width, strip->last - strip->first,
                             strip->channel, strip->count);
}

/* Sets the range of input pixels that output rows [top, bottom) need, and the ring's layout. */
static void init_ring(const struct depthwise *depthwise, int64_t top, int64_t bottom, float *ring, struct strip *strip)
{
    const kernel_conv_shape *window = &depthwise->window;
    const int64_t first = top * window->stride[0] - window->begin[0];
    const int64_t last =
        (bottom - 1) * window->stride[0] - window->begin[0] + (window->kernel[0] - 1) * window->dilation[0] + 1;
    int64_t count, tiles;

    strip->ring = ring;
    strip->start = strip->produced = (first < 0 ? 0 : first < window->height ? first : window->height) * window->width;
    strip->past = (last < window->height ? last < 0 ? 0 : last : window->height) * window->width;
    count = strip->past > strip->start ? strip->past - strip->start : 1;
    tiles = (count + TILE_ROWS - 1) / TILE_ROWS;
    strip->tile = (count + tiles - 1) / tiles;
    strip->places = depthwise->producer.places / strip->tile * strip->tile;
    INLAY_CHECK(strip->tile > 0 && strip->tile <= TILE_ROWS && strip->places >= strip->tile);
}

static inlay_status depthwise_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const depthwise_call *call = user;
    const struct depthwise *depthwise = call->depthwise;
    const int64_t blocks = (depthwise->window.in + depthwise->block - 1) / depthwise->block;
    INLAY_CHECK(depthwise->slots <= TABLE_ROWS && depthwise->slots * depthwise->columns <= TABLE_PIXELS);
    INLAY_CHECK(depthwise->block > 0 && depthwise->block <= DEPTHWISE_CHANNELS);

    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t part = unit / blocks, image = part / depthwise->parts,
                      top = part % depthwise->parts * depthwise->part;
        const int64_t bottom =
            top + depthwise->part < depthwise->window.out_height ? top + depthwise->part : depthwise->window.out_height;
        struct strip strip;

        strip.image = image;
        strip.channel = unit % blocks * depthwise->block;
        strip.count = strip.channel + depthwise->block < depthwise->window.in ? depthwise->block
                                                                              : depthwise->window.in - strip.channel;
        if (depthwise->producer.depth > 0)
            init_ring(depthwise, top, bottom,
                      (float *)call->args[depthwise->producer.ring] +
                          worker % depthwise->producer.workers * depthwise->producer.places * depthwise->block,
                      &strip);
        for (strip.first = 0; strip.first < depthwise->window.out_width; strip.first += depthwise->strip) {
            strip.last = strip.first + depthwise->strip < depthwise->window.out_width ? strip.first + depthwise->strip
                                                                                      : depthwise->window.out_width;
            for (int64_t i = 0; i < depthwise->slots; i++)
                strip.row[i] = -1;
            for (int64_t row = top, count; row < bottom; row += count) {
                count = depthwise->paired && row + 1 < bottom ? 2 : 1;
                some_rows(call, row, count, &strip);
            }
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

/* Size of equal parts of `count`, at most `size` each, rounded up to a multiple of `multiple`. */
static int64_t share(int64_t count, int64_t size, int64_t multiple)
{
    int64_t parts = (count + size - 1) / size, each = (count + parts - 1) / parts;

    return (each + multiple - 1) / multiple * multiple;
}

static bool pairs_rows(const kernel_conv_shape *window)
{
    return depthwise_pairs(window->kernel[0], window->kernel[1], window->stride[0], window->stride[1],
                           window->dilation[0] * window->dilation[1]);
}

/* Input rows that one output row reads, or two neighbouring ones. */
static int64_t rows_of_step(const kernel_conv_shape *window, bool paired)
{
    return (window->kernel[0] - 1) * window->dilation[0] + 1 + (paired ? window->stride[0] : 0);
}

/* Does a large image gain nothing from the near cache, because hardly any row of it is read for several output rows?
 * Whole rows of all channels are then read in order of their addresses, which the processor fetches ahead by itself. */
static bool streams(const kernel_conv_shape *window)
{
    return window->kernel[0] <= 2 * window->stride[0] &&
           window->in * window->height * window->width * (int64_t)sizeof(float) > STREAMED_BYTES;
}

/* Chooses blocks of channels and strips of columns that stay in the near cache, and slices of the rows for threads. */
static void cut(struct depthwise *depthwise, uint32_t threads)
{
    const kernel_conv_shape *window = &depthwise->window;
    const int64_t rows = window->kernel[0] + window->stride[0];
    int64_t fit = NEAR_BYTES / (int64_t)sizeof(float) / (rows * window->out_width * window->stride[1]);

    fit = fit / TILE_LANES * TILE_LANES;
    fit = fit < MIN_CHANNELS ? MIN_CHANNELS : fit;
    fit = fit > DEPTHWISE_CHANNELS || streams(window) ? DEPTHWISE_CHANNELS : fit;
    depthwise->block = share(window->in, fit, depthwise->depth > TILE_LANES ? depthwise->depth : TILE_LANES);
    depthwise->step = window->out_width % 7 == 0 && window->out_width % DEPTHWISE_PIXELS != 0 ? 7 : DEPTHWISE_PIXELS;
    fit = NEAR_BYTES / (int64_t)sizeof(float) / (rows * window->stride[1] * depthwise->block);
    fit = streams(window) ? window->out_width : fit > depthwise->step ? fit : depthwise->step;
    depthwise->strip = share(window->out_width, fit, depthwise->step);
    depthwise->paired = pairs_rows(window);
    depthwise->slots = rows_of_step(window, depthwise->paired);
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

/* Do the tables have space for the rows of two output rows behind a producer? */
static bool pairs_produced(const kernel_conv_shape *window)
{
    const int64_t columns =
        (window->out_width - 1) * window->stride[1] + (window->kernel[1] - 1) * window->dilation[1] + 1;

    return pairs_rows(window) && rows_of_step(window, true) * columns <= TABLE_PIXELS;
}

/* Pixels in a ring: the rows of a step, and two tiles, because tiles are produced ahead of their use. */
static int64_t ring_places(const kernel_conv_shape *window)
{
    return rows_of_step(window, pairs_produced(window)) * window->width + 2 * TILE_ROWS;
}

/* Chooses the division of work with a deferred producer: channel blocks of a few panels of weights, and no more slices
 * than threads need, because each slice produces the first rows of its windows itself. Returns the estimated
 * nanoseconds. tile_ns: time to produce a tile. */
static double cut_fused(const kernel_conv_shape *shape, double tile_ns, double vector_ns, uint32_t threads,
                        int64_t *out_block, int64_t *out_parts)
{
    const double rows_ns = 0.4 * (double)(shape->out_width * shape->stride[1]); /* filling a table */
    const int64_t window_rows = (shape->kernel[0] - 1) * shape->dilation[0] + 1;
    double best = -1;

    for (int64_t most = TILE_WIDTH; most <= 4 * TILE_WIDTH; most += TILE_WIDTH) {
        const int64_t block = share(shape->in, most, TILE_WIDTH), blocks = (shape->in + block - 1) / block;
        const int64_t width = threads > 1 && block < shape->in ? block : (shape->in + blocks - 1) / blocks;
        const double lines = (double)((width + TILE_LANES - 1) / TILE_LANES);
        const double far = ring_places(shape) * block * (int64_t)sizeof(float) > RING_BYTES ? 1.25 : 1;

        for (int64_t parts = 1; parts <= (threads > 1 ? 4 * (int64_t)threads : 1) && parts <= shape->out_height;
             parts++) {
            const int64_t part = (shape->out_height + parts - 1) / parts, units = shape->images * parts * blocks;
            const int64_t rows_in = (part - 1) * shape->stride[0] + window_rows < shape->height
                                        ? (part - 1) * shape->stride[0] + window_rows
                                        : shape->height;
            const double tiles = (double)(rows_in * shape->width) / TILE_ROWS;
            const double ns = (tiles > 0.5 ? tiles : 0.5) * tile_ns * lines / 2 +
                              far * vector_ns * (double)(part * shape->out_width) * lines + (double)rows_in * rows_ns +
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

/* Rows to prefetch for an output row: prefetches of data in the near caches would only take time. */
static int64_t fetched_rows(const kernel_conv_shape *window, bool produced)
{
    const int64_t bytes = window->images * window->in * window->height * window->width * (int64_t)sizeof(float);

    return !produced && bytes > (cpu_has(CPU_AVX512) ? FETCHED_PAIRED_BYTES : FETCHED_BYTES) ? window->stride[0] : 0;
}

bool depthwise_supports_producer(const kernel_conv_shape *shape)
{
    const int64_t window_rows = (shape->kernel[0] - 1) * shape->dilation[0] + 1;
    const int64_t columns = (shape->out_width - 1) * shape->stride[1] + (shape->kernel[1] - 1) * shape->dilation[1] + 1;

    return shape->width <= TABLE_PIXELS && shape->out_width <= TABLE_PIXELS && window_rows * columns <= TABLE_PIXELS &&
           window_rows * shape->width <= TABLE_PIXELS;
}

/* Do vectors hold whole groups of this many channels, or groups whole vectors? */
static bool divides(int64_t depth)
{
    return DEPTHWISE_LANES % depth == 0 || depth == 2 * DEPTHWISE_LANES;
}

double depthwise_vector_ns(const kernel_conv_shape *window, const kernel_machine *machine)
{
    const int64_t depth = window->in / window->group;
    const double taps = (double)(window->kernel[0] * window->kernel[1] * depth) * window->share;
    const double pace = depth <= 1 ? PAIRED_PACE : divides(depth) ? PAIRED_GROUPS_PACE : 1;

    return kernel_vector_ns(machine, taps) * (cpu_has(CPU_AVX512) && pairs_rows(window) ? pace : 1);
}

double kernel_fused_depthwise_ns(const kernel_conv_shape *first, const kernel_conv_shape *depthwise,
                                 const kernel_machine *machine, double threads)
{
    int64_t block, parts;

    return cut_fused(depthwise, kernel_tile_ns(machine, (double)first->in), depthwise_vector_ns(depthwise, machine),
                     (uint32_t)threads, &block, &parts) +
           (threads > 1 ? machine->memory.team_ns : 0);
}

/* True if there are kernels, and their tables have space for the convolution's window. */
static bool window_fits(const cpu_state *state, const kernel_conv_shape *window)
{
    return state->tiles != NULL && state->sgemm != NULL && window->flat && window->group > 1 &&
           (window->kernel[0] - 1) * window->dilation[0] < TABLE_ROWS && window->kernel[0] <= DEPTHWISE_ROWS &&
           (window->kernel[1] - 1) * window->dilation[1] < TABLE_PIXELS / TABLE_ROWS;
}

bool depthwise_fits(const cpu_state *state, const kernel_conv_shape *window)
{
    return window_fits(state, window) && window->in == window->group && window->out == window->group;
}

/* The sums of a group are not divided into chains (sgemm.h), so that they must be short. */
bool depthwise_fits_groups(const cpu_state *state, const kernel_conv_shape *window)
{
    const int64_t depth = window->in / window->group;

    return window_fits(state, window) && window->in == window->out && depth > 1 && divides(depth) &&
           window->kernel[0] * window->kernel[1] * depth <= SGEMM_CHAIN;
}

/* Adds the producer's weights, ring and bias to the step's arguments; `own` holds their placements. */
static inlay_status read_producer(cpu_build *build, struct depthwise *depthwise, const deferred_producer *ahead,
                                  cpu_place *own, const cpu_place **places, uint32_t *io_count)
{
    struct producer *producer = &depthwise->producer;
    const int64_t block_floats = producer->places * depthwise->block * (int64_t)producer->workers;
    inlay_status status;
    tensor_layout packed;

    if (!tiles_panel_layout(&ahead->layer.weights, &packed))
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", build->op->name);
    INLAY_TRY(cpu_read_constant(build, build->compiled->ops[ahead->group->op].in[1], &ahead->layer.weights, &packed,
                                &own[0]));
    INLAY_TRY(cpu_new_floats(build, block_floats, &own[1]));
    producer->w = *io_count;
    places[(*io_count)++] = &own[0];
    producer->ring = *io_count;
    places[(*io_count)++] = &own[1];
    if (ahead->layer.bias_value != INLAY_NONE) {
        INLAY_TRY(cpu_read_floats(build, ahead->layer.bias_value, ahead->layer.window.out, &own[2]));
        producer->epilogue.bias = *io_count;
        places[(*io_count)++] = &own[2];
    }
done:
    return status;
}

/* Sets the division of work and the strides for a deferred producer. */
static void init_producer(const cpu_build *build, struct depthwise *depthwise, const deferred_producer *ahead)
{
    const double taps = (double)(depthwise->window.kernel[0] * depthwise->window.kernel[1]) * depthwise->window.share;
    struct producer *producer = &depthwise->producer;

    depthwise->window.flops += ahead->layer.window.flops;
    producer->depth = ahead->layer.window.in;
    producer->chain = sgemm_chain(producer->depth, build->state->strict);
    producer->in = depthwise->in;
    producer->workers = build->instance->threads > 0 ? build->instance->threads : 1;
    (void)tiles_unary_epilogue(ahead->group, &producer->epilogue);
    (void)cut_fused(&depthwise->window, TILE_NS + DEPTH_NS * (double)producer->depth, 0.5 + 0.15 * taps,
                    producer->workers, &depthwise->block, &depthwise->parts);
    depthwise->part = (depthwise->window.out_height + depthwise->parts - 1) / depthwise->parts;
    depthwise->parts = (depthwise->window.out_height + depthwise->part - 1) / depthwise->part;
    depthwise->strip = depthwise->window.out_width;
    depthwise->columns = (depthwise->strip - 1) * depthwise->window.stride[1] +
                         (depthwise->window.kernel[1] - 1) * depthwise->window.dilation[1] + 1;
    depthwise->paired = pairs_produced(&depthwise->window);
    depthwise->slots = rows_of_step(&depthwise->window, depthwise->paired);
    producer->places = ring_places(&depthwise->window);
}

/* The layout [channels / 16][window][depth][16] of weights [groups][depth][depth][window], one spatial axis or two. */
static bool weights_layout(const tensor_layout *weights, int64_t depth, tensor_layout *packed)
{
    /* by spatial axes and the channels of a group */
    static const char *const tags[2][5] = {
        { "Abcd16a", "ABdc8a2b", "ABdc4a4b", "ABdc2a8b", "aBdc16b" },
        { "Abcde16a", "ABdec8a2b", "ABdec4a4b", "ABdec2a8b", "aBdec16b" },
    };
    int power = 0;

    INLAY_CHECK(weights->rank == 4 || weights->rank == 5);
    while (power < 4 && 1 << power < depth)
        power++;
    INLAY_CHECK(depth == 1 << power || depth % DEPTHWISE_LANES == 0);
    return layout_blocks(packed, (uint32_t)weights->rank, weights->dims, tags[weights->rank == 5][power]);
}

inlay_status depthwise_emit(cpu_build *build, const kernel_layer *layer, const tile_epilogue *epilogue,
                            const cpu_place **places, uint32_t count)
{
    const tensor_layout *input = &places[ARG_X]->layout, *output = &places[ARG_Y]->layout;
    const deferred_producer *ahead = build->ahead[build->op->in[0]];
    const int64_t depth = layer->window.in / layer->window.group;
    struct depthwise *depthwise;
    cpu_place weights, own[3];
    inlay_status status;
    tensor_layout packed;

    if (!weights_layout(&layer->weights, depth, &packed))
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", build->op->name);
    status = cpu_read_constant(build, build->op->in[1], &layer->weights, &packed, &weights);
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
                                     .epilogue = *epilogue,
                                     .depth = depth,
                                     .reused = depthwise_reuses(layer->window.kernel[1], layer->window.stride[1],
                                                                layer->window.dilation[1], depth) };
    for (int64_t i = 0; i < depth && i < DEPTHWISE_LANES; i++)
        for (int64_t lane = 0; lane < DEPTHWISE_LANES; lane++)
            depthwise->spread[i][lane] = (int32_t)(lane / depth * depth + i);
    depthwise->in.pixel = tiles_pixel_step(input);
    depthwise->in.row = layer->window.width * depthwise->in.pixel;
    depthwise->in.image = layer->window.height * depthwise->in.row;
    cut(depthwise, build->instance->threads);
    depthwise->fetch = fetched_rows(&layer->window, ahead != NULL);
    places[ARG_W] = &weights;
    if (ahead != NULL) {
        init_producer(build, depthwise, ahead);
        status = read_producer(build, depthwise, ahead, own, places, &count);
        if (status != INLAY_OK) {
            free(depthwise);
            return status;
        }
        build->instance->buffers[ahead->layer.input.buffer].pending--;
    }
    return cpu_emit_native(build, &depthwise->native, places, count);
}
