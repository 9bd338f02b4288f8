/* texts/model/pixels.h - images as the encoder of a folder reads them that Hugging Face publishes: resized, cut and
 * normalized by its preprocessor_config.json, with Pillow's filters, as the image processors of transformers do. */
#ifndef TEXTS_PIXELS_H
#define TEXTS_PIXELS_H
#include "base/wire.h"
#include "inlay/inlay.h"
#include <stdbool.h>

/* What preprocessor_config.json states. */
typedef struct pixel_form {
    int filter;                      /* of prepost/image/resample.h */
    bool resizes, tiles;             /* tiles: the image, and if it is large, squares of a larger one (Idefics3) */
    int64_t height, width;           /* of the resized image, or of a square; 0: by `edge` */
    int64_t edge;                    /* of the resized image: its shorter side, or with tiles its longer side */
    int64_t crop_height, crop_width; /* of the middle of the resized image; 0: all of it */
    bool splits;                     /* with tiles: a large image has squares */
    int64_t patch, merged, frames;   /* of a grid (Qwen2-VL): pixels of the side of a patch, patches of the side of the
                                      * square that gives one row, frames of an image; patch 0: no grid */
    int64_t least, most;             /* of a grid: pixels */
    float scale, mean[3], deviation[3];
} pixel_form;

/* INLAY_INVALID_ARGUMENT: the file is missing or damaged. INLAY_UNSUPPORTED: a setting is not supported; the message
 * names it. */
INLAY_NODISCARD inlay_status pixel_form_read(const char *folder, pixel_form *out_form, inlay_diag *diag);

/* What the encoder reads of an image. */
typedef struct pixel_planes {
    float *data; /* [count, 3, height, width] owned; of a grid: [count, width], a row for each patch */
    int64_t count, height, width;
    int64_t rows, columns; /* of the squares that come before the image itself; 0: there are none; of a grid: patches */
} pixel_planes;

/* pixels: [height, width, 3]. out_planes->data is the caller's to free. */
INLAY_NODISCARD inlay_status pixels_prepare(const pixel_form *form, const uint8_t *pixels, int64_t height,
                                            int64_t width, pixel_planes *out_planes, inlay_diag *diag);

/* Decodes the file of an image: from uint8 [bytes] to uint8 [height, width, 3]. */
typedef struct pixel_decoder {
    struct wire model; /* which the session reads */
    inlay_session *session;
    inlay_context *context;
} pixel_decoder;
INLAY_NODISCARD inlay_status pixel_decoder_open(pixel_decoder *decoder, const inlay_options *options, inlay_diag *diag);
void pixel_decoder_close(pixel_decoder *decoder); /* also after a failure */
#endif
