/* The protocol over gRPC: messages, statuses, streams of requests, cancelled calls, bytes that are not HTTP/2. */
#include "grpc_client.h"
#include "inference.pb-c.h"
#include "inlay/inlay.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;
static int grpc_port;

/* Adds a request of one row for a model, as raw data or in the typed field. */
static void add_twice(grpc_call *call, const char *model, float value, bool raw)
{
    Inference__InferRequest InferRequest = INFERENCE__INFER_REQUEST__INIT;
    Inference__Tensor Tensor = INFERENCE__TENSOR__INIT, *list = &Tensor;
    Inference__Contents contents = INFERENCE__CONTENTS__INIT;
    float x[3] = { value, 0, 1 };
    int64_t shape[2] = { 1, 3 };
    ProtobufCBinaryData data = { sizeof x, (uint8_t *)x };

    Tensor.name = (char *)(uintptr_t) "x";
    Tensor.datatype = (char *)(uintptr_t) "FP32";
    Tensor.shape = shape;
    Tensor.n_shape = 2;
    if (!raw) {
        contents.fp32_contents = x;
        contents.n_fp32_contents = 3;
        Tensor.contents = &contents;
    }
    InferRequest.model_name = (char *)(uintptr_t)model;
    InferRequest.id = (char *)(uintptr_t) "i";
    InferRequest.inputs = &list;
    InferRequest.n_inputs = 1;
    InferRequest.raw_input_contents = &data;
    InferRequest.n_raw_input_contents = raw;
    grpc_add(call, &InferRequest.base);
}

static void add_spin(grpc_call *call)
{
    Inference__InferRequest InferRequest = INFERENCE__INFER_REQUEST__INIT;
    Inference__Tensor Tensor[2] = { INFERENCE__TENSOR__INIT, INFERENCE__TENSOR__INIT },
                      *list[2] = { &Tensor[0], &Tensor[1] };
    int64_t turns = 1000000000000, shape[2] = { 4, 4 };
    float x[16] = { 0 };
    ProtobufCBinaryData data[2] = { { sizeof turns, (uint8_t *)&turns }, { sizeof x, (uint8_t *)x } };

    Tensor[0].name = (char *)(uintptr_t) "n";
    Tensor[0].datatype = (char *)(uintptr_t) "INT64";
    Tensor[1].name = (char *)(uintptr_t) "x";
    Tensor[1].datatype = (char *)(uintptr_t) "FP32";
    Tensor[1].shape = shape;
    Tensor[1].n_shape = 2;
    InferRequest.model_name = (char *)(uintptr_t) "spin";
    InferRequest.inputs = list;
    InferRequest.n_inputs = 2;
    InferRequest.raw_input_contents = data;
    InferRequest.n_raw_input_contents = 2;
    grpc_add(call, &InferRequest.base);
}

static void expect(const char *path, grpc_call *call, int status, const char *part)
{
    grpc_expect(grpc_port, path, call, status, part);
}

static int start(void **state)
{
    static const char *const flags[] = { "--grpc-port",
                                         "0",
                                         "--receive-timeout-ms",
                                         "2000",
                                         "--max-body-bytes",
                                         "4096",
                                         "--max-inflight-bytes",
                                         "200000",
                                         "--instances",
                                         "1",
                                         NULL };

    static const struct packed variants[] = { { "one", 0.5 } };
    char path[256];

    *state = &server;
    serving_prepare(&server);
    serving_package(&server, "package", NULL, variants, 1);
    write_doubling(serving_path(&server, "models/package/one.onnx", path, sizeof path), 1);
    serving_start(&server, flags);
    grpc_port = grpc_port_of(&server);
    return 0;
}

static void test_infer(void **state)
{
    (void)state;
    for (int raw = 0; raw < 2; raw++) {
        static grpc_call call;
        Inference__InferReply *reply;
        float y;

        call = (grpc_call){ .path = NULL };
        add_twice(&call, "twice", 21, raw);
        expect(SERVICE "ModelInfer", &call, 0, "");
        reply = grpc_message(&call, 0, &inference__infer_reply__descriptor);
        assert_non_null(reply);
        assert_string_equal(reply->model_name, "twice");
        assert_string_equal(reply->id, "i");
        assert_int_equal(reply->n_outputs, 1);
        assert_int_equal(reply->outputs[0]->n_shape, 2);
        assert_int_equal(reply->n_raw_output_contents, raw);
        memcpy(&y, raw ? (const void *)reply->raw_output_contents[0].data : reply->outputs[0]->contents->fp32_contents,
               sizeof y);
        assert_true(y == 42);
        protobuf_c_message_free_unpacked(&reply->base, NULL);
    }
}

/* The reply of a model package names its variant. */
static void test_package(void **state)
{
    static grpc_call call;
    Inference__InferReply *reply;

    (void)state;
    call = (grpc_call){ .path = NULL };
    add_twice(&call, "package", 21, false);
    expect(SERVICE "ModelInfer", &call, 0, "");
    reply = grpc_message(&call, 0, &inference__infer_reply__descriptor);
    assert_non_null(reply);
    assert_int_equal(reply->n_parameters, 2);
    assert_string_equal(reply->parameters[0]->key, "variant");
    assert_string_equal(reply->parameters[0]->value->string_value, "one");
    assert_string_equal(reply->parameters[1]->key, "variant_error");
    assert_true(reply->parameters[1]->value->double_value == 0.5);
    assert_true(reply->outputs[0]->contents->fp32_contents[0] == 42);
    protobuf_c_message_free_unpacked(&reply->base, NULL);
}

static void test_metadata(void **state)
{
    static grpc_call call;
    Inference__Empty empty = INFERENCE__EMPTY__INIT;
    Inference__ReadyReply *ready;
    Inference__HealthReply *health;
    Inference__ModelName name = INFERENCE__MODEL_NAME__INIT;
    Inference__ModelMetadataReply *model;

    (void)state;
    call = (grpc_call){ .path = NULL };
    grpc_add(&call, &empty.base);
    expect(SERVICE "ServerReady", &call, 0, "");
    ready = grpc_message(&call, 0, &inference__ready_reply__descriptor);
    assert_true(ready != NULL && ready->ready);
    protobuf_c_message_free_unpacked(&ready->base, NULL);
    call = (grpc_call){ .path = NULL };
    grpc_add(&call, &empty.base);
    expect("/grpc.health.v1.Health/Check", &call, 0, "");
    health = grpc_message(&call, 0, &inference__health_reply__descriptor);
    assert_true(health != NULL && health->status == 1);
    protobuf_c_message_free_unpacked(&health->base, NULL);
    call = (grpc_call){ .path = NULL };
    name.name = (char *)(uintptr_t) "pair";
    grpc_add(&call, &name.base);
    expect(SERVICE "ModelMetadata", &call, 0, "");
    model = grpc_message(&call, 0, &inference__model_metadata_reply__descriptor);
    assert_true(model != NULL && model->n_inputs == 2);
    assert_string_equal(model->inputs[1]->name, "b");
    protobuf_c_message_free_unpacked(&model->base, NULL);
}

static void test_statuses(void **state)
{
    static grpc_call call;

    (void)state;
    call = (grpc_call){ .path = NULL };
    expect(SERVICE "Nothing", &call, 12, "unknown method");
    call = (grpc_call){ .path = NULL };
    expect(SERVICE "ModelInfer", &call, 13, "within a message");
    call = (grpc_call){ .sent = { 1, 0, 0, 0, 0 }, .sent_bytes = 5 };
    expect(SERVICE "ModelInfer", &call, 12, "compressed");
    call = (grpc_call){ .sent = { 0, 0xff, 0, 0, 0 }, .sent_bytes = 5 };
    expect(SERVICE "ModelInfer", &call, 8, "max_body_bytes");
    call = (grpc_call){ .sent = { 0, 0, 0, 0, 9, 1 }, .sent_bytes = 6 };
    expect(SERVICE "ModelInfer", &call, 13, "within a message");
    call = (grpc_call){ .sent = { 0, 0, 0, 0, 3, 0xff, 0xff, 0xff }, .sent_bytes = 8 };
    expect(SERVICE "ModelInfer", &call, 3, "does not match the method's request type");
    call = (grpc_call){ .path = NULL };
    add_twice(&call, "none", 1, true);
    expect(SERVICE "ModelInfer", &call, 5, "no such model");
    call = (grpc_call){ .path = NULL };
    add_twice(&call, "pair", 1, true);
    expect(SERVICE "ModelInfer", &call, 3, "no input 'x'");
    call = (grpc_call){ .timeout = "50m" };
    add_spin(&call);
    expect(SERVICE "ModelInfer", &call, 4, "");
}

/* A text with U+0000 is not a shorter one, and proto3 has no others than UTF-8. */
static void test_texts(void **state)
{
    static grpc_call call;

    (void)state;
    call = (grpc_call){ .sent = { 0, 0, 0, 0, 8, 0x0a, 6, 't', 'w', 'i', 'c', 'e', 0 }, .sent_bytes = 13 };
    expect(SERVICE "ModelInfer", &call, 3, "field 'model_name'");
    call = (grpc_call){ .sent = { 0, 0, 0, 0, 3, 0x0a, 1, 0xff }, .sent_bytes = 8 };
    expect(SERVICE "ModelInfer", &call, 3, "field 'model_name'");
    call = (grpc_call){ .sent = { 0, 0, 0, 0, 5, 0x2a, 3, 0x0a, 1, 0xc0 }, .sent_bytes = 10 };
    expect(SERVICE "ModelInfer", &call, 3, "field 'name'");
    call = (grpc_call){ .sent = { 0, 0, 0, 0, 8, 0x0a, 6, 't', 'w', 'i', 'c', 'e', 0 }, .sent_bytes = 13 };
    expect(SERVICE "ModelReady", &call, 3, "field 'name'");
}

/* Lists of short texts, as many as a body may have, are read; messages that would take much more memory than that are
 * refused. */
static void test_many_small_fields(void **state)
{
    enum { TEXTS = 1300, MOST = 2000 };
    static ProtobufCBinaryData texts[TEXTS];
    static grpc_call call;
    int64_t count = TEXTS;
    Inference__Contents contents = INFERENCE__CONTENTS__INIT;
    Inference__Tensor tensor = INFERENCE__TENSOR__INIT, *tensors[MOST];
    Inference__InferRequest request = INFERENCE__INFER_REQUEST__INIT;

    (void)state;
    for (uint32_t i = 0; i < TEXTS; i++)
        texts[i] = (ProtobufCBinaryData){ i % 2, (uint8_t *)(uintptr_t) "a" };
    contents.bytes_contents = texts;
    contents.n_bytes_contents = TEXTS;
    tensor.name = (char *)(uintptr_t) "x";
    tensor.datatype = (char *)(uintptr_t) "BYTES";
    tensor.n_shape = 1;
    tensor.shape = &count;
    tensor.contents = &contents;
    request.model_name = (char *)(uintptr_t) "id_BYTES";
    request.n_inputs = 1;
    request.inputs = tensors;
    tensors[0] = &tensor;
    call = (grpc_call){ .path = NULL };
    grpc_add(&call, &request.base);
    expect(SERVICE "ModelInfer", &call, 0, "");
    tensor = (Inference__Tensor)INFERENCE__TENSOR__INIT;
    for (uint32_t i = 0; i < MOST; i++)
        tensors[i] = &tensor;
    request.n_inputs = MOST;
    call = (grpc_call){ .path = NULL };
    grpc_add(&call, &request.base);
    expect(SERVICE "ModelInfer", &call, 8, "many small fields and would take more than");
}

static void test_both_contents(void **state)
{
    static const char *const parts[] = { "send one of them", "output 'y' is requested twice" };
    float numbers[] = { 1, 2, 3 };
    int64_t shape[] = { 1, 3 };
    Inference__Contents contents = INFERENCE__CONTENTS__INIT;
    Inference__Tensor tensor = INFERENCE__TENSOR__INIT, *tensors[] = { &tensor };
    Inference__WantedTensor wanted = INFERENCE__WANTED_TENSOR__INIT, *twice[] = { &wanted, &wanted };
    ProtobufCBinaryData raw = { sizeof numbers, (uint8_t *)numbers };
    Inference__InferRequest request = INFERENCE__INFER_REQUEST__INIT;

    (void)state;
    contents.n_fp32_contents = 3;
    contents.fp32_contents = numbers;
    tensor.name = (char *)(uintptr_t) "x";
    tensor.datatype = (char *)(uintptr_t) "FP32";
    tensor.n_shape = 2;
    tensor.shape = shape;
    wanted.name = (char *)(uintptr_t) "y";
    request.model_name = (char *)(uintptr_t) "twice";
    request.n_inputs = 1;
    request.inputs = tensors;
    for (int i = 0; i < 2; i++) {
        static grpc_call call;

        call = (grpc_call){ .path = NULL };
        tensor.contents = i == 0 ? &contents : NULL;
        request.n_outputs = i == 0 ? 0 : 2;
        request.outputs = i == 0 ? NULL : twice;
        request.n_raw_input_contents = 1;
        request.raw_input_contents = &raw;
        grpc_add(&call, &request.base);
        expect(SERVICE "ModelInfer", &call, 3, parts[i]);
    }
    client_expect(&server, "POST", "/v2/models/twice/infer", "",
                  "{\"outputs\":[{\"name\":\"y\"},{\"name\":\"y\"}],\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],"
                  "\"datatype\":\"FP32\",\"data\":[1,2,3]}]}",
                  400, "output 'y' is requested twice");
}

/* Numbers of real types have a point or an exponent, so that readers make no integers of them. */
static void test_real_numbers(void **state)
{
    (void)state;
    client_expect(&server, "POST", "/v2/models/twice/infer", "",
                  "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[-0.0,1,2]}]}", 200,
                  "[-0.0,2.0,4.0]");
    client_expect(&server, "POST", "/v2/models/id_FP64/infer", "",
                  "{\"inputs\":[{\"name\":\"x\",\"shape\":[4],\"datatype\":\"FP64\",\"data\":[-0.0,4294967296,"
                  "9007199254740992,1e300]}]}",
                  200, "[-0.0,4294967296.0,9007199254740992.0,1.0000000000000001e+300]");
}

/* Three requests in one stream, the second one invalid. */
static void test_a_stream_of_requests(void **state)
{
    static grpc_call call;

    (void)state;
    call = (grpc_call){ .path = NULL };
    add_twice(&call, "twice", 1, true);
    add_twice(&call, "none", 1, true);
    add_twice(&call, "twice", 2, true);
    expect(SERVICE "ModelStreamInfer", &call, 0, "");
    for (uint32_t i = 0; i < 3; i++) {
        Inference__StreamInferReply *reply = grpc_message(&call, i, &inference__stream_infer_reply__descriptor);

        assert_non_null(reply);
        assert_int_equal(reply->infer_response == NULL, i == 1);
        assert_int_equal(reply->error_message[0] == '\0', i != 1);
        protobuf_c_message_free_unpacked(&reply->base, NULL);
    }
}

/* Running and waiting calls that are cancelled by a reset and by the end of the connection. */
static void test_cancelled_calls(void **state)
{
    static grpc_call calls[4];
    grpc_client client;

    (void)state;
    grpc_open(&client, grpc_port);
    for (uint32_t i = 0; i < 4; i++) {
        calls[i] = (grpc_call){ .path = SERVICE "ModelInfer" };
        add_spin(&calls[i]);
        grpc_submit(&client, &calls[i]);
        client_await(&server, "inlay_runs", 1);
    }
    client_await(&server, "inlay_queue_length{model=\"spin\",version=\"1\"}", 3);
    (void)nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, calls[3].stream, NGHTTP2_CANCEL);
    (void)nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, calls[0].stream, NGHTTP2_CANCEL);
    assert_int_equal(nghttp2_session_send(client.session), 0);
    client_await(&server, "inlay_queue_length{model=\"spin\",version=\"1\"}", 1);
    grpc_close(&client);
    client_await(&server, "inlay_queue_length{model=\"spin\",version=\"1\"}", 0);
    client_await(&server, "inlay_runs", 0);
    client_await(&server, "inlay_http_requests", 1);
    client_await(&server, "inlay_request_errors_total{model=\"spin\",version=\"1\",reason=\"cancelled\"}", 4);
}

/* Bytes that are not HTTP/2, or end early: the connection ends, the server continues. */
static void test_invalid_http2(void **state)
{
    static const char *const texts[] = { "", "GET / HTTP/1.1\r\n\r\n",
                                         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nrubbish rubbish",
                                         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\xff\xfe\xfd\xfc\xfb\xfa" };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int fd = grpc_connect(grpc_port);
        char bytes[1024];

        client_text(fd, texts[i]);
        while (recv(fd, bytes, sizeof bytes, 0) > 0)
            ;
        (void)close(fd);
    }
    client_await(&server, "inlay_http_connections", 1);
}

/* The bytes of a valid call with one of them changed, on a new connection each: any answer, or the end of the
 * connection. */
static void test_every_byte_changed(void **state)
{
    static grpc_call good, call;
    uint32_t taken = 0;
    grpc_client client;

    (void)state;
    good = (grpc_call){ .path = SERVICE "ModelInfer" };
    add_twice(&good, "twice", 1, true);
    grpc_open(&client, grpc_port);
    for (size_t at = 5; at < good.sent_bytes; at++) {
        for (uint32_t bit = 0; bit < 8; bit++) {
            call = good;
            call.sent[at] = (uint8_t)(call.sent[at] ^ (1u << bit));
            grpc_submit(&client, &call);
            grpc_wait(&client, &call);
            assert_true(call.closed && call.status >= 0);
            taken += call.status == 0;
        }
    }
    grpc_close(&client);
    assert_true(taken > 10);
}

static const char body[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}";

/* The port of REST takes HTTP/2, too: requests for REST, and calls of gRPC on the same connection. */
static void test_rest_over_http2(void **state)
{
    static const struct {
        const char *method, *path, *body;
        int code;
        const char *part;
    } rows[] = { { "GET", "/v2/health/live", "", 200, "" },
                 { "GET", "/v2?x=1", "", 200, "\"name\":\"inlay\"" },
                 { "POST", "/v2/models/twice/infer", body, 200, "[2.0,4.0,6.0]" },
                 { "POST", "/v2/models/twice/infer", "{", 400, "\"error\"" },
                 { "POST", "/v2/models/none/infer", body, 404, "\"error\"" },
                 { "DELETE", "/v2/models/twice", "", 405, "\"error\"" },
                 { "BREW", "/v2", "", 501, "\"error\"" },
                 { "GET", "/v2%2Fhealth%2flive", "", 404, "\"error\"" },
                 { "GET", "/v2/health/live%00", "", 400, "\"error\"" },
                 { "GET", "/v2/health/live%0", "", 400, "\"error\"" },
                 { "HEAD", "/v2", "", 200, "" } };
    static grpc_call calls[sizeof rows / sizeof rows[0]], call, large;
    static char many[5000];
    Inference__Empty empty = INFERENCE__EMPTY__INIT;
    grpc_client client;

    (void)state;
    grpc_open(&client, server.port);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        calls[i] = (grpc_call){ .path = rows[i].path };
        grpc_submit_rest(&client, &calls[i], rows[i].method, rows[i].body);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        grpc_wait(&client, &calls[i]);
        calls[i].got[calls[i].got_bytes] = '\0';
        if (calls[i].code != rows[i].code || strstr((const char *)calls[i].got, rows[i].part) == NULL)
            fail_msg("%s %s: %d %s", rows[i].method, rows[i].path, calls[i].code, (const char *)calls[i].got);
    }
    assert_int_equal(calls[sizeof rows / sizeof rows[0] - 1].got_bytes, 0); /* HEAD */
    memset(many, 'a', sizeof many - 1);
    large = (grpc_call){ .path = "/v2/models/twice/infer" };
    grpc_submit_rest(&client, &large, "POST", many);
    grpc_wait(&client, &large);
    assert_int_equal(large.code, 413);
    call = (grpc_call){ .path = SERVICE "ServerReady" };
    grpc_add(&call, &empty.base);
    grpc_submit(&client, &call);
    grpc_wait(&client, &call);
    assert_int_equal(call.status, 0);
    grpc_close(&client);
}

/* gRPC's C core resets streams that it has never opened. Other calls of the connection are still answered. */
static void test_reset_of_an_idle_stream(void **state)
{
    static const uint8_t frame[] = { 0, 0, 4, 3, 0, 0, 0, 0, 99, 0, 0, 0, 8 };
    static grpc_call calls[4];
    Inference__Empty empty = INFERENCE__EMPTY__INIT;
    grpc_client client;

    (void)state;
    grpc_open(&client, grpc_port);
    for (size_t i = 0; i < 4; i++) {
        calls[i] = (grpc_call){ .path = SERVICE "ServerReady" };
        grpc_add(&calls[i], &empty.base);
        grpc_submit(&client, &calls[i]);
        grpc_wait(&client, &calls[i]);
        assert_int_equal(calls[i].status, 0);
        client_send(client.fd, frame, i + 1); /* in pieces of different sizes */
        client_send(client.fd, frame + i + 1, sizeof frame - i - 1);
    }
    grpc_close(&client);
}

/* One port for both protocols. */
static void test_one_port(void **state)
{
    struct serving one;
    char port[16];
    const char *flags[] = { "--port", port, "--grpc-port", port, "--strict", "0", NULL };
    static grpc_call call;
    Inference__Empty empty = INFERENCE__EMPTY__INIT;

    (void)state;
    serving_prepare_empty(&one);
    (void)snprintf(port, sizeof port, "%d", client_free_port());
    serving_start(&one, flags);
    assert_int_equal(one.port, grpc_port_of(&one));
    client_expect(&one, "GET", "/v2/health/live", "", NULL, 200, "");
    call = (grpc_call){ .path = SERVICE "ServerLive" };
    grpc_add(&call, &empty.base);
    grpc_expect(one.port, SERVICE "ServerLive", &call, 0, "");
    assert_int_equal(serving_close(&one), 0);
}

/* After the grace time, calls that run or wait are refused, and requests of REST over HTTP/2 are, too. */
static void test_ending(void **state)
{
    enum { CALLS = 3 }; /* the last one is REST */
    static const char *const flags[] = { "--grpc-port", "0", "--instances", "1", "--grace-ms", "300", NULL };
    static const char spin[] = "{\"inputs\":[{\"name\":\"n\",\"shape\":[],\"datatype\":\"INT64\",\"data\":"
                               "[1000000000000]},{\"name\":\"x\",\"shape\":[4,4],\"datatype\":\"FP32\",\"data\":"
                               "[1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4]}]}";
    static grpc_call calls[CALLS];
    grpc_client clients[2];
    struct serving ending;

    (void)state;
    serving_open(&ending, flags);
    grpc_open(&clients[0], grpc_port_of(&ending));
    grpc_open(&clients[1], ending.port);
    for (uint32_t i = 0; i < CALLS; i++) {
        if (i + 1 < CALLS) {
            calls[i] = (grpc_call){ .path = SERVICE "ModelInfer" };
            add_spin(&calls[i]);
            grpc_submit(&clients[0], &calls[i]);
        } else {
            calls[i] = (grpc_call){ .path = "/v2/models/spin/infer" };
            grpc_submit_rest(&clients[1], &calls[i], "POST", spin);
        }
        for (uint32_t tries = 0; client_metric(&ending, "inlay_runs") +
                                     client_metric(&ending, "inlay_queue_length{model=\"spin\",version=\"1\"}") !=
                                 i + 1;
             tries++) {
            assert_true(tries < 12000);
            client_wait_ms(5);
        }
    }
    assert_int_equal(serving_end(&ending, SIGTERM), 0);
    for (uint32_t i = 0; i < CALLS; i++) {
        grpc_wait(&clients[i + 1 == CALLS], &calls[i]);
        if (i + 1 < CALLS) {
            assert_int_equal(calls[i].status, 14);
            assert_string_equal(calls[i].text, "the server is shutting down");
        } else {
            assert_int_equal(calls[i].code, 503);
            calls[i].got[calls[i].got_bytes] = '\0';
            assert_string_equal((const char *)calls[i].got, "{\"error\":\"the server is shutting down\"}");
        }
    }
    grpc_close(&clients[0]);
    grpc_close(&clients[1]);
    serving_remove(&ending);
}

/* The bytes of tritonclient.grpc, by the numbers of Triton's fields: an infer() with an id, a priority, a time limit,
 * custom parameters, a requested output, and binary data. It reads the raw contents of the reply. */
static void test_tritonclient(void **state)
{
    static const char message[] = "\12\5twice\32\00217"
                                  "\42\16\12\10priority\22\2\50\1"            /* uint64_param */
                                  "\42\20\12\7timeout\22\5\20\200\207\247\16" /* int64_param */
                                  "\42\16\12\7my_text\22\3\32\1a"             /* string_param */
                                  "\42\15\12\7my_flag\22\2\10\1"              /* bool_param */
                                  "\52\15\12\1x\22\4FP32\32\2\1\3"            /* shape, packed */
                                  "\62\3\12\1y"
                                  "\72\14\0\0\200\77\0\0\0\100\0\0\100\100"; /* raw_input_contents */
    static const char reply[] = "\12\5twice\22\0011\32\00217"
                                "\52\15\12\1y\22\4FP32\32\2\1\3"
                                "\62\14\0\0\0\100\0\0\200\100\0\0\300\100"; /* raw_output_contents */
    static grpc_call call;

    (void)state;
    call = (grpc_call){ .path = NULL };
    call.sent[4] = sizeof message - 1;
    memcpy(call.sent + 5, message, sizeof message - 1);
    call.sent_bytes = 5 + sizeof message - 1;
    expect(SERVICE "ModelInfer", &call, 0, "");
    assert_int_equal(call.got_bytes, 5 + sizeof reply - 1);
    assert_memory_equal(call.got + 5, reply, sizeof reply - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_infer),
        cmocka_unit_test(test_package),
        cmocka_unit_test(test_tritonclient),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_many_small_fields),
        cmocka_unit_test(test_both_contents),
        cmocka_unit_test(test_real_numbers),
        cmocka_unit_test(test_a_stream_of_requests),
        cmocka_unit_test(test_cancelled_calls),
        cmocka_unit_test(test_invalid_http2),
        cmocka_unit_test(test_every_byte_changed),
        cmocka_unit_test(test_rest_over_http2),
        cmocka_unit_test(test_reset_of_an_idle_stream),
        cmocka_unit_test(test_one_port),
        cmocka_unit_test(test_ending),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
