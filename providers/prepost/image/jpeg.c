/* jpeg.c - JPEG with libjpeg-turbo. */
#include "prepost/image/codec.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h>

/* Limit of scans: a progressive file may have any number of passes over the whole image; real ones have a dozen. */
enum { MAX_SCANS = 200 };

struct errors {
    struct jpeg_error_mgr base; /* must be first: libjpeg passes a pointer to it */
    jmp_buf out;
    char why[JMSG_LENGTH_MAX];
};

static void on_error(j_common_ptr common)
{
    struct errors *errors = (struct errors *)(void *)common->err;

    errors->base.format_message(common, errors->why);
    longjmp(errors->out, 1);
}

/* Warnings are ignored, except for a truncated file, which is an error as in Pillow. */
static void on_message(j_common_ptr common, int level)
{
    if (level < 0 && common->err->msg_code == JWRN_JPEG_EOF)
        on_error(common);
}

static void on_output(j_common_ptr common)
{
    (void)common;
}

static void on_progress(j_common_ptr common)
{
    const struct jpeg_decompress_struct *decoder = (const struct jpeg_decompress_struct *)(const void *)common;

    if (common->is_decompressor && decoder->input_scan_number > MAX_SCANS) {
        struct errors *errors = (struct errors *)(void *)common->err;

        (void)snprintf(errors->why, sizeof errors->why, "more than %d scans", MAX_SCANS);
        longjmp(errors->out, 1);
    }
}

static void set_errors(struct errors *errors)
{
    (void)jpeg_std_error(&errors->base);
    errors->base.error_exit = on_error;
    errors->base.emit_message = on_message;
    errors->base.output_message = on_output;
}

/* Reports libjpeg's error; otherwise: the status unless memory is missing. */
static inlay_status fail_with(const struct errors *errors, inlay_status otherwise, inlay_diag *diag)
{
    return inlay_fail(diag, errors->base.msg_code == JERR_OUT_OF_MEMORY ? INLAY_OUT_OF_MEMORY : otherwise,
                      "JPEG: %.200s", errors->why);
}

/* Converts CMYK as Pillow does; Adobe's files store it inverted. */
static void cmyk_to_rgb(const uint8_t *from, int64_t count, bool inverted, uint8_t *to)
{
    for (int64_t i = 0; i < count; i++, from += 4, to += 3) {
        const unsigned key = inverted ? from[3] : 255u - from[3];

        for (int channel = 0; channel < 3; channel++) {
            const unsigned product = (inverted ? from[channel] : 255u - from[channel]) * key + 128;

            to[channel] = (uint8_t)((product + (product >> 8)) >> 8);
        }
    }
}

static void read_rows(struct jpeg_decompress_struct *decoder, picture_sink *sink, uint8_t *row)
{
    uint8_t *rgb = row + (size_t)sink->width * 4;

    while (decoder->output_scanline < decoder->output_height) {
        const int64_t y = decoder->output_scanline;
        JSAMPROW rows[1] = { row };

        if (jpeg_read_scanlines(decoder, rows, 1) != 1)
            break;
        if (decoder->out_color_space == JCS_CMYK)
            cmyk_to_rgb(row, sink->width, decoder->saw_Adobe_marker, rgb);
        picture_row(sink, y, decoder->out_color_space == JCS_CMYK ? rgb : row);
    }
}

static inlay_status read_all(struct jpeg_decompress_struct *decoder, struct errors *errors, const uint8_t *bytes,
                             size_t count, uint8_t **row, picture_sink *sink)
{
    struct jpeg_progress_mgr progress = { .progress_monitor = on_progress };
    inlay_status status;

    if (setjmp(errors->out) != 0)
        return fail_with(errors, INLAY_INVALID_ARGUMENT, sink->diag);
    jpeg_create_decompress(decoder);
    decoder->progress = &progress;
    decoder->mem->max_memory_to_use = 1L << 30;
    jpeg_mem_src(decoder, bytes, (unsigned long)count);
    (void)jpeg_read_header(decoder, TRUE);
    decoder->out_color_space =
        decoder->jpeg_color_space == JCS_CMYK || decoder->jpeg_color_space == JCS_YCCK ? JCS_CMYK : JCS_RGB;
    /* No bound from the file size: in progressive files one bit may describe many blocks. */
    status = picture_begin(sink, "JPEG", decoder->image_height, decoder->image_width, 0);
    if (status != INLAY_OK)
        return status;
    *row = malloc((size_t)sink->width * 7);
    if (*row == NULL)
        return inlay_fail(sink->diag, INLAY_OUT_OF_MEMORY, "JPEG: no memory for rows");
    (void)jpeg_start_decompress(decoder);
    read_rows(decoder, sink, *row);
    (void)jpeg_finish_decompress(decoder);
    decoder->progress = NULL;
    return INLAY_OK;
}

static inlay_status decode(const uint8_t *bytes, size_t count, picture_sink *sink)
{
    struct jpeg_decompress_struct decoder = { .err = NULL };
    uint8_t *row = NULL;
    struct errors errors = { .why = "" };
    inlay_status status;

    set_errors(&errors);
    decoder.err = &errors.base;
    status = read_all(&decoder, &errors, bytes, count, &row, sink);
    jpeg_destroy_decompress(&decoder);
    free(row);
    return status;
}

/* A file in memory that libjpeg-turbo allocates. */
struct jpeg_file {
    unsigned char *data;
    unsigned long bytes;
};

/* Variables that change between setjmp and longjmp belong to the caller. */
static inlay_status write_all(struct jpeg_compress_struct *encoder, struct errors *errors, const uint8_t *rgb,
                              int64_t height, int64_t width, int quality, struct jpeg_file *file, inlay_diag *diag)
{
    if (setjmp(errors->out) != 0)
        return fail_with(errors, INLAY_INTERNAL, diag);
    jpeg_create_compress(encoder);
    jpeg_mem_dest(encoder, &file->data, &file->bytes);
    encoder->image_width = (JDIMENSION)width;
    encoder->image_height = (JDIMENSION)height;
    encoder->input_components = 3;
    encoder->in_color_space = JCS_RGB;
    jpeg_set_defaults(encoder);
    jpeg_set_quality(encoder, quality, TRUE);
    jpeg_start_compress(encoder, TRUE);
    while (encoder->next_scanline < encoder->image_height) {
        JSAMPROW rows[1] = { (JSAMPROW)(uintptr_t)(rgb + (size_t)encoder->next_scanline * (size_t)width * 3) };

        (void)jpeg_write_scanlines(encoder, rows, 1);
    }
    jpeg_finish_compress(encoder);
    return INLAY_OK;
}

static inlay_status encode(const uint8_t *rgb, int64_t height, int64_t width, int quality, picture_file *out,
                           inlay_diag *diag)
{
    struct jpeg_compress_struct encoder = { .err = NULL };
    struct errors errors = { .why = "" };
    struct jpeg_file file = { .data = NULL };
    inlay_status status;

    set_errors(&errors);
    encoder.err = &errors.base;
    status = write_all(&encoder, &errors, rgb, height, width, quality, &file, diag);
    if (status == INLAY_OK)
        status = picture_append(out, file.data, file.bytes, diag);
    jpeg_destroy_compress(&encoder);
    free(file.data);
    return status;
}

const struct codec codec_jpeg = {
    .name = "JPEG", .library = "libjpeg-turbo", .is = codec_is_jpeg, .decode = decode, .ending = "jpg", .encode = encode
};
