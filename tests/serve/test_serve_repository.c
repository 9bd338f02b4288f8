/* Models that are added, changed and removed; access rights for that; dynamic batching; SIGTERM with time to drain. */
#include "client.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;

static int start(void **state)
{
    static const char *const flags[] = { "--token-file",
                                         "FOLDER/tokens",
                                         "--admin-token-file",
                                         "FOLDER/admins",
                                         "--access-log",
                                         "FOLDER/access",
                                         "--drain-ms",
                                         "4000",
                                         "--serve-config",
                                         "FOLDER/serve.yaml",
                                         "--strict",
                                         "0",
                                         NULL };
    char path[256];

    *state = &server;
    serving_prepare(&server);
    serving_tokens(&server);
    serving_file(&server, "serve.yaml", "max_queue: 1000\n", 0644);
    serving_folder(&server, "models/joined/3");
    write_doubling(serving_path(&server, "models/joined/3/model.onnx", path, sizeof path), 1);
    serving_file(&server, "models/joined/config.yaml",
                 "max_batch: 8\nbatch_delay_us: 200000\ninstances: 1\noptions: [intra_threads=1]\n", 0644);
    serving_file(&server, "models/triple/config.yaml", "versions: all\n", 0644);
    serving_file(&server, "models/broken.onnx", "this is no model", 0644);
    serving_file(&server, "models/cut-00002-of-00003.gguf", "its first part is missing", 0644);
    serving_file(&server, "models/cut-00003-of-00003.gguf", "its first part is missing", 0644);
    serving_start(&server, flags);
    return 0;
}

static void expect(const char *headers, const char *method, const char *path, const char *body, int code,
                   const char *part)
{
    client_expect(&server, method, path, headers, body, code, part);
}

#define DOUBLE(value) "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[" value ",0,1]}]}"

static void test_tokens(void **state)
{
    (void)state;
    expect("", "GET", "/v2/health/ready", NULL, 200, "");
    expect("", "GET", "/v2/models/twice", NULL, 401, "bearer token");
    expect("", "GET", "/metrics", NULL, 401, "bearer token");
    expect("Authorization: Bearer user-0123456789abcdeX\r\n", "GET", "/v2/models/twice", NULL, 401, "bearer token");
    expect("Authorization: Basic user-0123456789abcdef\r\n", "GET", "/v2/models/twice", NULL, 401, "bearer token");
    expect(AS_USER, "GET", "/v2/models/twice", NULL, 200, "twice");
    expect(AS_USER, "POST", "/v2/repository/models/twice/unload", "", 403, "may not change");
    expect("", "POST", "/v2/repository/models/twice/unload", "", 401, "bearer token");
    expect(AS_USER, "POST", "/v2/models/twice/infer", DOUBLE("4"), 200, "[8.0,0.0,2.0]");
}

static void test_versions(void **state)
{
    (void)state;
    expect(AS_USER, "POST", "/v2/models/triple/infer", DOUBLE("4"), 200, "\"model_version\":\"2\"");
    expect(AS_USER, "POST", "/v2/models/triple/versions/1/infer", DOUBLE("4"), 200, "[8.0,");
    expect(AS_USER, "POST", "/v2/models/triple/versions/2/infer", DOUBLE("4"), 200, "[16.0,");
    expect(AS_USER, "GET", "/v2/models/triple", NULL, 200, "\"versions\":[\"1\",\"2\"]");
    expect(AS_USER, "POST", "/v2/repository/index", "", 200,
           "{\"name\":\"broken\",\"version\":\"1\",\"state\":\"UNAVAILABLE\",\"reason\":\"");
    expect(AS_USER, "POST", "/v2/repository/index", "", 200,
           "{\"name\":\"cut\",\"version\":\"1\",\"state\":\"UNAVAILABLE\",\"reason\":\"");
}

static void test_load_and_unload(void **state)
{
    char path[256];

    (void)state;
    expect(AS_ADMIN, "POST", "/v2/repository/models/twice/unload", "", 200, "");
    expect(AS_USER, "POST", "/v2/models/twice/infer", DOUBLE("4"), 404, "no such model");
    expect(AS_ADMIN, "POST", "/v2/repository/models/twice/load", "", 200, "");
    expect(AS_USER, "POST", "/v2/models/twice/infer", DOUBLE("4"), 200, "[8.0,");
    expect(AS_ADMIN, "POST", "/v2/repository/models/none/load", "", 404, "no model 'none'");
    expect(AS_ADMIN, "POST", "/v2/repository/models/..%2fmodels/load", "", 404, "error");
    expect(AS_ADMIN, "POST", "/v2/repository/models/broken/load", "", 400, "model 'broken', version 1");
    expect(AS_ADMIN, "POST", "/v2/repository/models/twice/load", "{\"parameters\":{\"config\":\"{}\"}}", 400,
           "parameters are not supported");
    /* A file that is no longer a valid model does not replace the loaded one. */
    serving_file(&server, "models/twice.onnx", "rubbish", 0644);
    expect(AS_ADMIN, "POST", "/v2/repository/models/twice/load", "", 400, "version 1");
    expect(AS_USER, "POST", "/v2/models/twice/infer", DOUBLE("4"), 200, "[8.0,");
    write_doubling(serving_path(&server, "models/twice.onnx", path, sizeof path), 1);
    /* Invalid settings are named. */
    serving_file(&server, "models/triple/config.yaml", "versions: all\nmax_batsh: 3\n", 0644);
    expect(AS_ADMIN, "POST", "/v2/repository/models/triple/load", "", 400,
           "config.yaml:2: unknown key 'max_batsh'; did you mean 'max_batch'?");
    serving_file(&server, "models/triple/config.yaml", "priority: 4\n", 0644);
    expect(AS_ADMIN, "POST", "/v2/repository/models/triple/load", "", 400, "priority must be from 1 to 3");
    serving_file(&server, "models/triple/config.yaml", "max_queue: 0\n", 0644);
    expect(AS_ADMIN, "POST", "/v2/repository/models/triple/load", "", 400, "max_queue must be from 1 to 1000000");
    serving_file(&server, "models/triple/config.yaml", "options: [plugin_dirs=/tmp]\n", 0644);
    expect(AS_ADMIN, "POST", "/v2/repository/models/triple/load", "", 400, "can only be set for the whole server");
    serving_file(&server, "models/triple/config.yaml", "versions: 1\n", 0644);
    expect(AS_ADMIN, "POST", "/v2/repository/models/triple/load", "", 200, "");
    expect(AS_USER, "GET", "/v2/models/triple", NULL, 200, "\"versions\":[\"1\"]");
}

/* All versions that are removed from the folder are unloaded, also more than a config.yaml can list. */
static void test_many_versions(void **state)
{
    enum { VERSIONS = 66 };
    char name[64], path[256];

    (void)state;
    for (int version = 1; version <= VERSIONS; version++) {
        (void)snprintf(name, sizeof name, "models/many/%d", version);
        serving_folder(&server, name);
        (void)snprintf(name, sizeof name, "models/many/%d/model.onnx", version);
        write_doubling(serving_path(&server, name, path, sizeof path), 1);
    }
    serving_file(&server, "models/many/config.yaml", "versions: all\ninstances: 1\n", 0644);
    expect(AS_ADMIN, "POST", "/v2/repository/models/many/load", "", 200, "");
    expect(AS_USER, "POST", "/v2/models/many/versions/65/infer", DOUBLE("4"), 200, "[8.0,");
    for (int version = 1; version < VERSIONS; version++) {
        (void)snprintf(name, sizeof name, "models/many/%d/model.onnx", version);
        assert_int_equal(unlink(serving_path(&server, name, path, sizeof path)), 0);
    }
    expect(AS_ADMIN, "POST", "/v2/repository/models/many/load", "", 200, "");
    expect(AS_USER, "GET", "/v2/models/many", NULL, 200, "\"versions\":[\"66\"]");
    expect(AS_ADMIN, "POST", "/v2/repository/models/many/unload", "", 200, "");
}

struct requester {
    const char *path;
    uint32_t rounds, number;
    atomic_bool *stop; /* NULL: a fixed number of rounds */
    atomic_uint *wrong;
};

static void *ask(void *user)
{
    const struct requester *requester = user;
    int fd = client_connect(&server);

    for (uint32_t i = 0; requester->stop != NULL ? !atomic_load(requester->stop) : i < requester->rounds; i++) {
        char body[256], want[64];
        uint32_t value = requester->number * 1000 + i % 1000 + 1;
        struct answer answer;

        (void)snprintf(body, sizeof body, DOUBLE("%u"), value);
        (void)snprintf(want, sizeof want, "\"data\":[%u.0,", 2 * value);
        client_call(fd, "POST", requester->path, AS_USER, body, strlen(body), &answer);
        if (answer.code != 200 || strstr(answer.body, want) == NULL) {
            (void)atomic_fetch_add(requester->wrong, 1);
            print_error("%u: got %d %s\n", value, answer.code, answer.body);
            break;
        }
    }
    (void)close(fd);
    return NULL;
}

static void test_requests_are_joined(void **state)
{
    pthread_t threads[8];
    struct requester requesters[8];
    atomic_uint wrong = 0;
    struct answer answer;
    const char *runs;

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        requesters[i] = (struct requester){ "/v2/models/joined/infer", 5, i, NULL, &wrong };
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &requesters[i]), 0);
    }
    for (uint32_t i = 0; i < 8; i++)
        (void)pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
    client_once(&server, "GET", "/v2/models/joined/stats", AS_USER, NULL, &answer);
    assert_non_null(strstr(answer.body, "\"inference_count\":40,"));
    runs = strstr(answer.body, "\"execution_count\":");
    assert_non_null(runs);
    assert_in_range(strtol(runs + strlen("\"execution_count\":"), NULL, 10), 5, 30);
    /* A single request waits for the delay only. */
    expect(AS_USER, "POST", "/v2/models/joined/infer", DOUBLE("4"), 200, "[8.0,");
}

/* The model is replaced repeatedly under load; no request fails. RELOADS=2000 replaces it more often. */
static void test_no_request_is_dropped(void **state)
{
    const char *wanted = getenv("RELOADS");
    long reloads = wanted != NULL ? strtol(wanted, NULL, 10) : 10;
    pthread_t threads[3];
    struct requester requesters[3];
    atomic_uint wrong = 0;
    atomic_bool stop = false;

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        requesters[i] = (struct requester){ "/v2/models/twice/infer", 0, i, &stop, &wrong };
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &requesters[i]), 0);
    }
    for (long i = 0; i < reloads; i++)
        expect(AS_ADMIN, "POST", "/v2/repository/models/twice/load", "", 200, "");
    atomic_store(&stop, true);
    for (uint32_t i = 0; i < 3; i++)
        (void)pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
}

static void test_the_access_log(void **state)
{
    char path[128], text[512];
    FILE *file;
    uint32_t lines = 0;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/access", server.folder);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(text, sizeof text, file) != NULL) {
        assert_memory_equal(text, "{\"time\":\"", 9);
        assert_non_null(strstr(text, "\"status\":"));
        assert_string_equal(text + strlen(text) - 2, "}\n");
        assert_null(strstr(text, "0123456789abcdef")); /* tokens are not logged */
        lines++;
    }
    (void)fclose(file);
    assert_true(lines > 50);
}

/* While draining, requests on closing connections are answered, and the server reports that it is not ready. */
static void test_draining(void **state)
{
    int fd = client_connect(&server);
    char value[32];
    struct answer answer;

    (void)state;
    client_call(fd, "GET", "/v2/health/ready", "", NULL, 0, &answer);
    assert_int_equal(answer.code, 200);
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    do {
        client_wait_ms(2);
        client_once(&server, "GET", "/v2/health/ready", "", NULL, &answer);
    } while (answer.code == 200);
    assert_int_equal(answer.code, 400);
    client_call(fd, "POST", "/v2/models/twice/infer", AS_USER, DOUBLE("4"), strlen(DOUBLE("4")), &answer);
    assert_int_equal(answer.code, 200);
    assert_string_equal(answer_header(&answer, "Connection", value, sizeof value), "close");
    (void)close(fd);
    assert_int_equal(serving_end(&server, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_load_and_unload),
        cmocka_unit_test(test_many_versions),
        cmocka_unit_test(test_requests_are_joined),
        cmocka_unit_test(test_no_request_is_dropped),
        cmocka_unit_test(test_the_access_log),
        cmocka_unit_test(test_draining),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_away);
}
