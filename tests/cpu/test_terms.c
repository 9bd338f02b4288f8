/* GEMM of floats by their terms (terms.h), over tiles in plain C and, if the CPU has them, over those of AMX, which
 * give the same bits: sums in double, sizes around those of tiles, units in any order, numbers without terms or with
 * fewer terms, and the error beside that of the kernels of sgemm.h. */
#include "cpu/matrix/terms.h"
#include "cmocka_all.h"
#include "random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 1;

struct product {
    sgemm_job job; /* by terms */
    terms_matrix matrix;
    float *a, *weights, *pack, *bias, *other, *c, *scratch;
    sgemm_post post;
};

static float *some(int64_t count)
{
    float *x = aligned_alloc(64, (size_t)(count + 16) / 16 * 64);

    assert_non_null(x);
    for (int64_t i = 0; i < count; i++)
        x[i] = random_signed(&seed);
    return x;
}

static void setup(struct product *p, int64_t m, int64_t n, int64_t k, bool strict)
{
    *p = (struct product){ .a = some(m * (k + 3)), .weights = some(k * n), .bias = some(n), .other = some(m * n) };
    p->matrix =
        (terms_matrix){ .data = p->weights, .k = k, .n = n, .n_step = 1, .inner = k, .inner_step = n, .columns = 1 };
    p->c = some(m * (n + 5));
    p->pack = some(terms_pack_floats(k, n, TERMS));
    p->post = (sgemm_post){ .fn = SGEMM_MUL, .other = p->other, .row = n, .col = 1 };
    p->job = (sgemm_job){ .kernel = sgemm_kernel_best(),
                          .m = m,
                          .n = n,
                          .k = k,
                          .chain = sgemm_chain(k, strict),
                          .a = p->a,
                          .a_row = k + 3,
                          .b = p->pack,
                          .b_terms = TERMS,
                          .c = p->c,
                          .c_row = n + 5 };
    terms_share(&p->job, 3);
    p->scratch = some(terms_scratch_floats(&p->job));
}

static void teardown(struct product *p)
{
    free(p->a), free(p->weights), free(p->pack), free(p->bias), free(p->other), free(p->c), free(p->scratch);
}

static float keep_bits(float x, uint32_t kept)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    bits &= kept;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Packs, and multiplies the units in the order of a random start. */
static void run(struct product *p, const terms_set *set)
{
    const int64_t panels = terms_panels(p->job.n), units = terms_units(&p->job),
                  start = random_below(&seed, (uint32_t)units);

    terms_pack(&p->matrix, p->job.b_terms, panels / 2, panels, p->pack);
    terms_pack(&p->matrix, p->job.b_terms, 0, panels / 2, p->pack);
    terms_run(set, &p->job, p->scratch, start, units);
    terms_run(set, &p->job, p->scratch, 0, start);
}

/* The sum in double, and the sum of magnitudes. */
static double sum_of(const struct product *p, int64_t i, int64_t j, double *size)
{
    double sum = 0;

    *size = 0;
    for (int64_t k = 0; k < p->job.k; k++) {
        const double term = (double)p->a[i * p->job.a_row + k] * (double)p->weights[k * p->job.n + j];

        sum += term;
        *size += fabs(term);
    }
    return sum;
}

/* The largest and the mean error, relative to the magnitudes of the terms. */
static double error_of(const struct product *p, double *mean)
{
    double most = 0, total = 0;

    for (int64_t i = 0; i < p->job.m; i++)
        for (int64_t j = 0; j < p->job.n; j++) {
            double size;
            const double error = fabs((double)p->c[i * p->job.c_row + j] - sum_of(p, i, j, &size)) / size;

            most = fmax(most, error);
            total += error;
        }
    *mean = total / (double)(p->job.m * p->job.n);
    return most;
}

/* The same by sgemm.h. */
static void run_floats(struct product *p, float *c)
{
    sgemm_job job = p->job;
    float *panels = some((job.n + 63) / 64 * 64 * job.k);

    for (int64_t k = 0; k < job.k; k++)
        for (int64_t j = 0; j < job.n; j++)
            panels[j / 64 * 64 * job.k + k * 64 + j % 64] = p->weights[k * job.n + j];
    job.b = panels;
    job.width = job.b_step = 64;
    job.b_panel = 64 * job.k;
    job.c = c;
    sgemm_run(&job, 0, sgemm_units(&job));
    free(panels);
}

static void sizes(void **state)
{
    static const int64_t shapes[][3] = { { 1, 1, 1 },    { 2, 33, 31 },   { 31, 32, 33 },  { 33, 17, 200 },
                                         { 32, 64, 64 }, { 65, 40, 100 }, { 300, 3, 70 },  { 5, 70, 800 },
                                         { 64, 32, 32 }, { 40, 16, 193 }, { 290, 33, 40 }, { 3, 5, 1600 } };

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int way = 0; way < 3; way++) { /* plain; bias and an operation; onto C */
            const int64_t m = shapes[i][0], n = shapes[i][1];
            struct product p;
            float *before, *bits;

            setup(&p, m, n, shapes[i][2], i % 2 != 0);
            p.job.bias = way == 1 ? p.bias : NULL;
            p.job.posts = &p.post;
            p.job.post_count = way == 1;
            p.job.add = way == 2;
            before = some(m * p.job.c_row);
            memcpy(before, p.c, (size_t)(m * p.job.c_row) * sizeof *before);
            run(&p, &terms_c);
            for (int64_t r = 0; r < m; r++)
                for (int64_t j = 0; j < p.job.c_row; j++) {
                    const float got = p.c[r * p.job.c_row + j];
                    double size, want;

                    if (j >= n) { /* between the rows */
                        assert_true(got == before[r * p.job.c_row + j]);
                        continue;
                    }
                    want = sum_of(&p, r, j, &size);
                    want = way == 1   ? (want + (double)p.bias[j]) * (double)p.other[r * n + j]
                           : way == 2 ? want + (double)before[r * p.job.c_row + j]
                                      : want;
                    if (!(fabs((double)got - want) <= 2e-6 * (size + 1)))
                        fail_msg("%lld x %lld x %lld, way %d: [%lld, %lld] is %.9g, not %.9g", (long long)m,
                                 (long long)n, (long long)p.job.k, way, (long long)r, (long long)j, (double)got, want);
                }
            if (terms_of_cpu() != NULL) { /* AMX */
                bits = some(m * p.job.c_row);
                memcpy(bits, p.c, (size_t)(m * p.job.c_row) * sizeof *bits);
                memcpy(p.c, before, (size_t)(m * p.job.c_row) * sizeof *bits);
                run(&p, terms_of_cpu());
                assert_memory_equal(bits, p.c, (size_t)(m * p.job.c_row) * sizeof *bits);
                free(bits);
            }
            free(before);
            teardown(&p);
        }
}

/* Weights of a convolution, [out][in][rows][columns]: k runs over rows, columns and channels. */
static void taps(void **state)
{
    enum { OUT = 7, IN = 5, ROWS = 2, COLUMNS = 3, K = IN * ROWS * COLUMNS };
    struct product p;

    (void)state;
    setup(&p, 4, OUT, K, true);
    p.matrix = (terms_matrix){ .data = p.weights,
                               .k = K,
                               .n = OUT,
                               .n_step = K,
                               .inner = IN,
                               .inner_step = ROWS * COLUMNS,
                               .columns = COLUMNS,
                               .column_step = 1,
                               .row_step = COLUMNS };
    run(&p, &terms_c);
    for (int64_t r = 0; r < p.job.m; r++)
        for (int64_t out = 0; out < OUT; out++) {
            double sum = 0;

            for (int64_t k = 0; k < K; k++)
                sum +=
                    (double)p.a[r * p.job.a_row + k] * (double)p.weights[(out * IN + k % IN) * ROWS * COLUMNS + k / IN];
            assert_true(fabs((double)p.c[r * p.job.c_row + out] - sum) < 1e-5);
        }
    teardown(&p);
}

/* Compared with the error of sgemm.h, six products have a similar error and three products at most 16 times the error,
 * also if few terms are much larger than the others, in rows, in columns, or in both at the same k. Sums of whole
 * numbers are exact. */
static void errors(void **state)
{
    static const char *const kinds[] = { "noise", "positive",    "large row element", "large weight",
                                         "both",  "heavy tails", "mostly zeros",      "whole numbers" };
    const terms_set *set = terms_of_cpu() != NULL ? terms_of_cpu() : &terms_c;

    (void)state;
    for (uint32_t kind = 0; kind < random_rounds(8); kind++)
        for (int strict = 0; strict < 2; strict++)
            for (int64_t k = 100; k <= 900; k += 200) {
                double most, mean, float_most, float_mean;
                struct product p;

                setup(&p, 34, 33, k, false);
                for (int64_t i = 0; i < p.job.m * p.job.a_row; i++) {
                    float *x = &p.a[i];

                    *x = kind == 1 ? fabsf(*x) + 0.1f : kind == 5 ? expf(8 * *x) - 1 : *x;
                    *x *= (kind == 2 || kind == 4) && i % p.job.a_row == 7 ? 300 : 1;
                    *x = kind == 6 && random_below(&seed, 20) != 0 ? 0 : *x;
                }
                for (int64_t i = 0; i < k * p.job.n; i++)
                    p.weights[i] *= (kind == 3 || kind == 4) && i / p.job.n == 7 ? 300 : 1;
                for (int64_t i = 0; kind == 7 && i < p.job.m * p.job.a_row; i++)
                    p.a[i] = rintf(p.a[i] * 1000);
                for (int64_t i = 0; kind == 7 && i < k * p.job.n; i++)
                    p.weights[i] = rintf(p.weights[i] * 100);
                run_floats(&p, p.c);
                float_most = error_of(&p, &float_mean);
                p.job.chain = sgemm_chain(k, strict != 0);
                run(&p, set);
                most = error_of(&p, &mean);
                if (!(kind == 7     ? most == 0
                      : strict != 0 ? mean <= 2.5 * float_mean && most <= 4 * float_most
                                    : most <= 16 * float_most))
                    fail_msg("%s, %lld terms, strict %d: error %.2g, mean %.2g; float sums %.2g, mean %.2g",
                             kinds[kind], (long long)k, strict, most, mean, float_most, float_mean);
                teardown(&p);
            }
}

/* Rows and columns with numbers that have no terms are multiplied as floats; other strips keep their bits. */
static void extremes(void **state)
{
    static const float numbers[] = { NAN, INFINITY, -INFINITY, 3e38f, 1e30f, 1e-30f, 1e-38f, 1e-42f };
    enum { M = 70, N = 35, K = 40, ROW = 33, COLUMN = 34 };

    (void)state;
    for (size_t i = 0; i < random_rounds(2 * sizeof numbers / sizeof numbers[0]); i++) {
        const float number = numbers[i / 2];
        const bool in_weights = i % 2 != 0;
        struct product p;
        float *c;

        setup(&p, M, N, K, false);
        c = some(M * p.job.c_row);
        for (int64_t k = 0; k < K; k++) { /* small numbers: in the whole row or column */
            float *x = in_weights ? &p.weights[k * N + COLUMN] : &p.a[ROW * p.job.a_row + k];

            *x = k == 5 ? number : fabsf(number) < 1e-20f ? *x * number : *x;
        }
        run_floats(&p, c);
        run(&p, &terms_c);
        for (int64_t r = 0; r < M; r++)
            for (int64_t j = 0; j < N; j++) {
                const double got = (double)p.c[r * p.job.c_row + j], want = (double)c[r * p.job.c_row + j];
                double size;

                (void)sum_of(&p, r, j, &size);
                if (!(isnan(want) ? isnan(got) : isinf(want) ? got == want : fabs(got - want) <= 1e-6 * size + 1e-44))
                    fail_msg("%g in the %s: [%lld, %lld] is %g, not %g", (double)number,
                             in_weights ? "weights" : "rows", (long long)r, (long long)j, got, want);
            }
        free(c);
        teardown(&p);
    }
}

/* Floats that were converted from 16-bit types, in rows, weights or both: the sums are exact to the rounding of six
 * products, and packs of fewer terms give the same bits as those of three. Only one row of the second strip has all
 * 24 bits, so strips of one unit have different numbers of terms. */
static void fewer_terms(void **state)
{
    static const uint32_t kept[] = { 0xffff0000, 0xffffe000, UINT32_MAX }; /* bits of one, two and three terms */
    enum { M = 70, N = 70, K = 230 };

    (void)state;
    for (int way = 0; way < 2 * TERMS * TERMS; way++) {
        const int a_terms = 1 + way % TERMS, b_terms = 1 + way / TERMS % TERMS, strict = way / TERMS / TERMS;
        struct product p;
        double most, mean;
        float *c = some(M * (N + 5));

        setup(&p, M, N, K, strict != 0);
        for (int64_t i = 0; i < M * p.job.a_row; i++)
            p.a[i] = keep_bits(p.a[i], i / p.job.a_row == 40 ? UINT32_MAX : kept[a_terms - 1]);
        for (int64_t i = 0; i < K * N; i++)
            p.weights[i] = keep_bits(p.weights[i], kept[b_terms - 1]);
        run(&p, &terms_c);
        most = error_of(&p, &mean);
        /* The products that three leave out have an error of 3e-6 of each term. */
        if (!(mean <= (strict || a_terms + b_terms < 4 ? 2e-8 : 4e-7) && most <= (strict ? 2e-7 : 2e-6)))
            fail_msg("%d terms by %d, strict %d: error %.2g, mean %.2g", a_terms, b_terms, strict, most, mean);
        memcpy(c, p.c, (size_t)(M * p.job.c_row) * sizeof *c);
        for (int other = b_terms; other < TERMS; other++) {
            p.job.b_terms = other;
            run(&p, terms_of_cpu() != NULL ? terms_of_cpu() : &terms_c);
            assert_memory_equal(c, p.c, (size_t)(M * p.job.c_row) * sizeof *c);
        }
        free(c);
        teardown(&p);
    }
}

/* Weights of one term with numbers beyond the range of terms are multiplied as floats. */
static void wide_bfloat16(void **state)
{
    enum { M = 33, N = 40, K = 70 };
    struct product p;
    float *c = some(M * (N + 5));

    (void)state;
    setup(&p, M, N, K, false);
    for (int64_t i = 0; i < K * N; i++)
        p.weights[i] = keep_bits(p.weights[i] * (i % 7 == 0 ? 1e25f : 1), 0xffff0000);
    p.job.b_terms = 1;
    run_floats(&p, c);
    run(&p, &terms_c);
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            double size;

            (void)sum_of(&p, i, j, &size);
            assert_true(fabs((double)p.c[i * p.job.c_row + j] - (double)c[i * p.job.c_row + j]) <= 1e-6 * size);
        }
    free(c);
    teardown(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),    cmocka_unit_test(taps),        cmocka_unit_test(errors),
        cmocka_unit_test(extremes), cmocka_unit_test(fewer_terms), cmocka_unit_test(wide_bfloat16),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
