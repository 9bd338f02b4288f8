/* Requests that are late, cancelled, too many or too slow; leaks after them; and the shutdown of the server. */
#include "client.h"
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server, first_server; /* first_server: saved while a test starts another one */

/* x loops n times; 10^12 iterations take hours. */
static const char spin[] = "{\"inputs\":[{\"name\":\"n\",\"shape\":[],\"datatype\":\"INT64\",\"data\":[1000000000000]},"
                           "{\"name\":\"x\",\"shape\":[4,4],\"datatype\":\"FP32\",\"data\":"
                           "[1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4]}]}";
static const char twice[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}";

static int start(void **state)
{
    static const char *const flags[] = { "--receive-timeout-ms", "2000", "--max-queue", "2",
                                         "--instances",          "1",    "--runners",   "2",
                                         "--grace-ms",           "300",  NULL };

    (void)state;
    serving_open(&server, flags);
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (first_server.pid > 0) /* the test has failed */
        serving_remove(&first_server);
    serving_remove(&server);
    return 0;
}

static int ask_spin(const char *headers)
{
    char head[512];
    int fd = client_connect(&server), n;

    n = snprintf(head, sizeof head,
                 "POST /v2/models/spin/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n%s\r\n",
                 sizeof spin - 1, headers);
    client_send(fd, head, (size_t)n);
    client_send(fd, spin, sizeof spin - 1);
    return fd;
}

static void test_deadlines(void **state)
{
    int fd[3];
    struct answer answer;

    (void)state;
    for (uint32_t i = 0; i < 3; i++) { /* one runs, two wait */
        fd[i] = ask_spin("Inference-Timeout-Ms: 3000\r\n");
        client_await(&server, "inlay_runs", 1);
    }
    for (uint32_t i = 0; i < 3; i++) {
        client_receive(fd[i], &answer);
        assert_int_equal(answer.code, 504);
        assert_non_null(strstr(answer.body, "error"));
        (void)close(fd[i]);
    }
    client_await(&server, "inlay_request_errors_total{model=\"spin\",version=\"1\",reason=\"deadline\"}", 3);
    client_await(&server, "inlay_runs", 0);
    client_once(&server, "POST", "/v2/models/twice/infer", "Inference-Timeout-Ms: 0\r\n", twice, &answer);
    assert_int_equal(answer.code, 400);
}

static void test_disconnected_client(void **state)
{
    int fd[3];

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        fd[i] = ask_spin("");
        client_await(&server, "inlay_runs", 1);
    }
    client_await(&server, "inlay_queue_length{model=\"spin\",version=\"1\"}", 2);
    for (uint32_t i = 0; i < 3; i++)
        (void)close(fd[i]);
    client_await(&server, "inlay_request_errors_total{model=\"spin\",version=\"1\",reason=\"cancelled\"}", 3);
    client_await(&server, "inlay_runs", 0);
    client_await(&server, "inlay_queue_length{model=\"spin\",version=\"1\"}", 0);
}

static void test_a_full_queue(void **state)
{
    int fd[3];
    char value[32];
    struct answer answer;

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        fd[i] = ask_spin("");
        client_await(&server, "inlay_runs", 1);
    }
    client_await(&server, "inlay_queue_length{model=\"spin\",version=\"1\"}", 2);
    client_once(&server, "POST", "/v2/models/spin/infer", "", spin, &answer);
    assert_int_equal(answer.code, 429);
    assert_non_null(answer_header(&answer, "Retry-After", value, sizeof value));
    assert_true(strtol(value, NULL, 10) >= 1);
    /* Another model is not delayed. */
    client_once(&server, "POST", "/v2/models/twice/infer", "", twice, &answer);
    assert_int_equal(answer.code, 200);
    for (uint32_t i = 0; i < 3; i++)
        (void)close(fd[i]);
    client_await(&server, "inlay_queue_length{model=\"spin\",version=\"1\"}", 0);
    client_await(&server, "inlay_runs", 0);
}

/* Sends a request without waiting for its answer. */
static int ask(const char *model, const char *body)
{
    char head[256];
    int fd = client_connect(&server);

    (void)snprintf(head, sizeof head,
                   "POST /v2/models/%s/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", model,
                   strlen(body));
    client_text(fd, head);
    client_text(fd, body);
    return fd;
}

/* A run occupies the only instance. A normal request waits, and later an urgent one: the urgent one is answered
 * first. The normal one would run for hours. */
static void test_priority(void **state)
{
    static const char form[] =
        "{\"parameters\":{\"priority\":%u},\"inputs\":[{\"name\":\"n\",\"shape\":[],\"datatype\":\"INT64\",\"data\":["
        "%s]},{\"name\":\"x\",\"shape\":[4,4],\"datatype\":\"FP32\",\"data\":[1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4]}]}";
    int first = ask_spin(""), fd[2];
    struct answer answer;

    (void)state;
    client_await(&server, "inlay_runs", 1);
    for (uint32_t i = 0; i < 2; i++) {
        char body[512];

        (void)snprintf(body, sizeof body, form, i == 0 ? 3u : 1u, i == 0 ? "1000000000000" : "10");
        fd[i] = ask("spin", body);
        client_await(&server, "inlay_queue_length{model=\"spin\",version=\"1\"}", i + 1);
    }
    (void)close(first); /* which cancels it */
    client_receive(fd[1], &answer);
    assert_int_equal(answer.code, 200);
    for (uint32_t i = 0; i < 2; i++)
        (void)close(fd[i]);
    client_await(&server, "inlay_runs", 0);
}

/* There are one runner and one extra thread, which a third model occupies. One model has three waiting requests that
 * take hours. Another model, which has used less computing time so far, is next, although its request came last. */
static void test_fairness(void **state)
{
    static const char *const flags[] = { "--runners", "1", "--warmup", "0", NULL };
    static const char endless[] =
        "{\"inputs\":[{\"name\":\"n\",\"shape\":[],\"datatype\":\"INT64\",\"data\":[1000000000000]},"
        "{\"name\":\"x\",\"shape\":[4,4],\"datatype\":\"FP32\",\"data\":[1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4]}]}";
    char from[256], to[256];
    int spins[4], quick, third;
    struct answer answer;

    (void)state;
    first_server = server;
    serving_prepare(&server);
    assert_int_equal(link(serving_path(&server, "models/spin.onnx", from, sizeof from),
                          serving_path(&server, "models/third.onnx", to, sizeof to)),
                     0);
    serving_start(&server, flags);
    spins[0] = ask_spin("");
    client_await(&server, "inlay_runs", 1);
    third = ask("third", endless);
    client_await(&server, "inlay_extra_runs", 1);
    for (uint32_t i = 1; i < 4; i++)
        spins[i] = ask_spin("");
    client_await(&server, "inlay_queue_length{model=\"spin\",version=\"1\"}", 3);
    quick = ask("twice", twice);
    client_await(&server, "inlay_queue_length{model=\"twice\",version=\"1\"}", 1);
    (void)close(spins[0]);
    client_receive(quick, &answer);
    assert_int_equal(answer.code, 200);
    for (uint32_t i = 1; i < 4; i++)
        (void)close(spins[i]);
    (void)close(quick);
    (void)close(third);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
    serving_remove(&server);
    server = first_server;
    first_server.pid = 0;
}

/* With check_finite, a sum that overflows is an error with its own reason. */
static void test_non_finite(void **state)
{
    static const char *const flags[] = { "--check-finite", "1", "--warmup", "0", NULL };
    static const char large[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\","
                                "\"data\":[1,3e38,3]}]}";
    struct answer answer;

    (void)state;
    first_server = server;
    serving_open(&server, flags);
    client_once(&server, "POST", "/v2/models/twice/infer", "", twice, &answer);
    assert_int_equal(answer.code, 200);
    client_once(&server, "POST", "/v2/models/twice/infer", "", large, &answer);
    assert_int_equal(answer.code, 500);
    client_await(&server, "inlay_request_errors_total{model=\"twice\",version=\"1\",reason=\"non_finite\"}", 1);
    client_await(&server, "inlay_request_errors_total{model=\"twice\",version=\"1\",reason=\"failed\"}", 0);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
    serving_remove(&server);
    server = first_server;
    first_server.pid = 0;
}

/* A connection that sends nothing, half a header, or a body byte by byte is closed. */
static void test_slow_clients(void **state)
{
    static const char *const begins[] = { "", "GET / HT",
                                          "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n{" };
    int fd[3];

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        fd[i] = client_connect(&server);
        client_text(fd[i], begins[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        struct pollfd pollfd = { .fd = fd[i], .events = POLLIN };
        char byte[1024];
        uint32_t turns = 0;

        for (; poll(&pollfd, 1, 20) == 0 && turns < 3000; turns++)
            client_send(fd[i], " ", 1);
        assert_true(turns < 3000);
        while (recv(fd[i], byte, sizeof byte, 0) > 0)
            ;
        (void)close(fd[i]);
    }
    client_await(&server, "inlay_http_requests", 1);
}

/* Waits until at most this many files are open; a connection is closed shortly after it is no longer counted. */
static void wait_for_files(uint32_t count)
{
    for (uint32_t i = 0; serving_files(&server) > count; i++) {
        if (i == 12000)
            fail_msg("the server has %u files open, not %u", serving_files(&server), count);
        client_wait_ms(5);
    }
}

/* Valid, invalid, unknown and incomplete requests. */
static void mixed_round(uint32_t i)
{
    static const char *const bodies[] = { twice, "{\"inputs\":", spin };
    struct answer answer;
    int fd = client_connect(&server);

    assert_true(fd >= 0);
    for (uint32_t k = 0; k < 6; k++) {
        client_call(fd, "POST", "/v2/models/twice/infer", "", bodies[k % 3], strlen(bodies[k % 3]), &answer);
        assert_int_equal(answer.code, k % 3 == 0 ? 200 : 400);
    }
    client_call(fd, "GET", i % 2 == 0 ? "/v2/models/none" : "/v2/models/twice", "", NULL, 0, &answer);
    assert_int_equal(answer.code, i % 2 == 0 ? 404 : 200);
    if (i % 5 == 0)
        client_text(fd, "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{\"in");
    (void)close(fd);
    if (i % 20 == 0)
        (void)close(ask_spin(""));
}

static void test_no_leaks(void **state)
{
    uint32_t files = serving_files(&server);
    uint64_t before, after;

    (void)state;
    for (uint32_t i = 0; i < 150; i++)
        mixed_round(i);
    client_await(&server, "inlay_http_requests", 1);
    client_await(&server, "inlay_http_connections", 1);
    wait_for_files(files);
    before = serving_memory(&server);
    for (uint32_t i = 0; i < 450; i++)
        mixed_round(i);
    client_await(&server, "inlay_http_requests", 1);
    client_await(&server, "inlay_http_connections", 1);
    client_await(&server, "inlay_runs", 0);
    wait_for_files(files);
    after = serving_memory(&server);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    /* A leak of a few hundred bytes per request would exceed a megabyte. */
    if (after > before + (1u << 20))
        fail_msg("memory grew from %llu to %llu bytes", (unsigned long long)before, (unsigned long long)after);
#else
    (void)before;
    (void)after;
#endif
}

/* SIGHUP: the access log is opened again, and tokens are read again; a connection that is open stays open. A file that
 * cannot be used changes nothing. SIGUSR1 and SIGUSR2 do nothing. */
static void test_reload(void **state)
{
    static const char *const flags[] = {
        "--access-log", "FOLDER/access", "--token-file", "FOLDER/tokens", "--strict", "0", NULL
    };
    struct serving other;
    struct answer answer;
    char text[8192], path[256], moved[256];
    int fd;

    (void)state;
    serving_prepare_empty(&other);
    serving_tokens(&other);
    serving_start(&other, flags);
    fd = client_connect(&other);
    client_call(fd, "GET", "/v2", AS_USER, NULL, 0, &answer);
    assert_int_equal(answer.code, 200);
    assert_int_equal(kill(other.pid, SIGUSR1), 0);
    assert_int_equal(kill(other.pid, SIGUSR2), 0);
    (void)serving_path(&other, "access", path, sizeof path);
    (void)serving_path(&other, "access.1", moved, sizeof moved);
    assert_int_equal(rename(path, moved), 0);
    serving_file(&other, "tokens", "", 0600);
    assert_int_equal(kill(other.pid, SIGHUP), 0);
    serving_await(&other, "reloaded in part", text, sizeof text);
    assert_non_null(strstr(text, "has no token"));
    client_call(fd, "GET", "/v2", AS_USER, NULL, 0, &answer);
    assert_int_equal(answer.code, 200);
    serving_file(&other, "tokens", "another-0123456789abcdef\n", 0600);
    assert_int_equal(kill(other.pid, SIGHUP), 0);
    serving_await(&other, "reloaded\n", text, sizeof text);
    client_call(fd, "GET", "/v2", AS_USER, NULL, 0, &answer);
    assert_int_equal(answer.code, 401);
    client_call(fd, "GET", "/v2", "Authorization: Bearer another-0123456789abcdef\r\n", NULL, 0, &answer);
    assert_int_equal(answer.code, 200);
    (void)close(fd);
    assert_int_equal(access(path, F_OK), 0); /* it has been created again */
    assert_int_equal(serving_close(&other), 0);
}

/* Last test: requests that run or wait get the grace time, then they are refused; the exit code is 0. */
static void test_sigterm(void **state)
{
    int fd[3], idle = client_connect(&server);
    struct answer answer;

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        fd[i] = ask_spin("");
        client_await(&server, "inlay_runs", 1);
    }
    client_await(&server, "inlay_queue_length{model=\"spin\",version=\"1\"}", 2);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
    for (uint32_t i = 0; i < 3; i++) {
        client_receive(fd[i], &answer);
        assert_int_equal(answer.code, 503);
        assert_non_null(strstr(answer.body, "the server is shutting down"));
        (void)close(fd[i]);
    }
    assert_int_equal(client_connect(&server), -1);
    (void)close(idle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadlines),    cmocka_unit_test(test_disconnected_client),
        cmocka_unit_test(test_a_full_queue), cmocka_unit_test(test_priority),
        cmocka_unit_test(test_fairness),     cmocka_unit_test(test_slow_clients),
        cmocka_unit_test(test_no_leaks),     cmocka_unit_test(test_reload),
        cmocka_unit_test(test_non_finite),   cmocka_unit_test(test_sigterm),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, end);
}
