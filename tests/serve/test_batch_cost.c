/* The batch size that is worth waiting for, according to the cost of runs. */
#include "serve/model/batch_cost.h"
#include "cmocka_all.h"

static void test_cheapest_row(void **state)
{
    batch_cost cost = { .best = 0 };

    (void)state;
    batch_cost_add(&cost, 1, 100);
    assert_int_equal(cost.best, 1);
    batch_cost_add(&cost, 2, 120);
    batch_cost_add(&cost, 4, 160);
    assert_int_equal(cost.best, 4);
    batch_cost_add(&cost, 8, 318); /* not enough of an improvement */
    assert_int_equal(cost.best, 4);
    batch_cost_add(&cost, 3, 1); /* intermediate sizes are not stored */
    batch_cost_add(&cost, 0, 1);
    batch_cost_add(&cost, UINT64_C(1) << 40, 1);
    assert_int_equal(cost.best, 4);
    assert_true(batch_cost_gain(&cost) == 60 && !batch_cost_is_worth(&cost));
}

static void test_no_gain(void **state)
{
    batch_cost cost = { .best = 0 };

    (void)state;
    assert_true(batch_cost_gain(&cost) == 0 && batch_cost_of(&cost, 4) == 0);
    for (uint64_t rows = 1; rows <= 64; rows *= 2)
        batch_cost_add(&cost, rows, 100.0 * (double)rows);
    assert_int_equal(cost.best, 1);
    assert_true(batch_cost_gain(&cost) == 0 && !batch_cost_is_worth(&cost));
}

/* A gain of 50 us per row is more than a change of threads costs, one of 5 us is not. */
static void test_worth(void **state)
{
    batch_cost much = { .best = 0 }, little = { .best = 0 };

    (void)state;
    batch_cost_add(&much, 1, 100000);
    batch_cost_add(&much, 2, 100000);
    assert_true(batch_cost_is_worth(&much));
    batch_cost_add(&little, 1, 10000);
    batch_cost_add(&little, 2, 10000);
    assert_false(batch_cost_is_worth(&little));
}

static void test_interpolation(void **state)
{
    batch_cost cost = { .best = 0 };

    (void)state;
    batch_cost_add(&cost, 1, 100);
    batch_cost_add(&cost, 8, 240);
    assert_true(batch_cost_of(&cost, 1) == 100);
    assert_true(batch_cost_of(&cost, 2) == 120);
    assert_true(batch_cost_of(&cost, 6) == 200);
    assert_true(batch_cost_of(&cost, 8) == 240);
    assert_true(batch_cost_of(&cost, 16) == 480);
}

/* A single outlier loses its effect; a machine that has become slower keeps the new cost. */
static void test_changing_run_times(void **state)
{
    batch_cost cost = { .best = 0 };

    (void)state;
    batch_cost_add(&cost, 4, 1000);
    batch_cost_add(&cost, 4, 400);
    assert_true(batch_cost_of(&cost, 4) == 400);
    batch_cost_add(&cost, 4, 40000);
    assert_true(batch_cost_of(&cost, 4) < 1100);
    for (int i = 0; i < 1000; i++)
        batch_cost_add(&cost, 4, 800);
    assert_true(batch_cost_of(&cost, 4) > 790 && batch_cost_of(&cost, 4) < 810);
}

/* One run in 50 takes ten times as long: nearly all of 100 runs stay within the reported time. */
static void test_late_runs(void **state)
{
    batch_cost cost = { .best = 0 };
    uint32_t longer = 0;

    (void)state;
    assert_true(batch_cost_latest(&cost, 8) == 0);
    batch_cost_add(&cost, 8, 100);
    assert_true(batch_cost_latest(&cost, 8) == 100);
    for (uint32_t i = 0; i < 20000; i++) {
        double ns = i % 50 == 7 ? 1000 : 100;

        longer += i >= 10000 && ns > batch_cost_latest(&cost, 8);
        batch_cost_add(&cost, 8, ns);
    }
    assert_in_range(longer, 0, 150);    /* of 10000 */
    for (uint32_t i = 0; i < 5000; i++) /* the slow phase is over */
        batch_cost_add(&cost, 8, 100);
    assert_true(batch_cost_latest(&cost, 8) < 130);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cheapest_row),
        cmocka_unit_test(test_no_gain),
        cmocka_unit_test(test_worth),
        cmocka_unit_test(test_interpolation),
        cmocka_unit_test(test_changing_run_times),
        cmocka_unit_test(test_late_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
