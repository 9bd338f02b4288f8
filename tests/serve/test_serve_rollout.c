/* A new version of a model beside the served one: it is promoted or dropped by the rules, and clients of the served
 * version notice nothing. */
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

static struct serving server;

#define BODY(value) "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[" value ",1,2]}]}"
#define BODY7 "{\"inputs\":[{\"name\":\"x\",\"shape\":[7],\"datatype\":\"FP32\",\"data\":[4,1,1,1,1,1,1]}]}"
/* No rule on times: tests assert none. */
#define RULES "rollout_requests: 8\nrollout_median_ratio: 0\nrollout_tail_ratio: 0\n"

static void write_once(const char *path)
{
    write_doubling(path, 1);
}

static void write_again(const char *path)
{
    write_doubling(path, 2);
}

static void write_abs(const char *path)
{
    write_one(path, "Abs", "7");
}

static void write_log(const char *path)
{
    write_one(path, "Log", "7");
}

static void write_relu7(const char *path)
{
    write_one(path, "Relu", "7");
}

static void write_neg(const char *path)
{
    write_one(path, "Neg", "7");
}

/* Adds a version to a model. */
static void add_version(const char *model, uint32_t version, void (*write)(const char *path))
{
    char name[64], path[256];

    (void)snprintf(name, sizeof name, "models/%s/%u", model, version);
    serving_folder(&server, name);
    (void)snprintf(name, sizeof name, "models/%s/%u/model.onnx", model, version);
    write(serving_path(&server, name, path, sizeof path));
}

static void load(const char *model, int code, const char *part)
{
    char path[128];

    (void)snprintf(path, sizeof path, "/v2/repository/models/%s/load", model);
    client_expect(&server, "POST", path, AS_ADMIN, "", code, part);
}

static void rollout(const char *model, struct answer *answer)
{
    char path[128];

    (void)snprintf(path, sizeof path, "/v2/models/%s/rollout", model);
    client_once(&server, "GET", path, "", NULL, answer);
}

static uint64_t figure(const char *model, const char *key)
{
    struct answer answer;
    char member[64];
    const char *at;

    rollout(model, &answer);
    (void)snprintf(member, sizeof member, "\"%s\":", key);
    at = strstr(answer.body, member);
    if (answer.code != 200 || at == NULL)
        fail_msg("%s of %s: %d %s", key, model, answer.code, answer.body);
    return strtoull(at + strlen(member), NULL, 10);
}

/* Sends one request and returns whether the reply has that part; the code must be 200. */
static bool asks(const char *model, const char *version, const char *body, const char *part)
{
    struct answer answer;
    char path[128];

    (void)snprintf(path, sizeof path, "/v2/models/%s%s%s/infer", model, version[0] != '\0' ? "/versions/" : "",
                   version);
    client_once(&server, "POST", path, "", body, &answer);
    if (answer.code != 200)
        fail_msg("%s: %d %s", path, answer.code, answer.body);
    return strstr(answer.body, part) != NULL;
}

/* Pauses in a loop that waits for something; fails after two minutes. *since: 0 before the first pause. */
static void pause_shortly(time_t *since, const char *what, const char *seen)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (*since == 0)
        *since = now.tv_sec;
    if (now.tv_sec - *since > 120)
        fail_msg("waited two minutes for %s: %s", what, seen);
    client_wait_ms(2);
}

/* Waits until the model has a rollout. */
static void await_rollout(const char *model)
{
    struct answer answer;
    time_t since = 0;

    for (rollout(model, &answer); answer.code != 200; rollout(model, &answer))
        pause_shortly(&since, model, answer.body);
}

/* Sends requests until the rollout has that state; returns how many replies had `part`. */
static uint32_t ask_until(const char *model, const char *state, const char *body, const char *part, uint32_t *out_asked)
{
    uint32_t with = 0;
    time_t since = 0;
    char wanted[64];

    (void)snprintf(wanted, sizeof wanted, "\"state\":\"%s\"", state);
    for (uint32_t i = 1;; i++) {
        struct answer answer;

        with += asks(model, "", body, part);
        *out_asked = i;
        rollout(model, &answer);
        if (strstr(answer.body, wanted) != NULL)
            return with;
        pause_shortly(&since, wanted, answer.body);
    }
}

/* The same if every reply must have `part`. */
static void ask_all_until(const char *model, const char *state, const char *body, const char *part)
{
    uint32_t asked, with = ask_until(model, state, body, part, &asked);

    assert_int_equal(with, asked);
}

/* Waits until the index has this entry. */
static void await_index(const char *model, const char *version, const char *state, const char *reason)
{
    char entry[128];
    time_t since = 0;

    (void)snprintf(entry, sizeof entry, "{\"name\":\"%s\",\"version\":\"%s\",\"state\":\"%s\",\"reason\":\"%s", model,
                   version, state, reason);
    for (;;) {
        struct answer answer;

        client_once(&server, "POST", "/v2/repository/index", "", "", &answer);
        if (strstr(answer.body, entry) != NULL)
            return;
        pause_shortly(&since, entry, answer.body);
    }
}

/* Starts the server with these flags and tokens. */
static void begin_prepared(const char *const *more)
{
    const char *flags[24] = { "--admin-token-file", "FOLDER/admins", "--grpc-port", "0" };
    uint32_t count = 4;

    while (*more != NULL)
        flags[count++] = *more++;
    flags[count] = NULL;
    serving_tokens(&server);
    serving_start(&server, flags);
}

static void begin(const char *const *more)
{
    serving_prepare_empty(&server);
    serving_model(&server, "same", "rollout: canary\nrollout_percent: 50\n" RULES, write_once);
    serving_model(&server, "worse", "rollout: shadow\nrollout_percent: 100\n" RULES, write_once);
    serving_model(&server, "kept", "rollout: canary\nrollout_percent: 50\n" RULES, write_once);
    serving_model(&server, "canary", "rollout: canary\nrollout_percent: 25\n" RULES, write_once);
    serving_model(&server, "failing", "rollout: canary\nrollout_percent: 100\n" RULES, write_once);
    serving_model(&server, "nan", "rollout: shadow\nrollout_percent: 100\n" RULES, write_neg);
    serving_model(&server, "failing_run", "rollout: canary\nrollout_percent: 100\noptions: [check_finite=1]\n" RULES,
                  write_neg);
    serving_model(&server, "rpc", "rollout: canary\nrollout_percent: 50\n" RULES, write_once);
    serving_model(&server, "busy", "rollout: shadow\nrollout_percent: 100\nrollout_requests: 1000000\n", write_once);
    serving_model(&server, "manual", "rollout: shadow\nrollout_percent: 1\n" RULES, write_once);
    serving_model(&server, "state", "rollout: canary\noptions: [\"state=old=new\"]\n", write_sum);
    begin_prepared(more);
}

static int start(void **state)
{
    static const char *const flags[] = { NULL };

    *state = &server;
    begin(flags);
    return 0;
}

static void test_the_same_model_is_promoted(void **state)
{
    char text[32768];

    (void)state;
    client_expect(&server, "GET", "/v2/models/same/rollout", "", NULL, 404, "has no rollout");
    add_version("same", 2, write_once);
    load("same", 200, "");
    await_index("same", "2", "READY", "candidate of a canary rollout against version 1");
    client_expect(&server, "GET", "/v2/models/same", "", NULL, 200, "\"versions\":[\"1\",\"2\"]");
    /* Explicit versions are served by these; of two requests without one, the candidate answers the second. */
    assert_true(asks("same", "1", BODY("4"), "\"model_version\":\"1\""));
    assert_true(asks("same", "2", BODY("4"), "\"model_version\":\"2\""));
    assert_true(asks("same", "", BODY("4"), "\"model_version\":\"1\""));
    assert_true(asks("same", "", BODY("4"), "\"model_version\":\"2\""));
    assert_true(asks("same", "", BODY("4"), "\"model_version\":\"1\""));
    ask_all_until("same", "promoted", BODY("4"), "[8.0,");
    await_index("same", "2", "READY", "promoted: ");
    await_index("same", "1", "UNAVAILABLE", "replaced by version 2");
    assert_true(asks("same", "", BODY("4"), "\"model_version\":\"2\""));
    client_expect(&server, "POST", "/v2/models/same/versions/1/infer", "", BODY("4"), 404, "no such model");
    serving_await(&server, "model 'same', version 2: promoted: ", text, sizeof text);
}

/* The shadow runs copies only: every reply is the stable version's. */
static void test_a_different_model_is_dropped(void **state)
{
    (void)state;
    add_version("worse", 2, write_again);
    load("worse", 200, "");
    ask_all_until("worse", "dropped", BODY("4"), "\"model_version\":\"1\"");
    await_index("worse", "2", "UNAVAILABLE", "dropped: output 'y': relative is 1 over ");
    assert_true(asks("worse", "", BODY("4"), "[8.0,"));
    client_expect(&server, "POST", "/v2/models/worse/versions/2/infer", "", BODY("4"), 404, "no such model");
    /* A request to load it begins anew; as a candidate it can be replaced by a newer one. */
    load("worse", 200, "");
    await_index("worse", "2", "READY", "candidate of a shadow rollout");
    add_version("worse", 3, write_once);
    load("worse", 200, "");
    await_index("worse", "3", "READY", "candidate of a shadow rollout");
    await_index("worse", "2", "UNAVAILABLE", "not selected by its configuration");
    ask_all_until("worse", "promoted", BODY("4"), "[8.0,");
    await_index("worse", "3", "READY", "promoted");
}

/* A newer version that is damaged leaves the rollout as it is. */
static void test_a_damaged_version_ends_no_rollout(void **state)
{
    static char text[1 << 16];

    (void)state;
    add_version("kept", 2, write_again);
    load("kept", 200, "");
    await_index("kept", "2", "READY", "candidate of a canary rollout");
    serving_folder(&server, "models/kept/3");
    serving_file(&server, "models/kept/3/model.onnx", "not a model", 0644);
    load("kept", 400, "version 3");
    await_index("kept", "2", "READY", "candidate of a canary rollout");
    serving_await(&server, "model 'kept', version 2: its rollout goes on, because version 3", text, sizeof text);
    assert_int_equal(unlink(serving_path(&server, "models/kept/3/model.onnx", text, sizeof text)), 0);
    load("kept", 200, "");
    await_index("kept", "2", "READY", "candidate of a canary rollout");
}

/* Of every four requests, the candidate answers the last one. */
static void test_a_canary_gets_its_share(void **state)
{
    uint32_t asked, by_candidate, stable;

    (void)state;
    add_version("canary", 7, write_again);
    load("canary", 200, "");
    for (uint32_t i = 0; i < 12; i++)
        assert_true(asks("canary", "", BODY("4"), i % 4 == 3 ? "[16.0," : "[8.0,"));
    assert_int_equal(figure("canary", "requests"), 12);
    assert_int_equal(figure("canary", "chosen"), 3);
    stable = ask_until("canary", "dropped", BODY("4"), "[8.0,", &asked);
    by_candidate = asked - stable;
    assert_true(by_candidate >= 5 && by_candidate <= (asked + 3) / 4);
    await_index("canary", "7", "UNAVAILABLE", "dropped: output 'y'");
    assert_true(asks("canary", "", BODY("4"), "\"model_version\":\"1\""));
}

/* The candidate has other inputs, so that each of its requests fails: the stable version answers them. */
static void test_a_failing_candidate_is_dropped(void **state)
{

    (void)state;
    add_version("failing", 2, write_abs);
    load("failing", 200, "");
    ask_all_until("failing", "dropped", BODY("4"), "[8.0,");
    await_index("failing", "2", "UNAVAILABLE", "dropped: ");
    /* A request that both refuse is the client's fault. */
    add_version("failing", 3, write_once);
    load("failing", 200, "");
    client_expect(&server, "POST", "/v2/models/failing/infer", "", BODY7, 400, "input 'x' has shape");
    assert_int_equal(figure("failing", "failed"), 0);
    ask_all_until("failing", "promoted", BODY("4"), "[8.0,");
}

#define NEGATIVE7 "{\"inputs\":[{\"name\":\"x\",\"shape\":[7],\"datatype\":\"FP32\",\"data\":[-4,1,1,1,1,1,1]}]}"

/* The candidate accepts the request and its run fails: the stable version answers, and the failure is the
 * candidate's. */
static void test_a_run_that_fails(void **state)
{
    (void)state;
    add_version("failing_run", 2, write_log);
    load("failing_run", 200, "");
    ask_all_until("failing_run", "dropped", NEGATIVE7, "\"model_version\":\"1\"");
    await_index("failing_run", "2", "UNAVAILABLE", "dropped: ");
    assert_true(asks("failing_run", "", NEGATIVE7, "[4.0,-1.0"));
}

/* Numbers that are finite in one version alone are failures, whatever the bound. */
static void test_numbers_that_are_not_finite(void **state)
{
    (void)state;
    add_version("nan", 2, write_log);
    load("nan", 200, "");
    ask_all_until("nan", "dropped", NEGATIVE7, "[4.0,-1.0");
    await_index("nan", "2", "UNAVAILABLE", "dropped: 0 of ");
}

/* Sends a request over gRPC; returns the version that answered, and y[0] in *out_y. */
static uint64_t ask_by_grpc(int port, float *out_y)
{
    static const int64_t shape[] = { 1, 3 };
    static const float x[] = { 4, 1, 2 };
    static grpc_call call;
    Inference__InferReply *reply;
    uint64_t version;

    call = (grpc_call){ .path = NULL };
    grpc_add_infer(&call, "rpc", shape, 2, x, sizeof x);
    grpc_expect(port, SERVICE "ModelInfer", &call, 0, "");
    reply = grpc_message(&call, 0, &inference__infer_reply__descriptor);
    assert_non_null(reply);
    memcpy(out_y, reply->raw_output_contents[0].data, sizeof *out_y);
    version = strtoull(reply->model_version, NULL, 10);
    protobuf_c_message_free_unpacked(&reply->base, NULL);
    return version;
}

/* Calls are split, answered after a failure, and compared as requests for REST are. */
static void test_calls_over_grpc(void **state)
{
    int port = grpc_port_of(&server);
    struct answer answer;
    time_t since = 0;
    float y;

    (void)state;
    add_version("rpc", 2, write_log);
    load("rpc", 200, "");
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ask_by_grpc(port, &y), 1);
        assert_true(y == 8);
    }
    await_index("rpc", "2", "UNAVAILABLE", "dropped: ");
    add_version("rpc", 3, write_once);
    load("rpc", 200, "");
    assert_int_equal(ask_by_grpc(port, &y), 1);
    assert_int_equal(ask_by_grpc(port, &y), 3);
    for (;;) {
        (void)ask_by_grpc(port, &y);
        assert_true(y == 8);
        rollout("rpc", &answer);
        if (strstr(answer.body, "\"state\":\"promoted\"") != NULL)
            break;
        pause_shortly(&since, "the promotion over gRPC", answer.body);
    }
    await_index("rpc", "3", "READY", "promoted: ");
    assert_int_equal(ask_by_grpc(port, &y), 3);
}

static void test_an_administrator_decides(void **state)
{
    (void)state;
    add_version("manual", 2, write_again);
    load("manual", 200, "");
    client_expect(&server, "POST", "/v2/models/manual/rollout", "", "{\"state\":\"promoted\"}", 401, "token");
    client_expect(&server, "POST", "/v2/models/manual/rollout", AS_ADMIN, "{\"state\":\"running\"}", 400, "must be");
    client_expect(&server, "POST", "/v2/models/manual/rollout", AS_ADMIN, "{\"state\":\"promoted\"}", 200,
                  "\"state\":\"promoted\",\"reason\":\"by an administrator\"");
    client_expect(&server, "POST", "/v2/models/manual/rollout", AS_ADMIN, "{\"state\":\"dropped\"}", 400, "has ended");
    await_index("manual", "2", "READY", "promoted: by an administrator");
    assert_true(asks("manual", "", BODY("4"), "[16.0,"));
    /* New files of the same version are a candidate, too; unloading ends its rollout. */
    serving_file(&server, "models/manual/config.yaml", "rollout: shadow\nrollout_percent: 50\n" RULES, 0644);
    load("manual", 200, "");
    await_index("manual", "2", "READY", "candidate of a shadow rollout against version 2");
    client_expect(&server, "POST", "/v2/models/manual/rollout", AS_ADMIN, "{\"state\":\"dropped\"}", 200, "dropped");
    await_index("manual", "2", "READY", "new files dropped: by an administrator");
    load("manual", 200, "");
    client_expect(&server, "POST", "/v2/repository/models/manual/unload", AS_ADMIN, "", 200, "");
    await_index("manual", "2", "UNAVAILABLE", "unloaded");
    client_expect(&server, "POST", "/v2/models/manual/infer", "", BODY("4"), 404, "no such model");
}

/* A model that keeps states between requests is replaced at once, as without a rollout. */
static void test_models_with_states(void **state)
{
    (void)state;
    add_version("state", 2, write_sum);
    load("state", 200, "");
    await_index("state", "2", "READY", "\"");
    await_index("state", "1", "UNAVAILABLE", "not selected");
}

static void test_mistakes_in_settings(void **state)
{
    static const struct {
        const char *config, *part;
    } rows[] = {
        { "rollout: on\n", "rollout must be off, canary or shadow, not 'on'" },
        { "rollout_percent: 0\n", "rollout_percent must be a number from 0.01 to 100, not '0'" },
        { "rollout_percent: nan\n", "rollout_percent must be a number from 0.01 to 100, not 'nan'" },
        { "rollout_requests: 0\n", "rollout_requests must be a number from 1 to 1e+09, not '0'" },
        { "rollout_metric: auto\n", "rollout_metric must be relative, top1, cosine" },
        { "rollout_bound: tight\n", "rollout_bound must be a number" },
        { "rollout_tail_ratio: -1\n", "rollout_tail_ratio must be a number from 0" },
        { "rollout_error_percent: 101\n", "rollout_error_percent must be a number from 0 to 100" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        serving_file(&server, "models/canary/config.yaml", rows[i].config, 0644);
        load("canary", 400, rows[i].part);
    }
}

static void test_figures(void **state)
{
    (void)state;
    assert_true(client_metric(&server, "inlay_rollout_state{model=\"same\",stable=\"1\",candidate=\"2\",rollout="
                                       "\"canary\",state=\"promoted\"}") == 1);
    assert_true(client_metric(&server, "inlay_rollout_compared_total{model=\"same\",candidate=\"2\"}") >= 8);
    assert_true(client_metric(&server, "inlay_rollout_difference{model=\"same\",metric=\"relative\"}") == 0);
    assert_true(client_metric(&server, "inlay_rollout_failed_total{model=\"same\",candidate=\"2\"}") == 0);
    assert_true(client_metric(&server, "inlay_rollout_run_seconds_count{model=\"same\",role=\"stable\"}") > 0);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

struct client {
    atomic_bool *stop;
    atomic_uint *wrong;
};

static void *ask(void *user)
{
    const struct client *client = user;
    int fd = client_connect(&server);

    while (!atomic_load(client->stop)) {
        struct answer answer;

        client_call(fd, "POST", "/v2/models/busy/infer", "", BODY("4"), strlen(BODY("4")), &answer);
        if (answer.code != 200 || strstr(answer.body, "[8.0,") == NULL) {
            (void)atomic_fetch_add(client->wrong, 1);
            print_error("%d %s\n", answer.code, answer.body);
            break;
        }
    }
    (void)close(fd);
    return NULL;
}

/* Clients that leave no pause: copies are dropped, and no request fails or gets the shadow's outputs. The folder is
 * polled; a dropped version stays dropped until its files change. */
static void test_a_shadow_under_load(void **state)
{
    enum { CLIENTS = 4 };
    static const char *const flags[] = { "--poll-ms", "10", "--runners", "1", NULL };
    static char text[1 << 16];
    pthread_t threads[CLIENTS];
    atomic_uint wrong = 0;
    atomic_bool stop = false;
    struct client client = { &stop, &wrong };
    struct answer answer;
    time_t since = 0;

    (void)state;
    begin(flags);
    add_version("busy", 2, write_again);
    await_index("busy", "2", "READY", "candidate");
    serving_await(&server, "model 'busy': its files changed; version 1 stays as it is", text, sizeof text);
    for (uint32_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &client), 0);
    while (figure("busy", "requests") < 1000 && atomic_load(&wrong) == 0) {
        rollout("busy", &answer);
        pause_shortly(&since, "1000 requests", answer.body);
    }
    atomic_store(&stop, true);
    for (uint32_t i = 0; i < CLIENTS; i++)
        (void)pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
    /* Each copy was compared or dropped. */
    since = 0;
    while (figure("busy", "compared") + figure("busy", "dropped_copies") < figure("busy", "chosen"))
        pause_shortly(&since, "the last copies", "");
    assert_int_equal(figure("busy", "compared") + figure("busy", "dropped_copies"), figure("busy", "chosen"));
    add_version("worse", 2, write_again);
    await_index("worse", "2", "READY", "candidate");
    ask_all_until("worse", "dropped", BODY("4"), "[8.0,");
    await_index("worse", "2", "UNAVAILABLE", "dropped: output 'y'");
    add_version("same", 2, write_again);
    await_index("same", "2", "READY", "candidate"); /* the folder was polled since */
    await_index("worse", "2", "UNAVAILABLE", "dropped: output 'y'");
    add_version("worse", 2, write_once);
    await_index("worse", "2", "READY", "candidate");
    ask_all_until("worse", "promoted", BODY("4"), "[8.0,");
    assert_int_equal(serving_close(&server), 0);
}

#define STUCK "rollout_percent: 100\nwarmup: 0\noptions: [\"providers=stuck,reference\"]\n" RULES

/* Starts a server with one runner and the models `held` and `late`, whose new versions may have runs that do not
 * end. */
static void begin_stuck(void)
{
    static const char *const flags[] = { "--runners",      "1",           "--plugin-dirs",
                                         "FOLDER/plugins", "--cache-dir", "FOLDER/cache",
                                         "--grace-ms",     "100",         NULL };
    char path[256];

    serving_prepare_empty(&server);
    serving_plugin(&server, STUCK_PLUGIN, "stuck");
    assert_int_equal(setenv("STUCK_FILE", serving_path(&server, "none", path, sizeof path), 1), 0);
    serving_model(&server, "held", "rollout: shadow\n" STUCK, write_neg);
    serving_model(&server, "late", "rollout: canary\n" STUCK, write_neg);
    begin_prepared(flags);
}

/* A copy has a run that would not end: the next request stops it, and is answered. */
static void test_a_request_stops_a_copy(void **state)
{
    char text[32768];
    time_t since = 0;

    (void)state;
    begin_stuck();
    add_version("held", 2, write_abs);
    load("held", 200, "");
    for (uint32_t i = 1; i <= 4; i++) {
        assert_true(asks("held", "", BODY7, "-1.0,-1.0]"));
        serving_await(&server, "stuck: a run", text, sizeof text);
        assert_int_equal(figure("held", "compared"), 0);
    }
    while (figure("held", "dropped_copies") == 0)
        pause_shortly(&since, "a dropped copy", "");
    client_expect(&server, "POST", "/v2/models/held/rollout", AS_ADMIN, "{\"state\":\"dropped\"}", 200, "dropped");
    await_index("held", "2", "UNAVAILABLE", "dropped: by an administrator");
    assert_true(asks("held", "", BODY7, "-1.0,-1.0]"));
    assert_int_equal(serving_close(&server), 0);
}

/* The run of a copy cannot be stopped: requests are answered on the only runner, and the server ends. */
static void test_a_copy_that_does_not_stop(void **state)
{
    char text[32768];

    (void)state;
    begin_stuck();
    add_version("held", 2, write_relu7);
    load("held", 200, "");
    assert_true(asks("held", "", BODY7, "-1.0,-1.0]"));
    serving_await(&server, "stuck: a run", text, sizeof text);
    for (uint32_t i = 1; i <= 20; i++)
        assert_true(asks("held", "", BODY7, "-1.0,-1.0]"));
    assert_int_equal(serving_end(&server, SIGTERM), 0);
    serving_await(&server, "a copy of a request does not stop; exiting without it", text, sizeof text);
    serving_remove(&server);
}

/* The candidate does not answer before the request's deadline, and the stable version would have. */
static void test_a_candidate_that_is_too_slow(void **state)
{
    (void)state;
    begin_stuck();
    add_version("late", 2, write_abs);
    load("late", 200, "");
    client_expect(&server, "POST", "/v2/models/late/infer", "Inference-Timeout-Ms: 500\r\n", BODY7, 504,
                  "longer than its limit");
    await_index("late", "2", "UNAVAILABLE", "dropped: 1 of 1 requests failed on it alone");
    assert_true(asks("late", "", BODY7, "-1.0,-1.0]"));
    assert_int_equal(serving_close(&server), 0);
}

/* The limit of memory has room for one version, and a rollout keeps both. */
static void test_little_memory(void **state)
{
    char bytes[32];
    const char *const flags[] = { "--models-memory", bytes, NULL };

    (void)state;
    serving_prepare_empty(&server);
    serving_model(&server, "same", "rollout: canary\nrollout_percent: 50\n" RULES, write_once);
    (void)snprintf(bytes, sizeof bytes, "0");
    begin_prepared(flags);
    (void)snprintf(bytes, sizeof bytes, "%.0f", client_metric(&server, "inlay_models_bytes") * 1.5);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
    begin_prepared(flags);
    add_version("same", 2, write_once);
    load("same", 200, "");
    await_index("same", "1", "READY", "\"");
    await_index("same", "2", "READY", "candidate");
    ask_all_until("same", "promoted", BODY("4"), "[8.0,");
    await_index("same", "1", "UNAVAILABLE", "replaced by version 2");
    assert_int_equal(serving_close(&server), 0);
}

/* Two processes add up one set of statistics and come to one decision. */
static void test_workers(void **state)
{
    static const char *const flags[] = { "--poll-ms", "10", "--workers", "2", NULL };
    char text[32768];
    time_t since;

    (void)state;
    begin(flags);
    serving_await(&server, "ready, models", text, sizeof text);
    add_version("worse", 2, write_again);
    await_rollout("worse");
    ask_all_until("worse", "dropped", BODY("4"), "[8.0,");
    assert_true(figure("worse", "compared") >= 8);
    add_version("failing", 2, write_once);
    await_rollout("failing");
    ask_all_until("failing", "promoted", BODY("4"), "[8.0,");
    since = 0;
    for (uint32_t in_a_row = 0; in_a_row < 20;) {
        in_a_row = asks("failing", "", BODY("4"), "\"model_version\":\"2\"") ? in_a_row + 1 : 0;
        pause_shortly(&since, "the promoted version", "");
    }
    /* An administrator reaches one of the processes, and decides for all. */
    add_version("manual", 2, write_again);
    await_rollout("manual");
    client_expect(&server, "POST", "/v2/models/manual/rollout", "", "{\"state\":\"promoted\"}", 401, "token");
    client_expect(&server, "POST", "/v2/models/manual/rollout", AS_ADMIN, "{\"state\":\"promoted\"}", 200, "promoted");
    since = 0;
    for (uint32_t in_a_row = 0; in_a_row < 20;) {
        in_a_row = asks("manual", "", BODY("4"), "[16.0,") ? in_a_row + 1 : 0;
        pause_shortly(&since, "the promoted version", "");
    }
    assert_int_equal(serving_close(&server), 0);
}

/* Ends all workers at once; others replace them. */
static void restart_workers(void)
{
    long pids[8];
    uint32_t count = serving_children(&server, pids, 8);

    assert_int_equal(count, 2);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(kill((pid_t)pids[i], SIGKILL), 0);
}

/* Asks until a worker answers, and compares its reply. */
static void ask_restarted(const char *model, const char *part)
{
    char path[128];
    time_t since = 0;

    (void)snprintf(path, sizeof path, "/v2/models/%s/infer", model);
    for (;;) {
        struct answer answer;

        client_once(&server, "POST", path, "", BODY("4"), &answer);
        if (answer.code == 200 && strstr(answer.body, part) == NULL)
            fail_msg("%s: %s", model, answer.body);
        if (answer.code == 200)
            return;
        pause_shortly(&since, path, answer.body);
    }
}

/* A worker that replaces a crashed one continues the rollout, and does not serve a version that was dropped. */
static void test_workers_that_are_replaced(void **state)
{
    static const char *const flags[] = { "--poll-ms", "10", "--workers", "2", NULL };
    char text[32768];

    (void)state;
    begin(flags);
    serving_await(&server, "ready, models", text, sizeof text);
    add_version("busy", 2, write_again);
    add_version("worse", 2, write_again);
    await_rollout("busy");
    await_rollout("worse");
    ask_all_until("worse", "dropped", BODY("4"), "[8.0,");
    restart_workers();
    for (uint32_t i = 0; i < 20; i++) {
        ask_restarted("worse", "\"model_version\":\"1\"");
        ask_restarted("busy", "\"model_version\":\"1\"");
    }
    await_index("busy", "2", "READY", "candidate");
    assert_int_equal(serving_close(&server), 0);
}

int main(void)
{
    const struct CMUnitTest decisions[] = {
        cmocka_unit_test(test_the_same_model_is_promoted),
        cmocka_unit_test(test_a_different_model_is_dropped),
        cmocka_unit_test(test_a_damaged_version_ends_no_rollout),
        cmocka_unit_test(test_a_canary_gets_its_share),
        cmocka_unit_test(test_a_failing_candidate_is_dropped),
        cmocka_unit_test(test_a_run_that_fails),
        cmocka_unit_test(test_numbers_that_are_not_finite),
        cmocka_unit_test(test_calls_over_grpc),
        cmocka_unit_test(test_an_administrator_decides),
        cmocka_unit_test(test_models_with_states),
        cmocka_unit_test(test_mistakes_in_settings),
        cmocka_unit_test(test_figures),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_a_shadow_under_load),
        cmocka_unit_test(test_a_request_stops_a_copy),
        cmocka_unit_test(test_a_copy_that_does_not_stop),
        cmocka_unit_test(test_a_candidate_that_is_too_slow),
        cmocka_unit_test(test_little_memory),
        cmocka_unit_test(test_workers),
        cmocka_unit_test(test_workers_that_are_replaced),
    };
    int failed;

    (void)signal(SIGPIPE, SIG_IGN);
    failed = cmocka_run_group_tests(decisions, start, serving_tear_away);
    return failed + cmocka_run_group_tests(others, NULL, NULL);
}
