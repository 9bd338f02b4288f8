/* Direct tiled convolutions: any kernel size, stride and dilation, one group, one or two dimensions.
 *
 * If the kernel reaches past the image, a copy with a border of zeros is read instead. Then each row of output pixels
 * reads contiguous elements: without dilation, a tap is a whole row of the kernel, with all its pixels and channels. */
#include "cpu/convolution/tiles.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "cpu/layout/moves.h"
#include "cpu/weights/low_bit.h"
#include "cpu/weights/read.h"

/* Copies an image of any layout into a channels-last one with a border. */
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

/* Copies a row of pixels, channel by channel if the channels are not contiguous. */
static void copy_row(const struct border *border, const float *input, float *output)
{
    if (border->s_channel == 1) {
        for (int64_t column = 0; column < border->width; column++)
            memcpy(output + column * border->channels, input + column * border->s_pixel,
                   (size_t)border->channels * sizeof *output);
        return;
    }
    if (border->s_pixel == 1) {
        move_turn(border->moves, input, border->s_channel, output, border->channels, border->channels, border->width);
        return;
    }
    for (int64_t channel = 0; channel < border->channels; channel++)
        for (int64_t column = 0; column < border->width; column++)
            output[column * border->channels + channel] = input[channel * border->s_channel + column * border->s_pixel];
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
        int64_t image = i / border->out_height, row_in = i % border->out_height - border->top;
        float *output = call->output + i * border->out_width * border->channels;

        if (row_in < 0 || row_in >= border->height) {
            memset(output, 0, row * sizeof *output);
            continue;
        }
        memset(output, 0, left * sizeof *output);
        copy_row(border, call->input + image * border->s_image + row_in * border->s_row, output + left);
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

struct direct {
    cpu_native native;
    const tile_set *set;
    const sgemm_kernel *kernel;
    int64_t images, rows, row_pixels;          /* of the output; contiguous rows are merged into one */
    tile_image in, out;                        /* in: floats of x for one step of y */
    int64_t tap_count, depth, chain, channels; /* channels: of the output */
    int64_t row_tiles, block, panels, chunk;   /* tiles of a row, of a block; panels in a chunk */
    bool fetch;
    bool lone;           /* a single row in all */
    uint32_t buffer_arg; /* low-bit weights: buffer of each worker for a panel of floats; INLAY_NONE: float weights */
    uint32_t workers;
    tile_epilogue epilogue;
    int64_t taps[];
};

typedef struct direct_call {
    const struct direct *direct;
    void *const *args;
} direct_call;

/* Multiplies tiles [first, last) by one panel of weights. Each of the first two tiles prefetches half of `next`, if
 * it is not NULL. */
static void one_panel(const direct_call *call, int64_t panel, const float *weights, int64_t first, int64_t last,
                      const float *next)
{
    const struct direct *direct = call->direct;
    const tile_epilogue *epilogue = &direct->epilogue;
    const float *add = epilogue->add != INLAY_NONE ? call->args[epilogue->add] : NULL;
    const float *bias = epilogue->bias != INLAY_NONE ? call->args[epilogue->bias] : NULL;
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
        .add_row = epilogue->add_pixel,
        .c_row = direct->out.pixel,
        .columns = direct->channels - column < TILE_WIDTH ? direct->channels - column : TILE_WIDTH,
        .clamp = epilogue->clamp,
        .lone = direct->lone,
        .low = epilogue->low,
        .high = epilogue->high,
    };

    INLAY_CHECK(panel >= 0 && panel < direct->panels && direct->row_tiles > 0);
    for (int64_t tile = first; tile < last; tile++) {
        int64_t end =
            at + 1 == direct->row_tiles ? direct->row_pixels : (at + 1) * direct->row_pixels / direct->row_tiles;
        int64_t pixel = row * direct->row_pixels + begin, image = direct->rows == 1 ? row : row / direct->rows,
                line = row - image * direct->rows;

        product.a = (const float *)call->args[TILES_X] + begin * direct->in.pixel + image * direct->in.image +
                    line * direct->in.row;
        product.add = add != NULL ? add + pixel * epilogue->add_pixel + column : NULL;
        product.c = (float *)call->args[TILES_Y] + begin * direct->out.pixel + image * direct->out.image +
                    line * direct->out.row + column;
        product.ahead = next != NULL && tile < first + 2 ? next + (tile - first) * panel_floats / 2 : NULL;
        direct->set->multiply(&product, (int)(end - begin));
        if (epilogue->post_count > 0)
            tiles_apply_epilogue(direct->set, direct->kernel, epilogue, call->args, product.c, product.c_row, pixel,
                                 end - begin, column, product.columns);
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
    float *buffer = direct->buffer_arg != INLAY_NONE
                        ? (float *)call->args[direct->buffer_arg] + worker % direct->workers * (uint64_t)panel_floats
                        : NULL;

    for (int64_t unit = begin; unit < end; unit++) {
        int64_t first = unit / chunks * direct->block,
                last = first + direct->block < tiles ? first + direct->block : tiles;
        int64_t panel = unit % chunks * direct->chunk,
                panel_end = panel + direct->chunk < direct->panels ? panel + direct->chunk : direct->panels;

        for (; panel < panel_end; panel++) {
            const float *weights = (const float *)call->args[TILES_W] + panel * panel_floats;

            if (buffer != NULL) {
                low_bit_dequantize(call->args[TILES_W], panel * panel_floats, (panel + 1) * panel_floats, buffer);
                one_panel(call, panel, buffer, first, last, NULL);
            } else {
                one_panel(call, panel, weights, first, last,
                          direct->fetch && panel + 1 < panel_end ? weights + panel_floats : NULL);
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

/* Divides the work: blocks of pixels that stay in the second-level cache while all panels are read, sized so that
 * threads end together and little is read twice. */
static void divide(struct direct *direct, uint32_t threads)
{
    int64_t tiles = direct->images * direct->rows * direct->row_tiles,
            pixels = direct->images * direct->rows * direct->row_pixels;
    int64_t tile_bytes =
        (direct->row_pixels + direct->row_tiles - 1) / direct->row_tiles * direct->in.pixel * (int64_t)sizeof(float);
    double flops = 2.0 * (double)(pixels * direct->channels) * (double)(direct->tap_count * direct->depth);
    tiles_cut division;

    tiles_find_cut(tiles, tile_bytes, (double)direct->panels, direct->tap_count * direct->depth,
                   flops > ALONE_FLOPS ? threads : 1, &division);
    direct->block = division.block;
    direct->chunk = division.chunk;
    direct->fetch = tiles <= FETCHING_TILES;
}

inlay_status tiles_add_border(cpu_build *build, kernel_conv_shape *window, cpu_place *input)
{
    const int64_t *strides = input->layout.strides;
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
                                 .s_image = strides[0],
                                 .s_channel = strides[1],
                                 .s_row = input->layout.rank == 4 ? strides[2] : 0,
                                 .s_pixel = strides[input->layout.rank - 1] };
    inlay_status status;
    cpu_place output;
    tensor_layout packed;

    INLAY_CHECK(dims[2] >= window->height + window->begin[0] && dims[3] >= window->width + window->begin[1]);

    layout_channels_last(&packed, 4, dims);
    INLAY_TRY(cpu_new_place(build, &packed, &output));
    INLAY_TRY(cpu_emit_step(build, &step.native, sizeof step, (const cpu_place *const[]){ input, &output }, 2));
    *input = output;
    window->height = dims[2];
    window->width = dims[3];
done:
    return status;
}

/* Treats contiguous rows as one, and contiguous images of such a row. */
static void merge_rows(struct direct *direct)
{
    if (direct->in.row != direct->row_pixels * direct->in.pixel ||
        direct->out.row != direct->row_pixels * direct->out.pixel)
        return;
    direct->row_pixels *= direct->rows;
    direct->rows = 1;
    if (direct->in.image == direct->row_pixels * direct->in.pixel &&
        direct->out.image == direct->row_pixels * direct->out.pixel) {
        direct->row_pixels *= direct->images;
        direct->images = 1;
    }
}

inlay_status tiles_emit_direct(cpu_build *build, const tiles_window *window, const tile_epilogue *epilogue,
                               const cpu_place **places, uint32_t count)
{
    const int64_t tap_count = window->tap_rows * window->tap_columns;
    inlay_status status;
    cpu_place buffer;
    struct direct *direct = calloc(1, sizeof *direct + (size_t)tap_count * sizeof direct->taps[0]);

    if (direct == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", build->op->name);
    *direct = (struct direct){ .native.run = run_direct,
                               .set = build->state->tiles,
                               .kernel = build->state->sgemm,
                               .images = window->images,
                               .rows = window->rows,
                               .row_pixels = window->columns,
                               .in = window->in,
                               .out = window->out,
                               .tap_count = tap_count,
                               .depth = window->depth,
                               .channels = window->channels,
                               .chain = sgemm_chain(tap_count * window->depth, build->state->strict),
                               .panels = (window->channels + TILE_WIDTH - 1) / TILE_WIDTH,
                               .buffer_arg = INLAY_NONE,
                               .workers = build->instance->threads > 0 ? build->instance->threads : 1,
                               .epilogue = *epilogue };
    for (int64_t tap = 0; tap < tap_count; tap++)
        direct->taps[tap] = window->first_tap + tap / window->tap_columns * window->tap_row +
                            tap % window->tap_columns * window->tap_column;
    merge_rows(direct);
    direct->row_tiles = (direct->row_pixels + TILE_ROWS - 1) / TILE_ROWS;
    direct->lone = !build->state->reproducible && direct->images * direct->rows * direct->row_pixels == 1;
    divide(direct, build->instance->threads);
    if (window->low_bit) {
        status = cpu_new_floats(build, direct->workers * tap_count * window->depth * TILE_WIDTH, &buffer);
        if (status != INLAY_OK) {
            free(direct);
            return status;
        }
        direct->buffer_arg = count;
        places[count++] = &buffer;
    }
    return cpu_emit_native(build, &direct->native, places, count);
}

inlay_status tiles_lower_direct(cpu_build *build, const cpu_op *op, const kernel_layer *layer,
                                const tile_epilogue *epilogue, const cpu_place **places, uint32_t count)
{
    const tensor_layout *weights = &layer->weights;
    kernel_conv_shape window = layer->window;
    const bool narrow = kernel_weights_are_low_bit(build) && build->scales[op->in[0]] == INLAY_NONE,
               merged = window.dilation[1] == 1;
    cpu_place input = *places[TILES_X], weights_place;
    const int64_t y_pixel = tiles_pixel_step(&places[TILES_Y]->layout);
    int64_t pixel;
    inlay_status status;
    tiles_window direct;
    tensor_layout packed;

    if (window.padded || !tiles_accept_layout(&input.layout) ||
        (tiles_pixel_step(&input.layout) != window.in && window.kernel[1] > 1))
        INLAY_TRY(tiles_add_border(build, &window, &input));
    pixel = tiles_pixel_step(&input.layout);
    if (!tiles_panel_layout(weights, &packed))
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", op->name);
    INLAY_TRY((narrow ? low_bit_read_pack : cpu_read_constant)(build, op->in[1], weights, &packed, &weights_place));
    if (build->scales[op->in[0]] != INLAY_NONE)
        INLAY_TRY(tiles_scale_weights(build, build->scales[op->in[0]], window.in, &weights_place));
    direct =
        (tiles_window){ .images = window.images,
                        .rows = window.out_height,
                        .columns = window.out_width,
                        .channels = window.out,
                        .in = { window.height * window.width * pixel, window.stride[0] * window.width * pixel,
                                window.stride[1] * pixel },
                        .out = { window.out_height * window.out_width * y_pixel, window.out_width * y_pixel, y_pixel },
                        .depth = window.in * (merged ? window.kernel[1] : 1),
                        .tap_rows = window.kernel[0],
                        .tap_columns = merged ? 1 : window.kernel[1],
                        .tap_row = window.dilation[0] * window.width * pixel,
                        .tap_column = window.dilation[1] * pixel,
                        .low_bit = narrow };
    places[TILES_X] = &input;
    places[TILES_W] = &weights_place;
    status = tiles_emit_direct(build, &direct, epilogue, places, count);
done:
    return status;
}
