/* bmp.c - BMP: 1, 4, 8, 16, 24 and 32 bits a pixel, uncompressed, with bit masks or run-length encoded. */
#include "prepost/image/codec.h"
#include <stdlib.h>
#include <string.h>

enum { PLAIN = 0, RLE8 = 1, RLE4 = 2, MASKS = 3, ALPHA_MASKS = 6 };

struct bmp {
    const uint8_t *bytes;
    size_t count, pixels; /* offset of the pixels */
    int64_t width, height;
    bool top_down;
    uint32_t bits, compression;
    uint32_t mask[3]; /* bits of red, green and blue */
    uint8_t palette[256][3];
    uint32_t colours;
};

static bool is(const uint8_t *bytes, size_t count)
{
    return count >= 26 && codec_starts(bytes, count, "BM", 2);
}

static uint32_t word(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8;
}

static uint32_t dword(const uint8_t *bytes)
{
    return word(bytes) | word(bytes + 2) << 16;
}

static inlay_status damaged(const picture_sink *sink, const char *what)
{
    return inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT, "BMP: %s", what);
}

/* Reads the palette after the headers: entries of 3 bytes in the oldest version, 4 in later ones. */
static void read_palette(struct bmp *bmp, size_t at, uint32_t entry, uint32_t wanted)
{
    const uint32_t most = bmp->bits <= 8 ? 1u << bmp->bits : 0;

    bmp->colours = wanted == 0 || wanted > most ? most : wanted;
    for (uint32_t i = 0; i < bmp->colours && at + 3 <= bmp->count && at + 3 <= bmp->pixels; i++, at += entry) {
        bmp->palette[i][0] = bmp->bytes[at + 2];
        bmp->palette[i][1] = bmp->bytes[at + 1];
        bmp->palette[i][2] = bmp->bytes[at];
    }
}

static inlay_status read_header(struct bmp *bmp, const picture_sink *sink)
{
    const uint32_t header = dword(bmp->bytes + 14), mask_at = 14 + 40;
    size_t palette = 14 + (size_t)header;
    int64_t height;

    bmp->pixels = dword(bmp->bytes + 10);
    if (header == 12) {
        bmp->width = word(bmp->bytes + 18);
        height = word(bmp->bytes + 20);
        bmp->bits = word(bmp->bytes + 24);
        read_palette(bmp, palette, 3, 0);
    } else if (header >= 40 && header < 4096 && bmp->count >= 14 + (size_t)header) {
        bmp->width = (int32_t)dword(bmp->bytes + 18);
        height = (int32_t)dword(bmp->bytes + 22);
        bmp->bits = word(bmp->bytes + 28);
        bmp->compression = dword(bmp->bytes + 30);
        if (bmp->compression == MASKS || bmp->compression == ALPHA_MASKS) {
            if (bmp->count < mask_at + 12)
                return damaged(sink, "the file ends within its header");
            for (uint32_t i = 0; i < 3; i++)
                bmp->mask[i] = dword(bmp->bytes + mask_at + 4 * i);
            palette += header == 40 ? 12 : 0;
        }
        read_palette(bmp, palette, 4, dword(bmp->bytes + 46));
    } else {
        return damaged(sink, "its header has neither 12 nor 40 to 4095 bytes, or the file ends within it");
    }
    bmp->top_down = height < 0;
    bmp->height = height < 0 ? -height : height;
    if (bmp->width < 1 || bmp->height < 1 || bmp->pixels >= bmp->count)
        return damaged(sink, "the header is damaged");
    return INLAY_OK;
}

/* The bits of a value under the mask, scaled to 0 .. 255. */
static uint8_t masked(uint32_t value, uint32_t mask)
{
    uint32_t shift = 0, top;

    if (mask == 0)
        return 0;
    while (((mask >> shift) & 1) == 0)
        shift++;
    top = mask >> shift;
    return (uint8_t)((uint64_t)((value & mask) >> shift) * 255 / top);
}

static void pixel_row(const struct bmp *bmp, const uint8_t *from, uint8_t *rgb)
{
    static const uint32_t mask16[3] = { 0x7c00, 0x3e0, 0x1f }, mask32[3] = { 0xff0000, 0xff00, 0xff };
    const uint32_t *mask = bmp->compression == PLAIN ? (bmp->bits == 16 ? mask16 : mask32) : bmp->mask;

    for (int64_t x = 0; x < bmp->width; x++, rgb += 3) {
        if (bmp->bits <= 8) {
            const uint64_t bit = (uint64_t)x * bmp->bits;
            const uint32_t index = from[bit / 8] >> (8 - bmp->bits - bit % 8) & ((1u << bmp->bits) - 1);

            memcpy(rgb, bmp->palette[index], 3);
        } else if (bmp->bits == 24) {
            rgb[0] = from[3 * x + 2];
            rgb[1] = from[3 * x + 1];
            rgb[2] = from[3 * x];
        } else {
            const uint32_t value = bmp->bits == 16 ? word(from + 2 * x) : dword(from + 4 * x);

            for (int k = 0; k < 3; k++)
                rgb[k] = masked(value, mask[k]);
        }
    }
}

static inlay_status read_plain(const struct bmp *bmp, picture_sink *sink, uint8_t *row)
{
    const uint64_t stride = ((uint64_t)bmp->width * bmp->bits + 31) / 32 * 4, need = stride * (uint64_t)bmp->height;

    if (need > bmp->count - bmp->pixels &&
        need - stride + ((uint64_t)bmp->width * bmp->bits + 7) / 8 > bmp->count - bmp->pixels)
        return damaged(sink, "the file ends before its pixels do");
    for (int64_t y = 0; y < bmp->height; y++) {
        pixel_row(bmp, bmp->bytes + bmp->pixels + stride * (uint64_t)y, row);
        picture_row(sink, bmp->top_down ? y : bmp->height - 1 - y, row);
    }
    return INLAY_OK;
}

/* Reads run-length encoded pixels: runs, literal pixels and moves; index receives one byte a pixel. Pixels that no run
 * covers have colour 0. */
static inlay_status read_runs(const struct bmp *bmp, picture_sink *sink, uint8_t *index, uint8_t *row)
{
    const bool four = bmp->compression == RLE4;
    size_t at = bmp->pixels;
    int64_t x = 0, y = 0;

    while (at + 2 <= bmp->count && y < bmp->height) {
        const uint32_t length = bmp->bytes[at], operand = bmp->bytes[at + 1];

        at += 2;
        if (length == 0 && operand == 1)
            break;
        if (length == 0 && operand == 0) {
            x = 0;
            y++;
        } else if (length == 0 && operand == 2) {
            if (at + 2 > bmp->count)
                break;
            x += bmp->bytes[at];
            y += bmp->bytes[at + 1];
            at += 2;
        } else {
            const uint32_t run = length > 0 ? length : operand;
            const size_t bytes = length > 0 ? 0 : four ? (run + 1) / 2 : run;

            if (at + bytes > bmp->count)
                break;
            for (uint32_t i = 0; i < run && x < bmp->width; i++, x++) {
                const uint32_t byte = length > 0 ? operand : bmp->bytes[at + (four ? i / 2 : i)];

                index[y * bmp->width + x] = (uint8_t)(four ? (i % 2 == 0 ? byte >> 4 : byte & 15) : byte);
            }
            at += (bytes + 1) / 2 * 2;
        }
    }
    for (y = 0; y < bmp->height; y++) {
        for (x = 0; x < bmp->width; x++)
            memcpy(row + 3 * x, bmp->palette[index[y * bmp->width + x]], 3);
        picture_row(sink, bmp->top_down ? y : bmp->height - 1 - y, row);
    }
    return INLAY_OK;
}

static bool is_known(const struct bmp *bmp)
{
    switch (bmp->compression) {
    case PLAIN:
        return bmp->bits == 1 || bmp->bits == 4 || bmp->bits == 8 || bmp->bits == 16 || bmp->bits == 24 ||
               bmp->bits == 32;
    case RLE8:
        return bmp->bits == 8;
    case RLE4:
        return bmp->bits == 4;
    case MASKS:
    case ALPHA_MASKS:
        return bmp->bits == 16 || bmp->bits == 32;
    default:
        return false;
    }
}

static inlay_status decode(const uint8_t *bytes, size_t count, picture_sink *sink)
{
    struct bmp bmp = { .bytes = bytes, .count = count };
    uint8_t *row = NULL, *index = NULL;
    bool runs;
    uint64_t most;
    inlay_status status;

    INLAY_TRY(read_header(&bmp, sink));
    if (!is_known(&bmp)) {
        status = inlay_fail(sink->diag, INLAY_UNSUPPORTED, "BMP: %u bits a pixel with compression %u are not supported",
                            bmp.bits, bmp.compression);
        goto done;
    }
    runs = bmp.compression == RLE8 || bmp.compression == RLE4;
    /* A move of 4 bytes skips up to 255 rows of any width, so the file size does not bound run-length encoded
     * images. */
    most = runs ? 0 : (uint64_t)count * 8 / bmp.bits + 8;
    INLAY_TRY(picture_begin(sink, "BMP", (uint64_t)bmp.height, (uint64_t)bmp.width, most));
    row = malloc((size_t)bmp.width * 3);
    index = runs ? calloc((size_t)bmp.width, (size_t)bmp.height) : NULL;
    if (row == NULL || (runs && index == NULL)) {
        status = inlay_fail(sink->diag, INLAY_OUT_OF_MEMORY, "BMP: no memory for rows");
        goto done;
    }
    status = runs ? read_runs(&bmp, sink, index, row) : read_plain(&bmp, sink, row);
done:
    free(row);
    free(index);
    return status;
}

static void put_dword(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static inlay_status encode(const uint8_t *rgb, int64_t height, int64_t width, int quality, picture_file *out,
                           inlay_diag *diag)
{
    const size_t stride = ((size_t)width * 3 + 3) / 4 * 4;
    uint8_t head[54] = { 'B', 'M' }, *row = calloc(1, stride);
    inlay_status status = INLAY_OK;

    (void)quality;
    if (row == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "BMP: no memory");
    put_dword(head + 2, (uint32_t)(sizeof head + stride * (size_t)height));
    put_dword(head + 10, sizeof head);
    put_dword(head + 14, 40);
    put_dword(head + 18, (uint32_t)width);
    put_dword(head + 22, (uint32_t)height);
    head[26] = 1;
    head[28] = 24;
    put_dword(head + 34, (uint32_t)(stride * (size_t)height));
    INLAY_TRY(picture_append(out, head, sizeof head, diag));
    for (int64_t y = height - 1; y >= 0; y--) {
        const uint8_t *from = rgb + y * width * 3;

        for (int64_t x = 0; x < width; x++)
            for (int k = 0; k < 3; k++)
                row[3 * x + k] = from[3 * x + 2 - k];
        INLAY_TRY(picture_append(out, row, stride, diag));
    }
done:
    free(row);
    return status;
}

const struct codec codec_bmp = { .name = "BMP", .is = is, .decode = decode, .ending = "bmp", .encode = encode };
