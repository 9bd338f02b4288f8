/* Several processes share a socket: one that crashes is restarted, and the others answer meanwhile. */
#include "client.h"
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server, alone;

static const char twice[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}";

#define BOOM "{\"inputs\":[{\"name\":\"x\",\"shape\":[2],\"datatype\":\"FP32\",\"data\":[-3,4]}]}"

static void write_boom(const char *path)
{
    write_relu(path, "boom");
}

/* The same model with a doc_string of `bytes`, which makes it another one for the marks of crashes. */
static void write_longer(const char *path, uint8_t bytes)
{
    FILE *file;

    write_boom(path);
    file = fopen(path, "ab");
    assert_non_null(file);
    (void)fprintf(file, "\x32%c%*s", bytes, bytes, "");
    assert_int_equal(fclose(file), 0);
}

static void write_boom2(const char *path)
{
    write_longer(path, 2);
}

static void write_boom3(const char *path)
{
    write_longer(path, 3);
}

static const char *const boom_names[] = { "boom", "boom2", "boom3" };

/* Starts this many workers, with a plugin that crashes in the first `booms` models boom, boom2, boom3. */
static void begin(struct serving *serving, const char *workers, const char *strict, uint32_t booms)
{
    static void (*const writers[])(const char *path) = { write_boom, write_boom2, write_boom3 };
    const char *const flags[] = {
        "--strict", strict,          "--workers",      workers,       "--poll-ms",    "20", "--max-inflight-bytes",
        "20000",    "--plugin-dirs", "FOLDER/plugins", "--cache-dir", "FOLDER/cache", NULL
    };

    serving_prepare(serving);
    serving_plugin(serving, CRASHING_PLUGIN, "execute_boom");
    for (uint32_t i = 0; i < booms; i++)
        serving_model(serving, boom_names[i],
                      "warmup: 0\noptions: [\"providers=execute_boom?,reference\", \"intra_threads=1\"]\n", writers[i]);
    serving_start(serving, flags);
}

static int start(void **state)
{
    *state = &server;
    begin(&server, "2", "0", 1);
    return 0;
}

/* Waits until the log has this many lines with the text. */
static void wait_for_lines(const struct serving *serving, const char *line, uint32_t lines)
{
    static char text[1 << 18]; /* sanitizers log much */
    char path[128];

    (void)snprintf(path, sizeof path, "%s/log", serving->folder);
    for (uint32_t i = 0;; i++) {
        FILE *file = fopen(path, "r");
        uint32_t count = 0;

        assert_non_null(file);
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        (void)fclose(file);
        for (const char *at = text; (at = strstr(at, line)) != NULL; at++)
            count++;
        if (count >= lines)
            return;
        if (i == 12000)
            fail_msg("not %u times '%s': %s", lines, line, text);
        client_wait_ms(5);
    }
}

/* Waits until this many workers have loaded their models, according to the log. */
static void wait_for_ready(const struct serving *serving, uint32_t lines)
{
    wait_for_lines(serving, "ready, models", lines);
}

static void test_a_worker_that_crashes(void **state)
{
    long before[8], after[8];
    struct answer answer;

    (void)state;
    wait_for_ready(&server, 2);
    assert_int_equal(serving_children(&server, before, 8), 2);
    assert_int_equal(kill((pid_t)before[0], SIGKILL), 0);
    for (uint32_t i = 0; i < 20; i++) {
        client_once(&server, "POST", "/v2/models/twice/infer", "", twice, &answer);
        assert_true(answer.code == 200 || answer.code == 0); /* 0: the crashed worker had accepted the connection */
    }
    wait_for_ready(&server, 3);
    assert_int_equal(serving_children(&server, after, 8), 2);
    assert_true(after[0] != before[0] && after[1] != before[0]);
    for (uint32_t i = 0; i < 20; i++) {
        client_once(&server, "POST", "/v2/models/twice/infer", "", twice, &answer);
        assert_int_equal(answer.code, 200);
    }
}

/* A plugin that crashes in a run ends its worker, once per worker; later workers exclude it. */
static void test_a_plugin_that_crashes(void **state)
{
    uint32_t good = 0, lost = 0;
    static char text[1 << 18]; /* sanitizers log much */
    char path[256];
    FILE *file;

    (void)state;
    for (uint32_t i = 0; good < 30; i++) {
        struct answer answer;

        client_once(&server, "POST", "/v2/models/boom/infer", "", BOOM, &answer);
        lost += answer.code == 0;
        good = answer.code == 200 && strstr(answer.body, "[0.0,4.0]") != NULL ? good + 1 : 0;
        if (i == 12000 || (answer.code != 0 && answer.code != 200))
            fail_msg("after %u lost requests: %d %s", lost, answer.code, answer.body);
        if (good == 0)
            client_wait_ms(5);
    }
    assert_in_range(lost, 1, 2);
    file = fopen(serving_path(&server, "log", path, sizeof path), "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    assert_non_null(strstr(text, "crashed (SIGSEGV) in execute of node 'boom', provider execute_boom"));
    assert_non_null(strstr(text, "it is not loaded for this model"));
}

static int end_alone(void **state)
{
    (void)state;
    if (alone.pid > 0)
        (void)serving_end(&alone, SIGTERM);
    serving_remove(&alone);
    return 0;
}

static double lost_metric(const char *model)
{
    char name[128];

    (void)snprintf(name, sizeof name, "inlay_provider_lost{model=\"%s\",version=\"1\",provider=\"execute_boom\"}",
                   model);
    return client_metric(&alone, name);
}

/* With one worker, the next request is answered by its replacement: the socket stays open, and the plugin is
 * excluded. */
static void test_only_worker_restarts(void **state)
{
    char text[16384];
    struct answer answer;

    (void)state;
    begin(&alone, "1", "1", 1);
    client_once(&alone, "POST", "/v2/models/boom/infer", "", BOOM, &answer);
    assert_int_equal(answer.code, 0);
    client_once(&alone, "POST", "/v2/models/boom/infer", "", BOOM, &answer);
    if (answer.code != 200 || strstr(answer.body, "[0.0,4.0]") == NULL)
        fail_msg("after the crash: %d %s", answer.code, answer.body);
    serving_await(&alone, "it is not loaded for this model", text, sizeof text);
    /* The model is served without the provider and is ready; metrics and index tell that. */
    assert_true(lost_metric("boom") == 1);
    assert_true(client_metric(&alone, "inlay_ready") == 1);
    client_expect(&alone, "GET", "/v2/health/ready", "", NULL, 200, "");
    client_expect(&alone, "POST", "/v2/repository/index", "", "", 200,
                  "\"state\":\"READY\",\"reason\":\"it runs without provider 'execute_boom', quarantined for this "
                  "model: it crashed (SIGSEGV) in execute of node 'boom'");
    assert_int_equal(serving_end(&alone, SIGTERM), 0);
}

/* After crashes with three models the plugin is in quarantine for all: since strict is set, a server that starts then
 * is not ready, until the marks are a day old. */
static void test_quarantine_for_all_models(void **state)
{
    char command[256], url[64];
    struct answer answer;
    long worker;

    (void)state;
    begin(&alone, "1", "1", 3);
    for (uint32_t i = 0; i < 3; i++) {
        (void)snprintf(url, sizeof url, "/v2/models/%s/infer", boom_names[i]);
        client_once(&alone, "POST", url, "", BOOM, &answer);
        assert_int_equal(answer.code, 0);
        client_once(&alone, "POST", url, "", BOOM, &answer);
        assert_int_equal(answer.code, 200);
        assert_true(lost_metric(boom_names[i]) == 1);
        assert_true(client_metric(&alone, "inlay_ready") == (i < 2));
    }
    client_expect(&alone, "GET", "/v2/health/ready", "", NULL, 400, " failed; POST");
    client_expect(&alone, "GET", "/v2/health/live", "", NULL, 200, "");
    client_expect(&alone, "POST", "/v2/repository/index", "", "", 200, "'execute_boom', quarantined: it crashed");
    (void)snprintf(command, sizeof command, "touch -d '25 hours ago' '%s'/cache/plugins/*.verdict.*", alone.folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(serving_children(&alone, &worker, 1), 1);
    assert_int_equal(kill((pid_t)worker, SIGKILL), 0);
    wait_for_ready(&alone, 4); /* the first worker, those after two crashes, and this one */
    assert_true(client_metric(&alone, "inlay_ready") == 1);
    assert_true(lost_metric("boom") < 0);
    assert_int_equal(serving_end(&alone, SIGTERM), 0);
}

/* /metrics shows the sums of all workers, and a worker that replaces another one continues its counters. */
static void test_sums(void **state)
{
    enum { REQUESTS = 20 };
    static const char counter[] = "inlay_requests_total{model=\"twice\",version=\"1\"}";
    long pids[8];

    (void)state;
    begin(&alone, "2", "0", 1);
    wait_for_ready(&alone, 2);
    for (uint32_t i = 0; i < REQUESTS; i++)
        client_expect(&alone, "POST", "/v2/models/twice/infer", "", twice, 200, "[2.0,4.0,6.0]");
    assert_true(client_metric(&alone, counter) == REQUESTS);
    assert_true(client_metric(&alone, "inlay_request_seconds_count{model=\"twice\",version=\"1\"}") == REQUESTS);
    client_expect(&alone, "GET", "/v2/models/twice/stats", "", NULL, 200, "\"inference_count\":20,");
    assert_int_equal(serving_children(&alone, pids, 8), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(kill((pid_t)pids[i], SIGKILL), 0);
        wait_for_ready(&alone, 3 + i);
    }
    assert_true(client_metric(&alone, counter) == REQUESTS);
    client_expect(&alone, "POST", "/v2/models/twice/infer", "", twice, 200, "[2.0,4.0,6.0]");
    assert_true(client_metric(&alone, counter) == REQUESTS + 1);
    client_await(&alone, "inlay_http_connections", 1); /* only the connection of this request remains */
    assert_int_equal(serving_end(&alone, SIGTERM), 0);
}

/* Whether all threads of the process are stopped by SIGSTOP. */
static bool is_stopped(long pid)
{
    char path[64], line[512];
    const struct dirent *entry;
    bool stopped = true;
    DIR *dir;

    (void)snprintf(path, sizeof path, "/proc/%ld/task", pid);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        FILE *file;
        const char *state;

        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "/proc/%ld/task/%.20s/stat", pid, entry->d_name);
        file = fopen(path, "r");
        if (file == NULL)
            continue; /* the worker has ended */
        state = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
        stopped &= state != NULL && state[2] == 'T';
        (void)fclose(file);
    }
    (void)closedir(dir);
    return stopped;
}

static void stop_worker(long pid)
{
    assert_int_equal(kill((pid_t)pid, SIGSTOP), 0);
    for (uint32_t i = 0; !is_stopped(pid); i++) {
        if (i == 60000)
            fail_msg("worker %ld is not stopped", pid);
        client_wait_ms(1);
    }
}

/* One worker holds 18000 bytes of an unfinished body: the other one refuses 4000 more, as --max-inflight-bytes is
 * 20000. While one of them is stopped, the other one accepts all connections. */
static void test_inflight_bytes(void **state)
{
    static char body[18000];
    struct answer answer;
    long pids[8];
    int held, fd;

    (void)state;
    begin(&alone, "2", "0", 1);
    wait_for_ready(&alone, 2);
    assert_int_equal(serving_children(&alone, pids, 8), 2);
    memset(body, ' ', sizeof body);
    stop_worker(pids[0]);
    held = client_connect(&alone);
    client_text(held, "POST /v2/models/twice/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18001\r\n\r\n");
    client_send(held, body, sizeof body);
    client_await(&alone, "inlay_inflight_bytes", 18000);
    assert_int_equal(kill((pid_t)pids[0], SIGCONT), 0);
    stop_worker(pids[1]);
    client_await(&alone, "inlay_inflight_bytes", 18000);
    fd = client_connect(&alone);
    client_call(fd, "POST", "/v2/models/twice/infer", "", body, 4000, &answer);
    assert_int_equal(answer.code, 429);
    assert_non_null(strstr(answer.body, "max_inflight_bytes"));
    client_call(fd, "POST", "/v2/models/twice/infer", "", twice, sizeof twice - 1, &answer);
    assert_int_equal(answer.code, 200); /* it fits */
    (void)close(fd);
    /* The bytes of a worker that crashes are free again. */
    assert_int_equal(kill((pid_t)pids[1], SIGKILL), 0);
    client_await(&alone, "inlay_inflight_bytes", 0);
    (void)close(held);
    wait_for_ready(&alone, 3);
    assert_int_equal(serving_end(&alone, SIGTERM), 0);
}

/* Sends requests on new connections, so that they reach both workers, until 20 in a row get the code. */
static void wait_for_model(const char *path, int code, const char *part)
{
    uint32_t good = 0;
    struct answer answer = { .code = 0 };

    for (uint32_t i = 0; good < 20; i++) {
        client_once(&server, "POST", path, "", twice, &answer);
        good = answer.code == code && strstr(answer.body, part) != NULL ? good + 1 : 0;
        if (i == 12000)
            fail_msg("%s: not %d with '%s', but %d: %s", path, code, part, answer.code, answer.body);
        if (good == 0)
            client_wait_ms(5);
    }
}

/* A model that is added to the folder, replaced and removed. */
static void test_the_folder_is_watched(void **state)
{
    char path[128];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/models/fresh.onnx", server.folder);
    write_doubling(path, 1);
    wait_for_model("/v2/models/fresh/infer", 200, "[2.0,4.0,6.0]");
    write_doubling(path, 2);
    wait_for_model("/v2/models/fresh/infer", 200, "[4.0,8.0,12.0]");
    assert_int_equal(unlink(path), 0);
    wait_for_model("/v2/models/fresh/infer", 404, "no such model");
    wait_for_model("/v2/models/twice/infer", 200, "[2.0,4.0,6.0]");
}

/* Sends requests on new connections, so that they reach all workers that accept some. */
static void expect_from_all(int code, const char *part)
{
    for (uint32_t i = 0; i < 60; i++)
        client_expect(&alone, "POST", "/v2/models/twice/infer", "", twice, code, part);
}

static void replace_model(const char *from)
{
    char path[128], to[128];

    assert_int_equal(
        rename(serving_path(&alone, from, path, sizeof path), serving_path(&alone, "models/twice.onnx", to, sizeof to)),
        0);
}

/* A worker is restarted when the file of a model is broken, which the other worker still serves: it accepts no
 * connections until it has the model, or until no worker has it. */
static void test_a_worker_without_a_model(void **state)
{
    static const char *const flags[] = { "--strict", "0", "--workers", "2", NULL };
    static const char waits[] = "accepts no connections yet";
    char path[128];
    long first[8], later[8];

    (void)state;
    serving_prepare(&alone);
    write_doubling(serving_path(&alone, "good.onnx", path, sizeof path), 1);
    serving_start(&alone, flags);
    wait_for_ready(&alone, 2);
    assert_int_equal(serving_children(&alone, first, 8), 2);
    serving_file(&alone, "broken.onnx", "no model", 0644);
    replace_model("broken.onnx");
    assert_int_equal(kill((pid_t)first[0], SIGKILL), 0);
    wait_for_lines(&alone, waits, 1);
    expect_from_all(200, "[2.0,4.0,6.0]");
    replace_model("good.onnx");
    wait_for_ready(&alone, 3);
    assert_int_equal(kill((pid_t)first[1], SIGKILL), 0);
    wait_for_ready(&alone, 4);
    expect_from_all(200, "[2.0,4.0,6.0]");

    serving_file(&alone, "broken.onnx", "no model", 0644);
    replace_model("broken.onnx");
    assert_int_equal(serving_children(&alone, later, 8), 2);
    assert_int_equal(kill((pid_t)later[0], SIGKILL), 0);
    wait_for_lines(&alone, waits, 2);
    assert_int_equal(kill((pid_t)later[1], SIGKILL), 0);
    wait_for_ready(&alone, 6);
    expect_from_all(503, "could not be loaded");
    assert_int_equal(serving_end(&alone, SIGTERM), 0);
}

static void test_they_end_together(void **state)
{
    long pids[8];

    (void)state;
    for (uint32_t i = 0; serving_children(&server, pids, 8) != 2; i++) { /* one may wait before its restart */
        if (i == 12000)
            fail_msg("the server does not have two workers");
        client_wait_ms(5);
    }
    assert_int_equal(serving_end(&server, SIGTERM), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(kill((pid_t)pids[i], 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_worker_that_crashes),
        cmocka_unit_test(test_a_plugin_that_crashes),
        cmocka_unit_test_teardown(test_only_worker_restarts, end_alone),
        cmocka_unit_test_teardown(test_quarantine_for_all_models, end_alone),
        cmocka_unit_test_teardown(test_sums, end_alone),
        cmocka_unit_test_teardown(test_inflight_bytes, end_alone),
        cmocka_unit_test_teardown(test_a_worker_without_a_model, end_alone),
        cmocka_unit_test(test_the_folder_is_watched),
        cmocka_unit_test(test_they_end_together),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_away);
}
