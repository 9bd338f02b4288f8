/* Runs that take long or do not end: the other models are served, a run ends at the default timeout, and a run that
 * does not end makes the server unready. */
#include "client.h"
#include "fragile.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"
#include "inlay/types.h"
#include "model_writer.h"

static struct serving server;

static const char twice[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}";
static const char spin[] = "{\"inputs\":[{\"name\":\"n\",\"shape\":[],\"datatype\":\"INT64\",\"data\":[1000000000000]},"
                           "{\"name\":\"x\",\"shape\":[4,4],\"datatype\":\"FP32\","
                           "\"data\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}]}";

static int end(void **state)
{
    (void)state;
    if (server.pid > 0)
        (void)serving_end(&server, SIGKILL);
    serving_remove(&server);
    return 0;
}

/* Sends a request that never ends; returns its connection. */
static int begin_spin(const char *model)
{
    char head[256];
    int fd = client_connect(&server);

    (void)snprintf(head, sizeof head,
                   "POST /v2/models/%s/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", model,
                   strlen(spin));
    client_text(fd, head);
    client_text(fd, spin);
    return fd;
}

static void wait_for_metric(const char *name, double least)
{
    for (int i = 0; client_metric(&server, name) < least; i++) {
        if (i == 12000)
            fail_msg("%s is %g", name, client_metric(&server, name));
        client_wait_ms(5);
    }
}

/* Two models occupy all runners, and the extra threads that they may have, with runs that do not end. Each request of a
 * third one has an answer, long before the others have theirs. */
static void test_endless_runs(void **state)
{
    static const char *const flags[] = { "--runners", "2", "--providers", "reference", NULL };
    char from[256], to[256];
    int spins[12];

    (void)state;
    serving_prepare(&server);
    assert_int_equal(link(serving_path(&server, "models/spin.onnx", from, sizeof from),
                          serving_path(&server, "models/other.onnx", to, sizeof to)),
                     0);
    serving_start(&server, flags);
    /* a model that has used time comes after those that have not: the runners take runs that do not end before it */
    client_expect(&server, "POST", "/v2/models/twice/infer", "", twice, 200, "[2.0,4.0,6.0]");
    for (int i = 0; i < 12; i++)
        spins[i] = begin_spin(i < 6 ? "spin" : "other");
    wait_for_metric("inlay_queue_length{model=\"spin\",version=\"1\"}", 2);
    for (int i = 0; i < 100; i++)
        client_expect(&server, "POST", "/v2/models/twice/infer", "Inference-Timeout-Ms: 20000\r\n", twice, 200,
                      "[2.0,4.0,6.0]");
    client_expect(&server, "GET", "/v2/health/ready", "", NULL, 200, "");
    for (int i = 0; i < 12; i++)
        (void)close(spins[i]);
    assert_int_equal(serving_close(&server), 0);
}

/* A request without a timeout has that of the server, which cancels its run. */
static void test_timeout(void **state)
{
    static const char *const flags[] = { "--runners", "2", "--providers", "reference", "--timeout-ms", "300", NULL };

    (void)state;
    serving_prepare(&server);
    serving_start(&server, flags);
    client_expect(&server, "POST", "/v2/models/spin/infer", "", spin, 504, "");
    client_await(&server, "inlay_runs", 0);
    assert_int_equal(serving_close(&server), 0);
}

/* A run that ignores its deadline makes the server not ready; the other models are served. */
static void test_stuck_run(void **state)
{
    static const char *const flags[] = {
        "--plugin-dirs", "FOLDER/plugins", "--runners", "1", "--grace-ms", "100", NULL
    };
    static const char body[] =
        "{\"inputs\":[{\"name\":\"x\",\"shape\":[7],\"datatype\":\"FP32\",\"data\":[1,2,3,4,5,6,7]}]}";
    enum { MOST = 120 };
    char head[256], path[256];
    int fds[MOST], count = 0;

    (void)state;
    serving_prepare(&server);
    serving_plugin(&server, STUCK_PLUGIN, "stuck");
    serving_folder(&server, "models/endless/1");
    serving_file(&server, "models/endless/config.yaml", "warmup: 0\noptions: [\"providers=stuck,reference\"]\n", 0644);
    write_one(serving_path(&server, "models/endless/1/model.onnx", path, sizeof path), "Relu", "7");
    serving_start(&server, flags);
    (void)snprintf(head, sizeof head,
                   "POST /v2/models/endless/infer HTTP/1.1\r\nHost: localhost\r\nInference-Timeout-Ms: 100\r\n"
                   "Content-Length: %zu\r\n\r\n",
                   strlen(body));
    /* on a busy machine, a request can reach its deadline before a runner takes it */
    for (; client_metric(&server, "inlay_stuck_runs") < 1; client_wait_ms(500)) {
        assert_in_range(count, 0, MOST - 1);
        fds[count] = client_connect(&server);
        client_text(fds[count], head);
        client_text(fds[count++], body);
    }
    client_expect(&server, "GET", "/v2/health/ready", "", NULL, 400, "a run has not ended");
    client_expect(&server, "POST", "/v2/models/twice/infer", "", twice, 200, "[2.0,4.0,6.0]");
    while (count > 0)
        (void)close(fds[--count]);
    (void)serving_end(&server, SIGKILL);
    server.pid = 0;
}

/* An input of the model `fragile`, which fails in the way that the number demands. */
static const char *fragile_input(int demand, char *text, size_t bytes)
{
    (void)snprintf(text, bytes, "{\"inputs\":[{\"name\":\"x\",\"shape\":[2],\"datatype\":\"FP32\",\"data\":[%d,5]}]}",
                   demand);
    return text;
}

static void start_fragile(const char *options)
{
    static const char *const flags[] = { "--plugin-dirs", "FOLDER/plugins", NULL };
    char path[256];

    serving_prepare(&server);
    serving_plugin(&server, FRAGILE_PLUGIN, "fragile");
    serving_folder(&server, "models/fragile/1");
    serving_file(&server, "models/fragile/config.yaml", options, 0644);
    write_one(serving_path(&server, "models/fragile/1/model.onnx", path, sizeof path), "Relu", "2");
    serving_start(&server, flags);
}

/* A model in a process of its own crashes in 1,000 requests: another model has all of its answers. */
static void test_crashes(void **state)
{
    struct answer answer;
    char text[200];
    int fd;

    (void)state;
    start_fragile("options: [\"providers=fragile\", isolate=all]\n");
    client_expect(&server, "POST", "/v2/models/fragile/infer", "", fragile_input(3, text, sizeof text), 200,
                  "[3.0,5.0]");
    client_expect(&server, "POST", "/v2/models/fragile/infer", "", fragile_input(FRAGILE_CRASH, text, sizeof text), 503,
                  "isolated fragile has ended: it crashed (SIGSEGV)");
    client_expect(&server, "POST", "/v2/models/fragile/infer", "", fragile_input(3, text, sizeof text), 200,
                  "[3.0,5.0]");
    fd = client_connect(&server);
    for (int i = 0; i < 1000; i++) {
        (void)fragile_input(FRAGILE_CRASH, text, sizeof text);
        client_call(fd, "POST", "/v2/models/fragile/infer", "", text, strlen(text), &answer);
        assert_int_equal(answer.code, 503);
        client_call(fd, "POST", "/v2/models/twice/infer", "", twice, strlen(twice), &answer);
        assert_int_equal(answer.code, 200);
        assert_non_null(strstr(answer.body, "[2.0,4.0,6.0]"));
    }
    client_expect(&server, "POST", "/v2/models/fragile/infer", "", fragile_input(3, text, sizeof text), 503,
                  "is not started again for");
    client_expect(&server, "GET", "/v2/health/ready", "", NULL, 200, "");
    (void)close(fd);
    assert_int_equal(serving_close(&server), 0);
}

/* A model in a process of its own that hangs: its requests end in time, and the process is replaced. */
static void test_hangs(void **state)
{
    char text[200];

    (void)state;
    start_fragile("options: [\"providers=fragile\", isolate=all, device_timeout_ms=500]\n");
    client_expect(&server, "POST", "/v2/models/fragile/infer", "Inference-Timeout-Ms: 100\r\n",
                  fragile_input(FRAGILE_HANG, text, sizeof text), 504, "");
    client_expect(&server, "POST", "/v2/models/fragile/infer", "", fragile_input(FRAGILE_HANG, text, sizeof text), 503,
                  "did not answer within 500 ms");
    client_expect(&server, "POST", "/v2/models/fragile/infer", "", fragile_input(3, text, sizeof text), 200,
                  "[3.0,5.0]");
    assert_int_equal(serving_close(&server), 0);
}

/* The memory of a model in a process of its own is not that of the server, and bounded. */
static void test_memory(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)state; /* their shadow memory exceeds any limit */
#else
    char text[200];

    (void)state;
    start_fragile("options: [\"providers=fragile\", isolate=all, isolate_memory=268435456]\n");
    client_expect(&server, "POST", "/v2/models/fragile/infer", "", fragile_input(FRAGILE_EXHAUST, text, sizeof text),
                  503, "option isolate_memory: its process may have 268435456 bytes");
    client_expect(&server, "POST", "/v2/models/fragile/infer", "", fragile_input(FRAGILE_ALLOCATE, text, sizeof text),
                  503,
                  "it ran out of its 268435456 bytes of memory (16777216 more were requested; option isolate_memory)");
    client_expect(&server, "POST", "/v2/models/fragile/infer", "", fragile_input(3, text, sizeof text), 200,
                  "[3.0,5.0]");
    assert_true(serving_memory(&server) < (uint64_t)256 << 20);
    assert_int_equal(serving_close(&server), 0);
#endif
}

/* Sizes that a request states are its own fault, and bounded: of a tensor, and of all runs of a model together. */
static void test_sizes_in_requests(void **state)
{
    static const char *const flags[] = { "--providers", "reference", "--models-memory", "20000000", NULL };
    static const struct {
        const char *size, *part;
        int code;
    } rows[] = { { "3", "[0.0,0.0,0.0]", 200 },
                 { "-5", "-5", 400 },
                 { "1000000000000", "4000000000000 bytes", 413 },
                 { "6000000", "of 20000000 are in use", 413 },
                 { "3", "[0.0,0.0,0.0]", 200 } };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    char path[256], body[200];
    int fd;

    (void)state;
    serving_prepare(&server);
    mw_value(&wire, MW_INPUT, "s", INLAY_INT64, "1");
    mw_node(&wire, "ConstantOfShape", "s", "y");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "N");
    wire_end(&wire, mark);
    fd = open(serving_path(&server, "models/sized.onnx", path, sizeof path), O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0 && wire_write(&wire, fd) && close(fd) == 0);
    wire_deinit(&wire);
    serving_start(&server, flags);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)snprintf(body, sizeof body,
                       "{\"inputs\":[{\"name\":\"s\",\"shape\":[1],\"datatype\":\"INT64\",\"data\":[%s]}]}",
                       rows[i].size);
        client_expect(&server, "POST", "/v2/models/sized/infer", "", body, rows[i].code, rows[i].part);
    }
    assert_int_equal(serving_close(&server), 0);
}

/* Frames of HTTP/2 that ask for nothing: the connection ends before it has taken all of them. */
static void test_idle_frames(void **state)
{
    static const char *const flags[] = { "--providers", "reference", NULL };
    static const struct {
        uint8_t bytes[16];
        size_t count;
    } frames[] = { { { 0, 0, 5, 2, 0, 0, 0, 0, 1 }, 14 },             /* PRIORITY */
                   { { 0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1 }, 13 }, /* WINDOW_UPDATE */
                   { { 0, 0, 0, 77, 0, 0, 0, 0, 0 }, 9 } };           /* unknown */
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    enum { FRAMES = 400000 };

    (void)state;
    serving_prepare(&server);
    serving_start(&server, flags);
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        int fd = client_connect(&server);
        uint32_t sent = 0;

        assert_int_equal(write(fd, preface, sizeof preface - 1), sizeof preface - 1);
        while (sent < FRAMES && write(fd, frames[i].bytes, frames[i].count) == (ssize_t)frames[i].count)
            sent++;
        assert_in_range(sent, 1, FRAMES - 1);
        (void)close(fd);
        client_expect(&server, "POST", "/v2/models/twice/infer", "", twice, 200, "[2.0,4.0,6.0]");
    }
    assert_int_equal(serving_close(&server), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_endless_runs, end), cmocka_unit_test_teardown(test_timeout, end),
        cmocka_unit_test_teardown(test_stuck_run, end),    cmocka_unit_test_teardown(test_sizes_in_requests, end),
        cmocka_unit_test_teardown(test_idle_frames, end),  cmocka_unit_test_teardown(test_crashes, end),
        cmocka_unit_test_teardown(test_hangs, end),        cmocka_unit_test_teardown(test_memory, end),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
