/* Connections of HTTP/1.1 from a client's view: framing, half-closed clients, many at once, and the server's end. */
#include "client.h"
#include "framing_cases.h"
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;

static int start(void **state)
{
    static const char *const flags[] = { "--instances", "1", "--runners", "2", NULL };

    *state = &server;
    serving_open(&server, flags);
    return 0;
}

static void restart(const char *const *flags)
{
    assert_int_equal(serving_end(&server, SIGTERM), 0);
    serving_start(&server, flags);
}

/* Waits until the server's threads have stopped. */
static void freeze(void)
{
    int status;

    assert_int_equal(kill(server.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(server.pid, &status, WUNTRACED), server.pid);
    assert_true(WIFSTOPPED(status));
}

/* On a busy machine, a test may need longer than the defaults between two steps of a connection: neither the server's
 * timeout nor its grace time ends it. */
#define LONG_TIMEOUT "--receive-timeout-ms", "3600000", "--grace-ms", "3600000"

/* Reads to the end of the connection. Returns the number of bytes; -1: it was reset. */
static ssize_t read_all(int fd, char *text, size_t room)
{
    size_t have = 0;

    for (;;) {
        ssize_t n = recv(fd, text + have, room - 1 - have, 0);

        if (n < 0)
            return -1;
        if (n == 0)
            break;
        have += (size_t)n;
        assert_true(have < room - 1);
    }
    text[have] = '\0';
    return (ssize_t)have;
}

/* Splits the bytes into replies, without interim ones; checks that each is complete. Returns their number. */
static uint32_t split(const char *name, const char *text, size_t bytes, struct answer *answers, uint32_t room)
{
    uint32_t count = 0;

    for (const char *at = text; at < text + bytes;) {
        const char *body = strstr(at, "\r\n\r\n");
        struct answer *answer = &answers[count];
        char length[32];

        if (body == NULL || strncmp(at, "HTTP/1.1 ", 9) != 0)
            fail_msg("%s: not a reply: %s", name, at);
        body += 4;
        answer->code = (int)strtol(at + 9, NULL, 10);
        (void)snprintf(answer->head, sizeof answer->head, "%.*s", (int)(body - at), at);
        at = body;
        if (answer->code / 100 == 1)
            continue;
        if (answer_header(answer, "Content-Length", length, sizeof length) == NULL)
            fail_msg("%s: no Content-Length: %s", name, answer->head);
        answer->body_bytes = strtoul(length, NULL, 10);
        assert_true(answer->body_bytes <= (size_t)(text + bytes - at));
        memcpy(answer->body, at, answer->body_bytes);
        answer->body[answer->body_bytes] = '\0';
        at += answer->body_bytes;
        count++;
        assert_true(count < room);
    }
    return count;
}

static void check_error(const char *name, const struct answer *answer)
{
    char type[64];

    if (answer_header(answer, "Content-Type", type, sizeof type) == NULL || strcmp(type, "application/json") != 0 ||
        strncmp(answer->body, "{\"error\":\"", 10) != 0 || answer->body[answer->body_bytes - 1] != '}')
        fail_msg("%s: not an error in JSON: %s%s", name, answer->head, answer->body);
}

static void check_case(const framing_case *row)
{
    static const char next[] = "GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    static struct answer answers[4];
    static char text[600000];
    size_t bytes;
    char *sent = framing_text(row, &bytes);
    int fd = client_connect(&server);
    ssize_t n;
    uint32_t count;

    assert_true(fd >= 0 && sent != NULL);
    client_send(fd, sent, bytes);
    free(sent);
    if (row->answer != 0) /* a smuggled request must not be answered */
        client_send(fd, next, sizeof next - 1);
    (void)shutdown(fd, SHUT_WR);
    n = read_all(fd, text, sizeof text);
    (void)close(fd);
    if (n < 0)
        fail_msg("%s: the connection was reset", row->name);
    count = split(row->name, text, (size_t)n, answers, 4);
    if (row->answer == 0) { /* incomplete: closed, maybe with a 400 */
        if (count > 1 || (count == 1 && answers[0].code != 400))
            fail_msg("%s: %s", row->name, text);
        return;
    }
    if (count != (row->keeps ? 2u : 1u) || answers[0].code != row->answer)
        fail_msg("%s: %u replies, not %d: %s", row->name, count, row->keeps ? 2 : 1, text);
    if (answers[0].code >= 400)
        check_error(row->name, &answers[0]);
    if (row->keeps && answers[1].code != 200)
        fail_msg("%s: the next request got %d", row->name, answers[1].code);
}

static void test_framing(void **state)
{
    (void)state;
    for (size_t i = 0; i < framing_case_count; i++)
        check_case(&framing_cases[i]);
}

/* 50 requests in one piece are answered in order. */
static void test_pipelining(void **state)
{
    enum { REQUESTS = 50 };
    static struct answer answers[REQUESTS + 1];
    static char text[262144];
    char all[8192] = "";
    int fd = client_connect(&server);
    ssize_t n;

    (void)state;
    for (int i = 0; i < REQUESTS; i++)
        (void)snprintf(all + strlen(all), sizeof all - strlen(all), "GET /v2/models/%s HTTP/1.1\r\nHost: a\r\n%s\r\n",
                       i % 3 == 0 ? "twice" : "none", i == REQUESTS - 1 ? "Connection: close\r\n" : "");
    client_text(fd, all);
    n = read_all(fd, text, sizeof text);
    assert_true(n > 0);
    assert_int_equal(split("pipelining", text, (size_t)n, answers, REQUESTS + 1), REQUESTS);
    for (int i = 0; i < REQUESTS; i++)
        assert_int_equal(answers[i].code, i % 3 == 0 ? 200 : 404);
    (void)close(fd);
}

/* A reply to HEAD has the length of GET's, and no body: the next reply follows at once. */
static void test_head(void **state)
{
    static char text[262144];
    int fd = client_connect(&server);
    const char *second;

    (void)state;
    client_text(fd, "HEAD /v2 HTTP/1.1\r\nHost: a\r\n\r\nGET /v2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_true(read_all(fd, text, sizeof text) > 0);
    second = strstr(text, "\r\n\r\n") + 4;
    assert_int_equal(strncmp(second, "HTTP/1.1 200 ", 13), 0);
    assert_non_null(strstr(text, "\r\nDate: "));
    (void)close(fd);
}

static const char twice[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}";

/* The client sends its body after 100 (Continue), and not at all if the request is refused. */
static void test_expect(void **state)
{
    char text[512], all[4096];
    struct answer answer;
    int fd = client_connect(&server);

    (void)state;
    for (int i = 0; i < 2; i++) {
        (void)snprintf(text, sizeof text,
                       "POST /v2/%s HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: %zu\r\n\r\n",
                       i == 0 ? "models/twice/infer" : "none", sizeof twice - 1);
        client_text(fd, text);
        client_receive(fd, &answer);
        assert_int_equal(answer.code, i == 0 ? 100 : 404);
        if (i == 0) {
            client_text(fd, twice);
            client_receive(fd, &answer);
            assert_int_equal(answer.code, 200);
        }
    }
    assert_int_equal(read_all(fd, all, sizeof all), 0); /* the server may wait for a body that does not come */
    (void)close(fd);
}

static int ask_spin(const char *turns)
{
    char body[256], text[512];
    int fd = client_connect(&server);

    (void)snprintf(body, sizeof body,
                   "{\"inputs\":[{\"name\":\"n\",\"shape\":[],\"datatype\":\"INT64\",\"data\":[%s]},{\"name\":\"x\","
                   "\"shape\":[4,4],\"datatype\":\"FP32\",\"data\":[1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4]}]}",
                   turns);
    (void)snprintf(text, sizeof text, "POST /v2/models/spin/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s",
                   strlen(body), body);
    client_text(fd, text);
    return fd;
}

/* One client shuts down its side and waits, another one closes its socket: both look the same until the server sends
 * 100 (Continue). The first is answered, the second is cancelled. */
static void test_half_closed(void **state)
{
    int first = ask_spin("1000000000000"), half, gone;
    struct answer answer;
    char rest[64];

    (void)state;
    client_await(&server, "inlay_runs", 1);
    half = ask_spin("10");
    client_await(&server, "inlay_queue_length{model=\"spin\",version=\"1\"}", 1);
    gone = ask_spin("1000000000000");
    client_await(&server, "inlay_queue_length{model=\"spin\",version=\"1\"}", 2);
    (void)shutdown(half, SHUT_WR);
    (void)close(gone);
    client_receive(half, &answer);
    assert_int_equal(answer.code, 100);
    client_await(&server, "inlay_queue_length{model=\"spin\",version=\"1\"}", 1);
    client_await(&server, "inlay_request_errors_total{model=\"spin\",version=\"1\",reason=\"cancelled\"}", 1);
    (void)close(first);
    client_receive(half, &answer);
    assert_int_equal(answer.code, 200);
    assert_int_equal(recv(half, rest, sizeof rest, 0), 0);
    (void)close(half);
    client_await(&server, "inlay_runs", 0);
    client_await(&server, "inlay_http_requests", 1);
}

/* All connections are ready at once, because the server is stopped meanwhile: each gets its answer. */
static void all_at_once(uint32_t count)
{
    static int fds[1024];
    struct answer answer;

    for (uint32_t i = 0; i < count; i++) {
        fds[i] = client_connect(&server);
        client_call(fds[i], "GET", "/v2/health/live", "", NULL, 0, &answer);
        assert_int_equal(answer.code, 200);
    }
    freeze();
    for (uint32_t i = 0; i < count; i++)
        client_text(fds[i], "GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(kill(server.pid, SIGCONT), 0);
    for (uint32_t i = 0; i < count; i++) {
        client_receive(fds[i], &answer);
        if (answer.code != 200)
            fail_msg("connection %u of %u: %d", i, count, answer.code);
    }
    for (uint32_t i = 0; i < count; i++)
        (void)close(fds[i]);
}

static void test_full_rounds(void **state)
{
    static const uint32_t counts[] = { 1, 127, 128, 129, 255, 256, 257, 512, 1024 };
    static const char *const threads[] = { "1", "2", "4", "8" };
    struct rlimit limit;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 2048 ? limit.rlim_max : 2048;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        const char *flags[] = { "--serve-threads", threads[i], "--warmup", "0", LONG_TIMEOUT, NULL };

        restart(flags);
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
            all_at_once(counts[k]);
    }
}

/* Clients that send their header slowly use all connections: the one that has waited longest gives way. One that waits
 * for its answer does not. */
static void test_slow_headers_give_way(void **state)
{
    enum { CONNECTIONS = 4 };
    static const char *const flags[] = {
        "--max-connections", "4", "--warmup", "0", "--runners", "2", LONG_TIMEOUT, NULL
    };
    int slow[CONNECTIONS], busy;
    char byte;

    (void)state;
    restart(flags);
    busy = ask_spin("1000000000000");
    client_await(&server, "inlay_runs", 1);
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        slow[i] = client_connect(&server);
        client_text(slow[i], "GET /v2/health/li");
    }
    for (uint32_t i = 0; i < 20; i++)
        client_expect(&server, "GET", "/v2/health/live", "", NULL, 200, "");
    assert_int_equal(recv(slow[0], &byte, 1, 0), 0);
    assert_true(client_metric(&server, "inlay_runs") == 1);
    for (uint32_t i = 0; i < CONNECTIONS; i++)
        (void)close(slow[i]);
    (void)close(busy);
}

/* Connections that wait to be accepted when SIGTERM arrives, and requests on open ones, are answered. */
static void test_sigterm_resets_nothing(void **state)
{
    enum { CONNECTIONS = 60 };
    static const char *const drains[] = { "0", "200" };
    int fds[CONNECTIONS];
    char text[1024];

    (void)state;
    for (int k = 0; k < 2; k++) {
        const char *flags[] = { "--drain-ms", drains[k], "--warmup", "0", LONG_TIMEOUT, NULL };
        struct answer answer;

        restart(flags);
        for (uint32_t i = 0; i < CONNECTIONS / 2; i++) {
            fds[i] = client_connect(&server);
            client_call(fds[i], "GET", "/v2/health/live", "", NULL, 0, &answer);
            assert_int_equal(answer.code, 200);
        }
        freeze();
        for (uint32_t i = CONNECTIONS / 2; i < CONNECTIONS; i++)
            fds[i] = client_connect(&server);
        (void)snprintf(text, sizeof text,
                       "POST /v2/models/twice/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s",
                       sizeof twice - 1, twice);
        for (uint32_t i = 0; i < CONNECTIONS; i++)
            client_text(fds[i], text);
        assert_int_equal(kill(server.pid, SIGTERM), 0);
        assert_int_equal(kill(server.pid, SIGCONT), 0);
        for (uint32_t i = 0; i < CONNECTIONS; i++) {
            client_receive(fds[i], &answer);
            if (answer.code != 200)
                fail_msg("drain_ms %s, connection %u: %d", drains[k], i, answer.code);
            (void)close(fds[i]);
        }
        assert_int_equal(serving_end(&server, 0), 0);
        serving_start(&server, NULL);
    }
}

/* The same with workers, whose supervisor holds the sockets. */
static void test_sigterm_of_workers_resets_nothing(void **state)
{
    enum { CONNECTIONS = 60, WORKERS = 2 };
    static const char *const drains[] = { "0", "200" };
    int fds[CONNECTIONS];
    char text[1024];

    (void)state;
    for (int k = 0; k < 2; k++) {
        const char *flags[] = { "--workers", "2", "--drain-ms", drains[k], LONG_TIMEOUT, NULL };
        struct answer answer;
        long pids[WORKERS];

        restart(flags);
        for (uint32_t i = 0; i < CONNECTIONS / 2; i++) {
            fds[i] = client_connect(&server);
            client_call(fds[i], "GET", "/v2/health/live", "", NULL, 0, &answer);
            assert_int_equal(answer.code, 200);
        }
        assert_int_equal(serving_children(&server, pids, WORKERS), WORKERS);
        for (uint32_t i = 0; i < WORKERS; i++)
            assert_int_equal(kill((pid_t)pids[i], SIGSTOP), 0);
        for (uint32_t i = CONNECTIONS / 2; i < CONNECTIONS; i++)
            fds[i] = client_connect(&server);
        (void)snprintf(text, sizeof text,
                       "POST /v2/models/twice/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s",
                       sizeof twice - 1, twice);
        for (uint32_t i = 0; i < CONNECTIONS; i++)
            client_text(fds[i], text);
        assert_int_equal(kill(server.pid, SIGTERM), 0);
        for (uint32_t i = 0; i < WORKERS; i++)
            assert_int_equal(kill((pid_t)pids[i], SIGCONT), 0);
        for (uint32_t i = 0; i < CONNECTIONS; i++) {
            client_receive(fds[i], &answer);
            if (answer.code != 200)
                fail_msg("drain_ms %s, connection %u: %d", drains[k], i, answer.code);
            (void)close(fds[i]);
        }
        assert_int_equal(serving_end(&server, 0), 0);
        serving_start(&server, NULL);
    }
}

int main(void)
{
    assert_int_equal(setenv("INLAY_ALLOWED_HOSTS", "other, a", 1), 0); /* the name in most cases */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_framing),
        cmocka_unit_test(test_pipelining),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_expect),
        cmocka_unit_test(test_half_closed),
        cmocka_unit_test(test_full_rounds),
        cmocka_unit_test(test_slow_headers_give_way),
        cmocka_unit_test(test_sigterm_resets_nothing),
        cmocka_unit_test(test_sigterm_of_workers_resets_nothing),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
