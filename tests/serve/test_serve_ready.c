/* What a server without all of its models does (`strict`), and the folder of one model (`model_name`). */
#include "client.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;

static const char twice[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}";

static int start(void **state)
{
    *state = &server;
    serving_prepare_empty(&server);
    return 0;
}

static void write_twice(const char *path)
{
    write_doubling(path, 1);
}

static void expect(const char *method, const char *path, const char *body, int code, const char *part)
{
    client_expect(&server, method, path, "", body, code, part);
}

/* Starts the server without waiting until it is ready: until its log has `part`. */
static void start_until(const char *const *flags, const char *part)
{
    char text[8192];
    const char *at;

    serving_spawn(&server, flags);
    serving_await(&server, part, text, sizeof text);
    at = strstr(text, "://127.0.0.1:");
    assert_non_null(at);
    server.port = (int)strtol(at + strlen("://127.0.0.1:"), NULL, 10);
}

/* Waits until the server has ended; returns its exit code. */
static int wait_for_end(void)
{
    int status = 0;

    for (uint32_t i = 0; waitpid(server.pid, &status, WNOHANG) == 0; i++) {
        if (i == 12000)
            fail_msg("the server does not end");
        client_wait_ms(5);
    }
    server.pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The exit code of inlay-serve with this file and these flags. */
static int run_with(const char *file, const char *flags)
{
    char command[512];

    (void)snprintf(command, sizeof command, "exec %s %s/%s --no-config --port 0 --grpc-port -1 %s 2> %s/log",
                   INLAY_SERVE, server.folder, file, flags, server.folder);
    server.pid = fork();
    if (server.pid == 0) {
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return wait_for_end();
}

static void expect_log(const char *part)
{
    char path[256], text[8192];
    FILE *file = fopen(serving_path(&server, "log", path, sizeof path), "r");

    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    if (strstr(text, part) == NULL)
        fail_msg("the log has no '%s': %s", part, text);
}

/* A file that cannot be loaded ends the server, also with workers, and without waiting for drain_ms. */
static void test_a_broken_file(void **state)
{
    (void)state;
    serving_file(&server, "rubbish.onnx", "this is no model", 0644);
    assert_int_equal(run_with("rubbish.onnx", "--drain-ms 600000"), 1);
    expect_log("rubbish.onnx is not loaded; exiting");
    assert_int_equal(run_with("rubbish.onnx", "--workers 2"), 1);
    expect_log("rubbish.onnx is not loaded; exiting");
}

/* Without strict, the server serves nothing and is ready. */
static void test_a_broken_file_not_strict(void **state)
{
    char command[512], text[8192];

    (void)state;
    (void)snprintf(command, sizeof command,
                   "exec %s %s/rubbish.onnx --no-config --port 0 --grpc-port -1 --strict 0 2> %s/log", INLAY_SERVE,
                   server.folder, server.folder);
    server.pid = fork();
    if (server.pid == 0) {
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    serving_await(&server, "ready, models: 0", text, sizeof text);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

/* An empty folder is not ready; a model that is added makes it ready. */
static void test_an_empty_folder(void **state)
{
    static const char *const flags[] = { "--poll-ms", "20", NULL };
    char text[8192];

    (void)state;
    start_until(flags, "has no models");
    expect("GET", "/v2/health/live", NULL, 200, "");
    expect("GET", "/v2/health/ready", NULL, 400, "0 versions are loaded, 0 failed");
    serving_model(&server, "twice", NULL, write_twice);
    serving_await(&server, "ready, models: 1", text, sizeof text);
    expect("GET", "/v2/health/ready", NULL, 200, "");
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

/* A folder with a model that cannot be loaded is not ready, although it answers for the others; a repaired file makes
 * it ready, and a later failure does not revoke that. */
static void test_a_broken_model(void **state)
{
    static const char *const flags[] = { "--poll-ms", "20", NULL };
    char text[8192], path[256];

    (void)state;
    serving_file(&server, "models/other.onnx", "this is no model", 0644);
    start_until(flags, "not ready: 1 versions could not be loaded");
    expect("GET", "/v2/health/ready", NULL, 400, "1 versions are loaded, 1 failed");
    expect("POST", "/v2/models/twice/infer", twice, 200, "[2.0,4.0,6.0]");
    expect("POST", "/v2/models/other/infer", twice, 503, "the model could not be loaded");
    write_twice(serving_path(&server, "new.onnx", path, sizeof path));
    assert_int_equal(rename(path, serving_path(&server, "models/other.onnx", text, sizeof text)), 0);
    serving_await(&server, "ready, models: 2", text, sizeof text);
    serving_file(&server, "models/third.onnx", "this is no model", 0644);
    serving_await(&server, "model 'third', version 1", text, sizeof text);
    expect("GET", "/v2/health/ready", NULL, 200, "");
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

/* Workers answer although a model failed, but none reports that it is ready. */
static void test_workers(void **state)
{
    static const char *const flags[] = { "--workers", "1", NULL };

    (void)state;
    start_until(flags, "not ready: 1 versions could not be loaded");
    expect("GET", "/v2/health/ready", NULL, 400, "2 versions are loaded, 1 failed");
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

/* A server that starts with a broken latest version serves the newest that can be loaded, and says so. */
static void test_a_broken_latest_version(void **state)
{
    static const char *const flags[] = { "--poll-ms", "20", NULL };
    char path[256], text[8192];

    (void)state;
    serving_remove(&server);
    serving_prepare_empty(&server);
    for (int version = 1; version <= 4; version++) {
        (void)snprintf(text, sizeof text, "models/twice/%d", version);
        serving_folder(&server, text);
        (void)snprintf(text, sizeof text, "models/twice/%d/model.onnx", version);
        if (version > 2)
            serving_file(&server, text, "this is no model", 0644);
        else
            write_twice(serving_path(&server, text, path, sizeof path));
    }
    serving_start(&server, flags);
    serving_await(&server, "model 'twice', version 2: served instead of version 4: ", text, sizeof text);
    expect("GET", "/v2/health/ready", NULL, 200, "");
    expect("POST", "/v2/models/twice/infer", twice, 200, "\"model_version\":\"2\"");
    expect("POST", "/v2/repository/index", "", 200,
           "{\"name\":\"twice\",\"version\":\"2\",\"state\":\"READY\",\"reason\":\"served instead of version 4: ");
    write_twice(serving_path(&server, "models/twice/4/model.onnx", path, sizeof path));
    serving_await(&server, "model 'twice', version 4: reloaded", text, sizeof text);
    expect("POST", "/v2/models/twice/infer", twice, 200, "\"model_version\":\"4\"");
    expect("GET", "/v2/models/twice", NULL, 200, "\"versions\":[\"4\"]");
    /* A damaged version that is added later has the same effect. */
    serving_folder(&server, "models/twice/5");
    serving_file(&server, "models/twice/5/model.onnx", "this is no model", 0644);
    serving_await(&server, "model 'twice', version 5: ", text, sizeof text);
    expect("POST", "/v2/repository/index", "", 200,
           "{\"name\":\"twice\",\"version\":\"4\",\"state\":\"READY\",\"reason\":\"served instead of version 5: ");
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

/* KServe's layouts: the folder itself is the model, which has the name of the InferenceService. */
static void test_layouts(void **state)
{
    static const char *const layouts[] = { "models/model.onnx", "models/1/model.onnx", "models/any.onnx",
                                           "models/any/3/model.onnx" };
    static const char *const folders[] = { "models", "models/1", "models", "models/any/3" };
    static const char *const named[] = { "--model-name", "mlp", NULL };
    char path[256];

    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        serving_remove(&server);
        serving_prepare_empty(&server);
        serving_folder(&server, folders[i]);
        write_twice(serving_path(&server, layouts[i], path, sizeof path));
        serving_start(&server, named);
        expect("GET", "/v2/health/ready", NULL, 200, "");
        expect("POST", "/v2/models/mlp/infer", twice, 200, "[2.0,4.0,6.0]");
        expect("GET", "/v2/models/mlp/ready", NULL, 200, "");
        assert_int_equal(serving_end(&server, SIGTERM), 0);
    }
    /* Without the setting, the log has it. */
    serving_remove(&server);
    serving_prepare_empty(&server);
    serving_folder(&server, "models/1");
    write_twice(serving_path(&server, "models/1/model.onnx", path, sizeof path));
    start_until(NULL, "(a folder of one model needs model_name)");
    assert_int_equal(serving_end(&server, SIGTERM), 0);
    /* A file, too; but not two models, and not any text. */
    assert_int_equal(unlink(path), 0);
    write_twice(serving_path(&server, "models/a.onnx", path, sizeof path));
    write_twice(serving_path(&server, "models/b.onnx", path, sizeof path));
    assert_int_equal(run_with("models", "--model-name mlp"), 2);
    expect_log("has 2 models");
    assert_int_equal(run_with("models/a.onnx", "--model-name ../mlp"), 2);
    expect_log("'../mlp' is not a name");
}

/* Files and folders whose names no model can have are not ignored in silence. */
static void test_names(void **state)
{
    static const char *const flags[] = { NULL }, *const lenient[] = { "--strict", "0", NULL };
    static const char *const names[] = { "my model.onnx", "m\xc3\xbcller.onnx", "%41.onnx", "it's.onnx",
                                         "a b/1/model.onnx" };
    char path[256];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        serving_folder(&server, "models/a b/1");
        (void)snprintf(path, sizeof path, "models/%s", names[i]);
        serving_file(&server, path, "not read", 0644);
        serving_file(&server, "models/notes.txt", "not read", 0644);
        serving_model(&server, "fine", NULL, write_twice);
        (void)snprintf(path, sizeof path, "such as '%.*s'", (int)strcspn(names[i], "/"), names[i]);
        start_until(flags, path);
        client_await(&server, "inlay_models_bytes", client_metric(&server, "inlay_models_bytes"));
        expect("GET", "/v2/models/fine/ready", NULL, 200, "");
        expect("GET", "/v2/health/ready", NULL, 400, "");
        assert_int_equal(serving_end(&server, SIGTERM), 0);
        start_until(lenient, " ready, models: ");
        assert_int_equal(serving_end(&server, SIGTERM), 0);
        serving_remove(&server);
        serving_prepare_empty(&server);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_broken_file),   cmocka_unit_test(test_a_broken_file_not_strict),
        cmocka_unit_test(test_an_empty_folder), cmocka_unit_test(test_a_broken_model),
        cmocka_unit_test(test_workers),         cmocka_unit_test(test_a_broken_latest_version),
        cmocka_unit_test(test_layouts),         cmocka_unit_test(test_names),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_away);
}
