/* Parsers of untrusted bytes: numbers, strings, requests; every byte of valid requests is changed. */
#include "codecs/datatype.h"
#include "serve/request/infer.h"
#include "serve/http/route.h"
#include <math.h>
#include <stdlib.h>
#include "cmocka_all.h"

static void test_numbers(void **state)
{
    static const struct {
        const char *text;
        double value;
    } rows[] = { { "0", 0 },
                 { "-0", -0.0 },
                 { "0.1", 0.1 },
                 { "123456789012345678", 123456789012345678.0 },
                 { "1e308", 1e308 },
                 { "1e999", INFINITY },
                 { "5e-324", 5e-324 },
                 { "3.141592653589793", 3.141592653589793 },
                 { "9007199254740993", 9007199254740992.0 },
                 { "0.30000000000000004", 0.30000000000000004 },
                 { "123456.789e-3", 123.456789 } };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[64];
        json_text number;
        json_reader reader;
        double value;

        (void)snprintf(text, sizeof text, "%s", rows[i].text);
        reader_begin(&reader, text, strlen(text));
        assert_true(reader_number(&reader, &number) && reader_end(&reader));
        assert_true(text_to_double(number, &value));
        assert_memory_equal(&value, &rows[i].value, sizeof value);
    }
}

static void test_invalid_json(void **state)
{
    static const char *const texts[] = { "",        "-",         "01",    "1.",    ".5",      "1e",
                                         "+1",      "nul",       "true1", "\"a",   "\"\\x\"", "[1,]",
                                         "{\"a\"}", "{\"a\":}",  "[1 2]", "{a:1}", "\"\t\"",  "[",
                                         "{",       "\"\\u12\"", "NaN",   "1 1" };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t bytes = strlen(texts[i]);
        char *copy = malloc(bytes > 0 ? bytes : 1); /* exactly as long as the text, so that over-reads are detected */
        json_text span;
        json_reader reader;

        assert_non_null(copy);
        memcpy(copy, texts[i], bytes);
        reader_begin(&reader, copy, bytes);
        (void)reader_skip(&reader, &span);
        if (reader_end(&reader))
            fail_msg("'%s' was taken", texts[i]);
        assert_non_null(reader.error);
        free(copy);
    }
}

static void test_strings(void **state)
{
    char text[] = "\"a\\u00e9\\ud83d\\ude00\\n\\/\" ";
    json_reader reader;
    json_text out;
    struct strbuf strbuf = { .data = NULL };

    (void)state;
    reader_begin(&reader, text, sizeof text - 1);
    assert_true(reader_string(&reader, &out) && reader_end(&reader));
    assert_int_equal(out.bytes, 9);
    assert_memory_equal(out.data, "a\xc3\xa9\xf0\x9f\x98\x80\n/", 9);
    strbuf_json(&strbuf, "a\"\\\n\x7f\xff\xc3\xa9", 8);
    assert_int_equal(strbuf.size, strlen("\"a\\\"\\\\\\u000a\\u007f\\ufffd\xc3\xa9\""));
    assert_memory_equal(strbuf.data, "\"a\\\"\\\\\\u000a\\u007f\\ufffd\xc3\xa9\"", strbuf.size);
    strbuf_deinit(&strbuf);
}

static void test_routes(void **state)
{
    (void)state;
    assert_int_equal(route_find("/v2/models/m/versions/12/infer").kind, ROUTE_INFER);
    assert_int_equal(route_find("/v2/models/m/versions/12/infer").version, 12);
    assert_int_equal(route_find("/v2/models/m/infer").name_bytes, 1);
    assert_int_equal(route_find("/v2/models/m/versions/012345678901234567890/infer").kind, ROUTE_NONE);
    assert_int_equal(route_find("/v2/models/stats").kind, ROUTE_STATS);
    assert_int_equal(route_find("/v2/repository/models/m/load").kind, ROUTE_LOAD);
    assert_int_equal(route_find("/v2/repository/models//load").kind, ROUTE_NONE);
    assert_int_equal(route_find("/v2/models//infer").kind, ROUTE_NONE);
    assert_int_equal(route_find("").kind, ROUTE_NONE);
}

/* Each path of the table leads to its route, with names in place of the braces. */
static void test_paths(void **state)
{
    const route_path *path;

    (void)state;
    for (size_t i = 0; (path = route_path_at(i)) != NULL; i++) {
        char text[128];
        size_t used = 0;

        for (const char *at = path->path; *at != '\0'; at++) {
            text[used++] = *at != '{' ? *at : strncmp(at, "{version}", 9) == 0 ? '3' : 'm';
            if (*at == '{')
                at = strchr(at, '}');
        }
        text[used] = '\0';
        if (route_find(text).kind != path->kind)
            fail_msg("%s is route %d", text, (int)route_find(text).kind);
    }
}

/* Parses an exact-size copy and reads every element, so that a sanitizer detects errors. */
static inlay_status parse(const char *text, size_t bytes, size_t json_bytes, infer_request *request, char **body,
                          inlay_diag *diag)
{
    inlay_status status;

    *body = malloc(bytes + (bytes == 0));
    assert_non_null(*body);
    memcpy(*body, text, bytes);
    status = infer_parse_rest(*body, bytes, json_bytes, request, diag);
    if (status == INLAY_OK)
        assert_true(request->input_count > 0);
    else
        assert_true(diag->text[0] != '\0' && strchr(diag->text, '\n') == NULL && request->inputs == NULL);
    for (uint32_t i = 0; i < request->input_count; i++) {
        const infer_tensor *tensor = &request->inputs[i];
        volatile unsigned char sum = 0;

        assert_int_equal(
            (uintptr_t)tensor->data % (datatype_bytes(tensor->dtype) < 8 ? datatype_bytes(tensor->dtype) : 8), 0);
        for (uint64_t k = 0; k < tensor->bytes; k++)
            sum = (unsigned char)(sum + ((const unsigned char *)tensor->data)[k]);
        for (uint64_t k = 0; tensor->dtype == INLAY_STRING && k < tensor->count; k++)
            for (uint64_t c = 0; c < ((const inlay_str *)tensor->data)[k].bytes; c++)
                sum = (unsigned char)(sum + (unsigned char)((const inlay_str *)tensor->data)[k].data[c]);
    }
    return status;
}

static const struct {
    const char *text;
    size_t bytes, json_bytes;
} good[] = {
#define ROW(json, binary)                                                                                              \
    {                                                                                                                  \
        json binary, sizeof(json binary) - 1, sizeof(json) - 1                                                         \
    }
    ROW("{\"id\":\"7\",\"parameters\":{\"timeout\":5,\"priority\":1,\"x\":[1,{\"y\":null}]},\"inputs\":[{\"name\":"
        "\"x\",\"shape\":[2,2],\"datatype\":\"FP32\",\"data\":[[1,2.5],[-3e1,4]]}],\"outputs\":[{\"name\":\"y\"}]}",
        ""),
    ROW("{\"inputs\":[{\"name\":\"s\",\"shape\":[2],\"datatype\":\"BYTES\",\"data\":[\"a\\u00e9\",\"b\"]},"
        "{\"name\":\"b\",\"shape\":[],\"datatype\":\"BOOL\",\"data\":[true]}]}",
        ""),
    ROW("{\"inputs\":[{\"name\":\"x\",\"shape\":[1,2],\"datatype\":\"INT16\",\"parameters\":{\"binary_data_size\":4}},"
        "{\"name\":\"s\",\"shape\":[2],\"datatype\":\"BYTES\",\"parameters\":{\"binary_data_size\":11}}]}",
        "\1\2\3\4\3\0\0\0abc\0\0\0\0"),
    ROW("{\"inputs\":[{\"name\":\"i\",\"shape\":[3],\"datatype\":\"UINT64\",\"data\":[0,1,18446744073709551615]}]}",
        ""),
#undef ROW
};

static void test_every_byte_changed(void **state)
{
    uint32_t taken = 0, refused = 0;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char changed[1024];

        for (size_t at = 0; at <= good[i].bytes; at++) {
            static const unsigned char puts[] = { 0x00, 0xff, '"', '{', '[', ']', '}', '9', ',', '\\', '-' };

            for (size_t k = 0; k < sizeof puts + 8; k++) {
                infer_request request;
                inlay_diag diag = INLAY_DIAG_INIT;
                char *body;

                memcpy(changed, good[i].text, good[i].bytes);
                if (at < good[i].bytes)
                    changed[at] = (char)(k < 8 ? changed[at] ^ (1 << k) : puts[k - 8]);
                *(parse(changed, good[i].bytes, good[i].json_bytes, &request, &body, &diag) == INLAY_OK ? &taken
                                                                                                        : &refused) +=
                    1;
                infer_request_deinit(&request);
                free(body);
            }
        }
    }
    assert_true(taken > 100 && refused > 1000);
}

static void test_truncated_at_every_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        for (size_t bytes = 0; bytes <= good[i].bytes; bytes++) {
            infer_request request;
            inlay_diag diag = INLAY_DIAG_INIT;
            char *body;
            inlay_status status = parse(good[i].text, bytes, good[i].json_bytes < bytes ? good[i].json_bytes : bytes,
                                        &request, &body, &diag);

            assert_int_equal(status == INLAY_OK, bytes == good[i].bytes);
            infer_request_deinit(&request);
            free(body);
        }
    }
}

/* Binary data that is aligned for its type becomes the tensor; unaligned data is copied and counted. */
static void test_aligned_data_is_not_copied(void **state)
{
#define BINARY(name, shape, type, bytes)                                                                               \
    "{\"name\":\"" name "\",\"shape\":[" shape "],\"datatype\":\"" type                                                \
    "\",\"parameters\":{\"binary_data_size\":" bytes "}}"
    static const struct {
        const char *inputs;
        uint32_t count;
        size_t at[3], bytes; /* where each begins after the JSON; total size */
        uint64_t copied;
    } rows[] = {
        { BINARY("a", "2,2", "FP32", "16"), 1, { 0 }, 16, 0 },
        { BINARY("a", "2", "FP64", "16") "," BINARY("b", "1,3", "FP32", "12") "," BINARY("c", "3", "BOOL", "3"),
          3,
          { 0, 16, 28 },
          31,
          0 },
        { BINARY("a", "1", "FP16", "2") "," BINARY("b", "2", "BF16", "4"), 2, { 0, 2 }, 6, 0 },
        { BINARY("a", "1", "INT16", "2") "," BINARY("b", "3", "INT32", "12"), 2, { 0, 2 }, 14, 12 },
        { BINARY("a", "1", "BOOL", "1") "," BINARY("b", "1", "INT64", "8"), 2, { 0, 1 }, 9, 8 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        _Alignas(64) char memory[1024];
        inlay_diag diag = INLAY_DIAG_INIT;
        infer_request request;
        char json[512], *body;
        size_t bytes = (size_t)snprintf(json, sizeof json, "{\"inputs\":[%s]}", rows[i].inputs);

        body = memory + 512 - bytes; /* the data after the JSON is aligned, as the server places it */
        memcpy(body, json, bytes);
        for (size_t k = 0; k < rows[i].bytes; k++)
            memory[512 + k] = (char)(k & 1);
        assert_int_equal(infer_parse_rest(body, bytes + rows[i].bytes, bytes, &request, &diag), INLAY_OK);
        assert_int_equal(request.input_count, rows[i].count);
        assert_int_equal(request.copied_bytes, rows[i].copied);
        for (uint32_t k = 0; k < request.input_count; k++) {
            const char *arrived = memory + 512 + rows[i].at[k];

            if (rows[i].copied == 0 || k == 0)
                assert_ptr_equal(request.inputs[k].data, arrived);
            else
                assert_ptr_not_equal(request.inputs[k].data, arrived);
            assert_memory_equal(request.inputs[k].data, arrived, request.inputs[k].bytes);
        }
        infer_request_deinit(&request);
    }
#undef BINARY
}

/* A key that an object has twice is refused at each level, also if one of them is written with escapes. */
static void test_keys(void **state)
{
#define INPUT(more) "{\"name\":\"x\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]" more "}"
    static const char *const twice[] = {
        "{\"inputs\":[" INPUT("") "],\"inputs\":[" INPUT("") "]}",
        "{\"inputs\":[" INPUT("") "],\"\\u0069nputs\":[" INPUT("") "]}",
        "{\"inputs\":[" INPUT(",\"data\":[2]") "]}",
        "{\"inputs\":[" INPUT(",\"parameters\":{\"a\":1,\"a\":2}") "]}",
        "{\"inputs\":[" INPUT("") "],\"parameters\":{\"timeout\":1,\"timeout\":2}}",
    };
    static const char once[] = "{\"parameters\":{\"a\":1},\"inputs\":[" INPUT(",\"parameters\":{\"a\":1}") "]}";
    infer_request request = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    char *body;

    (void)state;
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++) {
        assert_int_equal(parse(twice[i], strlen(twice[i]), strlen(twice[i]), &request, &body, &diag),
                         INLAY_INVALID_ARGUMENT);
        if (strstr(diag.text, "a key that the object has already") == NULL)
            fail_msg("%s: %s", twice[i], diag.text);
        infer_request_deinit(&request);
        free(body);
    }
    assert_int_equal(parse(once, strlen(once), strlen(once), &request, &body, &diag), INLAY_OK);
    infer_request_deinit(&request);
    free(body);
}

/* The shape of a body without JSON follows from its size, or the reason why not is stated. */
static void test_body_of_elements(void **state)
{
    enum { F = INLAY_FLOAT, S = INLAY_STRING, B = INLAY_BOOL };
    static const struct {
        int64_t dims[3];
        uint32_t rank, dtype;
        bool has_rows;
        size_t bytes;
        int64_t shape[3];
        const char *part; /* of the failure */
    } rows[] = { { { 2, 3 }, 2, F, false, 24, { 2, 3 }, NULL },
                 { { -1, 3 }, 2, F, false, 24, { 2, 3 }, NULL },
                 { { -1, 3 }, 2, F, true, 12, { 1, 3 }, NULL },
                 { { -1, 3 }, 2, F, true, 36, { 3, 3 }, NULL },
                 { { -1, -1, 2 }, 3, F, true, 40, { 1, 5, 2 }, NULL },
                 { { 2, -1 }, 2, F, true, 16, { 2, 2 }, NULL },
                 { { 0 }, 0, F, false, 4, { 0 }, NULL },
                 { { -1 }, 1, S, true, 5, { 1 }, NULL },
                 { { 1, 1 }, 2, S, false, 5, { 1, 1 }, NULL },
                 { { -1 }, 1, B, true, 3, { 3 }, NULL },
                 { { 2, 3 }, 2, F, false, 20, { 0 }, "has 20 bytes of data, but its shape needs 24" },
                 { { -1, 3 }, 2, F, true, 16, { 0 }, "has 16 bytes of data, but its shape needs 12" },
                 { { -1, 0 }, 2, F, true, 16, { 0 }, "has 16 bytes of data, but its shape needs 0" },
                 { { -1, -1 }, 2, F, false, 16, { 0 }, "axis 1 has any size, too; send JSON" },
                 { { 3, -1, -1 }, 3, F, true, 36, { 0 }, "axis 2 has any size, too; send JSON" },
                 { { -1, -1, -1 }, 3, F, true, 36, { 0 }, "axis 2 has any size, too; send JSON" },
                 { { INT64_MAX, 4 }, 2, F, true, 36, { 0 }, "the shape is too large" },
                 { { -1 }, 1, S, false, 5, { 0 }, "axis 0 has any size; send JSON" },
                 { { 1, -1 }, 2, S, true, 5, { 0 }, "axis 1 has any size; send JSON" },
                 { { 2 }, 1, S, true, 5, { 0 }, "has 2 elements, but the body is one" },
                 { { 0 }, INLAY_RANK_UNKNOWN, F, true, 4, { 0 }, "the number of axes of input 'x' is not known" } };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const inlay_io_info input = {
            .name = "x", .kind = INLAY_KIND_TENSOR, .dtype = rows[i].dtype, .rank = rows[i].rank, .dims = rows[i].dims
        };
        infer_request request = { 0 };
        inlay_diag diag = INLAY_DIAG_INIT;
        char *body = calloc(1, rows[i].bytes); /* exactly as long, so that over-reads are detected */

        assert_non_null(body);
        if (infer_set_body(&request, &input, rows[i].has_rows, body, rows[i].bytes, &diag) == INLAY_OK)
            (void)snprintf(diag.text, sizeof diag.text, "accepted");
        if (strstr(diag.text, rows[i].part != NULL ? rows[i].part : "accepted") == NULL)
            fail_msg("row %zu: %s", i, diag.text);
        if (rows[i].part == NULL) {
            const inlay_str *text = request.inputs->data;

            assert_memory_equal(request.inputs->dims, rows[i].shape, rows[i].rank * sizeof(int64_t));
            if (rows[i].dtype == S)
                assert_true(text->data == body && text->bytes == rows[i].bytes);
            else
                assert_true(request.inputs->bytes == rows[i].bytes);
        }
        infer_request_deinit(&request);
        free(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_invalid_json),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_every_byte_changed),
        cmocka_unit_test(test_truncated_at_every_byte),
        cmocka_unit_test(test_aligned_data_is_not_copied),
        cmocka_unit_test(test_body_of_elements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
