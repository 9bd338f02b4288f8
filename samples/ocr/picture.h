/* picture.h - RGB pictures: PNG files, scaling, frames. */
#ifndef OCR_PICTURE_H
#define OCR_PICTURE_H
#include <stdbool.h>
#include <stddef.h>

struct picture {
    unsigned char *pixels; /* [height][width][3] red, green, blue; owned */
    int width, height;
};

/* In pixels; x0, y0 inside, x1, y1 outside. */
struct box {
    int x0, y0, x1, y1;
    float score; /* 0 to 1: confidence that this is text */
};

/* Both return false if they fail, and print the file's name and the reason to stderr. */
bool picture_read(const char *path, struct picture *out);
bool picture_write(const char *path, const struct picture *picture);
void picture_deinit(struct picture *picture);

/* Scales the part of the picture within the box to width x height (bilinear) and writes it as planes of floats,
 * [3][height][width], in the order blue, green, red that PaddleOCR was trained with: (value / 255 - mean[c]) /
 * deviation[c]. */
void picture_to_planes(const struct picture *picture, struct box box, int width, int height, const float mean[3],
                       const float deviation[3], float *planes);
/* Draws a red frame, clipped to the picture. */
void picture_frame(struct picture *picture, struct box box);
#endif
