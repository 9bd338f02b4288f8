/* Tiles and windows of bytes for x86-64-v4 with VNNI; compiled with those flags, called where the CPU has them. */
#include "bytes.h"
#include <immintrin.h>

#define UNROLL _Pragma("GCC unroll 32")
#define INLINE static inline __attribute__((always_inline))

/* ------------------------------------------------------------------ endings */

typedef struct bounds {
    __m512i zero, low, high, flip;
} bounds;

INLINE bounds bounds_of(const byte_ending *e)
{
    return (bounds){ _mm512_set1_epi16(e->zero), _mm512_set1_epi8((char)e->low), _mm512_set1_epi8((char)e->high),
                     _mm512_set1_epi8((char)e->flip) };
}

INLINE __m512i rounded(__m512i sum, __m512 scale)
{
    return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale));
}

/* Four vectors of rounded sums as bytes; lane by lane, four of each vector. */
INLINE __m512i bytes_of(const __m512i *q, bounds b)
{
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), b.zero);
    const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), b.zero);
    const __m512i y = _mm512_min_epu8(b.high, _mm512_max_epu8(b.low, _mm512_packus_epi16(low, high)));

    return _mm512_xor_si512(y, b.flip);
}

INLINE __mmask64 mask_of(int64_t count)
{
    return count >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << count) - 1;
}

/* The first `count` of 64 bytes. Stores with masks are slow, those of bytes very. */
INLINE void store(uint8_t *y, int64_t count, __m512i v)
{
    if (count >= 64)
        _mm512_storeu_si512(y, v);
    else if (count % 4 == 0)
        _mm512_mask_storeu_epi32(y, (__mmask16)((1u << count / 4) - 1), v);
    else
        _mm512_mask_storeu_epi8(y, mask_of(count), v);
}

INLINE void store_half(uint8_t *y, int64_t count, __m256i v)
{
    if (count == 32)
        _mm256_storeu_si256((void *)y, v);
    else if (count % 4 == 0)
        _mm256_mask_storeu_epi32(y, (__mmask8)((1u << count / 4) - 1), v);
    else
        _mm256_mask_storeu_epi8(y, (__mmask32)mask_of(count), v);
}

INLINE void store_quarter(uint8_t *y, int64_t count, __m128i v)
{
    if (count == 16)
        _mm_storeu_si128((void *)y, v);
    else
        _mm_mask_storeu_epi8(y, (__mmask16)mask_of(count), v);
}

/* ------------------------------------------------------------------ tiles */

INLINE __m512i quad(const uint8_t *x)
{
    int32_t v;

    memcpy(&v, x, sizeof v);
    return _mm512_set1_epi32(v);
}

INLINE void end_tile(const int rows, const int lines, const byte_product *p, __m512i sum[][4])
{
    /* 4 bytes of each vector in each lane -> the bytes of a vector together */
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const int step = lines == 1 ? 4 : lines == 2 ? 2 : 1;
    const bounds b = bounds_of(&p->ending);
    const int64_t count = p->columns, next = p->y_pixel;
    __m512 scale[4];

    UNROLL
    for (int v = 0; v < lines; v++)
        scale[v] = _mm512_loadu_ps(p->ending.scale + v * BT_LANES);
    UNROLL
    for (int r = 0; r < rows; r += step) {
        uint8_t *y = p->y + r * p->y_pixel;
        __m512i q[4], packed;

        UNROLL
        for (int i = 0; i < 4; i++) {
            const int row = r + (lines == 1 ? i : lines == 2 ? i / 2 : 0), v = lines == 1 ? 0 : lines == 2 ? i % 2 : i;

            q[i] = row < rows && v < lines ? rounded(sum[row][v], scale[v]) : _mm512_setzero_si512();
        }
        packed = _mm512_permutexvar_epi32(order, bytes_of(q, b));
        if (lines > 2) {
            store(y, count, packed);
        } else if (lines == 2) {
            store_half(y, count, _mm512_castsi512_si256(packed));
            if (r + 1 < rows)
                store_half(y + next, count, _mm512_extracti64x4_epi64(packed, 1));
        } else {
            store_quarter(y, count, _mm512_castsi512_si128(packed));
            if (r + 1 < rows)
                store_quarter(y + next, count, _mm512_extracti32x4_epi32(packed, 1));
            if (r + 2 < rows)
                store_quarter(y + 2 * next, count, _mm512_extracti32x4_epi32(packed, 2));
            if (r + 3 < rows)
                store_quarter(y + 3 * next, count, _mm512_extracti32x4_epi32(packed, 3));
        }
    }
}

INLINE void product(const int rows, const int lines, const bool flip, const byte_product *p)
{
    const int64_t x_pixel = p->x_pixel, quads = p->quads;
    const __m512i upper = _mm512_set1_epi8((char)0x80);
    const int8_t *w = p->w;
    __m512i sum[BT_ROWS][4];

    UNROLL
    for (int v = 0; v < lines; v++) {
        const __m512i first = _mm512_loadu_si512(p->ending.first + v * BT_LANES);

        UNROLL
        for (int r = 0; r < rows; r++)
            sum[r][v] = first;
    }
    for (int64_t t = 0; t < p->tap_count; t++) {
        const uint8_t *base[(BT_ROWS + 2) / 3]; /* of three rows each: addresses that an instruction can state */

        UNROLL
        for (int i = 0; 3 * i < rows; i++)
            base[i] = p->x + p->taps[t] + 3 * i * x_pixel;
        for (int64_t k = 0; k < quads; k++) {
            __m512i line[4];

            UNROLL
            for (int v = 0; v < lines; v++)
                line[v] = _mm512_loadu_si512(w + 64 * v);
            w += 64 * lines;
            UNROLL
            for (int r = 0; r < rows; r++) {
                __m512i x = quad(base[r / 3] + r % 3 * x_pixel);

                if (flip)
                    x = _mm512_xor_si512(x, upper);
                UNROLL
                for (int v = 0; v < lines; v++)
                    sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], x, line[v]);
            }
            UNROLL
            for (int i = 0; 3 * i < rows; i++)
                base[i] += 4;
        }
    }
    end_tile(rows, lines, p, sum);
}

#define ROWS_6(X, lines) X(1, lines) X(2, lines) X(3, lines) X(4, lines) X(5, lines) X(6, lines)
#define ROWS_8(X, lines) ROWS_6(X, lines) X(7, lines) X(8, lines)
#define ROWS_12(X, lines) ROWS_8(X, lines) X(9, lines) X(10, lines) X(11, lines) X(12, lines)
#define CELLS(X) ROWS_12(X, 1) ROWS_12(X, 2) ROWS_8(X, 3) ROWS_6(X, 4)
#define CELL(rows, lines)                                               \
    static void product_##rows##_##lines(const byte_product *p)         \
    {                                                                   \
        product(rows, lines, false, p);                                 \
    }                                                                   \
    static void flipped_##rows##_##lines(const byte_product *p)         \
    {                                                                   \
        product(rows, lines, true, p);                                  \
    }
CELLS(CELL)
#undef CELL

static void multiply(const byte_product *p, int rows)
{
    static void (*const table[][BT_ROWS][2])(const byte_product *) = {
#define CELL(rows, lines) [lines - 1][rows - 1] = { product_##rows##_##lines, flipped_##rows##_##lines },
        CELLS(CELL)
#undef CELL
    };

    table[p->lines - 1][rows - 1][p->flip](p);
}

/* ------------------------------------------------------------------ single channels */

/* The pixel at `at` of a row, in halves with the one `shift` further. */
INLINE __m512i pixel(const byte_block kind, const uint8_t *const *row, int64_t at, int64_t shift, int64_t c,
                     __mmask32 mask)
{
    if (kind == BT_WHOLE)
        return _mm512_loadu_si512(row[at] + c);
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_maskz_loadu_epi8(mask, row[at] + c)),
                              _mm256_maskz_loadu_epi8(mask, row[at + shift] + c), 1);
}

/* Four rows of a column, as quads: of each lane, four channels in each vector. */
INLINE void column(const byte_block kind, const byte_window *b, int64_t row, int64_t at, int64_t shift, int64_t c,
                   __mmask32 mask, __m512i *d)
{
    __m512i x[4], pair[4];

    UNROLL
    for (int r = 0; r < 4; r++)
        x[r] = pixel(kind, b->x[row + r], at, shift, c, mask);
    if (b->flip)
        UNROLL
        for (int r = 0; r < 4; r++)
            x[r] = _mm512_xor_si512(x[r], _mm512_set1_epi8((char)0x80));
    pair[0] = _mm512_unpacklo_epi8(x[0], x[1]);
    pair[1] = _mm512_unpackhi_epi8(x[0], x[1]);
    pair[2] = _mm512_unpacklo_epi8(x[2], x[3]);
    pair[3] = _mm512_unpackhi_epi8(x[2], x[3]);
    d[0] = _mm512_unpacklo_epi16(pair[0], pair[2]);
    d[1] = _mm512_unpackhi_epi16(pair[0], pair[2]);
    d[2] = _mm512_unpacklo_epi16(pair[1], pair[3]);
    d[3] = _mm512_unpackhi_epi16(pair[1], pair[3]);
}

/* width, stride: 0 where columns are not shared, and any will do. pixels: of a half in halves. */
INLINE void windows(const byte_block kind, const int pixels, const int width, const int stride, const byte_window *b)
{
    const int64_t taps = width > 0 ? width : b->width, next = b->y_pixel;
    const int64_t second = kind == BT_HALF ? b->pixels - pixels : 0, shift = second * b->stride;
    const __mmask32 mask = (__mmask32)mask_of(b->channels); /* of a half */
    const bounds limits = bounds_of(&b->ending);
    const int8_t *w = b->w;

    for (int64_t c = 0; c < b->channels; c += BT_WIDTH) {
        __m512i sum[BT_PIXELS][4];

        UNROLL
        for (int v = 0; v < 4; v++)
            UNROLL
            for (int p = 0; p < pixels; p++)
                sum[p][v] = _mm512_loadu_si512(b->ending.first + c + v * BT_LANES);
        for (int64_t q = 0; q < b->quads; q++, w += taps * 4 * 64) {
            __m512i d[4];

            if (width > 0) {
                UNROLL
                for (int i = 0; i < (pixels - 1) * stride + width; i++) {
                    column(kind, b, 4 * q, i, shift, b->channel + c, mask, d);
                    UNROLL
                    for (int k = 0; k < width; k++)
                        UNROLL
                        for (int v = 0; v < 4; v++)
                            if (i >= k && (i - k) % stride == 0 && (i - k) / stride < pixels)
                                sum[(i - k) / stride][v] =
                                    _mm512_dpbusd_epi32(sum[(i - k) / stride][v], d[v],
                                                        _mm512_loadu_si512(w + (k * 4 + v) * 64));
                }
                continue;
            }
            for (int64_t k = 0; k < taps; k++) {
                UNROLL
                for (int p = 0; p < pixels; p++) {
                    column(kind, b, 4 * q, p * b->stride + k * b->dilation, shift, b->channel + c, mask, d);
                    UNROLL
                    for (int v = 0; v < 4; v++)
                        sum[p][v] = _mm512_dpbusd_epi32(sum[p][v], d[v], _mm512_loadu_si512(w + (k * 4 + v) * 64));
                }
            }
        }
        UNROLL
        for (int p = 0; p < pixels; p++) {
            uint8_t *y = b->y + p * next;
            __m512i q[4];

            UNROLL
            for (int v = 0; v < 4; v++)
                q[v] = rounded(sum[p][v], _mm512_loadu_ps(b->ending.scale + c + v * BT_LANES));
            q[0] = bytes_of(q, limits);
            if (kind == BT_WHOLE) {
                _mm512_storeu_si512(y + c, q[0]);
            } else {
                store_half(y, b->channels, _mm512_castsi512_si256(q[0]));
                store_half(y + second * next, b->channels, _mm512_extracti64x4_epi64(q[0], 1));
            }
        }
    }
}

#define KINDS(X, pixels, width, stride)                                                            \
    X(BT_WHOLE, pixels, width, stride) X(BT_HALF, pixels, width, stride)
#define SIZES(X, width, stride)                                                                    \
    KINDS(X, 1, width, stride) KINDS(X, 2, width, stride) KINDS(X, 3, width, stride) KINDS(X, 4, width, stride)
#define CELLS_OF(X) SIZES(X, 3, 1) SIZES(X, 3, 2) SIZES(X, 5, 1) SIZES(X, 5, 2) SIZES(X, 0, 0)
#define CELL(kind, pixels, width, stride)                                            \
    static void window_##kind##_##width##_##stride##_##pixels(const byte_window *b)  \
    {                                                                                \
        windows(kind, pixels, width, stride, b);                                     \
    }
CELLS_OF(CELL)
#undef CELL

static void window(const byte_window *b)
{
    static void (*const table[][2][BT_KINDS][BT_PIXELS])(const byte_window *) = {
#define CELL(kind, pixels, width, stride) \
    [(width) / 2][(stride) > 0 ? (stride) - 1 : 0][kind][pixels - 1] = window_##kind##_##width##_##stride##_##pixels,
        CELLS_OF(CELL)
#undef CELL
    };
    const bool shared = (b->width == 3 || b->width == 5) && (b->stride == 1 || b->stride == 2) && b->dilation == 1;
    const int pixels = b->kind == BT_HALF ? (b->pixels + 1) / 2 : b->pixels;

    table[shared ? b->width / 2 : 0][shared ? b->stride - 1 : 0][b->kind][pixels - 1](b);
}

/* ------------------------------------------------------------------ pixels of few channels */

static void interleave(const uint8_t *x, int64_t step, int64_t channels, int64_t pixels, uint8_t *y)
{
    const uint8_t *row[4];
    int64_t i = 0;

    for (int64_t c = 0; c < 4; c++)
        row[c] = x + (c < channels ? c : 0) * step;
    for (; i + 16 <= pixels; i += 16) {
        const __m128i a = _mm_loadu_si128((const void *)(row[0] + i)), b = _mm_loadu_si128((const void *)(row[1] + i));
        const __m128i c = _mm_loadu_si128((const void *)(row[2] + i)), d = _mm_loadu_si128((const void *)(row[3] + i));
        const __m128i ab = _mm_unpacklo_epi8(a, b), cd = _mm_unpacklo_epi8(c, d);
        const __m128i ef = _mm_unpackhi_epi8(a, b), gh = _mm_unpackhi_epi8(c, d);

        _mm_storeu_si128((void *)(y + 4 * i), _mm_unpacklo_epi16(ab, cd));
        _mm_storeu_si128((void *)(y + 4 * i + 16), _mm_unpackhi_epi16(ab, cd));
        _mm_storeu_si128((void *)(y + 4 * i + 32), _mm_unpacklo_epi16(ef, gh));
        _mm_storeu_si128((void *)(y + 4 * i + 48), _mm_unpackhi_epi16(ef, gh));
    }
    for (; i < pixels; i++)
        for (int64_t c = 0; c < 4; c++)
            y[4 * i + c] = row[c][i];
}

/* ------------------------------------------------------------------ quotients */

/* x / scale, exactly rounded: twice improved by what is left. */
INLINE __m512 quotient(__m512 x, __m512 scale, __m512 inverse)
{
    __m512 q = _mm512_mul_ps(x, inverse);

    q = _mm512_fmadd_ps(_mm512_fnmadd_ps(q, scale, x), inverse, q);
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(q, scale, x), inverse, q);
}

typedef struct divisor {
    __m512 scale, inverse, low, high; /* quotients beyond end at the bounds of a byte whatever is added */
    bounds limits;
} divisor;

INLINE divisor divisor_of(float scale, float zero, bool is_signed)
{
    const byte_ending e = { .zero = (int16_t)(zero + (is_signed ? 128 : 0)), .low = 0, .high = 255,
                            .flip = is_signed ? 0x80 : 0 };

    return (divisor){ _mm512_set1_ps(scale), _mm512_set1_ps(1 / scale), _mm512_set1_ps(-8192 * scale),
                      _mm512_set1_ps(8192 * scale), bounds_of(&e) };
}

/* NaN gives the lower bound. */
INLINE __m512i quantized(__m512 x, const divisor *d)
{
    const __m512 near = _mm512_min_ps(_mm512_max_ps(x, d->low), d->high);

    return _mm512_cvtps_epi32(quotient(near, d->scale, d->inverse));
}

/* Vectors of bytes one after the other: from four vectors of integers. */
INLINE __m512i in_order(const __m512i *q, const divisor *d)
{
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);

    return _mm512_permutexvar_epi32(order, bytes_of(q, d->limits));
}

/* 16 bytes of x from number v of them on; those behind `left` are not read. */
INLINE __m512 dequantized(const uint8_t *x, int64_t left, bool is_signed, __m512 zero, __m512 scale)
{
    const __m128i bytes = left >= 16 ? _mm_loadu_si128((const void *)x)
                          : left > 0 ? _mm_maskz_loadu_epi8((__mmask16)((1u << left) - 1), x)
                                     : _mm_setzero_si128();
    const __m512i wide = is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);

    return _mm512_mul_ps(_mm512_sub_ps(_mm512_cvtepi32_ps(wide), zero), scale);
}

static void pair(const byte_pair *p, uint8_t *y, const uint8_t *a, const uint8_t *b, int64_t n)
{
    const divisor d = divisor_of(p->y_scale, p->y_zero, p->y_signed);
    const __m512 a_zero = _mm512_set1_ps(p->zero[0]), b_zero = _mm512_set1_ps(p->zero[1]);
    const __m512 a_scale = _mm512_set1_ps(p->scale[0]), b_scale = _mm512_set1_ps(p->scale[1]);
    const __m512 low = _mm512_set1_ps(p->low), high = _mm512_set1_ps(p->high);
    const bool product = p->alg == dnnl_binary_mul;

    for (int64_t i = 0; i < n; i += 64) {
        __m512i q[4];

        UNROLL
        for (int v = 0; v < 4; v++) {
            const int64_t at = i + 16 * v;
            const __m512 s = dequantized(a + at, n - at, p->is_signed[0], a_zero, a_scale);
            const __m512 t = dequantized(b + at, n - at, p->is_signed[1], b_zero, b_scale);
            const __m512 x = product ? _mm512_mul_ps(s, t) : _mm512_add_ps(s, t);

            q[v] = quantized(_mm512_min_ps(_mm512_max_ps(x, low), high), &d);
        }
        store(y + i, n - i, in_order(q, &d));
    }
}

const byte_set bytes_vnni = { multiply, window, interleave, pair };
