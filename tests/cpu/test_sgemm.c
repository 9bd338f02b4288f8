/* The kernels of sgemm.h, compared with sums in double: sizes around the edges of blocks and panels, rows with gaps,
 * a bias or an initial C, every function, units in any order; and the error of long sums, also with the tiles of
 * tiles.h. */
#include "cpu/matrix/sgemm.h"
#include "cpu/convolution/tiles.h"
#include "cmocka_all.h"
#include "noise.h"
#include "oracle.h"
#include <math.h>
#include <stdlib.h>

struct product {
    int64_t m, n, k, a_row, c_row, width, panel;
    float *a, *weights, *b, *bias, *c, *other;
};

/* Packs w into the panels b; the padding after the last column is NaN, to detect reads of it. */
ORACLE static void setup(struct product *product)
{
    int64_t panels = (product->n + 63) / 64;

    product->width = product->n <= 16 ? 16 : product->n <= 32 ? 32 : 64;
    product->panel = product->k * product->width;
    product->a_row = product->k + 3;
    product->c_row = product->n + 5;
    product->a = fill(product->m * product->a_row, 1);
    product->weights = fill(product->k * product->n, 2);
    product->b = fill(panels * product->panel, 3);
    product->bias = fill(product->n, 4);
    product->c = fill(product->m * product->c_row, 5);
    product->other = fill(product->m * product->n, 6);
    for (int64_t i = 0; i < panels * product->panel; i++)
        product->b[i] = NAN;
    for (int64_t k = 0; k < product->k; k++)
        for (int64_t j = 0; j < product->n; j++)
            product->b[j / product->width * product->panel + k * product->width + j % product->width] =
                product->weights[k * product->n + j];
}

static void teardown(struct product *product)
{
    free(product->a);
    free(product->weights);
    free(product->b);
    free(product->bias);
    free(product->c);
    free(product->other);
}

static double expected(const sgemm_post *post, double x, double o)
{
    switch (post->fn) {
    case SGEMM_RELU:
        return x < 0 ? post->alpha * x : x;
    case SGEMM_GELU:
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    case SGEMM_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
    case SGEMM_SIGMOID:
        return 1 / (1 + exp(-x));
    case SGEMM_TANH:
        return tanh(x);
    case SGEMM_SWISH:
        return x / (1 + exp(-post->alpha * x));
    case SGEMM_HARDSWISH:
        return x * fmin(fmax(x / 6 + 0.5, 0), 1);
    case SGEMM_LINEAR:
        return post->alpha * x + post->beta;
    case SGEMM_CLIP:
        return fmin(fmax(x, post->alpha), post->beta);
    case SGEMM_ADD:
        return x + o;
    case SGEMM_SUB:
        return x - o;
    case SGEMM_MUL:
        return x * o;
    case SGEMM_DIV:
        return x / o;
    case SGEMM_PRELU:
        return x < 0 ? x * o : x;
    default:
        return NAN;
    }
}

/* Runs the units from the last to the first, and compares. mode: 0 = plain, 1 = with a bias, 2 = added to C. */
/* Adds row i of the product to sums [n]. */
ORACLE static void add_row(const struct product *product, int64_t i, double *sums)
{
    for (int64_t k = 0; k < product->k; k++)
        for (int64_t j = 0; j < product->n; j++)
            sums[j] += (double)product->a[i * product->a_row + k] * product->weights[k * product->n + j];
}

static void check(const sgemm_kernel *kernel, struct product *product, int mode, const sgemm_post *post, int kind)
{
    sgemm_job job = { .kernel = kernel,
                      .m = product->m,
                      .n = product->n,
                      .k = product->k,
                      .a = product->a,
                      .a_row = product->a_row,
                      .b = product->b,
                      .b_panel = product->panel,
                      .width = product->width,
                      .b_step = product->width,
                      .c_row = product->c_row,
                      .add = mode == 2,
                      .bias = mode == 1 ? product->bias : NULL,
                      .blocks = mode,
                      .post_count = post != NULL };
    size_t bytes = (size_t)(product->m * product->c_row) * sizeof(float);
    sgemm_post own = post != NULL ? *post : (sgemm_post){ 0 };
    double *sums;

    if (own.fn >= SGEMM_ADD) {
        own.other = product->other;
        own.row = kind == 0 ? product->n : kind == 1 ? 0 : 1;
        own.col = kind == 0 || kind == 1;
    }
    job.posts = &own;
    job.c = malloc(bytes);
    sums = malloc((size_t)product->n * sizeof *sums);
    assert_true(job.c != NULL && sums != NULL);
    memcpy(job.c, product->c, bytes);
    for (int64_t u = sgemm_units(&job); u > 0; u -= 3)
        sgemm_run(&job, u > 3 ? u - 3 : 0, u);
    for (int64_t i = 0; i < product->m; i++) {
        for (int64_t j = 0; j < product->n; j++)
            sums[j] = mode == 1 ? product->bias[j] : mode == 2 ? product->c[i * product->c_row + j] : 0;
        add_row(product, i, sums);
        for (int64_t j = 0; j < product->c_row; j++) {
            float got = job.c[i * product->c_row + j];
            double sum = j < product->n ? sums[j] : 0;

            if (j >= product->n) { /* not an element of the result */
                assert_true(got == product->c[i * product->c_row + j]);
                continue;
            }
            if (post != NULL)
                sum = expected(post, sum, own.fn >= SGEMM_ADD ? own.other[i * own.row + j * own.col] : 0);
            if (!(fabs(got - sum) <= 8e-7 * (sqrt((double)product->k) + fabs(sum) + 1)))
                fail_msg("%lld x %lld x %lld, mode %d, function %d: [%lld, %lld] is %g, not %g", (long long)product->m,
                         (long long)product->n, (long long)product->k, mode, post != NULL ? (int)post->fn : -1,
                         (long long)i, (long long)j, (double)got, sum);
        }
    }
    free(job.c);
    free(sums);
}

static void sizes(void **state)
{
    static const int64_t ms[] = { 1, 2, 5, 6, 7, 11, 12, 13, 25, 161 },
                         ns[] = { 1, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 113, 200 }, ks[] = { 1, 3, 64, 770 };
    const sgemm_kernel *kernel = sgemm_kernel_best();

    (void)state;
    if (kernel == NULL)
        skip();
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
        for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
            for (size_t k = 0; k < sizeof ks / sizeof *ks; k++) {
                struct product product = { .m = ms[i], .n = ns[j], .k = ks[k] };

                setup(&product);
                for (int mode = 0; mode < 3; mode++)
                    check(kernel, &product, mode, NULL, 0);
                teardown(&product);
            }
}

static void functions(void **state)
{
    const sgemm_kernel *kernel = sgemm_kernel_best();
    struct product product = { .m = 13, .n = 75, .k = 9 };

    (void)state;
    if (kernel == NULL)
        skip();
    setup(&product);
    for (int64_t i = 0; i < product.m * product.n; i++)
        product.other[i] += 2; /* a divisor */
    for (int fn = 0; fn < SGEMM_FN_COUNT; fn++) {
        sgemm_post post = { .fn = (sgemm_fn)fn, .alpha = fn == SGEMM_CLIP ? -0.5f : 0.75f, .beta = 0.5f };

        for (int kind = 0; kind < 3; kind++)
            check(kernel, &product, 1, &post, kind);
    }
    teardown(&product);
}

/* Gelu over its whole range: the error bound of gelu.h, NaN and infinity. */
static void gelu(void **state)
{
    static const float special[] = { NAN, INFINITY, -INFINITY, 0, -1e30f, 1e30f, 1e-40f };
    static const float want[] = { NAN, INFINITY, NAN, 0, 0, 1e30f, 5e-41f };
    const sgemm_kernel *kernel = sgemm_kernel_best();

    (void)state;
    if (kernel == NULL)
        skip();
    for (int tanh_form = 0; tanh_form < 2; tanh_form++) {
        const sgemm_post post = { .fn = tanh_form ? SGEMM_GELU_TANH : SGEMM_GELU };
        float y[7], row[67], alone[67];

        for (int i = 0; i < 67; i++) { /* whole vectors, some of them together, give what an element alone gives */
            row[i] = alone[i] = (float)(i - 40) * 0.17f;
            kernel->post(&post, alone + i, 1, 1, 1);
        }
        kernel->post(&post, row, 67, 1, 67);
        assert_memory_equal(row, alone, sizeof row);
        for (int i = -700001; i < 700001; i += 3) {
            float got = (float)i * 1e-5f;
            const double x = (double)got, exact = tanh_form ? expected(&post, x, 0) : 0.5 * x * erfc(-x / sqrt(2));
            const double error = x > -2.5 ? 4e-7 * fabs(exact) : x > -5.8 ? 1e-5 * fabs(exact) : 1e-9;

            kernel->post(&post, &got, 1, 1, 1);
            if (!(fabs(got - exact) <=
                  error + (tanh_form ? 1e-15 : 0))) /* the error of 1 + tanh in the formula itself */
                fail_msg("Gelu %d of %.9g is %.9g, not %.9g", tanh_form, x, (double)got, exact);
        }
        memcpy(y, special, sizeof y);
        kernel->post(&post, y, 7, 1, 7);
        for (int i = 0; i < 7; i++)
            if (!(y[i] == want[i] || (isnan(want[i]) && isnan(y[i])) || (i == 6 && fabsf(y[i] - want[i]) < 1e-44f)))
                fail_msg("Gelu %d of %g is %g", tanh_form, (double)special[i], (double)y[i]);
    }
}

/* Scores of `rows` rows, at most 130 elements each: row r uses seen + r of them. Row 2 is fully masked, row 3 has a NaN
 * among the used elements. sink_row: of the sinks; -1: none. */
static void check_scores(const sgemm_kernel *kernel, int64_t rows, int64_t count, int64_t seen, bool masked,
                         int64_t sink_row)
{
    const int64_t room = (count + SGEMM_LANES - 1) / SGEMM_LANES * SGEMM_LANES;
    float *input = fill(rows * room, 1), *was = fill(rows * room, 1);
    float *mask = fill(rows * count, 2), *factors = fill(rows, 3), *sinks = fill(rows, 4);
    const sgemm_scores scores = { .rows = rows,
                                  .count = count,
                                  .seen = seen,
                                  .input = input,
                                  .x_row = room,
                                  .scale = 7,
                                  .mask = masked ? mask : NULL,
                                  .mask_row = count,
                                  .sinks = sink_row >= 0 ? sinks : NULL,
                                  .sink_row = sink_row,
                                  .factors = factors };

    for (int64_t r = 0; r < rows; r++) /* among the scores, far above them, far below them */
        sinks[r] = r % 3 == 0 ? 8 * sinks[r] : r % 3 == 1 ? 400 : -400;
    for (int64_t j = 0; masked && rows > 2 && j < count; j++)
        mask[2 * count + j] = -INFINITY;
    for (int64_t r = 3; r < rows && r < 4; r++)
        input[r * room] = was[r * room] = NAN;
    kernel->softmax(&scores);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t n = seen + r < count ? seen + r : count;
        const double sink = sink_row >= 0 ? (double)sinks[r * sink_row] : -INFINITY;
        double top = sink, sum, e[130];

        for (int64_t j = 0; j < n; j++) {
            e[j] = 7.0 * was[r * room + j] + (masked ? (double)mask[r * count + j] : 0);
            top = fmax(top, e[j]);
        }
        for (int64_t j = 0; j < n; j++)
            e[j] = exp(e[j] - top);
        sum = sink_row >= 0 ? exp(sink - top) : 0;
        for (int64_t j = 0; j < n; j++)
            sum += e[j];
        for (int64_t j = 0; j < count; j++) {
            const double got = (double)input[r * room + j] * factors[r];
            const double want = j >= n || (masked && r == 2) ? 0 : e[j] / sum;

            if (!(fabs(got - want) <= 2e-6 * want + 1e-37) && !(r == 3 && isnan(got)))
                fail_msg("%lld rows of %lld: score [%lld, %lld] is %g, not %g", (long long)rows, (long long)count,
                         (long long)r, (long long)j, got, want);
            assert_true(r != 3 || j >= n || isnan(got));
        }
    }
    free(input);
    free(was);
    free(mask);
    free(factors);
    free(sinks);
}

static void scores(void **state)
{
    static const int64_t rows[] = { 1, 3, 15, 16, 17, 40 }, counts[] = { 1, 15, 16, 49, 130 };
    const sgemm_kernel *kernel = sgemm_kernel_best();

    (void)state;
    if (kernel == NULL)
        skip();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t j = 0; j < sizeof counts / sizeof *counts; j++)
            for (int form = 0; form < 6; form++) {
                check_scores(kernel, rows[i], counts[j], counts[j], form % 2 != 0, form / 2 - 1);
                check_scores(kernel, rows[i], counts[j], 1, form % 2 != 0, form / 2 - 1);
            }
}

/* The error of sums relative to their typical magnitude, sqrt(terms / 9): a single chain of 12544 terms has 2e-6. */
static void expect_exact(double squares, int64_t elements, int64_t terms, const char *what)
{
    double error = sqrt(squares / (double)elements / ((double)terms / 9));

    if (!(error <= 7e-7))
        fail_msg("%s of %lld terms: error %g", what, (long long)terms, error);
}

static void long_sums(void **state)
{
    static const int64_t ms[] = { 1, 6, 30 }, ns[] = { 40, 64, 100 };
    const sgemm_kernel *kernel = sgemm_kernel_best();

    (void)state;
    if (kernel == NULL)
        skip();
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
        for (size_t j = 0; j < sizeof ns / sizeof *ns; j++) {
            struct product product = { .m = ms[i], .n = ns[j], .k = 12544 };
            double squares = 0;
            sgemm_job job;

            setup(&product);
            job = (sgemm_job){ .kernel = kernel,
                               .m = product.m,
                               .n = product.n,
                               .k = product.k,
                               .a = product.a,
                               .a_row = product.a_row,
                               .b = product.b,
                               .b_panel = product.panel,
                               .width = product.width,
                               .b_step = product.width,
                               .c = product.c,
                               .c_row = product.c_row };
            sgemm_run(&job, 0, sgemm_units(&job));
            for (int64_t r = 0; r < product.m; r++)
                for (int64_t c = 0; c < product.n; c++) {
                    double sum = 0;

                    for (int64_t k = 0; k < product.k; k++)
                        sum += (double)product.a[r * product.a_row + k] * product.weights[k * product.n + c];
                    squares += (sum - product.c[r * product.c_row + c]) * (sum - product.c[r * product.c_row + c]);
                }
            expect_exact(squares, product.m * product.n, product.k, "a product");
            teardown(&product);
        }
}

/* One tile over several taps, without a residual, or with one in the result's buffer or in another. */
static void check_tile(const tile_set *set, int rows, int64_t columns, int64_t tap_count, int64_t depth, int residual)
{
    const int64_t pixel = depth + 1, terms = tap_count * depth, size = (int64_t)rows * TILE_WIDTH;
    int64_t taps[9];
    float *a = fill((rows + tap_count) * pixel, 1), *b = fill(terms * TILE_WIDTH, 2), *bias = fill(TILE_WIDTH, 3);
    float *c = fill(size, 4), *other = fill(size, 4);
    tile_product product = { .a = a,
                             .a_row = pixel,
                             .taps = taps,
                             .tap_count = tap_count,
                             .depth = depth,
                             .b = b,
                             .bias = bias,
                             .add = residual == 0   ? NULL
                                    : residual == 1 ? c
                                                    : other,
                             .add_row = TILE_WIDTH,
                             .c = c,
                             .c_row = TILE_WIDTH,
                             .columns = columns };
    double squares = 0;

    for (int64_t tap = 0; tap < tap_count; tap++)
        taps[tap] = tap * pixel;
    set->multiply(&product, rows);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < TILE_WIDTH; j++) {
            double sum = bias[j] + (residual != 0 ? (double)other[r * TILE_WIDTH + j] : 0.0);
            double got = c[r * TILE_WIDTH + j];

            if (j >= columns) { /* not an element of the result */
                assert_true(c[r * TILE_WIDTH + j] == other[r * TILE_WIDTH + j]);
                continue;
            }
            for (int64_t tap = 0; tap < tap_count; tap++)
                for (int64_t k = 0; k < depth; k++)
                    sum += (double)a[taps[tap] + r * pixel + k] * b[(tap * depth + k) * TILE_WIDTH + j];
            squares += (sum - got) * (sum - got);
        }
    expect_exact(squares, rows * columns, terms, "a tile");
    free(a);
    free(b);
    free(bias);
    free(c);
    free(other);
}

static void long_tiles(void **state)
{
    static const int64_t shapes[][2] = { { 1, 12000 }, { 9, 512 }, { 9, 100 }, { 2, 384 }, { 3, 128 }, { 4, 97 } };
    const tile_set *set = tiles_of_cpu();

    (void)state;
    if (set == NULL)
        skip();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int rows = 1; rows <= TILE_ROWS; rows++)
            for (int residual = 0; residual < 3; residual++)
                check_tile(set, rows,
                           rows % 3 == 0   ? TILE_WIDTH
                           : rows % 3 == 1 ? 11
                                           : 23,
                           shapes[i][0], shapes[i][1], residual);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sizes),     cmocka_unit_test(functions),
                                        cmocka_unit_test(gelu),      cmocka_unit_test(scores),
                                        cmocka_unit_test(long_sums), cmocka_unit_test(long_tiles) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
