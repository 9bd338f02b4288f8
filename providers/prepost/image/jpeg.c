/* jpeg.c - JPEG by libjpeg-turbo. */
#include "codec.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

/* A progressive file may have any number of passes over the whole picture; real ones have a dozen. */
enum { MAX_SCANS = 200 };

struct errors {
    struct jpeg_error_mgr base; /* first: what libjpeg passes around */
    jmp_buf out;
    char why[JMSG_LENGTH_MAX];
};

static bool is(const uint8_t *bytes, size_t count)
{
    return codec_starts(bytes, count, "\xff\xd8\xff", 3);
}

static void on_error(j_common_ptr ptr)
{
    struct errors *errors = (struct errors *)(void *)ptr->err;

    errors->base.format_message(ptr, errors->why);
    longjmp(errors->out, 1);
}

/* A warning is a damaged file that can be read on; one that ends too early is refused, as Pillow does. */
static void on_message(j_common_ptr ptr, int level)
{
    if (level < 0 && ptr->err->msg_code == JWRN_JPEG_EOF)
        on_error(ptr);
}

static void on_output(j_common_ptr ptr)
{
    (void)ptr;
}

static void on_progress(j_common_ptr ptr)
{
    const struct jpeg_decompress_struct *decompress_struct = (const struct jpeg_decompress_struct *)(const void *)ptr;

    if (ptr->is_decompressor && decompress_struct->input_scan_number > MAX_SCANS) {
        struct errors *errors = (struct errors *)(void *)ptr->err;

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

/* CMYK as Pillow converts it; Adobe's files store it inverted. */
static void cmyk_to_rgb(const uint8_t *from, int64_t count, bool inverted, uint8_t *to)
{
    for (int64_t i = 0; i < count; i++, from += 4, to += 3) {
        const unsigned k = inverted ? from[3] : 255u - from[3];

        for (int c = 0; c < 3; c++) {
            const unsigned v = (inverted ? from[c] : 255u - from[c]) * k + 128;

            to[c] = (uint8_t)((v + (v >> 8)) >> 8);
        }
    }
}

static void read_rows(struct jpeg_decompress_struct *decompress_struct, picture_sink *sink, uint8_t *row)
{
    uint8_t *rgb = row + (size_t)sink->width * 4;

    while (decompress_struct->output_scanline < decompress_struct->output_height) {
        const int64_t y = decompress_struct->output_scanline;
        JSAMPROW rows[1] = { row };

        if (jpeg_read_scanlines(decompress_struct, rows, 1) != 1)
            break;
        if (decompress_struct->out_color_space == JCS_CMYK)
            cmyk_to_rgb(row, sink->width, decompress_struct->saw_Adobe_marker, rgb);
        picture_row(sink, y, decompress_struct->out_color_space == JCS_CMYK ? rgb : row);
    }
}

static inlay_status read_all(struct jpeg_decompress_struct *decompress_struct, struct errors *errors,
                             const uint8_t *bytes, size_t count, uint8_t **row, picture_sink *sink)
{
    struct jpeg_progress_mgr progress = { .progress_monitor = on_progress };
    inlay_status status;

    if (setjmp(errors->out) != 0)
        return inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT, "JPEG: %.200s", errors->why);
    jpeg_create_decompress(decompress_struct);
    decompress_struct->progress = &progress;
    decompress_struct->mem->max_memory_to_use = 1L << 30;
    jpeg_mem_src(decompress_struct, bytes, (unsigned long)count);
    (void)jpeg_read_header(decompress_struct, TRUE);
    decompress_struct->out_color_space =
        decompress_struct->jpeg_color_space == JCS_CMYK || decompress_struct->jpeg_color_space == JCS_YCCK ? JCS_CMYK
                                                                                                           : JCS_RGB;
    /* A block of 8 x 8 takes a bit or more of each of its scans; of progressive files one bit may say many blocks. */
    status = picture_begin(sink, "JPEG", decompress_struct->image_height, decompress_struct->image_width, 0);
    if (status != INLAY_OK)
        return status;
    *row = malloc((size_t)sink->width * 7);
    if (*row == NULL)
        return inlay_fail(sink->diag, INLAY_OUT_OF_MEMORY, "JPEG: no memory for rows");
    (void)jpeg_start_decompress(decompress_struct);
    read_rows(decompress_struct, sink, *row);
    (void)jpeg_finish_decompress(decompress_struct);
    decompress_struct->progress = NULL;
    return INLAY_OK;
}

static inlay_status decode(const uint8_t *bytes, size_t count, picture_sink *sink)
{
    struct jpeg_decompress_struct decompress_struct = { .err = NULL };
    uint8_t *row = NULL;
    struct errors errors = { .why = "" };
    inlay_status status;

    set_errors(&errors);
    decompress_struct.err = &errors.base;
    status = read_all(&decompress_struct, &errors, bytes, count, &row, sink);
    jpeg_destroy_decompress(&decompress_struct);
    free(row);
    return status;
}

static inlay_status encode(const uint8_t *rgb, int64_t height, int64_t width, int quality, picture_file *out,
                           inlay_diag *diag)
{
    struct jpeg_compress_struct compress_struct = { .err = NULL };
    struct errors errors = { .why = "" };
    unsigned char *file = NULL;
    unsigned long bytes = 0;
    inlay_status status;

    set_errors(&errors);
    compress_struct.err = &errors.base;
    if (setjmp(errors.out) != 0) {
        status = inlay_fail(diag, INLAY_INTERNAL, "JPEG: %.200s", errors.why);
        goto done;
    }
    jpeg_create_compress(&compress_struct);
    jpeg_mem_dest(&compress_struct, &file, &bytes);
    compress_struct.image_width = (JDIMENSION)width;
    compress_struct.image_height = (JDIMENSION)height;
    compress_struct.input_components = 3;
    compress_struct.in_color_space = JCS_RGB;
    jpeg_set_defaults(&compress_struct);
    jpeg_set_quality(&compress_struct, quality, TRUE);
    jpeg_start_compress(&compress_struct, TRUE);
    while (compress_struct.next_scanline < compress_struct.image_height) {
        JSAMPROW rows[1] = { (JSAMPROW)(uintptr_t)(rgb + (size_t)compress_struct.next_scanline * (size_t)width * 3) };

        (void)jpeg_write_scanlines(&compress_struct, rows, 1);
    }
    jpeg_finish_compress(&compress_struct);
    status = picture_append(out, file, bytes, diag);
done:
    jpeg_destroy_compress(&compress_struct);
    free(file);
    return status;
}

const struct codec codec_jpeg = {
    .name = "JPEG", .library = "libjpeg-turbo", .is = is, .decode = decode, .ending = "jpg", .encode = encode
};
