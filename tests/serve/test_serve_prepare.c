/* Work before a run that takes long: large JSON, compressed bodies, texts. All connections belong to one thread, which
 * answers others meanwhile. */
#include "grpc_client.h"
#include "inference.pb-c.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>
#include "random.h"
#include "cmocka_all.h"

static struct serving server;

enum { LARGE = 20 << 20, GZIP = MAX_WBITS + 16, ROWS = 200000, TRIES = 10 };

#define TWICE "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}"
#define PATH "/v2/models/twice/infer"
#define TWICE_REPLY "[2.0,4.0,6.0]"

static char *blanks;  /* [LARGE]: a request after 20 MB of spaces, of which gzip makes a little more than a 200th */
static char *numbers; /* [number_bytes]: a request with 7 MB of numbers, to which the reply is short */
static size_t number_bytes;
static uint8_t *coded;
static size_t coded_bytes;

static size_t compress_to(const void *data, size_t bytes, uint8_t *to, size_t room)
{
    z_stream stream = {
        .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes, .next_out = to, .avail_out = (uInt)room
    };

    assert_int_equal(deflateInit2(&stream, 1, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    (void)deflateEnd(&stream);
    return room - stream.avail_out;
}

static int start(void **state)
{
    static const char *const flags[] = { "--grpc-port", "0", "--serve-threads", "1", NULL };
    const size_t request = sizeof TWICE - 1;
    uint64_t seed = 1;

    (void)state;
    blanks = malloc(LARGE);
    coded = malloc(LARGE);
    assert_non_null(blanks);
    assert_non_null(coded);
    for (size_t i = 0; i < LARGE; i++)
        blanks[i] = random_below(&seed, 1024) == 0 ? '\t' : ' '; /* gzip must not make less than a 200th of it */
    memcpy(blanks + LARGE - request, TWICE, request);
    coded_bytes = compress_to(blanks, LARGE, coded, LARGE);
    assert_in_range(coded_bytes, LARGE / 195, LARGE / 50);
    numbers = malloc(ROWS * 3 * 12 + 200);
    assert_non_null(numbers);
    number_bytes = (size_t)snprintf(
        numbers, 200, "{\"inputs\":[{\"name\":\"none\",\"shape\":[%d,3],\"datatype\":\"FP32\",\"data\":[", ROWS);
    for (uint32_t i = 0; i < ROWS * 3; i++)
        number_bytes += (size_t)snprintf(numbers + number_bytes, 13, "%s0.%09u", i > 0 ? "," : "", i);
    number_bytes += (size_t)snprintf(numbers + number_bytes, 8, "]}]}");
    serving_prepare(&server);
    serving_model(&server, "text", "options: [state=old=new]\n", write_counting);
    serving_tokenizer(&server, "text", NULL);
    serving_start(&server, flags);
    return 0;
}

static int end(void **state)
{
    (void)state;
    free(blanks);
    free(coded);
    free(numbers);
    return serving_close(&server);
}

/* Sends all of a request but its last byte. */
static int send_most(const char *path, const char *headers, const void *body, size_t bytes)
{
    char head[512];
    const int fd = client_connect(&server), at_once = 1;

    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once), 0);
    (void)snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n", path,
                   headers, bytes);
    client_text(fd, head);
    client_send(fd, body, bytes - 1);
    return fd;
}

static bool has_answer(int fd)
{
    struct pollfd one = { .fd = fd, .events = POLLIN };

    return poll(&one, 1, 0) > 0;
}

/* Whether a health check that is sent after the request is answered before it. */
static bool is_overtaken(const char *headers, const void *body, size_t bytes, struct answer *answer)
{
    static struct answer live;
    const int health = client_connect(&server), fd = send_most(PATH, headers, body, bytes);
    bool first;

    client_await(&server, "inlay_inflight_bytes", (double)(bytes - 1)); /* the server has read the body so far */
    client_call(health, "GET", "/v2/health/live", "", NULL, 0, &live);
    client_send(fd, (const char *)body + bytes - 1, 1);
    (void)usleep(20000);
    client_call(health, "GET", "/v2/health/live", "", NULL, 0, &live);
    assert_int_equal(live.code, 200);
    first = !has_answer(fd);
    client_receive(fd, answer);
    (void)close(fd);
    (void)close(health);
    return first;
}

/* On a busy machine the health check may be the one that waits. */
static void expect_overtaken(const char *headers, const void *body, size_t bytes, int code)
{
    static struct answer answer;

    for (uint32_t i = 0; i < TRIES; i++) {
        const bool first = is_overtaken(headers, body, bytes, &answer);

        assert_int_equal(answer.code, code);
        if (first)
            return;
    }
    fail_msg("no health check was answered while a body was read");
}

static void test_large_json(void **state)
{
    (void)state;
    expect_overtaken("", numbers, number_bytes, 400);
}

static void test_compressed(void **state)
{
    (void)state;
    expect_overtaken("Content-Encoding: gzip\r\n", coded, coded_bytes, 200);
}

/* 20 MB of blanks in 20 KB: the server decodes 8 MiB of them, and a request that is compressed less is answered. */
static void test_ratio(void **state)
{
    static struct answer answer;
    uint8_t *bomb = malloc(LARGE / 100);
    char *text = malloc(LARGE);
    const size_t request = sizeof TWICE - 1;
    int fd = client_connect(&server);
    size_t bytes;

    (void)state;
    assert_non_null(bomb);
    assert_non_null(text);
    memset(text, ' ', LARGE);
    memcpy(text + LARGE - request, TWICE, request);
    bytes = compress_to(text, LARGE, bomb, LARGE / 100);
    client_call(fd, "POST", PATH, "Content-Encoding: gzip\r\n", bomb, bytes, &answer);
    assert_int_equal(answer.code, 413);
    assert_non_null(strstr(answer.body, "more than 200 times"));
    bytes = compress_to(text + LARGE - (7 << 20), 7 << 20, bomb, LARGE / 100);
    client_call(fd, "POST", PATH, "Content-Encoding: gzip\r\n", bomb, bytes, &answer);
    assert_int_equal(answer.code, 200);
    (void)close(fd);
    free(bomb);
    free(text);
}

/* RFC 1952, section 2.2: a file of gzip may have several members. */
static void test_members(void **state)
{
    static struct answer answer;
    uint8_t parts[1024];
    int fd = client_connect(&server);

    (void)state;
    for (size_t cut = 0; cut < sizeof TWICE; cut += 7) {
        size_t bytes = compress_to(TWICE, cut, parts, sizeof parts);

        bytes += compress_to(&TWICE[cut], sizeof TWICE - 1 - cut, parts + bytes, sizeof parts - bytes);
        client_call(fd, "POST", PATH, "Content-Encoding: gzip\r\n", parts, bytes, &answer);
        assert_int_equal(answer.code, 200);
        assert_non_null(strstr(answer.body, TWICE_REPLY));
        parts[bytes++] = 'x';
        client_call(fd, "POST", PATH, "Content-Encoding: gzip\r\n", parts, bytes, &answer);
        assert_int_equal(answer.code, 400);
    }
    (void)close(fd);
}

/* A body for texts is refused by its length, or as soon as it is longer, before the rest arrives. */
static void test_text_size(void **state)
{
    static struct answer answer;
    int fd = client_connect(&server);

    (void)state;
    client_text(fd, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 33554433\r\n\r\n");
    client_receive(fd, &answer);
    assert_int_equal(answer.code, 413);
    assert_non_null(strstr(answer.body, "32 MiB"));
    (void)close(fd);
    fd = client_connect(&server);
    client_text(fd, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client_text(fd, "2000001\r\n");
    client_send(fd, blanks, 65536);
    client_receive(fd, &answer);
    assert_int_equal(answer.code, 413);
    assert_non_null(strstr(answer.body, "32 MiB"));
    (void)close(fd);
    client_expect(&server, "POST", "/v1/completions", "",
                  "{\"model\":\"text\",\"prompt\":\"ab\",\"max_tokens\":2,\"temperature\":0}", 200, "\"text\":\"BC\"");
}

/* Requests whose clients leave, or whose deadline passes, are not worked off. */
static void test_abandoned(void **state)
{
    static struct answer answer;
    int fds[16];

    (void)state;
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        fds[i] = send_most(
            PATH, i % 2 == 0 ? "Content-Encoding: gzip\r\n" : "Content-Encoding: gzip\r\nInference-Timeout-Ms: 1\r\n",
            coded, coded_bytes);
        client_send(fds[i], coded + coded_bytes - 1, 1);
    }
    for (size_t i = 1; i < sizeof fds / sizeof *fds; i += 2) {
        client_receive(fds[i], &answer);
        assert_int_equal(answer.code, 504);
        (void)close(fds[i]);
    }
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i += 2)
        (void)close(fds[i]);
    client_await(&server, "inlay_prepare_queue_length", 0);
    client_await(&server, "inlay_prepare_requests", 0);
    client_await(&server, "inlay_inflight_bytes", 0);
    client_expect(&server, "POST", PATH, "", TWICE, 200, TWICE_REPLY);
    assert_true(client_metric(&server, "inlay_prepared_requests_total") > 0);
    assert_true(client_metric(&server, "inlay_prepare_seconds_total") > 0);
    assert_int_equal((int)client_metric(&server, "inlay_stuck_runs"), 0);
}

/* A stream of texts, also with the prompt as its beginning, comes as a whole from the threads that prepare it. */
static void test_streams(void **state)
{
    static char text[16384];

    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        client_stream(&server, "/v1/completions",
                      "{\"model\":\"text\",\"prompt\":\"ab\",\"max_tokens\":3,\"stream\":true,\"echo\":true}", "[DONE]",
                      text, sizeof text);
        assert_non_null(strstr(text, "\"text\":\"ab"));
        assert_non_null(strstr(text, "[DONE]"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_large_json), cmocka_unit_test(test_compressed),
                                        cmocka_unit_test(test_ratio),      cmocka_unit_test(test_members),
                                        cmocka_unit_test(test_text_size),  cmocka_unit_test(test_abandoned),
                                        cmocka_unit_test(test_streams) };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, end);
}
