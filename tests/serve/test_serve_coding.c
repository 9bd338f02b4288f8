/* Compressed requests and replies: Content-Encoding and Accept-Encoding of REST, grpc-encoding. */
#include "grpc_client.h"
#include "inference.pb-c.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include "cmocka_all.h"

static struct serving server;
static int grpc_port;

enum { LIMIT = 100000, GZIP = MAX_WBITS + 16, DEFLATE = MAX_WBITS };

#define TWICE "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}"
#define PATH "/v2/models/twice/infer"

static int start(void **state)
{
    static const char *const flags[] = { "--grpc-port", "0", "--max-body-bytes", "100000", NULL };

    *state = &server;
    serving_open(&server, flags);
    grpc_port = grpc_port_of(&server);
    return 0;
}

static size_t compress_to(int bits, const void *data, size_t bytes, uint8_t *to, size_t room)
{
    z_stream stream = {
        .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes, .next_out = to, .avail_out = (uInt)room
    };

    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    (void)deflateEnd(&stream);
    return room - stream.avail_out;
}

static size_t expand_to(int bits, const void *data, size_t bytes, void *to, size_t room)
{
    z_stream stream = {
        .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes, .next_out = to, .avail_out = (uInt)room
    };

    assert_int_equal(inflateInit2(&stream, bits), Z_OK);
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    (void)inflateEnd(&stream);
    return room - stream.avail_out;
}

/* Sends a body with these headers. */
static void ask(const char *headers, const void *body, size_t bytes, struct answer *answer)
{
    int fd = client_connect(&server);

    client_call(fd, "POST", PATH, headers, body, bytes, answer);
    (void)close(fd);
}

/* The bytes of bodies are released after the reply. */
static void wait_until_released(void)
{
    client_await(&server, "inlay_inflight_bytes", 0);
}

static void test_requests(void **state)
{
    static const struct {
        const char *headers;
        int bits;
    } rows[] = { { "Content-Encoding: gzip\r\n", GZIP },
                 { "Content-Encoding: x-gzip\r\n", GZIP },
                 { "Content-Encoding: Deflate\r\n", DEFLATE } };
    uint8_t body[1024];
    struct answer answer;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t bytes = compress_to(rows[i].bits, TWICE, sizeof TWICE - 1, body, sizeof body);

        ask(rows[i].headers, body, bytes, &answer);
        assert_int_equal(answer.code, 200);
        assert_non_null(strstr(answer.body, "[2.0,4.0,6.0]"));
        ask(rows[i].headers, body, bytes - 1, &answer); /* not complete */
        assert_int_equal(answer.code, 400);
        assert_non_null(strstr(answer.body, "the body is not valid"));
        body[bytes] = 'x'; /* more data follows */
        ask(rows[i].headers, body, bytes + 1, &answer);
        assert_int_equal(answer.code, 400);
    }
    ask("Content-Encoding: gzip\r\n", TWICE, sizeof TWICE - 1, &answer);
    assert_int_equal(answer.code, 400);
    ask("Content-Encoding: identity\r\n", TWICE, sizeof TWICE - 1, &answer);
    assert_int_equal(answer.code, 200);
}

/* The length of the JSON is that of the decoded body, and its tensor is used in place. */
static void test_binary_data(void **state)
{
    static const char json[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\","
                               "\"parameters\":{\"binary_data_size\":12}}]}";
    const float numbers[] = { 1, 2, 3 };
    double copied = client_metric(&server, "inlay_copied_bytes_total");
    uint8_t plain[512], body[512];
    char headers[128];
    struct answer answer;

    (void)state;
    memcpy(plain, json, sizeof json - 1);
    memcpy(plain + sizeof json - 1, numbers, sizeof numbers);
    (void)snprintf(headers, sizeof headers, "Content-Encoding: gzip\r\nInference-Header-Content-Length: %zu\r\n",
                   sizeof json - 1);
    ask(headers, body, compress_to(GZIP, plain, sizeof json - 1 + sizeof numbers, body, sizeof body), &answer);
    assert_int_equal(answer.code, 200);
    assert_non_null(strstr(answer.body, "[2.0,4.0,6.0]"));
    assert_true(client_metric(&server, "inlay_copied_bytes_total") == copied);
}

static void test_refused(void **state)
{
    static char spaces[10 * LIMIT];
    static uint8_t body[LIMIT];
    char value[64];
    struct answer answer;

    (void)state;
    ask("Content-Encoding: br\r\n", TWICE, sizeof TWICE - 1, &answer);
    assert_int_equal(answer.code, 415);
    assert_string_equal(answer_header(&answer, "Accept-Encoding", value, sizeof value), "gzip, deflate");
    /* Small, but larger than max_body_bytes once it is decoded. */
    memset(spaces, ' ', sizeof spaces);
    ask("Content-Encoding: gzip\r\n", body, compress_to(GZIP, spaces, sizeof spaces, body, sizeof body), &answer);
    assert_int_equal(answer.code, 413);
    ask("", TWICE, sizeof TWICE - 1, &answer);
    assert_int_equal(answer.code, 200);
    wait_until_released();
}

static void test_replies(void **state)
{
    static const struct {
        const char *headers, *coding;
        int bits;
    } rows[] = { { "Accept-Encoding: gzip\r\n", "gzip", GZIP },
                 { "Accept-Encoding: br, deflate\r\n", "deflate", DEFLATE },
                 { "Accept-Encoding: gzip;q=0.5, deflate;q=0.75\r\n", "deflate", DEFLATE },
                 { "Accept-Encoding: gzip;q=0, br\r\n", NULL, 0 },
                 { "", NULL, 0 } };
    static struct answer plain, answer;
    static char expanded[65536];
    char value[64];

    (void)state;
    client_once(&server, "GET", "/", "", NULL, &plain);
    assert_true(plain.body_bytes > 1024 && plain.body_bytes < sizeof expanded);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *coding;

        client_once(&server, "GET", "/", rows[i].headers, NULL, &answer);
        assert_int_equal(answer.code, 200);
        assert_string_equal(answer_header(&answer, "Vary", value, sizeof value), "Accept-Encoding");
        coding = answer_header(&answer, "Content-Encoding", value, sizeof value);
        if (rows[i].coding == NULL) {
            assert_null(coding);
            assert_int_equal(answer.body_bytes, plain.body_bytes);
            continue;
        }
        assert_string_equal(coding, rows[i].coding);
        assert_true(answer.body_bytes < plain.body_bytes);
        assert_int_equal(expand_to(rows[i].bits, answer.body, answer.body_bytes, expanded, sizeof expanded),
                         plain.body_bytes);
        assert_memory_equal(expanded, plain.body, plain.body_bytes);
    }
    ask("Accept-Encoding: gzip\r\n", TWICE, sizeof TWICE - 1, &answer); /* small */
    assert_null(answer_header(&answer, "Content-Encoding", value, sizeof value));
    assert_non_null(strstr(answer.body, "[2.0,4.0,6.0]"));
}

/* A large reply of a run. */
static void test_outputs(void **state)
{
    enum { ROWS = 1000 };
    static char body[16 * ROWS], expanded[32 * ROWS];
    size_t used;
    char value[64];
    static struct answer answer;

    (void)state;
    used = (size_t)snprintf(
        body, sizeof body, "{\"inputs\":[{\"name\":\"x\",\"shape\":[%d,3],\"datatype\":\"FP32\",\"data\":[1,2,3", ROWS);
    for (int i = 1; i < ROWS; i++)
        used += (size_t)snprintf(body + used, sizeof body - used, ",1,2,3");
    used += (size_t)snprintf(body + used, sizeof body - used, "]}]}");
    ask("Accept-Encoding: gzip\r\n", body, used, &answer);
    assert_int_equal(answer.code, 200);
    assert_string_equal(answer_header(&answer, "Content-Encoding", value, sizeof value), "gzip");
    used = expand_to(GZIP, answer.body, answer.body_bytes, expanded, sizeof expanded - 1);
    expanded[used] = '\0';
    assert_non_null(strstr(expanded, "[2.0,4.0,6.0,2.0"));
}

/* Appends a request of model `twice` as a compressed message. */
static void add_coded(grpc_call *call, int bits, size_t rows)
{
    static float numbers[3 * 400];
    static uint8_t plain[8192];
    int64_t shape[] = { (int64_t)rows, 3 };
    Inference__Tensor tensor = INFERENCE__TENSOR__INIT, *list = &tensor;
    Inference__InferRequest request = INFERENCE__INFER_REQUEST__INIT;
    ProtobufCBinaryData data = { rows * 3 * sizeof numbers[0], (uint8_t *)numbers };
    uint8_t *to = call->sent + call->sent_bytes;
    size_t bytes;

    for (size_t i = 0; i < 3 * rows; i++)
        numbers[i] = (float)(1 + i % 3);
    tensor.name = (char *)(uintptr_t) "x";
    tensor.datatype = (char *)(uintptr_t) "FP32";
    tensor.shape = shape;
    tensor.n_shape = 2;
    request.model_name = (char *)(uintptr_t) "twice";
    request.inputs = &list;
    request.n_inputs = 1;
    request.raw_input_contents = &data;
    request.n_raw_input_contents = 1;
    assert_true(protobuf_c_message_get_packed_size(&request.base) <= sizeof plain);
    bytes = compress_to(bits, plain, protobuf_c_message_pack(&request.base, plain), to + 5,
                        sizeof call->sent - call->sent_bytes - 5);
    to[0] = 1;
    for (int i = 0; i < 4; i++)
        to[1 + i] = (uint8_t)(bytes >> (24 - 8 * i));
    call->sent_bytes += bytes + 5;
}

static void test_grpc(void **state)
{
    static const struct {
        const char *name;
        int bits;
    } rows[] = { { "gzip", GZIP }, { "deflate", DEFLATE } };
    static grpc_call call;
    static uint8_t expanded[8192];
    Inference__InferReply *reply;
    size_t bytes;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        call = (grpc_call){ .coding = rows[i].name };
        add_coded(&call, rows[i].bits, 400);
        grpc_expect(grpc_port, SERVICE "ModelInfer", &call, 0, "");
        assert_true(call.is_coded);
        assert_true(call.got_bytes > 5 && call.got_bytes < 4800 && call.got[0] == 1);
        bytes = expand_to(rows[i].bits, call.got + 5, call.got_bytes - 5, expanded, sizeof expanded);
        reply = inference__infer_reply__unpack(NULL, bytes, expanded);
        assert_true(reply != NULL && reply->n_raw_output_contents == 1);
        assert_int_equal(reply->raw_output_contents[0].len, 4800);
        assert_true(((const float *)(const void *)reply->raw_output_contents[0].data)[1199] == 6);
        inference__infer_reply__free_unpacked(reply, NULL);
        /* Two messages of a stream; their replies are too small to be compressed. */
        call = (grpc_call){ .coding = rows[i].name };
        add_coded(&call, rows[i].bits, 1);
        add_coded(&call, rows[i].bits, 2);
        grpc_expect(grpc_port, SERVICE "ModelStreamInfer", &call, 0, "");
        assert_int_equal(call.got[0], 0);
    }
    call = (grpc_call){ .coding = NULL };
    add_coded(&call, GZIP, 1);
    grpc_expect(grpc_port, SERVICE "ModelInfer", &call, 12, "the call has no grpc-encoding");
    call = (grpc_call){ .coding = "snappy" };
    add_coded(&call, GZIP, 1);
    grpc_expect(grpc_port, SERVICE "ModelInfer", &call, 12, "grpc-encoding must be");
    call = (grpc_call){ .coding = "gzip" };
    add_coded(&call, DEFLATE, 1);
    grpc_expect(grpc_port, SERVICE "ModelInfer", &call, 3, "the body is not valid gzip");
}

static void test_grpc_limit(void **state)
{
    static char spaces[10 * LIMIT];
    static grpc_call call;
    size_t bytes;

    (void)state;
    call = (grpc_call){ .coding = "gzip" };
    bytes = compress_to(GZIP, spaces, sizeof spaces, call.sent + 5, sizeof call.sent - 5);
    call.sent[0] = 1;
    call.sent[3] = (uint8_t)(bytes >> 8);
    call.sent[4] = (uint8_t)bytes;
    call.sent_bytes = bytes + 5;
    grpc_expect(grpc_port, SERVICE "ModelInfer", &call, 8, "larger than max_body_bytes");
    wait_until_released();
}

/* Clients of Triton accept gzip in every request, and decode only replies of inference. */
static void test_descriptions(void **state)
{
    struct answer answer;
    char value[64];
    int fd = client_connect(&server);

    (void)state;
    client_call(fd, "GET", "/v2/models/stats", "Accept-Encoding: gzip, deflate\r\n", NULL, 0, &answer);
    assert_int_equal(answer.code, 200);
    assert_true(answer.body_bytes >= 1024 && answer.body[0] == '{');
    assert_null(answer_header(&answer, "Content-Encoding", value, sizeof value));
    client_call(fd, "GET", "/metrics", "Accept-Encoding: gzip, deflate\r\n", NULL, 0, &answer);
    assert_string_equal(answer_header(&answer, "Content-Encoding", value, sizeof value), "gzip");
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),   cmocka_unit_test(test_binary_data),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_replies),    cmocka_unit_test(test_outputs),      cmocka_unit_test(test_grpc),
        cmocka_unit_test(test_grpc_limit), cmocka_unit_test(test_descriptions),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
