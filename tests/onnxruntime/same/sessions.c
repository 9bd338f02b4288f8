/* Environments, sessions, what they tell, and their options. */
#include "same.h"
#include <unistd.h>

static int heard;

static void ORT_API_CALL hear(void *user, OrtLoggingLevel severity, const char *category, const char *id,
                              const char *location, const char *message)
{
    (void)severity, (void)category, (void)id, (void)location, (void)message;
    heard += user == &heard;
}

/* A process has one environment: all further ones are the same. */
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
    tell("one environment: %d", other == env);
    USE(ReleaseEnv, other);
    CALL(CreateEnvWithCustomLogger, hear, &heard, ORT_LOGGING_LEVEL_FATAL, "other", &other);
    USE(ReleaseEnv, other);
    CALL(DisableTelemetryEvents, env);
    CALL(EnableTelemetryEvents, env);
    CALL(UpdateEnvWithCustomLogLevel, env, ORT_LOGGING_LEVEL_FATAL);
    CALL(SetLanguageProjection, env, ORT_PROJECTION_C);
    CALL(GetAllocatorWithDefaultOptions, &allocator);
    if (CALL(GetAvailableProviders, &providers, &count)) {
        tell("the last is %s", providers[count - 1]);
        CALL(ReleaseAvailableProviders, providers, count);
    }
}

/* y = x + b, z = -y; x [n, 2], b a default that may be overridden; with texts about itself. */
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
    onnx_text(&entry, 2, "nobody");
    onnx_message(&file, 14, &entry);
    return &file;
}

/* ------------------------------------------------------------------ what a session tells */

static void tell_text(char *text)
{
    tell("'%s'", text != NULL ? text : "(none)");
    if (text != NULL)
        CALL(AllocatorFree, allocator, text);
}

static void names_and_types(OrtSession *s)
{
    OrtTypeInfo *type = NULL;
    char *text = NULL;
    size_t n = 0;

    if (CALL(SessionGetInputCount, s, &n))
        tell("%zu", n);
    if (CALL(SessionGetOutputCount, s, &n))
        tell("%zu", n);
    if (CALL(SessionGetOverridableInitializerCount, s, &n))
        tell("%zu", n);
    if (CALL(SessionGetInputName, s, 0, allocator, &text))
        tell_text(text);
    if (CALL(SessionGetOutputName, s, 1, allocator, &text))
        tell_text(text);
    if (CALL(SessionGetOverridableInitializerName, s, 0, allocator, &text))
        tell_text(text);
    CALL(SessionGetInputName, s, 7, allocator, &text);
    if (CALL(SessionGetInputTypeInfo, s, 0, &type))
        tell_type(type);
    USE(ReleaseTypeInfo, type);
    if (CALL(SessionGetOutputTypeInfo, s, 1, &type))
        tell_type(type);
    USE(ReleaseTypeInfo, type);
    if (CALL(SessionGetOverridableInitializerTypeInfo, s, 0, &type))
        tell_type(type);
    USE(ReleaseTypeInfo, type);
}

static void metadata(OrtSession *s)
{
    OrtModelMetadata *m = NULL;
    int64_t version = 0, count = 0;
    char *text = NULL, **keys = NULL;

    if (!CALL(SessionGetModelMetadata, s, &m))
        return;
    if (CALL(ModelMetadataGetProducerName, m, allocator, &text))
        tell_text(text);
    if (CALL(ModelMetadataGetGraphName, m, allocator, &text))
        tell_text(text);
    if (CALL(ModelMetadataGetDomain, m, allocator, &text))
        tell_text(text);
    if (CALL(ModelMetadataGetDescription, m, allocator, &text))
        tell_text(text);
    if (CALL(ModelMetadataGetGraphDescription, m, allocator, &text))
        tell_text(text);
    if (CALL(ModelMetadataLookupCustomMetadataMap, m, allocator, "author", &text))
        tell_text(text);
    if (CALL(ModelMetadataLookupCustomMetadataMap, m, allocator, "missing", &text))
        tell_text(text);
    if (CALL(ModelMetadataGetVersion, m, &version))
        tell("%lld", (long long)version);
    if (CALL(ModelMetadataGetCustomMetadataMapKeys, m, allocator, &keys, &count)) {
        for (int64_t i = 0; i < count; i++)
            tell_text(keys[i]);
        if (count > 0)
            CALL(AllocatorFree, allocator, keys);
    }
    USE(ReleaseModelMetadata, m);
}

static OrtSessionOptions *many_options(void)
{
    OrtSessionOptions *o = NULL, *copy = NULL;
    char text[32] = "";
    size_t n = sizeof text;
    int yes = -1;

    CALL(CreateSessionOptions, &o);
    CALL(SetIntraOpNumThreads, o, 2);
    CALL(SetInterOpNumThreads, o, 1);
    CALL(SetSessionGraphOptimizationLevel, o, ORT_ENABLE_BASIC);
    CALL(SetSessionGraphOptimizationLevel, o, (GraphOptimizationLevel)57);
    CALL(SetSessionExecutionMode, o, ORT_SEQUENTIAL);
    CALL(DisableMemPattern, o);
    CALL(EnableMemPattern, o);
    CALL(DisableCpuMemArena, o);
    CALL(EnableCpuMemArena, o);
    CALL(SetSessionLogId, o, "mine");
    CALL(SetSessionLogSeverityLevel, o, 4);
    CALL(SetSessionLogVerbosityLevel, o, 0);
    CALL(SetDeterministicCompute, o, true);
    CALL(SetUserLoggingFunction, o, hear, &heard);
    CALL(AddFreeDimensionOverride, o, "DATA_BATCH", 1);
    CALL(AddFreeDimensionOverrideByName, o, "m", 2);
    CALL(AddSessionConfigEntry, o, "session.disable_prepacking", "1");
    if (CALL(HasSessionConfigEntry, o, "session.disable_prepacking", &yes))
        tell("%d", yes);
    if (CALL(HasSessionConfigEntry, o, "missing", &yes))
        tell("%d", yes);
    if (CALL(GetSessionConfigEntry, o, "session.disable_prepacking", text, &n))
        tell("'%s' in %zu bytes", text, n);
    CALL(GetSessionConfigEntry, o, "missing", text, &n);
    CALL(CloneSessionOptions, o, &copy);
    USE(ReleaseSessionOptions, o);
    return copy;
}

static void files(const onnx_bytes *file)
{
    char path[] = "/tmp/same_XXXXXX", optimised[64], prefix[64], *profile = NULL;
    OrtSessionOptions *o = NULL;
    OrtSession *s = NULL;
    uint64_t start = 0;
    int fd = mkstemp(path);

    if (fd < 0 || write(fd, file->data, file->count) != (ssize_t)file->count)
        exit(1);
    (void)close(fd);
    (void)snprintf(optimised, sizeof optimised, "%s.optimised", path);
    (void)snprintf(prefix, sizeof prefix, "%s.profile", path);
    CALL(CreateSessionOptions, &o);
    CALL(SetOptimizedModelFilePath, o, optimised);
    CALL(EnableProfiling, o, prefix);
    if (CALL(CreateSession, env, path, o, &s)) {
        if (CALL(SessionGetProfilingStartTimeNs, s, &start))
            tell("later than never: %d", start > 0);
        if (CALL(SessionEndProfiling, s, allocator, &profile)) {
            tell("begins with the prefix: %d", strncmp(profile, prefix, strlen(prefix)) == 0);
            tell("is there: %d", access(profile, R_OK) == 0);
            (void)unlink(profile);
            CALL(AllocatorFree, allocator, profile);
        }
        USE(ReleaseSession, s);
    }
    CALL(DisableProfiling, o);
    USE(ReleaseSessionOptions, o);
    tell("the optimised model is there: %d", access(optimised, R_OK) == 0);
    if (CALL(CreateSession, env, optimised, NULL, &s)) {
        names_and_types(s);
        USE(ReleaseSession, s);
    }
    (void)unlink(optimised);
    (void)unlink(path);
}

void sessions(void)
{
    OrtPrepackedWeightsContainer *weights = NULL;
    OrtSessionOptions *o = many_options();
    OrtSession *s = open_bytes(model(), o);
    OrtAllocator *of_session = NULL;

    if (s != NULL) {
        names_and_types(s);
        metadata(s);
        if (CALL(CreateAllocator, s, cpu(), &of_session)) {
            void *p = NULL;

            if (CALL(AllocatorAlloc, of_session, 64, &p))
                CALL(AllocatorFree, of_session, p);
            USE(ReleaseAllocator, of_session);
        }
        USE(ReleaseSession, s);
    }
    CALL(CreatePrepackedWeightsContainer, &weights);
    if (CALL(CreateSessionFromArrayWithPrepackedWeightsContainer, env, model()->data, model()->count, o, weights, &s))
        USE(ReleaseSession, s);
    USE(ReleasePrepackedWeightsContainer, weights);
    CALL(DisablePerSessionThreads, o);
    if (CALL(CreateSessionFromArray, env, model()->data, model()->count, o, &s))
        USE(ReleaseSession, s);
    USE(ReleaseSessionOptions, o);
    files(model());
}

/* ------------------------------------------------------------------ runs */

static OrtValue *input(float *data)
{
    static const int64_t dims[] = { 2, 2 };

    return over(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, data, 4 * sizeof *data, 2, dims);
}

static OrtRunOptions *run_options(void)
{
    OrtRunOptions *o = NULL;
    const char *tag = NULL;
    int n = -1;

    CALL(CreateRunOptions, &o);
    CALL(RunOptionsSetRunTag, o, "tag");
    if (CALL(RunOptionsGetRunTag, o, &tag))
        tell("%s", tag);
    CALL(RunOptionsSetRunLogSeverityLevel, o, 3);
    if (CALL(RunOptionsGetRunLogSeverityLevel, o, &n))
        tell("%d", n);
    CALL(RunOptionsSetRunLogVerbosityLevel, o, 1);
    if (CALL(RunOptionsGetRunLogVerbosityLevel, o, &n))
        tell("%d", n);
    CALL(AddRunConfigEntry, o, "memory.enable_memory_arena_shrinkage", "");
    return o;
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
    float x[6] = { 1, 2, 3, 4, 5, 6 }, b[2] = { 10, 20 };
    OrtSessionOptions *o = NULL;
    OrtSession *s;
    OrtValue *in = input(x), *y = NULL, *made[2] = { NULL, NULL };
    OrtValue *extra = over(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, b, sizeof b, 1, two);
    OrtValue *wrong = over(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, x, sizeof x, 2, wide);
    const OrtValue *fed = in, *both[] = { extra, in }, *misfit = wrong;
    OrtRunOptions *options = run_options();

    CALL(CreateSessionOptions, &o);
    CALL(SetIntraOpNumThreads, o, 2);
    s = open_bytes(model(), o);
    if (CALL(Run, s, options, &x_name, &fed, 1, &y_name, 1, &y)) {
        tell_floats(y);
        USE(ReleaseValue, y);
        y = NULL;
    }
    if (CALL(Run, s, NULL, in_names, both, 2, out_names, 2, made)) {
        tell_floats(made[0]);
        tell_floats(made[1]);
    }
    CALL(RunOptionsSetTerminate, options);
    CALL(Run, s, options, &x_name, &fed, 1, &y_name, 1, &y);
    CALL(RunOptionsUnsetTerminate, options);
    CALL(Run, s, NULL, &bad, &fed, 1, &y_name, 1, &y);
    CALL(Run, s, NULL, &x_name, &fed, 1, &bad, 1, &y);
    CALL(Run, s, NULL, NULL, NULL, 0, &y_name, 1, &y);
    CALL(Run, s, NULL, &x_name, &fed, 1, &y_name, 0, &y);
    CALL(Run, s, NULL, &x_name, &misfit, 1, &y_name, 1, &y);
    if (CALL(RunAsync, s, NULL, &x_name, &fed, 1, &y_name, 1, &y, arrive, &env)) {
        while (arrived == 0)
            (void)usleep(1000);
        tell("arrived: %d", arrived);
        tell_floats(y);
        USE(ReleaseValue, y);
    }
    USE(ReleaseValue, made[0]);
    USE(ReleaseValue, made[1]);
    USE(ReleaseRunOptions, options);
    USE(ReleaseValue, in);
    USE(ReleaseValue, extra);
    USE(ReleaseValue, wrong);
    USE(ReleaseSession, s);
    USE(ReleaseSessionOptions, o);
}

void bindings(void)
{
    float x[4] = { 1, 2, 3, 4 }, z[4] = { 0 };
    OrtSession *s = open_bytes(model(), NULL);
    OrtValue *in = input(x), *out = input(z), **values = NULL;
    OrtIoBinding *b = NULL;
    size_t n = 0, *lengths = NULL;
    char *names = NULL;

    CALL(CreateIoBinding, s, &b);
    CALL(BindInput, b, "x", in);
    CALL(BindOutput, b, "z", out);
    CALL(BindOutputToDevice, b, "y", cpu());
    CALL(SynchronizeBoundInputs, b);
    CALL(RunWithBinding, s, NULL, b);
    CALL(SynchronizeBoundOutputs, b);
    tell("%g %g %g %g", z[0], z[1], z[2], z[3]);
    if (CALL(GetBoundOutputNames, b, allocator, &names, &lengths, &n)) {
        tell("%zu names: %.*s", n, (int)(lengths[0] + lengths[1]), names);
        CALL(AllocatorFree, allocator, names);
        CALL(AllocatorFree, allocator, lengths);
    }
    if (CALL(GetBoundOutputValues, b, allocator, &values, &n)) {
        for (size_t i = 0; i < n; i++) {
            tell_floats(values[i]);
            USE(ReleaseValue, values[i]);
        }
        CALL(AllocatorFree, allocator, values);
    }
    USE(ClearBoundInputs, b);
    USE(ClearBoundOutputs, b);
    USE(ReleaseIoBinding, b);
    USE(ReleaseValue, in);
    USE(ReleaseValue, out);
    USE(ReleaseSession, s);
}

/* Files that are no models, and devices that are not there. */
void failures(void)
{
    OrtSession *s = NULL;
    OrtSessionOptions *o = NULL;
    const char *key = "key", *value = "value";

    CALL(CreateSession, env, "/nowhere/model.onnx", NULL, &s);
    CALL(CreateSessionFromArray, env, "not a model at all", 18, NULL, &s);
    CALL(CreateSessionOptions, &o);
    CALL(RegisterCustomOpsLibrary_V2, o, "/nowhere/ops.so");
    CALL(RegisterCustomOpsUsingFunction, o, "NoSuchFunction");
    CALL(SessionOptionsAppendExecutionProvider, o, "SNPE", &key, &value, 1);
    USE(ReleaseSessionOptions, o);
    called("CreateStatus", USE(CreateStatus, ORT_EP_FAIL, "why"));
}
