/* Formatting of numbers, names that stay on one line, JSON of any bytes. */
#include "cmocka_all.h"
#include "tables/words.h"
#include "text_buffer.h"
#include <jansson.h>
#include <math.h>

static void test_times(void **state)
{
    static const struct {
        double ns;
        const char *text, *change;
    } rows[] = {
        { 0, "0 ns", "0 ns" },
        { 0.4, "0 ns", "0 ns" },
        { -0.2, "0 ns", "0 ns" },
        { 1, "1 ns", "+1 ns" },
        { 999, "999 ns", "+999 ns" },
        { 999.9, "1.00 us", "+1.00 us" },
        { 1234, "1.23 us", "+1.23 us" },
        { 12345, "12.3 us", "+12.3 us" },
        { 123456, "123 us", "+123 us" },
        { 9.996e6, "10.0 ms", "+10.0 ms" },
        { -5e6, "-5.00 ms", "-5.00 ms" },
        { 2.5e9, "2.50 s", "+2.50 s" },
        { 1e15, "1000000 s", "+1000000 s" },
    };
    char a[FORMATTED_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(format_ns(rows[i].ns, a), rows[i].text);
        assert_string_equal(format_ns_change(rows[i].ns, a), rows[i].change);
    }
    assert_true(strlen(format_ns(1e300, a)) < FORMATTED_BYTES);
    assert_true(strlen(format_ns(INFINITY, a)) < FORMATTED_BYTES);
    assert_true(strlen(format_ns(NAN, a)) < FORMATTED_BYTES);
}

static void test_sizes(void **state)
{
    char a[FORMATTED_BYTES];

    (void)state;
    assert_string_equal(format_bytes(0, a), "0 B");
    assert_string_equal(format_bytes(1023, a), "1023 B");
    assert_string_equal(format_bytes(1024, a), "1.0 KiB");
    assert_string_equal(format_bytes(1048575, a), "1.0 MiB");
    assert_string_equal(format_bytes(123456789, a), "118 MiB");
    assert_string_equal(format_bytes(UINT64_MAX, a), "16777216 TiB");
}

/* Every byte, and invalid UTF-8, is written as JSON that a strict parser accepts. */
static void test_json_of_any_bytes(void **state)
{
    static const char *const rows[] = {
        "</script><img onerror=x>",
        "\"quoted\" \\ back",
        "\x01\x1f\x7f\t\r\n",
        "\xc0\x80",
        "\xed\xa0\x80",
        "\xf4\x90\x80\x80",
        "\xe2\x82",
        "\xff\xfe",
        "\xf0\x9f\x98\x80 \xe2\x82\xac \xc3\xa4",
        "\x80",
        "\xe0\x80\x80",
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct text_buffer output = { 0 };
        explain_sink sink = { .write = text_buffer_append, .user = &output };
        json_out json = { .sink = &sink };
        json_t *value;

        json_open(&json, NULL, '{', false);
        json_text(&json, "name", rows[i]);
        json_text(&json, "none", NULL);
        json_close(&json);
        assert_null(strpbrk(output.data, "<>&"));
        value = json_loadb(output.data, output.bytes, 0, NULL);
        assert_non_null(value);
        if (i < 3 || i == 8)
            assert_string_equal(json_string_value(json_object_get(value, "name")), rows[i]);
        assert_true(json_is_null(json_object_get(value, "none")));
        json_decref(value);
        text_buffer_free(&output);
    }
}

static void test_json_shapes(void **state)
{
    struct text_buffer output = { 0 };
    explain_sink sink = { .write = text_buffer_append, .user = &output };
    json_out json = { .sink = &sink };

    (void)state;
    json_open(&json, NULL, '{', false);
    json_open(&json, "empty", '[', false);
    json_close(&json);
    json_open(&json, "flat", '{', true);
    json_number(&json, "x", 1.5);
    json_open(&json, "list", '[', false);
    json_whole(&json, NULL, UINT64_MAX);
    json_bool(&json, NULL, true);
    json_number(&json, NULL, NAN);
    json_close(&json);
    json_close(&json);
    json_close(&json);
    assert_string_equal(output.data, "{\n  \"empty\": [],\n"
                                     "  \"flat\": {\"x\": 1.5, \"list\": [18446744073709551615, true, null]}\n}");
    text_buffer_free(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_json_of_any_bytes),
        cmocka_unit_test(test_json_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
