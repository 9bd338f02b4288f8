/* The rules of `inlay lock --check`: what is slower, and which errors hold. No test here measures a time. */
#include "lock/lock.h"
#include "rig.h"
#include "random.h"
#include <math.h>

/* P(at least k of count fair coins show heads), by counting all outcomes. */
static double tail(uint32_t count, uint32_t k)
{
    uint32_t heads = 0;

    for (uint32_t outcome = 0; outcome < UINT32_C(1) << count; outcome++)
        heads += (uint32_t)__builtin_popcount(outcome) >= k;
    return ldexp((double)heads, -(int)count);
}

static void test_least_rounds(void **state)
{
    static const double rates[] = { 0.2, 0.05, 0.02, 0.001, 1e-5 };

    (void)state;
    for (uint32_t count = 1; count <= 15; count++)
        for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
            const uint32_t least = lock_least_rounds(count, rates[i]);

            assert_true(least == count + 1 || tail(count, least) <= rates[i]);
            assert_true(least == 0 || tail(count, least - 1) > rates[i]);
        }
    assert_int_equal(lock_least_rounds(LOCK_ROUNDS, LOCK_FALSE_ALARMS), 31);
    assert_int_equal(lock_least_rounds(LOCK_SERIES, 0.02), 12);
}

/* Adds rounds around `factor` with a spread of `noise`, of which single ones are much slower. */
static void add_rounds(uint64_t *random, uint32_t count, double factor, double noise, json_t *ratios)
{
    for (uint32_t i = 0; i < count; i++) {
        const double spread = random_unit(random) + random_unit(random) - 1; /* from -1 to 1, mostly small */
        const bool disturbed = random_unit(random) < 0.1;

        (void)json_array_append_new(ratios, json_real(factor * (1 + noise * spread) * (disturbed ? 1.6 : 1)));
    }
}

/* How many of `trials` checks report a slower time, if runs take `factor` times as long as recorded. */
static uint32_t slower_checks(double factor, double noise, uint32_t trials)
{
    uint64_t random = 7;
    uint32_t found = 0;

    for (uint32_t trial = 0; trial < trials; trial++) {
        json_t *was = json_array(), *is = json_array();

        add_rounds(&random, LOCK_ROUNDS, 3, noise, was);
        do
            add_rounds(&random, LOCK_SERIES, 3 * factor, noise, is);
        while (json_array_size(is) < LOCK_ROUNDS && lock_may_be_slower(was, is, 1.1));
        found += lock_is_slower(was, is, 1.1);
        json_decref(is);
        json_decref(was);
    }
    return found;
}

static void test_slower(void **state)
{
    (void)state;
    assert_int_equal(slower_checks(1, 0.02, 2000), 0);
    assert_int_equal(slower_checks(1, 0.15, 2000), 0);
    assert_true(slower_checks(1.08, 0.05, 2000) <= 2000 * LOCK_FALSE_ALARMS);
    assert_true(slower_checks(1.15, 0.03, 2000) >= 1960);
    assert_int_equal(slower_checks(1.3, 0.15, 2000) >= 1960, 1);
}

static void test_series_bounds(void **state)
{
    json_t *was = json_pack("[f, f, f]", 1.0, 2.0, 9.0), *none = json_array(), *is = json_array();

    (void)state;
    assert_true(lock_median(was) == 2 && lock_median(none) == 0 && lock_median(NULL) == 0);
    for (uint32_t i = 0; i < LOCK_ROUNDS; i++)
        (void)json_array_append_new(is, json_real(i < 31 ? 2.21 : 1));
    assert_true(lock_is_slower(was, is, 1.1) && lock_may_be_slower(was, is, 1.1));
    (void)json_array_set_new(is, 0, json_real(2.2)); /* 30 of 45 above 1.1 times the median */
    assert_false(lock_is_slower(was, is, 1.1));
    assert_false(lock_is_faster(was, is, 1.1));
    for (uint32_t i = 0; i < 31; i++)
        (void)json_array_set_new(is, i, json_real(1.81));
    assert_true(lock_is_faster(was, is, 1.1));
    assert_false(lock_is_slower(none, is, 1.1) || lock_is_slower(was, none, 1.1));
    json_decref(was);
    json_decref(none);
    json_decref(is);
}

static bool holds(const char *dtype, double relative, bool other_class)
{
    json_t *error = json_pack("{s:f, s:b}", "relative", relative, "other_class", other_class);
    const bool result = lock_error_holds(error, dtype, 1e-5);

    json_decref(error);
    return result;
}

static void test_errors(void **state)
{
    json_t *unknown = json_pack("{s:s}", "why", "the recorded values are missing");

    (void)state;
    assert_true(holds("float", 1e-6, false) && holds("double", 1e-6, false) && holds("complex64", 1e-6, false));
    assert_false(holds("float", 1e-4, false));
    assert_false(holds("float", 1e-6, true));
    assert_true(holds("float16", 1e-3, false) && holds("bfloat16", 1e-2, false));
    assert_false(holds("float16", 3e-3, false) || holds("bfloat16", 2e-2, false));
    assert_false(holds("int64", 1e-9, false) || holds("bool", 0, false) || holds("string", 0, false));
    assert_false(lock_error_holds(unknown, "float", 1e-5));
    json_decref(unknown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_rounds),
        cmocka_unit_test(test_slower),
        cmocka_unit_test(test_series_bounds),
        cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
