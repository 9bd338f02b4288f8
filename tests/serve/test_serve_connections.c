/* Any number of connections on any number of threads: each gets all its replies, also if as many connections are ready
 * as one call of epoll_wait() returns (256), and if all clients connect at once. */
#include "client.h"
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

enum { MAX_CONNECTIONS = 1024, ROUNDS = 2, PIPELINED = 3, MAX_REPLY = 1024 };

static struct serving server;

/* A request, and its reply, whose length never changes. */
typedef struct exchange_text {
    const char *request;
    char reply[MAX_REPLY];
    size_t reply_bytes;
} exchange_text;

static const char *const requests[] = {
    "GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n", /* answered by the thread of the connection */
    /* waits if all runners run */
    "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 81\r\n\r\n"
    "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1.25,2.25,3.25]}]}",
};

/* Asks once, to learn the length of the replies. */
static void learn(exchange_text *text)
{
    struct answer *answer = malloc(sizeof *answer);
    int fd = client_connect(&server);

    assert_true(fd >= 0 && answer != NULL);
    client_text(fd, text->request);
    client_receive(fd, answer);
    assert_int_equal(answer->code, 200);
    text->reply_bytes = strlen(answer->head) + answer->body_bytes;
    assert_true(text->reply_bytes <= sizeof text->reply);
    (void)close(fd);
    free(answer);
}

static void expect_replies(int fd, const exchange_text *text, uint32_t count, uint32_t connection)
{
    for (uint32_t i = 0; i < count; i++) {
        char reply[MAX_REPLY];
        ssize_t got = recv(fd, reply, text->reply_bytes, MSG_WAITALL);

        if (got != (ssize_t)text->reply_bytes || strncmp(reply, "HTTP/1.1 200 ", 13) != 0)
            fail_msg("connection %u, reply %u: %.*s", connection, i, got > 0 ? (int)got : 0, reply);
    }
}

/* Each connection sends requests and gets their replies, all connections at once; half of them send several at a
 * time. */
static void ask_all(const int *fds, uint32_t count, const exchange_text *text)
{
    char several[PIPELINED * 512];
    size_t bytes = strlen(text->request);

    assert_true(bytes * PIPELINED <= sizeof several);
    for (uint32_t i = 0; i < PIPELINED; i++)
        memcpy(several + i * bytes, text->request, bytes);
    for (uint32_t i = 0; i < count; i++)
        client_send(fds[i], several, bytes * (i % 2 == 0 ? 1 : PIPELINED));
    for (uint32_t i = 0; i < count; i++)
        expect_replies(fds[i], text, i % 2 == 0 ? 1 : PIPELINED, i);
}

static void try_threads(const char *threads)
{
    static const uint32_t counts[] = { 1, 127, 128, 129, 255, 256, 257, 512, MAX_CONNECTIONS };
    const char *const flags[] = {
        "--serve-threads", threads, "--max-connections", "2048", "--max-queue", "4096", NULL
    };
    exchange_text texts[sizeof requests / sizeof requests[0]];
    static int fds[MAX_CONNECTIONS];

    serving_start(&server, flags);
    for (size_t k = 0; k < sizeof requests / sizeof requests[0]; k++) {
        texts[k].request = requests[k];
        learn(&texts[k]);
    }
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (uint32_t i = 0; i < counts[c]; i++) {
            fds[i] = client_connect(&server);
            assert_true(fds[i] >= 0);
        }
        for (uint32_t round = 0; round < ROUNDS; round++)
            for (size_t k = 0; k < sizeof requests / sizeof requests[0]; k++)
                ask_all(fds, counts[c], &texts[k]);
        for (uint32_t i = 0; i < counts[c]; i++)
            (void)close(fds[i]);
    }
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

static void test_all_are_answered(void **state)
{
    static const char *const threads[] = { "1", "2", "4", "8" };

    (void)state;
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++)
        try_threads(threads[i]);
}

/* Connections that wait to be accepted do not wait for a request each. The server is stopped until all of them wait,
 * followed by one request that asks how many are open. */
static void test_all_are_accepted_at_once(void **state)
{
    enum { WAITING = 200 };
    static const char *const flags[] = { "--serve-threads", "1", NULL };
    struct answer *answer = malloc(sizeof *answer);
    const char *open;
    int first, second, fds[WAITING], status;

    (void)state;
    assert_non_null(answer);
    serving_start(&server, flags);
    first = client_connect(&server);
    client_call(first, "GET", "/v2/health/live", "", NULL, 0, answer);
    second = client_connect(&server); /* when it has its reply, the server has forgotten that the first one was ready */
    client_call(second, "GET", "/v2/health/live", "", NULL, 0, answer);
    assert_int_equal(kill(server.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(server.pid, &status, WUNTRACED), server.pid);
    assert_true(WIFSTOPPED(status));
    for (uint32_t i = 0; i < WAITING; i++)
        fds[i] = client_connect(&server);
    client_text(first, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_int_equal(kill(server.pid, SIGCONT), 0);
    client_receive(first, answer);
    open = strstr(answer->body, "\ninlay_http_connections ");
    assert_non_null(open);
    assert_int_equal(strtol(open + strlen("\ninlay_http_connections "), NULL, 10), WAITING + 2);
    for (uint32_t i = 0; i < WAITING; i++)
        (void)close(fds[i]);
    (void)close(first);
    (void)close(second);
    free(answer);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

/* If all connections are in use, one whose request has arrived does not give way to a new one. The server is stopped
 * until its only thread has both to do, the new connection first. */
static void test_requests_do_not_give_way(void **state)
{
    enum { CONNECTIONS = 4 };
    static const char *const flags[] = { "--serve-threads", "1", "--max-connections", "4", NULL };
    int fds[CONNECTIONS], late, status;
    struct answer *answer = malloc(sizeof *answer);

    (void)state;
    assert_non_null(answer);
    serving_start(&server, flags);
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        fds[i] = client_connect(&server);
        client_call(fds[i], "GET", "/v2/health/live", "", NULL, 0, answer);
        assert_int_equal(answer->code, 200);
    }
    assert_int_equal(kill(server.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(server.pid, &status, WUNTRACED), server.pid);
    late = client_connect(&server);
    client_text(fds[0], requests[0]); /* on the connection that has waited longest */
    client_text(late, requests[0]);
    assert_int_equal(kill(server.pid, SIGCONT), 0);
    client_receive(fds[0], answer);
    assert_int_equal(answer->code, 200);
    client_receive(late, answer);
    assert_int_equal(answer->code, 200);
    client_receive(fds[1], answer); /* this one gave way */
    assert_int_equal(answer->code, 0);
    for (uint32_t i = 0; i < CONNECTIONS; i++)
        (void)close(fds[i]);
    (void)close(late);
    free(answer);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

/* Many clients connect and send nothing. A client that sends its request within 100 ms is answered nevertheless: the
 * other connections wait to be accepted. A busy machine may take longer, so the test is repeated. */
static void test_new_connections_do_not_give_way(void **state)
{
    enum { CONNECTIONS = 4, SILENT = 16, TRIES = 50 };
    static const char *const flags[] = { "--serve-threads", "2", "--max-connections", "4", NULL };
    int fds[CONNECTIONS + SILENT];
    struct answer *answer = malloc(sizeof *answer);
    bool in_time = false;

    (void)state;
    assert_non_null(answer);
    serving_start(&server, flags);
    for (int k = 0; k < TRIES && !in_time; k++) {
        double began = client_seconds();

        for (uint32_t i = 0; i < CONNECTIONS + SILENT; i++)
            fds[i] = client_connect(&server);
        client_wait_ms(30);
        for (uint32_t i = 0; i < CONNECTIONS; i++)
            client_text(fds[i], requests[0]);
        in_time = client_seconds() - began < 0.1;
        for (uint32_t i = 0; i < CONNECTIONS && in_time; i++) {
            client_receive(fds[i], answer);
            assert_int_equal(answer->code, 200);
        }
        for (uint32_t i = 0; i < CONNECTIONS + SILENT; i++)
            (void)close(fds[i]);
    }
    assert_true(in_time);
    free(answer);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

/* Opens HTTP/2, and waits for the first bytes of the server. */
static int open_http2(void)
{
    static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" /* and empty SETTINGS */
                                "\0\0\0\4\0\0\0\0\0";
    int fd = client_connect(&server);
    char byte;

    assert_true(fd >= 0);
    client_send(fd, hello, sizeof hello - 1);
    assert_int_equal(recv(fd, &byte, 1, MSG_PEEK), 1);
    return fd;
}

/* Waits until the server has closed its side. */
static void wait_for_end(int fd)
{
    struct pollfd end = { .fd = fd, .events = POLLRDHUP };

    assert_int_equal(poll(&end, 1, 60000), 1);
}

/* Reads up to the end of the connection. Returns whether it is no reset, and the last frame is GOAWAY: the client may
 * send the requests from the first one on elsewhere. */
static bool reads_goaway(int fd)
{
    static const unsigned char goaway[] = { 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    unsigned char got[1024];
    size_t have = 0;
    ssize_t count;

    while ((count = recv(fd, got + have, sizeof got - have, 0)) > 0)
        have += (size_t)count;
    return count == 0 && have >= sizeof goaway && memcmp(got + have - sizeof goaway, goaway, sizeof goaway) == 0;
}

/* A client of HTTP/2 sends a request while the server closes its idle connection. Returns whether its writes succeed
 * and it reads GOAWAY, which says that the request was not processed. Closes the connection. */
static bool ends_gently(int fd)
{
    static const char ping[] = "\0\0\10\6\0\0\0\0\0"
                               "12345678";
    static const char headers[] = "\0\0\36\1\5\0\0\0\1"
                                  "\x82\x86\x44\x0f/v2/health/live\x41\x09localhost";
    bool good = true;

    wait_for_end(fd);
    for (int i = 0; i < 3; i++) /* a reset fails the second one */
        good = good && send(fd, ping, sizeof ping - 1, MSG_NOSIGNAL) == sizeof ping - 1;
    good = good && send(fd, headers, sizeof headers - 1, MSG_NOSIGNAL) == sizeof headers - 1 && reads_goaway(fd);
    (void)close(fd);
    return good;
}

/* The server waits a second for the client's end: on a busy machine, once more. */
static void test_http2_gives_way(void **state)
{
    enum { CONNECTIONS = 3, TRIES = 20 };
    static const char *const flags[] = { "--serve-threads", "1", "--max-connections", "3", NULL };
    int fds[CONNECTIONS], idle;
    struct answer *answer = malloc(sizeof *answer);
    bool good = false;

    (void)state;
    assert_non_null(answer);
    serving_start(&server, flags);
    for (int k = 0; k < TRIES && !good; k++) {
        idle = open_http2();
        for (uint32_t i = 0; i < CONNECTIONS; i++) {
            fds[i] = client_connect(&server);
            client_call(fds[i], "GET", "/v2/health/live", "", NULL, 0, answer);
            assert_int_equal(answer->code, 200);
        }
        good = ends_gently(idle);
        for (uint32_t i = 0; i < CONNECTIONS; i++)
            (void)close(fds[i]);
    }
    assert_true(good);
    /* Those that linger because their clients do not close them keep nobody out. */
    for (uint32_t i = 0; i < 60; i++) {
        (void)open_http2();
        client_expect(&server, "GET", "/v2/health/live", "", NULL, 200, "");
    }
    free(answer);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

/* A client has sent no request for receive_timeout_ms. */
static void test_http2_is_idle(void **state)
{
    static const char *const flags[] = { "--receive-timeout-ms", "1000", NULL };
    bool good = false;

    (void)state;
    serving_start(&server, flags);
    for (int k = 0; k < 20 && !good; k++)
        good = ends_gently(open_http2());
    assert_true(good);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

static int prepare(void **state)
{
    struct rlimit limit;

    *state = &server;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(limit.rlim_max > MAX_CONNECTIONS + 64);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    serving_prepare(&server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_answered),         cmocka_unit_test(test_all_are_accepted_at_once),
        cmocka_unit_test(test_requests_do_not_give_way), cmocka_unit_test(test_new_connections_do_not_give_way),
        cmocka_unit_test(test_http2_gives_way),          cmocka_unit_test(test_http2_is_idle)
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, prepare, serving_tear_away);
}
