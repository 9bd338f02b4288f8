/* fit_text(): tables and other lines in the width of a terminal. */
#include "cli/fit.h"
#include "cmocka_all.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(const char *text, int width, bool colours, const char *expected)
{
    char *got = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&got, &bytes);

    assert_non_null(to);
    fit_text(text, strlen(text), width, colours, to);
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
    expect(text, 40, false, text);
    expect("", 40, false, "");
    expect("no newline", 40, false, "no newline\n");
}

static void other_lines_are_wrapped(void **state)
{
    (void)state;
    expect("one two three four five\n", 14, false, "one two three\n  four five\n");
    expect("    one two three\n", 14, false, "    one two\n      three\n");
    /* A word is not divided; columns are counted, not bytes. */
    expect("see https://example.com/a/long/path\n", 14, false, "see\n  https://example.com/a/long/path\n");
    expect("\xc3\xa4\xc3\xb6\xc3\xbc \xc3\xa4\xc3\xb6\xc3\xbc x\n", 9, false,
           "\xc3\xa4\xc3\xb6\xc3\xbc \xc3\xa4\xc3\xb6\xc3\xbc x\n");
    /* Colours have no width. */
    expect("\033[31m-  one\033[0m\n", 6, false, "\033[31m-  one\033[0m\n");
    /* The texts of a list continue below their first column. */
    expect("p95        2.5 ms\n"
           "median     1.5 ms  of several runs\n",
           24, false,
           "p95        2.5 ms\n"
           "median     1.5 ms  of\n"
           "           several runs\n");
}

static void tables_lose_gaps_first(void **state)
{
    (void)state;
    expect("name            time      share\n"
           "first         1.5 us      10.0%\n"
           "second      100.5 us      90.0%\n",
           22, false,
           "name       time  share\n"
           "first    1.5 us  10.0%\n"
           "second 100.5 us  90.0%\n");
}

static void long_names_are_cut(void **state)
{
    (void)state;
    /* In the middle, numbers stay whole; */
    expect("name                                        time\n"
           "/encoder/layer/attention/query/MatMul    1.50 us\n"
           "/short                                 100.50 us\n",
           34, false,
           "name                          time\n"
           "/encoder/la..uery/MatMul   1.50 us\n"
           "/short                   100.50 us\n");
    /* elsewhere, if the difference is there; */
    expect("name                                        time\n"
           "/encoder/layer/attention1/query/MatMul      1 us\n"
           "/encoder/layer/attention2/query/MatMul      2 us\n",
           30, false,
           "name                      time\n"
           "/encoder..n1/query/MatMul 1 us\n"
           "/encoder..n2/query/MatMul 2 us\n");
}

/* Reasons are shown whole; names next to them are still shortened. */
static void sentences_are_wrapped(void **state)
{
    (void)state;
    expect("  answers  reference         312 us predicted, chosen\n"
           "           onednn         refused: the attribute dilations is not all ones, and it has no loop for that\n"
           "           cpu               512 us predicted, would cost 200 us more in all\n",
           60, false,
           "  answers reference 312 us predicted, chosen\n"
           "          onednn    refused: the attribute dilations is not\n"
           "                    all ones, and it has no loop for that\n"
           "          cpu       512 us predicted, would cost 200 us more\n"
           "                    in all\n");
    expect("node                                      provider  reason\n"
           "/encoder/layer/attention/query/MatMul     cpu       the type of its second input is not one that it has\n"
           "/short                                    onednn    it does not run here\n",
           60, false,
           "node                       provider reason\n"
           "/encoder/lay..query/MatMul cpu      the type of its second\n"
           "                                    input is not one that it\n"
           "                                    has\n"
           "/short                     onednn   it does not run here\n");
    /* If there is no room, columns are shortened and left out. */
    expect("one      two      three    why it is so, as one sentence of words\n"
           "1        2        3        no\n",
           20, false,
           "one two three\n"
           "1   2   3\n");
}

static void columns_are_left_out_last(void **state)
{
    (void)state;
    expect("name                       first     second      third\n"
           "/encoder/attention/query    1111       2222       3333\n"
           "/decoder/attention/value    1111       2222       3333\n",
           38, false,
           "name                     first second\n"
           "/encoder/attention/query  1111   2222\n"
           "/decoder/attention/value  1111   2222\n");
}

static void texts_near_a_table_stay_apart(void **state)
{
    (void)state;
    expect("2 samples\n"
           "name            time      share\n"
           "first         1.5 us      10.0%\n"
           "and more words after it, one two\n",
           22, false,
           "2 samples\n"
           "name      time   share\n"
           "first   1.5 us   10.0%\n"
           "and more words after\n"
           "  it, one two\n");
}

static void colours_mark_titles_and_results(void **state)
{
    (void)state;
    expect("name    time   share\n"
           "first   1 us   10.0%\n"
           "\n"
           "FAIL  results: wrong\n"
           "PASS  open\n",
           40, true,
           "\033[1mname    time   share\033[0m\n"
           "first   1 us   10.0%\n"
           "\n"
           "\033[31mFAIL  results: wrong\033[0m\n"
           "\033[32mPASS  open\033[0m\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_that_fit_stay),           cmocka_unit_test(other_lines_are_wrapped),
        cmocka_unit_test(tables_lose_gaps_first),        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(sentences_are_wrapped),         cmocka_unit_test(columns_are_left_out_last),
        cmocka_unit_test(texts_near_a_table_stay_apart), cmocka_unit_test(colours_mark_titles_and_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
