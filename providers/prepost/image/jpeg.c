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

static void on_error(j_common_ptr c)
{
    struct errors *e = (struct errors *)(void *)c->err;

    e->base.format_message(c, e->why);
    longjmp(e->out, 1);
}

/* A warning is a damaged file that can be read on; one that ends too early is refused, as Pillow does. */
static void on_message(j_common_ptr c, int level)
{
    if (level < 0 && c->err->msg_code == JWRN_JPEG_EOF)
        on_error(c);
}

static void on_output(j_common_ptr c)
{
    (void)c;
}

static void on_progress(j_common_ptr c)
{
    const struct jpeg_decompress_struct *d = (const struct jpeg_decompress_struct *)(const void *)c;

    if (c->is_decompressor && d->input_scan_number > MAX_SCANS) {
        struct errors *e = (struct errors *)(void *)c->err;

        (void)snprintf(e->why, sizeof e->why, "more than %d scans", MAX_SCANS);
        longjmp(e->out, 1);
    }
}

static void set_errors(struct errors *e)
{
    (void)jpeg_std_error(&e->base);
    e->base.error_exit = on_error;
    e->base.emit_message = on_message;
    e->base.output_message = on_output;
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

static void read_rows(struct jpeg_decompress_struct *d, picture_sink *sink, uint8_t *row)
{
    uint8_t *rgb = row + (size_t)sink->width * 4;

    while (d->output_scanline < d->output_height) {
        const int64_t y = d->output_scanline;
        JSAMPROW rows[1] = { row };

        if (jpeg_read_scanlines(d, rows, 1) != 1)
            break;
        if (d->out_color_space == JCS_CMYK)
            cmyk_to_rgb(row, sink->width, d->saw_Adobe_marker, rgb);
        picture_row(sink, y, d->out_color_space == JCS_CMYK ? rgb : row);
    }
}

static inlay_status read_all(struct jpeg_decompress_struct *d, struct errors *e, const uint8_t *bytes, size_t count,
                             uint8_t **row, picture_sink *sink)
{
    struct jpeg_progress_mgr progress = { .progress_monitor = on_progress };
    inlay_status status;

    if (setjmp(e->out) != 0)
        return inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT, "JPEG: %.200s", e->why);
    jpeg_create_decompress(d);
    d->progress = &progress;
    d->mem->max_memory_to_use = 1L << 30;
    jpeg_mem_src(d, bytes, (unsigned long)count);
    (void)jpeg_read_header(d, TRUE);
    d->out_color_space = d->jpeg_color_space == JCS_CMYK || d->jpeg_color_space == JCS_YCCK ? JCS_CMYK : JCS_RGB;
    /* A block of 8 x 8 takes a bit or more of each of its scans; of progressive files one bit may say many blocks. */
    status = picture_begin(sink, "JPEG", d->image_height, d->image_width, 0);
    if (status != INLAY_OK)
        return status;
    *row = malloc((size_t)sink->width * 7);
    if (*row == NULL)
        return inlay_fail(sink->diag, INLAY_OUT_OF_MEMORY, "JPEG: no memory for rows");
    (void)jpeg_start_decompress(d);
    read_rows(d, sink, *row);
    (void)jpeg_finish_decompress(d);
    d->progress = NULL;
    return INLAY_OK;
}

static inlay_status decode(const uint8_t *bytes, size_t count, picture_sink *sink)
{
    struct jpeg_decompress_struct d = { .err = NULL };
    uint8_t *row = NULL;
    struct errors e = { .why = "" };
    inlay_status status;

    set_errors(&e);
    d.err = &e.base;
    status = read_all(&d, &e, bytes, count, &row, sink);
    jpeg_destroy_decompress(&d);
    free(row);
    return status;
}

static inlay_status encode(const uint8_t *rgb, int64_t height, int64_t width, int quality, picture_file *out,
                           inlay_diag *diag)
{
    struct jpeg_compress_struct c = { .err = NULL };
    struct errors e = { .why = "" };
    unsigned char *file = NULL;
    unsigned long bytes = 0;
    inlay_status status;

    set_errors(&e);
    c.err = &e.base;
    if (setjmp(e.out) != 0) {
        status = inlay_fail(diag, INLAY_INTERNAL, "JPEG: %.200s", e.why);
        goto done;
    }
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &file, &bytes);
    c.image_width = (JDIMENSION)width;
    c.image_height = (JDIMENSION)height;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, quality, TRUE);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
        JSAMPROW rows[1] = { (JSAMPROW)(uintptr_t)(rgb + (size_t)c.next_scanline * (size_t)width * 3) };

        (void)jpeg_write_scanlines(&c, rows, 1);
    }
    jpeg_finish_compress(&c);
    status = picture_append(out, file, bytes, diag);
done:
    jpeg_destroy_compress(&c);
    free(file);
    return status;
}

const struct codec codec_jpeg = {
    .name = "JPEG", .library = "libjpeg-turbo", .is = is, .decode = decode, .ending = "jpg", .encode = encode
};
