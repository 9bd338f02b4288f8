/* Valid, invalid, large, slow, cancelled and malformed requests, mixed, from several concurrent clients: every request
 * is answered or its connection is closed, and neither memory nor descriptors leak.
 *
 * The test sends a few thousand; SOAK_REQUESTS=1000000 sends more. */
#include "grpc_client.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"
#include "random.h"

enum { CLIENTS = 4, KINDS = 11, RAW_FLOATS = 16384 };
static const char *const kinds[KINDS] = { "good", "binary",  "wrong JSON", "wrong model", "too large", "cut off",
                                          "left", "rubbish", "HTTP/2",     "one byte",    "silent" };

static struct serving server;
static int grpc_port;
static atomic_long left, answered[KINDS], ended[KINDS], wrong;

struct soak_client {
    pthread_t thread;
    uint64_t seed;
    int kept; /* a persistent connection; -1 = none */
};

#define GOOD "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[4,0,1]}]}"
#define SPIN                                                                                                           \
    "{\"inputs\":[{\"name\":\"n\",\"shape\":[],\"datatype\":\"INT64\",\"data\":[1000000000000]},{\"name\":\"x\","      \
    "\"shape\":[4,4],\"datatype\":\"FP32\",\"data\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}]}"

/* Sends a request on the persistent connection, or on a new one if the server has closed the idle connection. */
static int ask(struct soak_client *client, const char *path, const char *headers, const void *body, size_t bytes,
               struct answer *answer)
{
    answer->code = 0;
    for (int tries = 0; tries < 2 && answer->code == 0; tries++) {
        if (client->kept < 0)
            client->kept = client_connect(&server);
        if (client->kept < 0)
            return 0;
        client_call(client->kept, "POST", path, headers, body, bytes, answer);
        if (answer->code == 0) {
            (void)close(client->kept);
            client->kept = -1;
        }
    }
    return answer->code;
}

/* Sends bytes on a new connection, and reads until it ends if read_on. Returns whether anything was received. */
static bool send_raw(int port, const void *data, size_t bytes, bool read_on)
{
    struct serving at = { .port = port };
    int fd = client_connect(&at);
    char text[4096];
    bool any = false;

    if (fd < 0)
        return false;
    client_send(fd, data, bytes);
    if (read_on) {
        (void)shutdown(fd, SHUT_WR);
        while (recv(fd, text, sizeof text, 0) > 0)
            any = true;
    }
    (void)close(fd);
    return any;
}

static int send_binary(struct soak_client *client, struct answer *answer)
{
    static _Thread_local char body[256 + RAW_FLOATS * 4];
    char headers[80];
    int json =
        snprintf(body, 256,
                 "{\"inputs\":[{\"name\":\"x\",\"shape\":[%d],\"datatype\":\"FP32\",\"parameters\":{\"binary_data_"
                 "size\":%d}}],\"parameters\":{\"binary_data_output\":true}}",
                 RAW_FLOATS, RAW_FLOATS * 4);

    (void)snprintf(headers, sizeof headers, "Inference-Header-Content-Length: %d\r\n", json);
    return ask(client, "/v2/models/id_FP32/infer", headers, body, (size_t)json + RAW_FLOATS * 4, answer);
}

/* Sends the preface of HTTP/2, and then random frames or none. */
static bool send_frames(struct soak_client *client)
{
    uint8_t bytes[600] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    size_t used = 24;

    for (uint64_t frames = random_below(&client->seed, 8); frames > 0; frames--) {
        uint32_t length = (uint32_t)random_below(&client->seed, 40);

        bytes[used++] = 0;
        bytes[used++] = 0;
        bytes[used++] = (uint8_t)length;
        bytes[used++] = (uint8_t)random_below(&client->seed, 11); /* kind */
        bytes[used++] = (uint8_t)random_bits(&client->seed);      /* flags */
        for (uint32_t i = 0; i < 4 + length; i++)
            bytes[used++] = i < 3 ? 0 : (uint8_t)random_bits(&client->seed);
    }
    return send_raw(grpc_port, bytes, used, true);
}

static void send_one(struct soak_client *client)
{
    static const int weights[KINDS] = { 70, 8, 6, 4, 1, 3, 1, 3, 3, 4, 1 };
    static _Thread_local struct answer answer;
    char text[512];
    int kind = 0, code = -1, at = (int)random_below(&client->seed, 104);
    size_t bytes = (size_t)snprintf(
        text, sizeof text,
        "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n" GOOD, strlen(GOOD));
    bool any = false, waits = random_below(&client->seed, 50) == 0; /* until the server closes it */

    while (at >= weights[kind])
        at -= weights[kind++];
    switch (kind) {
    case 0:
        code = ask(client, "/v2/models/twice/infer", "", GOOD, strlen(GOOD), &answer);
        atomic_fetch_add(&wrong, code == 200 && strstr(answer.body, "[8.0,0.0,2.0]") == NULL);
        break;
    case 1:
        code = send_binary(client, &answer);
        break;
    case 2:
        code = ask(client, "/v2/models/twice/infer", "", GOOD, random_below(&client->seed, strlen(GOOD)), &answer);
        break;
    case 3:
        code = ask(client, "/v2/models/nothing/infer", "", GOOD, strlen(GOOD), &answer);
        break;
    case 4:
        any = send_raw(server.port, text,
                       (size_t)snprintf(text, sizeof text,
                                        "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\n"
                                        "Content-Length: 999999999\r\n\r\n"),
                       true);
        break;
    case 5:
        any = send_raw(server.port, text, random_below(&client->seed, bytes), waits);
        break;
    case 6:
        (void)snprintf(text, sizeof text,
                       "POST /v2/models/spin/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                       strlen(SPIN), SPIN);
        any = send_raw(server.port, text, strlen(text), false);
        break;
    case 7:
        for (size_t i = 0; i < bytes; i++)
            text[i] = (char)random_bits(&client->seed);
        any = send_raw(server.port, text, bytes, waits);
        break;
    case 8:
        any = send_frames(client);
        break;
    case 9:
        text[random_below(&client->seed, bytes)] = (char)random_bits(&client->seed);
        any = send_raw(server.port, text, bytes, waits);
        break;
    default:
        any = send_raw(random_below(&client->seed, 2) == 0 ? server.port : grpc_port, text, 0, false);
        break;
    }
    atomic_fetch_add(code > 0 || any ? &answered[kind] : &ended[kind], 1);
}

static void *soak(void *user)
{
    struct soak_client *client = user;

    while (atomic_fetch_sub(&left, 1) > 0)
        send_one(client);
    if (client->kept >= 0)
        (void)close(client->kept);
    return NULL;
}

static void run(long count)
{
    struct soak_client clients[CLIENTS];

    atomic_store(&left, count);
    for (unsigned i = 0; i < CLIENTS; i++) {
        clients[i] = (struct soak_client){ .seed = i + 1 + (uint64_t)count, .kept = -1 };
        assert_int_equal(pthread_create(&clients[i].thread, NULL, soak, &clients[i]), 0);
    }
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(clients[i].thread, NULL), 0);
}

/* Waits until this metrics request is the only active one. */
static void wait_idle(void)
{
    for (uint32_t i = 0;
         client_metric(&server, "inlay_http_requests") != 1 || client_metric(&server, "inlay_http_connections") != 1 ||
         client_metric(&server, "inlay_runs") != 0;
         i++) {
        assert_true(i < 12000);
        client_wait_ms(10);
    }
}

/* Waits until the server has at most `most` files open, or for a timeout; returns the number. The metric of connections
 * does not count gRPC connections. */
static uint32_t files_at_most(uint32_t most)
{
    uint32_t files = serving_files(&server);

    for (uint32_t i = 0; files > most && i < 12000; i++) {
        client_wait_ms(10);
        files = serving_files(&server);
    }
    return files;
}

static void test_soak(void **state)
{
    static const char *const flags[] = { "--grpc-port", "0", "--receive-timeout-ms", "1000", "--max-body-bytes",
                                         "1048576",     NULL };
    const char *wanted = getenv("SOAK_REQUESTS");
    long count = wanted != NULL ? strtol(wanted, NULL, 10) : 3000;
    uint32_t files, still;
    uint64_t memory, after;

    (void)state;
    serving_open(&server, flags);
    grpc_port = grpc_port_of(&server);
    run(count / 4 + 1000); /* afterwards all caches are filled */
    wait_idle();
    files = serving_files(&server);
    memory = serving_memory(&server);
    run(count);
    wait_idle();
    after = serving_memory(&server);
    still = files_at_most(files);
    for (int i = 0; i < KINDS; i++)
        print_message("%-12s answered %9ld, ended %9ld\n", kinds[i], atomic_load(&answered[i]), atomic_load(&ended[i]));
    print_message("%ld requests; memory %.1f MB, before %.1f MB; %u files, before %u\n", count, (double)after / 1e6,
                  (double)memory / 1e6, still, files);
    assert_int_equal(atomic_load(&wrong), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(atomic_load(&ended[i]), 0); /* complete requests are answered */
    assert_true(still <= files);
#ifndef __SANITIZE_ADDRESS__ /* which delays frees */
    assert_true((double)after < (double)memory * 1.02 + 2e6);
#endif
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

static int end(void **state)
{
    (void)state;
    serving_remove(&server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(test_soak, end) };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
