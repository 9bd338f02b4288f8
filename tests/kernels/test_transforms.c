/* Discrete Fourier transforms (common/fft.h) compared with sums in long double: each length up to 300, and longer ones
 * with and without large prime factors. The inverse transform restores the numbers. */
#include "common/fft.h"
#include "random.h"
#include "cmocka_all.h"
#include <math.h>
#include <stdlib.h>

static double *doubles(size_t count)
{
    double *made = calloc(count + 1, sizeof *made);

    assert_non_null(made);
    return made;
}

/* The largest distance from the sums, as a part of the largest sum. */
static double distance(int64_t n, const double *numbers, const double *made)
{
    const long double turn = 2 * acosl(-1) / (long double)n;
    long double *const turns = calloc(2 * (size_t)n, sizeof *turns);
    double most = 0, far = 0;

    assert_non_null(turns);
    for (int64_t k = 0; k < n; k++) {
        turns[2 * k] = cosl(turn * (long double)k);
        turns[2 * k + 1] = -sinl(turn * (long double)k);
    }
    for (int64_t k = 0; k < n; k++) {
        long double re = 0, im = 0;

        for (int64_t i = 0; i < n; i++) {
            const long double c = turns[i * k % n * 2], s = turns[i * k % n * 2 + 1];

            re += numbers[2 * i] * c - numbers[2 * i + 1] * s;
            im += numbers[2 * i] * s + numbers[2 * i + 1] * c;
        }
        most = fmax(most, (double)hypotl(re, im));
        far = fmax(far, (double)hypotl(re - made[2 * k], im - made[2 * k + 1]));
    }
    free(turns);
    return far / most;
}

static void check(int64_t n, uint64_t *seed)
{
    double *const tables = doubles(fft_table_count(n)), *const numbers = doubles((size_t)(2 * n)),
                  *const data = doubles((size_t)(2 * n));
    double *scratch;
    struct fft fft;

    fft_init(&fft, n, tables);
    scratch = doubles(fft_scratch_count(&fft));
    for (int64_t i = 0; i < 2 * n; i++)
        numbers[i] = data[i] = random_signed(seed);
    fft_run(&fft, false, data, scratch);
    assert_true(distance(n, numbers, data) < 4e-15);
    fft_run(&fft, true, data, scratch);
    for (int64_t i = 0; i < 2 * n; i++)
        assert_true(fabs(data[i] - numbers[i]) < 1e-14);
    free(tables);
    free(numbers);
    free(data);
    free(scratch);
}

static void lengths(void **state)
{
    static const int64_t longer[] = { 400, 401, 512, 961, 1024, 1147, 1200 };
    uint64_t seed = 5;

    (void)state;
    for (int64_t n = 1; n <= 300; n++)
        if (random_takes((uint64_t)n))
            check(n, &seed);
    for (size_t i = 0; i < sizeof longer / sizeof longer[0]; i++)
        check(longer[i], &seed);
    assert_int_equal(fft_table_count(0), 0);
    assert_int_equal(fft_table_count((INT64_C(1) << 40) + 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(lengths) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
