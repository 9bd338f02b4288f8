/* png.c - PNG with libpng. */
#include "prepost/image/codec.h"
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/* State of the reader and of errors, which libpng reports by longjmp. */
struct reader {
    const uint8_t *bytes;
    size_t count, at;
    char why[160];
    uint8_t *rows; /* one row, or all rows of an interlaced image */
};

static void on_error(png_structp png, png_const_charp text)
{
    struct reader *reader = png_get_error_ptr(png);

    strncpy(reader->why, text, sizeof reader->why - 1);
    longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void on_read(png_structp png, png_bytep to, size_t count)
{
    struct reader *reader = png_get_io_ptr(png);

    if (count > reader->count - reader->at)
        png_error(png, "the file ends too early");
    memcpy(to, reader->bytes + reader->at, count);
    reader->at += count;
}

/* Converts all depths and colour types to 8-bit RGB. */
static int transform(png_structp png, png_infop info)
{
    const int colour = png_get_color_type(png, info);
    int passes;

    png_set_expand(png);
    if (png_get_bit_depth(png, info) == 16)
        png_set_strip_16(png);
    if ((colour & PNG_COLOR_MASK_COLOR) == 0)
        png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    return passes;
}

/* Deflate expands one byte to at most 1032. */
static uint64_t most_pixels(png_structp png, png_infop info, size_t count)
{
    const uint64_t bits = (uint64_t)png_get_bit_depth(png, info) * png_get_channels(png, info);

    return (uint64_t)count * 1032 * 8 / (bits > 0 ? bits : 1) + 8;
}

static void read_rows(png_structp png, struct reader *reader, picture_sink *sink, int passes)
{
    const size_t row = (size_t)sink->width * 3;

    if (passes == 1) {
        for (int64_t y = 0; y < sink->height; y++) {
            png_read_row(png, reader->rows, NULL);
            picture_row(sink, y, reader->rows);
        }
        return;
    }
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < sink->height; y++)
            png_read_row(png, reader->rows + (size_t)y * row, NULL);
    for (int64_t y = 0; y < sink->height; y++)
        picture_row(sink, y, reader->rows + (size_t)y * row);
}

static inlay_status read_all(png_structp png, png_infop info, struct reader *reader, picture_sink *sink)
{
    inlay_status status;
    uint64_t most;
    int passes;

    if (setjmp(png_jmpbuf(png)) != 0)
        return inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT, "PNG: %s", reader->why);
    png_set_user_limits(png, PICTURE_MAX_SIDE, PICTURE_MAX_SIDE);
    png_set_chunk_malloc_max(png, 8u << 20);
    png_set_chunk_cache_max(png, 64);
    png_set_read_fn(png, reader, on_read);
    png_read_info(png, info);
    most = most_pixels(png, info, reader->count);
    passes = transform(png, info);
    if (png_get_rowbytes(png, info) != (size_t)png_get_image_width(png, info) * 3)
        png_error(png, "the colour type is not supported");
    status = picture_begin(sink, "PNG", png_get_image_height(png, info), png_get_image_width(png, info), most);
    if (status != INLAY_OK)
        return status;
    reader->rows = malloc((size_t)sink->width * 3 * (passes > 1 ? (size_t)sink->height : 1));
    if (reader->rows == NULL)
        return inlay_fail(sink->diag, INLAY_OUT_OF_MEMORY, "PNG: no memory for rows");
    read_rows(png, reader, sink, passes);
    png_read_end(png, NULL);
    return INLAY_OK;
}

static inlay_status decode(const uint8_t *bytes, size_t count, picture_sink *sink)
{
    struct reader reader = { .bytes = bytes, .count = count };
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
    png_infop info = png != NULL ? png_create_info_struct(png) : NULL;
    inlay_status status = INLAY_OUT_OF_MEMORY;

    if (info != NULL)
        status = read_all(png, info, &reader, sink);
    else
        status = inlay_fail(sink->diag, INLAY_OUT_OF_MEMORY, "PNG: no memory");
    png_destroy_read_struct(&png, &info, NULL);
    free(reader.rows);
    return status;
}

struct writer {
    picture_file *out;
    inlay_diag *diag;
    inlay_status status; /* of picture_append() */
};

static void on_write(png_structp png, png_bytep bytes, size_t count)
{
    struct writer *writer = png_get_io_ptr(png);

    writer->status = picture_append(writer->out, bytes, count, writer->diag);
    if (writer->status != INLAY_OK)
        png_error(png, "no memory");
}

static void on_flush(png_structp png)
{
    (void)png;
}

/* Variables that change between setjmp and longjmp belong to the caller. */
static inlay_status write_all(png_structp png, png_infop info, const struct reader *errors, struct writer *writer,
                              const uint8_t *rgb, int64_t height, int64_t width)
{
    if (setjmp(png_jmpbuf(png)) != 0)
        return writer->status != INLAY_OK ? writer->status
                                          : inlay_fail(writer->diag, INLAY_INTERNAL, "PNG: %s", errors->why);
    png_set_write_fn(png, writer, on_write, on_flush);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int64_t y = 0; y < height; y++)
        png_write_row(png, rgb + y * width * 3);
    png_write_end(png, NULL);
    return INLAY_OK;
}

static inlay_status encode(const uint8_t *rgb, int64_t height, int64_t width, int quality, picture_file *out,
                           inlay_diag *diag)
{
    struct reader errors = { .bytes = NULL };
    struct writer writer = { out, diag, INLAY_OK };
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &errors, on_error, on_warning);
    png_infop info = png != NULL ? png_create_info_struct(png) : NULL;
    inlay_status status;

    (void)quality;
    if (info == NULL) {
        png_destroy_write_struct(&png, NULL);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "PNG: no memory");
    }
    status = write_all(png, info, &errors, &writer, rgb, height, width);
    png_destroy_write_struct(&png, &info);
    return status;
}

const struct codec codec_png = {
    .name = "PNG", .library = "libpng", .is = codec_is_png, .decode = decode, .ending = "png", .encode = encode
};
