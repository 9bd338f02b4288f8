/* A memory budget for all models: which model is unloaded for another one, and requests that wait for their model. */
#include "grpc_client.h"
#include "inference.pb-c.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"
#include "inlay/types.h"
#include "model_writer.h"
#include "random.h"

static struct serving server;
static double all_bytes; /* of the three models together */

#define INFER "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[4,0,1]}]}"

static int start(void **state)
{
    *state = &server;
    serving_prepare_empty(&server);
    for (const char *name = "abc"; *name != '\0'; name++) {
        char path[128];

        (void)snprintf(path, sizeof path, "%s/models/%c.onnx", server.folder, *name);
        write_doubling(path, 1);
    }
    serving_start(&server, NULL);
    all_bytes = client_metric(&server, "inlay_models_bytes");
    assert_true(all_bytes > 300);
    return serving_end(&server, SIGTERM);
}

/* Starts the server with memory for this many of the three models. */
static void begin(double models)
{
    char budget[32];
    const char *flags[] = { "--models-memory", budget, "--grpc-port", "0", NULL };

    (void)snprintf(budget, sizeof budget, "%.0f", all_bytes * models / 3);
    serving_start(&server, flags);
}

static int infer(char model)
{
    char path[64];
    struct answer answer;

    (void)snprintf(path, sizeof path, "/v2/models/%c/infer", model);
    client_once(&server, "POST", path, "", INFER, &answer);
    if (answer.code == 200)
        assert_non_null(strstr(answer.body, "[8.0,0.0,2.0]"));
    return answer.code;
}

static void expect_ready(const char *ready)
{
    struct answer answer;

    client_once(&server, "POST", "/v2/repository/index", "", "", &answer);
    for (const char *name = "abc"; *name != '\0'; name++) {
        char part[80];

        (void)snprintf(part, sizeof part, "{\"name\":\"%c\",\"version\":\"1\",\"state\":\"%s\"", *name,
                       strchr(ready, *name) != NULL ? "READY" : "UNAVAILABLE");
        if (strstr(answer.body, part) == NULL)
            fail_msg("expected '%s' to be ready: %s", ready, answer.body);
    }
}

static void test_least_recently_used_is_unloaded(void **state)
{
    (void)state;
    begin(2.5);
    expect_ready("ab"); /* as many as fit */
    assert_int_equal(infer('a'), 200);
    assert_int_equal(infer('b'), 200);
    assert_int_equal(infer('c'), 200);
    expect_ready("bc");
    assert_int_equal(infer('b'), 200);
    assert_int_equal(infer('a'), 200);
    expect_ready("ab");
    assert_true(client_metric(&server, "inlay_models_bytes") <= all_bytes * 2.5 / 3);
    assert_int_equal(infer('d'), 404);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

static void test_one_too_large(void **state)
{
    struct answer answer;

    (void)state;
    begin(0.5);
    expect_ready("");
    client_once(&server, "POST", "/v2/models/a/infer", "", INFER, &answer);
    assert_int_equal(answer.code, 413);
    assert_non_null(strstr(answer.body, "models_memory"));
    assert_int_equal(infer('a'), 503); /* loading is not retried with each request */
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

/* Makes a call for a model, with this many bytes of its 12. */
static void make_call(const char *model, size_t bytes, grpc_call *out)
{
    static const int64_t shape[] = { 1, 3 };
    static const float numbers[] = { 4, 0, 1 };

    *out = (grpc_call){ .path = SERVICE "ModelInfer" };
    grpc_add_infer(out, model, shape, 2, numbers, bytes);
}

static void test_over_grpc(void **state)
{
    static grpc_call call;
    int port;

    (void)state;
    begin(1.5);
    port = grpc_port_of(&server);
    expect_ready("a");
    make_call("c", 12, &call);
    grpc_expect(port, SERVICE "ModelInfer", &call, 0, "");
    expect_ready("c");
    make_call("b", 4, &call); /* invalid, which is detected after its model was loaded */
    grpc_expect(port, SERVICE "ModelInfer", &call, 3, "its shape needs 12");
    expect_ready("b");
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

struct caller {
    pthread_t thread;
    uint64_t seed;
    uint32_t good, later;
};

static void *call(void *user)
{
    struct caller *caller = user;

    for (uint32_t i = 0; i < 25; i++) {
        int code = infer((char)('a' + (char)random_below(&caller->seed, 3)));

        caller->good += code == 200;
        caller->later += code == 503;
    }
    return NULL;
}

/* Models are loaded and unloaded under load: each request is answered. */
static void test_concurrent_requests(void **state)
{
    struct caller callers[6] = { { .seed = 0 } };
    uint32_t good = 0, later = 0;

    (void)state;
    begin(1.5);
    for (unsigned i = 0; i < 6; i++) {
        callers[i].seed = i;
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
        good += callers[i].good;
        later += callers[i].later;
    }
    assert_int_equal(good + later, 150);
    assert_true(good > 100);
    assert_true(client_metric(&server, "inlay_models_bytes") <= all_bytes * 1.5 / 3);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

/* A model that a request has loaded is not replaced for another request for a while: that one waits, at most until its
 * deadline, or until the server ends. */
static void test_models_are_held(void **state)
{
    static struct answer answer;
    const char *flags[] = { "--models-memory", NULL, "--models-hold-ms", "3600000", "--grpc-port", "0", NULL };
    static grpc_call call;
    grpc_client client;
    char budget[32], text[512];
    int waiting;

    (void)state;
    (void)snprintf(budget, sizeof budget, "%.0f", all_bytes * 2.5 / 3);
    flags[1] = budget;
    serving_start(&server, flags);
    assert_int_equal(infer('b'), 200);
    assert_int_equal(infer('c'), 200); /* instead of a */
    assert_int_equal(infer('a'), 200); /* instead of b, which was there from the start */
    expect_ready("ac");
    client_once(&server, "POST", "/v2/models/b/infer", "Inference-Timeout-Ms: 50\r\n", INFER, &answer);
    assert_int_equal(answer.code, 504);
    assert_int_equal(infer('a'), 200);
    assert_int_equal(infer('c'), 200);
    expect_ready("ac");
    client_expect(&server, "POST", "/v2/repository/models/b/load", "", "", 403, "");
    waiting = client_connect(&server);
    (void)snprintf(text, sizeof text,
                   "POST /v2/models/b/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                   strlen(INFER), INFER);
    client_text(waiting, text);
    make_call("b", 12, &call);
    grpc_open(&client, grpc_port_of(&server));
    grpc_submit(&client, &call);
    while (client_metric(&server, "inlay_http_requests") < 2 || /* with that of the metrics */
           client_metric(&server, "inlay_inflight_bytes") <= (double)strlen(INFER))
        ;
    assert_int_equal(serving_end(&server, SIGTERM), 0);
    grpc_wait(&client, &call);
    assert_int_equal(call.status, 14);
    assert_string_equal(call.text, "the server is shutting down");
    grpc_close(&client);
    client_receive(waiting, &answer);
    assert_int_equal(answer.code, 503); /* the load is refused, because a server that ends loads no model */
    assert_non_null(strstr(answer.body, "the server is shutting down"));
    (void)close(waiting);
}

static void begin_sequences(uint32_t count)
{
    char body[256];

    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(
            body, sizeof body,
            "{\"parameters\":{\"sequence_id\":%u,\"sequence_start\":true},\"inputs\":[{\"name\":\"x\",\"shape\":"
            "[1],\"datatype\":\"FP32\",\"data\":[1]}]}",
            i + 1);
        client_expect(&server, "POST", "/v2/models/sum/infer", "", body, 200, "[1.0]");
    }
}

static bool is_ready(const char *model)
{
    struct answer answer;
    char path[64];

    (void)snprintf(path, sizeof path, "/v2/models/%s/ready", model);
    client_once(&server, "GET", path, "", NULL, &answer);
    return answer.code == 200;
}

/* The memory of sequences counts: another model gives way to them. */
static void test_sequences_count(void **state)
{
    enum { SEQUENCES = 20 };
    const char *flags[] = { "--models-memory", NULL, NULL };
    char budget[32];
    double before, growth;

    (void)state;
    serving_model(&server, "sum", "options: [state=old=new]\n", write_sum);
    serving_start(&server, NULL);
    before = client_metric(&server, "inlay_models_bytes");
    begin_sequences(SEQUENCES);
    growth = client_metric(&server, "inlay_models_bytes") - before;
    assert_true(growth >= SEQUENCES);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
    (void)snprintf(budget, sizeof budget, "%.0f", before + growth / 2);
    flags[1] = budget;
    serving_start(&server, flags);
    expect_ready("abc");
    begin_sequences(SEQUENCES);
    for (uint32_t i = 0; is_ready("a"); i++) { /* the least recently used */
        assert_true(i < 12000);
        client_wait_ms(5);
    }
    assert_true(is_ready("sum"));
    assert_int_equal(infer('b'), 200);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

/* After a large body, the allocator's unused memory is given back to the system once. */
static void test_memory_is_given_back(void **state)
{
    enum { BYTES = 20 << 20 };
    static struct answer answer;
    char *body = malloc(BYTES);
    int fd;

    (void)state;
    serving_start(&server, NULL);
    assert_int_equal(infer('a'), 200);
    assert_true(client_metric(&server, "inlay_memory_trims_total") == 0);
    assert_non_null(body);
    memset(body, ' ', BYTES);
    fd = client_connect(&server);
    client_call(fd, "POST", "/v2/models/a/infer", "", body, BYTES, &answer);
    assert_int_equal(answer.code, 400);
    for (uint32_t i = 0; client_metric(&server, "inlay_memory_trims_total") == 0; i++) {
        assert_true(i < 12000);
        client_wait_ms(5);
    }
    assert_true(client_metric(&server, "inlay_memory_trims_total") == 1);
    assert_int_equal(infer('a'), 200);
    (void)close(fd);
    free(body);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

/* A model whose runs take 4 bytes times its input: their number is the request's. */
static void write_sized(const char *name)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    char path[160], file[32];
    int fd;

    mw_value(&wire, MW_INPUT, "s", INLAY_INT64, "1");
    mw_node(&wire, "ConstantOfShape", "s", "zeros");
    mw_node(&wire, "ReduceSum", "zeros", "y");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "1");
    wire_end(&wire, mark);
    (void)snprintf(file, sizeof file, "models/%s.onnx", name);
    fd = open(serving_path(&server, file, path, sizeof path), O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0 && wire_write(&wire, fd) && close(fd) == 0);
    wire_deinit(&wire);
}

static int infer_sized(const char *model, uint32_t count, const char *part)
{
    char path[64], body[200];
    struct answer answer;

    (void)snprintf(path, sizeof path, "/v2/models/%s/infer", model);
    (void)snprintf(body, sizeof body,
                   "{\"inputs\":[{\"name\":\"s\",\"shape\":[1],\"datatype\":\"INT64\",\"data\":[%u]}]}", count);
    client_once(&server, "POST", path, "", body, &answer);
    if (strstr(answer.body, part) == NULL)
        fail_msg("%d: %s", answer.code, answer.body);
    return answer.code;
}

static void *call_sized(void *user)
{
    return (void *)(uintptr_t)infer_sized(user, 10000000, "[0.0]"); /* 40 MB */
}

/* The runs of all models together keep to models_memory: they wait for each other. */
static void test_runs_wait(void **state)
{
    enum { CALLERS = 8 };
    const char *flags[] = { "--providers", "reference", "--models-memory", "100000000", "--runners", "8", NULL };
    pthread_t threads[CALLERS];

    (void)state;
    write_sized("p");
    write_sized("q");
    serving_start(&server, flags);
    for (uint32_t round = 0; client_metric(&server, "inlay_memory_waits_total") == 0; round++) {
        assert_true(round < 100);
        for (uint32_t i = 0; i < CALLERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, call_sized, i % 2 == 0 ? "p" : "q"), 0);
        for (uint32_t i = 0; i < CALLERS; i++) {
            void *code;

            assert_int_equal(pthread_join(threads[i], &code), 0);
            assert_int_equal((uintptr_t)code, 200);
        }
    }
    assert_int_equal(infer_sized("p", 30000000, "of 100000000 are in use"), 413);
    assert_int_equal(infer_sized("q", 20000000, "[0.0]"), 200); /* what idle contexts had kept is free */
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_recently_used_is_unloaded),
        cmocka_unit_test(test_one_too_large),
        cmocka_unit_test(test_over_grpc),
        cmocka_unit_test(test_concurrent_requests),
        cmocka_unit_test(test_models_are_held),
        cmocka_unit_test(test_sequences_count),
        cmocka_unit_test(test_memory_is_given_back),
        cmocka_unit_test(test_runs_wait),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_away);
}
