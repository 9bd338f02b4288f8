/* Loops over bytes of every instance that this CPU supports, compared with sums in plain C. Inputs contain extreme
 * bytes, so that intermediate saturation would be detected. */
#include "cpu/quantized/byte_set.h"
#include "cmocka_all.h"
#include "oracle.h"
#include "random.h"
#include <math.h>
#include <string.h>

enum { PIXELS = 16, WIDTH = 64, DEPTH = 264, ROOM = 64, ROWS = 32, TAPS = 3 };

static uint64_t seed = 1;

/* A third of the bytes are 255, a third 0. */
ORACLE static uint8_t byte(void)
{
    const uint32_t kind = random_below(&seed, 3);

    return kind == 0 ? 255 : kind == 1 ? 0 : (uint8_t)random_below(&seed, 256);
}

ORACLE static int8_t weight(void)
{
    const uint32_t kind = random_below(&seed, 3);

    return (int8_t)(kind == 0 ? -128 : kind == 1 ? 127 : (int)random_below(&seed, 256) - 128);
}

/* Requantizes a sum to a byte, as the tested loops do. */
static uint8_t requantize(int32_t sum, const byte_ending *ending, int64_t channel)
{
    double y = nearbyint((double)((float)sum * ending->scale[channel])) + ending->zero;

    y = y < 0 ? 0 : y > 255 ? 255 : y;
    y = y < ending->low ? ending->low : y > ending->high ? ending->high : y;
    return (uint8_t)y ^ ending->flip;
}

/* Returns the bits of the float result, computed with the same roundings as the tested loops. */
static int32_t float_bits(int32_t sum, const byte_ending *ending, int64_t channel)
{
    const volatile float product = (float)sum * ending->scale[channel];
    const float y = product + ending->shift[channel];
    int32_t bits;

    memcpy(&bits, &y, sizeof bits);
    return bits;
}

static void fill_ending(byte_ending *ending, int32_t *first, float *scale, float *shift, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        first[i] = (int32_t)random_below(&seed, 20000) - 10000;
        scale[i] = (float)(random_below(&seed, 1000) + 1) * 1e-6f;
        shift[i] = (float)random_below(&seed, 1000) * 1e-3f - 0.5f;
    }
    *ending = (byte_ending){ .first = first,
                             .scale = scale,
                             .shift = shift,
                             .zero = (int16_t)random_below(&seed, 200),
                             .low = (uint8_t)random_below(&seed, 20),
                             .high = (uint8_t)(255 - random_below(&seed, 20)),
                             .flip = random_below(&seed, 2) == 0 ? 0 : 0x80 };
}

static int shaped; /* of byte_tiles */

/* Does the kernel add two products in 16 bits? */
static bool adds_pairs(const byte_set *set)
{
#if defined(__x86_64__)
    return set == &byte_set_avx2_pairs;
#else
    (void)set;
    return false;
#endif
}

/* A weight after `before` that adds up to -128 to 128 with it, often to one of these. */
static int8_t neighbour(int before)
{
    const int w = weight();

    return (int8_t)(w + before > 128 ? 128 - before : w + before < -128 ? -128 - before : w);
}

/* tiles: used instead of set->multiply; NULL: not. */
ORACLE static void check_tile(const byte_set *set, const byte_tiles *tiles, int lines, int rows, int64_t columns,
                              bool is_signed, byte_kind kind)
{
    static uint8_t x[ROWS * DEPTH], y[ROWS * WIDTH];
    static int16_t wide[ROWS * DEPTH + 16];
    static int8_t plain[WIDTH][DEPTH], w[WIDTH * DEPTH + BYTE_PAST];
    static int32_t whole[ROWS][WIDTH], first[WIDTH];
    static float scale[WIDTH], shift[WIDTH];
    const int64_t tap_count = 1 + (int64_t)random_below(&seed, TAPS), room = (int64_t)lines * set->lanes;
    const int64_t steps = 1 + (int64_t)random_below(&seed, (uint64_t)(DEPTH / 4 / tap_count)),
                  depth = tap_count * steps * 4;
    static int64_t taps[TAPS];
    byte_product product = { .input = x,
                             .x_pixel = depth,
                             .taps = taps,
                             .tap_count = tap_count,
                             .steps = steps,
                             .weights = w,
                             .lines = lines,
                             .output = y,
                             .y_pixel = WIDTH,
                             .columns = columns,
                             .flip = is_signed };

    fill_ending(&product.ending, first, scale, shift, WIDTH);
    product.ending.kind = kind;
    for (int64_t t = 0; t < tap_count; t++) /* the last tap is the first part of a row */
        taps[t] = (t + 1) % tap_count * steps * 4;
    for (int64_t i = 0; i < rows * depth; i++)
        x[i] = byte();
    for (int64_t o = 0; o < room; o++) {
        for (int64_t k = 0; k < depth; k++) {
            plain[o][k] = k % 2 == 1 && adds_pairs(set) ? neighbour(plain[o][k - 1]) : weight();
            if (set->wide)
                w[(k / 2 * room + o) * 2 + k % 2] = plain[o][k];
            else
                w[(k / 4 * room + o) * 4 + k % 4] = plain[o][k];
        }
    }
    if (set->wide) {
        set->widen(x, rows * depth, is_signed, wide);
        product.input = (const uint8_t *)wide;
        product.x_pixel = 2 * depth;
        product.steps = 2 * steps;
        product.flip = false;
        for (int64_t t = 0; t < tap_count; t++)
            taps[t] *= 2;
    }
    if (kind != BYTE_BYTES) {
        product.output = whole;
        product.y_pixel = sizeof whole[0];
    }
    memset(y, 77, sizeof y);
    memset(whole, 77, sizeof whole);
    if (tiles == NULL)
        set->multiply(&product, rows);
    else
        tiles->multiply(&product, rows, &shaped);
    if (random_below(&seed, 2) == 0 && tiles != NULL)
        tiles->end(&shaped);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t o = 0; o < WIDTH; o++) {
            int32_t sum = first[o];

            for (int64_t k = 0; k < depth && o < columns; k++) { /* weight k belongs to the tap k / (4 steps) */
                const uint8_t byte = x[r * depth + (k + (tap_count > 1 ? 4 * steps : 0)) % depth];

                sum += ((is_signed ? (int8_t)byte : byte) + byte_offset(set, tiles, is_signed)) * plain[o][k];
            }
            if (kind != BYTE_BYTES)
                assert_int_equal(whole[r][o], o >= columns          ? 0x4d4d4d4d
                                              : kind == BYTE_FLOATS ? float_bits(sum, &product.ending, o)
                                                                    : sum);
            else
                assert_int_equal(y[r * WIDTH + o], o < columns ? requantize(sum, &product.ending, o) : 77);
        }
    }
}

ORACLE static void check_window(const byte_set *set, int height, int width, int stride, int dilation, int pixels,
                                byte_block kind, byte_kind makes)
{
    enum { MOST = 128, CHANNELS = 2 * ROOM };
    static uint8_t x[8][MOST][CHANNELS], y[2 * BYTE_PIXELS][CHANNELS];
    static int32_t whole[2 * BYTE_PIXELS][CHANNELS];
    static int8_t taps[CHANNELS][8][8], w[65536];
    static int32_t first[CHANNELS], placed[CHANNELS];
    static float scale[CHANNELS], placed_scale[CHANNELS], shift[CHANNELS], placed_shift[CHANNELS];
    static const uint8_t *table[8][MOST];
    const int channels = kind == BYTE_HALF ? 1 + (int)random_below(&seed, set->block / 2) : 2 * set->block;
    const int64_t quads = (height + 3) / 4, element = set->tap_bytes / set->block / 4;
    byte_window window = { .height = height,
                           .width = width,
                           .quads = quads,
                           .weights = w,
                           .output = y[0],
                           .y_pixel = CHANNELS,
                           .stride = stride,
                           .dilation = dilation,
                           .channels = channels,
                           .pixels = pixels,
                           .kind = kind,
                           .flip = random_below(&seed, 2) == 0 };

    fill_ending(&window.ending, first, scale, shift, CHANNELS);
    window.ending.kind = makes;
    window.ending.first = placed;
    window.ending.scale = placed_scale;
    window.ending.shift = placed_shift;
    if (makes != BYTE_BYTES) {
        window.output = (uint8_t *)whole;
        window.y_pixel = sizeof whole[0];
    }
    memset(whole, 77, sizeof whole);
    memset(w, 0, sizeof w);
    memset(y, 77, sizeof y);
    for (int r = 0; r < 8; r++) {
        for (int i = 0; i < MOST; i++) {
            table[r][i] = x[r][i];
            for (int c = 0; c < channels; c++)
                x[r][i][c] = byte();
        }
        window.x[r] = r < height ? table[r] : table[0];
    }
    for (int c = 0; c < channels; c++) {
        const int block = c / set->block, at = c % set->block;

        for (int half = 0; half < (kind == BYTE_HALF ? 2 : 1); half++) {
            placed[block * set->block + set->sum_place(kind, at) + half * set->block / 8] = first[c];
            placed_scale[block * set->block + set->sum_place(kind, at) + half * set->block / 8] = scale[c];
            placed_shift[block * set->block + set->sum_place(kind, at) + half * set->block / 8] = shift[c];
        }
        for (int h = 0; h < height; h++) {
            for (int k = 0; k < width; k++) {
                int8_t *tap = w + ((block * quads + h / 4) * width + k) * set->tap_bytes;

                taps[c][h][k] = weight();
                for (int half = 0; half < (kind == BYTE_HALF ? 2 : 1); half++) {
                    const int place = set->tap_place(kind, at, h % 4) + half * set->block / 8 * 4;

                    if (element == 1)
                        tap[place] = taps[c][h][k];
                    else
                        ((int16_t *)(void *)tap)[place] = taps[c][h][k];
                }
            }
        }
    }

    set->window(&window);
    window.ending.scale = scale;
    window.ending.shift = shift;
    for (int p = 0; p < 2 * BYTE_PIXELS; p++) {
        for (int c = 0; c < CHANNELS; c++) {
            int32_t sum = first[c];

            for (int h = 0; h < height; h++)
                for (int k = 0; k < width && p < pixels; k++)
                    sum += (uint8_t)(x[h][p * stride + k * dilation][c] ^ (window.flip ? 0x80 : 0)) * taps[c][h][k];
            if (makes == BYTE_BYTES)
                assert_int_equal(y[p][c], p < pixels && c < channels ? requantize(sum, &window.ending, c) : 77);
            else
                assert_int_equal(whole[p][c], p >= pixels || c >= channels ? 0x4d4d4d4d
                                              : makes == BYTE_FLOATS       ? float_bits(sum, &window.ending, c)
                                                                           : sum);
        }
    }
}

static void check(const byte_set *set)
{
    for (int lines = 1; lines * set->lanes <= set->width; lines++)
        for (int rows = 1; rows <= set->rows[lines - 1]; rows++)
            for (int flags = 0; flags < 6; flags++)
                check_tile(set, NULL, lines, rows,
                           (lines - 1) * set->lanes + 1 + (int64_t)random_below(&seed, (uint32_t)set->lanes),
                           (flags & 1) != 0, (byte_kind)(flags / 2));
    for (int height = 1; height <= 5; height++)
        for (int width = 1; width <= 5; width++)
            for (int stride = 1; stride <= 3; stride++)
                for (int i = 0; i < 3 * BYTE_PIXELS; i++) {
                    const byte_kind makes = (byte_kind)(i % 3);
                    const int pixels = 1 + i / 3;

                    check_window(set, height, width, stride, 1 + (int)random_below(&seed, 2), pixels, BYTE_WHOLE,
                                 makes);
                    if (set->halves)
                        check_window(set, height, width, stride, 1, 2 * pixels - (int)random_below(&seed, 2), BYTE_HALF,
                                     makes);
                }
}

static void check_tiles(const byte_tiles *tiles)
{
    const byte_set set = { .lanes = tiles->lanes, .width = tiles->width };

    assert_true(tiles->rows <= ROWS);
    for (int lines = 1; lines * set.lanes <= set.width; lines++)
        for (uint32_t i = 0; i < random_rounds(60); i++)
            check_tile(&set, tiles, lines, 1 + (int)random_below(&seed, (uint64_t)tiles->rows),
                       (lines - 1) * set.lanes + 1 + (int64_t)random_below(&seed, (uint64_t)set.lanes), i % 2 == 1,
                       (byte_kind)(i / 2 % 3));
    tiles->end(&shaped);
}

static void tiles(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (cpu_has(CPU_AVX2))
        check_tiles(&byte_tiles_avx2);
    if (tile_problem() == NULL)
        check_tiles(&byte_tiles_amx);
#elif defined(__aarch64__)
    check_tiles(&byte_tiles_neon);
#else
    skip();
#endif
}

static void every_set(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (cpu_has_vnni())
        check(&byte_set_avx512_vnni);
    if (cpu_has_avx_vnni())
        check(&byte_set_avx_vnni);
    if (cpu_has(CPU_AVX2))
        check(&byte_set_avx2);
    if (cpu_has(CPU_AVX2))
        check(&byte_set_avx2_pairs);
#elif defined(__aarch64__)
    if (cpu_has_i8mm())
        check(&byte_set_neon_i8mm);
    if (cpu_has_dot())
        check(&byte_set_neon_dot);
    check(&byte_set_neon);
#else
    const byte_set *set = byte_set_of_cpu();

    if (set == NULL)
        skip();
    check(set);
#endif
}

/* Computes the steps of the ONNX operators: dequantize both operands, add or multiply, clip, quantize. */
static uint8_t combine(const byte_pair *pair, uint8_t a, uint8_t b)
{
    const float x0 = pair->is_signed[0] ? (float)(int8_t)a : (float)a,
                x1 = pair->is_signed[1] ? (float)(int8_t)b : (float)b;
    volatile float s = (x0 - pair->zero[0]) * pair->scale[0], t = (x1 - pair->zero[1]) * pair->scale[1];
    volatile float x = pair->product ? s * t : s + t;
    const double low = pair->y_signed ? -128 : 0;
    double q;

    x = x < pair->low ? pair->low : x > pair->high ? pair->high : x;
    q = nearbyint((double)(float)(x / pair->y_scale)) + (double)pair->y_zero;
    return (uint8_t)(int)(q < low ? low : q > low + 255 ? low + 255 : q);
}

/* Sums and products of two images, for every pair of bytes. Some scales give quotients halfway between two integers, or
 * so close to it that the rounding of the steps matters. */
static void check_pairs(const byte_set *set)
{
    static const float scales[][3] = {
        { 0.02f, 0.013f, 0.03f },  { 0.02f, 0.02f, 0.04f }, { 0.02f, 0.01f, 0.04f }, { 0.3f, 0.1f, 0.2f }, { 1, 2, 4 },
        { 1e-20f, 3e-21f, 1e-3f }, { 50, 1e-3f, 0.1f },     { 0.017f, 0.019f, 1 }
    };
    static uint8_t a[65539], b[65539], y[65539], want[65539];

    for (int i = 0; i < 65539; i++) {
        a[i] = (uint8_t)i;
        b[i] = (uint8_t)(i >> 8);
    }
    for (int kind = 0; kind < 8 * (int)(sizeof scales / sizeof scales[0]); kind++) {
        const float *scale = scales[kind / 8];
        const byte_pair pair = { .product = kind % 2 == 1,
                                 .scale = { scale[0], scale[1] },
                                 .zero = { 3, (kind & 4) != 0 ? -10 : 110 },
                                 .is_signed = { false, (kind & 4) != 0 },
                                 .y_signed = (kind & 4) != 0,
                                 .y_scale = scale[2],
                                 .y_zero = 20,
                                 .low = (kind & 2) != 0 ? 0 : -INFINITY,
                                 .high = (kind & 2) != 0 ? 2 : INFINITY };

        for (int i = 0; i < 65539; i++)
            want[i] = combine(&pair, a[i], b[i]);
        set->pair(&pair, y, a, b, 65539);
        assert_memory_equal(y, want, sizeof y);
        memcpy(y, a, sizeof y); /* in place */
        set->pair(&pair, y, y, b, 65539);
        assert_memory_equal(y, want, sizeof y);
    }
}

static void pairs(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (cpu_has_vnni())
        check_pairs(&byte_set_avx512_vnni);
    if (cpu_has(CPU_AVX2))
        check_pairs(&byte_set_avx2);
#else
    if (byte_set_of_cpu() == NULL)
        skip();
    check_pairs(byte_set_of_cpu());
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_set), cmocka_unit_test(tiles), cmocka_unit_test(pairs) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
