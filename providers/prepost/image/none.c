/* none.c - formats whose library was not found at build time: they are detected, and the error names the library. */
#include "prepost/image/codec.h"

#ifdef NONE_PNG
const struct codec codec_png = { .name = "PNG", .library = "libpng", .package = "libpng-dev", .is = codec_is_png };
#endif
#ifdef NONE_JPEG
const struct codec codec_jpeg = {
    .name = "JPEG", .library = "libjpeg-turbo", .package = "libjpeg-dev", .is = codec_is_jpeg
};
#endif
#ifdef NONE_WEBP
const struct codec codec_webp = { .name = "WebP", .library = "libwebp", .package = "libwebp-dev", .is = codec_is_webp };
#endif
#ifdef NONE_TIFF
const struct codec codec_tiff = { .name = "TIFF", .library = "libtiff", .package = "libtiff-dev", .is = codec_is_tiff };
#endif
#ifdef NONE_JP2
const struct codec codec_jp2 = {
    .name = "JPEG 2000", .library = "openjpeg", .package = "libopenjp2-7-dev", .is = codec_is_jp2
};
#endif
typedef int none_is_no_empty_file;
