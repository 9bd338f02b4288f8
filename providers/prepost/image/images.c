/* images.c - DecodeImage and EncodeImage: image files to pixels and back. */
#include "prepost/prepost.h"
#include "inlay/check.h"
#include "prepost/image/run_decode.h"
#include <stdlib.h>

static const char *const orders[] = { "bgr", "rgb", "grey" };
static const char ppm[] = "P6\n2 1\n255\n\x01\x02\x03\xff\x80\x40";
static const int64_t file_dims[] = { sizeof ppm - 1 }, picture_dims[] = { 1, 2, 3 };
static const uint8_t bgr[] = { 3, 2, 1, 0x40, 0x80, 0xff }, rgb[] = { 1, 2, 3, 0xff, 0x80, 0x40 };

#define FILE_VIEW                                                                                                      \
    {                                                                                                                  \
        .data = ppm, .bytes = sizeof ppm - 1, .dims = file_dims, .rank = 1, .dtype = INLAY_UINT8                       \
    }
static const inlay_tensor_view file_view[] = { FILE_VIEW };
static const inlay_tensor_view bgr_view[] = { PREPOST_VIEW(bgr, picture_dims, INLAY_UINT8) };
static const inlay_tensor_view rgb_view[] = { PREPOST_VIEW(rgb, picture_dims, INLAY_UINT8) };

static inlay_status infer_decode(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const bool grey = strcmp(kit_attr_string(in->node, "color_space", "bgr"), "grey") == 0;
    const inlay_dim dims[3] = { prepost_open(), prepost_open(), prepost_fixed(grey ? 1 : 3) };
    const inlay_status status = prepost_want_rank(in, 0, 1, 1, "[bytes of a file]", diag);

    (void)ctx;
    return status != INLAY_OK ? status : prepost_set(in, 0, 3, dims);
}

static bool supports_decode(const kit_node *node, kit_refusal *why)
{
    return prepost_one_of(node, "color_space", "bgr", orders, KIT_COUNT(orders), why);
}

static inlay_status prepare_decode(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const picture_order of[] = { PICTURE_BGR, PICTURE_RGB, PICTURE_GREY };
    const int which = prepost_word(kit_attr_string(node->info, "color_space", "bgr"), orders, KIT_COUNT(orders));
    decode_state *state = malloc(sizeof *state);

    INLAY_CHECK(which >= 0 && which < 3);
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "DecodeImage");
    *state = (decode_state){ of[which], ((const prepost_settings *)node->provider)->max_pixels };
    *out_state = state;
    return INLAY_OK;
}

static const inlay_attr_info decode_rgb[] = { PREPOST_ATTR_STRING("color_space", "rgb") };
static const inlay_attr_info decode_bgr[] = { PREPOST_ATTR_STRING("color_space", "bgr") };
static const inlay_op_example decode_examples[] = {
    PREPOST_EXAMPLE("two pixels in a PPM file, as RGB", decode_rgb, file_view, rgb_view, 0),
    PREPOST_EXAMPLE("the same as BGR, the default", decode_bgr, file_view, bgr_view, 0),
};

const prepost_operator prepost_decode_image = {
    .op_type = "DecodeImage",
    .signature = "encoded:B -> image:B; B=uint8; color_space:s='bgr'",
    .doc = "Decodes an image file to pixels, [height, width, channels]: PNG, JPEG, WebP, TIFF, JPEG 2000, BMP or PNM. "
           "color_space is bgr, rgb or grey.",
    .extensions = true,
    .infer = infer_decode,
    PREPOST_EXAMPLES(decode_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .supports = supports_decode,
                .cost = decode_cost,
                .prepare = prepare_decode,
                .run = decode_run },
};

typedef struct encode_state {
    picture_order order;
    int quality;
    char format[8];
} encode_state;

static inlay_status infer_encode(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim dims[1] = { prepost_open() };
    const inlay_status status = prepost_want_rank(in, 0, 3, 3, "[height, width, 3]", diag);

    (void)ctx;
    return status != INLAY_OK ? status : prepost_set(in, 0, 1, dims);
}

static bool supports_encode(const kit_node *node, kit_refusal *why)
{
    const char *format = kit_attr_string(node->info, "format", "png");
    const int64_t quality = kit_attr_int(node->info, "quality", 95);

    if (quality < 1 || quality > 100)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use 1 to 100", "quality is %lld", (long long)quality);
    if (!picture_encodes(format))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use png, jpg, webp, bmp or ppm, if this build supports it",
                          "format is '%.20s'", format);
    return prepost_one_of(node, "color_space", "bgr", orders, 2, why);
}

static inlay_status prepare_encode(const kit_node *node, void **out_state, inlay_diag *diag)
{
    encode_state *state = calloc(1, sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "EncodeImage");
    state->order = strcmp(kit_attr_string(node->info, "color_space", "bgr"), "rgb") == 0 ? PICTURE_RGB : PICTURE_BGR;
    state->quality = (int)kit_attr_int(node->info, "quality", 95);
    strncpy(state->format, kit_attr_string(node->info, "format", "png"), sizeof state->format - 1);
    *out_state = state;
    return INLAY_OK;
}

static void cost_encode(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node;
    prepost_cost_elements(cost, shapes, 10000, 10, 1e6);
}

static inlay_status run_encode(const kit_call *call)
{
    const encode_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    picture_file file = { .data = NULL };
    int64_t dims[1];
    inlay_status status;

    if (input->rank != 3 || input->dims[2] != 3)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "EncodeImage: the image must be [height, width, 3]");
    INLAY_TRY(picture_encode(state->format, input->data, input->dims[0], input->dims[1], state->order, state->quality,
                             &file, call->diag));
    dims[0] = (int64_t)file.count;
    INLAY_TRY(kit_alloc_output(call, 0, 1, dims));
    memcpy(call->out[0].data, file.data, file.count);
done:
    free(file.data);
    return status;
}

static const inlay_attr_info encode_ppm[] = { PREPOST_ATTR_STRING("format", "ppm"),
                                              PREPOST_ATTR_STRING("color_space", "rgb") };
static const inlay_op_example encode_examples[] = {
    PREPOST_EXAMPLE("two pixels as a PPM file", encode_ppm, rgb_view, file_view, 0),
};

const prepost_operator prepost_encode_image = {
    .op_type = "EncodeImage",
    .signature = "image:B -> encoded:B; B=uint8; format:s='png', color_space:s='bgr', quality:i=95",
    .doc =
        "Encodes pixels, [height, width, 3], as a file: png, jpg, webp, bmp or ppm. quality applies to jpg and webp.",
    .extensions = true,
    .infer = infer_encode,
    PREPOST_EXAMPLES(encode_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .supports = supports_encode,
                .cost = cost_encode,
                .prepare = prepare_encode,
                .run = run_encode },
};
