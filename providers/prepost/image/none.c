/* none.c - formats whose library was not found at build time: they are detected, and the error names the library. */
#include "prepost/image/codec.h"

#ifdef NONE_PNG
static bool is_png(const uint8_t *b, size_t n)
{
    return codec_starts(b, n, "\x89PNG\r\n\x1a\n", 8);
}
const struct codec codec_png = { .name = "PNG", .library = "libpng", .package = "libpng-dev", .is = is_png };
#endif
#ifdef NONE_JPEG
static bool is_jpeg(const uint8_t *b, size_t n)
{
    return codec_starts(b, n, "\xff\xd8\xff", 3);
}
const struct codec codec_jpeg = { .name = "JPEG", .library = "libjpeg-turbo", .package = "libjpeg-dev", .is = is_jpeg };
#endif
#ifdef NONE_WEBP
static bool is_webp(const uint8_t *b, size_t n)
{
    return n >= 12 && codec_starts(b, n, "RIFF", 4) && codec_starts(b + 8, n - 8, "WEBP", 4);
}
const struct codec codec_webp = { .name = "WebP", .library = "libwebp", .package = "libwebp-dev", .is = is_webp };
#endif
#ifdef NONE_TIFF
static bool is_tiff(const uint8_t *b, size_t n)
{
    return codec_starts(b, n, "II*\0", 4) || codec_starts(b, n, "MM\0*", 4);
}
const struct codec codec_tiff = { .name = "TIFF", .library = "libtiff", .package = "libtiff-dev", .is = is_tiff };
#endif
#ifdef NONE_JP2
static bool is_jp2(const uint8_t *b, size_t n)
{
    return codec_starts(b, n, "\0\0\0\x0cjP  \r\n\x87\n", 12) || codec_starts(b, n, "\xff\x4f\xff\x51", 4);
}
const struct codec codec_jp2 = {
    .name = "JPEG 2000", .library = "openjpeg", .package = "libopenjp2-7-dev", .is = is_jp2
};
#endif
typedef int none_is_no_empty_file;
