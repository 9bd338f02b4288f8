/* webp.c - decodes and encodes WebP with libwebp. Animations are refused: their first frame would need libwebpdemux. */
#include "prepost/image/codec.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <webp/decode.h>
#include <webp/encode.h>

static inlay_status decode(const uint8_t *bytes, size_t count, picture_sink *sink)
{
    WebPDecoderConfig config;
    WebPBitstreamFeatures features;
    inlay_status status;
    VP8StatusCode code;
    uint8_t *rgb = NULL;

    if (!WebPInitDecoderConfig(&config) || WebPGetFeatures(bytes, count, &features) != VP8_STATUS_OK)
        return inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT, "WebP: the header is damaged");
    if (features.has_animation)
        return inlay_fail(sink->diag, INLAY_UNSUPPORTED,
                          "WebP: the file is an animation; only still images are supported");
    status = picture_begin(sink, "WebP", (uint64_t)features.height, (uint64_t)features.width, 0);
    if (status != INLAY_OK)
        return status;
    INLAY_CHECK(sink->width == features.width && sink->height == features.height);
    if (sink->order == PICTURE_GREY) {
        rgb = malloc((size_t)sink->width * (size_t)sink->height * 3);
        if (rgb == NULL)
            return inlay_fail(sink->diag, INLAY_OUT_OF_MEMORY, "WebP: no memory for the image");
    }
    config.output.colorspace = sink->order == PICTURE_BGR ? MODE_BGR : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = rgb != NULL ? rgb : sink->pixels;
    config.output.u.RGBA.stride = (int)sink->width * 3;
    config.output.u.RGBA.size = (size_t)sink->width * (size_t)sink->height * 3;
    code = WebPDecode(bytes, count, &config);
    if (code == VP8_STATUS_OUT_OF_MEMORY)
        status = inlay_fail(sink->diag, INLAY_OUT_OF_MEMORY, "WebP: no memory to decode the image");
    else if (code != VP8_STATUS_OK)
        status = inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT, "WebP: the file is cut off or damaged");
    for (int64_t y = 0; status == INLAY_OK && rgb != NULL && y < sink->height; y++)
        picture_row(sink, y, rgb + y * sink->width * 3);
    WebPFreeDecBuffer(&config.output);
    free(rgb);
    return status;
}

static inlay_status encode(const uint8_t *rgb, int64_t height, int64_t width, int quality, picture_file *out,
                           inlay_diag *diag)
{
    uint8_t *file = NULL;
    const size_t bytes = WebPEncodeRGB(rgb, (int)width, (int)height, (int)width * 3, (float)quality, &file);
    const inlay_status status = bytes > 0
                                    ? picture_append(out, file, bytes, diag)
                                    : inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                                 "WebP: can't write %lld x %lld pixels; the limit is 16383 a side",
                                                 (long long)width, (long long)height);

    WebPFree(file);
    return status;
}

const struct codec codec_webp = {
    .name = "WebP", .library = "libwebp", .is = codec_is_webp, .decode = decode, .ending = "webp", .encode = encode
};
