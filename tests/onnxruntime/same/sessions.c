/* Environments, sessions, information about them, and their options. */
#include "same.h"
#include <unistd.h>

static int logged_lines;

static void ORT_API_CALL count_log_line(void *user, OrtLoggingLevel severity, const char *category, const char *id,
                                        const char *location, const char *message)
{
    (void)severity, (void)category, (void)id, (void)location, (void)message;
    logged_lines += user == &logged_lines;
}

/* A process has one environment, which all calls return. */
void environments(void)
{
    OrtThreadingOptions *threads = NULL;
    OrtEnv *other = NULL;
    char **providers = NULL;
    int count = 0;

    CALL(CreateThreadingOptions, &threads);
    CALL(SetGlobalIntraOpNumThreads, threads, 2);
    CALL(SetGlobalInterOpNumThreads, threads, 1);
    CALL(SetGlobalSpinControl, threads, 0);
    CALL(SetGlobalDenormalAsZero, threads);
    CALL(CreateEnvWithGlobalThreadPools, ORT_LOGGING_LEVEL_FATAL, "same", threads, &env);
    USE(ReleaseThreadingOptions, threads);
    CALL(CreateEnv, ORT_LOGGING_LEVEL_FATAL, "other", &other);
    print_line("one environment: %d", other == env);
    USE(ReleaseEnv, other);
    CALL(CreateEnvWithCustomLogger, count_log_line, &logged_lines, ORT_LOGGING_LEVEL_FATAL, "other", &other);
    USE(ReleaseEnv, other);
    CALL(DisableTelemetryEvents, env);
    CALL(EnableTelemetryEvents, env);
    CALL(UpdateEnvWithCustomLogLevel, env, ORT_LOGGING_LEVEL_FATAL);
    CALL(SetLanguageProjection, env, ORT_PROJECTION_C);
    CALL(GetAllocatorWithDefaultOptions, &allocator);
    if (CALL(GetAvailableProviders, &providers, &count)) {
        print_line("the last is %s", providers[count - 1]);
        CALL(ReleaseAvailableProviders, providers, count);
    }
}

/* y = x + b, z = -y; x [n, 2], b a default that may be overridden; with metadata. */
static const onnx_bytes *model(void)
{
    static const int64_t rows[] = { -1, 2 }, two[] = { 2 };
    static const float ones[] = { 1, 1 };
    static onnx_bytes graph, file, entry;

    if (file.count > 0)
        return &file;
    onnx_node(&graph, "Add", "", "x,b", "y");
    onnx_node(&graph, "Neg", "", "y", "z");
    onnx_input(&graph, "x", INLAY_FLOAT, 2, rows);
    onnx_input(&graph, "b", INLAY_FLOAT, 1, two);
    onnx_constant(&graph, "b", INLAY_FLOAT, 1, two, ones, sizeof ones);
    onnx_output(&graph, "y", INLAY_FLOAT, 2, rows);
    onnx_output(&graph, "z", INLAY_FLOAT, 2, rows);
    if (onnx_file(&file, &graph, 17, NULL) != 0)
        exit(1);
    onnx_text(&file, 2, "a maker");
    onnx_text(&file, 4, "com.example");
    onnx_number(&file, 5, 42);
    onnx_text(&file, 6, "adds");
    onnx_text(&entry, 1, "author");
    onnx_text(&entry, 2, "an author");
    onnx_message(&file, 14, &entry);
    return &file;
}

static void print_text(char *text)
{
    print_line("'%s'", text != NULL ? text : "(none)");
    if (text != NULL)
        CALL(AllocatorFree, allocator, text);
}

static void names_and_types(OrtSession *session)
{
    OrtTypeInfo *type = NULL;
    char *text = NULL;
    size_t size = 0;

    if (CALL(SessionGetInputCount, session, &size))
        print_line("%zu", size);
    if (CALL(SessionGetOutputCount, session, &size))
        print_line("%zu", size);
    if (CALL(SessionGetOverridableInitializerCount, session, &size))
        print_line("%zu", size);
    if (CALL(SessionGetInputName, session, 0, allocator, &text))
        print_text(text);
    if (CALL(SessionGetOutputName, session, 1, allocator, &text))
        print_text(text);
    if (CALL(SessionGetOverridableInitializerName, session, 0, allocator, &text))
        print_text(text);
    CALL(SessionGetInputName, session, 7, allocator, &text);
    if (CALL(SessionGetInputTypeInfo, session, 0, &type))
        print_type(type);
    USE(ReleaseTypeInfo, type);
    if (CALL(SessionGetOutputTypeInfo, session, 1, &type))
        print_type(type);
    USE(ReleaseTypeInfo, type);
    if (CALL(SessionGetOverridableInitializerTypeInfo, session, 0, &type))
        print_type(type);
    USE(ReleaseTypeInfo, type);
}

static void metadata(OrtSession *session)
{
    OrtModelMetadata *model_metadata = NULL;
    int64_t version = 0, count = 0;
    char *text = NULL, **keys = NULL;

    if (!CALL(SessionGetModelMetadata, session, &model_metadata))
        return;
    if (CALL(ModelMetadataGetProducerName, model_metadata, allocator, &text))
        print_text(text);
    if (CALL(ModelMetadataGetGraphName, model_metadata, allocator, &text))
        print_text(text);
    if (CALL(ModelMetadataGetDomain, model_metadata, allocator, &text))
        print_text(text);
    if (CALL(ModelMetadataGetDescription, model_metadata, allocator, &text))
        print_text(text);
    if (CALL(ModelMetadataGetGraphDescription, model_metadata, allocator, &text))
        print_text(text);
    if (CALL(ModelMetadataLookupCustomMetadataMap, model_metadata, allocator, "author", &text))
        print_text(text);
    if (CALL(ModelMetadataLookupCustomMetadataMap, model_metadata, allocator, "missing", &text))
        print_text(text);
    if (CALL(ModelMetadataGetVersion, model_metadata, &version))
        print_line("%lld", (long long)version);
    if (CALL(ModelMetadataGetCustomMetadataMapKeys, model_metadata, allocator, &keys, &count)) {
        for (int64_t i = 0; i < count; i++)
            print_text(keys[i]);
        if (count > 0)
            CALL(AllocatorFree, allocator, keys);
    }
    USE(ReleaseModelMetadata, model_metadata);
}

static OrtSessionOptions *many_options(void)
{
    OrtSessionOptions *session_options = NULL, *copy = NULL;
    char text[32] = "";
    size_t size = sizeof text;
    int yes = -1;

    CALL(CreateSessionOptions, &session_options);
    CALL(SetIntraOpNumThreads, session_options, 2);
    CALL(SetInterOpNumThreads, session_options, 1);
    CALL(SetSessionGraphOptimizationLevel, session_options, ORT_ENABLE_BASIC);
    CALL(SetSessionGraphOptimizationLevel, session_options, (GraphOptimizationLevel)57);
    CALL(SetSessionExecutionMode, session_options, ORT_SEQUENTIAL);
    CALL(DisableMemPattern, session_options);
    CALL(EnableMemPattern, session_options);
    CALL(DisableCpuMemArena, session_options);
    CALL(EnableCpuMemArena, session_options);
    CALL(SetSessionLogId, session_options, "mine");
    CALL(SetSessionLogSeverityLevel, session_options, 4);
    CALL(SetSessionLogVerbosityLevel, session_options, 0);
    CALL(SetDeterministicCompute, session_options, true);
    CALL(SetUserLoggingFunction, session_options, count_log_line, &logged_lines);
    CALL(AddFreeDimensionOverride, session_options, "DATA_BATCH", 1);
    CALL(AddFreeDimensionOverrideByName, session_options, "m", 2);
    CALL(AddSessionConfigEntry, session_options, "session.disable_prepacking", "1");
    if (CALL(HasSessionConfigEntry, session_options, "session.disable_prepacking", &yes))
        print_line("%d", yes);
    if (CALL(HasSessionConfigEntry, session_options, "missing", &yes))
        print_line("%d", yes);
    if (CALL(GetSessionConfigEntry, session_options, "session.disable_prepacking", text, &size))
        print_line("'%s' in %zu bytes", text, size);
    CALL(GetSessionConfigEntry, session_options, "missing", text, &size);
    CALL(CloneSessionOptions, session_options, &copy);
    USE(ReleaseSessionOptions, session_options);
    return copy;
}

static void files(const onnx_bytes *file)
{
    char path[] = "/tmp/same_XXXXXX", optimised[64], prefix[64], *profile = NULL;
    OrtSessionOptions *session_options = NULL;
    OrtSession *session = NULL;
    uint64_t start = 0;
    int fd = mkstemp(path);

    if (fd < 0 || write(fd, file->data, file->count) != (ssize_t)file->count)
        exit(1);
    (void)close(fd);
    (void)snprintf(optimised, sizeof optimised, "%s.optimised", path);
    (void)snprintf(prefix, sizeof prefix, "%s.profile", path);
    CALL(CreateSessionOptions, &session_options);
    CALL(SetOptimizedModelFilePath, session_options, optimised);
    CALL(EnableProfiling, session_options, prefix);
    if (CALL(CreateSession, env, path, session_options, &session)) {
        if (CALL(SessionGetProfilingStartTimeNs, session, &start))
            print_line("has a start time: %d", start > 0);
        if (CALL(SessionEndProfiling, session, allocator, &profile)) {
            print_line("begins with the prefix: %d", strncmp(profile, prefix, strlen(prefix)) == 0);
            print_line("exists: %d", access(profile, R_OK) == 0);
            (void)unlink(profile);
            CALL(AllocatorFree, allocator, profile);
        }
        USE(ReleaseSession, session);
    }
    CALL(DisableProfiling, session_options);
    USE(ReleaseSessionOptions, session_options);
    print_line("the optimised model exists: %d", access(optimised, R_OK) == 0);
    if (CALL(CreateSession, env, optimised, NULL, &session)) {
        names_and_types(session);
        USE(ReleaseSession, session);
    }
    (void)unlink(optimised);
    (void)unlink(path);
}

void sessions(void)
{
    OrtPrepackedWeightsContainer *weights = NULL;
    OrtSessionOptions *session_options = many_options();
    OrtSession *session = open_bytes(model(), session_options);
    OrtAllocator *of_session = NULL;

    if (session != NULL) {
        names_and_types(session);
        metadata(session);
        if (CALL(CreateAllocator, session, cpu(), &of_session)) {
            void *elements = NULL;

            if (CALL(AllocatorAlloc, of_session, 64, &elements))
                CALL(AllocatorFree, of_session, elements);
            USE(ReleaseAllocator, of_session);
        }
        USE(ReleaseSession, session);
    }
    CALL(CreatePrepackedWeightsContainer, &weights);
    if (CALL(CreateSessionFromArrayWithPrepackedWeightsContainer, env, model()->data, model()->count, session_options,
             weights, &session))
        USE(ReleaseSession, session);
    USE(ReleasePrepackedWeightsContainer, weights);
    CALL(DisablePerSessionThreads, session_options);
    if (CALL(CreateSessionFromArray, env, model()->data, model()->count, session_options, &session))
        USE(ReleaseSession, session);
    USE(ReleaseSessionOptions, session_options);
    files(model());
}

static OrtValue *input(float *data)
{
    static const int64_t dims[] = { 2, 2 };

    return over(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, data, 4 * sizeof *data, 2, dims);
}

static OrtRunOptions *run_options(void)
{
    OrtRunOptions *result = NULL;
    const char *tag = NULL;
    int level = -1;

    CALL(CreateRunOptions, &result);
    CALL(RunOptionsSetRunTag, result, "tag");
    if (CALL(RunOptionsGetRunTag, result, &tag))
        print_line("%s", tag);
    CALL(RunOptionsSetRunLogSeverityLevel, result, 3);
    if (CALL(RunOptionsGetRunLogSeverityLevel, result, &level))
        print_line("%d", level);
    CALL(RunOptionsSetRunLogVerbosityLevel, result, 1);
    if (CALL(RunOptionsGetRunLogVerbosityLevel, result, &level))
        print_line("%d", level);
    CALL(AddRunConfigEntry, result, "memory.enable_memory_arena_shrinkage", "");
    return result;
}

static volatile int arrived;

static void ORT_API_CALL arrive(void *user, OrtValue **outputs, size_t count, OrtStatusPtr status)
{
    arrived = status == NULL && count == 1 && outputs[0] != NULL && user == &env ? 1 : 2;
    api->ReleaseStatus(status);
}

void runs(void)
{
    static const int64_t two[] = { 2 }, wide[] = { 2, 3 };
    const char *x_name = "x", *y_name = "y", *bad = "nope", *in_names[] = { "b", "x" }, *out_names[] = { "z", "y" };
    float x[6] = { 1, 2, 3, 4, 5, 6 }, bias[2] = { 10, 20 };
    OrtSessionOptions *session_options = NULL;
    OrtSession *session;
    OrtValue *in = input(x), *y = NULL, *made[2] = { NULL, NULL };
    OrtValue *extra = over(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, bias, sizeof bias, 1, two);
    OrtValue *wrong = over(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, x, sizeof x, 2, wide);
    const OrtValue *fed = in, *both[] = { extra, in }, *misfit = wrong;
    OrtRunOptions *options = run_options();

    CALL(CreateSessionOptions, &session_options);
    CALL(SetIntraOpNumThreads, session_options, 2);
    session = open_bytes(model(), session_options);
    if (CALL(Run, session, options, &x_name, &fed, 1, &y_name, 1, &y)) {
        print_floats(y);
        USE(ReleaseValue, y);
        y = NULL;
    }
    if (CALL(Run, session, NULL, in_names, both, 2, out_names, 2, made)) {
        print_floats(made[0]);
        print_floats(made[1]);
    }
    CALL(RunOptionsSetTerminate, options);
    CALL(Run, session, options, &x_name, &fed, 1, &y_name, 1, &y);
    CALL(RunOptionsUnsetTerminate, options);
    CALL(Run, session, NULL, &bad, &fed, 1, &y_name, 1, &y);
    CALL(Run, session, NULL, &x_name, &fed, 1, &bad, 1, &y);
    CALL(Run, session, NULL, NULL, NULL, 0, &y_name, 1, &y);
    CALL(Run, session, NULL, &x_name, &fed, 1, &y_name, 0, &y);
    CALL(Run, session, NULL, &x_name, &misfit, 1, &y_name, 1, &y);
    if (CALL(RunAsync, session, NULL, &x_name, &fed, 1, &y_name, 1, &y, arrive, &env)) {
        while (arrived == 0)
            (void)usleep(1000);
        print_line("arrived: %d", arrived);
        print_floats(y);
        USE(ReleaseValue, y);
    }
    USE(ReleaseValue, made[0]);
    USE(ReleaseValue, made[1]);
    USE(ReleaseRunOptions, options);
    USE(ReleaseValue, in);
    USE(ReleaseValue, extra);
    USE(ReleaseValue, wrong);
    USE(ReleaseSession, session);
    USE(ReleaseSessionOptions, session_options);
}

void bindings(void)
{
    float x[4] = { 1, 2, 3, 4 }, z[4] = { 0 };
    OrtSession *session = open_bytes(model(), NULL);
    OrtValue *in = input(x), *out = input(z), **values = NULL;
    OrtIoBinding *binding = NULL;
    size_t size = 0, *lengths = NULL;
    char *names = NULL;

    CALL(CreateIoBinding, session, &binding);
    CALL(BindInput, binding, "x", in);
    CALL(BindOutput, binding, "z", out);
    CALL(BindOutputToDevice, binding, "y", cpu());
    CALL(SynchronizeBoundInputs, binding);
    CALL(RunWithBinding, session, NULL, binding);
    CALL(SynchronizeBoundOutputs, binding);
    print_line("%g %g %g %g", z[0], z[1], z[2], z[3]);
    if (CALL(GetBoundOutputNames, binding, allocator, &names, &lengths, &size)) {
        print_line("%zu names: %.*s", size, (int)(lengths[0] + lengths[1]), names);
        CALL(AllocatorFree, allocator, names);
        CALL(AllocatorFree, allocator, lengths);
    }
    if (CALL(GetBoundOutputValues, binding, allocator, &values, &size)) {
        for (size_t i = 0; i < size; i++) {
            print_floats(values[i]);
            USE(ReleaseValue, values[i]);
        }
        CALL(AllocatorFree, allocator, values);
    }
    USE(ClearBoundInputs, binding);
    USE(ClearBoundOutputs, binding);
    USE(ReleaseIoBinding, binding);
    USE(ReleaseValue, in);
    USE(ReleaseValue, out);
    USE(ReleaseSession, session);
}

/* Files that are not models, and unsupported devices. */
void failures(void)
{
    OrtSession *session = NULL;
    OrtSessionOptions *session_options = NULL;
    const char *key = "key", *value = "value";

    CALL(CreateSession, env, "/nowhere/model.onnx", NULL, &session);
    CALL(CreateSessionFromArray, env, "not a model at all", 18, NULL, &session);
    CALL(CreateSessionOptions, &session_options);
    CALL(RegisterCustomOpsLibrary_V2, session_options, "/nowhere/ops.so");
    CALL(RegisterCustomOpsUsingFunction, session_options, "NoSuchFunction");
    CALL(SessionOptionsAppendExecutionProvider, session_options, "SNPE", &key, &value, 1);
    USE(ReleaseSessionOptions, session_options);
    called("CreateStatus", USE(CreateStatus, ORT_EP_FAIL, "why"));
}
