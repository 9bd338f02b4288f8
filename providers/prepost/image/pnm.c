/* pnm.c - PNM: P1 to P6, which are PBM, PGM and PPM as text or binary. */
#include "prepost/image/codec.h"
#include <stdio.h>
#include <stdlib.h>

struct reader {
    const uint8_t *bytes;
    size_t count, at;
};

static bool is(const uint8_t *bytes, size_t count)
{
    return count >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
           (bytes[2] == ' ' || bytes[2] == '\n' || bytes[2] == '\r' || bytes[2] == '\t' || bytes[2] == '#');
}

static bool is_space(uint8_t character)
{
    return character == ' ' || (character >= '\t' && character <= '\r');
}

/* Skips white space and comments. */
static void skip(struct reader *reader)
{
    while (reader->at < reader->count && (is_space(reader->bytes[reader->at]) || reader->bytes[reader->at] == '#')) {
        if (reader->bytes[reader->at] == '#')
            while (reader->at < reader->count && reader->bytes[reader->at] != '\n')
                reader->at++;
        else
            reader->at++;
    }
}

/* Reads the next number, or one digit of a bitmap; false: none. */
static bool number(struct reader *reader, bool digit, uint32_t *out)
{
    uint32_t value = 0;
    size_t from;

    skip(reader);
    from = reader->at;
    while (reader->at < reader->count && reader->bytes[reader->at] >= '0' && reader->bytes[reader->at] <= '9' &&
           value < 100000000) {
        value = value * 10 + (uint32_t)(reader->bytes[reader->at++] - '0');
        if (digit)
            break;
    }
    *out = value;
    return reader->at > from;
}

static uint8_t scaled(uint32_t value, uint32_t most)
{
    const uint32_t clipped = value > most ? most : value;

    return (uint8_t)(most == 255 ? clipped : ((uint64_t)clipped * 510 + most) / (2 * (uint64_t)most));
}

/* Reads one row of samples, scaled to 8 bits. */
static bool read_row(struct reader *reader, uint8_t kind, int64_t width, uint32_t most, uint8_t *rgb)
{
    const bool text = kind <= '3', bits = kind == '1' || kind == '4', colour = kind == '3' || kind == '6';
    const int channels = colour ? 3 : 1;

    for (int64_t x = 0; x < width; x++) {
        for (int k = 0; k < channels; k++) {
            uint32_t value = 0;

            if (text) {
                if (!number(reader, bits, &value))
                    return false;
            } else if (bits) {
                value = reader->bytes[reader->at + (size_t)x / 8] >> (7 - x % 8) & 1;
            } else {
                value = reader->bytes[reader->at++];
                if (most > 255)
                    value = value << 8 | reader->bytes[reader->at++];
            }
            rgb[3 * x + k] = bits ? (value ? 0 : 255) : scaled(value, most);
        }
        for (int k = channels; k < 3; k++)
            rgb[3 * x + k] = rgb[3 * x];
    }
    if (kind == '4')
        reader->at += ((size_t)width + 7) / 8;
    return true;
}

static inlay_status decode(const uint8_t *bytes, size_t count, picture_sink *sink)
{
    struct reader reader = { bytes, count, 2 };
    const uint8_t kind = bytes[1];
    uint32_t width = 0, height = 0, most = 1;
    uint64_t row_bytes, left;
    uint8_t *row;
    inlay_status status;

    if (!number(&reader, false, &width) || !number(&reader, false, &height) ||
        (kind != '1' && kind != '4' && !number(&reader, false, &most)) || most < 1 || most > 65535)
        return inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT, "PNM: the header is damaged");
    reader.at += kind > '3' ? 1 : 0; /* the single white space after the header */
    left = reader.at < count ? count - reader.at : 0;
    row_bytes =
        kind == '4' ? ((uint64_t)width + 7) / 8 : (uint64_t)width * (kind == '6' ? 3 : 1) * (most > 255 ? 2 : 1);
    if (kind <= '3')
        row_bytes = kind == '1' ? width : (uint64_t)width * (kind == '3' ? 6 : 2) - 1;
    if (width == 0 || height == 0 || row_bytes > left / height + 1 || row_bytes * height > left + 1)
        return inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT,
                          "PNM: the file is too short for the %u x %u pixels of its header", width, height);
    if (kind > '3' && row_bytes * height > left)
        return inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT, "PNM: the pixel data is truncated");
    status = picture_begin(sink, "PNM", height, width, 0);
    if (status != INLAY_OK)
        return status;
    row = malloc((size_t)width * 3);
    if (row == NULL)
        return inlay_fail(sink->diag, INLAY_OUT_OF_MEMORY, "PNM: no memory for rows");
    for (int64_t y = 0; status == INLAY_OK && y < sink->height; y++) {
        if (read_row(&reader, kind, sink->width, most, row))
            picture_row(sink, y, row);
        else
            status = inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT,
                                "PNM: the pixel data is truncated, or not a number at byte %llu",
                                (unsigned long long)reader.at);
    }
    free(row);
    return status;
}

static inlay_status encode(const uint8_t *rgb, int64_t height, int64_t width, int quality, picture_file *out,
                           inlay_diag *diag)
{
    char head[48];
    const int head_bytes = snprintf(head, sizeof head, "P6\n%d %d\n255\n", (int)width, (int)height);
    const inlay_status status = picture_append(out, head, (size_t)head_bytes, diag);

    (void)quality;
    return status == INLAY_OK ? picture_append(out, rgb, (size_t)(height * width * 3), diag) : status;
}

const struct codec codec_pnm = { .name = "PNM", .is = is, .decode = decode, .ending = "ppm", .encode = encode };
