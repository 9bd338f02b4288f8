/* Sessions through the table: names, metadata, options, logs, profiles and environments, with errors as in ONNX
 * Runtime. */
#include "ort_add.h"
#include <stdbool.h>
#include <unistd.h>

static void test_names_and_types(void **state)
{
    const OrtTensorTypeAndShapeInfo *info;
    const char *symbols[2];
    OrtTypeInfo *type;
    int64_t dims[2];
    OrtSession *session = open_add(NULL);
    char *name;
    size_t count;
    int kind;

    (void)state;
    ok(api->SessionGetInputCount(session, &count));
    assert_int_equal(count, 1);
    ok(api->SessionGetOutputCount(session, &count));
    assert_int_equal(count, 2);
    ok(api->SessionGetOverridableInitializerCount(session, &count));
    assert_int_equal(count, 1);
    ok(api->SessionGetInputName(session, 0, allocator, &name));
    assert_string_equal(name, "x");
    ok(api->AllocatorFree(allocator, name));
    ok(api->SessionGetOutputName(session, 1, allocator, &name));
    assert_string_equal(name, "z");
    ok(api->AllocatorFree(allocator, name));
    ok(api->SessionGetOverridableInitializerName(session, 0, allocator, &name));
    assert_string_equal(name, "b");
    ok(api->AllocatorFree(allocator, name));
    fails(api->SessionGetInputName(session, 1, allocator, &name), ORT_FAIL, "index out of range");
    ok(api->SessionGetInputTypeInfo(session, 0, &type));
    ok(api->GetOnnxTypeFromTypeInfo(type, &kind));
    assert_int_equal(kind, ONNX_TYPE_TENSOR);
    ok(api->CastTypeInfoToTensorInfo(type, &info));
    ok(api->GetDimensions(info, dims, 2));
    ok(api->GetSymbolicDimensions(info, symbols, 2));
    assert_true(dims[0] == -1 && dims[1] == 2);
    assert_string_equal(symbols[0], "N");
    assert_string_equal(symbols[1], "");
    api->ReleaseTypeInfo(type);
    ok(api->SessionGetOutputTypeInfo(session, 0, &type));
    api->ReleaseTypeInfo(type);
    ok(api->SessionGetOverridableInitializerTypeInfo(session, 0, &type));
    api->ReleaseTypeInfo(type);
    api->ReleaseSession(session);
}

static void expect_text(char *text, const char *want)
{
    assert_string_equal(text, want);
    ok(api->AllocatorFree(allocator, text));
}

static void test_metadata(void **state)
{
    OrtSession *session = open_add(NULL);
    OrtModelMetadata *metadata;
    int64_t version, count;
    char *text = NULL, **keys;

    (void)state;
    ok(api->SessionGetModelMetadata(session, &metadata));
    api->ReleaseSession(session); /* the metadata outlives the session */
    ok(api->ModelMetadataGetProducerName(metadata, allocator, &text));
    expect_text(text, "a maker");
    ok(api->ModelMetadataGetGraphName(metadata, allocator, &text));
    expect_text(text, "g");
    ok(api->ModelMetadataGetDomain(metadata, allocator, &text));
    expect_text(text, "com.example");
    ok(api->ModelMetadataGetDescription(metadata, allocator, &text));
    expect_text(text, "adds");
    ok(api->ModelMetadataGetGraphDescription(metadata, allocator, &text));
    expect_text(text, "adds b to rows");
    ok(api->ModelMetadataLookupCustomMetadataMap(metadata, allocator, "author", &text));
    expect_text(text, "an author");
    ok(api->ModelMetadataLookupCustomMetadataMap(metadata, allocator, "missing", &text));
    assert_null(text);
    ok(api->ModelMetadataGetVersion(metadata, &version));
    assert_int_equal(version, 42);
    ok(api->ModelMetadataGetCustomMetadataMapKeys(metadata, allocator, &keys, &count));
    assert_int_equal(count, 2);
    for (int64_t i = 0; i < count; i++)
        ok(api->AllocatorFree(allocator, keys[i]));
    ok(api->AllocatorFree(allocator, keys));
    api->ReleaseModelMetadata(metadata);
}

static void test_models_that_cannot_be_opened(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    OrtSession *session = NULL;

    (void)state;
    fails(api->CreateSession(env, "/nowhere/model.onnx", NULL, &session), ORT_NO_SUCHFILE,
          "Load model from /nowhere/model.onnx failed:Load model /nowhere/model.onnx failed. File doesn't exist");
    fails(api->CreateSessionFromArray(env, "not a model at all", 18, NULL, &session), ORT_INVALID_PROTOBUF,
          "protobuf parsing failed");
    assert_null(session);
    mw_value(&wire, MW_INPUT, "x", FLOAT, "2");
    mw_node(&wire, "Relu", "nothing", "y");
    mw_value(&wire, MW_OUTPUT, "y", FLOAT, "2");
    wire_end(&wire, mark);
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, NULL, &session),
          ours() ? ORT_INVALID_GRAPH : ORT_INVALID_ARGUMENT, "");
    assert_null(session);
    free(wire.bytes);
}

static void test_session_options(void **state)
{
    OrtSessionOptions *options, *copy;
    OrtKeyValuePairs *entries;
    char text[32];
    size_t size = sizeof text;
    OrtSession *session;
    int value;

    (void)state;
    ok(api->CreateSessionOptions(&options));
    ok(api->SetIntraOpNumThreads(options, 1));
    ok(api->SetInterOpNumThreads(options, 1));
    ok(api->SetSessionGraphOptimizationLevel(options, 1));
    fails(api->SetSessionGraphOptimizationLevel(options, 57), ORT_INVALID_ARGUMENT,
          "graph_optimization_level is not valid");
    ok(api->SetSessionExecutionMode(options, 1));
    ok(api->GetSessionExecutionMode(options, &value));
    assert_int_equal(value, 1);
    ok(api->DisableMemPattern(options));
    ok(api->GetMemPatternEnabled(options, &value));
    assert_int_equal(value, 0);
    ok(api->EnableMemPattern(options));
    ok(api->DisableCpuMemArena(options));
    ok(api->EnableCpuMemArena(options));
    ok(api->SetSessionLogId(options, "mine"));
    ok(api->SetSessionLogSeverityLevel(options, 3));
    ok(api->SetSessionLogVerbosityLevel(options, 0));
    ok(api->SetDeterministicCompute(options, true));
    ok(api->AddFreeDimensionOverrideByName(options, "N", 2));
    ok(api->AddFreeDimensionOverrideByName(options, "none", 3)); /* a dimension that this model does not have */
    ok(api->AddSessionConfigEntry(options, "session.disable_prepacking", "1"));
    ok(api->HasSessionConfigEntry(options, "session.disable_prepacking", &value));
    assert_int_equal(value, 1);
    ok(api->GetSessionConfigEntry(options, "session.disable_prepacking", text, &size));
    assert_string_equal(text, "1");
    assert_int_equal(size, 2);
    fails(api->GetSessionConfigEntry(options, "missing", text, &size), ORT_INVALID_ARGUMENT, "was not found");
    ok(api->GetSessionOptionsConfigEntries(options, &entries));
    assert_string_equal(api->GetKeyValue(entries, "session.disable_prepacking"), "1");
    api->ReleaseKeyValuePairs(entries);
    ok(api->CloneSessionOptions(options, &copy));
    api->ReleaseSessionOptions(options);
    session = open_add(copy);
    check_sum(session, 2);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(copy);
}

/* Config entries with the names of inlay's options set these options; invalid values give inlay's messages. */
static void test_options_of_inlay(void **state)
{
    char name[600] = "";
    const char *key = name;
    OrtSession *session = NULL;
    OrtSessionOptions *options, *wrong;
    struct wire wire = { 0 };

    (void)state;
    if (!ours())
        return;
    write_add(&wire);
    ok(api->CreateSessionOptions(&options));
    ok(api->CreateSessionOptions(&wrong));
    ok(api->AddSessionConfigEntry(wrong, "inlay.precison", "strict"));
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, wrong, &session), ORT_INVALID_ARGUMENT,
          "the session config entry inlay.precison: unknown option 'precison'; did you mean 'precision'?");
    api->ReleaseSessionOptions(wrong);
    ok(api->AddSessionConfigEntry(options, "inlay.policy", "nonsense"));
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_INVALID_ARGUMENT, "policy");
    ok(api->AddSessionConfigEntry(options, "inlay.policy", "priority"));
    (void)setenv("INLAY_INTRA_THREADS", "many", 1); /* environment variables are read, too */
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_INVALID_ARGUMENT,
          "INLAY_INTRA_THREADS");
    (void)unsetenv("INLAY_INTRA_THREADS");
    ok(api->SessionOptionsAppendExecutionProvider(options, "reference", NULL, NULL, 0));
    ok(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session));
    check_sum(session, 2);
    api->ReleaseSession(session);
    fails(api->SessionOptionsAppendExecutionProvider(options, "XNNPACK", NULL, NULL, 0), ORT_INVALID_ARGUMENT,
          "Unknown provider name");
    ok(api->SessionOptionsAppendExecutionProvider(options, "no_such_provider", NULL, NULL, 0));
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_INVALID_ARGUMENT,
          "no_such_provider");
    api->ReleaseSessionOptions(options);
    memset(name, 'n', sizeof name - 1); /* names are used whole, or refused */
    ok(api->CreateSessionOptions(&options));
    fails(api->SessionOptionsAppendExecutionProvider(options, "reference", &key, &key, 1), ORT_INVALID_ARGUMENT,
          "fewer than");
    ok(api->AddFreeDimensionOverrideByName(options, name, 2));
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_INVALID_ARGUMENT,
          "rename the dimension");
    api->ReleaseSessionOptions(options);
    free(wire.bytes);
}

static void test_creation_is_cancelled(void **state)
{
    OrtSession *session = NULL;
    OrtSessionOptions *options;
    struct wire wire = { 0 };

    (void)state;
    write_add(&wire);
    ok(api->CreateSessionOptions(&options));
    ok(api->SessionOptionsSetLoadCancellationFlag(options, true));
    fails(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session), ORT_MODEL_LOAD_CANCELED, "");
    ok(api->SessionOptionsSetLoadCancellationFlag(options, false));
    ok(api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session));
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    free(wire.bytes);
}

static int logged_lines;
static void count_log_line(void *param, OrtLoggingLevel severity, const char *category, const char *logid,
                           const char *location, const char *message)
{
    (void)severity, (void)category, (void)location, (void)message;
    assert_ptr_equal(param, &logged_lines);
    assert_string_equal(logid, "heard");
    logged_lines++;
}

static void test_log_of_a_session(void **state)
{
    OrtSessionOptions *options;
    OrtSession *session;

    (void)state;
    logged_lines = 0;
    ok(api->CreateSessionOptions(&options));
    ok(api->SetSessionLogId(options, "heard"));
    ok(api->SetSessionLogSeverityLevel(options, ORT_LOGGING_LEVEL_VERBOSE));
    ok(api->SetUserLoggingFunction(options, count_log_line, &logged_lines));
    ok(api->AddSessionConfigEntry(options, "some.unknown.entry", "1"));
    session = open_add(options);
    assert_true(logged_lines > 0);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
}

static bool is_trace(const char *path)
{
    char text[4096];
    FILE *file = fopen(path, "r");
    size_t length;

    if (file == NULL)
        return false;
    length = fread(text, 1, sizeof text - 1, file);
    text[length] = '\0';
    (void)fclose(file);
    (void)unlink(path);
    return strstr(text, "\"ph\"") != NULL;
}

static void test_profile(void **state)
{
    char prefix[] = "/tmp/ort_profile_XXXXXX", *path;
    OrtSessionOptions *options;
    OrtSession *session;
    uint64_t start;
    int fd = mkstemp(prefix);

    (void)state;
    (void)close(fd);
    ok(api->CreateSessionOptions(&options));
    ok(api->EnableProfiling(options, prefix));
    session = open_add(options);
    ok(api->SessionGetProfilingStartTimeNs(session, &start));
    assert_true(start > 0);
    check_sum(session, 2);
    ok(api->SessionEndProfiling(session, allocator, &path));
    assert_memory_equal(path, prefix, strlen(prefix));
    assert_true(is_trace(path));
    ok(api->AllocatorFree(allocator, path));
    check_sum(session, 2);
    api->ReleaseSession(session);
    ok(api->DisableProfiling(options));
    session = open_add(options);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    (void)unlink(prefix);
}

static void test_model_from_a_file_and_optimised(void **state)
{
    char path[] = "/tmp/ort_model_XXXXXX", optimised[64];
    OrtSessionOptions *options;
    OrtSession *session = NULL;
    struct wire wire = { 0 };
    int fd = mkstemp(path);

    (void)state;
    write_add(&wire);
    assert_int_equal(write(fd, wire.bytes, wire.count), wire.count);
    (void)close(fd);
    (void)snprintf(optimised, sizeof optimised, "%s.optimised", path);
    ok(api->CreateSessionOptions(&options));
    ok(api->SetOptimizedModelFilePath(options, optimised));
    ok(api->CreateSession(env, path, options, &session));
    check_sum(session, 2);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    ok(api->CreateSession(env, optimised, NULL, &session));
    check_sum(session, 2);
    api->ReleaseSession(session);
    (void)unlink(optimised);

    /* a model in memory; an empty path writes nothing */
    ok(api->CreateSessionOptions(&options));
    ok(api->SetOptimizedModelFilePath(options, ""));
    api->ReleaseSession(session_of(&wire, options));
    ok(api->SetOptimizedModelFilePath(options, optimised));
    api->ReleaseSession(session_of(&wire, options));
    api->ReleaseSessionOptions(options);
    ok(api->CreateSession(env, optimised, NULL, &session));
    check_sum(session, 2);
    api->ReleaseSession(session);
    (void)unlink(optimised);
    for (int i = 0; ours() && i < 2; i++) { /* inlay does not write ONNX Runtime's own format */
        (void)snprintf(optimised, sizeof optimised, "%s.%s", path, i == 0 ? "ort" : "onnx");
        ok(api->CreateSessionOptions(&options));
        ok(api->SetOptimizedModelFilePath(options, optimised));
        if (i == 1)
            ok(api->AddSessionConfigEntry(options, "session.save_model_format", "ORT"));
        fails(api->CreateSession(env, path, options, &session), ORT_NOT_IMPLEMENTED, "ORT format");
        assert_int_not_equal(access(optimised, F_OK), 0);
        api->ReleaseSessionOptions(options);
    }
    (void)unlink(path);
    free(wire.bytes);
}

static void test_environments(void **state)
{
    OrtThreadingOptions *threads;
    OrtEnv *other;
    OrtSession *session;

    (void)state;
    ok(api->CreateThreadingOptions(&threads));
    ok(api->SetGlobalIntraOpNumThreads(threads, 1));
    ok(api->SetGlobalInterOpNumThreads(threads, 1));
    ok(api->SetGlobalSpinControl(threads, 0));
    if (ours()) { /* a process has one environment, and that of ONNX Runtime has no thread pool yet */
        ok(api->CreateEnvWithGlobalThreadPools(ORT_LOGGING_LEVEL_FATAL, "other", threads, &other));
        session = open_add(NULL);
        check_sum(session, 1);
        api->ReleaseSession(session);
        api->ReleaseEnv(other);
    }
    api->ReleaseThreadingOptions(threads);
    if (ours())
        fails(api->CreateEnv(17, "x", &other), ORT_INVALID_ARGUMENT, "logging level 17");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_types),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_models_that_cannot_be_opened),
        cmocka_unit_test(test_session_options),
        cmocka_unit_test(test_options_of_inlay),
        cmocka_unit_test(test_creation_is_cancelled),
        cmocka_unit_test(test_log_of_a_session),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_model_from_a_file_and_optimised),
        cmocka_unit_test(test_environments),
    };

    return cmocka_run_group_tests(tests, ort_test_begin, ort_test_end);
}
