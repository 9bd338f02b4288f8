/* Libraries of execution providers that a program registers with the drop-in: their devices, sessions on these, and a
 * sentence for each library that cannot be used. */
#include "ort_test.h"

enum { LONG_METADATA = 3000 }; /* as in test_ep.h */

static const OrtEpDevice *device_at(size_t index, size_t expected)
{
    const OrtEpDevice *const *devices = NULL;
    size_t count = 0;

    ok(api->GetEpDevices(env, &devices, &count));
    assert_int_equal(count, expected);
    return index < count ? devices[index] : NULL;
}

/* Creates the environment again, with an entry. */
static void begin_with(const char *key)
{
    OrtEnvCreationOptions options = { .version = ORT_VERSION_MINOR,
                                      .logging_severity_level = ORT_LOGGING_LEVEL_FATAL,
                                      .log_id = "test" };
    OrtKeyValuePairs *entries = NULL;

    api->ReleaseEnv(env);
    api->CreateKeyValuePairs(&entries);
    api->AddKeyValuePair(entries, key, "1");
    options.config_entries = entries;
    ok(api->CreateEnvWithOptions(&options, &env));
    api->ReleaseKeyValuePairs(entries);
}

static void begin_again(void)
{
    api->ReleaseEnv(env);
    ok(api->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "test", &env));
}

/* y = |x * x| */
static void write_model(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", 1, "2");
    mw_node(wire, "Mul", "x,x", "m");
    mw_node(wire, "Abs", "m", "y");
    mw_value(wire, MW_OUTPUT, "y", 1, "2");
    wire_end(wire, mark);
}

static OrtStatus *open_model(const OrtSessionOptions *options)
{
    struct wire wire = { 0 };
    OrtSession *session = NULL;
    OrtStatus *failed;

    write_model(&wire);
    failed = api->CreateSessionFromArray(env, wire.bytes, wire.count, options, &session);
    free(wire.bytes);
    return failed;
}

/* Runs the model with x = 3, 3, and returns the first element of y. */
static float run_with(const OrtSessionOptions *options)
{
    const int64_t dims[] = { 2 };
    float x[] = { 3, 3 };
    struct wire wire = { 0 };
    OrtSession *session;
    OrtValue *in, *out;
    void *elements;
    float first;

    write_model(&wire);
    session = session_of(&wire, options);
    in = tensor(1, dims, 1, x, sizeof x);
    out = run1(session, "x", in, "y");
    ok(api->GetTensorMutableData(out, &elements));
    first = *(float *)elements;
    assert_float_equal(((float *)elements)[1], 9, 0);
    api->ReleaseValue(in);
    api->ReleaseValue(out);
    api->ReleaseSession(session);
    free(wire.bytes);
    return first;
}

/* The same on a device, with an option of its execution provider. */
static float run_on(const OrtEpDevice *device, const char *key, const char *value)
{
    OrtSessionOptions *options = NULL;
    float first;

    ok(api->CreateSessionOptions(&options));
    ok(api->SessionOptionsAppendExecutionProvider_V2(options, env, &device, 1, &key, &value, key != NULL ? 1 : 0));
    first = run_with(options);
    api->ReleaseSessionOptions(options);
    return first;
}

static OrtStatus *choose_last(const OrtEpDevice **devices, size_t count, const OrtKeyValuePairs *model,
                              const OrtKeyValuePairs *runtime, const OrtEpDevice **selected, size_t most,
                              size_t *selected_count, void *state)
{
    (void)model, (void)runtime, (void)most;
    *selected_count = *(const size_t *)state;
    selected[0] = devices[count - 1];
    return NULL;
}

/* Each subgraph says which execution provider runs which nodes; Abs is not supported by the library. */
static void check_assignment(const OrtEpDevice *device)
{
    static const char *const providers[] = { "test_ep", "CPUExecutionProvider" }, *const ops[] = { "Mul", "Abs" };
    const OrtEpAssignedSubgraph *const *parts;
    const OrtEpAssignedNode *const *nodes;
    const char *text;
    OrtSessionOptions *options = NULL;
    struct wire wire = { 0 };
    size_t count, node_count;
    OrtSession *session;

    ok(api->CreateSessionOptions(&options));
    ok(api->AddSessionConfigEntry(options, "session.record_ep_graph_assignment_info", "1"));
    ok(api->SessionOptionsAppendExecutionProvider_V2(options, env, &device, 1, NULL, NULL, 0));
    write_model(&wire);
    session = session_of(&wire, options);
    ok(api->Session_GetEpGraphAssignmentInfo(session, &parts, &count));
    assert_int_equal(count, 2);
    for (size_t i = 0; i < count; i++) {
        ok(api->EpAssignedSubgraph_GetEpName(parts[i], &text));
        assert_string_equal(text, providers[i]);
        ok(api->EpAssignedSubgraph_GetNodes(parts[i], &nodes, &node_count));
        assert_int_equal(node_count, 1);
        ok(api->EpAssignedNode_GetOperatorType(nodes[0], &text));
        assert_string_equal(text, ops[i]);
    }
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    free(wire.bytes);
}

static void a_device_runs_sessions(void **state)
{
    const OrtEpDevice *device;

    (void)state;
    (void)device_at(0, 1);
    ok(api->RegisterExecutionProviderLibrary(env, "my vendor's", TEST_EP));
    device = device_at(1, 2);
    assert_string_equal(api->EpDevice_EpName(device), "test_ep");
    assert_string_equal(api->EpDevice_EpVendor(device), "inlay's tests");
    assert_int_equal(api->HardwareDevice_Type(api->EpDevice_Device(device)), 0);
    assert_float_equal(run_on(device, NULL, NULL), 9, 0);
    check_assignment(device);
    assert_float_not_equal(run_on(device, "fault", "Mul"), 9, 0); /* the option arrives, and the library runs */
    fails(api->RegisterExecutionProviderLibrary(env, "my vendor's", OTHER_EP), ORT_FAIL,
          "library is already registered under my vendor's");
    ok(api->RegisterExecutionProviderLibrary(env, "other", OTHER_EP));
    assert_string_equal(api->EpDevice_EpName(device_at(2, 3)), "other_ep");
    assert_float_equal(run_on(device_at(2, 3), NULL, NULL), 9, 0);
    ok(api->UnregisterExecutionProviderLibrary(env, "my vendor's"));
    assert_string_equal(api->EpDevice_EpName(device_at(1, 2)), "other_ep");
    ok(api->UnregisterExecutionProviderLibrary(env, "other"));
    fails(api->UnregisterExecutionProviderLibrary(env, "other"), ORT_FAIL, "other was not registered");
    (void)device_at(0, 1);
}

static void a_library_has_several_devices(void **state)
{
    const OrtEpDevice *both[2];
    const OrtHardwareDevice *gpu;
    OrtSessionOptions *options = NULL;

    (void)state;
    begin_with("two");
    ok(api->RegisterExecutionProviderLibrary(env, "two", TEST_EP));
    both[0] = device_at(1, 3);
    both[1] = device_at(2, 3);
    gpu = api->EpDevice_Device(both[1]);
    assert_int_equal(api->HardwareDevice_Type(gpu), 1);
    assert_int_equal(api->HardwareDevice_VendorId(gpu), 0xBE57);
    assert_int_equal(api->HardwareDevice_DeviceId(gpu), 2);
    assert_string_equal(api->HardwareDevice_Vendor(gpu), "a maker, of tests");
    assert_string_equal(api->GetKeyValue(api->EpDevice_EpMetadata(both[1]), "tier"), "fast");
    assert_null(api->GetKeyValue(api->EpDevice_EpMetadata(both[0]), "tier"));
    assert_float_equal(run_on(both[0], NULL, NULL), 9, 0);
    assert_float_equal(run_on(both[1], NULL, NULL), 10, 0);
    ok(api->CreateSessionOptions(&options));
    assert_int_equal(strlen(api->GetKeyValue(api->EpDevice_EpMetadata(both[1]), "long")), LONG_METADATA);
    ok(api->SessionOptionsAppendExecutionProvider_V2(options, env, both, 2, NULL, NULL, 0));
    assert_float_equal(run_with(options), 11, 0); /* the library got both devices */
    both[1] = device_at(0, 3);
    fails(api->SessionOptionsAppendExecutionProvider_V2(options, env, both, 2, NULL, NULL, 0), ORT_INVALID_ARGUMENT,
          "must have the same execution provider");
    begin_again();
    api->ReleaseSessionOptions(options);
}

/* Only the GPU computes a wrong element. */
static void policies_choose_devices(void **state)
{
    enum { DEFAULT, PREFER_CPU, PREFER_NPU, PREFER_GPU, MAX_PERFORMANCE, MAX_EFFICIENCY, MIN_POWER, COUNT };
    OrtSessionOptions *options = NULL, *copy = NULL;
    size_t selected = 1;

    (void)state;
    begin_with("two");
    ok(api->RegisterExecutionProviderLibrary(env, "two", TEST_EP));
    ok(api->CreateSessionOptions(&options));
    for (int policy = DEFAULT; policy < COUNT; policy++) {
        ok(api->SessionOptionsSetEpSelectionPolicy(options, policy));
        assert_int_equal(run_with(options) != 9, policy == PREFER_GPU || policy == MAX_PERFORMANCE);
    }
    fails(api->SessionOptionsSetEpSelectionPolicy(options, COUNT), ORT_INVALID_ARGUMENT, "policy 7 is not one of");
    ok(api->SessionOptionsSetEpSelectionPolicyDelegate(options, choose_last, &selected));
    ok(api->CloneSessionOptions(options, &copy));
    assert_float_not_equal(run_with(copy), 9, 0);
    selected = 0;
    fails(open_model(copy), ORT_INVALID_ARGUMENT, "the delegate selected 0 devices");
    api->ReleaseSessionOptions(copy);
    api->ReleaseSessionOptions(options);
    begin_again();
}

static void an_option_that_cannot_be_passed_is_refused(void **state)
{
    const char *key = "a", *value = "1;b=2";
    OrtSessionOptions *options = NULL;
    const OrtEpDevice *device;

    (void)state;
    ok(api->RegisterExecutionProviderLibrary(env, "one", TEST_EP));
    device = device_at(1, 2);
    ok(api->CreateSessionOptions(&options));
    fails(api->SessionOptionsAppendExecutionProvider_V2(options, env, &device, 1, &key, &value, 1),
          ORT_INVALID_ARGUMENT, "a=1;b=2 cannot be passed");
    api->ReleaseSessionOptions(options);
    begin_again();
}

/* Each library that cannot be used is one sentence with the reason, and adds no device. */
static void broken_libraries_are_refused(void **state)
{
    (void)state;
    fails(api->RegisterExecutionProviderLibrary(env, "x", "/nowhere/libx.so"), ORT_FAIL,
          "/nowhere/libx.so: cannot open shared object file: No such file or directory");
    fails(api->RegisterExecutionProviderLibrary(env, "x", NEEDS_MORE), ORT_FAIL, "libmissing.so: cannot open");
    fails(api->RegisterExecutionProviderLibrary(env, "x", ORT_LIBRARY_PATH), ORT_FAIL,
          "is not a library of an ONNX Runtime execution provider: it has no CreateEpFactories");
    begin_with("newer"); /* a verdict about the library holds for its options, which these are */
    assert_int_equal(setenv("TEST_EP_NEWER", "1", 1), 0);
    fails(api->RegisterExecutionProviderLibrary(env, "x", TEST_EP), ORT_FAIL,
          "the library was built for ONNX Runtime 1.1000, but inlay has the interface of 1.30");
    assert_int_equal(unsetenv("TEST_EP_NEWER"), 0);
    (void)device_at(0, 1);
    begin_with("none");
    fails(api->RegisterExecutionProviderLibrary(env, "x", TEST_EP), ORT_FAIL, "its firmware is too old");
    begin_with("refuse");
    fails(api->RegisterExecutionProviderLibrary(env, "x", TEST_EP), ORT_FAIL, "no licence");
    begin_with("old");
    fails(api->RegisterExecutionProviderLibrary(env, "x", TEST_EP), ORT_FAIL, "1.23 is the oldest one");
    begin_with("crash");
    fails(api->RegisterExecutionProviderLibrary(env, "x", TEST_EP), ORT_FAIL, "it crashed (SIGSEGV) in create");
    (void)device_at(0, 1);
    begin_again();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_runs_sessions),       cmocka_unit_test(a_library_has_several_devices),
        cmocka_unit_test(policies_choose_devices),      cmocka_unit_test(an_option_that_cannot_be_passed_is_refused),
        cmocka_unit_test(broken_libraries_are_refused),
    };

    return cmocka_run_group_tests(tests, ort_test_begin, ort_test_end);
}
