/* Dynamic batching of requests of different lengths by padding; requests with short deadlines; sequences that
 * outlive the file of their model. */
#include "client.h"
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;

static void write_with_mask(const char *path)
{
    write_masked(path, true);
}

static void write_without_mask(const char *path)
{
    write_masked(path, false);
}

static void write_plain(const char *path)
{
    write_doubling(path, 1);
}

static int start(void **state)
{
    static const char *const flags[] = { "--admin-token-file", "FOLDER/admins", "--strict", "0", NULL };

    *state = &server;
    serving_prepare_empty(&server);
    serving_tokens(&server);
    serving_model(&server, "padded",
                  "max_batch: 6\nwarmup: 0\nbatch_delay_us: 10000000\ninstances: 1\nbuckets: 4,8\npad: [x=100]\n"
                  "options: [intra_threads=1]\n",
                  write_with_mask);
    serving_model(&server, "unmasked", "buckets: 4,8\n", write_without_mask);
    serving_model(&server, "plain", "buckets: 4,8\n", write_plain);
    serving_model(&server, "wrong", "buckets: 8,4\n", write_with_mask);
    serving_model(&server, "patient", "max_batch: 65536\nbatch_delay_us: 10000000\n", write_plain);
    serving_model(&server, "sum", "options: [state=old=new]\n", write_sum);
    serving_model(&server, "slow", "options: [state=old=new]\n", write_slow_sum);
    serving_start(&server, flags);
    return 0;
}

/* Sends rows of 1, 2, 3 ... with a mask that excludes the last element of each row. */
static int ask_padded(uint32_t rows, uint32_t length)
{
    char body[1024], x[256] = "", mask[256] = "", head[256];
    int fd = client_connect(&server);

    for (uint32_t i = 0; i < rows * length; i++) {
        (void)snprintf(x + strlen(x), sizeof x - strlen(x), "%s%u", i > 0 ? "," : "", i + 1);
        (void)snprintf(mask + strlen(mask), sizeof mask - strlen(mask), "%s%d", i > 0 ? "," : "",
                       i % length + 1 < length);
    }
    (void)snprintf(body, sizeof body,
                   "{\"inputs\":[{\"name\":\"x\",\"shape\":[%u,%u],\"datatype\":\"FP32\",\"data\":[%s]},"
                   "{\"name\":\"mask\",\"shape\":[%u,%u],\"datatype\":\"FP32\",\"data\":[%s]}]}",
                   rows, length, x, rows, length, mask);
    (void)snprintf(head, sizeof head,
                   "POST /v2/models/padded/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                   strlen(body));
    client_text(fd, head);
    client_text(fd, body);
    return fd;
}

static void expect_padded(int fd, const char *hidden, const char *total)
{
    struct answer answer;

    client_receive(fd, &answer);
    if (answer.code != 200 || strstr(answer.body, hidden) == NULL || strstr(answer.body, total) == NULL)
        fail_msg("expected %s and %s, got %d: %s", hidden, total, answer.code, answer.body);
    (void)close(fd);
}

#define HIDDEN(rows, length, data) "\"shape\":[" rows "," length "],\"data\":[" data "]"
#define TOTAL(rows, data) "\"shape\":[" rows ",1],\"data\":[" data "]"

static long runs_of(const char *model, long *requests)
{
    char path[128];
    const char *at;
    struct answer answer;

    (void)snprintf(path, sizeof path, "/v2/models/%s/stats", model);
    client_once(&server, "GET", path, "", NULL, &answer);
    at = strstr(answer.body, "\"inference_count\":");
    assert_non_null(at);
    *requests = strtol(at + strlen("\"inference_count\":"), NULL, 10);
    at = strstr(answer.body, "\"execution_count\":");
    assert_non_null(at);
    return strtol(at + strlen("\"execution_count\":"), NULL, 10);
}

/* The rows of each group fill a batch (max_batch is 6); batch_delay_us is long enough to join them on a busy
 * machine. */
static void test_lengths_are_joined(void **state)
{
    long requests, runs;
    int fds[6];

    (void)state;
    fds[0] = ask_padded(1, 3);
    fds[1] = ask_padded(2, 2);
    fds[2] = ask_padded(1, 4);
    fds[3] = ask_padded(2, 3);
    expect_padded(fds[0], HIDDEN("1", "3", "1.0,2.0,0.0"), TOTAL("1", "3.0"));
    expect_padded(fds[1], HIDDEN("2", "2", "1.0,0.0,3.0,0.0"), TOTAL("2", "1.0,3.0"));
    expect_padded(fds[2], HIDDEN("1", "4", "1.0,2.0,3.0,0.0"), TOTAL("1", "6.0"));
    expect_padded(fds[3], HIDDEN("2", "3", "1.0,2.0,0.0,4.0,5.0,0.0"), TOTAL("2", "3.0,9.0"));
    runs = runs_of("padded", &requests);
    assert_int_equal(requests, 6); /* rows */
    assert_in_range(runs, 1, 3);
    /* The other bucket, and a length beyond all buckets. */
    for (int i = 0; i < 3; i++)
        fds[i] = ask_padded(2, 5);
    for (int i = 0; i < 3; i++)
        expect_padded(fds[i], HIDDEN("2", "5", "1.0,2.0,3.0,4.0,0.0,6.0,7.0,8.0,9.0,0.0"), TOTAL("2", "10.0,30.0"));
    for (int i = 0; i < 6; i++)
        fds[i] = ask_padded(1, 9);
    for (int i = 0; i < 6; i++)
        expect_padded(fds[i], HIDDEN("1", "9", "1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,0.0"), TOTAL("1", "36.0"));
    client_expect(&server, "POST", "/v2/models/padded/infer", "",
                  "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,2],\"datatype\":\"FP32\",\"data\":[1,2]},{\"name\":"
                  "\"mask\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}",
                  400, "error");
}

/* Models whose results change by padding are not batched, with the reason. */
static void test_unpadded_models(void **state)
{
    (void)state;
    client_expect(&server, "POST", "/v2/repository/models/unmasked/load", AS_ADMIN, "", 400, "padding changes output");
    client_expect(&server, "POST", "/v2/repository/models/plain/load", AS_ADMIN, "", 400,
                  "no symbolic axis other than the first");
    client_expect(&server, "POST", "/v2/repository/models/wrong/load", AS_ADMIN, "", 400, "ascending numbers");
    serving_file(&server, "models/wrong/config.yaml", "buckets: 4\npad: [y=1]\n", 0644);
    client_expect(&server, "POST", "/v2/repository/models/wrong/load", AS_ADMIN, "", 400,
                  "input 'y' is unknown or not padded");
    serving_file(&server, "models/wrong/config.yaml", "pad: [x=1]\n", 0644);
    client_expect(&server, "POST", "/v2/repository/models/wrong/load", AS_ADMIN, "", 400, "pad: needs buckets");
    serving_file(&server, "models/wrong/config.yaml", "buckets: 4\npad: [x]\n", 0644);
    client_expect(&server, "POST", "/v2/repository/models/wrong/load", AS_ADMIN, "", 400, "not INPUT=NUMBER");
    serving_file(&server, "models/wrong/config.yaml", "buckets: 4\n", 0644);
    client_expect(&server, "POST", "/v2/repository/models/wrong/load", AS_ADMIN, "", 200, "");
}

/* A request that may wait ten seconds for a batch runs before its client's deadline. */
static void test_deadline_ends_the_wait(void **state)
{
    (void)state;
    client_expect(&server, "POST", "/v2/models/patient/infer", "Inference-Timeout-Ms: 6000\r\n",
                  "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[4,0,1]}]}", 200,
                  "[8.0,0.0,2.0]");
}

static int ask_slow(const char *how, long turns, uint32_t timeout_ms)
{
    char body[512], head[256];
    int fd = client_connect(&server);

    (void)snprintf(
        body, sizeof body,
        "{\"parameters\":{\"sequence_id\":7,\"%s\":true,\"timeout\":%u},\"inputs\":[{\"name\":\"n\",\"shape\":"
        "[],\"datatype\":\"INT64\",\"data\":[%ld]},{\"name\":\"x\",\"shape\":[1],\"datatype\":\"FP32\","
        "\"data\":[1]}]}",
        how, timeout_ms * 1000, turns);
    (void)snprintf(head, sizeof head,
                   "POST /v2/models/slow/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                   strlen(body));
    client_text(fd, head);
    client_text(fd, body);
    return fd;
}

/* A request that waits for an earlier one of its sequence is answered at its own deadline. */
static void test_deadline_in_a_sequence(void **state)
{
    struct pollfd first = { .events = POLLIN };
    struct answer answer;
    int second;

    (void)state;
    first.fd = ask_slow("sequence_start", 1000000000, 600000);
    client_await(&server, "inlay_runs", 1);
    second = ask_slow("sequence_end", 1, 200);
    client_receive(second, &answer);
    assert_int_equal(answer.code, 504);
    assert_int_equal(poll(&first, 1, 0), 0); /* the first one is still running */
    (void)close(first.fd);
    (void)close(second);
    client_await(&server, "inlay_runs", 0);
}

static void add(const char *id, const char *how, int x, int code, const char *sum)
{
    char body[512];

    (void)snprintf(body, sizeof body,
                   "{\"parameters\":{\"sequence_id\":\"%s\",\"sequence_%s\":true},\"inputs\":[{\"name\":\"x\","
                   "\"shape\":[1],\"datatype\":\"FP32\",\"data\":[%d]}],\"outputs\":[{\"name\":\"y\"}]}",
                   id, how, x);
    if (how[0] == '\0')
        memcpy(strstr(body, "\"sequence_\":true"), "\"priority\":2    ", strlen("\"sequence_\":true"));
    client_expect(&server, "POST", "/v2/models/sum/infer", "", body, code, sum);
}

static void test_sequences_stay_with_their_model(void **state)
{
    char path[256];

    (void)state;
    add("a", "start", 1, 200, "\"data\":[1.0]");
    add("b", "start", 10, 200, "\"data\":[10.0]");
    write_sum_by(serving_path(&server, "models/sum/1/model.onnx", path, sizeof path), "Sub");
    client_expect(&server, "POST", "/v2/repository/models/sum/load", AS_ADMIN, "", 200, "");
    assert_true(client_metric(&server, "inlay_replaced_models") == 1);
    add("a", "", 2, 200, "\"data\":[3.0]");
    add("c", "start", 5, 200, "\"data\":[-5.0]"); /* a new sequence uses the new model */
    add("c", "", 1, 200, "\"data\":[-6.0]");
    add("a", "end", 3, 200, "\"data\":[6.0]");
    add("a", "", 1, 400, "no sequence 'a'");
    add("b", "start", 1, 200, "\"data\":[-1.0]"); /* restarted, on the new model */
    add("b", "end", 1, 200, "\"data\":[-2.0]");
    add("c", "end", 1, 200, "\"data\":[-7.0]");
}

/* Sequences also keep their model if another version is added. Unloading ends the sequences. */
static void test_sequences_and_versions(void **state)
{
    char path[256];

    (void)state;
    add("a", "start", 1, 200, "\"data\":[-1.0]");
    serving_folder(&server, "models/sum/2");
    write_sum(serving_path(&server, "models/sum/2/model.onnx", path, sizeof path));
    client_expect(&server, "POST", "/v2/repository/models/sum/load", AS_ADMIN, "", 200, "");
    client_expect(&server, "GET", "/v2/models/sum", "", NULL, 200, "\"versions\":[\"2\"]");
    add("a", "", 1, 200, "\"data\":[-2.0]");
    add("b", "start", 1, 200, "\"data\":[1.0]");
    /* A version that cannot be loaded changes nothing. */
    serving_folder(&server, "models/sum/3");
    serving_file(&server, "models/sum/3/model.onnx", "rubbish", 0644);
    client_expect(&server, "POST", "/v2/repository/models/sum/load", AS_ADMIN, "", 400, "version 3");
    add("b", "", 1, 200, "\"data\":[2.0]");
    client_expect(&server, "POST", "/v2/repository/models/sum/unload", AS_ADMIN, "", 200, "");
    assert_true(client_metric(&server, "inlay_replaced_models") == 0);
    add("a", "", 1, 404, "no such model");
}

/* An abandoned sequence does not keep its model forever. */
static void test_abandoned_sequences(void **state)
{
    static const char *const flags[] = {
        "--admin-token-file", "FOLDER/admins", "--sequence-idle-ms", "100", "--strict", "0", NULL
    };

    char path[256];

    (void)state;
    assert_int_equal(serving_end(&server, SIGTERM), 0);
    write_sum(serving_path(&server, "models/sum/3/model.onnx", path, sizeof path));
    serving_start(&server, flags);
    add("left", "start", 1, 200, "\"data\":[1.0]");
    write_sum_by(path, "Sub");
    client_expect(&server, "POST", "/v2/repository/models/sum/load", AS_ADMIN, "", 200, "");
    add("new", "start", 1, 200, "\"data\":[-1.0]");
    client_await(&server, "inlay_replaced_models", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths_are_joined),
        cmocka_unit_test(test_unpadded_models),
        cmocka_unit_test(test_deadline_ends_the_wait),
        cmocka_unit_test(test_deadline_in_a_sequence),
        cmocka_unit_test(test_sequences_stay_with_their_model),
        cmocka_unit_test(test_sequences_and_versions),
        cmocka_unit_test(test_abandoned_sequences),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
