/* Padded copies of int8 images: channels last, the number of channels rounded up to a multiple of 4, with a border of
 * zero points, for windows that reach past the image (quant_tiles.c). */
#include "cpu/quantized/bytes.h"
#include "inlay/host.h"

/* The step that makes the copy, from any strides. */
struct border {
    cpu_native native;
    const byte_set *set;
    int64_t images, channels, pixel; /* pixel: bytes of a pixel of the copy */
    int64_t height, width, top, left, out_height, out_width;
    int64_t s_image, s_channel, s_row, s_pixel; /* strides of the source */
    uint8_t value;
    bool computes_value; /* the third argument is the value */
};

typedef struct border_call {
    const struct border *border;
    const uint8_t *input;
    uint8_t *output;
    uint8_t value;
} border_call;

static void copy_row(const struct border *border, const uint8_t *input, uint8_t *output)
{
    if (border->s_channel == 1 && border->s_pixel == border->pixel && border->channels == border->pixel) {
        memcpy(output, input, (size_t)(border->width * border->pixel));
    } else if (border->s_channel == 1) {
        for (int64_t w = 0; w < border->width; w++)
            memcpy(output + w * border->pixel, input + w * border->s_pixel, (size_t)border->channels);
    } else if (border->pixel == 4 && border->s_pixel == 1) {
        border->set->interleave(input, border->s_channel, border->channels, border->width, output);
    } else {
        for (int64_t c = 0; c < border->channels; c++)
            for (int64_t w = 0; w < border->width; w++)
                output[w * border->pixel + c] = input[c * border->s_channel + w * border->s_pixel];
    }
}

static inlay_status border_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const border_call *call = user;
    const struct border *border = call->border;
    const size_t row = (size_t)(border->out_width * border->pixel), left = (size_t)(border->left * border->pixel);
    const size_t inner = (size_t)(border->width * border->pixel);

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t image = i / border->out_height, h = i % border->out_height - border->top;
        uint8_t *output = call->output + (size_t)i * row;

        if (h < 0 || h >= border->height) {
            memset(output, call->value, row);
            continue;
        }
        memset(output, call->value, left);
        copy_row(border, call->input + image * border->s_image + h * border->s_row, output + left);
        memset(output + left + inner, call->value, row - left - inner);
    }
    return INLAY_OK;
}

enum { GRAIN_BYTES = 1 << 16 };

static inlay_status run_border(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct border *border = (const struct border *)(const void *)native;
    border_call call = { border, args[0], args[1], border->computes_value ? *(const uint8_t *)args[2] : border->value };
    const int64_t rows = border->images * border->out_height,
                  grain = GRAIN_BYTES / (border->out_width * border->pixel) + 1;

    if (threads <= 1 || rows <= grain)
        return border_rows(&call, 0, rows, 0);
    return state->host->parallel_for(state->host->ctx, run, rows, grain, border_rows, &call);
}

inlay_status bytes_add_border(cpu_build *build, bytes_case *layer)
{
    kernel_conv_shape *window = &layer->window;
    const int64_t *s = layer->input.layout.strides;
    /* the bytes of the last group that fill fours lie behind the channels */
    const int64_t past = window->in / window->group % 4 != 0 && window->group > 1 ? 4 : 0;
    const int64_t dims[] = { window->images, bytes_in_fours(window->in) + past,
                             window->height + window->begin[0] + window->end[0],
                             window->width + window->begin[1] + window->end[1] };
    const struct border step = { .native.run = run_border,
                                 .set = build->state->bytes,
                                 .images = window->images,
                                 .channels = window->in,
                                 .pixel = dims[1],
                                 .height = window->height,
                                 .width = window->width,
                                 .top = window->begin[0],
                                 .left = window->begin[1],
                                 .out_height = dims[2],
                                 .out_width = dims[3],
                                 .s_image = s[0],
                                 .s_channel = s[1],
                                 .s_row = layer->input.layout.rank == 4 ? s[2] : 0,
                                 .s_pixel = s[layer->input.layout.rank - 1],
                                 .value = layer->border,
                                 .computes_value = layer->computes_zero };
    inlay_status status;
    cpu_place output;
    tensor_layout layout;

    INLAY_CHECK(layer->input.layout.rank == 3 || layer->input.layout.rank == 4);
    layout_channels_last(&layout, 4, dims);
    layout.type = layer->input.layout.type;
    INLAY_TRY(cpu_new_place(build, &layout, &output));
    INLAY_TRY(cpu_emit_step(build, &step.native, sizeof step,
                            (const cpu_place *const[]){ &layer->input, &output, &layer->zero },
                            layer->computes_zero ? 3 : 2));
    layer->input = output;
    window->height = dims[2];
    window->width = dims[3];
done:
    return status;
}
