/* Kernels of every instruction set that this CPU supports, including plain C, compared with sums in double: sizes
 * around those of registers, and guard elements that must not be overwritten. */
#include "cpu/convolution/depthwise.h"
#include "cpu/convolution/groups.h"
#include "simd/convert_loops.h"
#include "simd/move_set.h"
#include "cpu/normalization/row_loops.h"
#include "cpu/convolution/planes.h"
#include "cpu/quantized/quantize.h"
#include "simd/row_set.h"
#include "cpu/convolution/tile_set.h"
#include "cmocka_all.h"
#include "guard.h"
#include "oracle.h"
#include "random.h"
#include <fenv.h>
#include <math.h>
#include <stdlib.h>

struct level {
    const char *name;
    cpu_level needs;
    const tile_set *tiles;
    const sgemm_kernel *products;
    const move_set *moves;
    const plane_set *planes;
    const row_set *rows;
    const row_loops *folds;
    const convert_loops *converts;
    void (*thin_row)(const thin_row *);
    quantize_fn *quantize;
};

#define LEVEL(name, needs)                                                                                             \
    {                                                                                                                  \
#name, needs, &tiles_##name, &products_##name, &moves_##name, &planes_##name, &rows_##name, &row_loops_##name, \
            &convert_loops_##name, thin_row_##name, quantize_##name                                                    \
    }
static const struct level levels[] = {
#if defined(__x86_64__)
    LEVEL(avx512, CPU_AVX512),
    LEVEL(avx2, CPU_AVX2),
#elif defined(__aarch64__)
    LEVEL(neon, CPU_BASELINE),
#elif defined(SIMD_RVV)
    LEVEL(rvv, CPU_RVV),
#endif
    LEVEL(c, CPU_BASELINE),
};
#define EACH_LEVEL(level)                                                                                              \
    for (const struct level *level = levels; level < levels + sizeof levels / sizeof levels[0]; level++)               \
        if (cpu_has(level->needs))

static uint64_t noise_state = 1;
ORACLE static float *filled(int64_t count)
{
    float *input = malloc((size_t)count * sizeof *input);

    assert_non_null(input);
    for (int64_t i = 0; i < count; i++)
        input[i] = random_signed(&noise_state);
    return input;
}

enum { GUARD = 40 };
static const float guard = 123456;

static void expect(const struct level *level, const char *what, double got, double want, double size)
{
    if (!(fabs(got - want) <= 2e-6 * (size + 1)))
        fail_msg("%s, %s: %.9g, not %.9g", level->name, what, got, want);
}

static void check_tile(const struct level *level, int rows, int64_t columns, int64_t depth, bool all)
{
    const int64_t taps[] = { 3, 0 }, terms = 2 * depth, a_row = depth + 5;
    float *a = filled(TILE_ROWS * a_row + depth + 8), *b = filled((terms + 32) * TILE_WIDTH), *bias = filled(columns),
          *add = filled(TILE_ROWS * 40), *c = filled(TILE_ROWS * 48);
    const tile_product product = { .a = a,
                                   .a_row = a_row,
                                   .taps = taps,
                                   .tap_count = 2,
                                   .depth = depth,
                                   .b = b,
                                   .ahead = b,
                                   .ahead_lines = 2,
                                   .bias = all ? bias : NULL,
                                   .add = all ? add : NULL,
                                   .add_row = 40,
                                   .c = c,
                                   .c_row = 48,
                                   .columns = columns,
                                   .clamp = all,
                                   .low = -0.5f,
                                   .high = INFINITY };

    for (int64_t i = 0; i < TILE_ROWS * 48; i++)
        c[i] = guard;
    level->tiles->multiply(&product, rows);
    for (int64_t r = 0; r < TILE_ROWS; r++)
        for (int64_t j = 0; j < 48; j++) {
            double sum = all && j < columns ? (double)bias[j] + (double)add[r * 40 + j] : 0, size = 1;

            if (r >= rows || j >= columns) {
                assert_true(c[r * 48 + j] == guard);
                continue;
            }
            for (int64_t t = 0; t < terms; t++) {
                const double x = (double)a[taps[t / depth] + r * a_row + t % depth] * (double)b[t * TILE_WIDTH + j];

                sum += x;
                size += fabs(x);
            }
            expect(level, "tile", (double)c[r * 48 + j], all && sum < -0.5 ? -0.5 : sum, size);
        }
    free(a), free(b), free(bias), free(add), free(c);
}

static void tiles(void **state)
{
    static const int64_t depths[] = { 1, 3, 8, 14, 410 };

    (void)state;
    EACH_LEVEL(level)
        for (int rows = 1; rows <= TILE_ROWS; rows++)
            for (int64_t columns = 1; columns <= TILE_WIDTH; columns += columns < 5 ? 1 : 3)
                for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++)
                    if (depths[d] < 100 || columns > 26)
                        check_tile(level, rows, columns, depths[d], (rows + columns) % 2 == 0);
}

/* Winograd transforms of one tile: input, weights and output transforms together are a convolution with 3x3 weights. */
static void check_window(const struct level *level, int64_t points, int64_t channels)
{
    const int64_t lines = 48, squared = points * points, size = points - 2;
    float *input = filled(squared * channels), *weights = filled(channels * 9 * channels), *v = filled(squared * lines),
          *m = filled(squared * lines), *u = filled(squared * channels * TILE_WIDTH),
          *output = filled(size * size * 64);
    const float *pixels[TILE_ALPHA * TILE_ALPHA];
    const tile_window back = { .m = m,
                               .step = lines,
                               .points = points,
                               .channels = channels,
                               .output = output,
                               .y_row = size * 64,
                               .y_pixel = 64,
                               .rows = size,
                               .columns = size };

    for (int64_t i = 0; i < squared; i++)
        pixels[i] = input + i * channels;
    for (int64_t i = 0; i < size * size * 64; i++)
        output[i] = guard;
    level->tiles->window_in(pixels, channels, points, v, lines);
    for (int64_t k = 0; k < channels; k++) /* weights[o][k][tap] */
        level->tiles->window_weights((const char *)(weights + k * 9), channels * 9, 1, channels, points,
                                     u + k * TILE_WIDTH, channels * TILE_WIDTH);
    for (int64_t i = 0; i < squared; i++)
        for (int64_t o = 0; o < channels; o++) {
            double sum = 0;

            for (int64_t k = 0; k < channels; k++)
                sum += (double)v[i * lines + k] * (double)u[(i * channels + k) * TILE_WIDTH + o];
            m[i * lines + o] = (float)sum;
        }
    level->tiles->window_out(&back);
    for (int64_t i = 0; i < size * size; i++)
        for (int64_t o = 0; o < 64; o++) {
            double sum = 0;

            for (int64_t k = 0; k < channels && o < channels; k++)
                for (int64_t t = 0; t < 9; t++)
                    sum += (double)input[((i / size + t / 3) * points + i % size + t % 3) * channels + k] *
                           (double)weights[(o * channels + k) * 9 + t];
            if (o < channels)
                expect(level, "window", (double)output[i * 64 + o], sum, 3.0 * (double)channels);
            else
                assert_true(output[i * 64 + o] == guard);
        }
    free(input), free(weights), free(v), free(m), free(u), free(output);
}

static void windows(void **state)
{
    (void)state;
    EACH_LEVEL(level)
        for (int64_t channels = 1; channels <= TILE_WIDTH; channels += 3) {
            check_window(level, 4, channels);
            check_window(level, 6, channels);
        }
}

/* Activation functions, including NaN and infinities. */
static void functions(void **state)
{
    static const float x[] = { -INFINITY, -1e30f, -200, -20, -3.5f, -1,    -1e-3f,   0,  1e-3f,
                               0.5f,      3,      3.5f, 30,  300,   1e30f, INFINITY, NAN };
    enum { COUNT = sizeof x / sizeof x[0] };

    (void)state;
    EACH_LEVEL(level)
        for (int fn = 0; fn < 5; fn++) {
            static const sgemm_fn fns[] = { SGEMM_SIGMOID, SGEMM_SWISH, SGEMM_HARDSWISH, SGEMM_GELU, SGEMM_GELU_TANH };
            const sgemm_post post = { .fn = fns[fn], .alpha = 1 };
            float y[COUNT + 1];

            memcpy(y, x, sizeof x);
            y[COUNT] = guard;
            if (fn >= 3)
                level->products->post(&post, y, COUNT, 1, COUNT);
            else
                assert_true(level->tiles->function(&post, y, COUNT, 1, COUNT));
            assert_true(y[COUNT] == guard);
            for (int i = 0; i < COUNT; i++) {
                const double t = (double)x[i], share = t < -3 ? 0 : t > 3 ? 1 : t / 6 + 0.5;
                const double tanh_of = 0.5 * (1 + tanh(0.7978845608028654 * (t + 0.044715 * t * t * t)));
                const double want[] = { 1 / (1 + exp(-t)), t / (1 + exp(-t)), t * share, 0.5 * t * erfc(-t / sqrt(2)),
                                        t * tanh_of };

                if (isnan(t))
                    assert_true(isnan(y[i]));
                else if (isinf(t) && t < 0) /* 0 times infinity may be 0 or NaN */
                    assert_true(!(y[i] > 0));
                else if (isinf(t))
                    assert_true(fn == 0 ? y[i] == 1.0f : isinf(y[i]));
                else
                    expect(level, "function", (double)y[i], want[fn], fabs(want[fn]));
            }
        }
}

static void check_product(const struct level *level, int64_t m, int64_t n, int64_t k)
{
    const int64_t panels = (n + SGEMM_WIDTH - 1) / SGEMM_WIDTH, c_row = n + 3;
    float *a = filled(m * (k + 2)), *b = filled(panels * k * SGEMM_WIDTH + 4096), *bias = filled(n),
          *c = filled(m * c_row + GUARD);
    const sgemm_job job = { .kernel = level->products,
                            .m = m,
                            .n = n,
                            .k = k,
                            .a = a,
                            .a_row = k + 2,
                            .b = b,
                            .width = SGEMM_WIDTH,
                            .b_panel = k * SGEMM_WIDTH,
                            .b_step = SGEMM_WIDTH,
                            .bias = bias,
                            .c = c,
                            .c_row = c_row };

    for (int64_t i = 0; i < m * c_row + GUARD; i++)
        c[i] = guard;
    sgemm_run(&job, 0, sgemm_units(&job));
    for (int64_t i = 0; i < m * c_row + GUARD; i++) {
        const int64_t r = i / c_row, j = i % c_row;
        double sum, size = 1;

        if (r >= m || j >= n) {
            assert_true(c[i] == guard);
            continue;
        }
        sum = (double)bias[j];
        for (int64_t p = 0; p < k; p++) {
            const double x = (double)a[r * (k + 2) + p] *
                             (double)b[j / SGEMM_WIDTH * k * SGEMM_WIDTH + p * SGEMM_WIDTH + j % SGEMM_WIDTH];

            sum += x;
            size += fabs(x);
        }
        expect(level, "product", (double)c[i], sum, size);
    }
    free(a), free(b), free(bias), free(c);
}

static void products(void **state)
{
    (void)state;
    EACH_LEVEL(level) {
        for (int64_t m = 1; m <= 14; m++)
            for (int64_t n = 1; n <= 70; n += n < 4 ? 1 : 7)
                check_product(level, m, n, 1 + (m * 5 + n) % 23);
        check_product(level, 7, 70, 1700);
        check_product(level, 1, 64, 900);
    }
}

/* Panels and dot products of 16-bit floats have the bits of those of the same floats. */
static void check_halves(const struct level *level, const float *input, int64_t rows, const float *lines, int64_t count,
                         int64_t row)
{
    for (int brain = 0; brain < 2; brain++) {
        const sgemm_halves *kernel = brain ? &level->products->bfloat16 : &level->products->float16;
        const inlay_dtype type = brain ? INLAY_BFLOAT16 : INLAY_FLOAT16;
        const int64_t all = count * row;
        uint16_t *halves = malloc((size_t)all * sizeof *halves + 1), *odd = (uint16_t *)(void *)((char *)halves + 1);
        float *floats = filled(all), *want = filled(row * SGEMM_WIDTH), *got = filled(row * SGEMM_WIDTH);

        assert_non_null(halves);
        convert_from_f32(type, halves, 0, all, lines, 0);
        convert_to_f32(floats, type, halves, 0, all);
        memmove(odd, halves, (size_t)all * sizeof *halves); /* files do not align elements */
        level->products->dots(input, row, rows, floats, row, count, row, want, SGEMM_WIDTH);
        kernel->dots(input, row, rows, odd, row, count, row, got, SGEMM_WIDTH);
        for (int64_t r = 0; r < rows; r++)
            assert_memory_equal(got + r * SGEMM_WIDTH, want + r * SGEMM_WIDTH, (size_t)count * sizeof *got);
        level->products->panel(floats, row, count, row, want);
        kernel->panel(odd, row, count, row, got);
        for (int64_t k = 0; k < row; k++)
            assert_memory_equal(got + k * SGEMM_WIDTH, want + k * SGEMM_WIDTH, (size_t)count * sizeof *got);
        free(halves), free(floats), free(want), free(got);
    }
}

/* Kernels of attention: softmax of rows, packing keys to panels, and dot products of few rows. */
static void scores(void **state)
{
    (void)state;
    EACH_LEVEL(level)
        for (int64_t count = 1; count <= 37; count += 4) {
            const int64_t rows = count % 19 + 1, row = 48;
            float *input = filled(rows * row + row), *lines = filled(count * row), *panel = filled(row * SGEMM_WIDTH),
                  *kept, factors[GUARD], *out = filled(rows * row);
            const sgemm_scores s = { .rows = rows,
                                     .count = count,
                                     .seen = count,
                                     .input = input,
                                     .x_row = row,
                                     .scale = 0.7f,
                                     .factors = factors };

            level->products->dots(input, row, rows, lines, row, count, count, out, row);
            for (int64_t r = 0; r < rows; r++)
                for (int64_t i = 0; i < count; i++) {
                    double sum = 0;

                    for (int64_t k = 0; k < count; k++)
                        sum += (double)input[r * row + k] * (double)lines[i * row + k];
                    expect(level, "dot", (double)out[r * row + i], sum, (double)count);
                }
            for (int64_t r = 0; r < rows; r++) { /* a single row gives the same bits */
                level->products->dots(input + r * row, row, 1, lines, row, count, count, factors, row);
                assert_memory_equal(factors, out + r * row, (size_t)count * sizeof *out);
            }
            check_halves(level, input, rows, lines, count, row);
            level->products->panel(lines, row, count, count, panel);
            for (int64_t i = 0; i < (count + SGEMM_LANES - 1) / SGEMM_LANES * SGEMM_LANES; i++)
                for (int64_t k = 0; k < count; k++)
                    assert_true(panel[k * SGEMM_WIDTH + i] == (i < count ? lines[i * row + k] : 0));
            kept = malloc((size_t)(rows * row) * sizeof *kept);
            assert_non_null(kept);
            memcpy(kept, input, (size_t)(rows * row) * sizeof *kept);
            level->products->softmax(&s);
            for (int64_t r = 0; r < rows; r++) {
                double sum = 0;

                for (int64_t i = 0; i < count; i++)
                    sum += exp(0.7 * (double)kept[r * row + i]);
                for (int64_t i = 0; i < count; i++)
                    expect(level, "softmax", (double)input[r * row + i] * (double)factors[r],
                           exp(0.7 * (double)kept[r * row + i]) / sum, 1);
            }
            free(input), free(lines), free(panel), free(kept), free(out);
        }
}

/* Exponentials of masked scores are 0, not subnormal: the CPU does not report an underflow, which would take it a
 * hundred times as long as another result. */
static void masked_scores(void **state)
{
    static const float masked[] = { -88, -95, -103.5f, -1e4f, -3e38f, -INFINITY };

    (void)state;
    EACH_LEVEL(level)
        for (int64_t count = 1; count <= 150; count += 7) {
            enum { ROWS = 5 };
            const int64_t row = (count + SGEMM_LANES - 1) / SGEMM_LANES * SGEMM_LANES;
            float *input = filled(ROWS * row), *mask = filled(count), *output = filled(ROWS * count), factors[ROWS];

            for (int64_t i = 0; i < count; i++)
                mask[i] = i % 3 == 0 ? 0 : masked[i % 7 % (int64_t)(sizeof masked / sizeof masked[0])];
            for (int64_t r = 0; r < ROWS; r++)
                for (int64_t i = 0; i < count; i++)
                    output[r * count + i] = mask[i];
            feclearexcept(FE_ALL_EXCEPT);
            level->products->softmax(&(sgemm_scores){ .rows = ROWS,
                                                      .count = count,
                                                      .seen = count,
                                                      .input = input,
                                                      .x_row = row,
                                                      .mask = mask,
                                                      .scale = 0.5f,
                                                      .factors = factors });
            level->rows->softmax(output, output, ROWS, count);
            if (fetestexcept(FE_UNDERFLOW) != 0)
                fail_msg("%s, %lld scores: underflow", level->name, (long long)count);
            for (int64_t i = 0; i < ROWS * count; i++) {
                const float score = input[i / count * row + i % count];

                assert_true(i % count % 3 == 0 ? score > 0 && output[i] > 0 : score == 0 && output[i] == 0);
            }
            free(input), free(mask), free(output);
        }
}

/* Checks a row with three taps, addressed by a table of pixels and by strides. */
static void check_depthwise(const struct level *level, int64_t channels, int32_t pixels, int64_t stride, bool reused)
{
    const int64_t blocks = (channels + 15) / 16, row = channels + 2, count = (pixels - 1) * stride + 3;
    const int64_t taps[] = { 0, row, 2 * row };
    float *input = filled(count * row), *weights = filled(blocks * 48), *bias = filled(channels),
          *output = filled(pixels * row), *z = filled(pixels * row), *flat = filled(3 * channels);
    const float *table[DEPTHWISE_PIXELS * 2 + 3];
    depthwise_block block = { .rows = 1,
                              .width = 3,
                              .weights = weights,
                              .w_step = 48,
                              .bias = bias,
                              .output = output,
                              .y_step = row,
                              .channels = channels,
                              .stride = stride,
                              .dilation = 1,
                              .depth = 1,
                              .pixels = pixels,
                              .reused = reused };
    const thin_row t = { .input = input,
                         .x_step = stride * row,
                         .taps = taps,
                         .tap_count = 3,
                         .weights = flat,
                         .w_step = channels,
                         .bias = bias,
                         .output = z,
                         .y_step = row,
                         .pixels = pixels,
                         .channels = channels };

    for (int64_t i = 0; i < count; i++)
        table[i] = input + i * row;
    for (int64_t i = 0; i < pixels * row; i++)
        output[i] = z[i] = guard;
    for (int64_t i = 0; i < 3 * channels; i++)
        flat[i] = weights[i % channels / 16 * 48 + i / channels * 16 + i % channels % 16];
    block.x[0] = table;
    level->tiles->depthwise(&block);
    level->thin_row(&t);
    for (int64_t i = 0; i < pixels * row; i++) {
        const int64_t c = i % row, from = i / row * stride * row + c;

        if (c < channels) {
            const double sum = (double)bias[c] + (double)input[from] * (double)flat[c] +
                               (double)input[from + row] * (double)flat[channels + c] +
                               (double)input[from + 2 * row] * (double)flat[2 * channels + c];

            expect(level, "depthwise", (double)output[i], sum, 4);
            expect(level, "groups", (double)z[i], sum, 4);
        } else {
            assert_true(output[i] == guard && z[i] == guard);
        }
    }
    free(input), free(weights), free(bias), free(output), free(z), free(flat);
}

/* A window of `height` rows by 3 for two neighbouring output rows, of whose height + stride input rows those from `top`
 * on are inside the image. */
struct pair_case {
    int64_t depth, channels, stride, height, top, rows;
    int32_t pixels;
};

/* Sets up the second or the first row of a pair by itself; x: the rows of pixels of the pair. */
static depthwise_block row_of(const struct pair_case *how, const depthwise_block *pair, bool second)
{
    const int64_t shift = second ? how->stride : 0, from = how->top > shift ? how->top : shift,
                  end = how->top + how->rows, past = end < shift + how->height ? end : shift + how->height;
    depthwise_block row = *pair;

    row.pair.active = false;
    row.rows = past > from ? past - from : 0;
    row.weights += (from - shift) * 3 * how->depth * DEPTHWISE_LANES;
    for (int64_t r = 0; r < row.rows; r++)
        row.x[r] = pair->x[from - how->top + r];
    row.output += second ? pair->pair.y_row : 0;
    row.add += second ? pair->pair.add_row : 0;
    return row;
}

ORACLE static double sum_of_row(const struct pair_case *how, const depthwise_block *row, int64_t pixel, int64_t c)
{
    double sum = (double)row->bias[c] + (double)row->add[pixel * row->add_step + c];

    for (int64_t r = 0; r < row->rows; r++)
        for (int64_t k = 0; k < 3; k++)
            for (int64_t i = 0; i < how->depth; i++)
                sum += (double)row->x[r][pixel * how->stride + k][c / how->depth * how->depth + i] *
                       (double)row->weights[c / DEPTHWISE_LANES * row->w_step +
                                            ((r * 3 + k) * how->depth + i) * DEPTHWISE_LANES + c % DEPTHWISE_LANES];
    return sum;
}

static struct guard guarded(int64_t count)
{
    struct guard memory = guard_alloc((size_t)count * sizeof(float));

    for (int64_t i = 0; i < count; i++)
        ((float *)(void *)memory.data)[i] = random_signed(&noise_state);
    return memory;
}

/* Both rows at once are compared with each by itself, bit by bit, and with sums in double; all data ends at a page that
 * cannot be accessed. */
static void check_pair(const struct level *level, const struct pair_case *how)
{
    const int64_t columns = (how->pixels - 1) * how->stride + 3, count = 2 * how->pixels * how->channels,
                  w_step = how->height * 3 * how->depth * DEPTHWISE_LANES,
                  blocks = (how->channels + DEPTHWISE_LANES - 1) / DEPTHWISE_LANES;
    struct guard input = guarded(how->rows * columns * how->channels), weights = guarded(blocks * w_step),
                 bias = guarded(how->channels), add = guarded(count), output = guarded(count), alone = guarded(count);
    const float *table[8][2 * DEPTHWISE_PIXELS + 3];
    int32_t spread[DEPTHWISE_LANES][DEPTHWISE_LANES];
    depthwise_block pair = { .rows = how->rows,
                             .width = 3,
                             .pair = { .active = true,
                                       .top = how->top,
                                       .height = how->height,
                                       .y_row = how->pixels * how->channels,
                                       .add_row = how->pixels * how->channels },
                             .weights = (const float *)(void *)weights.data,
                             .w_step = w_step,
                             .bias = (const float *)(void *)bias.data,
                             .add = (const float *)(void *)add.data,
                             .add_step = how->channels,
                             .output = (float *)(void *)output.data,
                             .y_step = how->channels,
                             .channels = how->channels,
                             .stride = how->stride,
                             .dilation = 1,
                             .depth = how->depth,
                             .spread = (const int32_t(*)[DEPTHWISE_LANES])spread,
                             .pixels = how->pixels,
                             .reused = true };

    for (int64_t i = 0; i < how->depth && i < DEPTHWISE_LANES; i++)
        for (int64_t lane = 0; lane < DEPTHWISE_LANES; lane++)
            spread[i][lane] = (int32_t)(lane / how->depth * how->depth + i);
    for (int64_t r = 0; r < how->rows; r++) {
        for (int64_t i = 0; i < columns; i++)
            table[r][i] = (const float *)(void *)input.data + (r * columns + i) * how->channels;
        pair.x[r] = table[r];
    }
    level->tiles->depthwise(&pair);
    for (int second = 0; second < 2; second++) {
        depthwise_block row = row_of(how, &pair, second == 1);
        const float *got = row.output;

        row.output = (float *)(void *)alone.data + second * pair.pair.y_row;
        level->tiles->depthwise(&row);
        assert_memory_equal(got, row.output, (size_t)pair.pair.y_row * sizeof *got);
        for (int64_t i = 0; i < pair.pair.y_row; i++)
            expect(level, "pair of rows", (double)got[i], sum_of_row(how, &row, i / how->channels, i % how->channels),
                   (double)(9 * how->depth));
    }
    guard_free(&input), guard_free(&weights), guard_free(&bias), guard_free(&add), guard_free(&output),
        guard_free(&alone);
}

ORACLE static float element(int64_t p, int64_t stride, int64_t r, int64_t dilation, const float *input, int64_t x_row,
                            int64_t at)
{
    return input[(p * stride + r * dilation) * x_row + at];
}

static void check_plane(const struct level *level, int64_t side, int64_t stride, int64_t dilation, int32_t rows,
                        int64_t n)
{
    enum { ROW = 128, MOST = 60 };
    int64_t at[9];
    const int64_t y_row = n + GUARD;
    float *input = filled(ROW * MOST), *weights = filled(side * side), *output = filled(PLANES_ROWS * y_row);
    planes_rows r = { .input = input,
                      .x_row = ROW,
                      .at = at,
                      .weights = weights,
                      .height = side,
                      .width = side,
                      .stride = stride,
                      .dilation = dilation,
                      .bias = 0.5f,
                      .output = output,
                      .y_row = y_row,
                      .n = n,
                      .rows = rows,
                      .clamp = rows % 2 == 0,
                      .low = -0.5f,
                      .high = 1 };

    assert_true((rows - 1) * stride + (side - 1) * dilation < MOST);
    for (int64_t k = 0; k < side; k++)
        at[k] = (k * 5) % 7;
    for (int64_t i = 0; i < PLANES_ROWS * y_row; i++)
        output[i] = guard;
    level->planes->rows(&r);
    for (int64_t p = 0; p < PLANES_ROWS; p++)
        for (int64_t i = 0; i < y_row; i++) {
            double sum = 0.5, size = 0.5;

            if (p >= rows || i >= n) {
                assert_true(output[p * y_row + i] == guard);
                continue;
            }
            for (int64_t k = 0; k < side * side; k++) {
                const double term =
                    (double)weights[k] * element(p, stride, k / side, dilation, input, ROW, at[k % side] + i);

                sum += term;
                size += fabs(term);
            }
            expect(level, "plane", output[p * y_row + i], !r.clamp ? sum : sum < -0.5 ? -0.5 : sum > 1 ? 1 : sum, size);
        }
    free(input);
    free(weights);
    free(output);
}

/* Kernels of many taps, in chains that end inside a row of taps or not, compared with sums in double. The sums of a row
 * have the same bits alone as with its neighbours. */
ORACLE static void check_long_plane(const struct level *level, uint64_t *dice)
{
    const int64_t height = random_between(dice, 1, 11), width = random_between(dice, 1, 70),
                  stride = random_between(dice, 1, 5) == 1 ? 2 : 1, dilation = random_between(dice, 1, 5) == 1 ? 3 : 1,
                  step = random_between(dice, 1, 3) == 1 ? 2 : 1, n = random_between(dice, 1, 170);
    const int32_t rows = (int32_t)random_between(dice, 1, PLANES_ROWS);
    const int64_t x_row = (n + PLANES_LANES - 1) / PLANES_LANES * PLANES_LANES + (width - 1) * step,
                  seen = (rows - 1) * stride + (height - 1) * dilation + 1, y_row = n + GUARD;
    float *input = filled(x_row * seen), *weights = filled(height * width), *output = filled(PLANES_ROWS * y_row),
          *alone = filled(y_row);
    planes_rows r = { .input = input,
                      .x_row = x_row,
                      .x_step = step,
                      .chain = random_between(dice, 1, 2) == 1 ? 96 : random_between(dice, 1, width),
                      .weights = weights,
                      .height = height,
                      .width = width,
                      .stride = stride,
                      .dilation = dilation,
                      .bias = 0.25f,
                      .output = output,
                      .y_row = y_row,
                      .n = n,
                      .rows = rows,
                      .clamp = random_between(dice, 0, 1) == 1,
                      .low = -1,
                      .high = 1 };

    for (int64_t i = 0; i < PLANES_ROWS * y_row; i++)
        output[i] = guard;
    level->planes->long_rows(&r);
    for (int64_t i = 0; i < PLANES_ROWS * y_row; i++) {
        const int64_t p = i / y_row, column = i % y_row;
        double sum = 0.25, size = 0.25;

        if (p >= rows || column >= n) {
            assert_true(output[i] == guard);
            continue;
        }
        for (int64_t k = 0; k < height * width; k++) {
            const double term =
                (double)weights[k] * element(p, stride, k / width, dilation, input, x_row, k % width * step + column);

            sum += term;
            size += fabs(term);
        }
        expect(level, "plane of many taps", output[i], !r.clamp ? sum : sum < -1 ? -1 : sum > 1 ? 1 : sum, size);
    }
    for (int64_t p = 0; p < rows; p++) {
        planes_rows one = r;

        one.rows = 1;
        one.input += p * stride * x_row;
        one.output = alone;
        level->planes->long_rows(&one);
        assert_memory_equal(alone, output + p * y_row, (size_t)n * sizeof *alone);
    }
    free(input);
    free(weights);
    free(output);
    free(alone);
}

static void long_planes(void **state)
{
    (void)state;
    EACH_LEVEL(level) {
        uint64_t dice = 11;

        for (int i = 0; i < 150; i++)
            check_long_plane(level, &dice);
    }
}

/* Integers of 64 bits to float, rounded once: blocks of small ones, of large ones, and of both. */
static void integers_to_floats(void **state)
{
    static const int64_t edges[] = {
        0,        -1,        INT32_MAX, INT32_MIN, INT64_C(1) << 31,       -(INT64_C(1) << 31) - 1,
        16777217, -16777219, INT64_MAX, INT64_MIN, (INT64_C(1) << 54) + 3, (INT64_C(1) << 40) + (1 << 16) + 1
    };
    enum { MOST = 1300, EDGES = sizeof edges / sizeof *edges };
    static const int64_t counts[] = { 0, 1, 7, 511, 512, 513, 1024, MOST };
    static int64_t input[MOST];
    static float output[MOST + 1];

    (void)state;
    EACH_LEVEL(level)
        for (int round = 0; round < 60; round++) {
            const int64_t count = counts[round % 8];

            for (int64_t i = 0; i < count; i++) {
                const bool small = round % 3 == 0 || (round % 3 == 1 && i < 700);

                input[i] = (int64_t)random_bits(&noise_state) >> (small ? 33 + i % 31 : i % 63);
                if (random_between(&noise_state, 0, 9) == 0)
                    input[i] = edges[random_between(&noise_state, 0, small ? 3 : EDGES - 1)];
            }
            output[count] = guard;
            level->converts->i64_to_f32(output, input, count);
            assert_true(output[count] == guard);
            for (int64_t i = 0; i < count; i++)
                assert_true(output[i] == (float)input[i]);
        }
}

static void planes(void **state)
{
    static const int64_t sides[] = { 1, 2, 3, 5, 7 }, lengths[] = { 1, 15, 16, 17, 64, 65, 100 };

    (void)state;
    EACH_LEVEL(level)
        for (size_t side = 0; side < sizeof sides / sizeof *sides; side++)
            for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
                for (int64_t stride = 1; stride <= 3; stride++)
                    for (int32_t rows = 1; rows <= PLANES_ROWS; rows++)
                        check_plane(level, sides[side], stride, n % 3 == 0 ? 2 : 1, rows, lengths[n]);
}

/* De-interleaving (every, part), interleaving (join), filling, adding and mixing rows. */
static void parts_of_rows(void **state)
{
    (void)state;
    EACH_LEVEL(level)
        for (int64_t step = 1; step <= 4; step++)
            for (int64_t n = 1; n < 70; n += 3) {
                float *input = filled(step * n), *parts = filled(step * (n + 1)), *output = filled(step * n + 1);

                output[step * n] = guard;
                for (int64_t p = 0; p < step; p++)
                    level->moves->every(input + p, step, parts + p * (n + 1), n);
                for (int64_t p = 0; p < step; p++)
                    for (int64_t i = 0; i < n; i++)
                        assert_true(parts[p * (n + 1) + i] == input[i * step + p]);
                for (int64_t less = 0; step > 1 && less < step; less++) {
                    level->planes->join(parts, n + 1, step, output, step * n - less);
                    assert_memory_equal(input, output, (size_t)(step * n - less) * sizeof *input);
                }
                if (step == 2) { /* both parts at once; neither is written after its end */
                    float *even = filled(n + 1), *odd = filled(n + 1);

                    even[n] = odd[n] = guard;
                    level->planes->part(input, even, odd, n);
                    for (int64_t i = 0; i < n; i++)
                        assert_true(even[i] == input[2 * i] && odd[i] == input[2 * i + 1]);
                    assert_true(even[n] == guard && odd[n] == guard);
                    free(even);
                    free(odd);
                }
                level->planes->fill(output, 2, step * n);
                level->planes->add(input, n,
                                   (const plane_tap[]){ { 0, 0, n }, { 0, n, n }, { 0, 2 * n, n }, { 0, 3 * n, n } },
                                   step, output);
                for (int64_t i = 0; i < step * n; i++)
                    assert_true(output[i] == 2 + input[i]);
                assert_true(output[step * n] == guard);
                output[n] = guard;
                level->planes->mix(&(planes_rows){ .input = input,
                                                   .x_step = n,
                                                   .width = step,
                                                   .weights = (const float[]){ 3, -2, 0.5f, 7 },
                                                   .bias = 1,
                                                   .output = output,
                                                   .n = n,
                                                   .clamp = true,
                                                   .low = -2,
                                                   .high = 4 });
                for (int64_t i = 0; i < n; i++) {
                    float sum = 1;

                    for (int64_t k = 0; k < step; k++)
                        sum += (const float[]){ 3, -2, 0.5f, 7 }[k] * input[k * n + i];
                    assert_true(fabsf(output[i] - fminf(fmaxf(sum, -2), 4)) <= 1e-5f);
                }
                assert_true(output[n] == guard);
                free(input);
                free(parts);
                free(output);
            }
}

static void panels(void **state)
{
    enum { STEP = 3 * PLANES_PANEL, MOST = 4 * STEP };

    (void)state;
    EACH_LEVEL(level)
        for (int64_t at = 0; at < 2 * PLANES_PANEL; at += 5)
            for (int64_t n = 1; n < 2 * PLANES_PANEL; n += 9) {
                float *input = filled(n), y[MOST];

                for (int64_t i = 0; i < MOST; i++)
                    y[i] = guard;
                level->planes->put(input, n, y, STEP, at);
                for (int64_t i = 0; i < MOST; i++) {
                    const int64_t column = i / STEP * PLANES_PANEL + i % STEP;

                    if (i % STEP < PLANES_PANEL && column >= at && column < at + n)
                        assert_true(y[i] == input[column - at]);
                    else
                        assert_true(y[i] == guard);
                }
                free(input);
            }
}

/* For each element, the number of elements that are greater. */
static void greater(void **state)
{
    (void)state;
    EACH_LEVEL(level)
        for (int64_t n = 1; n < 200; n += 7) {
            float *input = filled(n), *output = filled(n + 1);

            for (int64_t i = 0; i < n; i++)
                input[i] = i % 5 == 0 ? 0.25f : input[i];
            input[n / 2] = INFINITY;
            output[n] = guard;
            level->rows->greater(input, output, n);
            for (int64_t i = 0; i < n; i++) {
                int64_t above = 0;

                for (int64_t j = 0; j < n; j++)
                    above += input[j] > input[i];
                assert_true(output[i] == (float)above);
            }
            assert_true(output[n] == guard);
            free(input);
            free(output);
        }
}

static void depthwise(void **state)
{
    static const int32_t pixels[] = { 1, 2, 4, 7, 8 };

    (void)state;
    EACH_LEVEL(level)
        for (int64_t channels = 1; channels <= 40; channels += channels < 6 ? 1 : 5)
            for (size_t pixel = 0; pixel < sizeof pixels / sizeof pixels[0]; pixel++)
                for (int64_t stride = 1; stride <= 2; stride++) {
                    check_depthwise(level, channels, pixels[pixel], stride, false);
                    check_depthwise(level, channels, pixels[pixel], stride, true);
                }
}

static void row_pairs(void **state)
{
    static const int32_t pixels[] = { 1, 2, 4, 7, 8 };
    static const int64_t groups[] = { 1, 3, 5, 17 };

    (void)state;
    EACH_LEVEL(level)
        for (int64_t depth = 1; depth <= 32; depth *= 2)
            for (int64_t n = 0; n < 5 * 4 * 2 * 2; n++) {
                const int64_t stride = n % 2 + 1, height = n / 2 % 2 + 2, all = height + stride;
                struct pair_case how = { .depth = depth,
                                         .channels = depth * groups[n / 4 % 4],
                                         .stride = stride,
                                         .height = height,
                                         .rows = all,
                                         .pixels = pixels[n / 16] };

                check_pair(level, &how);
                how.top = 1, how.rows = all - 1; /* at the upper border */
                check_pair(level, &how);
                how.top = 0, how.rows = 1; /* at the lower one */
                check_pair(level, &how);
            }
}

static void moves(void **state)
{
    (void)state;
    EACH_LEVEL(level)
        for (int64_t rows = 1; rows <= 35; rows += rows < 5 ? 1 : 6)
            for (int64_t columns = 1; columns <= 109; columns += columns < 5 ? 1 : 8) {
                float *input = filled(rows * (columns + 3)), *output = filled(rows * columns + GUARD),
                      *z = filled(rows * columns + GUARD);

                for (int64_t i = 0; i < GUARD; i++)
                    output[rows * columns + i] = z[rows * columns + i] = guard;
                move_turn(level->moves, input, columns + 3, output, rows, rows, columns);
                level->moves->rows(input, columns + 3, z, columns, rows, columns);
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t c = 0; c < columns; c++) {
                        assert_true(output[c * rows + r] == input[r * (columns + 3) + c]);
                        assert_true(z[r * columns + c] == input[r * (columns + 3) + c]);
                    }
                for (int64_t i = 0; i < GUARD; i++)
                    assert_true(output[rows * columns + i] == guard && z[rows * columns + i] == guard);
                free(input), free(output), free(z);
            }
}

/* Transposes of two matrices of elements of 1 to 16 bytes at odd addresses, from single elements to several squares.
 * The input ends where a page may end, and gaps between rows are not written. */
static void turns(void **state)
{
    static const int64_t sizes[] = { 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 40, 64, 65, 130 };
    enum { COUNT = sizeof sizes / sizeof sizes[0] };

    (void)state;
    EACH_LEVEL(level)
        for (int64_t log = 0; log < 5; log++)
            for (int which = 0; which < 4 * COUNT * COUNT; which++) {
                const int64_t rows = sizes[which / COUNT % COUNT], columns = sizes[which % COUNT], size = 1 << log;
                const int64_t gap_in = which / COUNT / COUNT % 2 * 5, gap_out = which / COUNT / COUNT / 2;
                const int64_t x_row = columns * size + gap_in, y_row = rows * size + gap_out;
                const int64_t x_bytes = 2 * rows * x_row - gap_in + 1, y_bytes = 2 * columns * y_row + 1;
                char *x = malloc((size_t)x_bytes), *y = malloc((size_t)y_bytes); /* data begins at offset 1 */

                assert_true(x != NULL && y != NULL);
                for (int64_t i = 0; i < x_bytes; i++)
                    x[i] = (char)(random_signed(&noise_state) * 127);
                memset(y, 77, (size_t)y_bytes);
                level->moves->turn[log](
                    &(move_turns){ x + 1, y + 1, x_row, y_row, rows, columns, 2, rows * x_row, columns * y_row });
                for (int64_t i = 0; i < 2 * columns; i++) {
                    const char *from = x + 1 + i / columns * rows * x_row + i % columns * size, *to = y + 1 + i * y_row;

                    for (int64_t r = 0; r < rows; r++)
                        assert_memory_equal(to + r * size, from + r * x_row, (size_t)size);
                    for (int64_t gap = rows * size; gap < y_row; gap++)
                        assert_int_equal(to[gap], 77);
                }
                assert_true(y[0] == 77);
                free(x), free(y);
            }
}

/* Quantization is exact, including ties, NaN and infinities. */
static void bytes(void **state)
{
    enum { MOST = 150 };

    (void)state;
    EACH_LEVEL(level)
        for (int64_t n = 1; n <= MOST; n++) {
            const bool is_signed = n % 2 != 0;
            const float scale = ldexpf(1.5f + random_signed(&noise_state) / 2, (int)(n % 20) - 15),
                        low = is_signed ? -128 : 0;
            const float zero = low + (float)(n * 7 % 256);
            float x[MOST];
            uint8_t y[MOST + 1];

            for (int64_t i = 0; i < n; i++)
                x[i] = i % 29 == 28   ? NAN
                       : i % 31 == 30 ? (i % 2 != 0 ? -INFINITY : INFINITY)
                       : i % 3 == 0   ? scale * (float)(i * 2 - n) / 2 /* ties */
                                      : scale * 300 * random_signed(&noise_state);
            y[n] = 77;
            level->quantize(y, x, is_signed, n, scale, zero);
            assert_int_equal(y[n], 77);
            for (int64_t i = 0; i < n; i++) {
                const float q = nearbyintf(x[i] / scale) + zero;
                const float want = !(q >= low) ? low : q > low + 255 ? low + 255 : q;

                assert_int_equal(is_signed ? (int8_t)y[i] : y[i], (int)want);
            }
        }
}

/* Sums of rows are added in the same order on each level: large elements that cancel show every rounding. */
static void sums(void **state)
{
    enum { ROWS = 3, MOST = 70 };
    static const int folds[] = { FOLD_SUM, FOLD_MAGNITUDES, FOLD_SQUARES };

    (void)state;
    for (int64_t n = 1; n <= MOST; n++) {
        float *x = filled(ROWS * n);

        for (int64_t i = 0; i < ROWS * n; i++)
            x[i] = i % 2 == 0 ? ldexpf(x[i], (int)(i / 2 * 7 % 60)) : -x[i - 1];
        for (size_t f = 0; f < sizeof folds / sizeof folds[0]; f++) {
            float want[ROWS];

            row_loops_c.folds[folds[f]].rows(x, want, ROWS, n);
            EACH_LEVEL(level) {
                float got[ROWS + 1] = { [ROWS] = guard };

                level->folds->folds[folds[f]].rows(x, got, ROWS, n);
                assert_memory_equal(got, want, sizeof want);
                assert_true(got[ROWS] == guard);
            }
        }
        free(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles),         cmocka_unit_test(windows),
        cmocka_unit_test(functions),     cmocka_unit_test(products),
        cmocka_unit_test(scores),        cmocka_unit_test(masked_scores),
        cmocka_unit_test(depthwise),     cmocka_unit_test(integers_to_floats),
        cmocka_unit_test(long_planes),   cmocka_unit_test(planes),
        cmocka_unit_test(parts_of_rows), cmocka_unit_test(greater),
        cmocka_unit_test(panels),        cmocka_unit_test(moves),
        cmocka_unit_test(turns),         cmocka_unit_test(bytes),
        cmocka_unit_test(row_pairs),     cmocka_unit_test(sums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
