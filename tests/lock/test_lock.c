/* The rules of `inlay lock --check`: what is slower, and which errors hold. No test here measures a time. */
#include "lock/lock.h"
#include "rig.h"
#include "random.h"
#include <math.h>

/* Adds rounds of which none is faster than `factor`, some are slower by up to `noise`, and most are disturbed. */
static void add_rounds(uint64_t *random, uint32_t count, double factor, double noise, json_t *ratios)
{
    for (uint32_t i = 0; i < count; i++) {
        const bool disturbed = random_unit(random) < 0.7;

        (void)json_array_append_new(ratios, json_real(factor * (1 + noise * random_unit(random)) *
                                                      (disturbed ? 1.1 + random_unit(random) : 1)));
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
        add_rounds(&random, LOCK_LEAST_ROUNDS, 3 * factor, noise, is);
        while (json_array_size(is) < LOCK_ROUNDS && lock_is_slower(was, is, 1.1))
            add_rounds(&random, 1, 3 * factor, noise, is);
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
    assert_true(slower_checks(1, 0.15, 2000) <= 20);
    assert_int_equal(slower_checks(1.05, 0.05, 2000), 0);
    assert_int_equal(slower_checks(1.15, 0.03, 2000), 2000);
    assert_int_equal(slower_checks(1.3, 0.15, 2000), 2000);
}

static void test_bounds(void **state)
{
    json_t *was = json_pack("[f, f, f, f]", 9.0, 2.0, 1.0, 1.5), *few = json_pack("[f, f, f]", 1.0, -1.0, 1.0),
           *is = json_pack("[f, f, f, f]", 2.21, 1.0, 9.0, 2.0);

    (void)state;
    assert_true(lock_fast_round(was) == 2 && lock_fast_round(few) == 0 && lock_fast_round(NULL) == 0);
    assert_true(lock_is_slower(was, is, 1.1));
    (void)json_array_set_new(is, 2, json_real(2.2)); /* three at or below 1.1 times the third of the record */
    assert_false(lock_is_slower(was, is, 1.1));
    assert_false(lock_is_faster(was, is, 1.1));
    (void)json_array_set_new(is, 2, json_real(1.81));
    (void)json_array_set_new(is, 3, json_real(1.81));
    assert_true(lock_is_faster(was, is, 1.1));
    assert_false(lock_is_slower(few, is, 1.1) || lock_is_slower(was, few, 1.1) || lock_is_faster(was, few, 1.1));
    json_decref(was);
    json_decref(few);
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
        cmocka_unit_test(test_slower),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
