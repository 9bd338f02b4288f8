/* Matrix multiplications with block-sparse weights, compared with sums in double, for any number of rows and columns,
 * with an epilogue. Infinity and NaN times zero give NaN as in a dense multiplication. */
#include "cmocka_all.h"
#include "random.h"
#include "cpu/sparse/sparse.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 5;

/* A matrix [k, n] in which about `zeros` of ten blocks of 1 x wide are zero. */
static float *matrix(int64_t k, int64_t n, int64_t wide, int zeros)
{
    float *weights = malloc((size_t)(k * n) * sizeof *weights);

    for (int64_t p = 0; p < k; p++)
        for (int64_t j = 0; j < n; j += wide) {
            const bool is_zero = (random_signed(&seed) + 1) * 5 < (float)zeros;

            for (int64_t i = j; i < n && i < j + wide; i++)
                weights[p * n + i] = is_zero ? 0 : random_signed(&seed);
        }
    return weights;
}

/* Packs the weights and sets them in the job. The caller frees the result. */
static float *pack_of(const sparse_packed_weights *weights, sgemm_job *job)
{
    const int64_t count = sparse_count(weights, 1);
    const int64_t floats = sparse_pack_floats(weights, count);
    float *pack = aligned_alloc(64, ((size_t)floats * sizeof *pack + 63) / 64 * 64);

    assert_true(count >= 0 && count <= weights->k * ((weights->n + SPARSE_WIDTH - 1) / SPARSE_WIDTH));
    assert_true(sparse_pack(weights, count, pack));
    job->b = pack;
    return pack;
}

/* special: the value of an element in the last row of A, and of a weight that the first row of A multiplies by 0. */
static void multiply_and_compare(int64_t m, int64_t n, int64_t k, bool transposed, float special)
{
    float *plain = matrix(k, n, SPARSE_WIDTH, 7), *w = malloc((size_t)(k * n) * sizeof *w);
    float *a = malloc((size_t)(m * (k + 3)) * sizeof *a), *c = malloc((size_t)(m * (n + 5)) * sizeof *c);
    float *bias = malloc((size_t)n * sizeof *bias), *pack, *scratch;
    const sparse_packed_weights weights = { w, k, n, transposed ? 1 : n, transposed ? k : 1 };
    const sgemm_post posts[] = { { .fn = SGEMM_LINEAR, .alpha = 2, .beta = 1 } };
    sgemm_job job = { .kernel = sgemm_kernel_best() != NULL ? sgemm_kernel_best() : &products_c,
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

    plain[k / 3 * n + n / 2] = special;
    for (int64_t p = 0; p < k; p++)
        for (int64_t j = 0; j < n; j++)
            w[transposed ? j * k + p : p * n + j] = plain[p * n + j];
    for (int64_t i = 0; i < m * (k + 3); i++)
        a[i] = random_signed(&seed);
    a[k / 3] = 0;
    a[(m - 1) * (k + 3) + k / 2] = special;
    for (int64_t j = 0; j < n; j++)
        bias[j] = random_signed(&seed);
    for (int64_t i = 0; i < m * (n + 5); i++)
        c[i] = -77;
    pack = pack_of(&weights, &job);
    scratch = malloc((size_t)sparse_scratch_floats(&job) * sizeof *scratch);
    for (int64_t u = sparse_units(&job); u-- > 0;) /* the order of units does not matter */
        sparse_run(&job, scratch, u, u + 1);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            const float got = c[i * (n + 5) + j];
            double sum = bias[j];

            for (int64_t p = 0; p < k; p++)
                sum += (double)a[i * (k + 3) + p] * plain[p * n + j];
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
    free(plain);
}

/* The non-zero values and their indices in the flattened matrix. The caller frees both. */
static sparse_entries entries_of(const float *weights, int64_t k, int64_t n, bool row_major)
{
    float *values = malloc((size_t)(k * n) * sizeof *values);
    int64_t *places = malloc((size_t)(k * n) * sizeof *places);
    sparse_entries entries = { values, places, 0, k, n, row_major };

    for (int64_t i = 0; i < k * n; i++)
        if (weights[i] != 0) {
            values[entries.count] = weights[i];
            places[entries.count++] = i;
        }
    return entries;
}

static void free_entries(const sparse_entries *entries)
{
    free((void *)(uintptr_t)entries->values);
    free((void *)(uintptr_t)entries->places);
}

static void packs_of_entries_are_those_of_matrices(void **state)
{
    static const int64_t sizes[][2] = { { 64, 512 }, { 333, 205 }, { 512, 16 }, { 700, 7 }, { 1, 5000 }, { 300, 31 } };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        const int64_t k = sizes[i / 2][0], n = sizes[i / 2][1];
        const bool row_major = i % 2 == 0;
        float *plain = matrix(k, n, SPARSE_WIDTH, 7), *w = malloc((size_t)(k * n) * sizeof *w), *back;
        const sparse_packed_weights weights = { w, k, n, row_major ? n : 1, row_major ? 1 : k };
        float *pack, *other;
        int64_t count;
        sparse_entries entries;

        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++)
                w[row_major ? p * n + j : j * k + p] = plain[p * n + j];
        entries = entries_of(w, k, n, row_major);
        count = sparse_count(&weights, 1);
        assert_int_equal(count, sparse_entries_count(&entries, 1));
        assert_int_equal(sparse_entries_count(&entries, 0.01), -1);
        assert_true(sparse_share(&weights) == sparse_entries_share(&entries));
        pack = calloc((size_t)sparse_pack_floats(&weights, count), sizeof *pack);
        other = calloc((size_t)sparse_pack_floats(&weights, count), sizeof *other);
        back = malloc((size_t)(k * n) * sizeof *back);
        assert_true(sparse_pack(&weights, count, pack));
        assert_true(sparse_entries_pack(&entries, count, other));
        assert_memory_equal(pack, other, (size_t)sparse_pack_floats(&weights, count) * sizeof *pack);
        free(other);
        other = calloc((size_t)sparse_pack_floats(&weights, count + 1), sizeof *other);
        assert_false(sparse_entries_pack(&entries, count + 1, other));
        assert_true(sparse_entries_expand(&entries, back));
        assert_memory_equal(w, back, (size_t)(k * n) * sizeof *w);
        free_entries(&entries);
        free(pack);
        free(other);
        free(back);
        free(w);
        free(plain);
    }
}

static void unordered_and_outside_entries_are_refused(void **state)
{
    enum { K = 64, N = 256 };
    float *weights = matrix(K, N, SPARSE_WIDTH, 5), *target = malloc(4 * K * N * sizeof *target);

    (void)state;
    for (int i = 0; i < 6; i++) {
        sparse_entries entries = entries_of(weights, K, N, i % 2 == 0);
        int64_t *places = (void *)(uintptr_t)entries.places;
        const int64_t count = sparse_entries_count(&entries, 1);

        if (i / 2 == 0)
            places[entries.count - 1] = K * N;
        else if (i / 2 == 1)
            places[0] = -1;
        else
            places[entries.count / 2] = places[entries.count / 2 - 1];
        assert_true(count > 0);
        assert_int_equal(sparse_entries_count(&entries, 1), -1);
        assert_false(sparse_entries_pack(&entries, count, target));
        assert_false(sparse_entries_expand(&entries, target));
        (void)sparse_entries_share(&entries);
        free_entries(&entries);
    }
    free(target);
    free(weights);
}

static void products_of_every_size(void **state)
{
    static const int64_t rows[] = { 1, 2, 4, 7, 8, 9, 23, 24, 25, 48, 61 };

    (void)state;
    for (size_t i = 0; sparse_of_cpu() != NULL && i < sizeof rows / sizeof rows[0]; i++) {
        multiply_and_compare(rows[i], 64, 40, false, 0.5F);
        multiply_and_compare(rows[i], 150, 33, true, 0.5F);
        multiply_and_compare(rows[i], 5, 70, false, 0.5F);
        multiply_and_compare(rows[i], 80, 600, false, 0.5F);
    }
}

static void nonfinite_values_times_zeros(void **state)
{
    (void)state;
    if (sparse_of_cpu() == NULL)
        skip();
    multiply_and_compare(1, 96, 40, false, INFINITY);
    multiply_and_compare(3, 90, 43, true, INFINITY);
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
            const sparse_packed_weights weights = { w, K, N, N, 1 };
            const double share = sparse_share(&weights);
            const int64_t count = sparse_count(&weights, 0.8);

            assert_true(fabs(share - (1 - zeros / 10.0)) < 0.1);
            assert_true(zeros == 0 ? count == -1 : fabs((double)count / (K * N / 16.0) - (1 - zeros / 10.0)) < 0.05);
            free(w);
        }
    {
        float *w = matrix(K, N, 1, 5); /* single zeros do not make zero blocks */
        const sparse_packed_weights weights = { w, K, N, N, 1 };

        assert_true(sparse_share(&weights) == 1);
        free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(products_of_every_size),
                                        cmocka_unit_test(nonfinite_values_times_zeros),
                                        cmocka_unit_test(packs_of_entries_are_those_of_matrices),
                                        cmocka_unit_test(unordered_and_outside_entries_are_refused),
                                        cmocka_unit_test(zeros_are_found) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
