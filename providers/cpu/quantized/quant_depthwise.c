/* Depthwise QLinearConv-10 and ConvInteger-10, in one or two dimensions, by int8 kernels. Results equal the reference's
 * to the last bit.
 *
 * A unit of work is a range of output rows by a few blocks of channels. The addresses of an input row's pixels are in a
 * table, which all windows that read the row share; pixels outside the image point to a pixel of zero points. */
#include "cpu/quantized/bytes.h"
#include "inlay/host.h"
#include "cpu/quantized/quant.h"
#include "cpu/convolution/tiles.h"
#include "cpu/weights/read.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(bytes_pack_depthwise, "cpu_int8_conv");

enum { TABLE_PIXELS = 2048 };

struct depthwise {
    cpu_native native;
    const byte_set *set;
    kernel_conv_shape window;
    int64_t x_pixel, x_image;
    int64_t quads;          /* fours of a window's rows */
    int64_t slots, columns; /* number of row tables; pixels in each */
    int64_t strip;          /* output pixels of a row that the tables cover */
    int64_t part, parts;    /* output rows in a unit, and units of an image's rows */
    int64_t block, blocks;  /* blocks of channels in a unit, and units of the channels */
    bool flip;
    int64_t y_bytes; /* of an element */
    byte_ending ending;
    bytes_floats floats;
    const uint8_t *border; /* a pixel of zero points */
    int32_t room[];        /* storage of first, scale, shift and border */
};

typedef struct depthwise_call {
    const struct depthwise *depthwise;
    void *const *args;
} depthwise_call;

/* RUN_CHANNELS: channels at once if there is an epilogue, so that their floats stay in the first-level cache. */
enum { ALONE_FLOPS = 200000, RUN_CHANNELS = 1024 };

/* Output columns [first, last) of an image, and the tables of input rows: that of row i is in slot i % slots. */
struct strip {
    const uint8_t *input; /* of the image */
    int64_t first, last;
    const uint8_t *pixels[TABLE_PIXELS];
    int64_t row[BYTE_WINDOW]; /* [slots] the row that the slot holds */
};

bool bytes_depthwise_runs(const byte_set *set, const kernel_conv_shape *window)
{
    const int64_t slots = (window->kernel[0] - 1) * window->dilation[0] + 1;

    return window->flat && window->group > 1 && window->in == window->group && window->out == window->group &&
           slots <= BYTE_WINDOW && (set->halves || window->out >= set->block) &&
           slots * ((window->kernel[1] - 1) * window->dilation[1] + 1) <= TABLE_PIXELS;
}

/* The table of input row `at`, which may be outside the image. */
static const uint8_t *const *find_row(const struct depthwise *depthwise, int64_t at, struct strip *strip)
{
    const kernel_conv_shape *window = &depthwise->window;
    const int64_t slot = (at % depthwise->slots + depthwise->slots) % depthwise->slots,
                  first = strip->first * window->stride[1] - window->begin[1];
    const uint8_t **table = &strip->pixels[slot * depthwise->columns];
    const bool inside = at >= 0 && at < window->height;

    if (strip->row[slot] == at)
        return table;
    strip->row[slot] = at;
    for (int64_t i = 0; i < depthwise->columns; i++)
        table[i] = inside && first + i >= 0 && first + i < window->width
                       ? strip->input + (at * window->width + first + i) * depthwise->x_pixel
                       : depthwise->border;
    return table;
}

/* Channels are divided into blocks. A last block that is at most half full is a half block, if the kernels support
 * them; otherwise it is a whole block that overlaps the block before. If all channels are fewer than a block, all
 * blocks are half blocks. */
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

/* Computes `pixels` pixels of a row from index `pixel` on, for the blocks of one kind from `block` on. */
static void compute_pixels(const depthwise_call *call, const uint8_t *const *const *rows, int64_t pixel, int64_t pixels,
                           int64_t block, byte_window *window)
{
    const struct depthwise *depthwise = call->depthwise;
    const int64_t most = window->kind == BYTE_HALF ? 2 * BYTE_PIXELS : BYTE_PIXELS;
    const bool has_epilogue = bytes_has_more(&depthwise->floats);
    float floats[BYTE_PIXELS * RUN_CHANNELS];
    uint8_t *output;

    INLAY_CHECK(!has_epilogue || window->channels <= (window->kind == BYTE_HALF ? RUN_CHANNELS / 2 : RUN_CHANNELS));
    window->weights = (const int8_t *)call->args[BYTES_W] +
                      block * depthwise->set->tap_bytes * depthwise->quads * depthwise->window.kernel[1];
    window->ending = depthwise->ending;
    window->ending.first += block * depthwise->set->block;
    window->ending.scale += block * depthwise->set->block;
    window->ending.shift += block * depthwise->set->block;
    window->channel = block_channel(depthwise->set, depthwise->window.out, block);
    window->y_pixel =
        has_epilogue ? window->channels * (int64_t)sizeof floats[0] : depthwise->window.out * depthwise->y_bytes;
    output = (uint8_t *)call->args[BYTES_Y] + (pixel * depthwise->window.out + window->channel) * depthwise->y_bytes;
    for (int64_t x = 0; x < pixels; x += window->pixels) {
        const int64_t left = pixels - x;

        window->pixels = (int32_t)(left <= most ? left : left < 2 * most ? (left + 1) / 2 : most);
        for (int64_t row = 0; row < 4 * depthwise->quads; row++)
            window->x[row] = rows[row] + x * depthwise->window.stride[1];
        window->output = has_epilogue ? (uint8_t *)floats : output;
        depthwise->set->window(window);
        if (has_epilogue)
            bytes_finish(&depthwise->floats, call->args, floats, pixel + x, window->pixels, window->channel,
                         window->channels, output, depthwise->window.out);
        output += window->pixels * depthwise->window.out * depthwise->y_bytes;
    }
}

/* Computes an output row for blocks [block, past) of channels; pixel: the index of the image's first pixel. */
static void compute_row(const depthwise_call *call, int64_t y, int64_t block, int64_t past, int64_t pixel,
                        struct strip *strip)
{
    const struct depthwise *depthwise = call->depthwise;
    const kernel_conv_shape *window = &depthwise->window;
    const int64_t run = bytes_has_more(&depthwise->floats) ? RUN_CHANNELS / depthwise->set->block : past;
    const int64_t at = y * window->stride[0] - window->begin[0], pixels = strip->last - strip->first,
                  width = depthwise->set->block, whole = window->out / width;
    const uint8_t *const *rows[BYTE_WINDOW];
    byte_window b = { .quads = depthwise->quads,
                      .height = window->kernel[0],
                      .width = window->kernel[1],
                      .stride = window->stride[1],
                      .dilation = window->dilation[1],
                      .flip = depthwise->flip };

    INLAY_CHECK(4 * depthwise->quads <= BYTE_WINDOW && depthwise->slots * depthwise->columns <= TABLE_PIXELS);
    for (int64_t row = 0; row < 4 * depthwise->quads; row++)
        rows[row] = row < window->kernel[0] ? find_row(depthwise, at + row * window->dilation[0], strip) : rows[0];
    pixel += y * window->out_width + strip->first;
    while (block < whole && block < past) {
        const int64_t end = past < whole ? past : whole, next = block + run < end ? block + run : end;

        b.kind = BYTE_WHOLE;
        b.channels = (next - block) * width;
        compute_pixels(call, rows, pixel, pixels, block, &b);
        block = next;
    }
    for (; block < past; block++) {
        const int64_t left = window->out - block_channel(depthwise->set, window->out, block);
        int64_t room;

        b.kind = block_kind(depthwise->set, window->out, block);
        room = b.kind == BYTE_WHOLE ? width : width / 2;
        b.channels = left < room ? left : room;
        compute_pixels(call, rows, pixel, pixels, block, &b);
    }
}

static inlay_status depthwise_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const depthwise_call *call = user;
    const struct depthwise *depthwise = call->depthwise;
    const kernel_conv_shape *window = &depthwise->window;
    const int64_t lines = block_count(depthwise->set, window->out);

    (void)worker;
    for (int64_t u = begin; u < end; u++) {
        const int64_t part = u / depthwise->blocks, image = part / depthwise->parts,
                      top = part % depthwise->parts * depthwise->part;
        const int64_t bottom = top + depthwise->part < window->out_height ? top + depthwise->part : window->out_height;
        const int64_t block = u % depthwise->blocks * depthwise->block,
                      past = block + depthwise->block < lines ? block + depthwise->block : lines;
        struct strip strip;

        strip.input = (const uint8_t *)call->args[BYTES_X] + image * depthwise->x_image;
        for (strip.first = 0; strip.first < window->out_width; strip.first = strip.last) {
            strip.last =
                strip.first + depthwise->strip < window->out_width ? strip.first + depthwise->strip : window->out_width;
            for (int64_t i = 0; i < depthwise->slots; i++)
                strip.row[i] = INT64_MIN;
            for (int64_t h = top; h < bottom; h++)
                compute_row(call, h, block, past, image * window->out_height * window->out_width, &strip);
        }
    }
    return INLAY_OK;
}

static inlay_status run_depthwise(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    const struct depthwise *depthwise = (const struct depthwise *)(const void *)native;
    depthwise_call call = { depthwise, args };
    const int64_t units = depthwise->window.images * depthwise->parts * depthwise->blocks;

    if (threads <= 1 || units < 2 || depthwise->window.flops < ALONE_FLOPS)
        return depthwise_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, depthwise_units, &call);
}

/* Bytes of a packed weight. */
static int64_t weight_bytes(const byte_set *set)
{
    return set->tap_bytes / set->block / 4;
}

/* The packed layout: for each block of channels [fours of rows][width][tap_bytes]; then the sum of each window. It has
 * seven axes, unlike all layouts of convolution weights; the fifth dim is the size of an element. */
static bool depthwise_layout(const byte_set *set, const kernel_conv_shape *window, tensor_layout *layout)
{
    int64_t dims[] = { 1, 1, 1, 1, weight_bytes(set), 0, block_count(set, window->out) * set->block };

    if (__builtin_mul_overflow((window->kernel[0] + 3) / 4 * 4, window->kernel[1], &dims[5]))
        return false;
    dims[5] += (int64_t)sizeof(int32_t) / dims[4];
    layout_plain(layout, 7, dims);
    layout->type = ELEMENT_INT8;
    return true;
}

typedef struct window_plan {
    const byte_set *set;
    byte_block kind;
    int64_t height, width; /* of the window */
    int64_t row, pixel;    /* strides of the original */
} window_plan;

/* Packs the window of one channel into its block; returns the sum of its weights. */
static int32_t pack_window(const window_plan *plan, const int8_t *from, int channel, char *block)
{
    int32_t sum = 0;

    for (int64_t h = 0; h < plan->height; h++) {
        const int at = plan->set->tap_place(plan->kind, channel, (int)(h % 4));

        for (int64_t w = 0; w < plan->width; w++) {
            char *tap = block + (h / 4 * plan->width + w) * plan->set->tap_bytes;
            const int8_t weight = from[h * plan->row + w * plan->pixel];

            sum += weight;
            if (weight_bytes(plan->set) == 1)
                ((int8_t *)tap)[at] = weight;
            else
                ((int16_t *)(void *)tap)[at] = weight; /* NOLINT(bugprone-signed-char-misuse): with its sign */
        }
    }
    return sum;
}

bool bytes_pack_depthwise(const tensor_layout *plain, const void *source, const tensor_layout *layout, void *target)
{
    const byte_set *set = byte_set_of_cpu();
    const int64_t *dims = plain->dims, *s = plain->strides;
    const bool flat = plain->rank == 5; /* groups, 1, 1, height, width */
    window_plan plan = { .set = set,
                         .height = flat ? dims[3] : 1,
                         .width = flat ? dims[4] : dims[3],
                         .row = flat ? s[3] : 0,
                         .pixel = s[plain->rank - 1] };
    int64_t blocks, block_bytes;
    int32_t *sums;

    if (set == NULL || layout->rank != 7 || plain->rank < 4 || plain->rank > 5 || layout->type != ELEMENT_INT8)
        return false;
    blocks = block_count(set, dims[0]);
    block_bytes = (plan.height + 3) / 4 * plan.width * set->tap_bytes;
    memset(target, 0, layout_bytes(layout));
    sums = (int32_t *)(void *)((char *)target + blocks * block_bytes);
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t first = block_channel(set, dims[0], b), left = dims[0] - first;

        plan.kind = block_kind(set, dims[0], b);
        for (int c = 0; c < (plan.kind == BYTE_HALF ? set->block / 2 : set->block) && c < left; c++) {
            const int8_t *from = (const int8_t *)source + (first + c) * s[0];

            sums[first + c] = pack_window(&plan, from, c, (char *)target + b * block_bytes);
            if (plan.kind == BYTE_HALF) /* the weights of the other pixel of the vector */
                (void)pack_window(&plan, from, c, (char *)target + b * block_bytes + set->block / 8 * 4);
        }
    }
    return true;
}

/* Chooses the strip so that its tables fit, and parts and blocks so that threads finish together and few tables are
 * built twice. */
static void divide_work(struct depthwise *depthwise, uint32_t threads)
{
    const kernel_conv_shape *window = &depthwise->window;
    const int64_t span = (window->kernel[1] - 1) * window->dilation[1] + 1,
                  lines = block_count(depthwise->set, window->out);
    const int64_t fit = (TABLE_PIXELS / depthwise->slots - span) / window->stride[1] + 1;
    double best = -1;

    depthwise->strip = window->out_width < fit ? window->out_width : fit;
    depthwise->columns = (depthwise->strip - 1) * window->stride[1] + span;
    INLAY_CHECK(depthwise->strip > 0);
    for (int64_t parts = 1; parts <= (threads > 1 ? 4 * (int64_t)threads : 1) && parts <= window->out_height; parts++) {
        for (int64_t blocks = 1; blocks <= (threads > 1 ? 2 * (int64_t)threads : 1) && blocks <= lines; blocks++) {
            const int64_t part = (window->out_height + parts - 1) / parts, block = (lines + blocks - 1) / blocks;
            const int64_t units =
                window->images * ((window->out_height + part - 1) / part) * ((lines + block - 1) / block);
            const double ns =
                (double)((units + threads - 1) / threads) *
                (100 + (double)(part * window->out_width * block) * (2.5 + 0.4 * (double)window->kernel[1]) +
                 (double)((part - 1) * window->stride[0] + depthwise->slots) * 0.3 * (double)depthwise->columns);

            if (best >= 0 && ns >= best)
                continue;
            best = ns;
            depthwise->part = part;
            depthwise->parts = (window->out_height + part - 1) / part;
            depthwise->block = block;
            depthwise->blocks = (lines + block - 1) / block;
        }
    }
}

/* Computes first, scale and shift of all channels, in the order of byte_set.sum_place. */
static inlay_status end_channels(cpu_build *build, const bytes_case *layer, const int32_t *sums, int32_t *first,
                                 float *scale, float *shift)
{
    const byte_set *set = build->state->bytes;
    const int64_t blocks = block_count(set, layer->window.out);
    bytes_ends ends;
    const inlay_status status = bytes_ends_of(build, layer, &ends);

    for (int64_t k = 0; k < blocks && status == INLAY_OK; k++) {
        const byte_block kind = block_kind(set, layer->window.out, k);
        const int64_t channel = block_channel(set, layer->window.out, k), left = layer->window.out - channel;
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

inlay_status bytes_lower_depthwise(cpu_build *build, const bytes_case *layer)
{
    const cpu_op *op = build->op;
    const byte_set *set = build->state->bytes;
    const int64_t room = block_count(set, layer->window.out) * set->block;
    const int32_t *sums;
    inlay_status status;
    struct depthwise *depthwise = NULL;
    cpu_place weights, output;
    tensor_layout layout;

    if (!depthwise_layout(set, &layer->window, &layout))
        return inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': the window is too large", op->name);
    INLAY_TRY(cpu_read_constant(build, layer->w_value, &layer->weights, &layout, &weights));
    sums = (const int32_t *)(const void *)((const char *)build->instance->buffers[weights.buffer].data +
                                           layout_bytes(&layout) - (size_t)room * sizeof *sums);
    INLAY_TRY(bytes_result(build, layer, &output));
    depthwise = calloc(1, sizeof *depthwise + 3 * (size_t)room * sizeof depthwise->room[0] + (size_t)room);
    if (depthwise == NULL)
        return q_no_memory(build);
    *depthwise = (struct depthwise){ .native.run = run_depthwise,
                                     .set = set,
                                     .window = layer->window,
                                     .x_pixel = tiles_pixel_step(&layer->input.layout),
                                     .quads = (layer->window.kernel[0] + 3) / 4,
                                     .slots = (layer->window.kernel[0] - 1) * layer->window.dilation[0] + 1,
                                     .flip = layer->input.layout.type == ELEMENT_INT8,
                                     .y_bytes = (int64_t)cpu_type_bytes(output.layout.type),
                                     .floats = layer->floats };
    depthwise->x_image = layer->window.height * layer->window.width * depthwise->x_pixel;
    memset(depthwise->room + 3 * room, layer->border, (size_t)room);
    depthwise->border = (const uint8_t *)(depthwise->room + 3 * room);
    bytes_end(build, layer, &depthwise->ending);
    depthwise->ending.first = depthwise->room;
    depthwise->ending.scale = (float *)(void *)(depthwise->room + room);
    depthwise->ending.shift = (float *)(void *)(depthwise->room + 2 * room);
    status = end_channels(build, layer, sums, depthwise->room, (float *)(void *)(depthwise->room + room),
                          (float *)(void *)(depthwise->room + 2 * room));
    if (status != INLAY_OK) {
        free(depthwise);
        return status;
    }
    divide_work(depthwise, build->instance->threads);
    status = bytes_emit(build, layer, &weights, &output, &depthwise->native);
done:
    return status;
}
