/* pictures.h - pictures of one colour as JPEG and PNG files in memory. */
#ifndef SERVE_PICTURES_H
#define SERVE_PICTURES_H
#include <stddef.h>
#include <stdint.h>

typedef struct picture_data {
    uint8_t *data; /* owned; free() */
    size_t bytes;
} picture_data;

/* colour: 0xrrggbb. */
picture_data picture_jpeg(uint32_t width, uint32_t height, uint32_t colour);
picture_data picture_png(uint32_t width, uint32_t height, uint32_t colour);
#endif
