/* Spans of requests: sent to a collector, with the client's parent, sampled; a collector that does not answer delays no
 * request. */
#include "client.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

#define BODY "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,0,1]}]}"
#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

static struct serving server;
static int listener;
static char message[1 << 20];

/* Listens on a free port. */
static int collect(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof at;

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0 && bind(listener, (const struct sockaddr *)(const void *)&at, sizeof at) == 0 &&
                listen(listener, 64) == 0 && getsockname(listener, (struct sockaddr *)(void *)&at, &bytes) == 0);
    return ntohs(at.sin_port);
}

/* Takes a message, answers it with this code, and returns it. */
static const char *take(const char *code)
{
    int fd = accept(listener, NULL, NULL);
    size_t used = 0, wanted = SIZE_MAX;
    char reply[128];

    assert_true(fd >= 0);
    while (used < wanted) {
        ssize_t got = recv(fd, message + used, sizeof message - 1 - used, 0);
        const char *end, *length;

        assert_true(got > 0);
        used += (size_t)got;
        message[used] = '\0';
        end = strstr(message, "\r\n\r\n");
        length = strstr(message, "Content-Length: ");
        if (end != NULL && length != NULL)
            wanted = (size_t)(end + 4 - message) + (size_t)strtoul(length + strlen("Content-Length: "), NULL, 10);
    }
    (void)snprintf(reply, sizeof reply, "HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\n{}", code);
    client_text(fd, reply);
    (void)close(fd);
    return message;
}

static void begin(const char *sample)
{
    char endpoint[64];
    const char *flags[] = { "--trace-endpoint", endpoint, "--trace-sample", sample, NULL };

    (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", collect());
    serving_open(&server, flags);
}

static void infer(const char *headers, const char *body, int code)
{
    client_expect(&server, "POST", "/v2/models/twice/infer", headers, body, code, "");
}

static uint32_t times(const char *text, const char *part)
{
    uint32_t count = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

static void await_metric(const char *name, double value)
{
    for (uint32_t i = 0; client_metric(&server, name) < value; i++) {
        if (i == 12000)
            fail_msg("%s is %g, not %g", name, client_metric(&server, name), value);
        client_wait_ms(5);
    }
}

/* The text after `key` as a number. */
static double number_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    assert_non_null(at);
    return strtod(at + strlen(key), NULL);
}

/* Each of the requests for `twice` has a span of its only region below `run`, within its time. */
static void expect_steps(const char *text, uint32_t requests)
{
    const char *at = text;

    assert_int_equal(times(text, "\"name\":\"run\""), requests);
    assert_int_equal(times(text, "\"key\":\"inlay.provider\",\"value\":{\"stringValue\":\""),
                     times(text, "\"inlay.node\""));
    for (uint32_t i = 0; i < requests; i++) {
        const char *run = strstr(at, "\"name\":\"run\""), *id = run, *step;
        char parent[48];

        assert_non_null(run);
        while (strncmp(id, "\"spanId\":\"", 10) != 0)
            id--;
        (void)snprintf(parent, sizeof parent, "\"parentSpanId\":\"%.16s\"", id + 10);
        step = strstr(run, parent);
        assert_non_null(step);
        assert_true(number_after(run, "\"startTimeUnixNano\":\"") <= number_after(step, "\"startTimeUnixNano\":\""));
        assert_true(number_after(step, "\"endTimeUnixNano\":\"") <= number_after(run, "\"endTimeUnixNano\":\""));
        at = step;
    }
}

static void test_spans(void **state)
{
    const char *got, *run;

    (void)state;
    begin("1");
    infer("traceparent: 00-" TRACE "-" PARENT "-00\r\n", BODY, 200); /* not sampled by its client */
    infer("traceparent: 00-" TRACE "-" PARENT "-01\r\n", BODY, 200);
    got = take("200 OK");
    assert_int_equal(strncmp(got, "POST /v1/traces HTTP/1.1\r\n", 26), 0);
    assert_non_null(strstr(got, "Content-Type: application/json\r\n"));
    assert_int_equal(times(got, "\"traceId\":\"" TRACE "\""), 4 + times(got, "\"inlay.node\""));
    expect_steps(got, 1);
    assert_int_equal(times(got, "\"parentSpanId\":\"" PARENT "\",\"name\":\"infer twice\",\"kind\":2"), 1);
    assert_int_equal(times(got, "\"name\":\"receive\""), 1);
    assert_int_equal(times(got, "\"name\":\"queue\""), 1);
    run = strstr(got, "\"name\":\"run\"");
    assert_non_null(run);
    assert_true(number_after(run, "\"startTimeUnixNano\":\"") <= number_after(run, "\"endTimeUnixNano\":\""));
    assert_true(number_after(got, "\"startTimeUnixNano\":\"") <= number_after(run, "\"startTimeUnixNano\":\""));
    await_metric("inlay_spans_total{result=\"sent\"}", 1);
    /* Without a valid parent, each request begins a new trace. */
    infer("traceparent: 00-" TRACE "-0000000000000000-01\r\n", BODY, 200);
    got = take("200 OK");
    assert_int_equal(times(got, TRACE), 0);
    assert_int_equal(times(got, "\"traceId\":\""), 4 + times(got, "\"inlay.node\""));
    assert_int_equal(times(got, "\"parentSpanId\":\""), 3 + times(got, "\"inlay.node\""));
    infer("", BODY, 200);
    (void)take("503 Service Unavailable");
    await_metric("inlay_spans_total{result=\"failed\"}", 1);
    infer("", BODY, 200);
    (void)take("200 OK");
    await_metric("inlay_spans_total{result=\"sent\"}", 3);
    /* The rest is sent at the end. */
    infer("", BODY, 200);
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    assert_int_equal(times(take("200 OK"), "\"name\":\"infer twice\""), 1);
    assert_int_equal(serving_close(&server), 0);
    (void)close(listener);
}

static void test_failure(void **state)
{
    const char *got;

    (void)state;
    begin("1");
    client_expect(&server, "POST", "/v2/models/spin/infer", "",
                  "{\"parameters\":{\"timeout\":50000},\"inputs\":[{\"name\":\"n\",\"shape\":[],\"datatype\":\"INT64\","
                  "\"data\":[1000000000000]},{\"name\":\"x\",\"shape\":[4,4],\"datatype\":\"FP32\","
                  "\"data\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}]}",
                  504, "");
    got = take("200 OK");
    assert_non_null(strstr(got, "\"name\":\"infer spin\""));
    assert_non_null(strstr(got, "\"status\":{\"code\":2,\"message\":\""));
    assert_int_equal(serving_close(&server), 0);
    (void)close(listener);
}

/* One of ten requests; a collector that never answers. */
static void test_overload(void **state)
{
    enum { REQUESTS = 2600 };
    static struct answer answer;
    int fd;

    (void)state;
    begin("10");
    for (uint32_t i = 0; i < 30; i++)
        infer("", BODY, 200);
    for (uint32_t sent = 0, more; sent < 3; sent += more) { /* in one message, unless requests take long */
        more = times(take("200 OK"), "\"name\":\"infer twice\"");
        assert_true(more <= 3 - sent);
        expect_steps(message, more); /* and no steps of the others */
    }
    assert_int_equal(serving_close(&server), 0);
    (void)close(listener);

    begin("1");
    fd = client_connect(&server);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        client_call(fd, "POST", "/v2/models/twice/infer", "", BODY, strlen(BODY), &answer);
        assert_int_equal(answer.code, 200);
    }
    (void)close(fd);
    await_metric("inlay_spans_total{result=\"failed\"}", 1);
    assert_true(client_metric(&server, "inlay_spans_total{result=\"sent\"}") == 0);
    assert_int_equal(serving_close(&server), 0);
    (void)close(listener);
}

struct taken {
    uint32_t runs, nodes; /* spans */
};

/* Takes messages until they have as many runs as user->runs says, and counts their spans. */
static void *take_runs(void *user)
{
    struct taken *taken = user;
    uint32_t wanted = taken->runs;

    for (taken->runs = 0; taken->runs < wanted;) {
        const char *got = take("200 OK");

        taken->runs += times(got, "\"name\":\"run\"");
        taken->nodes += times(got, "\"inlay.node\"");
    }
    return NULL;
}

/* The first 256 runs have spans of their steps, and then one run a second. */
static void test_many_steps(void **state)
{
    enum { REQUESTS = 400, PROFILES = 256, PROFILES_A_SECOND = 1 };
    struct taken taken = { .runs = 1 };
    static struct answer answer;
    double begun = client_seconds();
    pthread_t thread;
    uint32_t nodes = 0; /* of one run */
    int fd;

    (void)state;
    begin("1");
    fd = client_connect(&server);
    for (uint32_t sent = 0; sent < REQUESTS;) {
        uint32_t until = sent == 0 ? 1 : REQUESTS;

        taken = (struct taken){ .runs = until - sent };
        assert_int_equal(pthread_create(&thread, NULL, take_runs, &taken), 0);
        for (; sent < until; sent++) {
            client_call(fd, "POST", "/v2/models/twice/infer", "", BODY, strlen(BODY), &answer);
            assert_int_equal(answer.code, 200);
        }
        (void)pthread_join(thread, NULL);
        if (sent == 1)
            nodes = taken.nodes;
    }
    assert_true(nodes > 0 && taken.nodes % nodes == 0);
    assert_true(taken.nodes / nodes >= PROFILES - 1);
    assert_true(taken.nodes / nodes <= PROFILES + PROFILES_A_SECOND * (client_seconds() - begun));
    (void)close(fd);
    assert_int_equal(serving_close(&server), 0);
    (void)close(listener);
}

/* The run of a batch belongs to each sampled request of it. */
static void test_batch(void **state)
{
    enum { REQUESTS = 2 };
    char endpoint[64], text[512];
    const char *flags[] = { "--trace-endpoint", endpoint, "--trace-sample",   "1",        "--max-batch", "2",
                            "--warmup",         "0",      "--batch-delay-us", "10000000", NULL };
    static struct answer answer;
    int fd[REQUESTS];

    (void)state;
    (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", collect());
    serving_open(&server, flags);
    (void)snprintf(text, sizeof text,
                   "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                   strlen(BODY), BODY);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        fd[i] = client_connect(&server);
        client_text(fd[i], text);
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        client_receive(fd[i], &answer);
        assert_int_equal(answer.code, 200);
        (void)close(fd[i]);
    }
    for (uint32_t found = 0; found < REQUESTS;) { /* usually one message has both */
        const char *got = take("200 OK");
        double start = 0;

        expect_steps(got, times(got, "\"name\":\"infer twice\""));
        for (const char *run = got; (run = strstr(run, "\"name\":\"run\"")) != NULL; run++, found++) {
            assert_true(start == 0 || start == number_after(run, "\"startTimeUnixNano\":\""));
            start = number_after(run, "\"startTimeUnixNano\":\"");
        }
    }
    assert_int_equal(serving_close(&server), 0);
    (void)close(listener);
}

/* The steps of an ensemble's models are below one run, in their order. */
static void test_ensemble(void **state)
{
    char endpoint[64];
    const char *flags[] = { "--trace-endpoint", endpoint, "--trace-sample", "1", NULL }, *got, *step;
    double ended;

    (void)state;
    (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", collect());
    serving_prepare(&server);
    serving_folder(&server, "models/chain/1");
    serving_file(&server, "models/chain/config.pbtxt",
                 "platform: \"ensemble\"\n"
                 "input { name: \"x\" data_type: TYPE_FP32 dims: [ -1, 3 ] }\n"
                 "output { name: \"out\" data_type: TYPE_FP32 dims: [ -1, 3 ] }\n"
                 "ensemble_scheduling { step [\n"
                 "{ model_name: \"twice\" input_map { key: \"x\" value: \"x\" }\n"
                 "  output_map { key: \"y\" value: \"middle\" } },\n"
                 "{ model_name: \"triple\" input_map { key: \"x\" value: \"middle\" }\n"
                 "  output_map { key: \"y\" value: \"out\" } } ] }\n",
                 0644);
    serving_start(&server, flags);
    client_expect(&server, "POST", "/v2/models/chain/infer", "", BODY, 200, "[8.0,0.0,8.0]");
    got = take("200 OK");
    expect_steps(got, 1);
    assert_true(times(got, "\"inlay.node\"") >= 2);
    step = strstr(got, "\"name\":\"run\"");
    step = strstr(step, "\"traceId\":\""); /* of the first step */
    assert_non_null(step);
    ended = number_after(step, "\"endTimeUnixNano\":\"");
    while (strstr(step + 1, "\"startTimeUnixNano\":\"") != NULL)
        step = strstr(step + 1, "\"startTimeUnixNano\":\"");
    assert_true(ended <= number_after(step, "\"startTimeUnixNano\":\""));
    assert_int_equal(serving_close(&server), 0);
    (void)close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans),    cmocka_unit_test(test_failure),  cmocka_unit_test(test_batch),
        cmocka_unit_test(test_ensemble), cmocka_unit_test(test_overload), cmocka_unit_test(test_many_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
