/* Models of the time of convolution kernels. The rates were measured on a core with AVX-512; only their ratios matter
 * for the choice. With AVX2 the ratios differ: with half the registers, a tile is six pixels by 16 channels, which
 * reads more for each multiplication (kernel_pace, blocks_pace). */
#include "simd/cpu.h"
#include "cpu/kernels/table.h"
#include "cpu/convolution/tiles.h"
#include "cpu/matrix/terms.h"
#include "cpu/weights/terms_weights.h"
#include <math.h>

#define NEAR_BYTES 1000000.0  /* weights that stay in the cache next to the core */
#define FAR_BYTES_PER_NS 24.0 /* larger weights, if computation hides none of their transfer */
#define BORDER_BYTES_PER_NS 40.0
#define UNFOLD_BYTES_PER_NS 100.0
#define LOOP_NS 1000.0     /* start and end of a parallel loop */
#define ALIASED_BYTES 4096 /* pixels that are a multiple of this apart share a few sets of the nearest cache */

double kernel_pace(kernel_id kernel)
{
    if (cpu_has(CPU_AVX512))
        return 1;
    return kernel == KERNEL_GEMM ? 1.3 : kernel == KERNEL_TILES ? 1.2 : 1;
}

/* With AVX2 a tile is cut into blocks of six pixels by 16 channels. Their start-up counts where sums are short, and
 * blocks of few pixels have too few independent additions to hide their latency. */
static double blocks_pace(const kernel_conv_shape *window, int64_t depth)
{
    const bool joined = window->kernel[0] * window->kernel[1] == 1 && window->stride[0] == 1 && window->stride[1] == 1;
    const int64_t rows = joined || window->out_width > TILE_ROWS ? TILE_ROWS : window->out_width;
    const double each = (double)rows / (double)((rows + 5) / 6);

    if (cpu_has(CPU_AVX512))
        return 1;
    return (1 + 36 / (double)depth) * (each < 5 ? 5 / each : 1);
}

/* Number of vectors of output channels. */
static int64_t vectors_of(const kernel_conv_shape *window)
{
    return (window->out + TILE_LANES - 1) / TILE_LANES;
}

static int64_t panels_of(const kernel_conv_shape *window)
{
    return (window->out + TILE_WIDTH - 1) / TILE_WIDTH;
}

/* Time of the panels in units of full vectors. The last panel may have 8, 16 or 24 channels. The kernel for it
 * (tiles_narrow.c) multiplies two elements at a time, if their number is even and not too large. */
static double tile_vectors(const kernel_conv_shape *window, int64_t depth)
{
    static const double narrow[] = { 0, 0.7, 1, 1.55, 2 };
    const int64_t last = window->out % TILE_WIDTH;
    const bool even =
        (window->in * (window->dilation[1] == 1 ? window->kernel[1] : 1)) % 2 == 0 && depth <= 2 * SGEMM_CHAIN;

    return even ? (double)(window->out / TILE_WIDTH * 2) + narrow[(last + 7) / 8] : (double)vectors_of(window);
}

double kernel_tiles_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const kernel_conv_shape *window = &layer->window;
    int64_t pixels = window->images * window->out_height * window->out_width,
            tiles = (pixels + TILE_ROWS - 1) / TILE_ROWS;
    int64_t depth = window->in * window->kernel[0] * window->kernel[1],
            pixel_bytes = window->in * window->stride[1] * (int64_t)sizeof(float);
    double weights = (double)(depth * panels_of(window) * TILE_WIDTH) * sizeof(float), ns;
    tiles_cut cut;

    (void)group;
    tiles_find_cut(tiles, TILE_ROWS * pixel_bytes, (double)panels_of(window), depth, KERNEL_THREADS, &cut);
    ns = cut.ns * tile_vectors(window, depth) / (double)(2 * panels_of(window));
    /* the last tile may be partial */
    ns *= pixels > tiles * TILE_ROWS / 2 ? (double)pixels / (double)(tiles * TILE_ROWS) : 0.5;
    ns *= kernel_pace(KERNEL_TILES) * blocks_pace(window, depth);
    if (pixel_bytes % ALIASED_BYTES == 0 && tiles > 4)
        ns *= 1.5;
    if (weights > NEAR_BYTES && ns < weights / FAR_BYTES_PER_NS / KERNEL_THREADS)
        ns = weights / FAR_BYTES_PER_NS / KERNEL_THREADS;
    if (window->padded)
        ns += 4.0 * (double)cpu_count(build, build->op->in[0]) / BORDER_BYTES_PER_NS / KERNEL_THREADS + LOOP_NS;
    return ns + LOOP_NS;
}

double kernel_winograd_ns(const kernel_layer *layer, int64_t points)
{
    /* nanoseconds for each input channel: for a panel of weights from memory, and for a vector of results */
    const double far = 3.6, row = 0.135;
    const kernel_conv_shape *window = &layer->window;
    int64_t size = points - 2, squared = points * points;
    double windows =
        (double)(window->images * ((window->out_height + size - 1) / size) * ((window->out_width + size - 1) / size));
    double lines = (double)vectors_of(window), panels = (double)panels_of(window), products, least;
    double weights = (double)(squared * window->in) * panels * TILE_WIDTH * sizeof(float);
    double lines_in = (double)((window->in + TILE_LANES - 1) / TILE_LANES);

    products = windows * row * lines + (weights > NEAR_BYTES ? 0.7 * panels : 0);
    least = panels * (weights > NEAR_BYTES ? far : far / 3);
    products = products > least ? products : least;
    return ((double)(squared * window->in) * products + windows * (lines_in + lines) * (points == 6 ? 55 : 19)) /
               KERNEL_THREADS +
           3 * LOOP_NS;
}

double kernel_depthwise_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const kernel_conv_shape *window = &layer->window;
    double taps = (double)(window->kernel[0] * window->kernel[1]) * window->share;
    double vectors = (double)(window->images * window->out_height * window->out_width) * (double)vectors_of(window);
    double bytes = 4.0 * (double)(cpu_count(build, build->op->in[0]) + cpu_count(build, build->op->out[0]));

    (void)group;
    return (vectors * (0.5 + 0.15 * taps) + bytes / 130) / KERNEL_THREADS + LOOP_NS;
}

/* The kernel computes vectors of neighbouring pixels of a row. Convolutions of 3x3, of 5x5 and of many taps have
 * specialized loops; others read a vector for each tap. */
static double tap_ns(const kernel_conv_shape *window)
{
    if (planes_is_long(window))
        return window->stride[0] == 1 && window->dilation[0] == 1 && window->out_height >= 4 ? 0.13 : 0.2;
    return window->kernel[0] == window->kernel[1] && (window->kernel[0] == 3 || window->kernel[0] == 5) &&
                   window->stride[0] <= 2 && window->dilation[0] == 1
               ? 0.17
               : 0.36;
}

double kernel_planes_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const kernel_conv_shape *window = &layer->window;
    double taps = (double)(window->kernel[0] * window->kernel[1]),
           copied = (double)cpu_count(build, build->op->in[0]) / TILE_LANES;
    double planes = (double)(window->images * window->in), rows = planes * (double)window->out_height,
           vectors = rows * (double)((window->out_width + TILE_LANES - 1) / TILE_LANES),
           ns = vectors * (1 + tap_ns(window) * taps) + copied + 6 * rows * (double)window->stride[0] + 30 * planes;

    if (build->compiled->values[group->out].uses > 0) /* most consumers prefer channels-last */
        ns += KERNEL_THREADS * kernel_reorder_ns(4.0 * (double)cpu_count(build, group->out));
    return ns / KERNEL_THREADS + LOOP_NS;
}

double kernel_fft_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    fft_cut cut;
    double ns = fft_find_cut(&layer->window, &cut);

    if (build->compiled->values[group->out].uses > 0) /* most consumers prefer channels-last */
        ns += KERNEL_THREADS * kernel_reorder_ns(4.0 * (double)cpu_count(build, group->out));
    return ns / KERNEL_THREADS + (cut.alone ? 1 : 3 * (double)(layer->window.images * cut.slices)) * LOOP_NS;
}

/* A GEMM whose second operand is unfolded (im2col) from rows of the image, in panels of 64 columns. */
double kernel_rows_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const double rate = 225, piece = 3;
    const kernel_conv_shape *window = &layer->window;
    const int64_t out = window->out / window->group;
    double depth = (double)(window->in / window->group * window->kernel[0] * window->kernel[1]),
           whole = ceil((double)out / 6) * 6;
    double columns = (double)(window->images * window->group * window->out_height * window->out_width);
    double lines = ceil((double)window->out_width / SGEMM_WIDTH) + (window->out_width % SGEMM_WIDTH != 0);
    double pieces = (double)(window->images * window->group * window->out_height) * depth * lines;
    double ns = 2 * whole * columns * depth / rate * kernel_pace(KERNEL_GEMM);

    (void)group;
    if (!conv_rows_reads_in_place(window))
        ns += pieces * piece + columns * depth * sizeof(float) / UNFOLD_BYTES_PER_NS;
    if (window->padded || window->stride[1] > 1)
        ns += 4.0 * (double)cpu_count(build, build->op->in[0]) * (double)window->kernel[0] / BORDER_BYTES_PER_NS;
    return ns / KERNEL_THREADS + LOOP_NS;
}

/* True if the threads that produced the input divided channels, not pixels (lower_depthwise.c). Then each pixel is
 * spread over the caches of several cores, and a consumer of few pixels at a time waits for them. */
static bool input_is_spread(const cpu_build *build)
{
    for (uint32_t last = 0; last < build->compiled->op_count; last++) {
        const cpu_group *group = &build->groups[last];
        const cpu_op *maker = group->op == INLAY_NONE ? NULL : &build->compiled->ops[group->op];

        if (maker != NULL && group->out == build->op->in[0])
            return maker->in_count > 0 && maker->in[0] != INLAY_NONE && build->ahead[maker->in[0]] != NULL;
    }
    return false;
}

/* Time to copy receptive fields (im2col), of `taps` taps that are inside the image on average. */
static double unfold_ns(const kernel_conv_shape *window, double taps)
{
    const double piece = 2.5, pixels = (double)(window->images * window->out_height * window->out_width);

    if (!window->padded && taps <= 1 && window->stride[0] <= 1 && window->stride[1] <= 1)
        return 0;
    return pixels * (window->dilation[1] == 1 ? (double)window->kernel[0] : taps) * piece +
           pixels * (double)window->in * taps * sizeof(float) / UNFOLD_BYTES_PER_NS;
}

/* The kernel computes blocks of 6 pixels by 64 channels, or of the same size; receptive fields are copied (im2col). */
double kernel_gemm_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    static const int rows[] = { 6, 12, 12, 8, 6 }; /* pixels of a block, by number of vectors of channels */
    /* hidden: share of the weights' transfer from memory that computation hides */
    const double rate = 238, narrow = 225, block = 60, hidden = 0.8;
    int64_t first;
    const kernel_conv_shape inner = kernel_trim_conv(&layer->window, &first), *window = &inner;
    double pixels = (double)(window->images * window->out_height * window->out_width),
           lines = (double)vectors_of(window);
    double taps = (double)(window->kernel[0] * window->kernel[1]) * (window->padded ? tiles_gemm_share(window) : 1);
    double depth = (double)window->in * taps;
    double weights = depth * lines * TILE_LANES * sizeof(float), far = weights / FAR_BYTES_PER_NS;
    double whole = rows[lines < 4 ? (int)lines : 0], blocks = ceil(pixels / whole);
    double work = 2 * whole * depth * lines * TILE_LANES / (lines > 2 ? rate : narrow) * kernel_pace(KERNEL_GEMM);
    double ns = blocks * (work + ceil(lines / 4) * block);

    (void)group;
    if (weights > NEAR_BYTES)
        ns = ns < far ? far : ns + (1 - hidden) * far;
    ns += unfold_ns(window, taps);
    return ns * (input_is_spread(build) ? 1.35 : 1) / KERNEL_THREADS + LOOP_NS;
}

/* With all taps, also those outside the image. */
double kernel_gemm_terms_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const kernel_conv_shape *window = &layer->window;
    const int64_t pixels = window->images * window->out_height * window->out_width,
                  taps = window->kernel[0] * window->kernel[1], depth = window->in * taps;
    const int terms = terms_of_constant(build, build->op->in[1]);
    const double bytes = terms_bytes(depth, terms, build->state->strict) * (double)(depth * window->out),
                 far = bytes > NEAR_BYTES ? bytes / FAR_BYTES_PER_NS : 0;
    double ns = terms_ns(pixels, window->out, depth, terms, build->state->strict,
                         cpu_tile_pace(cpu_measured_speed(build->state->host)));

    (void)group;
    ns = (ns < far ? far : ns) + unfold_ns(window, (double)taps);
    return ns * (input_is_spread(build) ? 1.35 : 1) / KERNEL_THREADS + LOOP_NS;
}

bool cpu_winograd_fits(const cpu_op *op, int64_t in, int64_t out)
{
    return op->row->family->kind == CPU_FAMILY_CONV && op->window.spatial == 2 && op->window.group == 1 &&
           op->window.kernel[0] == 3 && op->window.kernel[1] == 3 && op->window.strides[0] == 1 &&
           op->window.strides[1] == 1 && op->window.dilations[0] == 1 && op->window.dilations[1] == 1 && in >= 16 &&
           out > 16;
}

double cpu_winograd_gain(const cpu_op *op, int64_t in, int64_t out, int64_t height, int64_t width)
{
    int64_t side = height < width ? height : width;

    if (!cpu_winograd_fits(op, in, out))
        return 0;
    if (side < 12 && in >= 512 && out >= 512)
        return 1.15;
    if (side < 12) /* blocks of 4 by 4 pixels */
        return side < 7 || in < 64 || out < 64 ? 0 : side == 8 || side == 10 ? 1.3 : 1.1;
    if (side < 20)
        return in >= 512 ? 1.5 : in >= 256 ? 1.36 : in >= 128 ? 1.25 : 0;
    if (in < 64 || out < 64)
        return 1.25;
    if (side < 40)
        return in >= 256 ? 2.0 : 1.6;
    return in >= 128 ? 2.2 : 1.85;
}

/* With a reorder of the result into its slice of a concatenation. */
double kernel_groups_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const double start = 2250, rate = 180;

    return start + layer->window.flops / rate / KERNEL_THREADS +
           (layer->window.in_concat ? kernel_reorder_ns(4.0 * (double)cpu_count(build, group->out)) / 2 : 0);
}
