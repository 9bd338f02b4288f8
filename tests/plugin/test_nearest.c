/* nearest_name(): the suggestion in messages with "did you mean". */
#include "base/nearest.h"
#include "cmocka_all.h"

static const char *const names[] = { "intra_threads", "providers", "plugin_dirs", "a", "openblas" };

static const char *name_at(const void *ctx, uint32_t i)
{
    (void)ctx;
    return names[i];
}

static void rows(void **state)
{
    static const struct {
        const char *wanted, *expected;
    } table[] = { { "intra_threads", "intra_threads" },
                  { "intra-thread", "intra_threads" },
                  { "Providres", "providers" },
                  { "plugindirs", "plugin_dirs" },
                  { "opneblas", "openblas" },
                  { "completely_different", NULL },
                  { "", "a" },
                  { "a_name_that_is_much_longer_than_the_sixty_four_letters_that_are_looked_at", NULL } };

    (void)state;
    for (size_t r = 0; r < sizeof table / sizeof table[0]; r++) {
        const char *got = nearest_name(table[r].wanted, name_at, NULL, sizeof names / sizeof names[0]);

        if (table[r].expected == NULL)
            assert_null(got);
        else
            assert_string_equal(got, table[r].expected);
    }
    assert_null(nearest_name("x", name_at, NULL, 0));
}

static void hints(void **state)
{
    char hint[NEAREST_HINT_BYTES];

    (void)state;
    nearest_hint(hint, "; see the list", "opneblas", name_at, NULL, sizeof names / sizeof names[0]);
    assert_string_equal(hint, "; did you mean 'openblas'?");
    nearest_hint(hint, "; see the list", "completely_different", name_at, NULL, sizeof names / sizeof names[0]);
    assert_string_equal(hint, "; see the list");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows), cmocka_unit_test(hints) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
