/* The reader of protobuf's wire format, whose messages end at a page that cannot be read. */
#include "cmocka_all.h"
#include "kit/wire.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })
#define TEN_BYTES 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01

static const struct row {
    const char *name;
    const uint8_t *bytes;
    size_t count;
    wire_fault fault;
    uint32_t number;
    uint64_t value;
    size_t data; /* bytes */
} rows[] = {
    { "a number", BYTES(0x08, 0x96, 0x01), WIRE_OK, 1, 150, 0 },
    { "a number of one byte", BYTES(0x08, 0x7f), WIRE_OK, 1, 127, 0 },
    { "-1, the longest number", BYTES(0x08, TEN_BYTES), WIRE_OK, 1, UINT64_MAX, 0 },
    { "a number with superfluous bytes", BYTES(0x08, 0x81, 0x80, 0x00), WIRE_OK, 1, 1, 0 },
    { "a text", BYTES(0x12, 0x03, 'a', 'b', 'c'), WIRE_OK, 2, 3, 3 },
    { "an empty text", BYTES(0x12, 0x00), WIRE_OK, 2, 0, 0 },
    { "four bytes", BYTES(0x1d, 0x78, 0x56, 0x34, 0x12), WIRE_OK, 3, 0x12345678, 4 },
    { "eight bytes", BYTES(0x19, 1, 0, 0, 0, 0, 0, 0, 0x80), WIRE_OK, 3, 0x8000000000000001, 8 },
    { "the largest field number", BYTES(0xf8, 0xff, 0xff, 0xff, 0x0f, 0x05), WIRE_OK, 0x1fffffff, 5, 0 },
    { "field number 0", BYTES(0x00, 0x00), WIRE_BAD_KEY, 0, 0, 0 },
    { "field number 2^29", BYTES(0x80, 0x80, 0x80, 0x80, 0x10, 0x00), WIRE_BAD_KEY, 0, 0, 0 },
    { "field number 2^32 + 1", BYTES(0x88, 0x80, 0x80, 0x80, 0x80, 0x01, 0x00), WIRE_BAD_KEY, 0, 0, 0 },
    { "a truncated key", BYTES(0x88), WIRE_BAD_KEY, 0, 0, 0 },
    { "a key of eleven bytes", BYTES(0x88, TEN_BYTES), WIRE_BAD_KEY, 0, 0, 0 },
    { "the start of a group", BYTES(0x0b, 0x0c), WIRE_BAD_TYPE, 1, 0, 0 },
    { "the end of a group", BYTES(0x0c), WIRE_BAD_TYPE, 1, 0, 0 },
    { "type 6", BYTES(0x0e, 0x00), WIRE_BAD_TYPE, 1, 0, 0 },
    { "type 7", BYTES(0x0f, 0x00), WIRE_BAD_TYPE, 1, 0, 0 },
    { "a number of eleven bytes", BYTES(0x08, 0xff, TEN_BYTES), WIRE_CUT_NUMBER, 1, 0, 0 },
    { "a length of eleven bytes", BYTES(0x12, 0xff, TEN_BYTES), WIRE_CUT_LENGTH, 2, 0, 0 },
    { "a text without one byte", BYTES(0x12, 0x03, 'a', 'b'), WIRE_CUT_DATA, 2, 3, 2 },
    { "the largest length", BYTES(0x12, TEN_BYTES), WIRE_CUT_DATA, 2, UINT64_MAX, 0 },
    { "four bytes without one", BYTES(0x1d, 1, 2, 3), WIRE_CUT_DATA, 3, 4, 3 },
    { "eight bytes without one", BYTES(0x19, 1, 2, 3, 4, 5, 6, 7), WIRE_CUT_DATA, 3, 8, 7 },
};

struct state {
    size_t page;
    uint8_t *memory; /* a page, and one that cannot be read */
};

/* A copy that ends at the end of the page. */
static wire_span place(const struct state *state, const uint8_t *bytes, size_t count)
{
    uint8_t *at = state->memory + state->page - count;

    memcpy(at, bytes, count);
    return (wire_span){ at, count };
}

static void expect(uint64_t got, uint64_t expected, const char *name, const char *what)
{
    if (got != expected)
        fail_msg("%s: %s is %llu instead of %llu", name, what, (unsigned long long)got, (unsigned long long)expected);
}

static void test_fields(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        const wire_span message = place(*state, row->bytes, row->count);
        wire_span rest = message;
        wire_field field;

        expect(wire_read(&rest, &field), row->fault, row->name, "the fault");
        expect(field.number, row->number, row->name, "the field's number");
        expect(field.value, row->value, row->name, "the value");
        expect(field.data.count, row->data, row->name, "the size of the data");
        expect(rest.count, row->fault == WIRE_OK ? 0 : row->count, row->name, "the size of the rest");
        assert_ptr_equal(rest.at, message.at + message.count - rest.count);
        if (row->fault != WIRE_OK)
            continue;
        expect(field.type, row->bytes[0] & 7, row->name, "the type");
        expect(field.whole.count, row->count, row->name, "the size of the field");
        assert_ptr_equal(field.whole.at, message.at);
        assert_ptr_equal(field.data.at + field.data.count, message.at + message.count);
    }
}

/* A field that ends at any earlier byte has a fault. */
static void test_cut(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t count = 1; rows[i].fault == WIRE_OK && count < rows[i].count; count++) {
            wire_span rest = place(*state, rows[i].bytes, count);
            wire_field field;

            if (wire_next(&rest, &field) || rest.count != count)
                fail_msg("%s: %zu bytes of %zu are read", rows[i].name, count, rows[i].count);
        }
}

/* A loop ends at the end of a message with nothing left, and before a fault with something left. */
static void test_loop(void **state)
{
    static const uint8_t bytes[] = { 0x08, 0x01, 0x12, 0x01, 'x', 0x08, 0x02, 0x88 };
    wire_field field;

    for (size_t count = sizeof bytes - 1; count <= sizeof bytes; count++) {
        wire_span rest = place(*state, bytes, count);
        uint32_t fields = 0;

        while (wire_next(&rest, &field))
            fields++;
        assert_int_equal(fields, 3);
        assert_int_equal(rest.count, count - (sizeof bytes - 1));
    }
    assert_false(wire_next(&(wire_span){ NULL, 0 }, &field));
}

static void test_varint(void **state)
{
    static const uint8_t bytes[] = { TEN_BYTES, 0x05, 0x80 };
    const wire_span packed = place(*state, bytes, sizeof bytes);
    const uint8_t *at = packed.at, *const end = at + packed.count;
    uint64_t value;

    assert_true(wire_varint(&at, end, &value));
    assert_true(value == UINT64_MAX);
    assert_true(wire_varint(&at, end, &value));
    assert_int_equal(value, 5);
    assert_false(wire_varint(&at, end, &value));
    assert_ptr_equal(at, end - 1);
    at = end;
    assert_false(wire_varint(&at, end, &value));
}

static void test_is(void **state)
{
    const wire_span name = place(*state, (const uint8_t *)"name", 4);

    assert_true(wire_is(name, "name"));
    assert_false(wire_is(name, "names"));
    assert_false(wire_is(name, "nam"));
    assert_false(wire_is(name, ""));
    assert_true(wire_is((wire_span){ NULL, 0 }, ""));
}

static int make_pages(void **state)
{
    static struct state made;

    made.page = (size_t)sysconf(_SC_PAGESIZE);
    made.memory = mmap(NULL, 2 * made.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *state = &made;
    return made.memory == MAP_FAILED || mprotect(made.memory + made.page, made.page, PROT_NONE) != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields), cmocka_unit_test(test_cut), cmocka_unit_test(test_loop),
        cmocka_unit_test(test_varint), cmocka_unit_test(test_is),
    };

    return cmocka_run_group_tests(tests, make_pages, NULL);
}
