/* The parser of HTTP/1.1 alone: every case at every way to cut it into pieces. */
#include "framing_cases.h"
#include "serve/http/http1.h"
#include <stdlib.h>
#include "cmocka_all.h"

enum { MAX_HEADER = 16384, MAX_BODY = 65536 };

typedef struct parse_result {
    int status; /* as framing_case.parser */
    size_t used;
    char body[64];
    size_t body_bytes;
} parse_result;

/* Passes a copy of exact size, so that a sanitizer detects reads past the end. */
static http1_state read_head(http1_head *head, const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    http1_state state;

    assert_non_null(copy);
    memcpy(copy + 1, text, bytes); /* not aligned */
    state = http1_head_read(head, copy + 1, bytes);
    free(copy);
    return state;
}

static http1_state read_chunks(http1_chunks *chunks, const char *text, size_t bytes, parse_result *out)
{
    http1_state state = HTTP1_MORE;

    for (size_t at = 0, used; at < bytes && state == HTTP1_MORE; at += used) {
        http1_slice data;

        state = http1_chunks_read(chunks, text + at, bytes - at, &used, &data);
        assert_true(used > 0 && used <= bytes - at && data.at + data.bytes <= used);
        if (data.bytes > 0 && out->body_bytes + data.bytes <= sizeof out->body)
            memcpy(out->body + out->body_bytes, text + at + data.at, data.bytes);
        out->body_bytes += data.bytes;
        out->used += used;
    }
    return state;
}

/* Parses a request that arrives in pieces: up to `first`, then `step` bytes at once. */
static void parse(const char *text, size_t bytes, size_t first, size_t step, parse_result *out)
{
    http1_head head;
    http1_chunks chunks;
    http1_state state = HTTP1_MORE;
    size_t have = 0;

    *out = (parse_result){ .status = FRAMING_INCOMPLETE };
    http1_head_init(&head, MAX_HEADER);
    while (have < bytes && state == HTTP1_MORE) {
        size_t more = have == 0 && first > 0 ? first : step;

        have = more < bytes - have ? have + more : bytes;
        state = read_head(&head, text, have);
    }
    if (state != HTTP1_DONE) {
        out->status = state == HTTP1_BAD ? head.status : FRAMING_INCOMPLETE;
        assert_true(state != HTTP1_BAD || (head.error != NULL && head.status >= 400));
        return;
    }
    out->used = head.bytes;
    out->status = FRAMING_ACCEPTED;
    if (head.body == HTTP1_LENGTH) {
        out->body_bytes = bytes - head.bytes < head.length ? bytes - head.bytes : (size_t)head.length;
        memcpy(out->body, text + head.bytes, out->body_bytes < sizeof out->body ? out->body_bytes : sizeof out->body);
        out->used += out->body_bytes;
        if (out->body_bytes < head.length)
            out->status = FRAMING_INCOMPLETE;
    } else if (head.body == HTTP1_CHUNKED) {
        http1_chunks_init(&chunks, MAX_BODY, MAX_HEADER);
        state = HTTP1_MORE;
        for (size_t at = head.bytes; at < bytes && state == HTTP1_MORE; at = out->used) {
            size_t n = bytes - at < step ? bytes - at : step;

            state = read_chunks(&chunks, text + at, n, out);
        }
        out->status = state == HTTP1_DONE ? FRAMING_ACCEPTED : state == HTTP1_BAD ? chunks.status : FRAMING_INCOMPLETE;
        assert_true(state != HTTP1_BAD || (chunks.error != NULL && chunks.status >= 400));
    }
}

static void check(const framing_case *row, const char *text, size_t bytes, size_t first, size_t step)
{
    parse_result got;

    parse(text, bytes, first, step, &got);
    if (got.status != row->parser)
        fail_msg("%s (first %zu, step %zu): %d, not %d", row->name, first, step, got.status, row->parser);
    if (row->parser != FRAMING_ACCEPTED)
        return;
    if (got.used != bytes)
        fail_msg("%s: %zu of %zu bytes were used", row->name, got.used, bytes);
    if (got.body_bytes > 0 &&
        (got.body_bytes != strlen(FRAMING_BODY) || memcmp(got.body, FRAMING_BODY, got.body_bytes) != 0))
        fail_msg("%s: the body is %.*s", row->name, (int)got.body_bytes, got.body);
}

static void test_cases(void **state)
{
    (void)state;
    assert_true(framing_case_count >= 80);
    for (size_t i = 0; i < framing_case_count; i++) {
        const framing_case *row = &framing_cases[i];

        size_t bytes;
        char *text = framing_text(row, &bytes);

        assert_non_null(text);
        check(row, text, bytes, 0, bytes);
        check(row, text, bytes, 0, bytes < 1000 ? 1 : 97);
        for (size_t first = 1; first < bytes && first < 600; first++)
            check(row, text, bytes, first, bytes);
        free(text);
    }
}

/* A request that follows is not touched: an accepted request ends exactly where it ends without one. */
static void test_pipelining(void **state)
{
    static const char next[] = "GET /smuggled HTTP/1.1\r\nHost: b\r\n\r\n";

    (void)state;
    for (size_t i = 0; i < framing_case_count; i++) {
        const framing_case *row = &framing_cases[i];
        size_t bytes;
        char *text = framing_text(row, &bytes), *both = realloc(text, bytes + sizeof next);
        parse_result got;

        assert_true(text != NULL && both != NULL);
        memcpy(both + bytes, next, sizeof next);
        parse(both, bytes + sizeof next - 1, 0, bytes + sizeof next, &got);
        if (row->parser == FRAMING_ACCEPTED && (got.status != FRAMING_ACCEPTED || got.used != bytes))
            fail_msg("%s: %d, %zu of %zu bytes", row->name, got.status, got.used, bytes);
        if (row->parser > 0 && got.status != row->parser)
            fail_msg("%s: %d, not %d", row->name, got.status, row->parser);
        free(both);
    }
}

static void test_head(void **state)
{
    static const char text[] = "POST http://b:1/a%20b?c HTTP/1.1\r\nHost: x\r\nX-One:  1 2\t\r\nx-one: 3\r\nE:\r\n"
                               "Content-Length: 7\r\nConnection: close\r\nExpect: 100-continue\r\n\r\nrest";
    http1_head head;
    const http1_field *field;

    (void)state;
    http1_head_init(&head, sizeof text);
    assert_int_equal(http1_head_read(&head, text, sizeof text - 1), HTTP1_DONE);
    assert_int_equal(head.bytes, sizeof text - 1 - strlen("rest"));
    assert_true(head.method.bytes == 4 && memcmp(text + head.method.at, "POST", 4) == 0);
    assert_true(head.path.bytes == 6 && memcmp(text + head.path.at, "/a%20b", 6) == 0);
    assert_true(head.authority.bytes == 3 && memcmp(text + head.authority.at, "b:1", 3) == 0);
    assert_int_equal(head.body, HTTP1_LENGTH);
    assert_int_equal(head.length, 7);
    assert_true(head.expects_continue && !head.keep_alive && head.minor == 1);
    assert_true(head.field_count >= 4);
    field = &head.fields[1];
    assert_true(field->name.bytes == 5 && memcmp(text + field->name.at, "X-One", 5) == 0);
    assert_true(field->value.bytes == 3 && memcmp(text + field->value.at, "1 2", 3) == 0);
    field = &head.fields[3];
    assert_true(field->name.bytes == 1 && text[field->name.at] == 'E' && field->value.bytes == 0);
}

static void test_paths(void **state)
{
    static const struct {
        const char *path, *decoded;
    } rows[] = { { "", "" },
                 { "/", "/" },
                 { "/a%20%41", "/a A" },
                 { "/%2f", "/%2f" },
                 { "/%2F%2e", "/%2F." },
                 { "/%25%32%46", "/%2F" },
                 { "/%C3%A9", "/\xc3\xa9" } };
    char to[16];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(http1_decode_path(rows[i].path, strlen(rows[i].path), to, sizeof to));
        assert_string_equal(to, rows[i].decoded);
        assert_true(http1_decode_path(rows[i].path, strlen(rows[i].path), to, strlen(rows[i].decoded) + 1));
        assert_false(http1_decode_path(rows[i].path, strlen(rows[i].path), to, strlen(rows[i].decoded)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_pipelining),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
