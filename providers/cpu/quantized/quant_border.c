/* Images of bytes in a copy: channels last in fours, and a border of zero points, for windows that reach past the image
 * (quant_tiles.c). */
#include "quantized/bytes.h"

/* Copies an image, however it lies, into one with channels last in fours, and a border. */
struct border {
    rg_native native;
    const byte_set *set;
    int64_t images, channels, pixel; /* pixel: bytes of one of the copy */
    int64_t height, width, top, left, out_height, out_width;
    int64_t s_image, s_channel, s_row, s_pixel; /* of the source */
    uint8_t value;
};

typedef struct border_call {
    const struct border *b;
    const uint8_t *x;
    uint8_t *y;
} border_call;

static void copy_row(const struct border *b, const uint8_t *x, uint8_t *y)
{
    if (b->s_channel == 1 && b->s_pixel == b->pixel && b->channels == b->pixel) {
        memcpy(y, x, (size_t)(b->width * b->pixel));
    } else if (b->s_channel == 1) {
        for (int64_t w = 0; w < b->width; w++)
            memcpy(y + w * b->pixel, x + w * b->s_pixel, (size_t)b->channels);
    } else if (b->pixel == 4 && b->s_pixel == 1) {
        b->set->interleave(x, b->s_channel, b->channels, b->width, y);
    } else {
        for (int64_t c = 0; c < b->channels; c++)
            for (int64_t w = 0; w < b->width; w++)
                y[w * b->pixel + c] = x[c * b->s_channel + w * b->s_pixel];
    }
}

static inlay_status border_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const border_call *call = user;
    const struct border *b = call->b;
    const size_t row = (size_t)(b->out_width * b->pixel), left = (size_t)(b->left * b->pixel);
    const size_t inner = (size_t)(b->width * b->pixel);

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t image = i / b->out_height, h = i % b->out_height - b->top;
        uint8_t *y = call->y + (size_t)i * row;

        if (h < 0 || h >= b->height) {
            memset(y, b->value, row);
            continue;
        }
        memset(y, b->value, left);
        copy_row(b, call->x + image * b->s_image + h * b->s_row, y + left);
        memset(y + left + inner, b->value, row - left - inner);
    }
    return INLAY_OK;
}

enum { GRAIN_BYTES = 1 << 16 };

static inlay_status run_border(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct border *b = (const struct border *)(const void *)native;
    border_call call = { b, args[0], args[1] };
    const int64_t rows = b->images * b->out_height, grain = GRAIN_BYTES / (b->out_width * b->pixel) + 1;

    if (threads <= 1 || rows <= grain)
        return border_rows(&call, 0, rows, 0);
    return state->host->parallel_for(state->host->ctx, run, rows, grain, border_rows, &call);
}

inlay_status bytes_add_border(rg_build *b, bytes_case *c)
{
    kn_window *g = &c->w;
    const int64_t *s = c->x.md.strides;
    const int64_t dims[] = { g->images, bytes_in_fours(g->in), g->height + g->begin[0] + g->end[0],
                             g->width + g->begin[1] + g->end[1] };
    const struct border step = { .native.run = run_border,
                                 .set = b->state->bytes,
                                 .images = g->images,
                                 .channels = g->in,
                                 .pixel = dims[1],
                                 .height = g->height,
                                 .width = g->width,
                                 .top = g->begin[0],
                                 .left = g->begin[1],
                                 .out_height = dims[2],
                                 .out_width = dims[3],
                                 .s_image = s[0],
                                 .s_channel = s[1],
                                 .s_row = c->x.md.ndims == 4 ? s[2] : 0,
                                 .s_pixel = s[c->x.md.ndims - 1],
                                 .value = c->border };
    inlay_status status;
    rg_place y;
    rg_md md;

    rg_md_channels_last(&md, 4, dims);
    md.data_type = c->x.md.data_type;
    INLAY_TRY(rg_new_place(b, &md, &y));
    INLAY_TRY(rg_emit_step(b, &step.native, sizeof step, (const rg_place *const[]){ &c->x, &y }, 2));
    c->x = y;
    g->height = dims[2];
    g->width = dims[3];
done:
    return status;
}
