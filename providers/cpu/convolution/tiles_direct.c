/* Convolutions by tiles as they are written: any window, stride and dilation, one group, in one or two dimensions.
 *
 * Where a window reaches past the image, a copy with a border of zeros is read instead. Then each row of output pixels
 * reads rows of elements that lie one after the other: a tap is a row of the window, all of its pixels and channels. */
#include "convolution/tiles.h"
#include "convolution/window.h"
#include "layout/moves.h"
#include "weights/narrow.h"

/* ------------------------------------------------------------------ the border */

/* Copies an image, however it lies, into one with channels last and a border. */
struct border {
    cpu_native native;
    const move_set *moves;
    int64_t images, channels, height, width;
    int64_t top, left, out_height, out_width;
    int64_t s_image, s_channel, s_row, s_pixel; /* of the source */
};

typedef struct border_call {
    const struct border *border;
    const float *input;
    float *output;
} border_call;

/* A row of pixels whose channels are apart: a row of each channel at a time, since that is how they lie. */
static void copy_row(const struct border *border, const float *input, float *output)
{
    if (border->s_channel == 1) {
        for (int64_t w = 0; w < border->width; w++)
            memcpy(output + w * border->channels, input + w * border->s_pixel,
                   (size_t)border->channels * sizeof *output);
        return;
    }
    if (border->s_pixel == 1) {
        border->moves->turn(input, border->s_channel, output, border->channels, border->channels, border->width);
        return;
    }
    for (int64_t c = 0; c < border->channels; c++)
        for (int64_t w = 0; w < border->width; w++)
            output[w * border->channels + c] = input[c * border->s_channel + w * border->s_pixel];
}

static inlay_status border_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const border_call *call = user;
    const struct border *border = call->border;
    const size_t left = (size_t)(border->left * border->channels),
                 right = (size_t)((border->out_width - border->left - border->width) * border->channels),
                 row = (size_t)(border->out_width * border->channels);

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t image = i / border->out_height, h = i % border->out_height - border->top;
        float *output = call->output + i * border->out_width * border->channels;

        if (h < 0 || h >= border->height) {
            memset(output, 0, row * sizeof *output);
            continue;
        }
        memset(output, 0, left * sizeof *output);
        copy_row(border, call->input + image * border->s_image + h * border->s_row, output + left);
        memset(output + left + border->width * border->channels, 0, right * sizeof *output);
    }
    return INLAY_OK;
}

enum { GRAIN_FLOATS = 1 << 15 };

static inlay_status run_border(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct border *border = (const struct border *)(const void *)native;
    border_call call = { border, args[0], args[1] };
    int64_t rows = border->images * border->out_height,
            grain = GRAIN_FLOATS / (border->out_width * border->channels) + 1;

    if (threads <= 1 || rows <= grain)
        return border_rows(&call, 0, rows, 0);
    return state->host->parallel_for(state->host->ctx, run, rows, grain, border_rows, &call);
}

/* ------------------------------------------------------------------ the product */

struct direct {
    cpu_native native;
    const tile_set *set;
    const sgemm_kernel *kernel;
    int64_t images, rows, row_pixels;          /* of the output; rows that run on into each other are one */
    tile_image in;                             /* steps in x for steps in y */
    int64_t tap_count, depth, chain, channels; /* channels: of y */
    int64_t y_pixel;
    int64_t row_tiles, block, panels, chunk; /* tiles of a row, of a block; panels in a chunk */
    bool fetch;
    bool lone; /* one row in all */
    uint32_t
        room_arg; /* of weights of few bits: where each worker makes floats of a panel; INLAY_NONE: they are floats */
    uint32_t workers;
    tile_ending ending;
    int64_t taps[];
};

typedef struct direct_call {
    const struct direct *direct;
    void *const *args;
} direct_call;

/* One panel of weights, weights, by tiles [first, last): each of the first two fetches half of `next`, if there is one.
 */
static void one_panel(const direct_call *call, int64_t panel, const float *weights, int64_t first, int64_t last,
                      const float *next)
{
    const struct direct *direct = call->direct;
    const tile_ending *ending = &direct->ending;
    const float *add = ending->add != INLAY_NONE ? call->args[ending->add] : NULL;
    const float *bias = ending->bias != INLAY_NONE ? call->args[ending->bias] : NULL;
    int64_t column = panel * TILE_WIDTH, panel_floats = direct->tap_count * direct->depth * TILE_WIDTH;
    int64_t row = first / direct->row_tiles, at = first % direct->row_tiles,
            begin = at * direct->row_pixels / direct->row_tiles;
    tile_product product = {
        .a_row = direct->in.pixel,
        .taps = direct->taps,
        .tap_count = direct->tap_count,
        .depth = direct->depth,
        .chain = direct->chain,
        .b = weights,
        .ahead_lines = 1,
        .bias = bias != NULL ? bias + column : NULL,
        .add_row = ending->add_pixel,
        .c_row = direct->y_pixel,
        .columns = direct->channels - column < TILE_WIDTH ? direct->channels - column : TILE_WIDTH,
        .clamp = ending->clamp,
        .lone = direct->lone,
        .low = ending->low,
        .high = ending->high,
    };

    for (int64_t t = first; t < last; t++) {
        int64_t end =
            at + 1 == direct->row_tiles ? direct->row_pixels : (at + 1) * direct->row_pixels / direct->row_tiles;
        int64_t pixel = row * direct->row_pixels + begin;

        product.a = (const float *)call->args[TILES_X] + begin * direct->in.pixel +
                    (direct->rows == 1 ? row * direct->in.image
                                       : row / direct->rows * direct->in.image + row % direct->rows * direct->in.row);
        product.add = add != NULL ? add + pixel * ending->add_pixel + column : NULL;
        product.c = (float *)call->args[TILES_Y] + pixel * direct->y_pixel + column;
        product.ahead = next != NULL && t < first + 2 ? next + (t - first) * panel_floats / 2 : NULL;
        direct->set->multiply(&product, (int)(end - begin));
        if (ending->post_count > 0)
            tiles_end(direct->set, direct->kernel, ending, call->args, product.c, product.c_row, pixel, end - begin,
                      column, product.columns);
        begin = end;
        if (++at == direct->row_tiles) {
            at = begin = 0;
            row++;
        }
    }
}

enum { ALONE_FLOPS = 400000, FETCHING_TILES = 8 };

/* Units: blocks of tiles by chunks of panels. */
static inlay_status direct_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const direct_call *call = user;
    const struct direct *direct = call->direct;
    int64_t chunks = (direct->panels + direct->chunk - 1) / direct->chunk,
            tiles = direct->images * direct->rows * direct->row_tiles;
    int64_t panel_floats = direct->tap_count * direct->depth * TILE_WIDTH;
    float *room = direct->room_arg != INLAY_NONE
                      ? (float *)call->args[direct->room_arg] + worker % direct->workers * (uint64_t)panel_floats
                      : NULL;

    for (int64_t u = begin; u < end; u++) {
        int64_t first = u / chunks * direct->block,
                last = first + direct->block < tiles ? first + direct->block : tiles;
        int64_t panel = u % chunks * direct->chunk,
                past = panel + direct->chunk < direct->panels ? panel + direct->chunk : direct->panels;

        for (; panel < past; panel++) {
            const float *weights = (const float *)call->args[TILES_W] + panel * panel_floats;

            if (room != NULL) {
                narrow_unfold(call->args[TILES_W], panel * panel_floats, (panel + 1) * panel_floats, room);
                one_panel(call, panel, room, first, last, NULL);
            } else {
                one_panel(call, panel, weights, first, last,
                          direct->fetch && panel + 1 < past ? weights + panel_floats : NULL);
            }
        }
    }
    return INLAY_OK;
}

static inlay_status run_direct(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct direct *direct = (const struct direct *)(const void *)native;
    direct_call call = { direct, args };
    int64_t tiles = direct->images * direct->rows * direct->row_tiles;
    int64_t units =
        (tiles + direct->block - 1) / direct->block * ((direct->panels + direct->chunk - 1) / direct->chunk);

    if (threads <= 1 || units < 2)
        return direct_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, direct_units, &call);
}

/* How the work is cut: pixels in blocks that stay in the second-level cache while all panels pass, and both so that
 * threads end together, without reading much twice. */
static void cut(struct direct *direct, uint32_t threads)
{
    int64_t tiles = direct->images * direct->rows * direct->row_tiles,
            pixels = direct->images * direct->rows * direct->row_pixels;
    int64_t tile_bytes =
        (direct->row_pixels + direct->row_tiles - 1) / direct->row_tiles * direct->in.pixel * (int64_t)sizeof(float);
    double flops = 2.0 * (double)(pixels * direct->channels) * (double)(direct->tap_count * direct->depth);
    tiles_cut c;

    tiles_find_cut(tiles, tile_bytes, direct->panels, direct->tap_count * direct->depth,
                   flops > ALONE_FLOPS ? threads : 1, &c);
    direct->block = c.block;
    direct->chunk = c.chunk;
    direct->fetch = tiles <= FETCHING_TILES;
}

/* ------------------------------------------------------------------ lowering */

/* input in a copy with a border; *window then has the size of the copy. */
static inlay_status add_border(cpu_build *build, kernel_conv_shape *window, cpu_place *input)
{
    const int64_t *s = input->md.strides;
    const int64_t dims[] = { window->images, window->in, window->height + window->begin[0] + window->end[0],
                             window->width + window->begin[1] + window->end[1] };
    const struct border step = { .native.run = run_border,
                                 .moves = moves_of_cpu(),
                                 .images = window->images,
                                 .channels = window->in,
                                 .height = window->height,
                                 .width = window->width,
                                 .top = window->begin[0],
                                 .left = window->begin[1],
                                 .out_height = dims[2],
                                 .out_width = dims[3],
                                 .s_image = s[0],
                                 .s_channel = s[1],
                                 .s_row = input->md.ndims == 4 ? s[2] : 0,
                                 .s_pixel = s[input->md.ndims - 1] };
    inlay_status status;
    cpu_place output;
    memory_desc md;

    memory_desc_channels_last(&md, 4, dims);
    INLAY_TRY(cpu_new_place(build, &md, &output));
    INLAY_TRY(cpu_emit_step(build, &step.native, sizeof step, (const cpu_place *const[]){ input, &output }, 2));
    *input = output;
    window->height = dims[2];
    window->width = dims[3];
done:
    return status;
}

inlay_status tiles_lower_direct(cpu_build *build, const cpu_op *op, const kernel_layer *layer,
                                const tile_ending *ending, const cpu_place **places, uint32_t count)
{
    const memory_desc *weights = &layer->weights;
    kernel_conv_shape window = layer->window;
    const bool narrow = kernel_weights_are_low_bit(build) && build->scales[op->in[0]] == INLAY_NONE;
    cpu_place input = *places[TILES_X], w, room;
    bool merged;
    int64_t tap_count, pixel, at = 0;
    inlay_status status;
    struct direct *direct;
    memory_desc md;

    if (window.padded || !tiles_lie_well(&input.md) ||
        (tiles_pixel_step(&input.md) != window.in && window.kernel[1] > 1))
        INLAY_TRY(add_border(build, &window, &input));
    pixel = tiles_pixel_step(&input.md);
    if (!tiles_panel_layout(weights, &md))
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", op->name);
    INLAY_TRY((narrow ? narrow_read_pack : cpu_read_constant)(build, op->in[1], weights, &md, &w));
    if (build->scales[op->in[0]] != INLAY_NONE)
        INLAY_TRY(tiles_scale_weights(build, build->scales[op->in[0]], window.in, &w));
    merged = window.dilation[1] == 1;
    tap_count = window.kernel[0] * (merged ? 1 : window.kernel[1]);
    direct = calloc(1, sizeof *direct + (size_t)tap_count * sizeof direct->taps[0]);
    if (direct == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
    *direct =
        (struct direct){ .native.run = run_direct,
                         .set = build->state->tiles,
                         .kernel = build->state->sgemm,
                         .images = window.images,
                         .rows = window.out_height,
                         .row_pixels = window.out_width,
                         .in = { window.height * window.width * pixel, window.stride[0] * window.width * pixel,
                                 window.stride[1] * pixel },
                         .tap_count = tap_count,
                         .depth = window.in * (merged ? window.kernel[1] : 1),
                         .channels = window.out,
                         .chain = sgemm_chain(window.in * window.kernel[0] * window.kernel[1], build->state->strict),
                         .y_pixel = tiles_pixel_step(&places[TILES_Y]->md),
                         .panels = (window.out + TILE_WIDTH - 1) / TILE_WIDTH,
                         .room_arg = INLAY_NONE,
                         .workers = build->instance->threads > 0 ? build->instance->threads : 1,
                         .ending = *ending };
    for (int64_t i = 0; i < window.kernel[0]; i++)
        for (int64_t j = 0; j < (merged ? 1 : window.kernel[1]); j++)
            direct->taps[at++] = (i * window.dilation[0] * window.width + j * window.dilation[1]) * pixel;
    if (direct->in.row ==
        direct->row_pixels * direct->in.pixel) { /* rows run on into each other, images perhaps, too */
        direct->row_pixels *= direct->rows;
        direct->rows = 1;
        if (direct->in.image == direct->row_pixels * direct->in.pixel) {
            direct->row_pixels *= direct->images;
            direct->images = 1;
        }
    }
    direct->row_tiles = (direct->row_pixels + TILE_ROWS - 1) / TILE_ROWS;
    direct->lone = !build->state->reproducible && direct->images * direct->rows * direct->row_pixels == 1;
    cut(direct, build->instance->threads);
    places[TILES_X] = &input;
    places[TILES_W] = &w;
    if (narrow) {
        memory_desc_plain(&md, 1,
                          (const int64_t[]){ direct->workers * direct->tap_count * direct->depth * TILE_WIDTH });
        status = cpu_new_place(build, &md, &room);
        direct->room_arg = count;
        places[count++] = &room;
    }
    if (status != INLAY_OK)
        free(direct);
    else
        status = cpu_emit_native(build, &direct->native, places, count);
done:
    return status;
}
