/* image_decoder.c - the plugin image_decoder: ai.onnx.ImageDecoder-20 on the CPU. */
#define INLAY_NOTE_VERSION INLAY_VERSION
#include "inlay/kit.h"
#include "prepost/image/picture.h"
#include "prepost/image/run_decode.h"
#include <stdlib.h>

static picture_order order_of(const char *format, bool *known)
{
    *known = true;
    if (strcmp(format, "RGB") == 0)
        return PICTURE_RGB;
    if (strcmp(format, "BGR") == 0)
        return PICTURE_BGR;
    *known = strcmp(format, "Grayscale") == 0;
    return PICTURE_GREY;
}

static bool supports(const kit_node *node, kit_refusal *why)
{
    const char *format = kit_attr_string(node->info, "pixel_format", "RGB");
    bool known;

    (void)order_of(format, &known);
    return known ||
           kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use RGB, BGR or Grayscale", "pixel_format is '%.40s'", format);
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    decode_state *state = malloc(sizeof *state);
    bool known;

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "ImageDecoder");
    *state = (decode_state){ order_of(kit_attr_string(node->info, "pixel_format", "RGB"), &known),
                             *(const int64_t *)node->provider };
    *out_state = state;
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .op_type = "ImageDecoder",
      .since_min = 20,
      .since_max = 20,
      .in_types = { KIT_BIT(UINT8) },
      .flags = KIT_SHAPES_AT_RUN,
      .supports = supports,
      .cost = decode_cost,
      .prepare = prepare,
      .run = decode_run },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = { .name = "image_decoder",
                                       .description = "ImageDecoder: PNG, JPEG, WebP, TIFF, JPEG 2000, BMP and PNM",
                                       .tables = tables,
                                       .table_count = KIT_COUNT(tables),
                                       .options = decode_options,
                                       .option_count = 1,
                                       .open = decode_open,
                                       .close = free };

static const kit_plugin image_decoder = { .name = "image_decoder", .version = INLAY_VERSION, .provider = &provider };
KIT_PLUGIN_NAMED(image_decoder, "image_decoder", "image_decoder", "")
