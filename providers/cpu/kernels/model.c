/* Models of the time of convolution kernels, for the choice among them and for the prices of nodes
 * (compile/cost_conv.c). Their constants were fitted to 300 layers on a Zen 4, whose vectors of 512 bits take two
 * cycles; on other cores, multiply-adds and other instructions are scaled separately. With AVX2, a tile is six pixels
 * by 16 channels, which reads more for each multiplication (kernel_pace, blocks_pace). */
#include "cpu/convolution/tiles.h"
#include "cpu/kernels/table.h"
#include "cpu/matrix/terms.h"
#include "cpu/weights/terms_weights.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "simd/cpu.h"
#include <math.h>

#define TERMS_FLOPS 238.0        /* the products in whose times terms_ns() is stated */
#define FFT_FLOPS 250.0          /* ... and fft_find_cut() */
#define FFT_ADDITIONS 0.6        /* share of the time of an FFT that additions outside of multiply-adds take */
#define FITTED_COPIED_BYTES 92.0 /* per nanosecond in the shared cache of the machine of the constants */
#define STEP_NS 200.0            /* start and end of a step */
#define SPREAD_NS 1000.0         /* threads that share a step read data that other cores wrote */
#define BLOCK_START_NS 6.3       /* of a block of a GEMM */
#define TAP_ROW_NS 3.0           /* of a row of taps that is copied (im2col) */
#define UNFOLD_BYTES_PER_NS 32.0
#define BORDER_NS 0.05 /* of an element that is copied into an image with a border, ... */
#define BORDER_ROW_NS 43.0
#define SINGLE_NS 1.0 /* single pixels by planes: of a vector of results, ... */
#define SINGLE_TAP_NS 0.5
#define PLANE_NS 12.0            /* ... of a plane, ... */
#define APART_ROW_NS 6.0         /* ... and of a row that is copied */
#define GROUP_TAP_NS 3.0         /* of a tile of a group, for each tap, whose pixels are addressed anew */
#define DEPTHWISE_ROW_NS 12.6    /* by channels: of a row of 64 channels */
#define PANEL_TILE_NS 22.7       /* by rows: 64 pixels of 6 filters */
#define PIECE_NS 2.2             /* by rows: a piece of a row that is copied for a tap, ... */
#define ROW_COPY_BYTES_PER_NS 12 /* ... and the rows that are copied first */
#define ALIASED_BYTES 4096       /* pixels that are a multiple of this apart share a few sets of the nearest cache */
enum {
    TILE_ALONE = 400000,
    ALONE = 200000,
    GEMM_ALONE_NS = 4000,
    BORDER_GRAIN = 32768,
    GEMM_BLOCK = 160,
    GEMM_LEAST = 48
};

double kernel_pace(kernel_id kernel)
{
    if (cpu_has(CPU_AVX512))
        return 1;
    return kernel == KERNEL_GEMM ? 1.08 : kernel == KERNEL_TILES ? 1.03 : 1;
}

/* Blocks of few pixels have too few independent additions to hide their latency. With AVX2 a tile is cut into blocks of
 * six pixels by 16 channels, whose start-up counts where sums are short. */
static double blocks_pace(const kernel_conv_shape *window, double depth)
{
    const bool joined = window->kernel[0] * window->kernel[1] == 1 && window->stride[0] == 1 && window->stride[1] == 1;
    const bool wide = cpu_has(CPU_AVX512);
    const int64_t rows = joined || window->out_width > TILE_ROWS ? TILE_ROWS : window->out_width;
    const double each = wide ? (double)rows : (double)rows / (double)((rows + 5) / 6), least = wide ? 4 : 5;

    return (wide ? 1 : 1 + 4 / depth) * (each < least ? least / each : 1);
}

static double parts(double count, double size)
{
    return ceil(count / size);
}

static double pixels_of(const kernel_conv_shape *window)
{
    return (double)(window->images * window->out_height * window->out_width);
}

static double taps_of(const kernel_conv_shape *window)
{
    return (double)(window->kernel[0] * window->kernel[1]);
}

static double bytes_in(const kernel_conv_shape *window)
{
    return 4.0 * (double)(window->images * window->in * window->height * window->width);
}

static double bytes_out(const kernel_conv_shape *window)
{
    return 4.0 * (double)window->out * pixels_of(window);
}

/* The average number of threads that work at a time, if `threads` share `units` units of the same size. */
static double sharers(double units, double threads)
{
    return units < 2 || threads <= 1 ? 1 : units / ceil(units / threads);
}

/* Time of a step whose work on one thread takes `ns`, if `sharing` threads share it. */
static double shared_ns(double ns, double sharing, const kernel_machine *machine)
{
    return STEP_NS + ns / sharing + (sharing > 1 ? machine->memory.team_ns + SPREAD_NS : 0);
}

/* Time by which the shared cache and memory delay a step that reads and writes images of several megabytes. The
 * constants of the kernels contain the time of the shared cache of the machine on which they were fitted; only what a
 * slower one takes in addition counts here. */
static double far_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads)
{
    const price_memory *memory = &machine->memory;
    const double in = bytes_in(window), out = bytes_out(window), over = fmax(in + out - memory->near_size, 0);
    const double slower = fmax(1 / memory->copied - 1 / FITTED_COPIED_BYTES, 0);

    return slower * over * (1 - price_stream_share(memory, in + out, threads, 1)) / threads +
           price_far_stream_ns(memory, in, out, threads);
}

/* Time of the panels in units of full vectors. The last panel may have 8, 16 or 24 channels. The kernel for it
 * (tiles_narrow.c) multiplies two elements at a time, if their number is even and not too large. */
static double tile_vectors(const kernel_conv_shape *window, double filters, double depth)
{
    static const double narrow[] = { 0, 0.7, 1, 1.55, 2 };
    const int64_t all = (int64_t)filters, last = all % TILE_WIDTH;
    const bool even =
        (window->in * (window->dilation[1] == 1 ? window->kernel[1] : 1)) % 2 == 0 && depth <= 2 * SGEMM_CHAIN;

    return even ? (double)(all / TILE_WIDTH * 2) + narrow[(last + 7) / 8] : parts(filters, TILE_LANES);
}

/* Time to copy the image into one with a border. */
static double border_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads)
{
    const double height = (double)(window->height + window->begin[0] + window->end[0]),
                 width = (double)(window->width + window->begin[1] + window->end[1]);
    const double rows = (double)window->images * height;
    const double sharing = price_loop_threads(rows, floor(BORDER_GRAIN / (width * (double)window->in)) + 1, threads);

    return shared_ns((BORDER_NS * bytes_in(window) / 4 + BORDER_ROW_NS * rows) * machine->other, sharing, machine);
}

double kernel_tiles_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads)
{
    const bool joined = !window->padded && window->stride[0] == 1 && window->stride[1] == 1;
    const double depth = (double)window->in * taps_of(window), panels = parts((double)window->out, TILE_WIDTH);
    const double pixels = pixels_of(window), row = joined ? pixels : (double)window->out_width,
                 row_tiles = parts(row, TILE_ROWS), tiles = row > 0 ? pixels / row * row_tiles : 0;
    const double pixel_bytes = (double)(window->in * window->stride[1]) * sizeof(float),
                 panel_bytes = depth * TILE_WIDTH * sizeof(float);
    double ns, sharing = 1;

    ns = kernel_product_ns(machine, pixels, tile_vectors(window, (double)window->out, depth), depth) *
             kernel_pace(KERNEL_TILES) * blocks_pace(window, depth) +
         KERNEL_TILE_START_NS * machine->other * tiles * panels;
    if (fmod(pixel_bytes, ALIASED_BYTES) == 0 && tiles > 4)
        ns *= 1.5;
    if (panel_bytes > machine->memory.near_size / 2) /* each tile reads the panel again from the shared cache */
        ns = fmax(ns, tiles * panels * panel_bytes / machine->memory.shared);
    if (threads > 1 && window->flops > TILE_ALONE) {
        tiles_cut cut;

        tiles_find_cut((int64_t)tiles, (int64_t)(parts(row, row_tiles) * pixel_bytes), panels, (int64_t)depth,
                       (uint32_t)threads, &cut);
        sharing = tiles * panels /
                  (ceil(parts(tiles, (double)cut.block) * parts(panels, (double)cut.chunk) / threads) *
                   (double)cut.block * (double)cut.chunk);
        sharing = fmin(fmax(sharing, 1), threads);
    }
    ns = shared_ns(ns, sharing, machine) + far_ns(window, machine, sharing);
    return window->padded ? ns + border_ns(window, machine, threads) : ns;
}

/* Threads share blocks of windows, or if there are few or the weights are large, each part of a block. */
static double winograd_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads,
                          int64_t points)
{
    const bool large = points == 6;
    const double size = (double)points - 2, squared = (double)(points * points), in = (double)window->in;
    const double windows =
        (double)window->images * parts((double)window->out_height, size) * parts((double)window->out_width, size);
    const double lines = parts((double)window->out, TILE_LANES), lines_in = parts(in, TILE_LANES),
                 panels = parts((double)window->out, TILE_WIDTH);
    const double weights = 4 * squared * in * panels * TILE_WIDTH,
                 window_bytes = 4 * squared * (lines_in * TILE_LANES + panels * TILE_WIDTH);
    const double most = fmax(TILE_ROWS, floor((weights > KERNEL_NEAR_BYTES ? 4 << 20 : 640 << 10) / window_bytes));
    const double blocks = parts(windows, most);
    const double transforms = windows * (large ? 346 + 81 * lines_in + 93 * lines : 151 + 16 * lines_in + 31 * lines) +
                              (large ? 10.8 : 1.0) * squared * panels * parts(windows, TILE_ROWS);
    /* Weights that do not fit into the near cache are read again for each block, which then is larger than the cache,
     * too. */
    const double block_bytes = fmin(windows, most) * window_bytes,
                 again = (blocks - 1) * weights + (block_bytes > KERNEL_NEAR_BYTES ? 2 * windows * window_bytes : 0);
    const double far = weights > KERNEL_NEAR_BYTES ? again / machine->memory.shared : 0;
    const double ns =
        1.02 * kernel_product_ns(machine, windows, lines, squared * in) + transforms * machine->other + far;

    if (threads <= 1 || (weights <= KERNEL_NEAR_BYTES && blocks >= threads))
        return shared_ns(ns, threads, machine) + far_ns(window, machine, threads);
    return shared_ns(ns, sharers(windows / 2, threads), machine) +
           (3 * blocks - 1) * (machine->memory.team_ns + SPREAD_NS) + far_ns(window, machine, threads);
}

double kernel_winograd_4_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads)
{
    return winograd_ns(window, machine, threads, 6);
}

double kernel_winograd_2_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads)
{
    return winograd_ns(window, machine, threads, 4);
}

double kernel_depthwise_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads)
{
    const double pixels = pixels_of(window);
    const double ns = pixels * parts((double)window->in, TILE_LANES) * depthwise_vector_ns(window, machine) +
                      DEPTHWISE_ROW_NS * machine->other * (double)(window->images * window->out_height) *
                          parts((double)window->in, 64);
    const double slices = fmin((double)window->out_height, 2 * threads);
    const double sharing = window->flops < ALONE ? 1 : sharers((double)window->images * slices, threads);

    return shared_ns(ns, sharing, machine) + far_ns(window, machine, sharing);
}

/* The kernel computes vectors of neighbouring pixels of a row. Convolutions of 3x3, of 5x5 and of many taps have
 * specialized loops; others read a vector for each tap. */
static double tap_ns(const kernel_conv_shape *window)
{
    const bool own = window->kernel[0] == window->kernel[1] && (window->kernel[0] == 3 || window->kernel[0] == 5) &&
                     window->stride[0] <= 2 && window->dilation[0] == 1;

    if (planes_is_long(window))
        return window->stride[0] == 1 && window->dilation[0] == 1 && window->out_height >= 4 ? 0.27 : 0.4;
    return !own ? 0.79 : window->stride[1] == 1 ? 0.223 : 0.517;
}

/* Single pixels, which are read in place. */
static double single_pixels_ns(const kernel_conv_shape *window)
{
    const bool apart = window->stride[0] > 1 || window->stride[1] > 1;
    const double planes = (double)(window->images * window->out), rows = planes * (double)window->out_height;
    const double vectors = rows * (double)window->out_width / TILE_LANES;

    return vectors * (SINGLE_NS + SINGLE_TAP_NS * (double)(window->in / window->group)) + PLANE_NS * planes +
           (apart ? APART_ROW_NS * rows : 0);
}

double kernel_planes_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads)
{
    enum { UNIT = 32768 * 4 };
    const double planes = (double)(window->images * window->out), rows = planes * (double)window->out_height;
    const double vectors = rows * parts((double)window->out_width, TILE_LANES);
    const double ns = planes_is_single(window)
                          ? single_pixels_ns(window)
                          : vectors * (1.12 + tap_ns(window) * taps_of(window)) +
                                1.3 * rows * (double)window->kernel[0] + 40 * planes + 0.021 * bytes_in(window);
    const double unit = planes > 0 ? window->flops / planes : 0, grain = unit < UNIT ? floor(UNIT / (unit + 1)) + 1 : 1;
    const double sharing = price_loop_threads(planes, grain, threads);

    return shared_ns(ns * machine->other, sharing, machine) + far_ns(window, machine, sharing);
}

double kernel_fft_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads)
{
    fft_cut cut;
    const double ns =
        fft_find_cut(window, &cut) * FFT_FLOPS / machine->flops * (1 - FFT_ADDITIONS + FFT_ADDITIONS / machine->adders);
    const double slices = (double)(window->images * cut.slices);
    /* groups of one input channel do not share a slice */
    const double sharing = cut.alone ? sharers(slices * (double)window->group, threads) : threads;
    const double loops = cut.alone ? 0 : 3 * slices * (double)window->group - 1;

    return shared_ns(ns, sharing, machine) + (threads > 1 ? loops * (machine->memory.team_ns + SPREAD_NS) : 0);
}

/* The threads that share a convolution by rows (conv_rows.c): one thread for little work, and units of enough
 * operations. Few units divide their filters, too. */
static double row_sharers(const kernel_conv_shape *window, double threads)
{
    enum { UNIT_FLOPS = 300000, MOST_UNITS = 8, SLICE = 48 };
    const double groups = (double)(window->images * window->group),
                 filters = (double)window->out / (double)window->group;
    double units = groups * fmin(floor(window->flops / groups / UNIT_FLOPS) + 1, MOST_UNITS), slices = 1;

    if (threads <= 1 || window->flops < ALONE)
        return 1;
    while (units * slices < threads && filters / (2 * slices) >= SLICE)
        slices *= 2;
    return sharers(units * slices, threads);
}

/* A GEMM whose second operand is unfolded (im2col) from rows of the image, in panels of 64 columns. */
double kernel_rows_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads)
{
    const double groups = (double)(window->images * window->group),
                 filters = (double)window->out / (double)window->group;
    const double places = (double)(window->out_height * window->out_width),
                 depth = (double)(window->in / window->group) * taps_of(window);
    const double sharing = row_sharers(window, threads);
    double ns =
        kernel_product_ns(machine, groups * filters, parts(places, TILE_LANES), depth) * kernel_pace(KERNEL_GEMM) +
        PANEL_TILE_NS * machine->other * groups * parts(places, 64) * parts(filters, 6);

    if (!conv_rows_reads_in_place(window)) {
        const double pieces = parts((double)window->out_width, 64) + (window->out_width % 64 != 0);

        ns += machine->other * (PIECE_NS * groups * (double)window->out_height * depth * pieces +
                                bytes_in(window) * fmax((double)window->kernel[0], 1) / (double)window->stride[0] /
                                    ROW_COPY_BYTES_PER_NS);
    }
    return shared_ns(ns, sharing, machine) + far_ns(window, machine, sharing);
}

/* Time to copy receptive fields (im2col), of `taps` taps that are inside the image on average. */
static double unfold_ns(const kernel_conv_shape *window, double taps)
{
    const double pixels = pixels_of(window);

    if (!window->padded && taps <= 1 && window->stride[0] <= 1 && window->stride[1] <= 1)
        return 0;
    return pixels * (window->dilation[1] == 1 ? (double)window->kernel[0] : taps) * TAP_ROW_NS +
           4 * pixels * (double)window->in * taps / UNFOLD_BYTES_PER_NS;
}

/* The threads that share a GEMM of pixels (tiles_gemm.c): blocks of pixels, and if there are few, chunks of panels. */
static double gemm_sharers(const kernel_conv_shape *window, double taps, double threads)
{
    const double pixels = pixels_of(window), filters = (double)window->out,
                 panels = parts(filters, filters <= 16   ? 16
                                         : filters <= 32 ? 32
                                                         : 64);
    double blocks = parts(pixels, GEMM_BLOCK), chunks, chunk;

    if (threads <= 1 || 2 * pixels * filters * (double)window->in * taps / 200 < GEMM_ALONE_NS)
        return 1;
    if (pixels / threads >= GEMM_LEAST)
        blocks = parts(blocks, threads) * threads;
    if (unfold_ns(window, taps) <= 0)
        return sharers(blocks * panels, threads);
    chunks = fmin(blocks >= threads ? 1 : threads, panels);
    chunk = parts(panels, chunks);
    return fmax(1, blocks * panels / (ceil(blocks * parts(panels, chunk) / threads) * chunk));
}

/* The kernel computes blocks of 6 pixels by 64 channels, or of the same size; receptive fields are copied (im2col). */
double kernel_gemm_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads)
{
    static const int rows[] = { 6, 12, 12, 8, 6 }; /* pixels of a block, by number of vectors of channels */
    int64_t first;
    const kernel_conv_shape inner = kernel_trim_conv(window, &first);
    const double pixels = pixels_of(&inner), lines = parts((double)inner.out, TILE_LANES);
    const double taps = taps_of(&inner) * (inner.padded ? tiles_gemm_share(&inner) : 1);
    const double blocks = parts(pixels, rows[lines < 4 ? (int)lines : 0]);
    const double sharing = gemm_sharers(&inner, taps, threads);
    const double ns =
        1.06 * kernel_product_ns(machine, pixels, lines, (double)inner.in * taps) * kernel_pace(KERNEL_GEMM) +
        machine->other * (BLOCK_START_NS * blocks * parts(lines, 4) + unfold_ns(&inner, taps));

    return shared_ns(ns, sharing, machine) + far_ns(window, machine, sharing);
}

/* With all taps, also those outside the image. */
double kernel_gemm_terms_ns(const cpu_build *build, const kernel_layer *layer, const kernel_machine *machine,
                            double threads)
{
    const kernel_conv_shape *window = &layer->window;
    const int64_t taps = window->kernel[0] * window->kernel[1], depth = window->in * taps;
    const int terms = terms_of_constant(build, build->op->in[1]);
    const double bytes = terms_bytes(depth, terms, build->state->strict) * (double)(depth * window->out);
    const double ns = terms_ns((int64_t)pixels_of(window), window->out, depth, terms, build->state->strict,
                               cpu_tile_pace(cpu_measured_speed(build->state->host))) *
                      TERMS_FLOPS / machine->flops;

    return fmax(shared_ns(ns + unfold_ns(window, (double)taps) * machine->other, threads, machine),
                kernel_weights_ns(machine, bytes, build->compiled->graph_weights, threads));
}

/* Tiles of pixels by the filters of a group; threads divide the rows. */
double kernel_groups_ns(const kernel_conv_shape *window, const kernel_machine *machine, double threads)
{
    const double groups = (double)window->group, filters = (double)window->out / groups;
    const double depth = (double)(window->in / window->group) * taps_of(window);
    const double rows = window->flat ? (double)(window->images * window->out_height) : threads;
    double ns, units = groups * rows, sharing = 1;

    if (!window->flat)
        ns = window->flops / machine->flops * 1.25;
    else if (window->in == window->out && depth <= SGEMM_CHAIN) /* the kernel of depthwise convolutions */
        ns = pixels_of(window) * parts((double)window->in, TILE_LANES) * depthwise_vector_ns(window, machine);
    else
        ns = kernel_product_ns(machine, pixels_of(window) * groups, tile_vectors(window, filters, 2 * SGEMM_CHAIN + 1),
                               depth) +
             (KERNEL_TILE_START_NS + GROUP_TAP_NS * taps_of(window)) * machine->other * groups * rows *
                 parts((double)window->out_width, TILE_ROWS) * parts(filters, TILE_WIDTH);
    if (threads > 1 && window->flops >= ALONE)
        sharing = price_loop_threads(units, floor(ALONE / 4.0 / (window->flops / units)) + 1, threads);
    ns = shared_ns(ns, sharing, machine);
    return window->flat && window->padded ? ns + border_ns(window, machine, threads) : ns;
}
