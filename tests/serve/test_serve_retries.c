/* A load that fails for a reason that may pass is tried again although the model's files do not change; a load of a
 * damaged model is not. */
#include "client.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;
static char stuck_file[128];

#define BODY "{\"inputs\":[{\"name\":\"x\",\"shape\":[7],\"datatype\":\"FP32\",\"data\":[0,1,2,3,4,5,6]}]}"
#define CONFIG "options: [providers=stuck]\n"

static void write_neg(const char *path)
{
    write_one(path, "Neg", "7");
}

static int begin(void **state)
{
    (void)state;
    serving_prepare_empty(&server);
    (void)serving_path(&server, "stuck", stuck_file, sizeof stuck_file);
    assert_int_equal(setenv("STUCK_FILE", stuck_file, 1), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    serving_remove(&server);
    return 0;
}

static long bytes_of(const char *name)
{
    char path[256];
    struct stat st;

    return stat(serving_path(&server, name, path, sizeof path), &st) == 0 ? (long)st.st_size : -1;
}

static void move(const char *from, const char *to)
{
    char path[256], target[256];

    assert_int_equal(
        rename(serving_path(&server, from, path, sizeof path), serving_path(&server, to, target, sizeof target)), 0);
}

static uint32_t count(const char *text, const char *part)
{
    uint32_t found = 0;

    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        found++;
    return found;
}

/* Memory is short while a new version appears: the old one serves, one line says so, and the new one is loaded once
 * there is memory. A damaged model, meanwhile, is tried once. */
static void test_memory(void **state)
{
    static const char *const flags[] = { "--poll-ms",    "20", "--plugin-dirs", "FOLDER/plugins", "--cache-dir",
                                         "FOLDER/cache", NULL };
    char path[256], text[8192];

    (void)state;
    serving_plugin(&server, STUCK_PLUGIN, "stuck");
    serving_model(&server, "held", CONFIG, write_neg);
    serving_start(&server, flags);
    serving_file(&server, "stuck.memory", "", 0644);
    serving_file(&server, "models/damaged.onnx", "this is no model", 0644);
    serving_await(&server, "model 'damaged', version 1: ", text, sizeof text);
    serving_folder(&server, "new");
    write_neg(serving_path(&server, "new/model.onnx", path, sizeof path));
    move("new", "models/held/2");
    serving_await(&server, "; the load is tried again", text, sizeof text);
    for (uint32_t i = 0; bytes_of("stuck.memory") < 3; i++) {
        if (i == 12000)
            fail_msg("%ld loads were tried", bytes_of("stuck.memory"));
        client_wait_ms(5);
    }
    client_expect(&server, "POST", "/v2/models/held/infer", "", BODY, 200, "\"model_version\":\"1\"");
    move("stuck.memory", "tries");
    serving_await(&server, "model 'held': loaded after earlier failures", text, sizeof text);
    client_expect(&server, "POST", "/v2/models/held/infer", "", BODY, 200, "\"model_version\":\"2\"");
    client_expect(&server, "GET", "/v2/models/held", "", NULL, 200, "\"versions\":[\"2\"]");
    assert_int_equal(count(text, "no memory while"), 1);
    assert_int_equal(count(text, "model 'damaged'"), 1);
    assert_int_equal((long)client_metric(&server, "inlay_model_loads_total{result=\"failed\"}"), bytes_of("tries") + 1);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

/* A server that starts before a plugin is installed becomes ready with it, also without poll_ms. */
static void test_a_plugin_that_is_late(void **state)
{
    static const char *const flags[] = { "--plugin-dirs", "FOLDER/plugins", "--cache-dir", "FOLDER/cache", NULL };
    char text[8192];
    const char *at;

    (void)state;
    serving_folder(&server, "plugins");
    serving_model(&server, "held", CONFIG, write_neg);
    serving_spawn(&server, flags);
    serving_await(&server, "not ready: 1 versions could not be loaded", text, sizeof text);
    assert_int_equal(count(text, "no provider 'stuck'"), 1);
    at = strstr(text, "://127.0.0.1:");
    assert_non_null(at);
    server.port = (int)strtol(at + strlen("://127.0.0.1:"), NULL, 10);
    client_expect(&server, "POST", "/v2/models/held/infer", "", BODY, 503, "could not be loaded");
    serving_copy(&server, STUCK_PLUGIN, "stuck.so");
    move("stuck.so", "plugins/stuck.so");
    serving_await(&server, "ready, models: 1", text, sizeof text);
    client_expect(&server, "POST", "/v2/models/held/infer", "", BODY, 200, "\"model_version\":\"1\"");
    assert_int_equal(count(text, "no provider 'stuck'"), 1);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(test_memory, begin, end),
                                        cmocka_unit_test_setup_teardown(test_a_plugin_that_is_late, begin, end) };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
