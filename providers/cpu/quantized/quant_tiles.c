/* QLinearConv-10 and ConvInteger-10 by int8 tiles: any window, stride and dilation, in one or two dimensions, and any
 * number of groups unless inputs are widened. Results equal the reference's to the last bit.
 *
 * The initial values of sums correct for the zero point of the input. If a window reaches past the image, or the number
 * of channels is not a multiple of 4, the kernel reads a copy padded with the zero point. */
#include "cpu/quantized/bytes.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/host.h"
#include "cpu/quantized/quant.h"
#include "cpu/convolution/tiles.h"
#include "cpu/region/window.h"
#include "cpu/weights/read.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(bytes_pack_tiles, "cpu_int8_conv cpu_int8_product");

struct direct {
    cpu_native native;
    const byte_set *set;
    const byte_tiles *tiles;  /* used instead of set->multiply; NULL: not */
    int64_t rows, row_pixels; /* of the output; rows that are contiguous in input and output are merged into one */
    int64_t height;           /* output rows of an image */
    int64_t s_image, s_row, s_pixel; /* bytes of the input from one output image, row, pixel to the next */
    int64_t tap_count, quads;
    int64_t channels, out; /* of the output: of a group, and of all groups */
    struct {
        int64_t panels, bytes; /* panels of weights, and their bytes with the sums */
        int64_t room, input;   /* elements of an ending, bytes of a pixel */
    } group;
    int64_t strip; /* pixels whose windows are widened one by one; 0: the input is not widened */
    struct {
        int64_t rows, row, span; /* rows, bytes from row to row, bytes of a row */
    } window;
    int64_t wide_row;         /* elements of a widened input row; 0: rows are not widened as a whole */
    int64_t row_tiles, block; /* tiles of a row, and of a unit */
    int64_t chunk, panels;    /* panels of a unit, and of all groups */
    bool flip;
    int64_t y_bytes; /* of an element */
    byte_ending ending;
    bytes_floats floats;
    uint32_t first_arg; /* index of the argument that replaces ending.first; INLAY_NONE: none */
    /* [2 * tap_count] offsets of taps in the input, then in the widened input; then first, scale and shift of all
     * channels */
    int64_t taps[];
};

typedef struct direct_call {
    const struct direct *direct;
    void *const *args;
    const int32_t *first; /* the initial values of sums */
} direct_call;

/* STRIP: limit of the elements of the widened windows of several tiles. If one tile needs more, it may have up to
 * STRIP_MOST. STRIP_END: room for byte_set.widen, which writes past the end. */
enum {
    TILE_MOST = 32,
    TILE_PIXELS = 6,
    ALONE_FLOPS = 400000,
    STRIP = 8192,
    STRIP_MOST = 32768,
    STRIP_END = 16,
    MOST_WIDTH = 64
};
enum { FETCHING_TILES = 32 }; /* most tiles that prefetch a panel together */

static int64_t lines_of(const byte_set *set, int64_t channels)
{
    return (channels + set->lanes - 1) / set->lanes;
}

/* Is a window of `depth` bytes, with channels rounded up to a multiple of 4, small enough? */
static bool depth_fits(const byte_set *set, int64_t depth)
{
    return !set->wide || depth <= STRIP_MOST;
}

/* Pixels [first, last) of an output row, and the input of their windows: the image, or a widened part of it. */
typedef struct pixel_run {
    int64_t row, first, last;
    const uint8_t *input; /* of pixel `first` */
    int64_t x_pixel, tap_count, steps;
    const int64_t *taps;
    bool flip;
} pixel_run;

/* Weights that the next `left` tiles prefetch in equal parts, since the memory bandwidth is limited; of byte_tiles:
 * `shaped`. */
struct fetching {
    const int8_t *next;
    int64_t step, left;
    int *shaped;
};

static const int8_t *panel_at(const direct_call *call, int64_t panel)
{
    const struct direct *direct = call->direct;

    return (const int8_t *)call->args[BYTES_W] + panel / direct->group.panels * direct->group.bytes +
           panel % direct->group.panels * direct->tap_count * direct->quads * direct->set->width * 4;
}

static void multiply_panel(const direct_call *call, int64_t panel, const pixel_run *run, struct fetching *ahead)
{
    const struct direct *direct = call->direct;
    const byte_set *set = direct->set;
    const int64_t group = panel / direct->group.panels, first = panel % direct->group.panels * set->width;
    const int64_t column = group * direct->channels + first, at = group * direct->group.room + first,
                  left = direct->channels - first;
    const int64_t lines = lines_of(set, left < set->width ? left : set->width),
                  most = direct->tiles != NULL ? direct->tiles->rows : set->rows[lines - 1];
    const int64_t pixels = run->last - run->first, tiles = (pixels + most - 1) / most;
    const int64_t least = pixels / tiles, more = pixels % tiles; /* the first `more` tiles have one more pixel */
    const bool has_epilogue = bytes_has_more(&direct->floats);
    int64_t pixel = run->row * direct->row_pixels + run->first;
    uint8_t *output = (uint8_t *)call->args[BYTES_Y] + (pixel * direct->out + column) * direct->y_bytes;
    float floats[TILE_MOST * MOST_WIDTH];
    byte_product product = {
        .input = run->input + group * direct->group.input,
        .x_pixel = run->x_pixel,
        .taps = run->taps,
        .tap_count = run->tap_count,
        .steps = run->steps,
        .weights = panel_at(call, panel),
        .lines = lines,
        .columns = left < set->width ? left : set->width,
        .flip = run->flip,
        .ending = direct->ending,
    };

    INLAY_CHECK(panel < direct->panels && lines <= BYTE_LINES && most <= TILE_MOST && set->width <= MOST_WIDTH);
    product.ending.first = call->first + at;
    product.ending.scale += at;
    product.ending.shift += direct->ending.kind == BYTE_FLOATS ? at : 0;
    product.output = has_epilogue ? (void *)floats : output;
    product.y_pixel = has_epilogue ? product.columns * (int64_t)sizeof floats[0] : direct->out * direct->y_bytes;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t rows = least + (t < more);

        product.ahead_step = ahead->left-- > 0 ? ahead->step : 0;
        product.ahead = ahead->next;
        ahead->next += product.ahead_step * direct->tap_count * direct->quads;
        if (direct->tiles != NULL)
            direct->tiles->multiply(&product, (int)rows, ahead->shaped);
        else
            set->multiply(&product, (int)rows);
        if (has_epilogue)
            bytes_finish(&direct->floats, call->args, floats, pixel, rows, column, product.columns, output,
                         direct->out);
        product.input += rows * product.x_pixel;
        pixel += rows;
        output += rows * direct->out * direct->y_bytes;
        product.output = has_epilogue ? (void *)floats : output;
    }
}

/* Multiplies pixels by panels [panel, past). Their windows are widened into a strip, tap by tap. */
static void multiply_by_windows(const direct_call *call, int64_t panel, int64_t past, const pixel_run *all)
{
    static const int64_t start = 0;
    const struct direct *direct = call->direct;
    const int64_t depth = direct->tap_count * direct->quads * 4;
    int16_t strip[STRIP_MOST + STRIP_END];
    pixel_run run = { .row = all->row,
                      .input = (const uint8_t *)strip,
                      .x_pixel = depth * 2,
                      .tap_count = 1,
                      .steps = depth / 2,
                      .taps = &start };

    for (run.first = all->first; run.first < all->last; run.first = run.last) {
        const uint8_t *input = all->input + (run.first - all->first) * direct->s_pixel;
        int16_t *wide = strip;

        run.last = run.first + direct->strip < all->last ? run.first + direct->strip : all->last;
        INLAY_CHECK((run.last - run.first) * depth <= STRIP_MOST);
        if (direct->tap_count == 1 && direct->s_pixel == depth)
            direct->set->widen(input, (run.last - run.first) * depth, direct->flip, wide);
        else
            for (int64_t i = run.first; i < run.last; i++, input += direct->s_pixel)
                for (int64_t tap = 0; tap < direct->tap_count; tap++, wide += direct->quads * 4)
                    direct->set->widen(input + direct->taps[tap], direct->quads * 4, direct->flip, wide);
        for (int64_t k = panel; k < past; k++)
            multiply_panel(call, k, &run, &(struct fetching){ panel_at(call, k), 0, 0, NULL });
    }
}

/* Multiplies pixels by panels [panel, past). The input rows of all their windows are widened at once. */
static void multiply_by_rows(const direct_call *call, int64_t panel, int64_t past, const pixel_run *all)
{
    const struct direct *direct = call->direct;
    const int64_t span = (all->last - all->first - 1) * direct->s_pixel + direct->window.span;
    int16_t strip[STRIP_MOST + STRIP_END];
    pixel_run run = { .row = all->row,
                      .first = all->first,
                      .last = all->last,
                      .input = (const uint8_t *)strip,
                      .x_pixel = direct->s_pixel * 2,
                      .tap_count = direct->tap_count,
                      .steps = direct->quads * 2,
                      .taps = direct->taps + direct->tap_count };

    INLAY_CHECK(span <= direct->wide_row && direct->window.rows * direct->wide_row <= STRIP_MOST);
    for (int64_t i = 0; i < direct->window.rows; i++)
        direct->set->widen(all->input + i * direct->window.row, span, direct->flip, strip + i * direct->wide_row);
    for (; panel < past; panel++)
        multiply_panel(call, panel, &run, &(struct fetching){ panel_at(call, panel), 0, 0, NULL });
}

/* The pixels of tiles [*io_first, last) that are in the first of their rows; advances *io_first to the next row. */
static pixel_run next_run(const direct_call *call, int64_t *io_first, int64_t last)
{
    const struct direct *direct = call->direct;
    const int64_t row = *io_first / direct->row_tiles, at = *io_first % direct->row_tiles;
    const int64_t past = (row + 1) * direct->row_tiles < last ? direct->row_tiles : last - row * direct->row_tiles;
    const uint8_t *input = (const uint8_t *)call->args[BYTES_X] + row / direct->height * direct->s_image +
                           row % direct->height * direct->s_row;
    const int64_t first = at * direct->row_pixels / direct->row_tiles;

    *io_first = row * direct->row_tiles + past;
    return (pixel_run){ .row = row,
                        .first = first,
                        .last = past * direct->row_pixels / direct->row_tiles,
                        .input = input + first * direct->s_pixel,
                        .x_pixel = direct->s_pixel,
                        .tap_count = direct->tap_count,
                        .steps = direct->quads,
                        .taps = direct->taps,
                        .flip = direct->flip };
}

/* Units of work: blocks of tiles by chunks of panels. A panel is multiplied by the whole block before the next panel.
 * Meanwhile, the first unit of each chunk prefetches the next panel. Inputs are widened once for all panels of a
 * chunk. */
static inlay_status direct_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const direct_call *call = user;
    const struct direct *direct = call->direct;
    const int64_t chunks = (direct->panels + direct->chunk - 1) / direct->chunk,
                  tiles = direct->rows * direct->row_tiles;
    const int64_t line = direct->set->width * 4;
    int shaped = 0;

    (void)worker;
    for (int64_t u = begin; u < end; u++) {
        const int64_t first = u / chunks * direct->block,
                      last = first + direct->block < tiles ? first + direct->block : tiles;
        const int64_t chunk = u % chunks * direct->chunk,
                      past = chunk + direct->chunk < direct->panels ? chunk + direct->chunk : direct->panels;
        const int64_t share = last - first < FETCHING_TILES ? last - first : FETCHING_TILES;

        for (int64_t t = first; t < last && (direct->wide_row > 0 || direct->strip > 0);) {
            const pixel_run run = next_run(call, &t, last);

            (direct->wide_row > 0 ? multiply_by_rows : multiply_by_windows)(call, chunk, past, &run);
        }
        for (int64_t k = chunk; k < past && direct->wide_row == 0 && direct->strip == 0; k++) {
            const bool more = u - begin < chunks && k + 1 < past;
            struct fetching ahead = { panel_at(call, more ? k + 1 : k), (line + share - 1) / share, more ? share : 0,
                                      &shaped };

            for (int64_t t = first; t < last;) {
                const pixel_run run = next_run(call, &t, last);

                multiply_panel(call, k, &run, &ahead);
            }
        }
    }
    if (direct->tiles != NULL)
        direct->tiles->end(&shaped);
    return INLAY_OK;
}

static inlay_status run_direct(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct direct *direct = (const struct direct *)(const void *)native;
    direct_call call = { direct, args,
                         direct->first_arg != INLAY_NONE ? args[direct->first_arg] : direct->ending.first };
    const int64_t blocks = (direct->rows * direct->row_tiles + direct->block - 1) / direct->block;
    const int64_t units = blocks * ((direct->panels + direct->chunk - 1) / direct->chunk);

    if (threads <= 1 || units < 2)
        return direct_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, direct_units, &call);
}

/* The fourth dim of the packed layout. */
static int64_t parts_of(const byte_set *set)
{
    return set->width == 64 ? 4 : set->wide ? 2 : 1;
}

static const byte_set *set_of_layout(const tensor_layout *layout)
{
    const byte_set *set = byte_set_of_cpu();

    return set != NULL && parts_of(set) != layout->dims[3] && byte_set_of_pairs() != NULL ? byte_set_of_pairs() : set;
}

bool bytes_tiles_layout(const byte_set *set, const tensor_layout *weights, int64_t groups, tensor_layout *layout)
{
    const int64_t parts = parts_of(set), room = lines_of(set, weights->dims[0] / groups) * set->lanes;
    int64_t dims[] = { groups, 1, 1, parts, bytes_in_fours(weights->dims[1]), room };

    for (int d = 2; d < weights->rank; d++)
        if (__builtin_mul_overflow(dims[4], weights->dims[d], &dims[4]))
            return false;
    dims[4] += (int64_t)sizeof(int32_t);
    if (byte_tiles_of_cpu() != NULL) /* tiles read past the end of the weights */
        dims[4] += (BYTE_PAST + dims[5] - 1) / dims[5] / parts * parts + parts;
    dims[4] /= parts;
    layout_plain(layout, 6, dims);
    layout->type = ELEMENT_INT8;
    return true;
}

const int32_t *bytes_tiles_sums(const tensor_layout *layout, const void *packed)
{
    return (const int32_t *)(const void *)((const char *)packed + layout_bytes(layout) / (uint64_t)layout->dims[0]) -
           layout->dims[5];
}

/* Packs the weights of one filter and one tap. to: the tap's weights in a panel of `room` channels; channel: the
 * position of the filter's channel in the panel. Returns the sum of the weights. */
static int32_t pack_channels(const byte_set *set, const int8_t *from, int64_t in, int64_t step, int8_t *to,
                             int64_t channel, int64_t room)
{
    int32_t sum = 0;

    for (int64_t i = 0; i < in; i += 4, to += room * 4) {
        int8_t four[4] = { 0 };

        for (int64_t k = 0; k < 4 && i + k < in; k++)
            sum += four[k] = from[(i + k) * step];
        if (set->wide) {
            memcpy(to + channel * 2, four, sizeof four / 2);
            memcpy(to + (room + channel) * 2, four + 2, sizeof four / 2);
        } else {
            memcpy(to + channel * 4, four, sizeof four);
        }
    }
    return sum;
}

bool bytes_pack_tiles(const tensor_layout *plain, const void *source, const tensor_layout *layout, void *target)
{
    const byte_set *set = layout->rank == 6 ? set_of_layout(layout) : NULL;
    const int64_t *dims = plain->dims, *s = plain->strides;
    const bool flat = plain->rank == 4;
    int64_t height, width, quads, filters, group_bytes;

    if (set == NULL || plain->rank < 2 || plain->rank > 4 || layout->type != ELEMENT_INT8)
        return false;
    height = flat ? dims[2] : 1;
    width = plain->rank == 2 ? 1 : dims[plain->rank - 1];
    quads = bytes_in_fours(dims[1]) / 4;
    filters = dims[0] / layout->dims[0];
    group_bytes = (int64_t)layout_bytes(layout) / layout->dims[0];
    memset(target, 0, layout_bytes(layout));
    for (int64_t o = 0; o < dims[0]; o++) {
        const int64_t filter = o % filters, panel = filter / set->width,
                      left = lines_of(set, filters - panel * set->width) * set->lanes;
        const int64_t room = left < set->width ? left : set->width; /* channels of the panel */
        const int8_t *from = (const int8_t *)source + o * s[0];
        int8_t *of_group = (int8_t *)target + o / filters * group_bytes,
               *to = of_group + panel * height * width * quads * set->width * 4;
        int32_t *sums = (int32_t *)(void *)(of_group + group_bytes) - layout->dims[5];

        for (int64_t h = 0; h < height; h++)
            for (int64_t w = 0; w < width; w++, to += quads * room * 4)
                sums[filter] += pack_channels(set, from + h * (flat ? s[2] : 0) + w * s[plain->rank - 1], dims[1], s[1],
                                              to, filter % set->width, room);
    }
    return true;
}

enum { X_ZERO = 2, W = 3, W_SCALE = 4 };

static bool is_linear(const cpu_op *op)
{
    return strcmp(op->row->op_type, "QLinearConv") == 0;
}

/* Does a kernel support the convolution? A tile costs as much for a few multiplications in a group as for a hundred:
 * other kernels are then faster, most of all for single pixels, which need no copies of windows. */
static bool kernel_supports(const byte_set *set, const kernel_conv_shape *window)
{
    enum { LEAST_OF_WINDOW = 64, LEAST_OF_PIXEL = 128 };
    const int64_t taps = window->kernel[0] * window->kernel[1], in = window->in / window->group,
                  out = window->out / window->group;

    if (!window->flat)
        return false;
    if (window->group == 1)
        return depth_fits(set, bytes_in_fours(in) * taps);
    return bytes_depthwise_runs(set, window) ||
           (!set->wide && (double)in * (double)out * (double)taps >= (taps > 1 ? LEAST_OF_WINDOW : LEAST_OF_PIXEL));
}

/* Is the zero point of x computed in the run? */
static bool computes_zero(const cpu_build *build, const cpu_op *op)
{
    return !is_linear(op) && op->in_count > X_ZERO && op->in[X_ZERO] != INLAY_NONE &&
           build->compiled->values[op->in[X_ZERO]].constant == INLAY_NONE;
}

bool bytes_runs_conv(const cpu_build *build, const cpu_op *op)
{
    const bool linear = is_linear(op);
    kernel_conv_shape window;

    if (build->state->bytes == NULL || build->dims[op->in[linear ? W : 1]][0] < 1)
        return false;
    kernel_conv_shape_of(build, op, &window);
    if (!kernel_supports(build->state->bytes, &window))
        return false;
    if (linear) {
        const cpu_constant *constant = &build->compiled->constants[build->compiled->values[op->in[W_SCALE]].constant];

        return bytes_scales_fit(op, constant->data, cpu_count(build, op->in[W_SCALE]));
    }
    return !bytes_depthwise_runs(build->state->bytes, &window) || !computes_zero(build, op);
}

bool bytes_offers_conv(const kit_node *node, const cpu_op *op, kit_refusal *why)
{
    const bool linear = is_linear(op);
    const byte_set *set = byte_set_of_cpu();
    const inlay_value_info *weights = kit_input(node, linear ? W : 1),
                           *scales = linear ? kit_input(node, W_SCALE) : NULL;
    kernel_conv_shape window = { .flat = op->window.spatial <= 2,
                                 .in = weights->dims[1].value * op->window.group,
                                 .out = weights->dims[0].value,
                                 .group = op->window.group,
                                 .kernel = { 1, 1 },
                                 .dilation = { 1, 1 } };

    for (uint32_t i = 0; window.flat && i < op->window.spatial; i++) {
        window.kernel[2 - op->window.spatial + i] = op->window.kernel[i];
        window.dilation[2 - op->window.spatial + i] = op->window.dilations[i];
    }
    if (set == NULL || !kernel_supports(set, &window))
        return kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX-512 VNNI",
                          "without AVX-512 VNNI there is no exact int8 convolution for this group count and window");
    if (!linear)
        return !bytes_depthwise_runs(set, &window) || kit_input(node, X_ZERO) == NULL ||
               kit_is_constant(node, X_ZERO) ||
               kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX-512 VNNI",
                          "without AVX-512 VNNI the zero point of input 0 must be a constant if there are groups");
    return bytes_scales_fit(op, scales->data, cpu_known_count(scales)) ||
           kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX-512 VNNI",
                      "without AVX-512 VNNI scales of sums must be below 1");
}

/* Computes the offsets of taps, and chooses how the input is widened: whole rows, or windows. */
static void find_taps(struct direct *direct, const kernel_conv_shape *window, int64_t pixel, bool merged)
{
    const int64_t depth = direct->tap_count * direct->quads * 4;
    int64_t at = 0;

    direct->window.rows = window->kernel[0];
    direct->window.row = window->dilation[0] * window->width * pixel;
    direct->window.span = ((window->kernel[1] - 1) * window->dilation[1]) * pixel + bytes_in_fours(window->in);
    if (direct->set->wide) {
        const int64_t pixels = STRIP / depth / TILE_PIXELS * TILE_PIXELS, most = STRIP_MOST / depth;
        const int64_t row = (direct->row_pixels - 1) * direct->s_pixel + direct->window.span;

        direct->strip = pixels > 0 ? pixels : most < TILE_PIXELS ? most : TILE_PIXELS;
        direct->wide_row = direct->tap_count > 1 && pixel % 4 == 0 && row * direct->window.rows <= STRIP_MOST ? row : 0;
    }
    for (int64_t i = 0; i < window->kernel[0]; i++) {
        for (int64_t j = 0; j < (merged ? 1 : window->kernel[1]); j++, at++) {
            direct->taps[at] = i * direct->window.row + j * window->dilation[1] * pixel;
            direct->taps[direct->tap_count + at] = 2 * (i * direct->wide_row + j * window->dilation[1] * pixel);
        }
    }
}

/* Divides the tiles and panels into units of work. */
static void divide_work(struct direct *direct, uint32_t threads)
{
    const int64_t depth = direct->tap_count * direct->quads;
    const double flops = 2.0 * (double)(direct->rows * direct->row_pixels * direct->out) * (double)depth * 4;
    const int64_t groups = direct->out / direct->channels;
    tiles_cut c;

    direct->row_tiles = (direct->row_pixels + TILE_PIXELS - 1) / TILE_PIXELS;
    direct->group.panels = (direct->channels + direct->set->width - 1) / direct->set->width;
    direct->panels = groups * direct->group.panels;
    threads = flops > ALONE_FLOPS ? threads : 1;
    tiles_find_cut(direct->rows * direct->row_tiles, TILE_PIXELS * direct->s_pixel,
                   groups > 1 ? (double)direct->panels : (double)direct->channels / (double)direct->set->width, depth,
                   threads, &c);
    direct->block = c.block;
    direct->chunk = c.chunk;
}

static inlay_status lower_tiles(cpu_build *build, bytes_case *layer)
{
    const cpu_op *op = build->op;
    kernel_conv_shape *window = &layer->window;
    const byte_set *set = bytes_set_for(build, layer->w_value, &layer->weights);
    const int64_t groups = window->group, in = window->in / groups, channels = window->out / groups,
                  room = lines_of(set, channels) * set->lanes, all = groups * room;
    const byte_tiles *tiles;
    int64_t pixel, tap_count, quads, sum_step;
    const int32_t *sums;
    int32_t *first;
    float *scale;
    bool merged, one_row;
    bytes_ends ends;
    inlay_status status;
    cpu_place weights, output;
    struct direct *direct = NULL;
    tensor_layout layout;

    if (window->padded || in % 4 != 0 || !tiles_accept_layout(&layer->input.layout) ||
        (window->kernel[1] > 1 && tiles_pixel_step(&layer->input.layout) != window->in))
        INLAY_TRY(bytes_add_border(build, layer));
    pixel = tiles_pixel_step(&layer->input.layout);
    /* Can all output rows be one? */
    one_row = window->stride[0] * window->width == window->out_width * window->stride[1] &&
              (window->images == 1 || window->height == window->out_height * window->stride[0]);
    merged = window->dilation[1] == 1 && groups == 1;
    tap_count = window->kernel[0] * (merged ? 1 : window->kernel[1]);
    if (!bytes_tiles_layout(set, &layer->weights, groups, &layout))
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': the packed weights would be too large", op->name);
    INLAY_TRY(cpu_read_constant(build, layer->w_value, &layer->weights, &layout, &weights));
    quads = bytes_in_fours(in) / 4 * (merged ? window->kernel[1] : 1);
    tiles = bytes_tiles_for(window->out_width * (one_row ? window->out_height * window->images : 1), tap_count, quads,
                            channels);
    layer->x_offset = byte_offset(set, tiles, layer->input.layout.type == ELEMENT_INT8);
    sums = bytes_tiles_sums(&layout, build->instance->buffers[weights.buffer].data);
    sum_step = (int64_t)(layout_bytes(&layout) / sizeof *sums) / groups;
    if (layer->computes_first)
        INLAY_TRY(bytes_emit_first(build, layer, sums, sum_step, room));
    INLAY_TRY(bytes_result(build, layer, &output));
    direct =
        calloc(1, sizeof *direct + 2 * (size_t)tap_count * sizeof direct->taps[0] + 3 * (size_t)all * sizeof(float));
    if (direct == NULL)
        return q_no_memory(build);
    *direct = (struct direct){ .native.run = run_direct,
                               .set = set,
                               .tiles = tiles,
                               .rows = window->images * window->out_height,
                               .row_pixels = window->out_width,
                               .height = window->out_height,
                               .s_image = window->height * window->width * pixel,
                               .s_row = window->stride[0] * window->width * pixel,
                               .s_pixel = window->stride[1] * pixel,
                               .tap_count = tap_count,
                               .quads = quads,
                               .channels = channels,
                               .out = window->out,
                               .group = { .bytes = (int64_t)layout_bytes(&layout) / groups, .room = room, .input = in },
                               .flip = layer->input.layout.type == ELEMENT_INT8,
                               .y_bytes = (int64_t)cpu_type_bytes(output.layout.type),
                               .floats = layer->floats,
                               .first_arg = layer->computes_first ? bytes_first_arg(layer) : INLAY_NONE };
    find_taps(direct, window, pixel, merged);
    bytes_end(build, layer, &direct->ending);
    direct->ending.first = first = (int32_t *)(void *)(direct->taps + 2 * tap_count);
    direct->ending.scale = scale = (float *)(void *)(first + all);
    direct->ending.shift = scale + all;
    status = bytes_ends_of(build, layer, &ends);
    if (status != INLAY_OK) {
        free(direct);
        return status;
    }
    for (int64_t o = 0; o < window->out; o++) {
        const int64_t filter = o % channels, at = o / channels * room + filter;

        bytes_end_channel(&ends, o, sums[o / channels * sum_step + filter], &first[at], &scale[at], &scale[all + at]);
    }
    /* Widened rows (wide_row) hold the input of one output row, so they cannot be merged. */
    if (direct->wide_row == 0 && one_row) {
        direct->row_pixels *= direct->rows;
        direct->rows = direct->height = 1;
    }
    divide_work(direct, build->instance->threads);
    status = bytes_emit(build, layer, &weights, &output, &direct->native);
done:
    return status;
}

/* Reads the image channels last, or in its current layout if it has at most 4 channels, which are copied anyway. */
static inlay_status read_image(cpu_build *build, bytes_case *layer)
{
    const uint32_t x = build->op->in[0];
    inlay_status status = cpu_read(build, x, &layer->input);
    tensor_layout layout;

    if (status != INLAY_OK || tiles_accept_layout(&layer->input.layout))
        return status;
    if (layer->window.group == 1 && layer->window.in <= 4 && layer->input.layout.kind == LAYOUT_STRIDED)
        return INLAY_OK;
    layout_channels_last(&layout, build->ranks[x], build->dims[x]);
    layout.type = cpu_type(build, x);
    return cpu_read_as(build, x, &layout, &layer->input);
}

/* ConvInteger's zero point of x, a constant. */
static inlay_status read_zero(cpu_build *build, const cpu_op *op, int32_t *out)
{
    const uint32_t value = op->in_count > X_ZERO ? op->in[X_ZERO] : INLAY_NONE;
    const void *zero;
    inlay_status status = cpu_read_original(build, value, &zero);

    *out = 0;
    if (status == INLAY_OK && zero != NULL)
        *out = cpu_type(build, value) == ELEMENT_INT8 ? *(const int8_t *)zero : *(const uint8_t *)zero;
    return status;
}

/* The text of `inlay explain` on activations and error. */
static const char *const bounds[] = {
    [BYTE_BYTES] = "8-bit activations as in the model: sums are exact, results equal ONNX's to the last bit",
    [BYTE_SUMS] = "8-bit activations as in the model: sums are exact",
    [BYTE_FLOATS] = "8-bit activations as in the model: sums are exact, the epilogue rounds as floats do",
};

inlay_status bytes_lower_conv(cpu_build *build, const cpu_group *group, bool *out_done)
{
    const cpu_op *op = build->op;
    const bool linear = is_linear(op);
    bool depthwise;
    bytes_case layer = { .group = group, .w_value = op->in[linear ? W : 1] };
    inlay_status status;

    *out_done = bytes_runs_conv(build, op);
    if (!*out_done)
        return INLAY_OK;
    INLAY_CHECK(build->state->bytes != NULL);
    kernel_conv_shape_of(build, op, &layer.window);
    layer.kind = linear ? BYTE_BYTES : cpu_type(build, group->out) == ELEMENT_INT32 ? BYTE_SUMS : BYTE_FLOATS;
    layer.computes_zero = computes_zero(build, op);
    layer.computes_first = layer.computes_zero || group->bias != INLAY_NONE;
    layer.x_zero = linear ? op->quantized.zero : 0;
    status = linear || layer.computes_zero ? INLAY_OK : read_zero(build, op, &layer.x_zero);
    layer.border = (uint8_t)layer.x_zero;
    if (status == INLAY_OK)
        status = bytes_read_posts(build, &layer);
    if (status == INLAY_OK && layer.computes_zero)
        status = cpu_read_plain(build, op->in[X_ZERO], &layer.zero);
    if (status == INLAY_OK)
        status = read_image(build, &layer);
    if (status != INLAY_OK)
        return status;
    if (layer.input.layout.type == ELEMENT_INT8)
        layer.x_offset = 128;
    depthwise = bytes_depthwise_runs(build->state->bytes, &layer.window);
    if (depthwise)
        cpu_window_weights(build, layer.w_value, &layer.weights);
    else
        layout_plain(&layer.weights, build->ranks[layer.w_value], build->dims[layer.w_value]);
    layer.weights.type = ELEMENT_INT8;
    if (cpu_type(build, layer.w_value) == ELEMENT_UINT8) {
        status = q_shift(build, layer.w_value, op->quantized.w_zero);
        if (status != INLAY_OK)
            return status;
    }
    status = depthwise ? bytes_lower_depthwise(build, &layer) : lower_tiles(build, &layer);
    return status != INLAY_OK
               ? status
               : kernel_remember(
                     build, &(kernel_choice){ .op = group->op,
                                              .count = 1,
                                              .source = KERNEL_ONLY,
                                              .why = bytes_why(bounds[layer.kind]),
                                              .kernel = { depthwise ? KERNEL_BYTES_CHANNELS : KERNEL_BYTES_TILES } });
}
