/* QLinearConv-10 and ConvInteger-10 by tiles of bytes: one group, any window, stride and dilation, in one or two
 * dimensions. Results are the reference's to the last bit.
 *
 * Zero points of the input are taken out of what sums begin with. Where a window reaches past the image, or channels do
 * not come in fours, a copy is read whose border is the zero point. */
#include "quantized/bytes.h"
#include "quantized/quant.h"
#include "convolution/tiles.h"
#include "convolution/window.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(bytes_pack_tiles, "rg_int8_conv rg_int8_product");

/* ------------------------------------------------------------------ the product */

struct direct {
    rg_native native;
    const byte_set *set;
    int64_t rows, row_pixels;        /* of the output; rows that run on into each other are one */
    int64_t height;                  /* rows of an image */
    int64_t s_image, s_row, s_pixel; /* steps in x for steps in y */
    int64_t tap_count, quads, channels;
    int64_t strip; /* pixels whose windows are widened one by one, 0: they are read as they are */
    int64_t window_rows, window_row, window_span; /* of a window: rows, bytes from one to the next, and of one */
    int64_t wide_row; /* elements of such a row of all pixels of an output row, where they are widened at once, or 0 */
    int64_t row_tiles, block, chunk, panels; /* tiles of a row, of a unit; panels of a unit */
    bool flip;
    int64_t y_bytes; /* of an element */
    byte_ending ending;
    bytes_floats floats;
    int64_t taps[]; /* in the image, in what is widened; then first, scale and shift of all channels */
};

typedef struct direct_call {
    const struct direct *d;
    void *const *args;
} direct_call;

/* STRIP: elements of widened windows, some of which are for what one of them writes behind its end; those of the last
 * tile may be twice as many. */
enum { TILE_PIXELS = 6, ALONE_FLOPS = 400000, STRIP = 8192, STRIP_MOST = 32768, STRIP_END = 16, MOST_WIDTH = 64 };
enum { FETCHING_TILES = 32 };

static int64_t lines_of(const byte_set *set, int64_t channels)
{
    return (channels + set->lanes - 1) / set->lanes;
}

/* May the windows of a filter have so many bytes, channels in fours? */
static bool depth_fits(const byte_set *set, int64_t depth)
{
    return !set->wide || depth <= STRIP_MOST;
}

/* Pixels of a row of the output, and what their windows are read from: the image, or some of it widened. */
typedef struct pixel_run {
    int64_t row, first, last;
    const uint8_t *x; /* of the first */
    int64_t x_pixel, tap_count, steps;
    const int64_t *taps;
    bool flip;
} pixel_run;

/* Weights that the next `left` tiles fetch, evenly, for memory gives no more at a time. */
struct fetching {
    const int8_t *next;
    int64_t step, left;
};

static const int8_t *panel_at(const direct_call *call, int64_t panel)
{
    const struct direct *d = call->d;

    return (const int8_t *)call->args[BYTES_W] + panel * d->tap_count * d->quads * d->set->width * 4;
}

static void one_panel(const direct_call *call, int64_t panel, const pixel_run *run, struct fetching *ahead)
{
    const struct direct *d = call->d;
    const byte_set *set = d->set;
    const int64_t column = panel * set->width, left = d->channels - column;
    const int64_t lines = lines_of(set, left < set->width ? left : set->width), most = set->rows[lines - 1];
    const int64_t pixels = run->last - run->first, tiles = (pixels + most - 1) / most;
    const int64_t least = pixels / tiles, more = pixels % tiles; /* so many tiles have one more */
    const bool is_more = bytes_has_more(&d->floats);
    int64_t pixel = run->row * d->row_pixels + run->first;
    uint8_t *y = (uint8_t *)call->args[BYTES_Y] + (pixel * d->channels + column) * d->y_bytes;
    float floats[BYTE_ROWS * MOST_WIDTH];
    byte_product p = {
        .x = run->x,
        .x_pixel = run->x_pixel,
        .taps = run->taps,
        .tap_count = run->tap_count,
        .steps = run->steps,
        .w = panel_at(call, panel),
        .lines = lines,
        .columns = left < set->width ? left : set->width,
        .flip = run->flip,
        .ending = d->ending,
    };

    p.ending.first += column;
    p.ending.scale += column;
    p.ending.shift += d->ending.kind == BYTE_FLOATS ? column : 0;
    p.y = is_more ? (void *)floats : y;
    p.y_pixel = is_more ? p.columns * (int64_t)sizeof floats[0] : d->channels * d->y_bytes;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t rows = least + (t < more);

        p.ahead_step = ahead->left-- > 0 ? ahead->step : 0;
        p.ahead = ahead->next;
        ahead->next += p.ahead_step * d->tap_count * d->quads;
        set->multiply(&p, (int)rows);
        if (is_more)
            bytes_finish(&d->floats, call->args, floats, pixel, rows, column, p.columns, y, d->channels);
        p.x += rows * p.x_pixel;
        pixel += rows;
        y += rows * d->channels * d->y_bytes;
        p.y = is_more ? (void *)floats : y;
    }
}

/* Pixels whose windows are put together in a strip, tap by tap, by panels [panel, past). */
static void by_windows(const direct_call *call, int64_t panel, int64_t past, const pixel_run *all)
{
    static const int64_t start = 0;
    const struct direct *d = call->d;
    const int64_t depth = d->tap_count * d->quads * 4;
    int16_t strip[STRIP_MOST + STRIP_END];
    pixel_run run = { .row = all->row,
                      .x = (const uint8_t *)strip,
                      .x_pixel = depth * 2,
                      .tap_count = 1,
                      .steps = depth / 2,
                      .taps = &start };

    for (run.first = all->first; run.first < all->last; run.first = run.last) {
        const uint8_t *x = all->x + (run.first - all->first) * d->s_pixel;
        int16_t *wide = strip;

        run.last = run.first + d->strip < all->last ? run.first + d->strip : all->last;
        if (d->tap_count == 1 && d->s_pixel == depth)
            d->set->widen(x, (run.last - run.first) * depth, d->flip, wide);
        else
            for (int64_t i = run.first; i < run.last; i++, x += d->s_pixel)
                for (int64_t t = 0; t < d->tap_count; t++, wide += d->quads * 4)
                    d->set->widen(x + d->taps[t], d->quads * 4, d->flip, wide);
        for (int64_t k = panel; k < past; k++)
            one_panel(call, k, &run, &(struct fetching){ panel_at(call, k), 0, 0 });
    }
}

/* Pixels of which all that their windows see is widened at once. */
static void by_rows(const direct_call *call, int64_t panel, int64_t past, const pixel_run *all)
{
    const struct direct *d = call->d;
    const int64_t span = (all->last - all->first - 1) * d->s_pixel + d->window_span;
    int16_t strip[STRIP_MOST + STRIP_END];
    pixel_run run = { .row = all->row,
                      .first = all->first,
                      .last = all->last,
                      .x = (const uint8_t *)strip,
                      .x_pixel = d->s_pixel * 2,
                      .tap_count = d->tap_count,
                      .steps = d->quads * 2,
                      .taps = d->taps + d->tap_count };

    for (int64_t i = 0; i < d->window_rows; i++)
        d->set->widen(all->x + i * d->window_row, span, d->flip, strip + i * d->wide_row);
    for (; panel < past; panel++)
        one_panel(call, panel, &run, &(struct fetching){ panel_at(call, panel), 0, 0 });
}

/* Tiles [*io_first, last) of a unit as far as they are in one row. */
static pixel_run next_run(const direct_call *call, int64_t *io_first, int64_t last)
{
    const struct direct *d = call->d;
    const int64_t row = *io_first / d->row_tiles, at = *io_first % d->row_tiles;
    const int64_t past = (row + 1) * d->row_tiles < last ? d->row_tiles : last - row * d->row_tiles;
    const uint8_t *x = (const uint8_t *)call->args[BYTES_X] + row / d->height * d->s_image + row % d->height * d->s_row;
    const int64_t first = at * d->row_pixels / d->row_tiles;

    *io_first = row * d->row_tiles + past;
    return (pixel_run){ .row = row,
                        .first = first,
                        .last = past * d->row_pixels / d->row_tiles,
                        .x = x + first * d->s_pixel,
                        .x_pixel = d->s_pixel,
                        .tap_count = d->tap_count,
                        .steps = d->quads,
                        .taps = d->taps,
                        .flip = d->flip };
}

/* Units: blocks of pixels, in tiles that a full panel has, by chunks of panels. A panel is used for all of a block
 * before the next one, which the block fetches when it comes first; what has to be widened is so once for all panels.
 */
static inlay_status direct_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const direct_call *call = user;
    const struct direct *d = call->d;
    const int64_t chunks = (d->panels + d->chunk - 1) / d->chunk, tiles = d->rows * d->row_tiles;
    const int64_t line = d->set->width * 4;

    (void)worker;
    for (int64_t u = begin; u < end; u++) {
        const int64_t first = u / chunks * d->block, last = first + d->block < tiles ? first + d->block : tiles;
        const int64_t chunk = u % chunks * d->chunk, past = chunk + d->chunk < d->panels ? chunk + d->chunk : d->panels;
        const int64_t share = last - first < FETCHING_TILES ? last - first : FETCHING_TILES;

        for (int64_t t = first; t < last && (d->wide_row > 0 || d->strip > 0);) {
            const pixel_run run = next_run(call, &t, last);

            (d->wide_row > 0 ? by_rows : by_windows)(call, chunk, past, &run);
        }
        for (int64_t k = chunk; k < past && d->wide_row == 0 && d->strip == 0; k++) {
            const bool more = u - begin < chunks && k + 1 < past;
            struct fetching ahead = { panel_at(call, more ? k + 1 : k), (line + share - 1) / share, more ? share : 0 };

            for (int64_t t = first; t < last;) {
                const pixel_run run = next_run(call, &t, last);

                one_panel(call, k, &run, &ahead);
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
    const int64_t blocks = (d->rows * d->row_tiles + d->block - 1) / d->block;
    const int64_t units = blocks * ((d->panels + d->chunk - 1) / d->chunk);

    if (threads <= 1 || units < 2)
        return direct_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, direct_units, &call);
}

/* ------------------------------------------------------------------ weights */

bool bytes_tiles_layout(const byte_set *set, const rg_md *weights, rg_md *md)
{
    const int64_t parts = set->width == 64 ? 4 : set->wide ? 2 : 1;
    int64_t dims[] = { 1, 1, 1, parts, bytes_in_fours(weights->dims[1]), lines_of(set, weights->dims[0]) * set->lanes };

    for (int d = 2; d < weights->ndims; d++)
        if (__builtin_mul_overflow(dims[4], weights->dims[d], &dims[4]))
            return false;
    dims[4] = (dims[4] + (int64_t)sizeof(int32_t)) / parts;
    rg_md_plain(md, 6, dims);
    md->data_type = DN_S8;
    return true;
}

const int32_t *bytes_tiles_sums(const byte_set *set, const rg_md *md, const void *packed, int64_t channels)
{
    return (const int32_t *)(const void *)((const char *)packed + rg_md_bytes(md)) -
           lines_of(set, channels) * set->lanes;
}

/* The weights of one filter at a place of the window, in fours; to: those of its panel, of which `channel` it is. */
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

bool bytes_pack_tiles(const rg_md *plain, const void *source, const rg_md *md, void *target)
{
    const byte_set *set = byte_set_of_cpu();
    const int64_t *dims = plain->dims, *s = plain->strides;
    const bool flat = plain->ndims == 4;
    int64_t height, width, quads;
    int32_t *sums;

    if (set == NULL || md->ndims != 6 || plain->ndims < 2 || plain->ndims > 4 || md->data_type != DN_S8)
        return false;
    height = flat ? dims[2] : 1;
    width = plain->ndims == 2 ? 1 : dims[plain->ndims - 1];
    quads = bytes_in_fours(dims[1]) / 4;
    memset(target, 0, rg_md_bytes(md));
    sums = (int32_t *)(void *)((char *)target + rg_md_bytes(md)) - lines_of(set, dims[0]) * set->lanes;
    for (int64_t o = 0; o < dims[0]; o++) {
        const int64_t panel = o / set->width, left = lines_of(set, dims[0] - panel * set->width) * set->lanes;
        const int64_t room = left < set->width ? left : set->width; /* channels of the panel */
        const int8_t *from = (const int8_t *)source + o * s[0];
        int8_t *to = (int8_t *)target + panel * height * width * quads * set->width * 4;

        for (int64_t h = 0; h < height; h++)
            for (int64_t w = 0; w < width; w++, to += quads * room * 4)
                sums[o] += pack_channels(set, from + h * (flat ? s[2] : 0) + w * s[plain->ndims - 1], dims[1], s[1], to,
                                         o % set->width, room);
    }
    return true;
}

/* ------------------------------------------------------------------ which convolutions */

enum { X_ZERO = 2, W = 3, W_SCALE = 4 };

static bool is_linear(const rg_op *op)
{
    return strcmp(op->row->op_type, "QLinearConv") == 0;
}

/* Is there a loop for the windows of g? */
static bool loops_run(const byte_set *set, const kn_window *g)
{
    return g->flat && (g->group == 1 ? depth_fits(set, bytes_in_fours(g->in) * g->kernel[0] * g->kernel[1])
                                     : bytes_depthwise_runs(set, g));
}

bool bytes_runs_conv(const rg_build *b, const rg_op *op)
{
    const bool linear = is_linear(op);
    kn_window g;

    if (b->state->bytes == NULL || b->dims[op->in[linear ? W : 1]][0] < 1)
        return false;
    kn_measure(b, op, &g);
    if (!loops_run(b->state->bytes, &g))
        return false;
    if (linear) {
        const rg_constant *k = &b->c->constants[b->c->values[op->in[W_SCALE]].constant];

        return bytes_scales_fit(op, k->data, rg_count(b, op->in[W_SCALE]));
    }
    return op->in_count <= X_ZERO || op->in[X_ZERO] == INLAY_NONE ||
           b->c->values[op->in[X_ZERO]].constant != INLAY_NONE;
}

bool bytes_offers_conv(const kit_node *node, const rg_op *op, kit_refusal *why)
{
    const bool linear = is_linear(op);
    const byte_set *set = byte_set_of_cpu();
    const inlay_value_info *w = kit_input(node, linear ? W : 1), *scales = linear ? kit_input(node, W_SCALE) : NULL;
    kn_window g = { .flat = op->window.spatial <= 2,
                    .in = w->dims[1].value * op->window.group,
                    .out = w->dims[0].value,
                    .group = op->window.group,
                    .kernel = { 1, 1 },
                    .dilation = { 1, 1 } };

    for (uint32_t i = 0; g.flat && i < op->window.spatial; i++) {
        g.kernel[2 - op->window.spatial + i] = op->window.kernel[i];
        g.dilation[2 - op->window.spatial + i] = op->window.dilations[i];
    }
    if (set == NULL || !loops_run(set, &g))
        return kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX-512 VNNI",
                          "without AVX-512 VNNI there is no exact convolution of bytes for these groups and windows");
    if (!linear)
        return kit_input(node, X_ZERO) == NULL || kit_is_constant(node, X_ZERO) ||
               kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX-512 VNNI",
                          "without AVX-512 VNNI the zero point of input 0 has to be a constant");
    return bytes_scales_fit(op, scales->data, rg_known_count(scales)) ||
           kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX-512 VNNI",
                      "without AVX-512 VNNI scales of sums have to be below 1");
}

/* ------------------------------------------------------------------ lowering */

/* Taps of the window, and how what they see is widened. */
static void find_taps(struct direct *d, const kn_window *g, int64_t pixel, bool merged)
{
    const int64_t depth = d->tap_count * d->quads * 4;
    int64_t at = 0;

    d->window_rows = g->kernel[0];
    d->window_row = g->dilation[0] * g->width * pixel;
    d->window_span = ((g->kernel[1] - 1) * g->dilation[1]) * pixel + bytes_in_fours(g->in);
    if (d->set->wide) {
        const int64_t pixels = STRIP / depth / TILE_PIXELS * TILE_PIXELS, most = STRIP_MOST / depth;
        const int64_t row = (d->row_pixels - 1) * d->s_pixel + d->window_span;

        d->strip = pixels > 0 ? pixels : most < TILE_PIXELS ? most : TILE_PIXELS;
        d->wide_row = d->tap_count > 1 && pixel % 4 == 0 && row * d->window_rows <= STRIP_MOST ? row : 0;
    }
    for (int64_t i = 0; i < g->kernel[0]; i++) {
        for (int64_t j = 0; j < (merged ? 1 : g->kernel[1]); j++, at++) {
            d->taps[at] = i * d->window_row + j * g->dilation[1] * pixel;
            d->taps[d->tap_count + at] = 2 * (i * d->wide_row + j * g->dilation[1] * pixel);
        }
    }
}

static void cut(struct direct *d, uint32_t threads)
{
    const int64_t depth = d->tap_count * d->quads;
    const double flops = 2.0 * (double)(d->rows * d->row_pixels * d->channels) * (double)depth * 4;
    tiles_cut c;

    d->row_tiles = (d->row_pixels + TILE_PIXELS - 1) / TILE_PIXELS;
    d->panels = (d->channels + d->set->width - 1) / d->set->width;
    threads = flops > ALONE_FLOPS ? threads : 1;
    tiles_find_cut(d->rows * d->row_tiles, TILE_PIXELS * d->s_pixel, d->panels, depth, threads, &c);
    d->block = c.block;
    d->chunk = c.chunk;
}

static inlay_status lower_tiles(rg_build *b, bytes_case *c)
{
    const rg_op *op = b->op;
    kn_window *g = &c->w;
    const byte_set *set = b->state->bytes;
    const int64_t room = lines_of(set, g->out) * set->lanes;
    int64_t pixel, tap_count;
    const int32_t *sums;
    int32_t *first;
    float *scale;
    bool merged;
    bytes_ends ends;
    inlay_status status;
    rg_place w, y;
    struct direct *d = NULL;
    rg_md md;

    if (g->padded || g->in % 4 != 0 || !tiles_lie_well(&c->x.md) ||
        (g->kernel[1] > 1 && tiles_pixel_step(&c->x.md) != g->in))
        INLAY_TRY(bytes_add_border(b, c));
    pixel = tiles_pixel_step(&c->x.md);
    merged = g->dilation[1] == 1;
    tap_count = g->kernel[0] * (merged ? 1 : g->kernel[1]);
    if (!bytes_tiles_layout(set, &c->weights, &md))
        return inlay_fail(b->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", op->name);
    INLAY_TRY(rg_read_constant(b, c->w_value, &c->weights, &md, &w));
    sums = bytes_tiles_sums(set, &md, b->instance->buffers[w.buffer].data, g->out);
    INLAY_TRY(bytes_result(b, c, &y));
    d = calloc(1, sizeof *d + 2 * (size_t)tap_count * sizeof d->taps[0] + 3 * (size_t)room * sizeof(float));
    if (d == NULL)
        return q_no_memory(b);
    *d = (struct direct){ .native.run = run_direct,
                          .set = set,
                          .rows = g->images * g->out_height,
                          .row_pixels = g->out_width,
                          .height = g->out_height,
                          .s_image = g->height * g->width * pixel,
                          .s_row = g->stride[0] * g->width * pixel,
                          .s_pixel = g->stride[1] * pixel,
                          .tap_count = tap_count,
                          .quads = bytes_in_fours(g->in) / 4 * (merged ? g->kernel[1] : 1),
                          .channels = g->out,
                          .flip = c->x.md.data_type == DN_S8,
                          .y_bytes = (int64_t)rg_type_bytes(y.md.data_type),
                          .floats = c->floats };
    find_taps(d, g, pixel, merged);
    bytes_end(b, c, &d->ending);
    d->ending.first = first = (int32_t *)(void *)(d->taps + 2 * tap_count);
    d->ending.scale = scale = (float *)(void *)(first + room);
    d->ending.shift = scale + room;
    status = bytes_ends_of(b, c, &ends);
    if (status != INLAY_OK) {
        free(d);
        return status;
    }
    for (int64_t o = 0; o < g->out; o++)
        bytes_end_channel(&ends, o, sums[o], &first[o], &scale[o], &scale[room + o]);
    if (d->s_row == d->row_pixels * d->s_pixel && (g->images == 1 || d->s_image == d->height * d->s_row)) {
        d->row_pixels *= d->rows;
        d->rows = d->height = 1;
    }
    cut(d, b->instance->threads);
    status = bytes_emit(b, c, &w, &y, &d->native);
done:
    return status;
}

/* The image channels last, or as it lies where few channels are copied anyway. */
static inlay_status read_image(rg_build *b, bytes_case *c)
{
    const uint32_t x = b->op->in[0];
    inlay_status status = rg_read(b, x, &c->x);
    rg_md md;

    if (status != INLAY_OK || tiles_lie_well(&c->x.md))
        return status;
    if (c->w.group == 1 && c->w.in <= 4 && c->x.md.kind == RG_BLOCKED && !rg_md_is_blocked(&c->x.md))
        return INLAY_OK;
    rg_md_channels_last(&md, b->ranks[x], b->dims[x]);
    md.data_type = rg_type(b, x);
    return rg_read_as(b, x, &md, &c->x);
}

/* ConvInteger's zero point of x, a constant. */
static int32_t zero_of(rg_build *b, const rg_op *op)
{
    const uint8_t *zero = op->in_count > X_ZERO ? q_constant(b, op->in[X_ZERO]) : NULL;

    return zero == NULL ? 0 : rg_type(b, op->in[X_ZERO]) == DN_S8 ? (int8_t)*zero : *zero;
}

/* What explain says of the activations, and of the error. */
static const char *const bounds[] = {
    [BYTE_BYTES] = "activations of 8 bits as the file has them: sums are exact, results ONNX's to the last bit",
    [BYTE_SUMS] = "activations of 8 bits as the file has them: sums are exact",
    [BYTE_FLOATS] = "activations of 8 bits as the file has them: sums are exact, what follows rounds as floats do",
};

inlay_status bytes_lower_conv(rg_build *b, const rg_group *group, bool *out_done)
{
    const rg_op *op = b->op;
    const bool linear = is_linear(op);
    bytes_case c = { .group = group, .w_value = op->in[linear ? W : 1] };
    inlay_status status;

    *out_done = bytes_runs_conv(b, op);
    if (!*out_done)
        return INLAY_OK;
    kn_measure(b, op, &c.w);
    c.kind = linear ? BYTE_BYTES : rg_type(b, group->out) == DN_S32 ? BYTE_SUMS : BYTE_FLOATS;
    c.x_zero = linear ? op->quantized.zero : zero_of(b, op);
    c.border = (uint8_t)c.x_zero;
    status = bytes_read_posts(b, &c);
    if (status == INLAY_OK)
        status = read_image(b, &c);
    if (status != INLAY_OK)
        return status;
    if (c.x.md.data_type == DN_S8)
        c.x_zero += 128;
    rg_window_weights(b, c.w_value, &c.weights);
    c.weights.data_type = DN_S8;
    if (rg_type(b, c.w_value) == DN_U8)
        q_shift(b, c.w_value);
    status = c.w.group == 1 ? lower_tiles(b, &c) : bytes_lower_depthwise(b, &c);
    return status != INLAY_OK
               ? status
               : kn_remember(b, &(kn_choice){ .op = group->op,
                                              .count = 1,
                                              .source = KN_ONLY,
                                              .why = bounds[c.kind],
                                              .kernel = { c.w.group == 1 ? KN_BYTES_TILES : KN_BYTES_CHANNELS } });
}
