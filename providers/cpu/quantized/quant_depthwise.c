/* QLinearConv-10 and ConvInteger-10 of single channels, in one or two dimensions, by loops over bytes. Results are the
 * reference's to the last bit.
 *
 * A unit of work is a part of the rows and a few blocks of channels. Where the pixels of a row lie is a table that
 * serves all windows that see it; those around the image are one pixel of zero points. */
#include "quantized/bytes.h"
#include "quantized/quant.h"
#include "convolution/tiles.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(bytes_pack_depthwise, "rg_int8_conv");

enum { TABLE_PIXELS = 2048 };

struct depthwise {
    rg_native native;
    const byte_set *set;
    kn_window w;
    int64_t x_pixel, x_image;
    int64_t quads, slots, columns; /* of a window's rows; tables of rows: how many, their pixels */
    int64_t strip;                 /* pixels of a row of the output that tables are for */
    int64_t part, parts;           /* rows of the output in a unit */
    int64_t block, blocks;         /* blocks of channels in a unit, units */
    bool flip;
    int64_t y_bytes; /* of an element */
    byte_ending ending;
    bytes_floats floats;
    const uint8_t *border; /* a pixel of zero points */
    int32_t room[];        /* first, scale, shift, border */
};

typedef struct depthwise_call {
    const struct depthwise *d;
    void *const *args;
} depthwise_call;

/* RUN_CHANNELS: of floats that functions follow, which then lie in the nearest cache. */
enum { ALONE_FLOPS = 200000, RUN_CHANNELS = 1024 };

/* The windows of columns [first, last) of an image, and the rows that they saw: row i is at i % slots. */
struct strip {
    const uint8_t *x; /* of the image */
    int64_t first, last;
    const uint8_t *pixels[TABLE_PIXELS];
    int64_t row[BYTE_WINDOW]; /* which one it is */
};

bool bytes_depthwise_runs(const byte_set *set, const kn_window *w)
{
    const int64_t slots = (w->kernel[0] - 1) * w->dilation[0] + 1;

    return w->flat && w->group > 1 && w->in == w->group && w->out == w->group && slots <= BYTE_WINDOW &&
           (set->halves || w->out >= set->block) && slots * ((w->kernel[1] - 1) * w->dilation[1] + 1) <= TABLE_PIXELS;
}

/* The table of row `at` of the input, which may be around the image. */
static const uint8_t *const *find_row(const struct depthwise *d, int64_t at, struct strip *s)
{
    const kn_window *w = &d->w;
    const int64_t slot = (at % d->slots + d->slots) % d->slots, first = s->first * w->stride[1] - w->begin[1];
    const uint8_t **table = &s->pixels[slot * d->columns];
    const bool inside = at >= 0 && at < w->height;

    if (s->row[slot] == at)
        return table;
    s->row[slot] = at;
    for (int64_t i = 0; i < d->columns; i++)
        table[i] = inside && first + i >= 0 && first + i < w->width ? s->x + (at * w->width + first + i) * d->x_pixel
                                                                    : d->border;
    return table;
}

/* How channels are cut: blocks, of which the last lies over the one before where it is more than half full, or where
 * there are no halves, or else is a half; few channels are halves alone. */
static int64_t block_width(const byte_set *set, int64_t channels)
{
    return channels < set->block ? set->block / 2 : set->block;
}

static int64_t block_count(const byte_set *set, int64_t channels)
{
    return (channels + block_width(set, channels) - 1) / block_width(set, channels);
}

static byte_block block_kind(const byte_set *set, int64_t channels, int64_t block)
{
    return !set->halves || (channels >= set->block && channels - block * set->block > set->block / 2) ? BYTE_WHOLE
                                                                                                      : BYTE_HALF;
}

static int64_t block_channel(const byte_set *set, int64_t channels, int64_t block)
{
    const int64_t first = block * block_width(set, channels);

    return block_kind(set, channels, block) == BYTE_WHOLE && first + set->block > channels ? channels - set->block
                                                                                           : first;
}

/* Pixels of a row, the first of which is number `pixel`, by blocks of one kind from number `block` on. */
static void one_run(const depthwise_call *call, const uint8_t *const *const *rows, int64_t pixel, int64_t pixels,
                    int64_t block, byte_window *b)
{
    const struct depthwise *d = call->d;
    const int64_t most = b->kind == BYTE_HALF ? 2 * BYTE_PIXELS : BYTE_PIXELS;
    const bool is_more = bytes_has_more(&d->floats);
    float floats[BYTE_PIXELS * RUN_CHANNELS];
    uint8_t *y;

    b->w = (const int8_t *)call->args[BYTES_W] + block * d->set->tap_bytes * d->quads * d->w.kernel[1];
    b->ending = d->ending;
    b->ending.first += block * d->set->block;
    b->ending.scale += block * d->set->block;
    b->ending.shift += block * d->set->block;
    b->channel = block_channel(d->set, d->w.out, block);
    b->y_pixel = is_more ? b->channels * (int64_t)sizeof floats[0] : d->w.out * d->y_bytes;
    y = (uint8_t *)call->args[BYTES_Y] + (pixel * d->w.out + b->channel) * d->y_bytes;
    for (int64_t x = 0; x < pixels; x += b->pixels) {
        const int64_t left = pixels - x;

        b->pixels = (int32_t)(left <= most ? left : left < 2 * most ? (left + 1) / 2 : most);
        for (int64_t r = 0; r < 4 * d->quads; r++)
            b->x[r] = rows[r] + x * d->w.stride[1];
        b->y = is_more ? (uint8_t *)floats : y;
        d->set->window(b);
        if (is_more)
            bytes_finish(&d->floats, call->args, floats, pixel + x, b->pixels, b->channel, b->channels, y, d->w.out);
        y += b->pixels * d->w.out * d->y_bytes;
    }
}

/* Blocks [block, past) of channels; pixel: the number of the image's first one. */
static void one_row(const depthwise_call *call, int64_t y, int64_t block, int64_t past, int64_t pixel, struct strip *s)
{
    const struct depthwise *d = call->d;
    const kn_window *w = &d->w;
    const int64_t run = bytes_has_more(&d->floats) ? RUN_CHANNELS / d->set->block : past;
    const int64_t at = y * w->stride[0] - w->begin[0], pixels = s->last - s->first, width = d->set->block,
                  whole = w->out / width;
    const uint8_t *const *rows[BYTE_WINDOW];
    byte_window b = { .quads = d->quads,
                      .height = w->kernel[0],
                      .width = w->kernel[1],
                      .stride = w->stride[1],
                      .dilation = w->dilation[1],
                      .flip = d->flip };

    for (int64_t r = 0; r < 4 * d->quads; r++)
        rows[r] = r < w->kernel[0] ? find_row(d, at + r * w->dilation[0], s) : rows[0];
    pixel += y * w->out_width + s->first;
    while (block < whole && block < past) {
        const int64_t end = past < whole ? past : whole, next = block + run < end ? block + run : end;

        b.kind = BYTE_WHOLE;
        b.channels = (next - block) * width;
        one_run(call, rows, pixel, pixels, block, &b);
        block = next;
    }
    for (; block < past; block++) {
        const int64_t left = w->out - block_channel(d->set, w->out, block);
        int64_t room;

        b.kind = block_kind(d->set, w->out, block);
        room = b.kind == BYTE_WHOLE ? width : width / 2;
        b.channels = left < room ? left : room;
        one_run(call, rows, pixel, pixels, block, &b);
    }
}

static inlay_status depthwise_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const depthwise_call *call = user;
    const struct depthwise *d = call->d;
    const kn_window *w = &d->w;
    const int64_t lines = block_count(d->set, w->out);

    (void)worker;
    for (int64_t u = begin; u < end; u++) {
        const int64_t part = u / d->blocks, image = part / d->parts, top = part % d->parts * d->part;
        const int64_t bottom = top + d->part < w->out_height ? top + d->part : w->out_height;
        const int64_t block = u % d->blocks * d->block, past = block + d->block < lines ? block + d->block : lines;
        struct strip s;

        s.x = (const uint8_t *)call->args[BYTES_X] + image * d->x_image;
        for (s.first = 0; s.first < w->out_width; s.first = s.last) {
            s.last = s.first + d->strip < w->out_width ? s.first + d->strip : w->out_width;
            for (int64_t i = 0; i < d->slots; i++)
                s.row[i] = INT64_MIN;
            for (int64_t h = top; h < bottom; h++)
                one_row(call, h, block, past, image * w->out_height * w->out_width, &s);
        }
    }
    return INLAY_OK;
}

static inlay_status run_depthwise(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    const struct depthwise *d = (const struct depthwise *)(const void *)native;
    depthwise_call call = { d, args };
    const int64_t units = d->w.images * d->parts * d->blocks;

    if (threads <= 1 || units < 2 || d->w.flops < ALONE_FLOPS)
        return depthwise_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, depthwise_units, &call);
}

/* ------------------------------------------------------------------ weights */

/* Bytes of an element of the weights. */
static int64_t element(const byte_set *set)
{
    return set->tap_bytes / set->block / 4;
}

/* The layout: for each block of channels [quads of rows][width][tap_bytes]; then the sum of each window. Seven axes,
 * which no weights have, tell it from others, the fifth what an element has. */
static bool depthwise_layout(const byte_set *set, const kn_window *w, rg_md *md)
{
    int64_t dims[] = { 1, 1, 1, 1, element(set), 0, block_count(set, w->out) * set->block };

    if (__builtin_mul_overflow((w->kernel[0] + 3) / 4 * 4, w->kernel[1], &dims[5]))
        return false;
    dims[5] += (int64_t)sizeof(int32_t) / dims[4];
    rg_md_plain(md, 7, dims);
    md->data_type = DN_S8;
    return true;
}

/* The window of one channel of a block of weights, how it lies there; its sum. */
typedef struct window_plan {
    const byte_set *set;
    byte_block kind;
    int64_t height, width, row, pixel; /* of the window; steps of the original */
} window_plan;

static int32_t pack_window(const window_plan *p, const int8_t *from, int channel, char *block)
{
    int32_t sum = 0;

    for (int64_t h = 0; h < p->height; h++) {
        const int at = p->set->tap_place(p->kind, channel, (int)(h % 4));

        for (int64_t w = 0; w < p->width; w++) {
            char *tap = block + (h / 4 * p->width + w) * p->set->tap_bytes;
            const int8_t weight = from[h * p->row + w * p->pixel];

            sum += weight;
            if (element(p->set) == 1)
                ((int8_t *)tap)[at] = weight;
            else
                ((int16_t *)(void *)tap)[at] = weight; /* NOLINT(bugprone-signed-char-misuse): with its sign */
        }
    }
    return sum;
}

bool bytes_pack_depthwise(const rg_md *plain, const void *source, const rg_md *md, void *target)
{
    const byte_set *set = byte_set_of_cpu();
    const int64_t *dims = plain->dims, *s = plain->strides;
    const bool flat = plain->ndims == 5; /* groups, 1, 1, height, width */
    window_plan p = { .set = set,
                      .height = flat ? dims[3] : 1,
                      .width = flat ? dims[4] : dims[3],
                      .row = flat ? s[3] : 0,
                      .pixel = s[plain->ndims - 1] };
    int64_t blocks, block_bytes;
    int32_t *sums;

    if (set == NULL || md->ndims != 7 || plain->ndims < 4 || plain->ndims > 5 || md->data_type != DN_S8)
        return false;
    blocks = block_count(set, dims[0]);
    block_bytes = (p.height + 3) / 4 * p.width * set->tap_bytes;
    memset(target, 0, rg_md_bytes(md));
    sums = (int32_t *)(void *)((char *)target + blocks * block_bytes);
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t first = block_channel(set, dims[0], b), left = dims[0] - first;

        p.kind = block_kind(set, dims[0], b);
        for (int c = 0; c < (p.kind == BYTE_HALF ? set->block / 2 : set->block) && c < left; c++) {
            const int8_t *from = (const int8_t *)source + (first + c) * s[0];

            sums[first + c] = pack_window(&p, from, c, (char *)target + b * block_bytes);
            if (p.kind == BYTE_HALF) /* the other pixel's */
                (void)pack_window(&p, from, c, (char *)target + b * block_bytes + set->block / 8 * 4);
        }
    }
    return true;
}

/* ------------------------------------------------------------------ lowering */

/* Strips whose tables fit; parts and blocks so that threads end together, and few rows of tables are made twice. */
static void cut(struct depthwise *d, uint32_t threads)
{
    const kn_window *w = &d->w;
    const int64_t span = (w->kernel[1] - 1) * w->dilation[1] + 1, lines = block_count(d->set, w->out);
    const int64_t fit = (TABLE_PIXELS / d->slots - span) / w->stride[1] + 1;
    double best = -1;

    d->strip = w->out_width < fit ? w->out_width : fit;
    d->columns = (d->strip - 1) * w->stride[1] + span;
    for (int64_t parts = 1; parts <= (threads > 1 ? 4 * (int64_t)threads : 1) && parts <= w->out_height; parts++) {
        for (int64_t blocks = 1; blocks <= (threads > 1 ? 2 * (int64_t)threads : 1) && blocks <= lines; blocks++) {
            const int64_t part = (w->out_height + parts - 1) / parts, block = (lines + blocks - 1) / blocks;
            const int64_t units = w->images * ((w->out_height + part - 1) / part) * ((lines + block - 1) / block);
            const double ns = (double)((units + threads - 1) / threads) *
                              (100 + (double)(part * w->out_width * block) * (2.5 + 0.4 * (double)w->kernel[1]) +
                               (double)((part - 1) * w->stride[0] + d->slots) * 0.3 * (double)d->columns);

            if (best >= 0 && ns >= best)
                continue;
            best = ns;
            d->part = part;
            d->parts = (w->out_height + part - 1) / part;
            d->block = block;
            d->blocks = (lines + block - 1) / block;
        }
    }
}

/* What there is one of for each channel, in the order of blocks. */
static inlay_status end_channels(rg_build *b, const bytes_case *c, const int32_t *sums, int32_t *first, float *scale,
                                 float *shift)
{
    const byte_set *set = b->state->bytes;
    const int64_t blocks = block_count(set, c->w.out);
    bytes_ends ends;
    const inlay_status status = bytes_ends_of(b, c, &ends);

    for (int64_t k = 0; k < blocks && status == INLAY_OK; k++) {
        const byte_block kind = block_kind(set, c->w.out, k);
        const int64_t channel = block_channel(set, c->w.out, k), left = c->w.out - channel;
        const int width = kind == BYTE_HALF ? set->block / 2 : set->block;

        for (int i = 0; i < width && i < left; i++) {
            const int64_t to = k * set->block + set->sum_place(kind, i);

            bytes_end_channel(&ends, channel + i, sums[channel + i], &first[to], &scale[to], &shift[to]);
            if (kind == BYTE_HALF) {
                first[to + set->block / 8] = first[to];
                scale[to + set->block / 8] = scale[to];
                shift[to + set->block / 8] = shift[to];
            }
        }
    }
    return status;
}

inlay_status bytes_lower_depthwise(rg_build *b, const bytes_case *c)
{
    const rg_op *op = b->op;
    const byte_set *set = b->state->bytes;
    const int64_t room = block_count(set, c->w.out) * set->block;
    const int32_t *sums;
    inlay_status status;
    struct depthwise *d = NULL;
    rg_place w, y;
    rg_md md;

    if (!depthwise_layout(set, &c->w, &md))
        return inlay_fail(b->diag, INLAY_UNSUPPORTED, "node '%s': its windows are too large", op->name);
    INLAY_TRY(rg_read_constant(b, c->w_value, &c->weights, &md, &w));
    sums = (const int32_t *)(const void *)((const char *)b->instance->buffers[w.buffer].data + rg_md_bytes(&md) -
                                           (size_t)room * sizeof *sums);
    INLAY_TRY(bytes_result(b, c, &y));
    d = calloc(1, sizeof *d + 3 * (size_t)room * sizeof d->room[0] + (size_t)room);
    if (d == NULL)
        return q_no_memory(b);
    *d = (struct depthwise){ .native.run = run_depthwise,
                             .set = set,
                             .w = c->w,
                             .x_pixel = tiles_pixel_step(&c->x.md),
                             .quads = (c->w.kernel[0] + 3) / 4,
                             .slots = (c->w.kernel[0] - 1) * c->w.dilation[0] + 1,
                             .flip = c->x.md.data_type == DN_S8,
                             .y_bytes = (int64_t)rg_type_bytes(y.md.data_type),
                             .floats = c->floats };
    d->x_image = c->w.height * c->w.width * d->x_pixel;
    memset(d->room + 3 * room, c->border, (size_t)room);
    d->border = (const uint8_t *)(d->room + 3 * room);
    bytes_end(b, c, &d->ending);
    d->ending.first = d->room;
    d->ending.scale = (float *)(void *)(d->room + room);
    d->ending.shift = (float *)(void *)(d->room + 2 * room);
    status =
        end_channels(b, c, sums, d->room, (float *)(void *)(d->room + room), (float *)(void *)(d->room + 2 * room));
    if (status != INLAY_OK) {
        free(d);
        return status;
    }
    cut(d, b->instance->threads);
    status = bytes_emit(b, c, &w, &y, &d->native);
done:
    return status;
}
