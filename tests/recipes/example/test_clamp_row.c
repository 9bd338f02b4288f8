/* Kernel clamp_row, compared with a plain loop. */
#include "simd/clamp_row.h"
#include "cmocka_all.h"

enum { MOST = 37 };

static void test_all_lengths(void **state)
{
    float x[MOST], y[MOST + 1];

    (void)state;
    for (int64_t i = 0; i < MOST; i++)
        x[i] = (float)(i % 3 - 1);
    for (int64_t n = 0; n <= MOST; n++) {
        y[n] = 7;
        if (!clamp_row(x, y, n))
            return;
        assert_true(y[n] == 7);
        for (int64_t i = 0; i < n; i++)
            assert_true(y[i] == (x[i] > 0 ? x[i] : 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_all_lengths) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
