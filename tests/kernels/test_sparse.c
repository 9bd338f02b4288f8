/* Products by matrices with zeros in blocks: as sums in double have them, for rows and columns of any number, with what
 * is behind a product; infinity and NaN meet zeros as in a dense product. */
#include "cmocka_all.h"
#include "sparse.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t seed = 5;
static float dice(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / 8388608.0F - 1;
}

/* [k, n], of whose blocks of 1 x wide so many in ten are zero. */
static float *matrix(int64_t k, int64_t n, int64_t wide, int zeros)
{
    float *w = malloc((size_t)(k * n) * sizeof *w);

    for (int64_t p = 0; p < k; p++)
        for (int64_t j = 0; j < n; j += wide) {
            const bool is_zero = (dice() + 1) * 5 < (float)zeros;

            for (int64_t i = j; i < n && i < j + wide; i++)
                w[p * n + i] = is_zero ? 0 : dice();
        }
    return w;
}

static void multiply_and_compare(int64_t m, int64_t n, int64_t k, bool turned, float odd)
{
    float *lying = matrix(k, n, SP_WIDTH, 7), *w = malloc((size_t)(k * n) * sizeof *w);
    float *a = malloc((size_t)(m * (k + 3)) * sizeof *a), *c = malloc((size_t)(m * (n + 5)) * sizeof *c);
    float *bias = malloc((size_t)n * sizeof *bias), *pack, *scratch;
    const sp_weights weights = { w, k, n, turned ? 1 : n, turned ? k : 1 };
    const sg_post posts[] = { { .fn = SG_LINEAR, .alpha = 2, .beta = 1 } };
    sg_job job = { .kernel = sg_kernel_best(), .m = m, .n = n, .k = k, .a = a, .a_row = k + 3, .bias = bias, .c = c,
                   .c_row = n + 5, .posts = posts, .post_count = 1 };
    int64_t count;

    for (int64_t p = 0; p < k; p++)
        for (int64_t j = 0; j < n; j++)
            w[turned ? j * k + p : p * n + j] = lying[p * n + j];
    for (int64_t i = 0; i < m * (k + 3); i++)
        a[i] = dice();
    a[(m - 1) * (k + 3) + k / 2] = odd;
    for (int64_t j = 0; j < n; j++)
        bias[j] = dice();
    for (int64_t i = 0; i < m * (n + 5); i++)
        c[i] = -77;
    count = sparse_count(&weights, 1);
    assert_true(count >= 0 && count <= k * ((n + SP_WIDTH - 1) / SP_WIDTH));
    pack = aligned_alloc(64, ((size_t)sparse_pack_floats(&weights, count) * sizeof *pack + 63) / 64 * 64);
    assert_true(sparse_pack(&weights, count, pack));
    job.b = pack;
    scratch = malloc((size_t)sparse_scratch_floats(&job) * sizeof *scratch);
    for (int64_t u = sparse_units(&job); u-- > 0;) /* in any order */
        sparse_run(&job, scratch, u, u + 1);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            const float got = c[i * (n + 5) + j];
            double sum = bias[j];

            for (int64_t p = 0; p < k; p++)
                sum += (double)a[i * (k + 3) + p] * lying[p * n + j];
            sum = 2 * sum + 1;
            if (isnan(sum) || isinf(sum))
                assert_true(isnan(sum) ? isnan(got) : (double)got == sum);
            else
                assert_true(fabs((double)got - sum) < 1e-5 * (double)k);
        }
        for (int64_t j = n; j < n + 5 && i + 1 < m; j++)
            assert_true(c[i * (n + 5) + j] == -77);
    }
    free(scratch);
    free(pack);
    free(bias);
    free(c);
    free(a);
    free(w);
    free(lying);
}

static void products_of_every_size(void **state)
{
    static const int64_t rows[] = { 1, 2, 4, 7, 8, 9, 23, 24, 25, 48, 61 };

    (void)state;
    if (sparse_of_cpu() == NULL)
        skip();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        multiply_and_compare(rows[i], 64, 40, false, 0.5F);
        multiply_and_compare(rows[i], 150, 33, true, 0.5F);
        multiply_and_compare(rows[i], 5, 70, false, 0.5F);
        multiply_and_compare(rows[i], 80, 600, false, 0.5F);
    }
}

static void what_is_not_finite_meets_zeros(void **state)
{
    (void)state;
    if (sparse_of_cpu() == NULL)
        skip();
    multiply_and_compare(1, 96, 40, false, INFINITY);
    multiply_and_compare(30, 96, 40, true, -INFINITY);
    multiply_and_compare(30, 96, 40, false, NAN);
}

static void zeros_are_found(void **state)
{
    enum { K = 256, N = 512 };
    (void)state;
    for (int wide = 16; wide <= 64; wide *= 4)
        for (int zeros = 0; zeros <= 10; zeros += 5) {
            float *w = matrix(K, N, wide, zeros);
            const sp_weights weights = { w, K, N, N, 1 };
            const double share = sparse_share(&weights);
            const int64_t count = sparse_count(&weights, 0.8);

            assert_true(fabs(share - (1 - zeros / 10.0)) < 0.1);
            assert_true(zeros == 0 ? count == -1 : fabs((double)count / (K * N / 16.0) - (1 - zeros / 10.0)) < 0.05);
            free(w);
        }
    {
        float *w = matrix(K, N, 1, 5); /* single zeros are none */
        const sp_weights weights = { w, K, N, N, 1 };

        assert_true(sparse_share(&weights) == 1);
        free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(products_of_every_size),
                                        cmocka_unit_test(what_is_not_finite_meets_zeros),
                                        cmocka_unit_test(zeros_are_found) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
