/* The thread count of a run: all CPUs if it and those before it are alone, otherwise its share. */
#include "base/cpus.h"
#include "client.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;
static uint32_t cpus;

#define COUNT "{\"inputs\":[{\"name\":\"x\",\"shape\":[2],\"datatype\":\"FP32\",\"data\":[1,2]}]}"
#define SPIN                                                                                                           \
    "{\"inputs\":[{\"name\":\"n\",\"shape\":[],\"datatype\":\"INT64\",\"data\":[1000000000000]},{\"name\":\"x\","      \
    "\"shape\":[4,4],\"datatype\":\"FP32\",\"data\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}]}"

static void write_count(const char *path)
{
    write_relu(path, "count");
}

static int start(void **state)
{
    static const char *const flags[] = {
        "--plugin-dirs", "FOLDER/plugins", "--cache-dir", "FOLDER/cache", "--runners", "4", NULL
    };

    *state = &server;
    cpus = cpus_allowed();
    serving_prepare(&server);
    serving_plugin(&server, COUNTING_PLUGIN, "counting");
    serving_model(&server, "count", "options: [\"providers=counting,reference\"]\n", write_count);
    serving_start(&server, flags);
    return 0;
}

static void expect_threads(uint32_t threads)
{
    char part[64];

    (void)snprintf(part, sizeof part, "[%u.0,%u.0]", threads, threads);
    client_expect(&server, "POST", "/v2/models/count/infer", "", COUNT, 200, part);
}

static void test_shares(void **state)
{
    int spins[3];
    char head[256];

    (void)state;
    expect_threads(cpus);
    for (uint32_t i = 0; i < 3; i++) {
        spins[i] = client_connect(&server);
        (void)snprintf(head, sizeof head,
                       "POST /v2/models/spin/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                       strlen(SPIN));
        client_text(spins[i], head);
        client_text(spins[i], SPIN);
        client_await(&server, "inlay_runs", i + 1);
        expect_threads(cpus / (i + 2) > 1 ? cpus / (i + 2) : 1);
    }
    for (uint32_t i = 0; i < 3; i++)
        (void)close(spins[i]);
    client_await(&server, "inlay_runs", 0);
    for (uint32_t i = 0; i < 32; i++) /* the mean of the runs before comes close to one */
        client_expect(&server, "POST", "/v2/models/count/infer", "", COUNT, 200, "");
    expect_threads(cpus);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_shares) };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
