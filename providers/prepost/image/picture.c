/* picture.c - detection of the format of an image file, and the functions that all formats share; see picture.h. */
#include "prepost/image/codec.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

static const struct codec *const codecs[] = { &codec_png, &codec_jpeg, &codec_webp, &codec_tiff,
                                              &codec_jp2, &codec_bmp,  &codec_pnm };
enum { CODECS = sizeof codecs / sizeof codecs[0] };

inlay_status picture_begin(picture_sink *sink, const char *format, uint64_t height, uint64_t width, uint64_t most)
{
    const uint64_t pixels = height <= PICTURE_MAX_SIDE && width <= PICTURE_MAX_SIDE ? height * width : 0;

    if (pixels == 0 || pixels > (uint64_t)sink->max_pixels)
        return inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT,
                          "%s: the header says %llu x %llu pixels; 1 to %lld are allowed, and %d a side (option "
                          "max_pixels)",
                          format, (unsigned long long)width, (unsigned long long)height, (long long)sink->max_pixels,
                          PICTURE_MAX_SIDE);
    if (most != 0 && pixels > most)
        return inlay_fail(
            sink->diag, INLAY_INVALID_ARGUMENT,
            "%s: the header says %llu x %llu pixels, more than the file can hold: it is truncated or damaged", format,
            (unsigned long long)width, (unsigned long long)height);
    sink->height = (int64_t)height;
    sink->width = (int64_t)width;
    sink->pixels = sink->alloc(sink->user, sink->height, sink->width, sink->order == PICTURE_GREY ? 1 : 3);
    if (sink->pixels == NULL)
        return inlay_fail(sink->diag, INLAY_OUT_OF_MEMORY, "%s: no memory for %llu x %llu pixels", format,
                          (unsigned long long)width, (unsigned long long)height);
    return INLAY_OK;
}

void picture_row(picture_sink *sink, int64_t y, const uint8_t *rgb)
{
    uint8_t *to = sink->pixels + y * sink->width * (sink->order == PICTURE_GREY ? 1 : 3);

    INLAY_CHECK(y >= 0 && y < sink->height && sink->pixels != NULL);
    if (sink->order == PICTURE_RGB) {
        memcpy(to, rgb, (size_t)sink->width * 3);
        return;
    }
    for (int64_t x = 0; x < sink->width; x++, rgb += 3) {
        if (sink->order == PICTURE_GREY) {
            *to++ = (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
        } else {
            *to++ = rgb[2];
            *to++ = rgb[1];
            *to++ = rgb[0];
        }
    }
}

inlay_status picture_decode(const uint8_t *bytes, size_t count, picture_sink *sink)
{
    for (int i = 0; i < CODECS; i++) {
        if (!codecs[i]->is(bytes, count))
            continue;
        if (codecs[i]->decode == NULL)
            return inlay_fail(sink->diag, INLAY_UNSUPPORTED,
                              "%s: this plugin was built without %s: build it again with the package %s",
                              codecs[i]->name, codecs[i]->library, codecs[i]->package);
        return codecs[i]->decode(bytes, count, sink);
    }
    return inlay_fail(
        sink->diag, INLAY_INVALID_ARGUMENT,
        "the %llu bytes are not an image of a supported format: PNG, JPEG, WebP, TIFF, JPEG 2000, BMP, PNM",
        (unsigned long long)count);
}

inlay_status picture_append(picture_file *file, const void *bytes, size_t count, inlay_diag *diag)
{
    INLAY_CHECK(file->count <= file->room);
    if (count > file->room - file->count) {
        const size_t room = (file->count + count) * 2;
        uint8_t *data = realloc(file->data, room);

        if (data == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a file of %llu bytes",
                              (unsigned long long)room);
        file->data = data;
        file->room = room;
    }
    if (count > 0)
        memcpy(file->data + file->count, bytes, count);
    file->count += count;
    return INLAY_OK;
}

static const struct codec *encoder(const char *format)
{
    if (strcmp(format, "jpeg") == 0)
        format = "jpg";
    for (int i = 0; i < CODECS; i++)
        if (codecs[i]->ending != NULL && codecs[i]->encode != NULL && strcmp(codecs[i]->ending, format) == 0)
            return codecs[i];
    return NULL;
}

bool picture_encodes(const char *format)
{
    return encoder(format) != NULL;
}

inlay_status picture_encode(const char *format, const uint8_t *pixels, int64_t height, int64_t width,
                            picture_order order, int quality, picture_file *out, inlay_diag *diag)
{
    const struct codec *codec = encoder(format);
    uint8_t *swapped = NULL;
    inlay_status status;

    if (codec == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "this plugin was built without an encoder for '%s'", format);
    if (height < 1 || width < 1 || height > PICTURE_MAX_SIDE || width > PICTURE_MAX_SIDE)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%s: %lld x %lld pixels; each side is from 1 to %d", codec->name,
                          (long long)width, (long long)height, PICTURE_MAX_SIDE);
    if (order == PICTURE_BGR) {
        const size_t count = (size_t)(height * width);

        swapped = malloc(count * 3);
        if (swapped == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory", codec->name);
        for (size_t i = 0; i < count * 3; i += 3) {
            swapped[i] = pixels[i + 2];
            swapped[i + 1] = pixels[i + 1];
            swapped[i + 2] = pixels[i];
        }
        pixels = swapped;
    }
    status = codec->encode(pixels, height, width, quality, out, diag);
    free(swapped);
    return status;
}
