/* Regular expressions: what matches, what does not, and which patterns are refused. Case mapping of UTF-8. */
#include "regex.h"
#include "unicode_case.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct row {
    const char *pattern, *text;
    bool matches;
} row;

static const row rows[] = {
    { "", "", true },
    { "", "a", false },
    { "www\\.[\\w.-]+\\.\\bcom\\b", "www.google.com", true },
    { "www\\.[\\w.-]+\\.\\bcom\\b", "www.google.com.", false },
    { "(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", "account@gmail.com", true },
    { "(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", "account@hotmail.com", false },
    { "a|b|", "", true },
    { "(a|ab)(c|bcd)", "abcd", true },
    { "x{2,3}y{2}z{0,}", "xxyy", true },
    { "x{2,3}y{2}z{0,}", "xyy", false },
    { "a{,2}", "a{,2}", true },
    { "a.c", "a\nc", false },
    { "(?s)a.c", "a\nc", true },
    { "(?i)straSSe[a-c]", "STRASSEB", true },
    { "(?i:a)b", "AB", false },
    { "[^a-c\\d]+", "xyz", true },
    { "[^a-c\\d]+", "xy1", false },
    { "[]a]+", "]a", true },
    { "[[:alpha:]_]+", "ab_", true },
    { "[\\D]+", "12", false },
    { "\\Qa.b*\\E+", "a.b**", true },
    { "\\x41\\x{42}", "AB", true },
    { "(?P<year>\\d{4})-\\d\\d", "2024-01", true },
    { "a*?b+?", "aab", true },
    { "\\Bb", "b", false },
    { "\\Aa\\z", "a", true },
    { ".", "\xc3\xa4", true },
    { "[\xc3\xa0-\xc3\xb6]+", "\xc3\xa4\xc3\xb6", true },
    { "..", "\xff\xc3", true }, /* bytes that are no UTF-8 */
    { "(a*)*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false },
};

static const char *const refused[] = {
    "(",
    ")",
    "a)",
    "[a",
    "*a",
    "a{2,1}",
    "a{1001}",
    "[b-a]",
    "\\",
    "(?=a)",
    "(?<!a)",
    "\\p{L}",
    "\\1",
    "[[:nothing:]]",
    "((((((((((a{9}){9}){9}){9}){9}){9}){9}){9}){9}){9})",
};

static void test_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        regex *re = NULL;
        void *scratch;

        if (regex_create(rows[i].pattern, strlen(rows[i].pattern), &re, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        scratch = malloc(regex_scratch_bytes(re));
        assert_non_null(scratch);
        if (regex_full_match(re, rows[i].text, strlen(rows[i].text), scratch) != rows[i].matches)
            fail_msg("'%s' on '%s'", rows[i].pattern, rows[i].text);
        free(scratch);
        regex_destroy(re);
    }
}

static void test_refused(void **state)
{
    char deep[2000];

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        regex *re = NULL;

        if (regex_create(refused[i], strlen(refused[i]), &re, &diag) == INLAY_OK)
            fail_msg("'%s' was taken", refused[i]);
        assert_null(re);
        assert_non_null(strstr(diag.text, "pattern '"));
    }
    for (size_t i = 0; i < sizeof deep; i++)
        deep[i] = '(';
    {
        regex *re = NULL;
        assert_int_equal(regex_create(deep, sizeof deep, &re, NULL), INLAY_LIMIT_EXCEEDED);
    }
}

/* The leftmost match from some byte on, and the longest of those. */
static void test_search(void **state)
{
    static const struct {
        const char *pattern, *text;
        size_t from, begin, end; /* begin > end: there is none */
    } searches[] = {
        { "b+", "abbbcb", 0, 1, 4 },      { "b+", "abbbcb", 4, 5, 6 },     { "b+", "abbbcb", 2, 2, 4 },
        { "a|ab|abc", "xabcd", 0, 1, 4 }, { "abcd|bc", "xabcx", 0, 2, 4 }, { "^a", "ba", 0, 1, 0 },
        { "a$", "aba", 0, 2, 3 },         { "q*", "abc", 1, 1, 1 },        { "x", "", 0, 1, 0 },
        { "ab*|b*c", "abbbc", 0, 0, 4 },  { "\\bb", "ab b", 0, 3, 4 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof searches / sizeof searches[0]; i++) {
        const char *pattern = searches[i].pattern;
        size_t begin = 1, end = 0;
        regex *re = NULL;
        void *scratch;
        bool found;

        assert_int_equal(regex_create(pattern, strlen(pattern), &re, NULL), INLAY_OK);
        scratch = malloc(regex_scratch_bytes(re));
        assert_non_null(scratch);
        found = regex_search(re, searches[i].text, strlen(searches[i].text), searches[i].from, scratch, &begin, &end);
        if (found != (searches[i].begin <= searches[i].end) || begin != searches[i].begin || end != searches[i].end)
            fail_msg("'%s' in '%s': [%zu, %zu)", pattern, searches[i].text, begin, end);
        free(scratch);
        regex_destroy(re);
    }
}

static void test_case(void **state)
{
    static const char lower[] = "abc\xc3\xa4\xce\xb1\xd0\xb6\xd1\x8f\xe1\xba\xa1 1";
    static const char upper[] = "ABC\xc3\x84\xce\x91\xd0\x96\xd0\xaf\xe1\xba\xa0 1";
    char out[sizeof lower];

    (void)state;
    case_convert(lower, sizeof lower - 1, true, out);
    assert_memory_equal(out, upper, sizeof upper - 1);
    case_convert(upper, sizeof upper - 1, false, out);
    assert_memory_equal(out, lower, sizeof lower - 1);
    case_convert("\xc3", 1, true, out); /* cut off */
    assert_int_equal(out[0], (char)0xc3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_search),
        cmocka_unit_test(test_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
