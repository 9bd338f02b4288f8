/* The depthwise kernels of byte_set.h for one instruction set. */
#include "cpu/quantized/bytes_window.h"
#include "inlay/check.h"
#include "simd/vec_int.h"

#if defined(KERNEL_IS_avx512)
/* Vectors of sums of a block; each of the four vectors of quads belongs to one of them. */
enum { SUMS = 4 };
typedef __mmask32 channel_mask;

VEC_INLINE channel_mask channels_of(int64_t count)
{
    return (channel_mask)int_mask(count);
}

VEC_INLINE ivec dot(ivec sum, ivec x, ivec w)
{
    return int_dot(sum, x, w);
}

/* Loads the channels of pixel `at` of a row; in half blocks, those of pixel at + shift, too. */
VEC_INLINE ivec pixel(const byte_block kind, const uint8_t *const *row, int64_t at, int64_t shift, int64_t c,
                      channel_mask mask)
{
    if (kind == BYTE_WHOLE)
        return _mm512_loadu_si512(row[at] + c);
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_maskz_loadu_epi8(mask, row[at] + c)),
                              _mm256_maskz_loadu_epi8(mask, row[at + shift] + c), 1);
}

/* Loads a column of four rows as quads: four channels of each 128-bit lane are in each vector. */
VEC_INLINE void column(const byte_block kind, const byte_window *window, int64_t row, int64_t at, int64_t shift,
                       int64_t c, channel_mask mask, ivec *d)
{
    ivec x[4], pair[4];

    VEC_UNROLL
    for (int r = 0; r < 4; r++)
        x[r] = pixel(kind, window->x[row + r], at, shift, c, mask);
    if (window->flip) {
        VEC_UNROLL
        for (int r = 0; r < 4; r++)
            x[r] = int_xor(x[r], int_set_byte(0x80));
    }
    pair[0] = _mm512_unpacklo_epi8(x[0], x[1]);
    pair[1] = _mm512_unpackhi_epi8(x[0], x[1]);
    pair[2] = _mm512_unpacklo_epi8(x[2], x[3]);
    pair[3] = _mm512_unpackhi_epi8(x[2], x[3]);
    d[0] = _mm512_unpacklo_epi16(pair[0], pair[2]);
    d[1] = _mm512_unpackhi_epi16(pair[0], pair[2]);
    d[2] = _mm512_unpacklo_epi16(pair[1], pair[3]);
    d[3] = _mm512_unpackhi_epi16(pair[1], pair[3]);
}

/* Lane 4 l + i of vector v is channel 16 l + 4 v + i; in half blocks channel 16 (l % 2) + 4 v + i of pixel l / 2. */
int KERNEL(bytes_sum_place)(byte_block kind, int channel)
{
    return channel / 4 % 4 * VEC_LANES + channel / 16 % (kind == BYTE_HALF ? 2 : 4) * 4 + channel % 4;
}

int KERNEL(bytes_tap_place)(byte_block kind, int channel, int row)
{
    return KERNEL(bytes_sum_place)(kind, channel) * 4 + row;
}

/* Converts four vectors of sums to the stored type, in the order of channels. */
VEC_INLINE void whole_words(const byte_ending *ending, int64_t c, const ivec *sum, ivec *out)
{
    ivec x[4], low[2], high[2];

    VEC_UNROLL
    for (int v = 0; v < 4; v++)
        x[v] =
            ending->kind == BYTE_SUMS
                ? sum[v]
                : _mm512_castps_si512(vec_add(vec_mul(int_float(sum[v]), vec_load(ending->scale + c + v * VEC_LANES)),
                                              vec_load(ending->shift + c + v * VEC_LANES)));
    VEC_UNROLL
    for (int i = 0; i < 2; i++) {
        low[i] = _mm512_shuffle_i32x4(x[2 * i], x[2 * i + 1], 0x44);
        high[i] = _mm512_shuffle_i32x4(x[2 * i], x[2 * i + 1], 0xee);
    }
    out[0] = _mm512_shuffle_i32x4(low[0], low[1], 0x88);
    out[1] = _mm512_shuffle_i32x4(low[0], low[1], 0xdd);
    out[2] = _mm512_shuffle_i32x4(high[0], high[1], 0x88);
    out[3] = _mm512_shuffle_i32x4(high[0], high[1], 0xdd);
}

VEC_INLINE void store_words(const byte_block kind, const int pixels, int64_t second, const byte_window *window,
                            int64_t c, ivec sum[][SUMS])
{
    VEC_UNROLL
    for (int p = 0; p < pixels; p++) {
        uint8_t *output = window->output + p * window->y_pixel;
        ivec x[4];

        whole_words(&window->ending, c, sum[p], x);
        VEC_UNROLL
        for (int v = 0; v < 4; v++) {
            if (kind == BYTE_WHOLE) {
                int_store(output + 4 * c + v * (int64_t)sizeof(ivec), x[v]);
            } else {
                uint8_t *half = output + v / 2 * second * window->y_pixel + v % 2 * (int64_t)sizeof(ivec);

                vec_store_some((float *)(void *)half, vec_first(window->channels - v % 2 * VEC_LANES),
                               _mm512_castsi512_ps(x[v]));
            }
        }
    }
}

VEC_INLINE void end_bytes(const byte_block kind, const int pixels, int64_t second, const byte_window *window, int64_t c,
                          ivec sum[][SUMS])
{
    const byte_ending *ending = &window->ending;
    const ivec zero = int_set_short(ending->zero), low = int_set_byte(ending->low), high = int_set_byte(ending->high);
    const ivec flip = int_set_byte(ending->flip);

    VEC_UNROLL
    for (int p = 0; p < pixels; p++) {
        uint8_t *output = window->output + p * window->y_pixel;
        ivec q[4], bytes;

        VEC_UNROLL
        for (int v = 0; v < 4; v++)
            q[v] = int_round(vec_mul(int_float(sum[p][v]), vec_load(ending->scale + c + v * VEC_LANES)));
        bytes = int_xor(int_bytes(q, zero, low, high), flip);
        if (kind == BYTE_WHOLE) {
            int_store(output + c, bytes);
        } else {
            int_store_part(output, bytes, 0, 2, window->channels);
            int_store_part(output + second * window->y_pixel, bytes, 1, 2, window->channels);
        }
    }
}
#define KINDS(X, pixels, width, stride) X(BYTE_WHOLE, pixels, width, stride) X(BYTE_HALF, pixels, width, stride)
#else
/* Vectors of pairs 0 and 1 hold rows 0 and 1; vectors 2 and 3 hold rows 2 and 3. They belong to two vectors of sums. */
enum { SUMS = 2 };
typedef int channel_mask;

VEC_INLINE channel_mask channels_of(int64_t count)
{
    return (int)count;
}

VEC_INLINE ivec dot(ivec sum, ivec x, ivec w)
{
    return int_dot_pairs(sum, x, w);
}

VEC_INLINE void column(const byte_block kind, const byte_window *window, int64_t row, int64_t at, int64_t shift,
                       int64_t c, channel_mask mask, ivec *d)
{
    ivec x[4];

    (void)kind;
    (void)shift;
    (void)mask;
    VEC_UNROLL
    for (int r = 0; r < 4; r++)
        x[r] = int_widen(window->x[row + r][at] + c);
    if (window->flip) {
        VEC_UNROLL
        for (int r = 0; r < 4; r++)
            x[r] = int_xor(x[r], int_set_short(0x80));
    }
    d[0] = int_zip_low(x[0], x[1]);
    d[1] = int_zip_high(x[0], x[1]);
    d[2] = int_zip_low(x[2], x[3]);
    d[3] = int_zip_high(x[2], x[3]);
}

/* Lane 4 l + i of vector v is channel 8 l + 4 v + i: words are interleaved within 128 bits. */
int KERNEL(bytes_sum_place)(byte_block kind, int channel)
{
    (void)kind;
    return channel / 4 % 2 * VEC_LANES + channel / 8 * 4 + channel % 4;
}

int KERNEL(bytes_tap_place)(byte_block kind, int channel, int row)
{
    return row / 2 * 4 * VEC_LANES + KERNEL(bytes_sum_place)(kind, channel) * 2 + row % 2;
}

VEC_INLINE void store_words(const byte_block kind, const int pixels, int64_t second, const byte_window *window,
                            int64_t c, ivec sum[][SUMS])
{
    const byte_ending *ending = &window->ending;

    (void)kind;
    (void)second;
    VEC_UNROLL
    for (int p = 0; p < pixels; p++) {
        uint8_t *output = window->output + p * window->y_pixel + 4 * c;
        ivec x[2];

        VEC_UNROLL
        for (int v = 0; v < 2; v++) {
            const int64_t at = c + v * VEC_LANES;

            x[v] = ending->kind == BYTE_SUMS
                       ? sum[p][v]
                       : int_bits(vec_add(vec_mul(int_float(sum[p][v]), vec_load(ending->scale + at)),
                                          vec_load(ending->shift + at)));
        }
        int_store(output, int_first(x[0], x[1]));
        int_store(output + sizeof(ivec), int_second(x[0], x[1]));
    }
}

VEC_INLINE void end_bytes(const byte_block kind, const int pixels, int64_t second, const byte_window *window, int64_t c,
                          ivec sum[][SUMS])
{
    const byte_ending *ending = &window->ending;
    const ivec zero = int_set_short(ending->zero), low = int_set_byte(ending->low), high = int_set_byte(ending->high);
    const ivec flip = int_set_byte(ending->flip);
    const vec scale[2] = { vec_load(ending->scale + c), vec_load(ending->scale + c + VEC_LANES) };

    (void)kind;
    (void)second;
    VEC_UNROLL
    for (int p = 0; p < pixels; p += 2) { /* two pixels at a time */
        uint8_t *output = window->output + p * window->y_pixel + c;
        ivec q[4], bytes;

        VEC_UNROLL
        for (int v = 0; v < 4; v++)
            q[v] = int_round(vec_mul(int_float(sum[p + v / 2 < pixels ? p + v / 2 : p][v % 2]), scale[v % 2]));
        bytes = int_in_pairs(int_xor(int_bytes(q, zero, low, high), flip));
        int_store_part(output, bytes, 0, 2, BYTES_BLOCK);
        if (p + 1 < pixels)
            int_store_part(output + window->y_pixel, bytes, 1, 2, BYTES_BLOCK);
    }
}
#define KINDS(X, pixels, width, stride) X(BYTE_WHOLE, pixels, width, stride)
#endif

VEC_INLINE void end_pixels(const byte_block kind, const int pixels, int64_t second, const byte_window *window,
                           int64_t c, ivec sum[][SUMS])
{
    if (window->ending.kind == BYTE_BYTES)
        end_bytes(kind, pixels, second, window, c, sum);
    else
        store_words(kind, pixels, second, window, c, sum);
}

#if !defined(KERNEL_IS_avx512)
VEC_INLINE ivec wide_pixel(const bool flip, const byte_window *window, int row, int64_t at, int64_t c)
{
    const ivec x = int_widen(window->x[row][at] + c);

    return flip ? int_xor(x, int_set_short(0x80)) : x;
}

/* 3 x 3 windows: multiplies pairs of pixels, vertical neighbours in rows 0 and 1, horizontal ones in row 2. There, the
 * last pixel of a window is paired with a pixel whose weight is zero. */
VEC_INLINE void three_by_three(const int pixels, const int stride, const bool flip, const byte_window *window)
{
    enum { TAPS = 3, VECTOR = sizeof(ivec) };
    const int8_t *weights = window->weights;

    for (int64_t c = 0; c < window->channels; c += BYTES_BLOCK, weights += TAPS * 4 * VECTOR) {
        const ivec zero = int_set(0);
        ivec sum[BYTE_PIXELS][SUMS], neighbours[SUMS], last = zero;

        VEC_UNROLL
        for (int v = 0; v < SUMS; v++) {
            neighbours[v] =
                int_or(int_load(weights + (2 + v) * VECTOR), int_up_16(int_load(weights + (6 + v) * VECTOR)));
            VEC_UNROLL
            for (int p = 0; p < pixels; p++)
                sum[p][v] = int_load(window->ending.first + c + v * VEC_LANES);
        }
        VEC_UNROLL
        for (int i = 0; i <= (pixels - 1) * stride + TAPS; i++) {
            const bool inside = i < (pixels - 1) * stride + TAPS;
            const ivec x = inside ? wide_pixel(flip, window, 2, i, c + window->channel) : zero;
            const ivec d[SUMS] = { int_zip_low(last, x), int_zip_high(last, x) };

            VEC_UNROLL
            for (int p = 0; p < pixels; p++) { /* d: columns i - 1 and i of row 2 */
                VEC_UNROLL
                for (int v = 0; v < SUMS; v++) {
                    if (i - 1 == p * stride)
                        sum[p][v] = int_dot_pairs(sum[p][v], d[v], neighbours[v]);
                    else if (i - 1 == p * stride + 2)
                        sum[p][v] = int_dot_pairs(sum[p][v], d[v], int_load(weights + (10 + v) * VECTOR));
                }
            }
            last = x;
            if (!inside)
                continue;
            {
                const ivec top = wide_pixel(flip, window, 0, i, c + window->channel);
                const ivec middle = wide_pixel(flip, window, 1, i, c + window->channel);
                const ivec e[SUMS] = { int_zip_low(top, middle), int_zip_high(top, middle) };

                VEC_UNROLL
                for (int p = 0; p < pixels; p++) {
                    VEC_UNROLL
                    for (int v = 0; v < SUMS; v++)
                        if (i >= p * stride && i < p * stride + TAPS)
                            sum[p][v] =
                                int_dot_pairs(sum[p][v], e[v], int_load(weights + ((i - p * stride) * 4 + v) * VECTOR));
                }
            }
        }
        end_pixels(BYTE_WHOLE, pixels, 0, window, c, sum);
    }
}

#define EACH_3(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(1, 2) X(2, 2) X(3, 2) X(4, 2)
#define CELL(pixels, stride)                                                                                           \
    KERNEL_PART(void, bytes_three_##pixels##_##stride, const byte_window *window)                                      \
    {                                                                                                                  \
        three_by_three(pixels, stride, false, window);                                                                 \
    }                                                                                                                  \
    KERNEL_PART(void, bytes_flipped_three_##pixels##_##stride, const byte_window *window)                              \
    {                                                                                                                  \
        three_by_three(pixels, stride, true, window);                                                                  \
    }
EACH_3(CELL)
#undef CELL
#endif

/* width, stride: those of the window if pixels share columns; 0: any, and each pixel loads its own columns. pixels: in
 * half blocks, half of the window's pixels. */
VEC_INLINE void windows(const byte_block kind, const int pixels, const int width, const int stride,
                        const byte_window *window)
{
    const int64_t taps = width > 0 ? width : window->width, vector = (int64_t)sizeof(ivec);
    const int64_t second = kind == BYTE_HALF ? window->pixels - pixels : 0, shift = second * window->stride;
    const channel_mask mask = channels_of(window->channels); /* used by half blocks */
    const int8_t *weights = window->weights;

    for (int64_t c = 0; c < window->channels; c += BYTES_BLOCK) {
        ivec sum[BYTE_PIXELS][SUMS];

        VEC_UNROLL
        for (int v = 0; v < SUMS; v++) {
            VEC_UNROLL
            for (int p = 0; p < pixels; p++)
                sum[p][v] = int_load(window->ending.first + c + v * VEC_LANES);
        }
        for (int64_t q = 0; q < window->quads; q++, weights += taps * 4 * vector) {
            ivec d[4];

            if (width > 0) {
                VEC_UNROLL
                for (int i = 0; i < (pixels - 1) * stride + width; i++) {
                    column(kind, window, 4 * q, i, shift, window->channel + c, mask, d);
                    VEC_UNROLL
                    for (int k = 0; k < width; k++) {
                        VEC_UNROLL
                        for (int v = 0; v < 4; v++)
                            if (i >= k && (i - k) % stride == 0 && (i - k) / stride < pixels)
                                sum[(i - k) / stride][v % SUMS] = dot(sum[(i - k) / stride][v % SUMS], d[v],
                                                                      int_load(weights + (k * 4 + v) * vector));
                    }
                }
                continue;
            }
            for (int64_t k = 0; k < taps; k++) {
                VEC_UNROLL
                for (int p = 0; p < pixels; p++) {
                    column(kind, window, 4 * q, p * window->stride + k * window->dilation, shift, window->channel + c,
                           mask, d);
                    VEC_UNROLL
                    for (int v = 0; v < 4; v++)
                        sum[p][v % SUMS] = dot(sum[p][v % SUMS], d[v], int_load(weights + (k * 4 + v) * vector));
                }
            }
        }
        end_pixels(kind, pixels, second, window, c, sum);
    }
}

#define SIZES(X, width, stride)                                                                                        \
    KINDS(X, 1, width, stride) KINDS(X, 2, width, stride) KINDS(X, 3, width, stride) KINDS(X, 4, width, stride)
#define CELLS_OF(X) SIZES(X, 3, 1) SIZES(X, 3, 2) SIZES(X, 5, 1) SIZES(X, 5, 2) SIZES(X, 0, 0)
#define CELL(kind, pixels, width, stride)                                                                              \
    KERNEL_PART(void, window_##kind##_##width##_##stride##_##pixels, const byte_window *window)                        \
    {                                                                                                                  \
        windows(kind, pixels, width, stride, window);                                                                  \
    }
CELLS_OF(CELL)
#undef CELL

void KERNEL(bytes_window)(const byte_window *window)
{
    static void (*const table[][2][BYTE_KINDS][BYTE_PIXELS])(const byte_window *) = {
#define CELL(kind, pixels, width, stride)                                                                              \
    [(width) / 2][(stride) > 0 ? (stride)-1 : 0][kind][pixels - 1] =                                                   \
        KERNEL_PART_OF(window_##kind##_##width##_##stride##_##pixels),
        CELLS_OF(CELL)
#undef CELL
    };
    const bool shared = (window->width == 3 || window->width == 5) && (window->stride == 1 || window->stride == 2) &&
                        window->dilation == 1;
    const int pixels = window->kind == BYTE_HALF ? (window->pixels + 1) / 2 : window->pixels;
#if !INT_HALVES
    INLAY_CHECK(window->kind == BYTE_WHOLE);
    static void (*const threes[2][BYTE_PIXELS][2])(const byte_window *) = {
#define CELL(pixels, stride)                                                                                           \
    [stride - 1][pixels - 1] = { KERNEL_PART_OF(bytes_three_##pixels##_##stride),                                      \
                                 KERNEL_PART_OF(bytes_flipped_three_##pixels##_##stride) },
        EACH_3(CELL)
#undef CELL
    };

    if (shared && window->width == 3 && window->height <= 3) {
        threes[window->stride - 1][pixels - 1][window->flip](window);
        return;
    }
#endif
    INLAY_CHECK(pixels >= 1 && pixels <= BYTE_PIXELS && window->quads >= 1 && 4 * window->quads <= BYTE_WINDOW);
    table[shared ? window->width / 2 : 0][shared ? window->stride - 1 : 0][window->kind][pixels - 1](window);
}
