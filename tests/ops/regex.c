/* regex.c - regular expressions: matches, mismatches, and refused patterns. Case mapping of UTF-8. */
#include "reference/regex.h"
#include "reference/unicode_case.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct row {
    const char *pattern, *text;
    bool matches;
};

static const struct row rows[] = {
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
    { "..", "\xff\xc3", true }, /* bytes that are not valid UTF-8 */
    { "(a*)*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false },
    { "((a|aa)+)+[bc]", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaad", false },
    /* Differences between the syntax of PCRE2 and RE2. */
    { "a\\sb", "a\vb", false },
    { "a[\\s]b", "a\vb", false },
    { "a\\Sb", "a\vb", true },
    { "a[\\S]b", "a\vb", true },
    { "a[\\S\\t]b", "a\tb", true },
    { "[^\\S]", " ", true },
    { "\\v", "\v", true },
    { "\\v", "\n", false },
    { "(?:\\b)*a^*$+", "a", true },
    { "\\b+a", "a", true },
    { "x{,2}y", "x{,2}y", true },
    { "x{ 1}", "x{ 1}", true },
    { "x{1,2", "x{1,2", true },
    { "}]", "}]", true },
    { "[\\w-.]+", "a-b.c", true },
    { "[\\d-z]+", "1-z", true },
    { "[\\d-z]", "y", false },
    { "[[.a]+", "[.a", true },
    { "[[=a]+", "[=a", true },
    { "[-a]+[a-]+[a-c-e]+", "-aa-b-e", true },
    { "[[:^alpha:]]", "1", true },
    { "[[:cntrl:]]", "\x1f", true },
    { "a$", "a\n", false },
    { "a\\z", "a\n", false },
    { "(?m)a$\n^b$", "a\nb", true },
    { "(?m)a\n^", "a\n", true },
    { "(?m:a$)\n(?-m)b$", "a\nb\n", false },
    { "(?m)(?:a$\n(?-m:b))\n$", "a\nb\n", true },
    { "(?U)a*b", "aab", true },
    { "(?i-s:A.)b", "axb", true },
    { "(?i-s:A.)b", "a\nb", false },
    { "a(?i)b|c", "C", true },
    { "(?i)\xc3\x84", "\xc3\xa4", true },
    { "(?P<1st>a)(?<2>b)", "ab", true },
    { "\\pL+\\p{Nd}\\P{L}\\p{^L}[\\p{Greek}]",
      "a\xc3\xa4"
      "1 2\xce\xb1",
      true },
    { "\\w", "\xc3\xa4", false },
    { "\\d", "\xd9\xa3", false },
    { "\\101\\0101\\x2a", "A\b1*", true },
    { "\\Q(?=\\d)[\\E", "(?=\\d)[", true },
    { "\\Qa", "a", true },
    { "[\\x41-\\x{43}]+", "ABC", true },
    { ".", "\xed\xa0\x80", false }, /* half of a pair of UTF-16 */
    { "\xff.", "\xff\xc3", true },
    { "\xff", "\xfe", false },
    { "(?:a{0,500}){1,2}", "aaaaaaaaaaaaaaaaaaaa", true },
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
    "\\p{Nothing}",
    "\\p{",
    "\\p{}",
    "\\1",
    "(a)\\1",
    "(a)\\9",
    "\\18",
    "(?P<x>a)(?P=x)",
    "(?P<>a)",
    "(?!a)",
    "(?<=a)",
    "(?>a)",
    "(?|a|b)",
    "(?(1)a)",
    "(?#a)",
    "(?x)a",
    "(?R)",
    "(*UTF)a",
    "a**",
    "a*+",
    "a++",
    "a?{2}",
    "a|*b",
    "(?i)*",
    "\\C",
    "\\Z",
    "\\G",
    "\\K",
    "\\R",
    "\\X",
    "\\h",
    "\\N",
    "\\_",
    "[\\b]",
    "[\\Qa]",
    "[a-\\d]",
    "\\x",
    "\\xg",
    "\\x{110000}",
    "a{1,1001}",
    "[[:nothing:]]",
    "((((((((((a{9}){9}){9}){9}){9}){9}){9}){9}){9}){9})",
};

/* Does the pattern match the whole text? The status must be `wanted`. */
static bool matches(const char *pattern, const char *text, size_t bytes, inlay_status wanted)
{
    char *scratch = malloc(regex_scratch_bytes());
    inlay_diag diag = INLAY_DIAG_INIT;
    bool found = false;
    struct regex *re = NULL;

    assert_non_null(scratch);
    if (regex_create(pattern, strlen(pattern), &re, &diag) != INLAY_OK ||
        regex_full_match(re, text, bytes, scratch, &found, &diag) != wanted)
        fail_msg("'%s': %s", pattern, diag.text);
    free(scratch);
    regex_destroy(re);
    return found;
}

static bool library_is_gone;
void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);

void *__wrap_dlopen(const char *name, int flags)
{
    return library_is_gone ? NULL : __real_dlopen(name, flags);
}

/* Runs before PCRE2 is opened. After a failure the library is opened again at the next use. */
static void test_no_library(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct regex *re = NULL;

    (void)state;
    library_is_gone = true;
    assert_int_equal(regex_create("a", 1, &re, &diag), INLAY_UNSUPPORTED);
    assert_null(re);
    assert_non_null(strstr(diag.text, "libpcre2-8.so.0"));
    library_is_gone = false;
    assert_int_equal(regex_create("a", 1, &re, &diag), INLAY_OK);
    regex_destroy(re);
}

static void test_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (matches(rows[i].pattern, rows[i].text, strlen(rows[i].text), INLAY_OK) != rows[i].matches)
            fail_msg("'%s' on '%s'", rows[i].pattern, rows[i].text);
    assert_true(matches("a\\x00.", "a\0b", 3, INLAY_OK));
}

/* Patterns with exponential backtracking, and one that needs more memory than the limit. */
static void test_limits(void **state)
{
    enum { BYTES = 20000 };
    char *text = malloc(BYTES);

    (void)state;
    assert_non_null(text);
    memset(text, 'a', BYTES);
    assert_false(matches("(a+a+)+b", text, BYTES, INLAY_OK));
    assert_false(matches("(.*)*(.*)*(.*)*[bc]", text, BYTES, INLAY_OK));
    assert_true(matches("(a|a?)+", text, BYTES, INLAY_OK));
    (void)matches("(?:(?:a{0,1000})*b?){30}", text, BYTES, INLAY_LIMIT_EXCEEDED);
    free(text);
}

static void test_refused(void **state)
{
    char deep[2000];

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        struct regex *re = NULL;

        if (regex_create(refused[i], strlen(refused[i]), &re, &diag) == INLAY_OK)
            fail_msg("'%s' was taken", refused[i]);
        assert_null(re);
        assert_non_null(strstr(diag.text, "pattern '"));
    }
    for (size_t i = 0; i < sizeof deep; i++)
        deep[i] = '(';
    {
        struct regex *re = NULL;
        assert_int_equal(regex_create(deep, sizeof deep, &re, NULL), INLAY_LIMIT_EXCEEDED);
    }
}

/* The leftmost longest match from a byte on. */
static void test_search(void **state)
{
    static const struct {
        const char *pattern, *text;
        size_t from, begin, end; /* begin > end: no match */
    } searches[] = {
        { "b+", "abbbcb", 0, 1, 4 },
        { "b+", "abbbcb", 4, 5, 6 },
        { "b+", "abbbcb", 2, 2, 4 },
        { "a|ab|abc", "xabcd", 0, 1, 4 },
        { "abcd|bc", "xabcx", 0, 2, 4 },
        { "^a", "ba", 0, 1, 0 },
        { "a$", "aba", 0, 2, 3 },
        { "q*", "abc", 1, 1, 1 },
        { "x", "", 0, 1, 0 },
        { "ab*|b*c", "abbbc", 0, 0, 4 },
        { "\\bb", "ab b", 0, 3, 4 },
        { "\\bb", "bb", 1, 1, 0 },
        { "a+?", "baa", 0, 1, 3 },
        { "b.",
          "\xff\xc3"
          "b\xfe"
          "b",
          0, 2, 4 },
        { "b",
          "b\xff\xff"
          "b",
          1, 3, 4 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof searches / sizeof searches[0]; i++) {
        const char *pattern = searches[i].pattern;
        const char *text = searches[i].text;
        char *scratch = malloc(regex_scratch_bytes());
        size_t begin = 1, end = 0;
        struct regex *re = NULL;
        bool found;

        assert_non_null(scratch);
        assert_int_equal(regex_create(pattern, strlen(pattern), &re, NULL), INLAY_OK);
        assert_int_equal(regex_search(re, text, strlen(text), regex_is_utf8(text, strlen(text)), searches[i].from,
                                      scratch, &found, &begin, &end, NULL),
                         INLAY_OK);
        if (found != (searches[i].begin <= searches[i].end) || begin != searches[i].begin || end != searches[i].end)
            fail_msg("'%s' in '%s': [%zu, %zu)", pattern, text, begin, end);
        free(scratch);
        regex_destroy(re);
    }
}

static void test_case(void **state)
{
    static const struct {
        const char *text, *lower, *upper;
    } cases[] = {
        { "abC1 ", "abc1 ", "ABC1 " },
        { "\xc3\xa4\xce\xb1\xd0\xb6\xd1\x8f\xe1\xba\xa1", "\xc3\xa4\xce\xb1\xd0\xb6\xd1\x8f\xe1\xba\xa1",
          "\xc3\x84\xce\x91\xd0\x96\xd0\xaf\xe1\xba\xa0" },
        { "\xc7\x85", "\xc7\x86", "\xc7\x84" },                                  /* U+01C5, title case */
        { "\xe1\xba\x9e\xe2\x84\xaa", "\xc3\x9fk", "\xe1\xba\x9e\xe2\x84\xaa" }, /* U+1E9E, Kelvin: shorter */
        { "\xc8\xba", "\xe2\xb1\xa5", "\xc8\xba" },                              /* U+023A: longer */
        { "\xf0\x90\x90\x80", "\xf0\x90\x90\xa8", "\xf0\x90\x90\x80" },          /* Deseret */
        { "\xc3\x9f\xc4\xb0", "\xc3\x9f\xc4\xb0", "\xc3\x9f\xc4\xb0" },          /* map to several characters */
        { "\xc3", "\xc3", "\xc3" },                                              /* cut off */
        { "\xc1\x81\xe0\x81\x81\xff", "\xc1\x81\xe0\x81\x81\xff", "\xc1\x81\xe0\x81\x81\xff" }, /* overlong */
    };
    char out[64];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const size_t bytes = strlen(cases[i].text);

        assert_int_equal(case_convert(cases[i].text, bytes, false, out), strlen(cases[i].lower));
        assert_memory_equal(out, cases[i].lower, strlen(cases[i].lower));
        assert_int_equal(case_convert(cases[i].text, bytes, true, out), strlen(cases[i].upper));
        assert_memory_equal(out, cases[i].upper, strlen(cases[i].upper));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_library), cmocka_unit_test(test_matches), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_search),  cmocka_unit_test(test_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
