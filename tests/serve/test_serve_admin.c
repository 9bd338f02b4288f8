/* Administration over gRPC and REST: models, trace and log settings; statistics over gRPC. */
#include "grpc_client.h"
#include "inference.pb-c.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;
static int grpc_port;

#define ADMIN "Bearer " ADMIN_TOKEN
#define USER "Bearer " USER_TOKEN
#define TEXT(text) ((char *)(uintptr_t)(text))

static int start(void **state)
{
    static const char *const flags[] = { "--grpc-port",
                                         "0",
                                         "--token-file",
                                         "FOLDER/tokens",
                                         "--admin-token-file",
                                         "FOLDER/admins",
                                         "--trace-file",
                                         "FOLDER/trace",
                                         "--max-batch",
                                         "4",
                                         "--poll-ms",
                                         "50",
                                         NULL };

    *state = &server;
    serving_prepare(&server);
    serving_tokens(&server);
    serving_start(&server, flags);
    grpc_port = grpc_port_of(&server);
    return 0;
}

static void rest(const char *token, const char *method, const char *path, const char *body, int code, const char *part)
{
    char header[128];

    (void)snprintf(header, sizeof header, "Authorization: %s\r\n", token);
    client_expect(&server, method, path, header, body, code, part);
}

#define INFER "{\"id\":\"a\\\"b\",\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[4,0,1]}]}"

static void change(const char *token, const char *method, const char *model, int status, const char *part)
{
    static grpc_call call;
    Inference__RepositoryRequest RepositoryRequest = INFERENCE__REPOSITORY_REQUEST__INIT;

    call = (grpc_call){ .token = token };
    RepositoryRequest.model_name = TEXT(model);
    grpc_add(&call, &RepositoryRequest.base);
    grpc_expect(grpc_port, method, &call, status, part);
}

static void test_load_and_unload(void **state)
{
    static const char load[] = SERVICE "RepositoryModelLoad", unload[] = SERVICE "RepositoryModelUnload";
    static grpc_call call;
    Inference__RepositoryRequest RepositoryRequest = INFERENCE__REPOSITORY_REQUEST__INIT;
    Inference__RepositoryParameter RepositoryParameter = INFERENCE__REPOSITORY_PARAMETER__INIT,
                                   *list = &RepositoryParameter;

    (void)state;
    change(USER, unload, "twice", 7, "may not change");
    change("none", unload, "twice", 16, "bearer token");
    change(ADMIN, unload, "twice", 0, "");
    rest(USER, "POST", "/v2/models/twice/infer", INFER, 404, "no such model");
    change(ADMIN, load, "twice", 0, "");
    rest(USER, "POST", "/v2/models/twice/infer", INFER, 200, "[8.0,0.0,2.0]");
    change(ADMIN, load, "none", 5, "no model 'none'");
    change(ADMIN, load, "../models/twice", 5, "no model");
    change(ADMIN, unload, "none", 5, "no model 'none'");
    RepositoryParameter.key = TEXT("config");
    RepositoryRequest.model_name = TEXT("twice");
    RepositoryRequest.parameters = &list;
    RepositoryRequest.n_parameters = 1;
    call = (grpc_call){ .token = ADMIN };
    grpc_add(&call, &RepositoryRequest.base);
    grpc_expect(grpc_port, load, &call, 3, "parameters are not supported");
}

/* A client cancels a call while the model is loaded: later calls are answered, and nothing leaks. Runs after
 * test_statistics: a load that ends late resets batch_stats of the model. */
static void test_abandoned_load(void **state)
{
    static grpc_call call;
    Inference__RepositoryRequest RepositoryRequest = INFERENCE__REPOSITORY_REQUEST__INIT;
    grpc_client client;

    (void)state;
    RepositoryRequest.model_name = TEXT("triple");
    for (int i = 0; i < 8; i++) {
        call = (grpc_call){ .path = SERVICE "RepositoryModelLoad", .token = ADMIN };
        grpc_add(&call, &RepositoryRequest.base);
        grpc_open(&client, grpc_port);
        grpc_submit(&client, &call);
        grpc_close(&client);
    }
    change(ADMIN, SERVICE "RepositoryModelLoad", "triple", 0, "");
    rest(USER, "GET", "/v2/models/triple", NULL, 200, "\"versions\":[\"2\"]");
}

static void test_statistics(void **state)
{
    static grpc_call call;
    Inference__ModelName ModelName = INFERENCE__MODEL_NAME__INIT;
    Inference__StatisticsReply *reply;

    (void)state;
    rest(USER, "POST", "/v2/models/triple/infer", INFER, 200, "[16.0,0.0,4.0]");
    ModelName.name = TEXT("triple");
    for (uint32_t i = 0;; i++) { /* a run is counted after its answer is written */
        call = (grpc_call){ .token = USER };
        grpc_add(&call, &ModelName.base);
        grpc_expect(grpc_port, SERVICE "ModelStatistics", &call, 0, "");
        reply = grpc_message(&call, 0, &inference__statistics_reply__descriptor);
        assert_true(reply != NULL && reply->n_model_stats == 1);
        if (reply->model_stats[0]->n_batch_stats == 1)
            break;
        protobuf_c_message_free_unpacked(&reply->base, NULL);
        assert_true(i < 20000);
    }
    assert_string_equal(reply->model_stats[0]->name, "triple");
    assert_string_equal(reply->model_stats[0]->version, "2");
    assert_int_equal(reply->model_stats[0]->inference_count, 1);
    assert_int_equal(reply->model_stats[0]->inference_stats->success->count, 1);
    assert_true(reply->model_stats[0]->inference_stats->compute_infer->ns > 0);
    assert_int_equal(reply->model_stats[0]->n_batch_stats, 1);
    assert_int_equal(reply->model_stats[0]->batch_stats[0]->batch_size, 1);
    assert_int_equal(reply->model_stats[0]->batch_stats[0]->compute_infer->count, 1);
    protobuf_c_message_free_unpacked(&reply->base, NULL);
    ModelName.name = TEXT("");
    call = (grpc_call){ .token = USER };
    grpc_add(&call, &ModelName.base);
    grpc_expect(grpc_port, SERVICE "ModelStatistics", &call, 0, "");
    reply = grpc_message(&call, 0, &inference__statistics_reply__descriptor);
    assert_true(reply != NULL && reply->n_model_stats > 10);
    protobuf_c_message_free_unpacked(&reply->base, NULL);
    ModelName.name = TEXT("none");
    call = (grpc_call){ .token = USER };
    grpc_add(&call, &ModelName.base);
    grpc_expect(grpc_port, SERVICE "ModelStatistics", &call, 5, "no such model");
}

static uint32_t traces(void)
{
    char path[128], text[65536];
    uint32_t count = 0;
    size_t bytes;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/trace", server.folder);
    file = fopen(path, "r");
    assert_non_null(file);
    bytes = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[bytes] = '\0';
    assert_true(bytes >= 4 && text[0] == '[' &&
                strcmp(text + bytes - 3, "\n]\n") == 0); /* a complete array at any time */
    for (const char *at = text; (at = strstr(at, "\"timestamps\":[{\"name\":\"REQUEST_START\",\"ns\":")) != NULL; at++)
        count++;
    return count;
}

static void infer_times(uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        rest(USER, "POST", "/v2/models/twice/infer", INFER, 200, "[8.0");
}

static void test_trace(void **state)
{
    (void)state;
    rest(USER, "GET", "/v2/trace/setting", NULL, 200,
         "{\"trace_level\":[\"OFF\"],\"trace_rate\":\"1000\",\"trace_count\":\"-1\",\"log_frequency\":\"0\"");
    rest(USER, "POST", "/v2/trace/setting", "{\"trace_level\":[\"TIMESTAMPS\"]}", 403, "may not change");
    infer_times(3);
    assert_int_equal(traces(), 0);
    rest(ADMIN, "POST", "/v2/trace/setting", "{\"trace_level\":[\"TIMESTAMPS\"],\"trace_rate\":\"2\"}", 200,
         "\"trace_rate\":\"2\"");
    infer_times(6);
    assert_int_equal(traces(), 3);
    /* The settings of one model allow three more traces, regardless of the global settings. */
    rest(ADMIN, "POST", "/v2/models/twice/trace/setting", "{\"trace_rate\":1,\"trace_count\":3}", 200,
         "\"trace_count\":\"3\"");
    infer_times(5);
    assert_int_equal(traces(), 6);
    rest(USER, "GET", "/v2/models/twice/trace/setting", NULL, 200, "\"trace_count\":\"0\"");
    rest(ADMIN, "POST", "/v2/models/twice/trace/setting", "{\"trace_rate\":null,\"trace_count\":null}", 200,
         "\"trace_rate\":\"2\"");
    rest(ADMIN, "POST", "/v2/trace/setting", "{\"trace_level\":\"OFF\"}", 200, "\"trace_level\":[\"OFF\"]");
    infer_times(4);
    assert_int_equal(traces(), 6);
}

static void test_wrong_trace_settings(void **state)
{
    static const struct {
        const char *body, *part;
    } wrong[] = { { "{\"trace_level\":[\"TENSORS\"]}", "use TIMESTAMPS or OFF" },
                  { "{\"trace_level\":[\"ALL\"]}", "TIMESTAMPS or OFF" },
                  { "{\"trace_rate\":\"0\"}", "from 1" },
                  { "{\"trace_rate\":[\"1\",\"2\"]}", "one number" },
                  { "{\"trace_rate\":1.5}", "from 1" },
                  { "{\"trace_file\":\"/etc/passwd\"}", "cannot change" },
                  { "{\"trace\":\"1\"}", "unknown trace setting" },
                  { "{\"trace_rate\":{}}", "JSON" },
                  { "[]", "JSON" },
                  { "", "JSON" } };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        rest(ADMIN, "POST", "/v2/trace/setting", wrong[i].body, 400, wrong[i].part);
    rest(ADMIN, "POST", "/v2/models/none/trace/setting", "{}", 404, "no such model");
}

static void test_log_settings(void **state)
{
    (void)state;
    rest(USER, "GET", "/v2/logging", NULL, 200,
         "{\"log_file\":\"\",\"log_info\":true,\"log_warning\":true,\"log_error\":true,\"log_verbose_level\":0,"
         "\"log_format\":\"default\"}");
    rest(USER, "POST", "/v2/logging", "{\"log_info\":false}", 403, "may not change");
    rest(ADMIN, "POST", "/v2/logging", "{\"log_info\":false,\"log_verbose_level\":1}", 200,
         "\"log_info\":false,\"log_warning\":true,\"log_error\":true,\"log_verbose_level\":1");
    /* An invalid setting changes nothing. */
    rest(ADMIN, "POST", "/v2/logging", "{\"log_error\":false,\"log_file\":\"/tmp/x\"}", 400, "cannot change");
    rest(ADMIN, "POST", "/v2/logging", "{\"log_error\":1}", 400, "truth value");
    rest(ADMIN, "POST", "/v2/logging", "{\"log\":true}", 400, "unknown log setting");
    rest(ADMIN, "POST", "/v2/logging", "{\"log_info\":true,\"log_verbose_level\":0}", 200, "\"log_error\":true");
    rest(ADMIN, "DELETE", "/v2/logging", NULL, 405, "not allowed for this path");
}

/* Log lines have the UTC time and a letter for their level, and milliseconds unless the format is ISO8601. */
static void test_log_format(void **state)
{
    static const char *const wrong[] = { "\"ISO\"", "\"\"", "true" };
    static const char form[] = "0000-00-00T00:00:00";
    char log[8192], body[128];
    const char *line;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)snprintf(body, sizeof body, "{\"log_format\":%s}", wrong[i]);
        rest(ADMIN, "POST", "/v2/logging", body, 400, "log_format must be ");
    }
    rest(ADMIN, "POST", "/v2/logging", "{\"log_format\":\"ISO8601\"}", 200, "\"log_format\":\"ISO8601\"");
    serving_file(&server, "models/broken.onnx", "no model", 0644); /* the broken file is found and reported */
    serving_await(&server, "Z E inlay-serve: ", log, sizeof log);
    line = strstr(log, "Z E inlay-serve: ") - strlen(form);
    assert_true(line >= log && (line == log || line[-1] == '\n'));
    for (size_t i = 0; i < strlen(form); i++)
        assert_true(form[i] == '0' ? line[i] >= '0' && line[i] <= '9' : line[i] == form[i]);
    rest(ADMIN, "POST", "/v2/logging", "{\"log_format\":\"default\"}", 200, "\"log_format\":\"default\"");
    assert_int_equal(unlink(serving_path(&server, "models/broken.onnx", body, sizeof body)), 0);
    serving_await(&server, "Z I inlay-serve: model 'broken': unloaded", log, sizeof log);
    line = strstr(log, "Z I inlay-serve: model 'broken': unloaded");
    assert_true(line[-4] == '.' && line[-7] == ':');
}

static void test_settings_over_grpc(void **state)
{
    static grpc_call call;
    Inference__TraceSettings TraceSettings = INFERENCE__TRACE_SETTINGS__INIT, *trace;
    Inference__TraceEntry entry = INFERENCE__TRACE_ENTRY__INIT, *entries = &entry;
    Inference__TraceValue value = INFERENCE__TRACE_VALUE__INIT;
    Inference__LogSettings LogSettings = INFERENCE__LOG_SETTINGS__INIT, *log;
    Inference__LogEntry log_entry = INFERENCE__LOG_ENTRY__INIT, *log_entries = &log_entry;
    Inference__LogValue log_value = INFERENCE__LOG_VALUE__INIT;
    char *texts[1] = { TEXT("7") };

    (void)state;
    entry.key = TEXT("trace_rate");
    entry.value = &value;
    value.value = texts;
    value.n_value = 1;
    TraceSettings.settings = &entries;
    TraceSettings.n_settings = 1;
    call = (grpc_call){ .token = USER };
    grpc_add(&call, &TraceSettings.base);
    grpc_expect(grpc_port, SERVICE "TraceSetting", &call, 7, "may not change");
    call = (grpc_call){ .token = ADMIN };
    grpc_add(&call, &TraceSettings.base);
    grpc_expect(grpc_port, SERVICE "TraceSetting", &call, 0, "");
    trace = grpc_message(&call, 0, &inference__trace_settings__descriptor);
    assert_true(trace != NULL && trace->n_settings == 6);
    assert_string_equal(trace->settings[1]->key, "trace_rate");
    assert_string_equal(trace->settings[1]->value->value[0], "7");
    protobuf_c_message_free_unpacked(&trace->base, NULL);
    log_entry.key = TEXT("log_warning");
    log_entry.value = &log_value;
    log_value.choice_case = INFERENCE__LOG_VALUE__CHOICE_BOOL_VALUE;
    log_value.bool_value = false;
    LogSettings.settings = &log_entries;
    LogSettings.n_settings = 1;
    for (int on = 0; on < 2; on++) {
        log_value.bool_value = on;
        call = (grpc_call){ .token = ADMIN };
        grpc_add(&call, &LogSettings.base);
        grpc_expect(grpc_port, SERVICE "LogSettings", &call, 0, "");
        log = grpc_message(&call, 0, &inference__log_settings__descriptor);
        assert_true(log != NULL && log->n_settings == 6);
        assert_string_equal(log->settings[2]->key, "log_warning");
        assert_int_equal(log->settings[2]->value->bool_value, on);
        protobuf_c_message_free_unpacked(&log->base, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_and_unload),      cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_abandoned_load),       cmocka_unit_test(test_trace),
        cmocka_unit_test(test_wrong_trace_settings), cmocka_unit_test(test_log_settings),
        cmocka_unit_test(test_log_format),           cmocka_unit_test(test_settings_over_grpc),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
