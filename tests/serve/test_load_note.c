/* The lines of the log about a load that takes long. */
#include "cmocka_all.h"
#include "serve/base/load_note.h"
#include <string.h>

static const uint64_t SECOND = 1000000000, START = 5000000000;

static void expect(uint64_t seconds, const char *line)
{
    char text[256] = "";

    assert_int_equal(load_note_line(START + seconds * SECOND, text, sizeof text), line != NULL);
    assert_string_equal(text, line != NULL ? line : "");
}

static void test_lines(void **state)
{
    char text[256];

    (void)state;
    expect(100, NULL); /* no load */
    load_note_begin("big", 7, START);
    expect(0, NULL);
    expect(19, NULL);
    expect(20, "model 'big', version 7: still being loaded after 20 s: reading its files and opening its providers");
    expect(21, NULL);
    load_note_step("compiling", 0.417);
    expect(39, NULL);
    expect(41, "model 'big', version 7: still being loaded after 41 s: compiling, 41 %");
    expect(79, NULL);
    load_note_step("its first runs", 0);
    expect(200, "model 'big', version 7: still being loaded after 200 s: its first runs");
    expect(319, NULL);
    assert_true(load_note_line(START + 320 * SECOND, text, sizeof text));
    load_note_end();
    expect(100000, NULL);
    load_note_begin("next", 1, START + 400 * SECOND);
    expect(419, NULL);
    expect(420, "model 'next', version 1: still being loaded after 20 s: reading its files and opening its providers");
    load_note_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
