#include "picture.h"
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PIXELS = 64 * 1000 * 1000 };

bool picture_read(const char *path, struct picture *out)
{
    png_image image = { .version = PNG_IMAGE_VERSION };

    *out = (struct picture){ 0 };
    if (!png_image_begin_read_from_file(&image, path)) {
        fprintf(stderr, "ocr: %s: cannot be read as PNG: %s\n", path, image.message);
        return false;
    }
    if (image.width < 8 || image.height < 8 || (size_t)image.width * image.height > MAX_PIXELS) {
        fprintf(stderr, "ocr: %s: %u x %u pixels; a side has 8 or more, and all together are at most %d million\n",
                path, image.width, image.height, MAX_PIXELS / 1000000);
        png_image_free(&image);
        return false;
    }
    image.format = PNG_FORMAT_RGB;
    out->pixels = malloc(PNG_IMAGE_SIZE(image));
    if (out->pixels == NULL || !png_image_finish_read(&image, NULL, out->pixels, 0, NULL)) {
        fprintf(stderr, "ocr: %s: %s\n", path, out->pixels == NULL ? "no memory for the picture" : image.message);
        png_image_free(&image);
        picture_deinit(out);
        return false;
    }
    out->width = (int)image.width;
    out->height = (int)image.height;
    return true;
}

bool picture_write(const char *path, const struct picture *picture)
{
    png_image image = { .version = PNG_IMAGE_VERSION,
                        .width = (png_uint_32)picture->width,
                        .height = (png_uint_32)picture->height,
                        .format = PNG_FORMAT_RGB };

    if (png_image_write_to_file(&image, path, 0, picture->pixels, 0, NULL))
        return true;
    fprintf(stderr, "ocr: %s: cannot be written: %s\n", path, image.message);
    return false;
}

void picture_deinit(struct picture *picture)
{
    free(picture->pixels);
    *picture = (struct picture){ 0 };
}

static float sample(const struct picture *picture, float x, float y, int channel)
{
    int x0, y0, x1, y1;
    float fx, fy, top, bottom;
    const unsigned char *at;

    x = x < 0 ? 0 : x > (float)(picture->width - 1) ? (float)(picture->width - 1) : x;
    y = y < 0 ? 0 : y > (float)(picture->height - 1) ? (float)(picture->height - 1) : y;
    x0 = (int)x;
    y0 = (int)y;
    x1 = x0 + 1 < picture->width ? x0 + 1 : x0;
    y1 = y0 + 1 < picture->height ? y0 + 1 : y0;
    fx = x - (float)x0;
    fy = y - (float)y0;
    at = picture->pixels + channel;
#define PIXEL(px, py) ((float)at[((size_t)(py) * (size_t)picture->width + (size_t)(px)) * 3])
    top = PIXEL(x0, y0) * (1 - fx) + PIXEL(x1, y0) * fx;
    bottom = PIXEL(x0, y1) * (1 - fx) + PIXEL(x1, y1) * fx;
#undef PIXEL
    return top * (1 - fy) + bottom * fy;
}

void picture_to_planes(const struct picture *picture, struct box box, int width, int height, const float mean[3],
                       const float deviation[3], float *planes)
{
    float step_x = (float)(box.x1 - box.x0) / (float)width, step_y = (float)(box.y1 - box.y0) / (float)height;

    for (int c = 0; c < 3; c++) {
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width; x++) {
                float value = sample(picture, (float)box.x0 + ((float)x + 0.5f) * step_x - 0.5f,
                                     (float)box.y0 + ((float)y + 0.5f) * step_y - 0.5f, 2 - c);
                *planes++ = (value / 255 - mean[c]) / deviation[c];
            }
        }
    }
}

static void dot(struct picture *picture, int x, int y)
{
    static const unsigned char red[3] = { 220, 30, 30 };

    if (x >= 0 && y >= 0 && x < picture->width && y < picture->height)
        memcpy(picture->pixels + ((size_t)y * (size_t)picture->width + (size_t)x) * 3, red, sizeof red);
}

void picture_frame(struct picture *picture, struct box box)
{
    for (int thick = 0; thick < 2; thick++) {
        for (int x = box.x0; x < box.x1; x++) {
            dot(picture, x, box.y0 + thick);
            dot(picture, x, box.y1 - 1 - thick);
        }
        for (int y = box.y0; y < box.y1; y++) {
            dot(picture, box.x0 + thick, y);
            dot(picture, box.x1 - 1 - thick, y);
        }
    }
}
