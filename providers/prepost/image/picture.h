/* picture.h - image files, read and written: PNG, JPEG, WebP, TIFF and JPEG 2000 with the libraries found at build
 * time, BMP and PNM here.
 *
 * Headers are not trusted: before memory is allocated, the size is compared with a limit and, if the format allows it,
 * with the most pixels that the remaining bytes can encode. Thread-safe; all state belongs to the call. */
#ifndef PICTURE_H
#define PICTURE_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>

/* The layout of a pixel in bytes. */
typedef enum picture_order { PICTURE_RGB, PICTURE_BGR, PICTURE_GREY } picture_order;

/* The destination of a decoded image: rows from the top, 3 bytes a pixel (PICTURE_GREY: 1). Transparency is dropped, 16
 * bits are truncated to 8, and grey follows Pillow: (19595 R + 38470 G + 7471 B + 32768) / 65536. */
typedef struct picture_sink {
    picture_order order;
    int64_t max_pixels;
    /* Returns memory for height * width pixels; NULL: out of memory. Called once, after the header was read. */
    uint8_t *(*alloc)(void *user, int64_t height, int64_t width, int64_t channels);
    void *user;
    int64_t height, width; /* out */
    uint8_t *pixels;       /* out: what alloc returned */
    inlay_diag *diag;
} picture_sink;

enum { PICTURE_MAX_SIDE = 65500, PICTURE_MAX_PIXELS = 100 * 1000 * 1000 };

/* Decodes a file of `count` bytes; the format is detected from its first bytes. INLAY_INVALID_ARGUMENT: not an image,
 * damaged or too large; INLAY_UNSUPPORTED: this build lacks the library for it. */
inlay_status picture_decode(const uint8_t *bytes, size_t count, picture_sink *sink);

/* A file under construction: bytes are appended; the caller frees data. */
typedef struct picture_file {
    uint8_t *data;
    size_t count, room;
} picture_file;
inlay_status picture_append(picture_file *file, const void *bytes, size_t count, inlay_diag *diag);

/* True if this build has an encoder of that name ("png", "jpg", "jpeg", "webp", "bmp", "ppm"). */
bool picture_encodes(const char *format);
/* Encodes height x width pixels of PICTURE_RGB or PICTURE_BGR. quality: 1 to 100, for JPEG and WebP. */
inlay_status picture_encode(const char *format, const uint8_t *pixels, int64_t height, int64_t width,
                            picture_order order, int quality, picture_file *out, inlay_diag *diag);
#endif
