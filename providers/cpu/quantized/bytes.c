/* The tile and pair kernels of byte_set.h for one instruction set. */
#include "cpu/quantized/bytes_results.h"
#include "cpu/quantized/bytes_window.h"
#include "inlay/check.h"
#include "simd/vec_int.h"
#include <math.h>

/* Does int_dot read signed bytes? The highest bit of the others is inverted. */
#if defined(INT_SIGNED)
enum { READS_SIGNED = true };
#else
enum { READS_SIGNED = false };
#endif

#if defined(INT_STEPS)
#include "cpu/quantized/bytes_dots.h"
#else
/* Bytes of the weights of one step for a vector of sums. */
enum { LINE_BYTES = INT_QUADS ? sizeof(ivec) : sizeof(ivec) / 2 };

VEC_INLINE ivec step_of(const uint8_t *input)
{
    int32_t v;

    memcpy(&v, input, sizeof v);
    return int_set(v);
}

VEC_INLINE void multiply_tile(const int rows, const int lines, const bool flip, const byte_product *product)
{
    const int64_t x_pixel = product->x_pixel, steps = product->steps;
    const ivec upper = int_set_byte(0x80);
    const int8_t *weights = product->weights, *ahead = product->ahead;
    ivec sum[BYTE_ROWS][BYTE_LINES];

    VEC_UNROLL
    for (int v = 0; v < lines; v++) {
        const ivec first = int_load(product->ending.first + v * VEC_LANES);

        VEC_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r][v] = first;
    }
    for (int64_t tap = 0; tap < product->tap_count; tap++) {
        const uint8_t *base[(BYTE_ROWS + 2) / 3]; /* one for three rows: an x86 address adds 0, 1 or 2 times x_pixel */

        VEC_UNROLL
        for (int i = 0; 3 * i < rows; i++)
            base[i] = product->input + product->taps[tap] + 3 * i * x_pixel;
        for (int64_t k = 0; k < steps; k++) {
            ivec line[BYTE_LINES];

            VEC_UNROLL
            for (int v = 0; v < lines; v++)
                line[v] = int_line(weights + LINE_BYTES * v);
            weights += LINE_BYTES * lines;
            if (lines == INT_LINES) {
                vec_fetch_far(ahead);
                ahead += product->ahead_step;
            }
            VEC_UNROLL
            for (int r = 0; r < rows; r++) {
                ivec x = step_of(base[r / 3] + r % 3 * x_pixel);

                if (flip)
                    x = int_xor(x, upper);
                VEC_UNROLL
                for (int v = 0; v < lines; v++)
                    sum[r][v] = int_dot(sum[r][v], x, line[v]);
            }
            VEC_UNROLL
            for (int i = 0; 3 * i < rows; i++)
                base[i] += 4;
        }
    }
    store_results(product->ending.kind, rows, lines, product, sum);
}
#endif

#define ROWS_6(X, lines) X(1, lines) X(2, lines) X(3, lines) X(4, lines) X(5, lines) X(6, lines)
#define ROWS_8(X, lines) ROWS_6(X, lines) X(7, lines) X(8, lines)
#define ROWS_10(X, lines) ROWS_8(X, lines) X(9, lines) X(10, lines)
#define ROWS_12(X, lines) ROWS_10(X, lines) X(11, lines) X(12, lines)
#if defined(INT_STEPS) /* what stays in registers beside the sums: see bytes_dots.h */
#define CELLS(X) ROWS_12(X, 1) ROWS_10(X, 2) ROWS_6(X, 3) ROWS_6(X, 4)
#define MOST_ROWS                                                                                                      \
    {                                                                                                                  \
        12, 10, 6, 6                                                                                                   \
    }
#elif INT_LINES == 4
#define CELLS(X) ROWS_12(X, 1) ROWS_12(X, 2) ROWS_8(X, 3) ROWS_6(X, 4)
#define MOST_ROWS                                                                                                      \
    {                                                                                                                  \
        12, 12, 8, 6                                                                                                   \
    }
#else
#define CELLS(X) ROWS_12(X, 1) ROWS_6(X, 2)
#define MOST_ROWS                                                                                                      \
    {                                                                                                                  \
        12, 6                                                                                                          \
    }
#endif
#define CELL(rows, lines)                                                                                              \
    KERNEL_PART(void, bytes_product_##rows##_##lines, const byte_product *p)                                           \
    {                                                                                                                  \
        multiply_tile(rows, lines, READS_SIGNED, p);                                                                   \
    }
#define SIGNED(rows, lines)                                                                                            \
    KERNEL_PART(void, bytes_signed_##rows##_##lines, const byte_product *p)                                            \
    {                                                                                                                  \
        multiply_tile(rows, lines, !READS_SIGNED, p);                                                                  \
    }
CELLS(CELL)
#if INT_QUADS
CELLS(SIGNED)
#endif
#undef CELL
#undef SIGNED

static void multiply(const byte_product *product, int rows)
{
    static void (*const table[][BYTE_ROWS][2])(const byte_product *) = {
#if INT_QUADS
#define CELL(rows, lines)                                                                                              \
    [lines - 1][rows - 1] = { KERNEL_PART_OF(bytes_product_##rows##_##lines),                                          \
                              KERNEL_PART_OF(bytes_signed_##rows##_##lines) },
#else
#define CELL(rows, lines)                                                                                              \
    [lines - 1][rows - 1] = { KERNEL_PART_OF(bytes_product_##rows##_##lines),                                          \
                              KERNEL_PART_OF(bytes_product_##rows##_##lines) },
#endif
        CELLS(CELL)
#undef CELL
    };

    INLAY_CHECK(product->lines >= 1 && product->lines <= INT_LINES && rows >= 1 && rows <= BYTE_ROWS);
    INLAY_CHECK(table[product->lines - 1][rows - 1][product->flip] != NULL);
    table[product->lines - 1][rows - 1][product->flip](product);
}

#if !INT_QUADS
static void widen(const uint8_t *input, int64_t n, bool flip, int16_t *output)
{
    const ivec upper = int_set_short(flip ? 0x80 : 0);
    int64_t i = 0;

    INLAY_CHECK(n >= 0 && n % 4 == 0);
    for (; i + 2 * VEC_LANES <= n; i += 2 * VEC_LANES)
        int_store(output + i, int_xor(int_widen(input + i), upper));
    if (i + VEC_LANES <= n) {
        int_store(output + i, int_xor(int_widen_half(input + i), upper));
        i += VEC_LANES;
    }
    if (i < n) {
        uint8_t rest[VEC_LANES] = { 0 };

        memcpy(rest, input + i, 4);
        int_store(output + i, int_xor(int_widen_half(rest), upper));
    }
}
#endif

static void interleave(const uint8_t *input, int64_t step, int64_t channels, int64_t pixels, uint8_t *output)
{
    const uint8_t *row[4];
    int64_t i = 0;

    for (int64_t c = 0; c < 4; c++)
        row[c] = input + (c < channels ? c : 0) * step;
    for (; i + 16 <= pixels; i += 16)
        int_interleave_4(output + 4 * i, row[0] + i, row[1] + i, row[2] + i, row[3] + i);
    for (; i < pixels; i++)
        for (int64_t c = 0; c < 4; c++)
            output[4 * i + c] = row[c][i];
}

/* Computes 4 * VEC_LANES elements by ONNX's steps. NaN becomes the lower bound; quotients beyond `most` saturate with
 * any zero point. */
VEC_INLINE void pair_block(const byte_pair *pair, uint8_t *output, const uint8_t *a, const uint8_t *b)
{
    const vec scale = vec_set(pair->y_scale), inverse = vec_set(1 / pair->y_scale),
              most = vec_set(8192 * pair->y_scale);
    const vec least = vec_set(-8192 * pair->y_scale);
    const int16_t zero = (int16_t)(pair->y_zero + (pair->y_signed ? 128 : 0));
    ivec q[4];

    VEC_UNROLL
    for (int v = 0; v < 4; v++) {
        const int at = VEC_LANES * v;
        const vec s = vec_mul(vec_sub(int_from_bytes(a + at, pair->is_signed[0]), vec_set(pair->zero[0])),
                              vec_set(pair->scale[0]));
        const vec t = vec_mul(vec_sub(int_from_bytes(b + at, pair->is_signed[1]), vec_set(pair->zero[1])),
                              vec_set(pair->scale[1]));
        vec x = pair->product ? vec_mul(s, t) : vec_add(s, t);

        x = vec_min(vec_max(x, vec_set(pair->low)), vec_set(pair->high));
        q[v] = int_round(vec_quotient(vec_min(vec_max(x, least), most), scale, inverse));
    }
    int_store(output, int_in_order(int_xor(int_bytes(q, int_set_short(zero), int_set_byte(0), int_set_byte(255)),
                                           int_set_byte(pair->y_signed ? 0x80 : 0))));
}

/* A faster path for sums computes a linear combination of the bytes, with factors that are divided by the scale of y.
 * The result is as accurate as that of ONNX's steps, but not always equal; the difference has a known bound. A block
 * with an element so near to the middle between two integers that rounding could differ is computed by ONNX's steps
 * (pair_block). */

/* x / y_scale, rounded as in ONNX, plus the zero point, as a byte. */
static uint8_t bound_of(float x, const byte_pair *pair)
{
    const float q = x / pair->y_scale, zero = pair->y_zero + (pair->y_signed ? 128.0f : 0.0f);
    const float top = 255 - zero, bottom = -zero;

    return q >= top ? 255 : q > bottom ? (uint8_t)(rintf(q) + zero) : 0;
}

#if defined(KERNEL_IS_avx512)
/* Fixed-point numbers with `bits` fractional bits. A factor has three limbs of 7 bits; one instruction multiplies a
 * limb by the bytes a b a b of two neighbouring elements. `start` contains one half, for rounding, and `near`; if the
 * fraction of a sum is at most 2 * near, ONNX's steps decide. */
enum { LIMBS = 3, LIMB_BITS = 7, MOST_BITS = 24 };
#define MOST_SUM 5e8 /* a factor is at most 1/255 of it, which fits into three limbs */

typedef struct pair_sum {
    int32_t limb[LIMBS][2]; /* for the first and the second of two neighbours */
    int32_t start, bits, near;
    uint8_t low, high, flip[2];
    bool usable;
} pair_sum;

static pair_sum sum_of(const byte_pair *pair)
{
    const double most = 255 * ((double)pair->scale[0] + (double)pair->scale[1]) / (double)pair->y_scale;
    const float least = pair->scale[0] < pair->scale[1] ? pair->scale[0] : pair->scale[1];
    pair_sum sum = { .low = bound_of(pair->low, pair), .high = bound_of(pair->high, pair) };
    double start = 0, off = 0;

    sum.usable = !pair->product && pair->low <= pair->high && least > 1e-30f && most * (1 << 16) <= MOST_SUM;
    while (sum.usable && sum.bits < MOST_BITS && most * (2 << sum.bits) <= MOST_SUM)
        sum.bits++;
    for (int i = 0; sum.usable && i < 2; i++) {
        const double exact = (double)pair->scale[i] / (double)pair->y_scale * (1 << sum.bits);
        const int32_t factor = (int32_t)lrint(exact);

        sum.flip[i] = pair->is_signed[i] ? 0x80 : 0;
        off += 255 * fabs((double)factor - exact);
        start -= ((double)pair->zero[i] + (pair->is_signed[i] ? 128 : 0)) * (double)factor;
        for (int l = 0; l < LIMBS; l++) {
            const int32_t limb = factor >> LIMB_BITS * l & ((1 << LIMB_BITS) - 1);

            sum.limb[l][0] |= limb << 8 * i;
            sum.limb[l][1] |= (int32_t)((uint32_t)limb << (8 * i + 16));
        }
    }
    off += 4 * most * ldexp(1, sum.bits - 24) + 2; /* ONNX's steps round four times */
    sum.near = (int32_t)off;
    sum.start = (int32_t)start + (1 << sum.bits >> 1) + sum.near;
    return sum;
}

/* The fixed-point sums of each dword of x, for neighbour `which`. */
VEC_INLINE ivec limbs_of(const pair_sum *sum, ivec x, int which)
{
    ivec high = int_dot(int_set(0), x, int_set(sum->limb[2][which]));

    high = int_dot(_mm512_slli_epi32(high, LIMB_BITS), x, int_set(sum->limb[1][which]));
    return _mm512_add_epi32(int_dot(int_set(sum->start), x, int_set(sum->limb[0][which])),
                            _mm512_slli_epi32(high, LIMB_BITS));
}

/* Computes a block; false: an element is so near to the middle between two integers that ONNX's steps must decide. */
VEC_INLINE bool sum_block(const byte_pair *pair, const pair_sum *sum, uint8_t *output, const uint8_t *a,
                          const uint8_t *b)
{
    const ivec x = int_xor(int_load(a), int_set_byte(sum->flip[0])),
               t = int_xor(int_load(b), int_set_byte(sum->flip[1]));
    const ivec dwords[2] = { _mm512_unpacklo_epi8(x, t), _mm512_unpackhi_epi8(x, t) };
    const ivec mask = int_set((1 << sum->bits) - 1),
               zero = int_set_short((int16_t)(pair->y_zero + (pair->y_signed ? 128 : 0)));
    ivec least = mask, words[2], bytes;

    VEC_UNROLL
    for (int v = 0; v < 2; v++) {
        const ivec even = limbs_of(sum, dwords[v], 0), odd = limbs_of(sum, dwords[v], 1);

        least = _mm512_min_epu32(least, _mm512_min_epu32(_mm512_and_si512(even, mask), _mm512_and_si512(odd, mask)));
        words[v] = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srav_epi32(even, int_set(sum->bits)),
                                           _mm512_srav_epi32(odd, int_set(sum->bits - 16)));
        words[v] = _mm512_adds_epi16(words[v], zero);
    }
    if (_mm512_cmple_epu32_mask(least, int_set(2 * sum->near)) != 0)
        return false;
    bytes = _mm512_packus_epi16(words[0], words[1]);
    bytes = _mm512_min_epu8(int_set_byte(sum->high), _mm512_max_epu8(int_set_byte(sum->low), bytes));
    int_store(output, int_xor(bytes, int_set_byte(pair->y_signed ? 0x80 : 0)));
    return true;
}
#else
/* far: the largest distance from an integer at which both computations certainly round to it. */
typedef struct pair_sum {
    float factor[2], shift, far;
    uint8_t low, high;
    bool usable;
} pair_sum;

static pair_sum sum_of(const byte_pair *pair)
{
    const double f = (double)pair->scale[0] / (double)pair->y_scale, g = (double)pair->scale[1] / (double)pair->y_scale;
    const double most = 255 * (f + g); /* largest sum; each computation rounds at most 5 times, by 2^-24 of it */
    const float least = pair->scale[0] < pair->scale[1] ? pair->scale[0] : pair->scale[1];

    return (pair_sum){ .factor = { (float)f, (float)g },
                       .shift = (float)(-f * (double)pair->zero[0] - g * (double)pair->zero[1]),
                       .far = (float)(0.5 - 10 * most / (1 << 24)),
                       .low = bound_of(pair->low, pair),
                       .high = bound_of(pair->high, pair),
                       .usable = !pair->product && pair->low <= pair->high && least > 1e-30f && most < 8192 };
}

/* Computes a block; false: an element is so near to the middle between two integers that ONNX's steps must decide. */
VEC_INLINE bool sum_block(const byte_pair *pair, const pair_sum *sum, uint8_t *output, const uint8_t *a,
                          const uint8_t *b)
{
    const int16_t zero = (int16_t)(pair->y_zero + (pair->y_signed ? 128 : 0));
    vec far = vec_zero();
    ivec q[4];

    VEC_UNROLL
    for (int v = 0; v < 4; v++) {
        const int at = VEC_LANES * v;
        const vec x =
            vec_fma(int_from_bytes(b + at, pair->is_signed[1]), vec_set(sum->factor[1]),
                    vec_fma(int_from_bytes(a + at, pair->is_signed[0]), vec_set(sum->factor[0]), vec_set(sum->shift)));

        q[v] = int_round(x);
        far = vec_max(far, vec_abs(vec_sub(x, int_float(q[v]))));
    }
    if (int_any_above(far, vec_set(sum->far)))
        return false;
    int_store(output,
              int_in_order(int_xor(int_bytes(q, int_set_short(zero), int_set_byte(sum->low), int_set_byte(sum->high)),
                                   int_set_byte(pair->y_signed ? 0x80 : 0))));
    return true;
}
#endif

enum { PAIR_BLOCK = 4 * VEC_LANES, PAIR_MISSES = 16 };

/* Computes whole blocks; returns the number of elements. Stops if too many of the first blocks need ONNX's steps. */
static int64_t pair_sums(const byte_pair *pair, const pair_sum *sum, uint8_t *output, const uint8_t *a,
                         const uint8_t *b, int64_t n)
{
    int64_t i = 0, misses = 0;

    for (; i + PAIR_BLOCK <= n && (misses < PAIR_MISSES || 4 * PAIR_BLOCK * misses < i); i += PAIR_BLOCK)
        if (!sum_block(pair, sum, output + i, a + i, b + i)) {
            pair_block(pair, output + i, a + i, b + i);
            misses++;
        }
    return i;
}

static void run_pair(const byte_pair *pair, uint8_t *output, const uint8_t *a, const uint8_t *b, int64_t n)
{
    const byte_pair copy = *pair;
    const pair_sum sum = sum_of(pair);
    int64_t i = sum.usable ? pair_sums(&copy, &sum, output, a, b, n) : 0;

    for (; i + PAIR_BLOCK <= n; i += PAIR_BLOCK)
        pair_block(&copy, output + i, a + i, b + i);
    if (i < n) {
        uint8_t rest[3][PAIR_BLOCK] = { { 0 } };

        memcpy(rest[0], a + i, (size_t)(n - i));
        memcpy(rest[1], b + i, (size_t)(n - i));
        pair_block(&copy, rest[2], rest[0], rest[1]);
        memcpy(output + i, rest[2], (size_t)(n - i));
    }
}

const byte_set KERNEL(byte_set) = {
    .lanes = VEC_LANES,
    .width = INT_LINES * VEC_LANES,
    .rows = MOST_ROWS,
    .block = BYTES_BLOCK,
    .tap_bytes = 4 * (int)sizeof(ivec),
    .wide = !INT_QUADS,
    .reads_signed = READS_SIGNED,
    .halves = INT_HALVES,
    .multiply = multiply,
#if !INT_QUADS
    .widen = widen,
#endif
    .window = BYTES_WINDOW(bytes_window),
    .sum_place = BYTES_WINDOW(bytes_sum_place),
    .tap_place = BYTES_WINDOW(bytes_tap_place),
    .interleave = interleave,
    .pair = run_pair,
};
