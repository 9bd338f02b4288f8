#include "pictures.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h>
#include <png.h>
#include "cmocka_all.h"

static uint8_t *new_row(uint32_t width, uint32_t colour)
{
    uint8_t *row = malloc((size_t)width * 3);

    assert_non_null(row);
    for (uint32_t x = 0; x < width; x++) {
        row[3 * x] = (uint8_t)(colour >> 16);
        row[3 * x + 1] = (uint8_t)(colour >> 8);
        row[3 * x + 2] = (uint8_t)colour;
    }
    return row;
}

picture_data picture_jpeg(uint32_t width, uint32_t height, uint32_t colour)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    uint8_t *row = new_row(width, colour);
    unsigned char *data = NULL;
    unsigned long bytes = 0;

    jpeg.err = jpeg_std_error(&errors); /* which ends the program */
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &data, &bytes);
    jpeg.image_width = width;
    jpeg.image_height = height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    for (uint32_t y = 0; y < height; y++)
        assert_int_equal(jpeg_write_scanlines(&jpeg, &row, 1), 1);
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    free(row);
    return (picture_data){ data, bytes };
}

picture_data picture_png(uint32_t width, uint32_t height, uint32_t colour)
{
    png_image image = { .version = PNG_IMAGE_VERSION, .width = width, .height = height, .format = PNG_FORMAT_RGB };
    uint8_t *row = new_row(width, colour), *pixels = malloc((size_t)width * height * 3);
    png_alloc_size_t bytes = 0;
    picture_data made;

    assert_non_null(pixels);
    for (uint32_t y = 0; y < height; y++)
        memcpy(pixels + (size_t)y * width * 3, row, (size_t)width * 3);
    assert_true(png_image_write_get_memory_size(image, bytes, 0, pixels, 0, NULL));
    made = (picture_data){ malloc(bytes), bytes };
    assert_non_null(made.data);
    assert_true(png_image_write_to_memory(&image, made.data, &bytes, 0, pixels, 0, NULL));
    free(pixels);
    free(row);
    return made;
}
