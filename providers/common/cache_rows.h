/* cache_rows.h - keys and values in 8 or 4 bits, row by row: the formats of QuantizeRows and DequantizeRows of
 * ai.inlay.
 *
 * A row has the elements of one head at one position. Its codes are signed bytes, or two codes of 4 bits in a byte
 * with 8 added: elements 2 i (lower half) and 2 i + 1 of byte i; an odd last element is followed by code 0.
 *
 * With scales given, an element is code * scale, as in GroupQueryAttention of com.microsoft: the nearest code, ties to
 * even, within [-128, 127] or [-8, 7]; NaN becomes the largest code, and a scale of 0 counts as 1.
 *
 * Without, the row is rotated first: each of its blocks, whose size is the largest power of two that divides the row's,
 * is multiplied by an orthonormal Hadamard matrix, which spreads elements of unusual magnitude over the block. Then the
 * row gets its own scale, a float after the codes. The rotation is its own inverse and keeps dot products, so queries
 * are rotated instead of all keys. An element differs from the original by at most the row's norm times
 * sqrt(size) / 254, or / 8 with 4 bits, and a few roundings. A row with NaN, or whose rotation exceeds the largest
 * float, becomes NaN; a row whose elements are below 1e-30 becomes 0. */
#ifndef CACHE_ROWS_H
#define CACHE_ROWS_H
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct cache_format {
    int64_t size; /* elements of a row */
    int32_t bits; /* 8 or 4 */
    bool own;     /* each row has its own scale */
} cache_format;

static inline int64_t cache_code_bytes(const cache_format *format)
{
    return format->bits == 4 ? (format->size + 1) / 2 : format->size;
}
static inline int64_t cache_row_bytes(const cache_format *format)
{
    return cache_code_bytes(format) + (format->own ? (int64_t)sizeof(float) : 0);
}
/* The scale that follows the codes. */
static inline float cache_own_scale(const cache_format *format, const uint8_t *row)
{
    float scale;

    memcpy(&scale, row + cache_code_bytes(format), sizeof scale);
    return scale;
}

/* Multiplies the blocks of a row by their Hadamard matrix. */
static inline void cache_rotate(float *row, int64_t size)
{
    const int64_t block = size & -size;
    const float norm = 1 / sqrtf((float)block);

    for (int64_t half = 1; half < block; half *= 2)
        for (int64_t from = 0; from < size; from += 2 * half)
            for (int64_t i = from; i < from + half; i++) {
                const float sum = row[i] + row[i + half];

                row[i + half] = row[i] - row[i + half];
                row[i] = sum;
            }
    for (int64_t i = 0; i < size; i++)
        row[i] *= norm;
}

static inline int32_t cache_code(float x, float most)
{
    const float code = rintf(x), low = code < most ? code : most;

    return (int32_t)(low > -most - 1 ? low : -most - 1);
}

/* Writes the codes of a row whose element i is divided by scales[i * step]. */
static inline void cache_codes(const cache_format *format, const float *row, const float *inverse, int64_t step,
                               uint8_t *out)
{
    const int64_t size = format->size;

    if (format->bits == 8) {
        for (int64_t i = 0; i < size; i++)
            out[i] = (uint8_t)cache_code(row[i] * inverse[i * step], 127);
        return;
    }
    for (int64_t i = 0; i < size; i += 2) {
        const int32_t low = cache_code(row[i] * inverse[i * step], 7),
                      high = i + 1 < size ? cache_code(row[i + 1] * inverse[(i + 1) * step], 7) : 0;

        out[i / 2] = (uint8_t)((low + 8) | (high + 8) << 4);
    }
}

/* The factor that turns elements into codes. */
static inline float cache_inverse(float scale)
{
    return scale != 0 ? 1 / scale : 1;
}

/* Writes a row with its own scale. `row` is overwritten. */
static inline void cache_encode_own(const cache_format *format, float *row, uint8_t *out)
{
    float most = 0, signed_most = 0, scale = 0, inverse = 0;
    bool finite = true;

    cache_rotate(row, format->size);
    for (int64_t i = 0; i < format->size; i++) {
        const float size = fabsf(row[i]);

        finite &= size <= FLT_MAX;
        most = size > most ? size : most;
        signed_most = size == most ? row[i] : signed_most;
    }
    if (most >= 1e-30f && finite) {
        /* The largest element gets code -8, for there is no 8. */
        scale = format->bits == 8 ? most / 127 : signed_most / -8;
        inverse = 1 / scale;
    } else if (!finite) {
        scale = NAN;
        memset(row, 0, (size_t)format->size * sizeof *row);
    }
    cache_codes(format, row, &inverse, 0, out);
    memcpy(out + cache_code_bytes(format), &scale, sizeof scale);
}

/* Reads a row: element i is its code times scales[i * step]; own scales: scales is not read. */
static inline void cache_decode(const cache_format *format, const uint8_t *row, const float *scales, int64_t step,
                                float *out)
{
    const float own = format->own ? cache_own_scale(format, row) : 0;

    if (format->own) {
        scales = &own;
        step = 0;
    }
    for (int64_t i = 0; i < format->size; i++) {
        const int32_t code = format->bits == 8 ? (int8_t)row[i] : (row[i / 2] >> i % 2 * 4 & 15) - 8;

        out[i] = (float)code * scales[i * step];
    }
    if (format->own)
        cache_rotate(out, format->size);
}
#endif
