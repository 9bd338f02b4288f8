/* screen_wrap(): lines in the width of a terminal. */
#include "cli/screen.h"
#include "cmocka_all.h"
#include <stdlib.h>

static void expect(const char *text, int width, const char *expected)
{
    char *got = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&got, &bytes);

    assert_non_null(to);
    screen_wrap(text, strlen(text), width, to);
    assert_int_equal(fclose(to), 0);
    assert_string_equal(got, expected);
    free(got);
}

static void lines_that_fit_stay(void **state)
{
    const char *text = "name      value\n"
                       "first     1.5\n"
                       "\n"
                       "  a line   with blanks \n";

    (void)state;
    expect(text, 40, text);
    expect("", 40, "");
    expect("no newline", 40, "no newline\n");
}

static void other_lines_are_wrapped(void **state)
{
    (void)state;
    expect("one two three four five\n", 14, "one two three\n  four five\n");
    expect("    one two three\n", 14, "    one two\n      three\n");
    /* A word is not divided; columns are counted, not bytes. */
    expect("see https://example.com/a/long/path\n", 14, "see\n  https://example.com/a/long/path\n");
    expect("\xc3\xa4\xc3\xb6\xc3\xbc \xc3\xa4\xc3\xb6\xc3\xbc x\n", 9,
           "\xc3\xa4\xc3\xb6\xc3\xbc \xc3\xa4\xc3\xb6\xc3\xbc x\n");
    /* Colours have no width. */
    expect("\033[31m-  one\033[0m\n", 6, "\033[31m-  one\033[0m\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_that_fit_stay),
        cmocka_unit_test(other_lines_are_wrapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
