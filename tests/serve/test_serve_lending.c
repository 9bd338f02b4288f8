/* A run that was expected to be short, and is therefore run by the thread of its connection, takes long. All
 * connections belong to this thread; the others are answered meanwhile. */
#include "grpc_client.h"
#include "inference.pb-c.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;
static char stuck_file[128];

#define BODY(first)                                                                                                    \
    "{\"inputs\":[{\"name\":\"x\",\"shape\":[7],\"datatype\":\"FP32\",\"data\":[" #first ",1,2,3,4,5,6]}]}"
#define TWICE "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}"
#define TWICE_REPLY "[2.0,4.0,6.0]"

static void write_neg(const char *path)
{
    write_one(path, "Neg", "7");
}

static void start_with(const char *runners)
{
    const char *const flags[] = { "--plugin-dirs",
                                  "FOLDER/plugins",
                                  "--cache-dir",
                                  "FOLDER/cache",
                                  "--serve-threads",
                                  "1",
                                  "--instances",
                                  "2",
                                  "--grpc-port",
                                  "0",
                                  "--runners",
                                  runners,
                                  NULL };

    serving_prepare(&server);
    serving_plugin(&server, STUCK_PLUGIN, "stuck");
    serving_model(&server, "held", "options: [\"providers=stuck,reference\"]\n", write_neg);
    (void)serving_path(&server, "stuck", stuck_file, sizeof stuck_file);
    assert_int_equal(setenv("STUCK_FILE", stuck_file, 1), 0);
    serving_start(&server, flags);
}

static int start_one(void **state)
{
    (void)state;
    start_with("1");
    return 0;
}

static int start_three(void **state)
{
    (void)state;
    start_with("3");
    return 0;
}

static int end(void **state)
{
    (void)state;
    (void)unlink(stuck_file);
    return serving_close(&server);
}

static void hold(void)
{
    int fd = open(stuck_file, O_WRONLY | O_CREAT, 0644);

    assert_true(fd >= 0);
    (void)close(fd);
}

static void release(void)
{
    assert_int_equal(unlink(stuck_file), 0);
}

static void send_infer(int fd, const char *model, const char *body)
{
    char head[256];

    (void)snprintf(head, sizeof head,
                   "POST /v2/models/%s/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", model,
                   strlen(body));
    client_text(fd, head);
    client_text(fd, body);
}

/* The id of the thread in the reply of `held`. */
static long thread_of(const struct answer *answer)
{
    const char *data = strstr(answer->body, "\"data\":[");

    assert_int_equal(answer->code, 200);
    assert_non_null(data);
    return strtol(data + 8, NULL, 10);
}

/* Makes `held` a model with short runs, and returns the thread of the server's first run of it, a runner. On a busy
 * machine many runs are long. */
static long run_short(void)
{
    static struct answer answer;
    static pid_t learned;
    static long runner;
    long other;

    if (learned != server.pid) {
        client_once(&server, "POST", "/v2/models/held/infer", "", BODY(0), &answer);
        runner = thread_of(&answer);
        learned = server.pid;
    }
    for (uint32_t i = 0;; i++) {
        client_once(&server, "POST", "/v2/models/held/infer", "", BODY(0), &answer);
        other = thread_of(&answer);
        if (other != runner)
            return runner;
        if (i == 20000)
            fail_msg("thread %ld runs all requests", runner);
    }
}

/* One request of `held` that does not end until others were answered. Returns the thread of its run. */
static long hold_one(int before, int waits)
{
    static struct answer answer;
    const int held = client_connect(&server);
    long thread;

    hold();
    send_infer(held, "held", BODY(1));
    client_await(&server, "inlay_runs", 1);
    for (uint32_t i = 0; i < 100; i++) {
        client_call(before, "GET", "/v2/models/held", "", NULL, 0, &answer);
        assert_int_equal(answer.code, 200);
        client_expect(&server, "GET", "/v2/health/ready", "", NULL, 200, "");
    }
    send_infer(waits, "twice", TWICE); /* waits until the only run ends */
    client_call(before, "GET", "/v2/health/live", "", NULL, 0, &answer);
    assert_int_equal(answer.code, 200);
    release();
    client_receive(held, &answer);
    thread = thread_of(&answer);
    client_receive(waits, &answer);
    assert_int_equal(answer.code, 200);
    assert_non_null(strstr(answer.body, TWICE_REPLY));
    client_call(held, "GET", "/v2/health/live", "", NULL, 0, &answer);
    assert_int_equal(answer.code, 200);
    (void)close(held);
    return thread;
}

/* If the last of the short runs happens to be long, the runner gets the held run, and nothing was shown: once more. */
static void test_others_are_answered(void **state)
{
    static struct answer answer;
    int before = client_connect(&server), waits = client_connect(&server);
    long runner, thread;

    (void)state;
    client_call(before, "GET", "/v2/health/live", "", NULL, 0, &answer);
    for (uint32_t i = 0;; i++) {
        runner = run_short();
        thread = hold_one(before, waits);
        if (thread != runner) /* the held run kept the thread of the connections busy */
            break;
        if (i == 50)
            fail_msg("thread %ld runs all held requests", runner);
    }
    (void)close(waits);
    (void)close(before);
}

/* Bytes after the request, which were received together with it, are the next request. */
static void test_next_request_is_kept(void **state)
{
    static struct answer answer;
    static char text[8192];
    size_t have = 0;
    ssize_t got;
    int held = client_connect(&server), other = client_connect(&server);

    (void)state;
    (void)run_short();
    hold();
    (void)snprintf(text, sizeof text,
                   "POST /v2/models/held/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s"
                   "GET /v2/models/held HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                   strlen(BODY(1)), BODY(1));
    client_text(held, text);
    client_await(&server, "inlay_runs", 1);
    client_call(other, "POST", "/v2/models/none/infer", "", TWICE, strlen(TWICE), &answer);
    assert_int_equal(answer.code, 404);
    release();
    while ((got = recv(held, text + have, sizeof text - 1 - have, 0)) > 0)
        have += (size_t)got;
    text[have] = '\0';
    assert_non_null(strstr(text, "\"model_name\":\"held\""));
    assert_non_null(strstr(text, "\"name\":\"held\""));
    (void)close(held);
    (void)close(other);
}

/* A client that leaves does no harm. */
static void test_client_leaves(void **state)
{
    int held = client_connect(&server);

    (void)state;
    (void)run_short();
    hold();
    send_infer(held, "held", BODY(1));
    client_await(&server, "inlay_runs", 1);
    (void)close(held);
    client_expect(&server, "GET", "/v2/health/ready", "", NULL, 200, "");
    release();
    client_await(&server, "inlay_runs", 0);
    client_expect(&server, "POST", "/v2/models/twice/infer", "", TWICE, 200, TWICE_REPLY);
}

/* Two held runs keep both the thread and its substitute busy. */
static void test_substitutes(void **state)
{
    static struct answer answer;
    int held[2] = { client_connect(&server), client_connect(&server) };

    (void)state;
    for (uint32_t round = 0; round < 3; round++) {
        (void)run_short();
        hold();
        for (uint32_t i = 0; i < 2; i++) {
            send_infer(held[i], "held", BODY(1));
            client_await(&server, "inlay_runs", i + 1);
            client_expect(&server, "POST", "/v2/models/twice/infer", "", TWICE, 200, TWICE_REPLY);
        }
        release();
        for (uint32_t i = 0; i < 2; i++) {
            client_receive(held[i], &answer);
            assert_int_equal(answer.code, 200);
        }
        client_expect(&server, "POST", "/v2/models/twice/infer", "", TWICE, 200, TWICE_REPLY);
    }
    (void)close(held[0]);
    (void)close(held[1]);
}

static void add_request(grpc_call *call, float first)
{
    static const int64_t shape[] = { 7 };
    const float x[7] = { first };

    *call = (grpc_call){ .path = SERVICE "ModelInfer" };
    grpc_add_infer(call, "held", shape, 1, x, sizeof x);
}

/* The calls of the connection with the run wait; other connections do not. */
static void test_grpc(void **state)
{
    static grpc_call calls[2], live;
    Inference__Empty empty = INFERENCE__EMPTY__INIT;
    grpc_client client, other;
    int port = grpc_port_of(&server);

    (void)state;
    (void)run_short();
    grpc_open(&client, port);
    grpc_open(&other, port);
    hold();
    add_request(&calls[0], 1);
    grpc_submit(&client, &calls[0]);
    client_await(&server, "inlay_runs", 1);
    add_request(&calls[1], 0);
    grpc_submit(&client, &calls[1]);
    for (uint32_t i = 0; i < 10; i++) {
        live = (grpc_call){ .path = SERVICE "ServerLive" };
        grpc_add(&live, &empty.base);
        grpc_submit(&other, &live);
        grpc_wait(&other, &live);
        assert_int_equal(live.status, 0);
    }
    client_expect(&server, "POST", "/v2/models/twice/infer", "", TWICE, 200, TWICE_REPLY);
    release();
    for (uint32_t i = 0; i < 2; i++) {
        grpc_wait(&client, &calls[i]);
        assert_int_equal(calls[i].status, 0);
    }
    grpc_close(&client);
    grpc_close(&other);
}

/* A server that ends answers other requests meanwhile, and waits for the run. */
static void test_ending(void **state)
{
    static struct answer answer;
    int held = client_connect(&server), other = client_connect(&server);
    char value[32];

    (void)state;
    (void)run_short();
    hold();
    send_infer(held, "held", BODY(1));
    client_await(&server, "inlay_runs", 1);
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    do {
        client_call(other, "GET", "/v2/health/live", "", NULL, 0, &answer);
        assert_int_equal(answer.code, 200);
    } while (answer_header(&answer, "Connection", value, sizeof value) == NULL); /* until it is draining */
    release();
    client_receive(held, &answer);
    assert_int_equal(answer.code, 200);
    (void)close(held);
    (void)close(other);
}

int main(void)
{
    const struct CMUnitTest one[] = { cmocka_unit_test(test_others_are_answered),
                                      cmocka_unit_test(test_next_request_is_kept),
                                      cmocka_unit_test(test_client_leaves) },
                            three[] = { cmocka_unit_test(test_substitutes), cmocka_unit_test(test_grpc),
                                        cmocka_unit_test(test_ending) };
    int failed;

    (void)signal(SIGPIPE, SIG_IGN);
    failed = cmocka_run_group_tests(one, start_one, end);
    return failed + cmocka_run_group_tests(three, start_three, end);
}
