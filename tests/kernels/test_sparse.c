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
    sg_job job = { .kernel = sg_kernel_best(),
                   .m = m,
                   .n = n,
                   .k = k,
                   .a = a,
                   .a_row = k + 3,
                   .bias = bias,
                   .c = c,
                   .c_row = n + 5,
                   .posts = posts,
                   .post_count = 1 };
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

/* Values and their places in the rows one after the other; the caller frees both. */
static sp_entries entries_of(const float *w, int64_t k, int64_t n, bool upright)
{
    float *values = malloc((size_t)(k * n) * sizeof *values);
    int64_t *places = malloc((size_t)(k * n) * sizeof *places);
    sp_entries e = { values, places, 0, k, n, upright };

    for (int64_t i = 0; i < k * n; i++)
        if (w[i] != 0) {
            values[e.count] = w[i];
            places[e.count++] = i;
        }
    return e;
}

static void free_entries(const sp_entries *e)
{
    free((void *)(uintptr_t)e->values);
    free((void *)(uintptr_t)e->places);
}

static void packs_of_entries_are_those_of_matrices(void **state)
{
    static const int64_t sizes[][2] = { { 64, 512 }, { 333, 205 }, { 512, 16 }, { 700, 7 }, { 1, 5000 }, { 300, 31 } };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        const int64_t k = sizes[i / 2][0], n = sizes[i / 2][1];
        const bool upright = i % 2 == 0;
        float *lying = matrix(k, n, SP_WIDTH, 7), *w = malloc((size_t)(k * n) * sizeof *w), *back;
        const sp_weights weights = { w, k, n, upright ? n : 1, upright ? 1 : k };
        float *pack, *other;
        int64_t count;
        sp_entries e;

        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++)
                w[upright ? p * n + j : j * k + p] = lying[p * n + j];
        e = entries_of(w, k, n, upright);
        count = sparse_count(&weights, 1);
        assert_int_equal(count, sparse_entries_count(&e, 1));
        assert_int_equal(sparse_entries_count(&e, 0.01), -1);
        assert_true(sparse_share(&weights) == sparse_entries_share(&e));
        pack = calloc((size_t)sparse_pack_floats(&weights, count), sizeof *pack);
        other = calloc((size_t)sparse_pack_floats(&weights, count), sizeof *other);
        back = malloc((size_t)(k * n) * sizeof *back);
        assert_true(sparse_pack(&weights, count, pack));
        assert_true(sparse_entries_pack(&e, count, other));
        assert_memory_equal(pack, other, (size_t)sparse_pack_floats(&weights, count) * sizeof *pack);
        free(other);
        other = calloc((size_t)sparse_pack_floats(&weights, count + 1), sizeof *other);
        assert_false(sparse_entries_pack(&e, count + 1, other));
        assert_true(sparse_entries_expand(&e, back));
        assert_memory_equal(w, back, (size_t)(k * n) * sizeof *w);
        free_entries(&e);
        free(pack);
        free(other);
        free(back);
        free(w);
        free(lying);
    }
}

static void entries_out_of_order_or_place_are_refused(void **state)
{
    enum { K = 64, N = 256 };
    float *w = matrix(K, N, SP_WIDTH, 5), *target = malloc(4 * K * N * sizeof *target);

    (void)state;
    for (int i = 0; i < 6; i++) {
        sp_entries e = entries_of(w, K, N, i % 2 == 0);
        int64_t *places = (void *)(uintptr_t)e.places;
        const int64_t count = sparse_entries_count(&e, 1);

        if (i / 2 == 0)
            places[e.count - 1] = K * N;
        else if (i / 2 == 1)
            places[0] = -1;
        else
            places[e.count / 2] = places[e.count / 2 - 1];
        assert_true(count > 0);
        assert_int_equal(sparse_entries_count(&e, 1), -1);
        assert_false(sparse_entries_pack(&e, count, target));
        assert_false(sparse_entries_expand(&e, target));
        (void)sparse_entries_share(&e);
        free_entries(&e);
    }
    free(target);
    free(w);
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
                                        cmocka_unit_test(packs_of_entries_are_those_of_matrices),
                                        cmocka_unit_test(entries_out_of_order_or_place_are_refused),
                                        cmocka_unit_test(zeros_are_found) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
