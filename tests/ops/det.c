/* det.c - Det of matrices of every size up to one above those computed in groups: compared with LU decomposition in
 * long double with pivoting among the rows; the same bits alone and among others; singular matrices, NaN and empty
 * ones. */
#include "cpu/operators/operators.h"
#include "kernel_case.h"
#include "operators/tables.h"
#include "random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { MOST = 35, COUNT = 19 };

static uint64_t seed = 77;

/* The table of provider reference, or that of provider cpu, which has none in plain C. */
static const kit_table *table_of(bool fast)
{
    const kit_provider *provider = cpu_operators();

    for (uint32_t i = 0; fast && i < provider->table_count; i++)
        if (strcmp(provider->tables[i]->kernels[0].op_type, "Det") == 0)
            return provider->tables[i];
    return &operators_det;
}

static void run_det(bool fast, int64_t count, int64_t size, const double *matrices, double *dets)
{
    const int64_t dims[] = { count, size, size };
    struct guard in = guard_alloc((size_t)(count * size * size) * sizeof(double)),
                 out = guard_alloc((size_t)count * sizeof(double));
    static kernel_case c;

    if (count * size > 0)
        memcpy(in.data, matrices, (size_t)(count * size * size) * sizeof(double));
    c = (kernel_case){ .op_type = "Det", .since_version = 11, .threads = 2 };
    kernel_case_input(&c, INLAY_DOUBLE, 3, dims, in.data, false);
    kernel_case_output(&c, INLAY_DOUBLE, 1, dims, out.data);
    assert_int_equal(kernel_case_prepare(&c, table_of(fast)), INLAY_OK);
    assert_int_equal(kernel_case_run(&c), INLAY_OK);
    kernel_case_deinit(&c);
    memcpy(dets, out.data, (size_t)count * sizeof(double));
    guard_free(&in);
    guard_free(&out);
}

/* *bound: the product of the lengths of the rows, the largest determinant that they allow. */
static double by_rows(const double *matrix, int64_t size, double *bound)
{
    static long double rows[MOST][MOST];
    long double det = 1, largest = 1;

    for (int64_t i = 0; i < size; i++) {
        long double square = 0;
        for (int64_t j = 0; j < size; j++) {
            rows[i][j] = matrix[i * size + j];
            square += rows[i][j] * rows[i][j];
        }
        largest *= sqrtl(square);
    }
    *bound = (double)largest;
    for (int64_t k = 0; k < size; k++) {
        int64_t pivot = k;
        for (int64_t i = k; i < size; i++)
            pivot = fabsl(rows[i][k]) > fabsl(rows[pivot][k]) ? i : pivot;
        for (int64_t j = 0; j < size && pivot != k; j++) {
            const long double element = rows[k][j];
            rows[k][j] = rows[pivot][j];
            rows[pivot][j] = element;
        }
        det *= pivot != k ? -rows[k][k] : rows[k][k];
        if (rows[k][k] == 0)
            return 0;
        for (int64_t i = k + 1; i < size; i++) {
            const long double factor = rows[i][k] / rows[k][k];
            for (int64_t j = k; j < size; j++)
                rows[i][j] -= factor * rows[k][j];
        }
    }
    return (double)det;
}

/* Matrices of small integers, or of numbers of which many are 0; every fifth has two equal columns. */
static void draw(double *matrices, int64_t count, int64_t size)
{
    const bool sparse = random_between(&seed, 0, 2) == 0;

    for (int64_t i = 0; i < count * size * size; i++)
        matrices[i] = sparse ? (random_between(&seed, 0, 3) == 0 ? (double)random_signed(&seed) : 0)
                             : (double)random_between(&seed, -9, 9);
    for (int64_t m = 0; m < count && size > 1; m += 5)
        for (int64_t i = 0; i < size; i++)
            matrices[(m * size + i) * size + size - 1] = matrices[(m * size + i) * size];
}

static void matrices_of_integers(void **state)
{
    static double matrices[COUNT * MOST * MOST], dets[COUNT], alone;

    (void)state;
    for (int round = 0; round < 300; round++) {
        const int64_t size = round < 80 ? round % 40 % MOST : random_between(&seed, 1, 18),
                      count = random_between(&seed, 1, COUNT);
        const bool fast = (round & 1) != 0;

        draw(matrices, count, size);
        run_det(fast, count, size, matrices, dets);
        for (int64_t m = 0; m < count; m++) {
            double bound, want = by_rows(matrices + m * size * size, size, &bound);

            if (!(fabs(dets[m] - want) <= 1e-13 * bound))
                fail_msg("matrix %d of %d, %d rows: %.17g instead of %.17g", (int)m, (int)count, (int)size, dets[m],
                         want);
        }
        run_det(fast, 1, size, matrices + (count - 1) * size * size, &alone);
        assert_memory_equal(&alone, &dets[count - 1], sizeof alone);
    }
}

static void singular_empty_and_nan(void **state)
{
    static double matrices[COUNT * MOST * MOST], dets[COUNT];

    (void)state;
    for (int fast = 0; fast < 2; fast++)
        for (int64_t size = 0; size < MOST; size++) {
            memset(matrices, 0, sizeof matrices);
            for (int64_t i = 0; i < size; i++) {
                matrices[i * size + i] = 2;                             /* 0: the identity, doubled */
                matrices[(2 * size + i) * size + i] = i == 0 ? NAN : 1; /* 2: NaN; 1 is zero */
            }
            run_det(fast != 0, 3, size, matrices, dets);
            assert_true(dets[0] == ldexp(1, (int)size));
            assert_true(size == 0 ? dets[1] == 1 && dets[2] == 1 : dets[1] == 0 && isnan(dets[2]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(matrices_of_integers),
                                        cmocka_unit_test(singular_empty_and_nan) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
