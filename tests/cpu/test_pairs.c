/* Winograd's inner product (pairs.h), compared with sums in double: sizes around the edges of blocks, panels and parts,
 * all layouts of weights, epilogues, units in any order; values for which the plain formula would fail; and NaN and
 * infinity. */
#include "weights/pairs_weights.h"
#include "convolution/tiles.h"
#include "cmocka_all.h"
#include "noise.h"
#include <math.h>
#include <stdlib.h>

static inlay_status serial(void *ctx, inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn, void *user)
{
    (void)ctx, (void)run, (void)grain;
    return fn(user, 0, count, 0);
}

static const inlay_host host = { .parallel_for = serial };
static const cpu_state provider = { .host = &host };

struct product {
    int64_t m, n, k, a_row, c_row;
    float *a, *weights, *bias, *c, *other;
    void *pack;
};

/* w: [n][k], or [k][n] if turned. */
static void pack(struct product *product, bool turned)
{
    const int64_t dims[] = { product->n, product->k }, strides[] = { turned ? 1 : product->k, turned ? product->n : 1 };
    float *lies = malloc((size_t)(product->n * product->k) * sizeof *lies);
    memory_desc plain, md;

    assert_non_null(lies);
    for (int64_t j = 0; j < product->n; j++)
        for (int64_t k = 0; k < product->k; k++)
            lies[j * strides[0] + k * strides[1]] = product->weights[j * product->k + k];
    memory_desc_strides(&plain, 2, dims, strides);
    pairs_layout(product->k, product->n, &md);
    free(product->pack);
    product->pack = NULL;
    assert_int_equal(posix_memalign(&product->pack, 64, memory_desc_bytes(&md)), 0);
    assert_true(pairs_pack_weights(&provider, &plain, lies, &md, product->pack));
    free(lies);
}

static void setup(struct product *product)
{
    product->a_row = product->k + 3;
    product->c_row = product->n + 5;
    product->a = fill(product->m * product->a_row, 1);
    product->weights = fill(product->n * product->k, 2);
    product->bias = fill(product->n, 3);
    product->c = fill(product->m * product->c_row, 4);
    product->other = fill(product->m * product->n, 5);
    product->pack = NULL;
    pack(product, (product->m + product->n + product->k) % 2 == 0);
}

static void teardown(struct product *product)
{
    free(product->a);
    free(product->weights);
    free(product->bias);
    free(product->c);
    free(product->other);
    free(product->pack);
}

enum { PLAIN, BIAS, ONTO, ONTO_AND_BIAS, RESIDUAL, CLAMPED, GATED, MODES };

/* Sets the epilogue of mode `mode`; posts: [4]. */
static void set_epilogue(const struct product *product, int mode, sgemm_job *job, sgemm_post *posts)
{
    job->posts = posts;
    job->bias = mode == BIAS || mode >= RESIDUAL ? product->bias : NULL;
    job->add = mode == ONTO || mode == ONTO_AND_BIAS;
    if (mode == ONTO_AND_BIAS)
        posts[job->post_count++] = (sgemm_post){ .fn = SGEMM_ADD, .other = product->bias, .col = 1 };
    if (mode == RESIDUAL || mode == CLAMPED)
        posts[job->post_count++] =
            (sgemm_post){ .fn = SGEMM_ADD, .other = product->other, .row = product->n, .col = 1 };
    if (mode == CLAMPED)
        posts[job->post_count++] = (sgemm_post){ .fn = SGEMM_CLIP, .alpha = -0.5f, .beta = 0.75f };
    if (mode == RESIDUAL || mode == GATED)
        posts[job->post_count++] = (sgemm_post){ .fn = SGEMM_RELU, .alpha = mode == GATED ? 0.25f : 0 };
    if (mode == GATED)
        posts[job->post_count++] =
            (sgemm_post){ .fn = SGEMM_MUL, .other = product->other, .row = product->n, .col = 1 };
}

static double expected(const struct product *product, int mode, int64_t i, int64_t j)
{
    double sum = 0;

    for (int64_t k = 0; k < product->k; k++)
        sum += (double)product->a[i * product->a_row + k] * product->weights[j * product->k + k];
    sum += mode == BIAS || mode >= ONTO_AND_BIAS ? product->bias[j] : 0.0;
    sum += mode == ONTO || mode == ONTO_AND_BIAS ? product->c[i * product->c_row + j] : 0.0;
    sum += mode == RESIDUAL || mode == CLAMPED ? product->other[i * product->n + j] : 0.0;
    if (mode == RESIDUAL)
        return sum < 0 ? 0 : sum;
    if (mode == CLAMPED)
        return sum < -0.5 ? -0.5 : sum > 0.75 ? 0.75 : sum;
    return mode == GATED ? (sum < 0 ? 0.25 * sum : sum) * product->other[i * product->n + j] : sum;
}

/* Runs the units from the last to the first, alternating between two workers. The caller frees the result. */
static float *run(const struct product *product, int mode)
{
    sgemm_post posts[4];
    sgemm_job job = { .kernel = sgemm_kernel_best(),
                      .m = product->m,
                      .n = product->n,
                      .k = product->k,
                      .a = product->a,
                      .a_row = product->a_row,
                      .b = product->pack,
                      .c_row = product->c_row };
    const size_t bytes = (size_t)(product->m * product->c_row) * sizeof(float);
    float *scratch = malloc((size_t)(2 * pairs_scratch_floats(&job)) * sizeof *scratch);
    int turn = 0;

    set_epilogue(product, mode, &job, posts);
    job.c = malloc(bytes);
    assert_non_null(job.c);
    assert_non_null(scratch);
    memcpy(job.c, product->c, bytes);
    pairs_start(&job, scratch, 2);
    for (int64_t u = pairs_units(&job); u > 0; u -= 3, turn ^= 1)
        pairs_run(&job, scratch + turn * pairs_scratch_floats(&job), u > 3 ? u - 3 : 0, u);
    free(scratch);
    return job.c;
}

static void check(const struct product *product, int mode)
{
    float *c = run(product, mode);

    for (int64_t i = 0; i < product->m; i++)
        for (int64_t j = 0; j < product->c_row; j++) {
            const float got = c[i * product->c_row + j];
            double want;

            if (j >= product->n) { /* not an element of the result */
                assert_true(got == product->c[i * product->c_row + j]);
                continue;
            }
            want = expected(product, mode, i, j);
            if (!(fabs(got - want) <= 1e-6 * (sqrt((double)product->k) + fabs(want)) + 1e-6))
                fail_msg("%lld x %lld x %lld, mode %d: [%lld, %lld] is %g, not %g", (long long)product->m,
                         (long long)product->n, (long long)product->k, mode, (long long)i, (long long)j, (double)got,
                         want);
        }
    free(c);
}

static void sizes(void **state)
{
    static const int64_t ms[] = { 1, 4, 5, 6, 11, 165 }, ns[] = { 1, 15, 16, 17, 33, 48, 63, 64, 65, 130, 200 },
                         ks[] = { 1, 2, 3, 17, 64, 385, 1031 };

    (void)state;
    if (pairs_of_cpu() == NULL)
        skip();
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
        for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
            for (size_t k = 0; k < sizeof ks / sizeof *ks; k++) {
                struct product product = { .m = ms[i], .n = ns[j], .k = ks[k] };

                setup(&product);
                for (int mode = 0; mode < MODES; mode++)
                    if (mode == PLAIN || product.m < 100 || product.k == 64)
                        check(&product, mode);
                teardown(&product);
            }
}

/* Weights of a convolution: k counts taps of the window, each with all channels. */
static void windows(void **state)
{
    enum { OUT = 70, IN = 37, PLACES = 6 };
    static const int64_t dims[] = { OUT, IN, 2, 3 }, strides[] = { IN * PLACES, PLACES, 3, 1 };
    struct product product = { .m = 7, .n = OUT, .k = IN * PLACES };
    float *lies;
    memory_desc plain, md;

    (void)state;
    if (pairs_of_cpu() == NULL)
        skip();
    setup(&product);
    lies = fill(OUT * IN * PLACES, 8);
    for (int64_t o = 0; o < OUT; o++)
        for (int64_t c = 0; c < IN; c++)
            for (int64_t t = 0; t < PLACES; t++)
                product.weights[o * product.k + t * IN + c] = lies[(o * IN + c) * PLACES + t];
    memory_desc_strides(&plain, 4, dims, strides);
    pairs_layout(product.k, product.n, &md);
    assert_true(pairs_pack_weights(&provider, &plain, lies, &md, product.pack));
    check(&product, BIAS);
    free(lies);
    teardown(&product);
}

/* ------------------------------------------------------------------ numerical accuracy */

/* Returns 2^n for a random n in [-most, most]. */
static float power(uint64_t *seed, int most)
{
    return ldexpf(1, (int)(noise(seed) * (float)most));
}

/* Fills a product with values for which a plain sum of (a + b)(c + d) loses all digits: rows of other magnitudes than
 * columns, rows far from zero, magnitudes that differ between rows and between columns, a few elements that are larger
 * than all others together. */
static void fill_ill_conditioned(struct product *product, int kind)
{
    uint64_t seed = (uint64_t)kind + 77;

    for (int64_t i = 0; i < product->m; i++) {
        const float size = kind == 3 ? power(&seed, 30) : kind == 0 ? 1e6f : 1;

        for (int64_t k = 0; k < product->k; k++) {
            float *input = &product->a[i * product->a_row + k];

            *input = kind == 1 ? *input + 100 : kind == 2 ? fmaxf(*input, 0) : *input * size;
            if (kind == 4 && k % 97 == 5)
                *input *= 1000;
            if (kind == 5)
                *input = 3; /* a constant row */
        }
    }
    for (int64_t j = 0; j < product->n; j++) {
        const float size = kind == 3 ? power(&seed, 30) : kind == 0 ? 1e-6f : 1;

        for (int64_t k = 0; k < product->k; k++)
            product->weights[j * product->k + k] *= kind == 4 && k % 89 == 7 ? 1000 : size;
    }
    pack(product, false);
}

/* The error relative to the norms of row and column, which bound the error of a plain sum. */
static void exact(void **state)
{
    (void)state;
    if (pairs_of_cpu() == NULL)
        skip();
    for (int kind = 0; kind < 6; kind++) {
        struct product product = { .m = 23, .n = 70, .k = 1500 };
        double worst = 0;
        float *c;

        setup(&product);
        fill_ill_conditioned(&product, kind);
        c = run(&product, PLAIN);
        for (int64_t i = 0; i < product.m; i++)
            for (int64_t j = 0; j < product.n; j++) {
                double rows = 0, columns = 0, off = fabs(c[i * product.c_row + j] - expected(&product, PLAIN, i, j));

                for (int64_t k = 0; k < product.k; k++) {
                    rows += (double)product.a[i * product.a_row + k] * product.a[i * product.a_row + k];
                    columns += (double)product.weights[j * product.k + k] * product.weights[j * product.k + k];
                }
                worst = fmax(worst, off / sqrt(rows * columns));
            }
        if (!(worst <= 2e-7))
            fail_msg("kind %d: off by %g", kind, worst);
        free(c);
        teardown(&product);
    }
}

/* Rows of normal floats whose squares underflow are not treated as zero rows. */
static void small_rows(void **state)
{
    static const float sizes[] = { 1e-15f, 1e-20f, 1e-25f, 1e-30f, 1e-35f };

    (void)state;
    if (pairs_of_cpu() == NULL)
        skip();
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        struct product product = { .m = 12, .n = 70, .k = 300 };
        float *c;

        setup(&product);
        for (int64_t k = 0; k < product.k; k++)
            product.a[4 * product.a_row + k] *= sizes[n];
        pack(&product, false);
        c = run(&product, PLAIN);
        for (int64_t j = 0; j < product.n; j++) {
            const double got = c[4 * product.c_row + j], want = expected(&product, PLAIN, 4, j);
            double terms = 0;

            for (int64_t k = 0; k < product.k; k++)
                terms += fabs((double)product.a[4 * product.a_row + k] * product.weights[j * product.k + k]);
            if (!(fabs(got - want) <= 1e-6 * terms + 1e-42))
                fail_msg("%g: [4, %lld] is %g, not %g", (double)sizes[n], (long long)j, got, want);
        }
        free(c);
        teardown(&product);
    }
}

/* Rows and columns with NaN or infinity, or whose squares overflow or underflow, are summed directly; others are not
 * affected. */
static void not_finite(void **state)
{
    static const float odd[] = { NAN, INFINITY, -INFINITY, 1e30f, 1e-30f, 0 };

    (void)state;
    if (pairs_of_cpu() == NULL)
        skip();
    for (size_t n = 0; n < sizeof odd / sizeof *odd; n++)
        for (int side = 0; side < 2; side++) {
            struct product product = { .m = 12, .n = 130, .k = 40 };
            float *c;

            setup(&product);
            for (int64_t k = 0; k < product.k; k++)
                if (!(fabsf(odd[n]) > 1) || isfinite(odd[n]) || k == 11)
                    (side == 0 ? product.a + 4 * product.a_row : product.weights + 70 * product.k)[k] *=
                        isnan(odd[n]) && k != 3 ? 1 : odd[n];
            pack(&product, false);
            for (int mode = 0; mode < MODES; mode++) {
                c = run(&product, mode);
                for (int64_t i = 0; i < product.m; i++)
                    for (int64_t j = 0; j < product.n; j++) {
                        const double got = c[i * product.c_row + j], want = expected(&product, mode, i, j);
                        const double size = fabsf(odd[n]) > 1 && isfinite(odd[n]) ? 1e25 : 1e-5;
                        const bool touched = side == 0 ? i == 4 : j == 70;

                        if (isnan(want))
                            assert_true(isnan(got));
                        else if (isfinite(want) && !(fabs(got - want) <= (touched ? size : 1e-5)))
                            fail_msg("%g on side %d, mode %d: [%lld, %lld] is %g, not %g", (double)odd[n], side, mode,
                                     (long long)i, (long long)j, got, want);
                        else if (isinf(want))
                            assert_true(got == want);
                    }
                free(c);
            }
            teardown(&product);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sizes), cmocka_unit_test(windows), cmocka_unit_test(exact),
                                        cmocka_unit_test(small_rows), cmocka_unit_test(not_finite) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
