/* What the kernels of a convolution are expected to take. Rates are those of a core with AVX-512, as measured; what
 * decides is how they compare. With AVX2 they compare otherwise: with half the registers a block of ours is six pixels
 * by 16 channels, which reads more for each multiplication than oneDNN's kernels do (kernel_pace, blocks_pace). */
#include "simd/cpu.h"
#include "choice/kernels.h"
#include "convolution/tiles.h"
#include <math.h>

#define REORDER_BYTES_PER_NS 30.0
#define NEAR_BYTES 1000000.0  /* weights that stay next to the core */
#define FAR_BYTES_PER_NS 24.0 /* others, where the work on them hides nothing of it */
#define BORDER_BYTES_PER_NS 40.0
#define UNFOLD_BYTES_PER_NS 100.0
#define LOOP_NS 1000.0     /* threads are started and waited for */
#define ALIASED_BYTES 4096 /* pixels that are so far apart, or a multiple, share a few sets of the nearest cache */

double kernel_pace(kernel_id kernel)
{
    if (cpu_has(CPU_AVX512))
        return 1;
    return kernel == KERNEL_GEMM ? 1.3 : kernel == KERNEL_TILES ? 1.2 : 1;
}

/* With AVX2 a tile is cut into blocks of six pixels by 16 channels: what begins and ends them counts where sums are
 * short, and blocks of few pixels wait for their own sums. */
static double blocks_pace(const kernel_conv_shape *window, int64_t depth)
{
    const bool joined = window->kernel[0] * window->kernel[1] == 1 && window->stride[0] == 1 && window->stride[1] == 1;
    const int64_t rows = joined || window->out_width > TILE_ROWS ? TILE_ROWS : window->out_width;
    const double each = (double)rows / (double)((rows + 5) / 6);

    if (cpu_has(CPU_AVX512))
        return 1;
    return (1 + 36 / (double)depth) * (each < 5 ? 5 / each : 1);
}

static double reorder_ns(double bytes)
{
    return 2.0 * bytes / REORDER_BYTES_PER_NS / KERNEL_THREADS;
}

/* Channels last to rows or back: memory is slower than the caches. */
static double turn_ns(double bytes)
{
    return reorder_ns(bytes) * (bytes > NEAR_BYTES ? 2.5 : 1);
}

double kernel_turns_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer, kernel_id kernel)
{
    const bool by_rows = !memory_desc_is_image(&layer->input.md) && memory_desc_is_plain(&layer->input.md);
    double ns = 0;

    if (layer->product || kernel == KERNEL_PLANES || kernel == KERNEL_ROWS)
        return 0;
    if (by_rows)
        ns += turn_ns((double)memory_desc_bytes(&layer->input.md));
    if (by_rows && build->compiled->values[group->out].uses == 0) /* whose readers are others' */
        ns += turn_ns(4.0 * (double)cpu_count(build, group->out));
    return ns;
}

/* Vectors of output channels. */
static int64_t lines_of(const kernel_conv_shape *window)
{
    return (window->out + TILE_LANES - 1) / TILE_LANES;
}

static int64_t panels_of(const kernel_conv_shape *window)
{
    return (window->out + TILE_WIDTH - 1) / TILE_WIDTH;
}

/* What the panels of tiles take, in vectors of channels that are all used: the last may be of 8, 16 or 24, of which two
 * elements at a time are multiplied where there is an even number of them, and not too many. */
static double tile_lines(const kernel_conv_shape *window, int64_t depth)
{
    static const double narrow[] = { 0, 0.7, 1, 1.55, 2 };
    const int64_t last = window->out % TILE_WIDTH;
    const bool even =
        (window->in * (window->dilation[1] == 1 ? window->kernel[1] : 1)) % 2 == 0 && depth <= 2 * SGEMM_CHAIN;

    return even ? (double)(window->out / TILE_WIDTH * 2) + narrow[(last + 7) / 8] : (double)lines_of(window);
}

double kernel_gates_ns(const cpu_build *build, const cpu_group *group, double vector_ns)
{
    double gates = 0;

    for (uint32_t post_index = 0; post_index < group->post_count; post_index++) {
        const cpu_post *post = &group->posts[post_index];

        gates += post->kind == CPU_POST_ELTWISE &&
                 (post->eltwise.alg == LIBRARY_ELTWISE_SWISH || post->eltwise.alg == LIBRARY_ELTWISE_LOGISTIC);
    }
    return gates * vector_ns * (double)cpu_count(build, group->out) / TILE_LANES / KERNEL_THREADS;
}

/* ------------------------------------------------------------------ our own */

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
    tiles_find_cut(tiles, TILE_ROWS * pixel_bytes, panels_of(window), depth, KERNEL_THREADS, &cut);
    ns = cut.ns * tile_lines(window, depth) / (double)(2 * panels_of(window));
    ns *= pixels > tiles * TILE_ROWS / 2 ? (double)pixels / (double)(tiles * TILE_ROWS) : 0.5; /* rows that are there */
    ns *= kernel_pace(KERNEL_TILES) * blocks_pace(window, depth);
    if (pixel_bytes % ALIASED_BYTES == 0 && tiles > 4)
        ns *= 1.5;
    if (weights > NEAR_BYTES && ns < weights / FAR_BYTES_PER_NS / KERNEL_THREADS)
        ns = weights / FAR_BYTES_PER_NS / KERNEL_THREADS;
    if (window->padded)
        ns += 4.0 * (double)cpu_count(build, build->op->in[0]) / BORDER_BYTES_PER_NS / KERNEL_THREADS + LOOP_NS;
    return ns + LOOP_NS;
}

double kernel_windows_ns(const kernel_layer *layer, int64_t points)
{
    const double far = 3.6, row = 0.135; /* for each input channel: a panel of weights from afar, a line of results */
    const kernel_conv_shape *window = &layer->window;
    int64_t size = points - 2, squared = points * points;
    double windows =
        (double)(window->images * ((window->out_height + size - 1) / size) * ((window->out_width + size - 1) / size));
    double lines = (double)lines_of(window), panels = (double)panels_of(window), products, least;
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
    double vectors = (double)(window->images * window->out_height * window->out_width) * (double)lines_of(window);
    double bytes = 4.0 * (double)(cpu_count(build, build->op->in[0]) + cpu_count(build, build->op->out[0]));

    (void)group;
    return (vectors * (0.5 + 0.15 * taps) + bytes / 130) / KERNEL_THREADS + LOOP_NS;
}

/* Vectors of neighbours in a row: squares of 3 and 5 have loops of their own, others read a vector for each tap. */
double kernel_planes_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const kernel_conv_shape *window = &layer->window;
    const bool own = window->kernel[0] == window->kernel[1] && (window->kernel[0] == 3 || window->kernel[0] == 5) &&
                     window->stride[0] <= 2 && window->dilation[0] == 1;
    double taps = (double)(window->kernel[0] * window->kernel[1]),
           copied = (double)cpu_count(build, build->op->in[0]) / TILE_LANES;
    double vectors = (double)(window->images * window->in * window->out_height *
                              ((window->out_width + TILE_LANES - 1) / TILE_LANES));
    double planes = (double)(window->images * window->in),
           ns = vectors * (1 + (own ? 0.17 : 0.36) * taps) + copied + 30 * planes;

    if (build->compiled->values[group->out].uses > 0) /* those who read it mostly want channels last */
        ns += KERNEL_THREADS * reorder_ns(4.0 * (double)cpu_count(build, group->out));
    return ns / KERNEL_THREADS + LOOP_NS;
}

/* A product whose second operand is laid out in rows of the image, cut where panels of 64 end. */
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
    ns += pieces * piece + columns * depth * sizeof(float) / UNFOLD_BYTES_PER_NS;
    if (window->padded || window->stride[1] > 1)
        ns += 4.0 * (double)cpu_count(build, build->op->in[0]) * (double)window->kernel[0] / BORDER_BYTES_PER_NS;
    return ns / KERNEL_THREADS + LOOP_NS;
}

/* Did threads make channels of the input, not pixels (depthwise.c)? Then every pixel lies in the caches of several
 * cores, and who reads few pixels at a time waits for them. */
static bool is_spread(const cpu_build *build)
{
    for (uint32_t group = 0; group < build->group_count; group++) {
        const cpu_op *maker = &build->compiled->ops[build->groups[group].op];

        if (build->groups[group].out == build->op->in[0])
            return maker->in_count > 0 && maker->in[0] != INLAY_NONE && build->ahead[maker->in[0]] != NULL;
    }
    return false;
}

/* Blocks of 6 pixels by 64 channels, or as large; rows of windows are copied. */
double kernel_gemm_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    static const int rows[] = { 6, 12, 12, 8, 6 }; /* of a block, by vectors of channels */
    const double rate = 238, narrow = 225, block = 60, piece = 2.5, hidden = 0.8; /* of what weights take from afar */
    int64_t first;
    const kernel_conv_shape inner = kernel_trimmed(&layer->window, &first), *window = &inner;
    double pixels = (double)(window->images * window->out_height * window->out_width), lines = (double)lines_of(window);
    double taps = (double)(window->kernel[0] * window->kernel[1]) * (window->padded ? tiles_gemm_share(window) : 1);
    double depth = (double)window->in * taps;
    double weights = depth * lines * TILE_LANES * sizeof(float), far = weights / FAR_BYTES_PER_NS;
    double whole = rows[lines < 4 ? (int)lines : 0], blocks = ceil(pixels / whole);
    double work = 2 * whole * depth * lines * TILE_LANES / (lines > 2 ? rate : narrow) * kernel_pace(KERNEL_GEMM);
    double ns = blocks * (work + ceil(lines / 4) * block);

    (void)group;
    if (weights > NEAR_BYTES)
        ns = ns < far ? far : ns + (1 - hidden) * far;
    if (window->padded || taps > 1 || window->stride[0] > 1 || window->stride[1] > 1)
        ns += pixels * (window->dilation[1] == 1 ? (double)window->kernel[0] : taps) * piece +
              pixels * depth * sizeof(float) / UNFOLD_BYTES_PER_NS;
    return ns * (is_spread(build) ? 1.35 : 1) / KERNEL_THREADS + LOOP_NS;
}

double kernel_pairs_work_ns(const cpu_build *build, double rows, int64_t k, int64_t n)
{
    const double rate = build->state->fast_pairs ? 330 : 165, block = 6.8; /* of 64 columns, a row's part of it */
    const double row = 15, element = 0.05;                                 /* rows are prepared */
    const double columns = (double)((n + TILE_LANES - 1) / TILE_LANES * TILE_LANES);

    return rows * (2 * (double)k * columns / rate + ceil(columns / 64) * block + row + element * (double)k);
}

/* Blocks of 5 pixels by 64 channels; rows of windows are copied. */
double kernel_pairs_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const double piece = 2.5, hidden = 0.8; /* of what weights take from afar */
    const kernel_conv_shape *window = &layer->window;
    double pixels = (double)(window->images * window->out_height * window->out_width),
           taps = (double)(window->kernel[0] * window->kernel[1]);
    int64_t depth = window->in * window->kernel[0] * window->kernel[1];
    double weights = (double)(depth * lines_of(window) * TILE_LANES) * sizeof(float), far = weights / FAR_BYTES_PER_NS;
    double ns = kernel_pairs_work_ns(build, pixels, depth, window->out);

    (void)group;
    if (weights > NEAR_BYTES)
        ns = ns < far ? far : ns + (1 - hidden) * far;
    if (window->padded || taps > 1 || window->stride[0] > 1 || window->stride[1] > 1)
        ns += pixels * (window->dilation[1] == 1 ? (double)window->kernel[0] : taps) * piece +
              pixels * (double)depth * sizeof(float) / UNFOLD_BYTES_PER_NS;
    return ns * (is_spread(build) ? 1.35 : 1) / KERNEL_THREADS + LOOP_NS;
}

/* ------------------------------------------------------------------ oneDNN's */

double cpu_winograd_gain(const cpu_op *op, int64_t in, int64_t out, int64_t height, int64_t width)
{
    int64_t side = height < width ? height : width;

    if (op->row->family != &cpu_conv || op->window.spatial != 2 || op->window.group != 1 || op->window.kernel[0] != 3 ||
        op->window.kernel[1] != 3 || op->window.strides[0] != 1 || op->window.strides[1] != 1 ||
        op->window.dilations[0] != 1 || op->window.dilations[1] != 1 || in < 16 || out < 32)
        return 0;
    if (side < 12)
        return in >= 512 && out >= 512 ? 1.15 : 0;
    if (side < 20)
        return in >= 512 ? 1.5 : in >= 256 ? 1.36 : in >= 128 ? 1.25 : 0;
    if (in < 64 || out < 64)
        return 1.25;
    if (side < 40)
        return in >= 256 ? 2.0 : 1.6;
    return in >= 128 ? 2.2 : 1.85;
}

/* How a direct convolution in blocks of 16 channels does beside one with channels last. */
static double blocked_rate(const cpu_build *build, const cpu_op *op)
{
    const int64_t *output = build->dims[op->out[0]];
    int64_t side = op->window.spatial == 2 && output[2] > output[3] ? output[3] : output[2];

    if (op->window.group > 1 || (op->window.kernel[0] == 1 && (op->window.spatial < 2 || op->window.kernel[1] == 1)))
        return 1;
    return side < 10 ? 0.7 : side < 20 ? 0.8 : 0.92;
}

/* Does anybody who reads the value gain by blocks? */
static bool blocks_are_wanted(const cpu_build *build, uint32_t value)
{
    for (uint32_t o = 0; o < build->compiled->op_count; o++) {
        const cpu_op *op = &build->compiled->ops[o];

        if (op->in_count > 0 && op->in[0] == value && op->row->family == &cpu_conv && op->window.spatial == 2 &&
            cpu_winograd_gain(op, build->dims[op->in[0]][1], build->dims[op->out[0]][1], build->dims[op->out[0]][2],
                              build->dims[op->out[0]][3]) > 0)
            return build->state->winograd;
    }
    return false;
}

/* Operands as large as the output that lie otherwise have to be reordered too. */
static double operands_ns(const cpu_build *build, const cpu_group *group, bool blocked)
{
    double ns = 0;

    for (uint32_t post = 0; post < group->post_count; post++) {
        const cpu_place *other =
            group->posts[post].kind == CPU_POST_BINARY ? &build->places[group->posts[post].other] : NULL;

        if (other != NULL && other->buffer != INLAY_NONE &&
            memory_desc_count(&other->md) >= cpu_count(build, group->out) &&
            memory_desc_is_blocked(&other->md) != blocked)
            ns += reorder_ns(4.0 * (double)cpu_count(build, group->out));
    }
    return ns;
}

/* One that has its input in blocks, or channels last. */
static double own_layout_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer, bool blocked)
{
    return operands_ns(build, group, blocked) + (memory_desc_is_blocked(&layer->input.md) != blocked
                                                     ? reorder_ns((double)memory_desc_bytes(&layer->input.md))
                                                     : 0);
}

/* The sums themselves, channels last: a row of 14 pixels by two lines of channels at a time, as tiles, with the taps
 * that lie in the image alone. What a call costs counts for small ones, and weights are not fetched ahead. */
static double sums_ns(const cpu_build *build, const kernel_layer *layer)
{
    const double start = 4500;
    const kernel_conv_shape *w = &layer->window;
    double weights = 4.0 * (double)cpu_count(build, build->op->in[1]);
    /* Without AVX-512 its loops over gaps multiply by what is outside the image, too. */
    double share = cpu_has(CPU_AVX512) || w->dilation[0] * w->dilation[1] == 1 ? 1 : w->share;
    double depth = w->flops / share / (2.0 * (double)cpu_count(build, build->op->out[0]));
    double tiles =
        ceil((double)cpu_count(build, build->op->out[0]) / (double)w->out / TILE_ROWS) * (double)lines_of(w) / 2;
    bool window = w->flat && w->kernel[0] * w->kernel[1] > 1;
    double ns = tiles * (12 + depth * (window ? 3.5 : 3.66)) + weights / 24;

    if (w->group > 1)
        return start + w->flops / 90.0 / KERNEL_THREADS;
    if (w->out % TILE_LANES != 0) /* the last line is a masked one */
        ns *= 1 + 0.3 / (double)lines_of(w);
    if (window && w->out_width < TILE_ROWS) /* it takes rows of the image one by one */
        ns *= w->stride[1] > 1 ? 1.3 : 1.08;
    return start + ns / KERNEL_THREADS;
}

double kernel_library_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    return sums_ns(build, layer) + own_layout_ns(build, group, layer, false) +
           (layer->window.home ? reorder_ns(4.0 * (double)cpu_count(build, group->out)) : 0);
}

double kernel_blocks_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    return sums_ns(build, layer) / blocked_rate(build, build->op) + own_layout_ns(build, group, layer, true);
}

double kernel_library_winograd_ns(const cpu_build *build, const cpu_group *group, const kernel_layer *layer)
{
    const kernel_conv_shape *window = &layer->window;
    double gain = cpu_winograd_gain(build->op, window->in, window->out, window->out_height, window->out_width);
    double ns = sums_ns(build, layer) / gain + own_layout_ns(build, group, layer, true);

    if (!blocks_are_wanted(build, group->out))
        ns += reorder_ns(4.0 * (double)cpu_count(build, group->out)) / 2;
    return ns;
}
