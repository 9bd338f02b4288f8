/* remainders.c - Mod of floats, compared with the C library's fmodf(). */
#include "cmocka_all.h"
#include "kernel_case.h"
#include "operators/operators.h"
#include "operators/tables.h"
#include "random.h"
#include <math.h>

/* Mod with fmod = 1 is exact for floats of any magnitude, NaN, infinities and 0. Blocks with and without such numbers,
 * each way of broadcasting, and a result in the place of an input. */
static void test_float_remainders(void **unused)
{
    static const float special[] = { 0.0f, -0.0f, NAN, INFINITY, -INFINITY, 1e-45f, -3e38f, 16777216.0f, 1e9f };
    enum { MOST = 1100 };
    uint64_t seed = 3;

    (void)unused;
    for (int round = 0; round < 240; round++) {
        const int64_t count = 1 + (int64_t)random_below(&seed, MOST), one = 1;
        const bool first_is_one = round % 3 == 1, second_is_one = round % 3 == 2, in_place = round % 2 == 0;
        static float a[MOST], b[MOST], want[MOST], out[MOST];
        kernel_case c = { .op_type = "Mod", .since_version = 13 };
        float *const result = !in_place ? out : first_is_one ? b : a;

        for (int64_t i = 0; i < count; i++) {
            const int scale = round % 5 == 0 ? 60 : round % 5 == 1 ? 28 : 6;

            a[i] = (float)ldexp((double)random_below(&seed, 1 << 24) - (1 << 23),
                                (int)random_below(&seed, 3) - 12 + scale);
            b[i] = (float)ldexp((double)random_below(&seed, 1 << 24) - (1 << 23), (int)random_below(&seed, 3) - 20);
            if (round % 7 == 0 && random_below(&seed, 50) == 0)
                a[i] = special[random_below(&seed, 9)];
            if (round % 7 == 1 && random_below(&seed, 50) == 0)
                b[i] = special[random_below(&seed, 9)];
            if (round % 4 == 3)
                a[i] = b[second_is_one ? 0 : i] * (float)((int64_t)random_below(&seed, 9) - 4); /* near multiples */
        }
        for (int64_t i = 0; i < count; i++)
            want[i] = fmodf(a[first_is_one ? 0 : i], b[second_is_one ? 0 : i]);
        kernel_case_input(&c, INLAY_FLOAT, 1, first_is_one ? &one : &count, a, false);
        kernel_case_input(&c, INLAY_FLOAT, 1, second_is_one ? &one : &count, b, false);
        kernel_case_output(&c, INLAY_FLOAT, 1, &count, result);
        kernel_case_int(&c, "fmod", 1);
        assert_int_equal(kernel_case_prepare(&c, &operators_arithmetic), INLAY_OK);
        assert_int_equal(kernel_case_run(&c), INLAY_OK);
        kernel_case_deinit(&c);
        for (int64_t i = 0; i < count; i++)
            assert_true(isnan(want[i]) ? isnan(result[i]) : memcmp(&want[i], &result[i], sizeof *want) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_float_remainders) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
