/* What a server does by default against clients that are hostile or too many: bounds of memory, browsers, guessed
 * tokens. */
#include "grpc_client.h"
#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;

static const char twice[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}";

static void restart(const char *const *flags)
{
    assert_int_equal(serving_end(&server, SIGTERM), 0);
    serving_start(&server, flags);
}

/* A request whose run takes hours. */
static int ask_spin(void)
{
    static const char body[] =
        "{\"inputs\":[{\"name\":\"n\",\"shape\":[],\"datatype\":\"INT64\",\"data\":[1000000000000]},{\"name\":\"x\","
        "\"shape\":[4,4],\"datatype\":\"FP32\",\"data\":[1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4]}]}";
    char head[256];
    int fd = client_connect(&server);

    (void)snprintf(head, sizeof head,
                   "POST /v2/models/spin/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                   sizeof body - 1);
    client_text(fd, head);
    client_text(fd, body);
    return fd;
}

static int start(void **state)
{
    *state = &server;
    serving_open(&server, NULL);
    return 0;
}

/* Numbers that the datatype does not have are refused with their place. */
static void test_numbers(void **state)
{
    static const char form[] =
        "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,%s]}]}";
    static const char *const wrong[] = { "1e999", "-1e999", "1e39", "NaN", "Infinity", "-Infinity", "nan", "null" };
    char body[256];

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)snprintf(body, sizeof body, form, wrong[i]);
        client_expect(&server, "POST", "/v2/models/twice/infer", "", body, 400, "error");
    }
    (void)snprintf(body, sizeof body, form, "1e39");
    client_expect(&server, "POST", "/v2/models/twice/infer", "", body, 400,
                  "input 'x': element 2 of its data: a number");
    (void)snprintf(body, sizeof body, form, "3e38");
    client_expect(&server, "POST", "/v2/models/twice/infer", "", body, 200, "[2.0,4.0,Infinity]");
}

/* The server with the port of admin_port. */
static struct serving admin_of_log(void)
{
    struct serving admin = server;
    char text[8192];
    const char *at;

    serving_await(&server, "(health and metrics)", text, sizeof text);
    for (at = strstr(text, "(health and metrics)"); at > text && at[-1] != ':';)
        at--;
    admin.port = (int)strtol(at, NULL, 10);
    return admin;
}

/* Requests in progress use all max_connections. Further clients get 503, even if they sent much that the server has not
 * read; admin_port still answers. */
static void test_refused_connections(void **state)
{
    enum { BUSY = 2, REFUSED = 20, BYTES = 100000 };
    static const char *const flags[] = { "--max-connections", "2", "--admin-port", "0", "--runners", "2", NULL };
    static char much[BYTES];
    int busy[BUSY], refused[REFUSED];
    struct serving admin;
    struct answer answer;

    (void)state;
    restart(flags);
    admin = admin_of_log();
    for (uint32_t i = 0; i < BUSY; i++)
        busy[i] = ask_spin();
    client_await(&admin, "inlay_runs", BUSY);
    memset(much, 'x', sizeof much);
    for (uint32_t i = 0; i < REFUSED; i++) {
        refused[i] = client_connect(&server);
        client_text(refused[i],
                    "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n");
        client_send(refused[i], much, sizeof much);
    }
    for (uint32_t i = 0; i < REFUSED; i++) {
        client_receive(refused[i], &answer);
        assert_int_equal(answer.code, 503);
        assert_non_null(strstr(answer.body, "all max_connections are in use"));
        assert_int_equal(recv(refused[i], much, 1, 0), 0);
        (void)close(refused[i]);
    }
    assert_true(client_metric(&admin, "inlay_refused_total{reason=\"connections\"}") == REFUSED);
    client_expect(&admin, "GET", "/v2/health/live", "", NULL, 200, "");
    client_expect(&admin, "GET", "/v2/health/ready", "", NULL, 200, "");
    for (uint32_t i = 0; i < BUSY; i++)
        (void)close(busy[i]);
    client_await(&admin, "inlay_runs", 0);
    client_await(&admin, "inlay_http_connections", 1);
}

/* admin_port has health and metrics only; the other port has them, too. If all its connections are in use, a slow
 * client's connection is closed for a new one. */
static void test_admin_port(void **state)
{
    enum { SLOW = 100 };
    struct serving admin = admin_of_log();
    int slow[SLOW];

    (void)state;
    client_expect(&admin, "GET", "/v2/models/twice/ready", "", NULL, 200, "");
    client_expect(&admin, "GET", "/metrics", "", NULL, 200, "inlay_ready 1");
    client_expect(&server, "GET", "/metrics", "", NULL, 200, "inlay_ready 1");
    client_expect(&admin, "POST", "/v2/models/twice/infer", "", twice, 404, "admin_port has only");
    client_expect(&admin, "GET", "/", "", NULL, 404, "admin_port has only");
    client_expect(&admin, "POST", "/v2/repository/index", "", "", 404, "admin_port has only");
    for (uint32_t i = 0; i < SLOW; i++) {
        slow[i] = client_connect(&admin);
        client_text(slow[i], "GET /metr");
    }
    client_expect(&admin, "GET", "/v2/health/live", "", NULL, 200, "");
    client_expect(&server, "GET", "/v2/health/live", "", NULL, 200, "");
    for (uint32_t i = 0; i < SLOW; i++)
        (void)close(slow[i]);
}

/* Workers share the port. */
static void test_admin_port_of_workers(void **state)
{
    static const char *const flags[] = { "--workers", "2", "--admin-port", "0", "--grpc-port", "0", NULL };
    struct serving admin;
    char text[8192];
    const char *at;

    (void)state;
    restart(flags);
    admin = server;
    serving_await(&server, "(admin)", text, sizeof text);
    for (at = strstr(text, " (admin)"); at > text && at[-1] != ':';)
        at--;
    admin.port = (int)strtol(at, NULL, 10);
    client_expect(&admin, "GET", "/v2/health/ready", "", NULL, 200, "");
    client_expect(&admin, "POST", "/v2/models/twice/infer", "", twice, 404, "admin_port has only");
    client_expect(&server, "POST", "/v2/models/twice/infer", "", twice, 200, "[2.0,4.0,6.0]");
}

/* One line warns that other machines can use the models, unless tokens are needed. */
static void test_warning(void **state)
{
    static const char *const alone[] = { "--listen", "0.0.0.0", NULL };
    static const char *const workers[] = { "--listen", "0.0.0.0", "--workers", "2", NULL };
    static const char *const safe[] = { "--listen", "0.0.0.0", "--token-file", "FOLDER/tokens", NULL };
    static const char *const *const all[] = { alone, workers, safe };
    static const char warning[] = "warning: every client that reaches this machine may use the models";

    (void)state;
    serving_tokens(&server);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char text[8192];
        const char *first;

        assert_int_equal(serving_end(&server, SIGTERM), 0);
        serving_spawn(&server, all[i]);
        serving_await(&server, "ready, models", text, sizeof text);
        first = strstr(text, warning);
        assert_int_equal(first != NULL, all[i] != safe);
        if (first != NULL)
            assert_null(strstr(first + 1, warning));
    }
    restart(NULL);
    {
        char text[8192];

        serving_log(&server, false, text, sizeof text);
        assert_null(strstr(text, "warning"));
    }
}

/* Begins a request whose body is `sent` bytes of `length`. */
static int begin_body(size_t length, size_t sent)
{
    char head[256], *body = malloc(sent);
    int fd = client_connect(&server);

    assert_non_null(body);
    memset(body, ' ', sent);
    (void)snprintf(head, sizeof head,
                   "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", length);
    client_text(fd, head);
    client_send(fd, body, sent);
    free(body);
    return fd;
}

/* A client has sent most of what all together may send. Others are refused if they need more, at their header or while
 * they send, over REST and gRPC; small requests are answered. What is refused or finished no longer counts. */
static void test_inflight_bytes(void **state)
{
    static const char *const flags[] = { "--max-inflight-bytes", "20000", "--grpc-port", "0", NULL };
    static grpc_call call;
    int first, second, port;
    char value[32];
    struct answer answer;

    (void)state;
    restart(flags);
    port = grpc_port_of(&server);
    first = begin_body(19000, 18000);
    client_await(&server, "inlay_inflight_bytes", 18000);
    second = begin_body(10000, 10000); /* the request is refused at its header; its body is read and dropped */
    client_receive(second, &answer);
    assert_int_equal(answer.code, 429);
    assert_non_null(strstr(answer.body, "max_inflight_bytes"));
    assert_non_null(answer_header(&answer, "Retry-After", value, sizeof value));
    client_call(second, "POST", "/v2/models/twice/infer", "", twice, sizeof twice - 1, &answer);
    assert_int_equal(answer.code, 200); /* the connection goes on */
    (void)close(second);
    second = client_connect(&server); /* a chunked body has no length */
    client_text(second,
                "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (uint32_t i = 0; i < 64; i++)
        client_text(second, "40\r\n                                                                \r\n");
    client_text(second, "0\r\n\r\n");
    client_receive(second, &answer);
    assert_int_equal(answer.code, 429);
    (void)close(second);
    call = (grpc_call){ .sent = { 0, 0, 0, 0x17, 0x70 }, .sent_bytes = 6005 };
    grpc_expect(port, SERVICE "ModelInfer", &call, 8, "max_inflight_bytes");
    assert_true(client_metric(&server, "inlay_refused_total{reason=\"inflight_bytes\"}") == 3);
    client_await(&server, "inlay_inflight_bytes", 18000);
    client_send(first, twice, sizeof twice - 1);
    (void)close(first);
    client_await(&server, "inlay_inflight_bytes", 0);
    /* A request that is alone is read, although it is larger. */
    second = begin_body(30000 + sizeof twice - 1, 30000);
    client_text(second, twice);
    client_receive(second, &answer);
    assert_int_equal(answer.code, 200);
    (void)close(second);
    client_await(&server, "inlay_inflight_bytes", 0); /* which is after the reply */
    /* gRPC releases, too. */
    call = (grpc_call){ .sent = { 0 }, .sent_bytes = 5 };
    grpc_expect(port, SERVICE "ServerLive", &call, 0, "");
    client_await(&server, "inlay_inflight_bytes", 0);
}

/* A request for texts, with `count` empty arrays. */
static char *make_values(size_t count)
{
    static const char head[] = "{\"model\":\"none\",\"prompt\":\"x\",\"stop\":[[]";
    char *body = malloc(sizeof head + 3 * count + 4);

    assert_non_null(body);
    memcpy(body, head, sizeof head);
    for (size_t i = 0; i < count; i++)
        memcpy(body + sizeof head - 1 + 3 * i, ",[]", 3);
    memcpy(body + sizeof head - 1 + 3 * count, "]}", 3);
    return body;
}

/* The values of JSON take far more memory than their text: they count, and are bounded while they are read. */
static void test_inflight_values(void **state)
{
    static const char *const flags[] = { "--max-inflight-bytes", "4000000", NULL };
    char *few = make_values(3000), *many = make_values(1000000);
    uint64_t memory;
    int fd;

    (void)state;
    restart(flags);
    client_expect(&server, "POST", "/v1/completions", "", few, 400, "more than 4 stop sequences");
    client_await(&server, "inlay_inflight_bytes", 0);
    memory = serving_memory(&server);
    for (int i = 0; i < 3; i++) {
        client_expect(&server, "POST", "/v1/completions", "", many, 413,
                      "take more than 1000000 bytes, a quarter of max_inflight_bytes");
        client_await(&server, "inlay_inflight_bytes", 0); /* which is after the reply */
    }
    assert_true(serving_memory(&server) < memory + (24 << 20)); /* 150 MB otherwise */
    fd = begin_body(3950000, 3900000);
    client_await(&server, "inlay_inflight_bytes", 3900000);
    client_expect(&server, "POST", "/v1/completions", "", few, 429, "exceed max_inflight_bytes");
    (void)close(fd);
    client_await(&server, "inlay_inflight_bytes", 0);
    client_expect(&server, "POST", "/v1/completions", "", few, 400, "more than 4 stop sequences");
    free(few);
    free(many);
}

/* Replies count, too: a result that would exceed the limit is refused, and so are the replies to a client that sends
 * requests over HTTP/2 and reads nothing. Both are counted until the client has left. */
static void test_inflight_replies(void **state)
{
    enum { ROWS = 1500, STREAMS = 16 };
    static const char *const flags[] = { "--max-inflight-bytes", "20000", NULL };
    static const nghttp2_settings_entry no_window = { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0 };
    static grpc_call calls[STREAMS];
    static char body[2 * 3 * ROWS + 200];
    struct answer answer;
    grpc_client client;
    double refused;
    int first;
    size_t used;

    (void)state;
    restart(flags);
    used = (size_t)snprintf(body, sizeof body,
                            "{\"inputs\":[{\"name\":\"x\",\"shape\":[%d,3],\"datatype\":\"FP32\",\"data\":[1", ROWS);
    for (uint32_t i = 1; i < 3 * ROWS; i++)
        used += (size_t)snprintf(body + used, sizeof body - used, ",1");
    (void)snprintf(body + used, sizeof body - used, "]}]}");
    first = begin_body(9000, 8000);
    client_await(&server, "inlay_inflight_bytes", 8000);
    client_once(&server, "POST", "/v2/models/twice/infer", "", body, &answer);
    assert_int_equal(answer.code, 429);
    assert_non_null(strstr(answer.body, "their replies exceed max_inflight_bytes"));
    (void)close(first);
    client_await(&server, "inlay_inflight_bytes", 0);
    client_once(&server, "POST", "/v2/models/twice/infer", "", body, &answer);
    assert_int_equal(answer.code, 200);
    client_await(&server, "inlay_inflight_bytes", 0);

    /* Its window is empty, so that no reply leaves the server: the first one is not refused. */
    refused = client_metric(&server, "inlay_refused_total{reason=\"inflight_bytes\"}");
    grpc_open(&client, server.port);
    assert_int_equal(nghttp2_submit_settings(client.session, NGHTTP2_FLAG_NONE, &no_window, 1), 0);
    for (uint32_t i = 0; i < STREAMS; i++) {
        calls[i] = (grpc_call){ .path = "/metrics" };
        grpc_submit_rest(&client, &calls[i], "GET", "");
    }
    client_await(&server, "inlay_refused_total{reason=\"inflight_bytes\"}", refused + STREAMS - 1);
    assert_true(client_metric(&server, "inlay_inflight_bytes") > 0);
    grpc_close(&client);
    client_await(&server, "inlay_inflight_bytes", 0);
}

static int code_of(const char *method, const char *target, const char *host, const char *more, const char *body)
{
    char head[1024];
    int fd = client_connect(&server);
    static struct answer answer;

    (void)snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %zu\r\n\r\n%s", method, target,
                   host, more, strlen(body), body);
    client_text(fd, head);
    client_receive(fd, &answer);
    (void)close(fd);
    return answer.code;
}

/* Without a token, a server on loopback answers to addresses, localhost and the configured names only. */
static void test_hosts(void **state)
{
    static const char *const flags[] = { "--allowed-hosts", "one.example,two.example", NULL };
    static const char *const tokens[] = { "--token-file", "FOLDER/tokens", NULL };
    static const char *const good[] = { "localhost",  "LOCALHOST:8000", "a.localhost", "127.0.0.1:8000",
                                        "[::1]:8000", "[::1]",          "192.168.1.2", "" };
    static const char *const bad[] = { "evil.example",  "evil.example:8000",      "localhost.evil.example",
                                       "evillocalhost", "127.0.0.1.evil.example", "one.example",
                                       "[evil]" };

    (void)state;
    restart(NULL);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(code_of("GET", "/v2", good[i], "", ""), 200);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (code_of("GET", "/v2", bad[i], "", "") != (i == 6 ? 400 : 403) &&
            code_of("GET", "/v2", bad[i], "", "") != 403)
            fail_msg("Host: %s is answered %d", bad[i], code_of("GET", "/v2", bad[i], "", ""));
    /* The authority of the target replaces the header. */
    assert_int_equal(code_of("GET", "http://evil.example/v2", "localhost", "", ""), 403);
    assert_int_equal(code_of("GET", "http://localhost/v2", "localhost", "", ""), 200);
    restart(flags);
    assert_int_equal(code_of("GET", "/v2", "two.example:80", "", ""), 200);
    assert_int_equal(code_of("GET", "/v2", "localhost", "", ""), 200);
    assert_int_equal(code_of("GET", "/v2", "three.example", "", ""), 403);
    assert_true(client_metric(&server, "inlay_refused_total{reason=\"host\"}") == 1);
    restart(tokens);
    assert_int_equal(code_of("GET", "/v2", "evil.example", AS_USER, ""), 200);
}

/* Pages of other origins may not POST. */
static void test_origins(void **state)
{
    static const char *const flags[] = { "--allowed-origins", "https://app.example,http://localhost:3000", NULL };
    static const struct {
        const char *origin;
        bool with_setting;
    } others[] = { { "Origin: https://app.example\r\n", true },
                   { "Origin: http://localhost:3000\r\n", true },
                   { "Origin: http://evil.example\r\n", false },
                   { "Origin: null\r\n", false },
                   { "Origin: http://localhost.evil.example\r\n", false } };
    static const char target[] = "/v2/models/twice/infer";

    (void)state;
    for (int k = 0; k < 2; k++) {
        restart(k == 0 ? NULL : flags);
        assert_int_equal(code_of("POST", target, "localhost:80", "", twice), 200);
        assert_int_equal(code_of("POST", target, "localhost:80", "Origin: http://localhost:80\r\n", twice), 200);
        assert_int_equal(code_of("POST", target, "localhost:80", "Origin: http://localhost:81\r\n", twice), 403);
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
            bool allowed = k == 1 && others[i].with_setting;

            assert_int_equal(code_of("POST", target, "localhost:80", others[i].origin, twice), allowed ? 200 : 403);
            assert_int_equal(code_of("GET", "/v2", "localhost:80", others[i].origin, ""), 200);
        }
    }
    assert_true(client_metric(&server, "inlay_refused_total{reason=\"origin\"}") == 4);
}

/* Wrong tokens are counted, and from the fourth on their replies wait 50 ms, then 100, 200: also over gRPC and with an
 * Expect header. Right tokens do not wait, nor requests without a token. */
static void test_wrong_tokens(void **state)
{
    static const char *const flags[] = {
        "--token-file", "FOLDER/tokens", "--grpc-port", "0", "--admin-port", "0", NULL
    };
    static const char wrong[] = "Authorization: Bearer wrong-0123456789abcd\r\n";
    static const char expecting[] = "Authorization: Bearer wrong-0123456789abcd\r\nExpect: 100-continue\r\n";
    static grpc_call call;
    struct answer answer;
    double begin, least = 0;
    int port, fd;

    (void)state;
    restart(flags);
    port = grpc_port_of(&server);
    for (uint32_t i = 0; i < 10; i++)
        client_expect(&server, "GET", "/v2", "", NULL, 401, "bearer token");
    begin = client_seconds();
    for (uint32_t i = 0; i < 3; i++)
        client_expect(&server, "GET", "/v2", wrong, NULL, 401, "bearer token");
    client_expect(&server, "GET", "/v2", wrong, NULL, 401, "bearer token");
    least += 0.05;
    client_expect(&server, "POST", "/v2/models/twice/infer", expecting, twice, 401, "bearer token");
    least += 0.1;
    call = (grpc_call){ .token = "wrong-0123456789abcd", .sent = { 0 }, .sent_bytes = 5 };
    grpc_expect(port, SERVICE "ServerMetadata", &call, 16, "bearer token");
    least += 0.2;
    assert_true(client_seconds() - begin >= least);
    /* A client that leaves while it waits, and others that are answered meanwhile. */
    fd = client_connect(&server);
    client_text(fd, "GET /v2 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong-0123456789abcd\r\n\r\n");
    client_expect(&server, "GET", "/v2", AS_USER, NULL, 200, "");
    client_expect(&server, "GET", "/v2", "x-api-key: " USER_TOKEN "\r\n", NULL, 200, "");
    client_expect(&server, "GET", "/v2", "", NULL, 401, "");
    /* Another thread of the server may have the client's request: wait until it is counted. */
    for (uint32_t i = 0;; i++) {
        client_once(&server, "GET", "/metrics", AS_USER, NULL, &answer);
        if (strstr(answer.body, "inlay_refused_total{reason=\"token\"} 7\n") != NULL)
            break;
        if (i == 12000)
            fail_msg("the seventh wrong token is not counted");
        client_wait_ms(5);
    }
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),         cmocka_unit_test(test_refused_connections),
        cmocka_unit_test(test_admin_port),      cmocka_unit_test(test_admin_port_of_workers),
        cmocka_unit_test(test_warning),         cmocka_unit_test(test_inflight_bytes),
        cmocka_unit_test(test_inflight_values), cmocka_unit_test(test_inflight_replies),
        cmocka_unit_test(test_hosts),           cmocka_unit_test(test_origins),
        cmocka_unit_test(test_wrong_tokens),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
