/* texts/decode/ahead.h: the number of guesses that makes the most tokens in a time. */
#include "texts/decode/ahead.h"
#include "cmocka_all.h"

enum { FOUND = 8 };

/* Adds runs of each number of guesses: first, and each one more. */
static void measure(ahead_cost *cost, double first, double each)
{
    for (uint32_t ahead = 0; ahead <= FOUND; ahead++)
        for (int run = 0; run < 3; run++) /* the first one also plans */
            ahead_add_run(cost, ahead, first + ahead * each + (run == 0 ? 1e9 : 0));
}

static void test_best(void **state)
{
    static const struct {
        double first, each;
        uint32_t read, right, best;
    } rows[] = {
        { 10, 0.01, 60, 60, FOUND }, /* free and right */
        { 10, 1, 60, 0, 0 },         /* never right: not worth even a small cost */
        { 10, 10, 60, 60, 0 },       /* as expensive as a separate run */
        { 10, 2, 60, 42, 3 },        /* 70 %: 2.5 / 16 > 2.2 / 14 and 2.7 / 18 */
        { 14, 3, 60, 42, 3 },        { 10, 5, 60, 42, 1 }, { 10, 1, 0, 0, 2 }, /* none so far: half of them */
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ahead_cost cost = { .ns = { 0 } };
        ahead_record record = { .read = rows[i].read, .right = rows[i].right };
        double most = 0, tokens = 0, chance = 1, rate = (rows[i].right + 1.0) / (rows[i].read + 2.0);
        uint32_t best = 0;

        measure(&cost, rows[i].first, rows[i].each);
        for (uint32_t ahead = 0; ahead <= FOUND; ahead++, chance *= rate) {
            tokens += chance;
            if (tokens / (rows[i].first + ahead * rows[i].each) > most * (1 + 1e-9)) {
                most = tokens / (rows[i].first + ahead * rows[i].each);
                best = ahead;
            }
        }
        assert_int_equal(ahead_best(&cost, &record, FOUND, 0), best);
        if (rows[i].best != best)
            fail_msg("row %zu: %u is best, not %u", i, best, rows[i].best);
        assert_true(ahead_best(&cost, &record, 1, 0) <= 1);
        assert_int_equal(ahead_best(&cost, &record, 0, 0), 0);
    }
}

/* Each number is measured before it is compared, and from time to time again although it was not worth it. */
static void test_unknown(void **state)
{
    ahead_cost cost = { .ns = { 0 } };
    ahead_record record = { .read = 0 };
    uint32_t again = 0;

    (void)state;
    assert_int_equal(ahead_best(&cost, &record, FOUND, 0), 1);
    ahead_add_run(&cost, 1, 10);
    assert_int_equal(ahead_best(&cost, &record, FOUND, 0), 1);
    ahead_add_run(&cost, 1, 10);
    assert_int_equal(ahead_best(&cost, &record, FOUND, 0), 2);
    measure(&cost, 10, 10);
    for (int i = 0; i < 320; i++)
        again += ahead_best(&cost, &record, FOUND, 0) > 0;
    assert_int_equal(again, 10);
}

/* A wrong guess ends what a run says about guesses, and old ones count less. */
static void test_record(void **state)
{
    ahead_record record = { .read = 0 };

    (void)state;
    ahead_add_guesses(&record, 5, 2);
    assert_int_equal(record.read, 3);
    assert_int_equal(record.right, 2);
    ahead_add_guesses(&record, 4, 4);
    assert_int_equal(record.read, 7);
    assert_int_equal(record.right, 6);
    for (int i = 0; i < 200; i++)
        ahead_add_guesses(&record, 4, 0);
    assert_true(record.read <= 64);
    assert_int_equal(record.right, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_best), cmocka_unit_test(test_unknown),
                                        cmocka_unit_test(test_record) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
