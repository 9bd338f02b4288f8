/* Any bytes as a picture: it is decoded to as many pixels as its header says, or refused with one line. */
#include "prepost/image/picture.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static uint8_t *alloc(void *user, int64_t height, int64_t width, int64_t channels)
{
    uint8_t *pixels = malloc((size_t)(height * width * channels)); /* of exact size, for sanitizers */

    *(uint8_t **)user = pixels;
    return pixels;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint8_t *pixels = NULL;
    picture_sink sink = { .order = bytes % 3 == 0   ? PICTURE_GREY
                                   : bytes % 3 == 1 ? PICTURE_BGR
                                                    : PICTURE_RGB,
                          .max_pixels = 1 << 16, /* small, so that inputs do not spend time on pixels */
                          .alloc = alloc,
                          .user = &pixels,
                          .diag = &diag };
    const inlay_status status = picture_decode(data, bytes, &sink);

    if (status != INLAY_OK && (diag.text[0] == '\0' || strchr(diag.text, '\n') != NULL))
        __builtin_trap(); /* a failure without a message, or with one of several lines */
    if (status == INLAY_OK && (pixels == NULL || sink.height <= 0 || sink.width <= 0))
        __builtin_trap(); /* a picture without pixels */
    free(pixels);
    return 0;
}
