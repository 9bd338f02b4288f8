/* Configurations in Triton's form: ModelConfig over REST and gRPC, config.pbtxt, refusals by line; reflection;
 * Health/Watch. */
#include "grpc_client.h"
#include "inference.pb-c.h"
#include "model_config.pb-c.h"
#include "reflection.pb-c.h"
#include <signal.h>
#include <stdlib.h>
#include "cmocka_all.h"

static struct serving server;
static int grpc_port;

static const char batched[] = "# served as by Triton\n"
                              "name: \"batched\"\n"
                              "platform: \"onnxruntime_onnx\"\n"
                              "max_batch_size: 8\n"
                              "input [ { name: \"x\", data_type: TYPE_FP32, dims: [ 3 ] } ]\n"
                              "output { name: 'y' data_type: TYPE_FP32 dims: 3 }\n"
                              "instance_group [ { count: 1 kind: KIND_CPU }, { kind: KIND_AUTO } ]\n"
                              "dynamic_batching { max_queue_delay_microseconds: 100 preferred_batch_size: [ 4, 8 ]\n"
                              "  priority_levels: 3 default_priority_level: 1\n"
                              "  default_queue_policy { max_queue_size: 7 } }\n"
                              "version_policy: { specific { versions: [ 1, 3 ] } }\n"
                              "parameters [ { key: \"intra_\" \"threads\" value: { string_value: \"1\" } } ]\n";

static int start(void **state)
{
    static const char *const flags[] = { "--grpc-port",   "0", "--admin-token-file", "FOLDER/admins", "--token-file",
                                         "FOLDER/tokens", NULL };
    char path[256], name[64], log[4096];

    *state = &server;
    serving_prepare(&server);
    serving_tokens(&server);
    for (uint32_t version = 1; version <= 3; version++) {
        (void)snprintf(name, sizeof name, "models/batched/%u", version);
        serving_folder(&server, name);
        (void)snprintf(name, sizeof name, "models/batched/%u/model.onnx", version);
        write_doubling(serving_path(&server, name, path, sizeof path), version);
    }
    serving_file(&server, "models/batched/config.pbtxt", batched, 0644);
    serving_file(&server, "models/broken.onnx", "this is no model", 0644);
    serving_spawn(&server, flags);
    serving_await(&server, "not ready: ", log, sizeof log);
    server.port = (int)strtol(strstr(log, "http://127.0.0.1:") + strlen("http://127.0.0.1:"), NULL, 10);
    grpc_port = grpc_port_of(&server);
    return 0;
}

static void expect(const char *method, const char *path, int code, const char *part)
{
    client_expect(&server, method, path, AS_ADMIN, method[0] == 'P' ? "" : NULL, code, part);
}

/* A model's configuration, of the file or of the model, in both protocols. */
static void test_config(void **state)
{
    static grpc_call call;
    Inference__ModelName name = INFERENCE__MODEL_NAME__INIT;
    Inference__ModelConfigReply *reply;

    (void)state;
    expect("GET", "/v2/models/batched/config", 200, "\"max_batch_size\":8");
    expect("GET", "/v2/models/batched/versions/3/config", 200,
           "\"version_policy\":{\"specific\":{\"versions\":[1,3]}}");
    expect("GET", "/v2/models/batched/versions/2/config", 404, "no such model");
    expect("GET", "/v2/models/batched/config", 200,
           "\"input\":[{\"name\":\"x\",\"data_type\":\"TYPE_FP32\","
           "\"format\":\"FORMAT_NONE\",\"dims\":[3],\"optional\":false}]");
    expect("GET", "/v2/models/batched/config", 200, "\"parameters\":{\"intra_threads\":{\"string_value\":\"1\"}}");
    expect("GET", "/v2/models/twice/config", 200, "\"max_batch_size\":1,");
    expect("GET", "/v2/models/twice/config", 200, "\"version_policy\":{\"latest\":{\"num_versions\":1}}");
    expect("GET", "/v2/models/spin/config", 200, "\"max_batch_size\":0,");
    expect("GET", "/v2/models/spin/config", 200,
           "\"name\":\"x\",\"data_type\":\"TYPE_FP32\","
           "\"format\":\"FORMAT_NONE\",\"dims\":[4,4],\"optional\":false");
    call = (grpc_call){ .token = "Bearer " USER_TOKEN };
    name.name = (char *)(uintptr_t) "batched";
    grpc_add(&call, &name.base);
    grpc_expect(grpc_port, SERVICE "ModelConfig", &call, 0, "");
    reply = grpc_message(&call, 0, &inference__model_config_reply__descriptor);
    assert_true(reply != NULL && reply->config != NULL);
    assert_string_equal(reply->config->name, "batched");
    assert_int_equal(reply->config->max_batch_size, 8);
    assert_int_equal(reply->config->n_instance_group, 2);
    assert_int_equal(reply->config->scheduling_choice_case,
                     INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING);
    assert_int_equal(reply->config->dynamic_batching->max_queue_delay_microseconds, 100);
    assert_int_equal(reply->config->dynamic_batching->default_queue_policy->max_queue_size, 7);
    assert_string_equal(reply->config->output[0]->name, "y");
    protobuf_c_message_free_unpacked(&reply->base, NULL);
    call = (grpc_call){ .token = "Bearer " USER_TOKEN };
    name.name = (char *)(uintptr_t) "none";
    grpc_add(&call, &name.base);
    grpc_expect(grpc_port, SERVICE "ModelConfig", &call, 5, "no such model");
}

/* Versions and batching are as the file says. */
static void test_settings(void **state)
{
    (void)state;
    expect("GET", "/v2/models/batched", 200, "\"versions\":[\"1\",\"3\"]");
    client_expect(&server, "POST", "/v2/models/batched/infer", AS_USER,
                  "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,0,1]}]}", 200,
                  "[8.0,0.0,8.0]");
    serving_file(&server, "models/batched/config.pbtxt", "version_policy { latest { num_versions: 2 } }", 0644);
    expect("POST", "/v2/repository/models/batched/load", 200, "");
    expect("GET", "/v2/models/batched", 200, "\"versions\":[\"2\",\"3\"]");
    serving_file(&server, "models/batched/config.pbtxt", "version_policy { all {} }", 0644);
    expect("POST", "/v2/repository/models/batched/load", 200, "");
    expect("GET", "/v2/models/batched", 200, "\"versions\":[\"1\",\"2\",\"3\"]");
    expect("GET", "/v2/models/batched/config", 200, "\"version_policy\":{\"all\":{}}");
}

/* Settings that the server does not support, and malformed files, are errors with their line. */
static void test_refusals(void **state)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        { "max_batsh_size: 3",
          "config.pbtxt:1: max_batsh_size: no such field of ModelConfig is supported; did you mean "
          "'max_batch_size'?" },
        { "name: \"batched\"\nname: \"batched\"", "config.pbtxt:2: name is given twice" },
        { "\n\nname: \"other\"", "config.pbtxt:3: name: 'other' is not the name of the folder" },
        { "platform: \"tensorrt_plan\"", "config.pbtxt:1: platform: 'tensorrt_plan' is not supported" },
        { "# none\nbackend: \"python\"", "config.pbtxt:2: backend: 'python' is not supported" },
        { "max_batch_size: many", "config.pbtxt:1: max_batch_size: 'many' is not an integer" },
        { "max_batch_size: 99999999999", "config.pbtxt:1: max_batch_size: '99999999999' is not an integer" },
        { "max_batch_size: -1", "config.pbtxt:1: max_batch_size: must be from 0" },
        { "max_batch_size 8", "config.pbtxt:1: max_batch_size: expected ':'" },
        { "name: \"a", "config.pbtxt:1: name: the text has no closing quote" },
        { "name: a", "config.pbtxt:1: name: expected a text in quotes" },
        { "instance_group [ { kind: KIND_GPU } ]", "config.pbtxt:1: kind: instances have no separate device" },
        { "instance_group [\n { kind: KIND_CUP } ]", "config.pbtxt:2: kind: unknown value KIND_CUP; did you mean" },
        { "instance_group [\n { count: 1 ]", "config.pbtxt:2: expected the name of a field, not ']'" },
        { "instance_group [ { count: 1 }", "config.pbtxt:1: instance_group: expected ',' or ']'" },
        { "instance_group { count: 1", "config.pbtxt:1: expected '}', but the file ends" },
        { "dynamic_batching { preserve_ordering: true }", "config.pbtxt:1: preserve_ordering: replies are sent" },
        { "dynamic_batching {}\nsequence_batching {}", "config.pbtxt:2: sequence_batching: dynamic_batching is given" },
        { "max_batch_size: 4 dynamic_batching { preferred_batch_size: [ 4, 8 ] }",
          "config.pbtxt:1: preferred_batch_size: must be from 1 to max_batch_size" },
        { "optimization { graph { level: 1 } }", "config.pbtxt:1: optimization: no such field" },
        { "sequence_batching { state [ {} ] }", "config.pbtxt:1: state: no such field of ModelSequenceBatching" },
        { "version_policy {\n specific { versions: [ 0 ] } }", "config.pbtxt:2: versions: a version is a number" },
        { "model_transaction_policy { decoupled: true }", "config.pbtxt:1: decoupled: each request has exactly one" },
        { "model_transaction_policy { decoupled: maybe }", "config.pbtxt:1: decoupled: expected true or false" },
        { "response_cache { enable: true }", "config.pbtxt:1: enable: there is no cache" },
        { "default_model_filename: \"m.onnx\"", "config.pbtxt:1: default_model_filename: the file of a version" },
        { "parameters { key: \"plugin_dirs\" value { string_value: \"/tmp\" } }",
          "can only be set for the whole server" },
        { "parameters { key: \"none\" value { string_value: \"1\" } }", "unknown option 'none'" },
        { "input { name: \"z\" data_type: TYPE_FP32 dims: [ -1, 3 ] }", "config.pbtxt:1: name: the model has no 'z'" },
        { "input { name: \"x\" data_type: TYPE_INT8 dims: [ -1, 3 ] }", "data_type: 'x' is FP32 in the model" },
        { "input { name: \"x\" data_type: TYPE_FP32\n dims: [ -1, 4 ] }",
          "config.pbtxt:2: dims: 'x' has another shape" },
        { "input { name: \"x\" data_type: TYPE_FP32 dims: [ -2, 3 ] }", "dims: a size is from 1 on" },
        { "max_batch_size: 2 output { name: \"y\" data_type: TYPE_FP32 dims: [ -1, 3 ] }",
          "dims: 'y' has another shape in the model, whose first axis is not in dims" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        serving_file(&server, "models/batched/config.pbtxt", rows[i].text, 0644);
        expect("POST", "/v2/repository/models/batched/load", 400, rows[i].part);
    }
    serving_file(&server, "models/batched/config.pbtxt", "max_batch_size: 8", 0644);
    serving_file(&server, "models/batched/config.yaml", "max_batch: 8", 0644);
    expect("POST", "/v2/repository/models/batched/load", 400, "has both config.yaml and config.pbtxt");
    expect("GET", "/v2/models/batched", 200, "\"versions\":[\"1\",\"2\",\"3\"]"); /* the versions are still served */
}

static const Inference__ReflectionReply *reflect(const char *service, Inference__ReflectionRequest *request)
{
    static Inference__ReflectionReply *reply;
    static grpc_call call;
    char path[128];

    (void)snprintf(path, sizeof path, "/%s/ServerReflectionInfo", service);
    call = (grpc_call){ .token = "Bearer " USER_TOKEN };
    grpc_add(&call, &request->base);
    grpc_expect(grpc_port, path, &call, 0, "");
    inference__reflection_reply__free_unpacked(reply, NULL);
    reply = grpc_message(&call, 0, &inference__reflection_reply__descriptor);
    assert_non_null(reply);
    return reply;
}

/* Every service, and every file that its description needs. */
static void test_reflection(void **state)
{
    static const char *const versions[] = { "grpc.reflection.v1.ServerReflection",
                                            "grpc.reflection.v1alpha.ServerReflection" };
    static const struct {
        const char *symbol, *file;
    } rows[] = { { "inference.GRPCInferenceService", "service.proto" },
                 { "inference.GRPCInferenceService.ModelInfer", "service.proto" },
                 { "inference.InferRequest", "inference.proto" },
                 { "inference.DataType", "model_config.proto" },
                 { "inference.InferRequest.model_name", "inference.proto" },
                 { "inference.ModelVersionPolicy.Latest.num_versions", "model_config.proto" },
                 { "grpc.health.v1.Health", "health.proto" },
                 { "grpc.reflection.v1.ServerReflection", "reflection_v1.proto" } };

    (void)state;
    for (size_t v = 0; v < 2; v++) {
        Inference__ReflectionRequest request = INFERENCE__REFLECTION_REQUEST__INIT;
        const Inference__ReflectionReply *reply;
        uint32_t found = 0;

        request.message_request_case = INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES;
        request.list_services = (char *)(uintptr_t) "*";
        reply = reflect(versions[v], &request);
        assert_int_equal(reply->message_response_case,
                         INFERENCE__REFLECTION_REPLY__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE);
        assert_int_equal(reply->list_services_response->n_service, 4);
        for (size_t i = 0; i < 4; i++)
            for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
                found += strcmp(reply->list_services_response->service[i]->name, rows[k].symbol) == 0;
        assert_int_equal(found, 3); /* v1alpha is not in the table */
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            Inference__DescribedFile *file;

            request.message_request_case = INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL;
            request.file_containing_symbol = (char *)(uintptr_t)rows[k].symbol;
            reply = reflect(versions[v], &request);
            assert_int_equal(reply->message_response_case,
                             INFERENCE__REFLECTION_REPLY__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE);
            file =
                inference__described_file__unpack(NULL, reply->file_descriptor_response->file_descriptor_proto[0].len,
                                                  reply->file_descriptor_response->file_descriptor_proto[0].data);
            assert_non_null(file);
            assert_string_equal(file->name, rows[k].file);
            inference__described_file__free_unpacked(file, NULL);
            request.message_request_case = INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME;
            request.file_by_filename = (char *)(uintptr_t)rows[k].file;
            assert_int_equal(reflect(versions[v], &request)->message_response_case,
                             INFERENCE__REFLECTION_REPLY__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE);
        }
        request.file_by_filename = (char *)(uintptr_t) "none.proto";
        reply = reflect(versions[v], &request);
        assert_int_equal(reply->error_response->error_code, 5);
    }
}

/* Names of symbols of all kinds, and names that only begin like one. */
static void test_symbols(void **state)
{
    static const struct {
        const char *symbol;
        bool is_message, is_known;
    } rows[] = {
        { "inference.ModelVersionPolicy", true, true },
        { "inference.ModelVersionPolicy.Latest", true, true },
        { "inference.ModelVersionPolicy.Latest.num_versions", false, true },
        { "inference.ModelVersionPolicy.policy_choice", false, true },
        { "inference.ModelInput.Format", false, true },
        { "inference.ModelInput.FORMAT_NONE", false, true },
        { "inference.TYPE_BF16", false, true },
        { "inference.ModelInput.Format.FORMAT_NONE", false, false },
        { "inference.GRPCInferenceService.ModelInfer", false, true },
        { "grpc.health.v1.Health", false, true },
        { "inference.ModelVersionPolic", false, false },
        { "inference.ModelVersionPolicyX", false, false },
        { "inference.Latest", false, false },
        { "inference", false, false },
        { "inference.", false, false },
        { "", false, false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int types = 0; types < 2; types++) {
            Inference__ReflectionRequest request = INFERENCE__REFLECTION_REQUEST__INIT;
            const Inference__ReflectionReply *reply;

            request.message_request_case =
                types ? INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE
                      : INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL;
            request.file_containing_symbol = (char *)(uintptr_t)rows[i].symbol; /* both share a union */
            reply = reflect("grpc.reflection.v1.ServerReflection", &request);
            if ((reply->message_response_case != INFERENCE__REFLECTION_REPLY__MESSAGE_RESPONSE_ERROR_RESPONSE) !=
                (types ? rows[i].is_message : rows[i].is_known))
                fail_msg("%s, extensions %d", rows[i].symbol, types);
            if (types && rows[i].is_message)
                assert_string_equal(reply->all_extension_numbers_response->base_type_name, rows[i].symbol);
        }
}

/* As clients describe a symbol: one stream, with a request for each file that an earlier one imports. */
static void test_described_in_one_stream(void **state)
{
    static const char *const files[] = { "service.proto", "inference.proto", "model_config.proto" };
    static grpc_call call;
    Inference__ReflectionRequest request = INFERENCE__REFLECTION_REQUEST__INIT;

    (void)state;
    call = (grpc_call){ .token = "Bearer " USER_TOKEN };
    request.message_request_case = INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES;
    request.list_services = (char *)(uintptr_t) "*";
    grpc_add(&call, &request.base);
    request.message_request_case = INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL;
    request.file_containing_symbol = (char *)(uintptr_t) "inference.GRPCInferenceService";
    grpc_add(&call, &request.base);
    request.message_request_case = INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME;
    for (int i = 1; i < 3; i++) {
        request.file_by_filename = (char *)(uintptr_t)files[i];
        grpc_add(&call, &request.base);
    }
    grpc_expect(grpc_port, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", &call, 0, "");
    for (uint32_t i = 0; i < 4; i++) {
        Inference__ReflectionReply *reply = grpc_message(&call, i, &inference__reflection_reply__descriptor);
        Inference__DescribedFile *file;

        assert_non_null(reply);
        if (i == 0) {
            assert_int_equal(reply->list_services_response->n_service, 4);
        } else {
            file =
                inference__described_file__unpack(NULL, reply->file_descriptor_response->file_descriptor_proto[0].len,
                                                  reply->file_descriptor_response->file_descriptor_proto[0].data);
            assert_string_equal(file->name, files[i - 1]);
            inference__described_file__free_unpacked(file, NULL);
        }
        inference__reflection_reply__free_unpacked(reply, NULL);
    }
}

/* Each method that the description of the services has is one that the server knows. */
static void test_described_methods(void **state)
{
    Inference__ReflectionRequest request = INFERENCE__REFLECTION_REQUEST__INIT;
    const Inference__ReflectionReply *reply;
    Inference__DescribedFile *file;

    (void)state;
    request.message_request_case = INFERENCE__REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME;
    request.file_by_filename = (char *)(uintptr_t) "service.proto";
    reply = reflect("grpc.reflection.v1.ServerReflection", &request);
    file = inference__described_file__unpack(NULL, reply->file_descriptor_response->file_descriptor_proto[0].len,
                                             reply->file_descriptor_response->file_descriptor_proto[0].data);
    assert_true(file != NULL && file->n_service == 1 && file->service[0]->n_member == 18);
    for (size_t i = 0; i < file->service[0]->n_member; i++) {
        static grpc_call call;
        Inference__Empty empty = INFERENCE__EMPTY__INIT;
        char path[128];
        grpc_client client;

        (void)snprintf(path, sizeof path, SERVICE "%s", file->service[0]->member[i]->name);
        call = (grpc_call){ .path = path, .token = "Bearer " USER_TOKEN };
        grpc_add(&call, &empty.base);
        grpc_open(&client, grpc_port);
        grpc_submit(&client, &call);
        grpc_wait(&client, &call);
        grpc_close(&client);
        if (call.status < 0 || strstr(call.text, "unknown method") != NULL)
            fail_msg("%s: %d %s", path, call.status, call.text);
    }
    inference__described_file__free_unpacked(file, NULL);
}

static int status_at(const grpc_call *call, uint32_t index)
{
    Inference__HealthReply *reply = grpc_message(call, index, &inference__health_reply__descriptor);
    int status = reply != NULL ? reply->status : -1;

    inference__health_reply__free_unpacked(reply, NULL);
    return status;
}

/* The status at once, and each time that it changes, until the server ends. */
static void test_watch(void **state)
{
    static grpc_call call, cancelled;
    Inference__HealthRequest request = INFERENCE__HEALTH_REQUEST__INIT;
    grpc_client client, gone;
    char path[256];

    (void)state;
    call = cancelled = (grpc_call){ .path = "/grpc.health.v1.Health/Watch" };
    grpc_add(&call, &request.base);
    grpc_add(&cancelled, &request.base);
    grpc_open(&gone, grpc_port);
    grpc_submit(&gone, &cancelled);
    grpc_wait_messages(&gone, &cancelled, 1);
    grpc_close(&gone); /* a watcher that leaves */
    grpc_open(&client, grpc_port);
    grpc_submit(&client, &call);
    grpc_wait_messages(&client, &call, 1);
    assert_int_equal(status_at(&call, 0), 2); /* broken.onnx is not loaded */
    assert_int_equal(remove(serving_path(&server, "models/batched/config.yaml", path, sizeof path)), 0);
    write_doubling(serving_path(&server, "models/broken.onnx", path, sizeof path), 1);
    expect("POST", "/v2/repository/models/batched/load", 200, "");
    expect("POST", "/v2/repository/models/broken/load", 200, "");
    grpc_wait_messages(&client, &call, 2);
    assert_int_equal(status_at(&call, 1), 1);
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    grpc_wait(&client, &call);
    assert_int_equal(status_at(&call, 2), 2);
    assert_int_equal(call.status, 14);
    grpc_close(&client);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_reflection),
        cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_described_in_one_stream),
        cmocka_unit_test(test_described_methods),
        cmocka_unit_test(test_watch),
    };

    return cmocka_run_group_tests(tests, start, serving_tear_away);
}
