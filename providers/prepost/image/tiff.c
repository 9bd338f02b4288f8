/* tiff.c - decodes the first picture of a TIFF file as 8-bit RGB, with libtiff. libtiff loads eight other libraries, so
 * it is opened when the first TIFF file is decoded, and not with the plugin. */
#include "common/library.h"
#include "prepost/image/codec.h"
#include "inlay/check.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <tiffio.h>

/* The functions of libtiff that are used, without the prefix TIFF. */
#define FUNCTIONS(X)                                                                                                   \
    X(OpenOptionsAlloc)                                                                                                \
    X(OpenOptionsSetMaxSingleMemAlloc)                                                                                 \
    X(OpenOptionsSetErrorHandlerExtR)                                                                                  \
    X(OpenOptionsSetWarningHandlerExtR)                                                                                \
    X(ClientOpenExt)                                                                                                   \
    X(OpenOptionsFree)                                                                                                 \
    X(GetField)                                                                                                        \
    X(RGBAImageOK)                                                                                                     \
    X(ReadRGBAImageOriented)                                                                                           \
    X(Close)

static struct {
#define MEMBER(name) __typeof__(TIFF##name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
    bool loaded;
} lib;
static once_flag opened = ONCE_FLAG_INIT;

static void open_library(void)
{
    void *handle = library_open(TIFF_SONAME);

    lib.loaded = handle != NULL;
#define FIND(name) lib.loaded = lib.loaded && library_find(handle, "TIFF" #name, &lib.name);
    FUNCTIONS(FIND)
#undef FIND
}

struct reader {
    const uint8_t *bytes;
    uint64_t count, at;
    char why[200];
};

static tmsize_t on_read(thandle_t handle, void *to, tmsize_t count)
{
    struct reader *reader = (struct reader *)handle;
    const uint64_t left = reader->at < reader->count ? reader->count - reader->at : 0,
                   size = (uint64_t)count < left ? (uint64_t)count : left;

    if (size > 0)
        memcpy(to, reader->bytes + reader->at, size);
    reader->at += size;
    return (tmsize_t)size;
}

static tmsize_t on_write(thandle_t handle, void *from, tmsize_t count)
{
    (void)handle;
    (void)from;
    (void)count;
    return -1;
}

static toff_t on_seek(thandle_t handle, toff_t offset, int whence)
{
    struct reader *reader = (struct reader *)handle;

    reader->at = whence == SEEK_SET ? offset : whence == SEEK_CUR ? reader->at + offset : reader->count + offset;
    return reader->at;
}

static int on_close(thandle_t handle)
{
    (void)handle;
    return 0;
}

static toff_t on_size(thandle_t handle)
{
    return ((struct reader *)handle)->count;
}

static int on_error(TIFF *tiff, void *user, const char *module, const char *format, va_list args)
{
    struct reader *reader = user;

    (void)tiff;
    (void)module;
    (void)vsnprintf(reader->why, sizeof reader->why, format, args);
    return 1;
}

static int on_warning(TIFF *tiff, void *user, const char *module, const char *format, va_list args)
{
    (void)tiff;
    (void)user;
    (void)module;
    (void)format;
    (void)args;
    return 1;
}

static TIFF *open_tiff(struct reader *reader, int64_t max_pixels)
{
    TIFFOpenOptions *options = lib.OpenOptionsAlloc();
    TIFF *tiff;

    INLAY_CHECK(max_pixels > 0 && reader->at == 0);
    if (options == NULL)
        return NULL;
    lib.OpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)max_pixels * 4 + (1 << 20));
    lib.OpenOptionsSetErrorHandlerExtR(options, on_error, reader);
    lib.OpenOptionsSetWarningHandlerExtR(options, on_warning, reader);
    tiff = lib.ClientOpenExt("picture", "rm", (thandle_t)reader, on_read, on_write, on_seek, on_close, on_size, NULL,
                             NULL, options);
    lib.OpenOptionsFree(options);
    return tiff;
}

/* Converts libtiff's packed pixels, with red in the low byte, to rows of RGB in place. */
static void put_rows(picture_sink *sink, uint32_t *pixels)
{
    for (int64_t y = 0; y < sink->height; y++) {
        const uint32_t *from = pixels + y * sink->width;
        uint8_t *row = (uint8_t *)(pixels + y * sink->width); /* in place: 3 bytes replace the 4 that were read */

        for (int64_t x = 0; x < sink->width; x++) {
            const uint32_t p = from[x];

            row[3 * x] = (uint8_t)TIFFGetR(p);
            row[3 * x + 1] = (uint8_t)TIFFGetG(p);
            row[3 * x + 2] = (uint8_t)TIFFGetB(p);
        }
        picture_row(sink, y, row);
    }
}

static inlay_status read_all(TIFF *tiff, struct reader *reader, picture_sink *sink)
{
    uint32_t width = 0, height = 0, *pixels;
    char why[1024] = "";
    inlay_status status;

    if (!lib.GetField(tiff, TIFFTAG_IMAGEWIDTH, &width) || !lib.GetField(tiff, TIFFTAG_IMAGELENGTH, &height) ||
        !lib.RGBAImageOK(tiff, why))
        return inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT, "TIFF: %.200s",
                          why[0] != '\0' ? why : "the file has no width or height");
    status = picture_begin(sink, "TIFF", height, width, 0);
    if (status != INLAY_OK)
        return status;
    INLAY_CHECK(sink->width == (int64_t)width && sink->height == (int64_t)height);
    pixels = malloc((size_t)width * height * sizeof *pixels);
    if (pixels == NULL)
        return inlay_fail(sink->diag, INLAY_OUT_OF_MEMORY, "TIFF: no memory for the picture");
    if (lib.ReadRGBAImageOriented(tiff, width, height, pixels, ORIENTATION_TOPLEFT, 1))
        put_rows(sink, pixels);
    else
        status = inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT, "TIFF: %s",
                            reader->why[0] != '\0' ? reader->why : "the image is damaged");
    free(pixels);
    return status;
}

static inlay_status decode(const uint8_t *bytes, size_t count, picture_sink *sink)
{
    struct reader reader = { .bytes = bytes, .count = count };
    inlay_status status;
    TIFF *tiff;

    call_once(&opened, open_library);
    if (!lib.loaded)
        return inlay_fail(sink->diag, INLAY_UNSUPPORTED,
                          "TIFF: " TIFF_SONAME " is not installed, or lacks a function that is needed");
    tiff = open_tiff(&reader, sink->max_pixels);
    if (tiff == NULL)
        return inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT, "TIFF: %s",
                          reader.why[0] != '\0' ? reader.why : "the header is damaged");
    status = read_all(tiff, &reader, sink);
    lib.Close(tiff);
    return status;
}

const struct codec codec_tiff = { .name = "TIFF", .library = "libtiff", .is = codec_is_tiff, .decode = decode };
