/* The protocol over REST from a client's view. */
#include "client.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;

static int start(void **state)
{
    static const char *const flags[] = { "--max-body-bytes", "65536", "--receive-timeout-ms", "1000", NULL };

    *state = &server;
    serving_open(&server, flags);
    return 0;
}

static void expect(const char *method, const char *path, const char *body, int code, const char *part)
{
    struct answer answer;

    client_once(&server, method, path, "", body, &answer);
    if (answer.code != code || strstr(answer.body, part) == NULL)
        fail_msg("%s %s %s: expected %d with '%s', got %d: %s", method, path, body != NULL ? body : "", code, part,
                 answer.code, answer.body);
}

static void test_metadata(void **state)
{
    (void)state;
    expect("GET", "/v2/health/live", NULL, 200, "");
    expect("GET", "/v2/health/ready", NULL, 200, "");
    expect("GET", "/v2", NULL, 200, "\"name\":\"inlay\"");
    expect("GET", "/v2", NULL, 200,
           "\"extensions\":[\"binary_tensor_data\",\"model_repository\",\"model_repository(unload_dependents)\","
           "\"model_configuration\",\"schedule_policy\",\"sequence\",\"parameters\",\"statistics\",\"trace\","
           "\"logging\"]}");
    expect("GET", "/v2/models/twice", NULL, 200,
           "\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[-1,3]}]");
    expect("GET", "/v2/models/triple", NULL, 200, "\"versions\":[\"2\"]");
    expect("GET", "/v2/models/twice/ready", NULL, 200, "\"ready\":true");
    expect("GET", "/v2/models/twice/versions/1/ready", NULL, 200, "\"ready\":true");
    expect("POST", "/v2/repository/index", "", 200, "{\"name\":\"triple\",\"version\":\"1\",\"state\":\"UNAVAILABLE\"");
    expect("GET", "/", NULL, 200, "<title>inlay serve</title>");
    expect("GET", "/metrics", NULL, 200, "inlay_requests_total{model=\"twice\",version=\"1\"}");
    expect("GET", "/metrics", NULL, 200, "inlay_provider_nodes{model=\"twice\",version=\"1\",provider=\"");
}

static void test_unknown_paths(void **state)
{
    static const char *const paths[] = { "/x",
                                         "/v2/models/",
                                         "/v2/models/nope",
                                         "/v2/models/triple/versions/1",
                                         "/v2/models/triple/versions/0",
                                         "/v2/models/triple/versions/99999999999999999999",
                                         "/v2/models/twice/versions/1x",
                                         "/v2/models/..%2f..%2fetc%2fpasswd",
                                         "/v2/models/%2e%2e/ready",
                                         "/v2/models/models%2Ftwice",
                                         "/v2/models/twice%00",
                                         "/../../etc/passwd",
                                         "/v2/models/twice/infer/",
                                         "//v2" };

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        expect("GET", paths[i], NULL, strstr(paths[i], "%00") != NULL ? 400 : 404, "error");
    expect("GET", "/v2/models/twice/infer", NULL, 405, "not allowed for this path");
    expect("DELETE", "/v2/models/twice", NULL, 405, "not allowed for this path");
}

/* Values of every type are returned unchanged. */
static void test_types_in_json(void **state)
{
    static const struct {
        const char *type, *data;
    } rows[] = {
        { "BOOL", "[true,false]" },
        { "UINT8", "[0,255]" },
        { "UINT16", "[0,65535]" },
        { "UINT32", "[0,4294967295]" },
        { "UINT64", "[0,18446744073709551615]" },
        { "INT8", "[-128,127]" },
        { "INT16", "[-32768,32767]" },
        { "INT32", "[-2147483648,2147483647]" },
        { "INT64", "[-9223372036854775808,9223372036854775807]" },
        { "FP32", "[0.5,-3.0]" },
        { "FP64", "[0.10000000000000001,1.0000000000000001e+300]" },
        { "BYTES", "[\"a\\\"\\\\b\",\"\xc3\xa9\"]" },
    };
    char body[512], path[64], want[256];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)snprintf(body, sizeof body,
                       "{\"id\":\"r\",\"inputs\":[{\"data\":%s,\"name\":\"x\",\"shape\":[2],\"datatype\":\"%s\"}]}",
                       rows[i].data, rows[i].type);
        (void)snprintf(path, sizeof path, "/v2/models/id_%s/infer", rows[i].type);
        (void)snprintf(want, sizeof want, "\"datatype\":\"%s\",\"shape\":[2],\"data\":%s}", rows[i].type, rows[i].data);
        expect("POST", path, body, 200, want);
        expect("POST", path, body, 200, "\"id\":\"r\"");
    }
}

static void test_types_in_bytes(void **state)
{
    static const struct {
        const char *type, *data; /* two elements */
        size_t bytes;
    } rows[] = { { "BOOL", "\1\0", 2 },
                 { "INT16", "\1\2\3\4", 4 },
                 { "FP16", "\0\74\0\300", 4 },
                 { "BF16", "\200\77\0\300", 4 },
                 { "FP64", "12345678abcdefgh", 16 },
                 { "UINT64", "12345678abcdefgh", 16 },
                 { "BYTES", "\3\0\0\0a\0\377\0\0\0\0", 11 } };
    int fd = client_connect(&server);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char body[512], path[64], headers[96], value[32];
        struct answer answer;
        int json = snprintf(body, sizeof body,
                            "{\"inputs\":[{\"name\":\"x\",\"shape\":[2],\"datatype\":\"%s\",\"parameters\":"
                            "{\"binary_data_size\":%zu}}],\"outputs\":[{\"name\":\"y\",\"parameters\":"
                            "{\"binary_data\":true}}]}",
                            rows[i].type, rows[i].bytes);

        memcpy(body + json, rows[i].data, rows[i].bytes);
        (void)snprintf(path, sizeof path, "/v2/models/id_%s/infer", rows[i].type);
        (void)snprintf(headers, sizeof headers, "Inference-Header-Content-Length: %d\r\n", json);
        client_call(fd, "POST", path, headers, body, (size_t)json + rows[i].bytes, &answer);
        if (answer.code != 200)
            fail_msg("%s: %d %s", rows[i].type, answer.code, answer.body);
        assert_non_null(answer_header(&answer, "Inference-Header-Content-Length", value, sizeof value));
        json = (int)strtol(value, NULL, 10);
        assert_int_equal(answer.body_bytes, (size_t)json + rows[i].bytes);
        assert_memory_equal(answer.body + json, rows[i].data, rows[i].bytes);
    }
    (void)close(fd);
}

/* Requests without JSON: the body is the elements, and the outputs are binary data. */
static void test_raw_requests(void **state)
{
    static const float sent[] = { 1, 2, 3, 4, 5, 6 }, doubled[] = { 2, 4, 6, 8, 10, 12 };
    const char *none = "Inference-Header-Content-Length: 0\r\n";
    int fd = client_connect(&server);
    struct answer answer;
    char value[32];

    (void)state;
    client_call(fd, "POST", "/v2/models/twice/infer", none, sent, sizeof sent, &answer);
    assert_int_equal(answer.code, 200);
    assert_non_null(strstr(answer.body, "\"shape\":[2,3],\"parameters\":{\"binary_data_size\":24}"));
    assert_non_null(answer_header(&answer, "Inference-Header-Content-Length", value, sizeof value));
    assert_memory_equal(answer.body + strtol(value, NULL, 10), doubled, sizeof doubled);
    client_call(fd, "POST", "/v2/models/id_BYTES/infer", none, "a text", 6, &answer);
    assert_int_equal(answer.code, 200);
    assert_memory_equal(answer.body + answer.body_bytes - 10, "\6\0\0\0a text", 10);
    client_call(fd, "POST", "/v2/models/twice/infer", none, sent, 16, &answer);
    assert_int_equal(answer.code, 400);
    assert_non_null(strstr(answer.body, "has 16 bytes of data, but its shape needs 12"));
    client_call(fd, "POST", "/v2/models/pair/infer", none, sent, 16, &answer);
    assert_int_equal(answer.code, 400);
    assert_non_null(strstr(answer.body, "needs a model with one input, but model 'pair' has 2"));
    (void)close(fd);
}

/* Sends a request with two binary tensors after a header and a JSON of the given lengths; whole, or the body after the
 * server has asked for it. Returns the size of its body. */
static size_t send_pair(int fd, int id_bytes, int pad_bytes, bool in_parts)
{
    static const float data[4] = { 1, 2, 30, 40 };
    char text[1024], json[512];
    struct answer answer;
    int head, n = snprintf(
                  json, sizeof json,
                  "{\"id\":\"%0*d\",\"inputs\":[{\"name\":\"a\",\"shape\":[1,2],\"datatype\":\"FP32\",\"parameters\":"
                  "{\"binary_data_size\":8}},{\"name\":\"b\",\"shape\":[1,2],\"datatype\":\"FP32\",\"parameters\":"
                  "{\"binary_data_size\":8}}]}",
                  id_bytes, 0);

    head = snprintf(text, sizeof text,
                    "POST /v2/models/pair/infer HTTP/1.1\r\nHost: localhost\r\nX-Pad: %0*d\r\nContent-Length: %zu\r\n"
                    "Inference-Header-Content-Length: %d\r\n%s\r\n%s",
                    pad_bytes, 0, (size_t)n + sizeof data, n, in_parts ? "Expect: 100-continue\r\n" : "", json);
    memcpy(text + head, data, sizeof data);
    if (in_parts) {
        client_send(fd, text, (size_t)(head - n));
        client_receive(fd, &answer);
        assert_int_equal(answer.code, 100);
        client_send(fd, text + head - n, (size_t)n + 3);
        client_send(fd, text + head + 3, sizeof data - 3);
    } else {
        client_send(fd, text, (size_t)head + sizeof data);
    }
    client_receive(fd, &answer);
    if (answer.code != 200 || strstr(answer.body, "[31.0,42.0]") == NULL)
        fail_msg("%d, %d: %d %s", id_bytes, pad_bytes, answer.code, answer.body);
    return (size_t)n + sizeof data;
}

/* At any alignment of binary tensors, only the part of a body that arrives together with the header is copied; the
 * rest is received where the run uses it. Tensors in JSON are copied for the run, and are counted. */
static void test_binary_tensors_are_not_copied(void **state)
{
    double before = client_metric(&server, "inlay_copied_bytes_total");
    double moved = client_metric(&server, "inlay_moved_bytes_total"), most = moved;
    int fd = client_connect(&server);

    (void)state;
    assert_true(before >= 0 && moved >= 0);
    for (int i = 1; i <= 64; i++)
        (void)send_pair(fd, i, 1 + i * 7 % 64, true);
    assert_true(client_metric(&server, "inlay_moved_bytes_total") == moved);
    for (int i = 1; i <= 64; i++)
        most += (double)send_pair(fd, i, 1 + i * 5 % 64, false);
    (void)close(fd);
    assert_true(client_metric(&server, "inlay_copied_bytes_total") == before);
    assert_true(client_metric(&server, "inlay_moved_bytes_total") <= most);
    expect("POST", "/v2/models/twice/infer",
           "{\"inputs\":[{\"name\":\"x\",\"shape\":[2,3],\"datatype\":\"FP32\",\"data\":[1,2,3,4,5,6]}]}", 200,
           "12.0]");
    assert_true(client_metric(&server, "inlay_copied_bytes_total") == before + 24);
}

#define INPUT(shape, type, rest) "{\"inputs\":[{\"name\":\"x\",\"shape\":" shape ",\"datatype\":\"" type "\"" rest "}]}"

static void test_wrong_requests(void **state)
{
    static const struct {
        const char *body, *part;
    } rows[] = {
        { "", "no body" },
        { "{", "byte 1" },
        { "{}", "no inputs" },
        { "{\"inputs\":[]}", "no inputs" },
        { "[1]", "expected an object" },
        { "{\"inputs\":[{\"name\":\"x\"}]}", "has no shape" },
        { "{\"inputs\":[{\"shape\":[1]}]}", "inputs[0] has no name" },
        { INPUT("[1,3]", "FP32", ""), "neither data" },
        { INPUT("[1,3]", "FP32", ",\"data\":[1,2]"), "has 2 elements, but its shape has 3" },
        { INPUT("[1,3]", "FP32", ",\"data\":[1,2,3,4]"), "more elements" },
        { INPUT("[1,3]", "FP32", ",\"data\":[1,2,\"3\"]"), "expected a number" },
        { INPUT("[1,3]", "FP32", ",\"data\":[1,2,01]"), "expected ','" },
        { INPUT("[1,3]", "FLOAT", ",\"data\":[1,2,3]"), "unknown datatype 'FLOAT'" },
        { INPUT("[1,3]", "FP64", ",\"data\":[1,2,1e39]"), "expects FP32, in which element 2, 1e+39, is too large: "
                                                          "send FP32" },
        { INPUT("[1,3]", "BYTES", ",\"data\":[\"1\",\"2\",\"3\"]"), "is BYTES, but the model expects FP32" },
        { INPUT("[1,4]", "FP32", ",\"data\":[1,2,3,4]"), "the model expects [-1,3]" },
        { INPUT("[3]", "FP32", ",\"data\":[1,2,3]"), "the model expects [-1,3]" },
        { INPUT("[-1,3]", "FP32", ",\"data\":[1,2,3]"), "not a non-negative integer" },
        { INPUT("[1e9,3]", "FP32", ",\"data\":[1,2,3]"), "not a non-negative integer" },
        { INPUT("[9223372036854775807,9223372036854775807]", "FP32", ",\"data\":[1]"), "the shape is too large" },
        { INPUT("[4611686018427387904,3]", "FP32", ",\"data\":[1]"), "the shape is too large" },
        { INPUT("[100000000,3]", "FP32", ",\"data\":[1]"), "fewer elements" },
        { INPUT("[1,3]", "FP32", ",\"parameters\":{\"binary_data_size\":12}"), "0 bytes of binary data are left" },
        { INPUT("[1,3]", "FP32", ",\"parameters\":{\"shared_memory_region\":\"a\"}"), "shared memory" },
        { INPUT("[1,3]", "FP16", ",\"data\":[1,2,3]"), "cannot be sent as JSON" },
        { "{\"inputs\":[{\"name\":\"z\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}",
          "no input 'z'; it has x" },
        { "{\"inputs\":[{\"name\":\"x\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]},"
          "{\"name\":\"x\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}]}",
          "given twice" },
        { "{\"outputs\":[{\"name\":\"z\"}],\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\","
          "\"data\":[1,2,3]}]}",
          "no output 'z'" },
        { "{\"inputs\":[{\"name\":\"\\u0000\"}]}", "NUL" },
        { "{\"inputs\":[{\"name\":\"\\ud800\"}]}", "surrogate" },
        { "{\"inputs\":[{\"name\":\"\xff\"}]}", "UTF-8" },
        { "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "expected an object" },
        { "{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "nested too deeply" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect("POST", "/v2/models/twice/infer", rows[i].body, 400, rows[i].part);
    expect("POST", "/v2/models/pair/infer",
           "{\"inputs\":[{\"name\":\"a\",\"shape\":[1,2],\"datatype\":\"FP32\",\"data\":[1,2]}]}", 400,
           "input 'b' is missing");
    expect("POST", "/v2/models/pair/infer",
           "{\"inputs\":[{\"name\":\"a\",\"shape\":[1,2],\"datatype\":\"FP32\",\"data\":[1,2]},"
           "{\"name\":\"b\",\"shape\":[2,2],\"datatype\":\"FP32\",\"data\":[1,2,3,4]}]}",
           400, "rows");
    expect("POST", "/v2/models/twice/infer", INPUT("[0,3]", "FP32", ",\"data\":[]"), 200, "\"data\":[]");
}

/* Bytes that are not a request, or not valid HTTP: an answer of 4xx, or the end of the connection. */
static void test_invalid_http(void **state)
{
    static const char *const texts[] = {
        "\r\n\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n"
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int fd = client_connect(&server);
        struct answer answer;

        client_text(fd, texts[i]);
        (void)shutdown(fd, SHUT_WR);
        client_receive(fd, &answer);
        if (answer.code != 0 && answer.code / 100 != 4 && answer.code != 505)
            fail_msg("bytes %zu got %d", i, answer.code);
        (void)close(fd);
    }
    expect("GET", "/v2/health/live", NULL, 200, "");
}

static void test_sizes(void **state)
{
    static char big[70000];
    struct answer answer;
    int fd = client_connect(&server);

    (void)state;
    memset(big, 'a', sizeof big - 1);
    client_call(fd, "POST", "/v2/models/twice/infer", "", big, sizeof big - 1, &answer);
    assert_int_equal(answer.code, 413);
    (void)close(fd);
    /* The same without a declared length. */
    fd = client_connect(&server);
    client_text(
        fd, "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n11170\r\n");
    client_send(fd, big, 70000);
    client_text(fd, "\r\n0\r\n\r\n");
    client_receive(fd, &answer);
    assert_int_equal(answer.code, 413);
    (void)close(fd);
    fd = client_connect(&server);
    client_text(fd, "GET / HTTP/1.1\r\nHost: localhost\r\nx-y: ");
    client_send(fd, big, 20000);
    client_text(fd, "\r\n\r\n");
    client_receive(fd, &answer);
    assert_int_equal(answer.code, 431);
    (void)close(fd);
    expect("GET", "/v2/health/live", NULL, 200, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata),       cmocka_unit_test(test_unknown_paths),
        cmocka_unit_test(test_types_in_json),  cmocka_unit_test(test_types_in_bytes),
        cmocka_unit_test(test_raw_requests),   cmocka_unit_test(test_binary_tensors_are_not_copied),
        cmocka_unit_test(test_wrong_requests), cmocka_unit_test(test_invalid_http),
        cmocka_unit_test(test_sizes),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
