/* picture.h - pictures in files, read and written: PNG, JPEG, WebP, TIFF and JPEG 2000 by the libraries that were there
 * when this was built, BMP and PNM here.
 *
 * A header is not believed: what it says is held against a limit and, where the format has one, against what the bytes
 * behind it can hold at most, before memory is taken. Any thread; no state but the call's. */
#ifndef PICTURE_H
#define PICTURE_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>

/* How a pixel is laid out, as bytes. */
typedef enum picture_order { PICTURE_RGB, PICTURE_BGR, PICTURE_GREY } picture_order;

/* Where a picture goes: rows from the top, each pixel 3 bytes (PICTURE_GREY: 1). Transparency is dropped, 16 bits are
 * cut to 8, grey is what Pillow makes of colours: (19595 R + 38470 G + 7471 B + 32768) / 65536. */
typedef struct picture_sink {
    picture_order order;
    int64_t max_pixels;
    /* Memory for height * width pixels; NULL: there is none. Called once, when the header has been read. */
    uint8_t *(*alloc)(void *user, int64_t height, int64_t width, int64_t channels);
    void *user;
    int64_t height, width; /* out */
    uint8_t *pixels;       /* out: what alloc returned */
    inlay_diag *diag;
} picture_sink;

enum { PICTURE_MAX_SIDE = 65500, PICTURE_MAX_PIXELS = 100 * 1000 * 1000 };

/* Reads a file of `count` bytes whose format its first bytes tell. INLAY_INVALID_ARGUMENT: it is no picture, damaged or
 * too large; INLAY_UNSUPPORTED: this build has no library for it. */
inlay_status picture_decode(const uint8_t *bytes, size_t count, picture_sink *sink);

/* Where a file goes: appended to; the caller frees data. */
typedef struct picture_file {
    uint8_t *data;
    size_t count, room;
} picture_file;
inlay_status picture_append(picture_file *file, const void *bytes, size_t count, inlay_diag *diag);

/* Is there an encoder of that name ("png", "jpg", "jpeg", "webp", "bmp", "ppm")? */
bool picture_encodes(const char *format);
/* Writes height x width pixels of PICTURE_RGB or PICTURE_BGR. quality: 1 to 100, of JPEG and WebP. */
inlay_status picture_encode(const char *format, const uint8_t *pixels, int64_t height, int64_t width,
                            picture_order order, int quality, picture_file *out, inlay_diag *diag);
#endif
