/* codec.h - declarations shared by the image formats; see picture.h. */
#ifndef CODEC_H
#define CODEC_H
#include "prepost/image/picture.h"

/* A format: detection of its files, decoder and encoder. */
struct codec {
    const char *name;    /* name of the format, for messages */
    const char *library; /* the library that decodes it; NULL: built in */
    const char *package; /* of Debian, with the library; NULL unless decode is */
    bool (*is)(const uint8_t *bytes, size_t count);
    inlay_status (*decode)(const uint8_t *bytes, size_t count, picture_sink *sink); /* NULL: not in this build */
    const char *ending; /* file extension for encoding; NULL: decoding only */
    inlay_status (*encode)(const uint8_t *rgb, int64_t height, int64_t width, int quality, picture_file *out,
                           inlay_diag *diag);
};

extern const struct codec codec_bmp, codec_pnm, codec_png, codec_jpeg, codec_webp, codec_tiff, codec_jp2;

/* Checks the size and allocates the image. most: the most pixels that the bytes of the file can encode, or 0 if the
 * format has no bound. */
inlay_status picture_begin(picture_sink *sink, const char *format, uint64_t height, uint64_t width, uint64_t most);
/* Stores row y, [width, 3] in the order R, G, B. */
void picture_row(picture_sink *sink, int64_t y, const uint8_t *rgb);

static inline bool codec_starts(const uint8_t *bytes, size_t count, const char *magic, size_t magic_bytes)
{
    size_t i = 0;

    while (i < magic_bytes && i < count && bytes[i] == (uint8_t)magic[i])
        i++;
    return i == magic_bytes;
}

/* Detection of the formats that a library decodes, which works in builds without the library, too (none.c). */
static inline bool codec_is_png(const uint8_t *bytes, size_t count)
{
    return codec_starts(bytes, count, "\x89PNG\r\n\x1a\n", 8);
}
static inline bool codec_is_jpeg(const uint8_t *bytes, size_t count)
{
    return codec_starts(bytes, count, "\xff\xd8\xff", 3);
}
static inline bool codec_is_webp(const uint8_t *bytes, size_t count)
{
    return count >= 12 && codec_starts(bytes, count, "RIFF", 4) && codec_starts(bytes + 8, count - 8, "WEBP", 4);
}
static inline bool codec_is_tiff(const uint8_t *bytes, size_t count) /* or BigTIFF */
{
    return codec_starts(bytes, count, "II*\0", 4) || codec_starts(bytes, count, "MM\0*", 4) ||
           codec_starts(bytes, count, "II+\0", 4) || codec_starts(bytes, count, "MM\0+", 4);
}
static inline bool codec_is_jp2_box(const uint8_t *bytes, size_t count)
{
    return codec_starts(bytes, count, "\0\0\0\x0cjP  \r\n\x87\n", 12);
}
static inline bool codec_is_jp2(const uint8_t *bytes, size_t count) /* in a box, or a bare codestream */
{
    return codec_is_jp2_box(bytes, count) || codec_starts(bytes, count, "\xff\x4f\xff\x51", 4);
}
#endif
