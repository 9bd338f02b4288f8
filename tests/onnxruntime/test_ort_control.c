/* Options of runs, threads and bindings through the table. */
#include "ort_add.h"
#include <pthread.h>
#include <unistd.h>

static void test_run_options(void **state)
{
    static const int64_t dims[] = { 1, 2 };
    const char *x_name = "x", *y_name = "y", *tag;
    float data[2] = { 0 };
    OrtValue *value = tensor(FLOAT, dims, 2, data, sizeof data), *y = NULL;
    const OrtValue *in = value;
    OrtSession *session = open_add(NULL);
    OrtRunOptions *options;
    int level;

    (void)state;
    ok(api->CreateRunOptions(&options));
    ok(api->RunOptionsSetRunTag(options, "tag"));
    ok(api->RunOptionsGetRunTag(options, &tag));
    assert_string_equal(tag, "tag");
    ok(api->RunOptionsSetRunLogSeverityLevel(options, 3));
    ok(api->RunOptionsGetRunLogSeverityLevel(options, &level));
    assert_int_equal(level, 3);
    ok(api->RunOptionsSetRunLogVerbosityLevel(options, 1));
    ok(api->RunOptionsGetRunLogVerbosityLevel(options, &level));
    assert_int_equal(level, 1);
    ok(api->AddRunConfigEntry(options, "memory.enable_memory_arena_shrinkage", ""));
    assert_non_null(api->GetRunConfigEntry(options, "memory.enable_memory_arena_shrinkage"));
    assert_null(api->GetRunConfigEntry(options, "missing"));
    ok(api->RunOptionsSetTerminate(options));
    fails(api->Run(session, options, &x_name, &in, 1, &y_name, 1, &y), ORT_FAIL,
          "Exiting due to terminate flag being set to true");
    assert_null(y);
    ok(api->RunOptionsUnsetTerminate(options));
    ok(api->Run(session, options, &x_name, &in, 1, &y_name, 1, &y));
    api->ReleaseValue(y);
    api->ReleaseRunOptions(options);
    api->ReleaseValue(value);
    api->ReleaseSession(session);
}

/* Entries of a run state its priority and power: with option echo, the fake device returns 10 * priority + power. */
static void test_run_hints(void **state)
{
    static const char *const entries[][2] = { { "inlay.plugin_dirs", FAKE_DIR },
                                              { "inlay.providers", "fake,reference" },
                                              { "inlay.policy", "priority" },
                                              { "inlay.fake.echo", "true" } };
    static const int64_t dims[] = { 1, 2 };
    const char *x_name = "x", *z_name = "z";
    float data[2] = { 0 };
    OrtValue *value = tensor(FLOAT, dims, 2, data, sizeof data), *z = NULL;
    const OrtValue *in = value;
    OrtSessionOptions *settings;
    OrtRunOptions *options, *wrong;
    OrtSession *session;
    void *elements;

    (void)state;
    if (!ours())
        skip();
    ok(api->CreateSessionOptions(&settings));
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        ok(api->AddSessionConfigEntry(settings, entries[i][0], entries[i][1]));
    session = open_add(settings);
    ok(api->CreateRunOptions(&options));
    ok(api->AddRunConfigEntry(options, "inlay.priority", "high"));
    ok(api->AddRunConfigEntry(options, "inlay.power", "most"));
    fails(api->Run(session, options, &x_name, &in, 1, &z_name, 1, &z), ORT_INVALID_ARGUMENT,
          "inlay.power must be default, efficiency or performance, not 'most'");
    ok(api->AddRunConfigEntry(options, "inlay.power", "efficiency"));
    ok(api->CreateRunOptions(&wrong));
    ok(api->AddRunConfigEntry(wrong, "inlay.priorty", "high"));
    fails(api->Run(session, wrong, &x_name, &in, 1, &z_name, 1, &z), ORT_INVALID_ARGUMENT,
          "inlay.priorty is no config entry of a run; there are inlay.priority and inlay.power");
    api->ReleaseRunOptions(wrong);
    ok(api->Run(session, options, &x_name, &in, 1, &z_name, 1, &z));
    ok(api->GetTensorMutableData(z, &elements));
    assert_float_equal(((float *)elements)[1], 21, 0);
    api->ReleaseValue(z);
    api->ReleaseRunOptions(options);
    api->ReleaseSessionOptions(settings);
    api->ReleaseValue(value);
    api->ReleaseSession(session);
}

static void keep_placement(void *param, OrtLoggingLevel severity, const char *category, const char *id,
                           const char *location, const char *message)
{
    (void)category, (void)id, (void)location;
    if (severity == ORT_LOGGING_LEVEL_INFO && strstr(message, "; expected ") != NULL)
        (void)snprintf(param, 256, "%s", message);
}

/* The log of a session says which of inlay's providers runs how many nodes, if its level or the option requests it. */
static void test_placement_is_logged(void **state)
{
    static const struct {
        int level;
        const char *option, *variable;
        bool logged;
    } cases[] = { { ORT_LOGGING_LEVEL_INFO, NULL, NULL, true },  { ORT_LOGGING_LEVEL_INFO, "0", NULL, false },
                  { ORT_LOGGING_LEVEL_INFO, NULL, "0", false },  { ORT_LOGGING_LEVEL_WARNING, NULL, NULL, false },
                  { ORT_LOGGING_LEVEL_WARNING, "1", "0", true }, { ORT_LOGGING_LEVEL_FATAL, NULL, "1", true } };

    (void)state;
    if (!ours())
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OrtSessionOptions *settings;
        OrtSession *session;
        char line[256] = "";

        ok(api->CreateSessionOptions(&settings));
        ok(api->SetUserLoggingFunction(settings, keep_placement, line));
        ok(api->SetSessionLogSeverityLevel(settings, cases[i].level));
        ok(api->AddSessionConfigEntry(settings, "inlay.providers", "reference"));
        if (cases[i].option != NULL)
            ok(api->AddSessionConfigEntry(settings, "inlay.placement", cases[i].option));
        if (cases[i].variable != NULL)
            assert_int_equal(setenv("INLAY_PLACEMENT", cases[i].variable, 1), 0);
        session = open_add(settings);
        assert_int_equal(unsetenv("INLAY_PLACEMENT"), 0);
        assert_true((line[0] != '\0') == cases[i].logged);
        if (cases[i].logged)
            assert_ptr_equal(strstr(line, "2 nodes: reference 2; expected "), (const char *)line);
        api->ReleaseSession(session);
        api->ReleaseSessionOptions(settings);
    }
}

/* A loop of a billion iterations, which in practice ends only if the run is terminated. */
static void write_endless(struct wire *wire)
{
    static const int64_t rounds = INT64_C(1) << 40;
    wire_mark mark = mw_begin(wire, 8, 17), t, node;
    mw_body body;

    t = wire_begin(wire, MW_INITIALIZER);
    mw_tensor_head(wire, "rounds", INT64, 0, NULL);
    wire_bytes(wire, 9, (const char *)&rounds, sizeof rounds);
    wire_end(wire, t);
    mw_value(wire, MW_INPUT, "x", FLOAT, "2");
    node = mw_node_begin(wire, "Loop", "rounds,_,x", "y");
    body = mw_body_begin(wire, "body", "body");
    mw_value(wire, MW_INPUT, "i", INT64, "");
    mw_value(wire, MW_INPUT, "go", 9, "");
    mw_value(wire, MW_INPUT, "v", FLOAT, "2");
    mw_node(wire, "Identity", "go", "go_on");
    mw_node(wire, "Neg", "v", "w");
    mw_value(wire, MW_OUTPUT, "go_on", 9, "");
    mw_value(wire, MW_OUTPUT, "w", FLOAT, "2");
    mw_body_end(wire, body);
    wire_end(wire, node);
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "2");
    wire_end(wire, mark);
}

static void *terminate_soon(void *user)
{
    (void)usleep(50000);
    ok(api->RunOptionsSetTerminate(user));
    return NULL;
}

static void test_a_run_is_terminated(void **state)
{
    static const int64_t dims[] = { 2 };
    const char *x_name = "x", *y_name = "y";
    float data[2] = { 1, 2 };
    OrtValue *value = tensor(FLOAT, dims, 1, data, sizeof data), *y = NULL;
    const OrtValue *in = value;
    OrtRunOptions *options;
    pthread_t thread;
    struct wire wire = { 0 };
    OrtSession *session;

    (void)state;
    write_endless(&wire);
    session = session_of(&wire, NULL);
    ok(api->CreateRunOptions(&options));
    assert_int_equal(pthread_create(&thread, NULL, terminate_soon, options), 0);
    fails(api->Run(session, options, &x_name, &in, 1, &y_name, 1, &y), ORT_FAIL,
          "Exiting due to terminate flag being set to true");
    (void)pthread_join(thread, NULL);
    assert_null(y);
    api->ReleaseRunOptions(options);
    api->ReleaseValue(value);
    api->ReleaseSession(session);
    free(wire.bytes);
}

static void *run_often(void *user)
{
    for (int i = 0; i < 50; i++)
        check_sum(user, 1 + i % 7);
    return NULL;
}

static void test_many_threads_run_one_session(void **state)
{
    OrtSession *session = open_add(NULL);
    pthread_t threads[6];

    (void)state;
    (void)cpu(); /* created by one thread */
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, session), 0);
    for (int i = 0; i < 6; i++)
        (void)pthread_join(threads[i], NULL);
    api->ReleaseSession(session);
}

static pthread_mutex_t called_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called_cond = PTHREAD_COND_INITIALIZER;
static int called;

static void when_done(void *user, OrtValue **outputs, size_t count, OrtStatus *status)
{
    (void)pthread_mutex_lock(&called_lock);
    called = status == NULL && count == 1 && outputs[0] != NULL && user == &called ? 1 : -1;
    (void)pthread_cond_signal(&called_cond);
    (void)pthread_mutex_unlock(&called_lock);
    api->ReleaseStatus(status);
}

static void test_run_async(void **state)
{
    static const int64_t dims[] = { 1, 2 };
    const char *x_name = "x", *y_name = "y", *no_name = NULL;
    float data[2] = { 0 };
    OrtValue *value = tensor(FLOAT, dims, 2, data, sizeof data), *y = NULL;
    const OrtValue *in = value;
    OrtSessionOptions *options;
    OrtSession *session;

    (void)state;
    ok(api->CreateSessionOptions(&options));
    ok(api->SetIntraOpNumThreads(options, 2)); /* ONNX Runtime requires a thread besides the caller's */
    session = open_add(options);
    if (ours()) {
        fails(api->RunAsync(session, NULL, &no_name, &in, 1, &y_name, 1, &y, when_done, &called), ORT_INVALID_ARGUMENT,
              "is NULL");
        fails(api->RunAsync(session, NULL, &x_name, &in, 1, &no_name, 1, &y, when_done, &called), ORT_INVALID_ARGUMENT,
              "is NULL");
        fails(api->RunAsync(session, NULL, &x_name, NULL, 1, &y_name, 1, &y, when_done, &called), ORT_INVALID_ARGUMENT,
              "input is NULL");
    }
    called = 0;
    ok(api->RunAsync(session, NULL, &x_name, &in, 1, &y_name, 1, &y, when_done, &called));
    (void)pthread_mutex_lock(&called_lock);
    while (called == 0)
        (void)pthread_cond_wait(&called_cond, &called_lock);
    (void)pthread_mutex_unlock(&called_lock);
    assert_int_equal(called, 1);
    api->ReleaseValue(y);
    api->ReleaseValue(value);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
}

static void test_binding(void **state)
{
    static const int64_t dims[] = { 1, 2 };
    float x[2] = { 1, 2 }, z[2] = { 0 };
    OrtValue *in = tensor(FLOAT, dims, 2, x, sizeof x), *out = tensor(FLOAT, dims, 2, z, sizeof z), **values;
    OrtSession *session = open_add(NULL);
    OrtIoBinding *binding;
    size_t n, *lengths;
    char *names;
    void *elements;

    (void)state;
    ok(api->CreateIoBinding(session, &binding));
    ok(api->BindInput(binding, "x", in));
    ok(api->BindOutput(binding, "z", out));
    ok(api->BindOutputToDevice(binding, "y", cpu()));
    fails(api->BindInput(binding, "nope", in), ORT_FAIL, "Failed to find input name in the mapping: nope");
    ok(api->SynchronizeBoundInputs(binding));
    ok(api->RunWithBinding(session, NULL, binding));
    ok(api->SynchronizeBoundOutputs(binding));
    assert_true(z[0] == -2 && z[1] == -3);
    ok(api->GetBoundOutputNames(binding, allocator, &names, &lengths, &n));
    assert_int_equal(n, 2);
    assert_memory_equal(names, "zy", 2);
    ok(api->AllocatorFree(allocator, names));
    ok(api->AllocatorFree(allocator, lengths));
    ok(api->GetBoundOutputValues(binding, allocator, &values, &n));
    ok(api->GetTensorMutableData(values[1], &elements));
    assert_float_equal(((float *)elements)[1], 3, 0);
    for (size_t i = 0; i < n; i++)
        api->ReleaseValue(values[i]);
    ok(api->AllocatorFree(allocator, values));
    x[0] = 5;
    ok(api->RunWithBinding(session, NULL, binding));
    assert_float_equal(z[0], -6, 0);
    api->ClearBoundInputs(binding);
    api->ClearBoundOutputs(binding);
    api->ReleaseIoBinding(binding);
    api->ReleaseValue(in);
    api->ReleaseValue(out);
    api->ReleaseSession(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_options),
        cmocka_unit_test(test_run_hints),
        cmocka_unit_test(test_placement_is_logged),
        cmocka_unit_test(test_a_run_is_terminated),
        cmocka_unit_test(test_many_threads_run_one_session),
        cmocka_unit_test(test_run_async),
        cmocka_unit_test(test_binding),
    };

    return cmocka_run_group_tests(tests, ort_test_begin, ort_test_end);
}
