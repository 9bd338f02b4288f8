/* Tables of cells: their lines at each width, and what never gets lost. */
#include "base/random.h"
#include "tables/table.h"
#include "cmocka_all.h"
#include "failing_alloc.h"
#include "text_buffer.h"

static struct text_buffer text;

static const char *written_as(const struct table *table, int width, bool bold)
{
    const explain_sink sink = { text_buffer_append, &text, width, bold };

    text_buffer_free(&text);
    table_write(table, &sink);
    return text.data != NULL ? text.data : "";
}

static const char *written(const struct table *table, int width)
{
    return written_as(table, width, false);
}

static int free_text(void **state)
{
    (void)state;
    text_buffer_free(&text);
    return 0;
}

enum { NAME, TIME, SHARE, NOTE, COLUMNS };
static const table_column columns[COLUMNS] = { { "name", "name", TABLE_NAME },
                                               { "time", "ns", TABLE_NUMBER },
                                               { "share", "share", TABLE_NUMBER },
                                               { "reason", "why", TABLE_TEXT } };

static void add(struct table *table, const char *name, double ns, double share, const char *note)
{
    char time[FORMATTED_BYTES];

    table_row(table);
    table_text(table, NAME, name);
    if (ns >= 0)
        table_real(table, TIME, ns, "%s", format_ns(ns, time));
    if (share >= 0)
        table_real(table, SHARE, share, "%.1f%%", 100 * share);
    table_text(table, NOTE, note);
}

static void columns_are_as_wide_as_their_cells(void **state)
{
    struct table table = { .columns = columns, .column_count = COLUMNS };

    (void)state;
    assert_string_equal(written(&table, 80), "");
    add(&table, "first", 1500, 0.1, NULL);
    add(&table, "the second one", 100500, 0.9, NULL);
    add(&table, "third", -1, 0, NULL);
    assert_string_equal(written(&table, 0), "name               time  share\n"
                                            "first           1.50 us  10.0%\n"
                                            "the second one   100 us  90.0%\n"
                                            "third                     0.0%\n");
    table.indent = 4;
    table_line(&table, "  a line");
    assert_string_equal(written_as(&table, 80, true), "\033[1m    name               time  share\033[0m\n"
                                                      "    first           1.50 us  10.0%\n"
                                                      "    the second one   100 us  90.0%\n"
                                                      "    third                     0.0%\n"
                                                      "      a line\n");
    table_deinit(&table);
}

static void gaps_go_first_then_the_middles_of_names(void **state)
{
    struct table table = { .columns = columns, .column_count = COLUMNS };

    (void)state;
    add(&table, "/encoder/layer/attention1/query/MatMul", 1000, 0.1, NULL);
    add(&table, "/encoder/layer/attention2/query/MatMul", 2000, 0.9, NULL);
    assert_string_equal(written(&table, 52), "name                                      time share\n"
                                             "/encoder/layer/attention1/query/MatMul 1.00 us 10.0%\n"
                                             "/encoder/layer/attention2/query/MatMul 2.00 us 90.0%\n");
    /* The cut is where the difference stays. */
    assert_string_equal(written(&table, 40), "name                          time share\n"
                                             "/encoder/l..1/query/MatMul 1.00 us 10.0%\n"
                                             "/encoder/l..2/query/MatMul 2.00 us 90.0%\n");
    table_deinit(&table);
}

static void columns_that_do_not_fit_continue_below(void **state)
{
    struct table table = { .columns = columns, .column_count = COLUMNS };

    (void)state;
    add(&table, "/encoder/attention/query", 1111000, 0.1, NULL);
    add(&table, "/decoder/attention/value", 2222000, 0.9, NULL);
    assert_string_equal(written(&table, 34), "name                        time\n"
                                             "    share\n"
                                             "/encoder/attention/query 1.11 ms\n"
                                             "    10.0%\n"
                                             "/decoder/attention/value 2.22 ms\n"
                                             "    90.0%\n");
    table_deinit(&table);
}

static void texts_are_wrapped(void **state)
{
    struct table table = { .columns = columns, .column_count = COLUMNS };

    (void)state;
    add(&table, "cpu", 512000, -1, "the type of its second input is not one that it has");
    add(&table, "onednn", -1, -1, "does not run here");
    table_line(&table, "      and some words that are too many");
    assert_string_equal(written(&table, 42), "name     time reason\n"
                                             "cpu    512 us the type of its second input\n"
                                             "              is not one that it has\n"
                                             "onednn        does not run here\n"
                                             "      and some words that are too many\n");
    assert_string_equal(written(&table, 38), "name     time reason\n"
                                             "cpu    512 us the type of its second\n"
                                             "              input is not one that it\n"
                                             "              has\n"
                                             "onednn        does not run here\n"
                                             "      and some words that are too many\n");
    assert_string_equal(written(&table, 36), "name     time\n"
                                             "    reason\n"
                                             "cpu    512 us\n"
                                             "    the type of its second input is\n"
                                             "    not one that it has\n"
                                             "onednn\n"
                                             "    does not run here\n"
                                             "      and some words that are too\n"
                                             "        many\n");
    table_deinit(&table);
}

static void texts_of_others_are_readable(void **state)
{
    struct table table = { .columns = columns, .column_count = COLUMNS };

    (void)state;
    add(&table, "a\033[2Jb\nc", 1, 1, NULL);
    assert_string_equal(strchr(written(&table, 0), '\n') + 1, "a?[2Jb?c  1 ns  100.0%\n");
    assert_string_equal(table.rows[0].cells[NAME].value.string, "a\033[2Jb\nc");
    table_deinit(&table);
}

/* A text of 1 to `most` characters without blanks; some have two bytes. */
static void make_name(uint64_t *random, uint32_t most, char *name)
{
    const uint32_t count = 1 + (uint32_t)random_below(random, most);

    for (uint32_t i = 0; i < count; i++)
        if (random_below(random, 9) == 0) {
            *name++ = '\xc3';
            *name++ = (char)(0xa0 + random_below(random, 20));
        } else {
            *name++ = (char)('a' + random_below(random, 26));
        }
    *name = '\0';
}

/* At every width each number is there, whole; no line is longer than it must be, and no character is cut. */
static void nothing_is_lost_at_any_width(void **state)
{
    enum { MOST = 9, ROWS = 5 };
    uint64_t random = 7;

    (void)state;
    for (int round = 0; round < 400; round++) {
        table_column some[MOST];
        struct table table = { .columns = some, .column_count = 1 + (uint32_t)random_below(&random, MOST) };
        const int width = 20 + (int)random_below(&random, 120);
        char numbers[MOST * ROWS][16];
        uint32_t count = 0;
        const char *from;

        for (uint32_t i = 0; i < table.column_count; i++)
            some[i] = (table_column){ "title", "key", random_below(&random, 3) == 0 ? TABLE_NAME : TABLE_NUMBER };
        if (random_below(&random, 2) == 0)
            some[table.column_count - 1].kind = TABLE_TEXT;
        for (int row = 0; row < ROWS; row++) {
            table_row(&table);
            for (uint32_t i = 0; i < table.column_count; i++) {
                char name[256];

                if (some[i].kind == TABLE_NUMBER) {
                    (void)snprintf(numbers[count], sizeof numbers[count], "%u",
                                   100000 + (uint32_t)random_below(&random, 900000));
                    table_whole(&table, i, atoll(numbers[count++]));
                    continue;
                }
                make_name(&random, some[i].kind == TABLE_TEXT ? 8 : 90, name);
                for (int words = 0; some[i].kind == TABLE_TEXT && words < 12; words++) {
                    (void)strcat(name, " ");
                    make_name(&random, 6, name + strlen(name));
                }
                table_text(&table, i, name);
            }
        }
        from = written(&table, width);
        for (uint32_t i = 0; i < count; i++) {
            assert_non_null(from = strstr(from, numbers[i])); /* in the order of the cells */
            from += strlen(numbers[i]);
        }
        for (const char *line = written(&table, width), *end; *line != '\0'; line = end + 1) {
            end = strchr(line, '\n');
            assert_true(text_columns(line, (size_t)(end - line)) <= (width < 30 ? 30 : width));
            for (const char *c = line; c < end; c++) /* a first byte is followed by a second one */
                assert_true(*c != '\xc3' || ((unsigned char)c[1] & 0xc0) == 0x80);
        }
        table_deinit(&table);
    }
}

static void missing_memory_is_told(void **state)
{
    uint64_t n = 0;
    bool failed = true;

    (void)state;
    for (; failed; n++) {
        struct table table = { .columns = columns, .column_count = COLUMNS };

        failing_alloc_arm(n);
        add(&table, "first", 1500, 0.1, "why");
        table_truth(&table, SHARE, true, "yes");
        table_line(&table, "%s", "a line");
        failed = failing_alloc_disarm();
        assert_int_equal(table.failed, failed);
        assert_int_equal(strcmp(written(&table, 80), "(no memory for this table)\n") == 0, failed);
        table_deinit(&table);
    }
    assert_in_range(n, 6, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_cells),
        cmocka_unit_test(gaps_go_first_then_the_middles_of_names),
        cmocka_unit_test(columns_that_do_not_fit_continue_below),
        cmocka_unit_test(texts_are_wrapped),
        cmocka_unit_test(texts_of_others_are_readable),
        cmocka_unit_test(nothing_is_lost_at_any_width),
        cmocka_unit_test(missing_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, free_text);
}
