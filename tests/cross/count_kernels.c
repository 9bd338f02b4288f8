/* Runs kernels of arm64 or riscv64, whose instructions count.py counts.
 *   count_kernels              prints a line for each kernel: name, multiply-adds (softmax, conversion: elements)
 *   count_kernels NAME N       runs the kernel N times */
#include "cpu/convolution/depthwise.h"
#include "cpu/convolution/tile_set.h"
#include "cpu/quantized/byte_set.h"
#include "cpu/weights/nbits.h"
#include "operators/gemm/set.h"
#include "simd/row_set.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, DEPTH = 256, CHANNELS = 64, TAPS = 9, PIXELS = 4, ELEMENTS = 1024, BLOCK = 32, ROOM = 1 << 20 };

/* Operands of all kernels: numbers near 1 as floats, any bytes as bytes. */
static float x[ROOM / 4], w[ROOM / 4], y[ROOM / 4];
static float sums[ROOM / 64];
static int32_t starts[ROOM / 64];
static int8_t limbs[ROOM];

static int64_t run_floats(const sgemm_kernel *kernel, int64_t rows)
{
    const sgemm_job job = { .kernel = kernel,
                            .m = rows,
                            .n = SGEMM_WIDTH,
                            .k = DEPTH,
                            .a = x,
                            .a_row = DEPTH,
                            .b = w,
                            .width = SGEMM_WIDTH,
                            .b_panel = (int64_t)DEPTH * SGEMM_WIDTH,
                            .b_step = SGEMM_WIDTH,
                            .c = y,
                            .c_row = SGEMM_WIDTH };

    sgemm_run(&job, 0, sgemm_units(&job));
    return rows * SGEMM_WIDTH * DEPTH;
}

#if defined(__aarch64__)
static int32_t first[CHANNELS];

/* The largest tile of a GEMM of packed operands. */
static int64_t run_gemm(const gemm_kernel *kernel)
{
    kernel->tile[3 * kernel->mr - 1](DEPTH, x, w, (int64_t)kernel->nr * kernel->k_step, y, kernel->nr, kernel->nr,
                                     false);
    return (int64_t)kernel->mr * kernel->nr * DEPTH;
}

/* A tile of `rows` pixels by all columns of a panel, with TAPS taps of CHANNELS channels (conv), or one of DEPTH. */
static int64_t run_bytes(const byte_set *set, int rows, bool conv, bool is_signed)
{
    static int16_t wide[ROWS * TAPS * CHANNELS + 16];
    static int64_t taps[TAPS];
    const int64_t tap_count = conv ? TAPS : 1, depth = conv ? CHANNELS : DEPTH, all = tap_count * depth;
    const int64_t element = set->wide ? 2 : 1;
    byte_product product = { .input = (const uint8_t *)x,
                             .x_pixel = all * element,
                             .taps = taps,
                             .tap_count = tap_count,
                             .steps = depth / 4 * element,
                             .weights = (const int8_t *)w,
                             .lines = set->width / set->lanes,
                             .output = y,
                             .y_pixel = set->width,
                             .columns = set->width,
                             .flip = is_signed && !set->wide,
                             .ahead = (const int8_t *)w,
                             .ending = { BYTE_BYTES, first, x, NULL, 3, 0, 255, 0 } };

    for (int64_t t = 0; t < tap_count; t++)
        taps[t] = t * depth * element;
    if (set->wide) {
        set->widen((const uint8_t *)x, rows * all, is_signed, wide);
        product.input = (const uint8_t *)wide;
    }
    set->multiply(&product, rows);
    return rows * all * set->width;
}

static int64_t run_byte_window(const byte_set *set)
{
    static const uint8_t *pixels[3][PIXELS + 2];
    byte_window window = { .height = 3,
                           .width = 3,
                           .quads = 1,
                           .weights = (const int8_t *)w,
                           .output = (uint8_t *)y,
                           .y_pixel = CHANNELS,
                           .stride = 1,
                           .dilation = 1,
                           .channels = CHANNELS,
                           .pixels = PIXELS,
                           .kind = BYTE_WHOLE,
                           .ending = { BYTE_BYTES, first, x, NULL, 3, 0, 255, 0 } };

    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < PIXELS + 2; i++)
            pixels[r][i] = (const uint8_t *)x + (r * (PIXELS + 2) + i) * CHANNELS;
        window.x[r] = pixels[r];
    }
    window.x[3] = pixels[0];
    set->window(&window);
    return (int64_t)PIXELS * CHANNELS * 9;
}

#endif

static int64_t run_tile(const tile_set *tiles)
{
    static int64_t taps[TAPS];
    const tile_product product = { .a = x,
                                   .a_row = CHANNELS,
                                   .taps = taps,
                                   .tap_count = TAPS,
                                   .depth = CHANNELS,
                                   .b = w,
                                   .c = y,
                                   .c_row = TILE_WIDTH,
                                   .columns = TILE_WIDTH };

    for (int64_t t = 0; t < TAPS; t++)
        taps[t] = t * CHANNELS;
    tiles->multiply(&product, ROWS);
    return (int64_t)ROWS * TAPS * CHANNELS * TILE_WIDTH;
}

static int64_t run_depthwise(void (*run)(const depthwise_block *))
{
    enum { SIDE = 3, MANY = DEPTHWISE_PIXELS };
    static const float *pixels[SIDE][MANY + 2];
    depthwise_block block = { .rows = SIDE,
                              .width = SIDE,
                              .weights = w,
                              .w_step = SIDE * SIDE * DEPTHWISE_LANES,
                              .output = y,
                              .y_step = CHANNELS,
                              .channels = CHANNELS,
                              .stride = 1,
                              .dilation = 1,
                              .depth = 1,
                              .pixels = MANY,
                              .reused = true };

    for (int r = 0; r < SIDE; r++) {
        for (int i = 0; i < MANY + 2; i++)
            pixels[r][i] = x + (r * (MANY + 2) + i) * CHANNELS;
        block.x[r] = pixels[r];
    }
    run(&block);
    return (int64_t)MANY * CHANNELS * SIDE * SIDE;
}

/* Activations by a panel; their conversion to integers, which all panels share, is not counted. */
static int64_t run_nbits(const nbits_kernel *kernel, nbits_mode mode, uint32_t bits, int64_t rows)
{
    nbits_shape shape;
    nbits_tile tile = { .shape = &shape,
                        .weights = (const uint8_t *)w,
                        .scales = x,
                        .zero = 8,
                        .rows = rows,
                        .a = x,
                        .a_row = DEPTH,
                        .limbs = limbs,
                        .limbs_row = 2 * (int64_t)DEPTH,
                        .limbs_part = 2 * (int64_t)BLOCK,
                        .factors = x,
                        .sums = sums,
                        .starts = starts,
                        .c = y,
                        .c_row = NBITS_COLUMNS,
                        .columns = NBITS_COLUMNS };

    if (!nbits_shape_init(&shape, bits, DEPTH, NBITS_COLUMNS, BLOCK))
        abort();
    kernel->tile[mode](&tile);
    return rows * DEPTH * NBITS_COLUMNS;
}

static int64_t run_softmax(const row_set *rows)
{
    rows->softmax(x, y, 1, ELEMENTS);
    return ELEMENTS;
}

static int64_t run_halves(const row_set *rows)
{
    rows->from_half((const uint16_t *)w, y, ELEMENTS);
    return ELEMENTS;
}

/* X(name, call). The kernels of floats that each level has. */
#define FLOAT_KERNELS(X, level)                                                                                        \
    X(floats_##level, run_floats(&products_##level, ROWS))                                                             \
    X(floats_row_##level, run_floats(&products_##level, 1))                                                            \
    X(conv_##level, run_tile(&tiles_##level))                                                                          \
    X(depthwise_##level, run_depthwise(depthwise_block_##level))                                                       \
    X(softmax_##level, run_softmax(&rows_##level))                                                                     \
    X(halves_to_floats_##level, run_halves(&rows_##level))
#if defined(__riscv)
#define KERNELS(X)                                                                                                     \
    FLOAT_KERNELS(X, c)                                                                                                \
    X(bits4_exact_c, run_nbits(&nbits_c, NBITS_EXACT, 4, NBITS_FEW_ROWS))                                              \
    FLOAT_KERNELS(X, rvv)                                                                                              \
    X(bits4_exact_rvv, run_nbits(&nbits_rvv, NBITS_EXACT, 4, NBITS_FEW_ROWS))
#else
#define KERNELS(X)                                                                                                     \
    FLOAT_KERNELS(X, neon)                                                                                             \
    X(bfloat16_neon, run_gemm(gemm_set_neon[GEMM_F32]))                                                                \
    X(bfloat16_neon_i8mm, run_gemm(&gemm_bf16_neon_i8mm))                                                              \
    X(bytes_neon, run_bytes(&byte_set_neon, ROWS, false, false))                                                       \
    X(bytes_neon_dot, run_bytes(&byte_set_neon_dot, ROWS, false, false))                                               \
    X(bytes_neon_i8mm, run_bytes(&byte_set_neon_i8mm, ROWS, false, false))                                             \
    X(bytes_signed_neon, run_bytes(&byte_set_neon, ROWS, false, true))                                                 \
    X(bytes_signed_neon_dot, run_bytes(&byte_set_neon_dot, ROWS, false, true))                                         \
    X(bytes_signed_neon_i8mm, run_bytes(&byte_set_neon_i8mm, ROWS, false, true))                                       \
    X(bytes_row_neon, run_bytes(&byte_set_neon, 1, false, false))                                                      \
    X(bytes_row_neon_dot, run_bytes(&byte_set_neon_dot, 1, false, false))                                              \
    X(bytes_row_neon_i8mm, run_bytes(&byte_set_neon_i8mm, 1, false, false))                                            \
    X(bytes_conv_neon, run_bytes(&byte_set_neon, ROWS, true, false))                                                   \
    X(bytes_conv_neon_dot, run_bytes(&byte_set_neon_dot, ROWS, true, false))                                           \
    X(bytes_conv_neon_i8mm, run_bytes(&byte_set_neon_i8mm, ROWS, true, false))                                         \
    X(bytes_depthwise_neon, run_byte_window(&byte_set_neon))                                                           \
    X(bits4_exact_neon, run_nbits(&nbits_neon, NBITS_EXACT, 4, NBITS_FEW_ROWS))                                        \
    X(bits4_fine_neon_dot, run_nbits(&nbits_neon_dot, NBITS_FINE, 4, NBITS_FEW_ROWS))                                  \
    X(bits4_byte_neon_dot, run_nbits(&nbits_neon_dot, NBITS_BYTE, 4, NBITS_FEW_ROWS))                                  \
    X(bits4_row_exact_neon, run_nbits(&nbits_neon, NBITS_EXACT, 4, 1))                                                 \
    X(bits4_row_fine_neon_dot, run_nbits(&nbits_neon_dot, NBITS_FINE, 4, 1))                                           \
    X(bits4_row_byte_neon_dot, run_nbits(&nbits_neon_dot, NBITS_BYTE, 4, 1))                                           \
    X(bits8_exact_neon, run_nbits(&nbits_neon, NBITS_EXACT, 8, NBITS_FEW_ROWS))                                        \
    X(bits8_fine_neon_dot, run_nbits(&nbits_neon_dot, NBITS_FINE, 8, NBITS_FEW_ROWS))
#endif

#define FUNCTION(name, call)                                                                                           \
    static int64_t name(void)                                                                                          \
    {                                                                                                                  \
        return call;                                                                                                   \
    }
KERNELS(FUNCTION)

int main(int argc, char **argv)
{
#define ENTRY(name, call) { #name, name },
    static const struct {
        const char *name;
        int64_t (*run)(void);
    } kernels[] = { KERNELS(ENTRY) };

    for (int i = 0; i < ROOM / 4; i++)
        x[i] = w[i] = 1 + (float)(i % 251) / 256;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (argc != 3)
            printf("%s %lld\n", kernels[i].name, (long long)kernels[i].run());
        for (long n = argc == 3 && strcmp(argv[1], kernels[i].name) == 0 ? atol(argv[2]) : 0; n > 0; n--)
            (void)kernels[i].run();
    }
    return 0;
}
