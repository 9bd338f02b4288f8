/* The table: its order, its versions, and the results of entries that are not implemented. */
#include "ort_test.h"
#include <stddef.h>

typedef void (*any_fn)(void);
static const struct {
    const char *name, *state;
    size_t at;
} rows[] = {
#define ENTRY(state, returns, name, params) { #name, #state, offsetof(OrtApi, name) / sizeof(any_fn) },
#include "api.def"
#undef ENTRY
};
enum { COUNT = sizeof rows / sizeof rows[0] };

static any_fn entry(size_t i)
{
    any_fn fn;

    memcpy(&fn, (const char *)api + i * sizeof fn, sizeof fn);
    return fn;
}

static size_t place_of(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(rows[i].name, name) == 0)
            return i;
    fail_msg("no entry %s", name);
    return 0;
}

/* The index of the last entry of each version, as the headers of ONNX Runtime assert it. */
static void test_order(void **state)
{
    static const struct {
        const char *last;
        size_t at;
    } ends[] = {
        { "CreateStatus", 0 },
        { "Run", 9 },
        { "ReleaseCustomOpDomain", 101 },
        { "ReleaseModelMetadata", 118 },
        { "AddFreeDimensionOverrideByName", 124 },
        { "ReleaseAvailableProviders", 126 },
        { "SetGlobalSpinControl", 149 },
        { "ReleaseArenaCfg", 157 },
        { "GetCurrentGpuDeviceId", 161 },
        { "CreateSessionFromArrayWithPrepackedWeightsContainer", 169 },
        { "GetSparseTensorIndices", 191 },
        { "SynchronizeBoundOutputs", 203 },
        { "SessionOptionsAppendExecutionProvider_MIGraphX", 209 },
        { "ReleaseKernelInfo", 218 },
        { "ReleaseCANNProviderOptions", 224 },
        { "GetSessionConfigEntry", 238 },
        { "GetBuildInfoString", 254 },
        { "KernelContext_GetResource", 265 },
        { "SetUserLoggingFunction", 266 },
        { "AddExternalInitializersFromFilesInMemory", 279 },
        { "SetEpDynamicOptions", 284 },
        { "GetEpApi", 317 },
        { "GetInteropApi", 395 },
        { "KernelContext_GetPreallocatedOutput", 425 },
    };

    (void)state;
    assert_int_equal(COUNT, 426);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        assert_int_equal(place_of(ends[i].last), ends[i].at);
}

static void test_versions(void **state)
{
    (void)state;
    assert_string_equal(base->GetVersionString(), "1.30.0");
    for (uint32_t version = 1; version <= ORT_VERSION_MINOR; version++)
        assert_ptr_equal(base->GetApi(version), api);
    assert_null(base->GetApi(0));
    assert_null(base->GetApi(ORT_VERSION_MINOR + 1));
}

static void test_no_entry_is_null(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(rows[i].at, i);
        if (entry(i) == NULL)
            fail_msg("entry %zu, %s, is NULL", i, rows[i].name);
    }
}

/* The codes of ONNX Runtime's build for CPUs. Entries that are not listed read objects of OrtModelEditorApi. */
static OrtErrorCode code_of(size_t i)
{
    static const struct {
        const char *name;
        OrtErrorCode code;
    } codes[] = {
        { "CreateOpaqueValue", ORT_FAIL },
        { "GetOpaqueValue", ORT_FAIL },
        { "GetExecutionProviderApi", ORT_INVALID_ARGUMENT },
        { "KernelContext_GetResource", ORT_INVALID_ARGUMENT },
        { "CreateSyncStreamForEpDevice", ORT_INVALID_ARGUMENT },
        { "SetPerSessionThreadPoolCallbacks", ORT_NOT_IMPLEMENTED },
        { "Graph_GetGraphView", ORT_INVALID_ARGUMENT },
        { "Node_GetAttributeByName", ORT_INVALID_ARGUMENT },
        { "Node_GetEpName", ORT_INVALID_ARGUMENT },
    };

    if (strcmp(rows[i].state, "NOT_BUILT") == 0)
        return ORT_FAIL;
    for (size_t k = 0; k < sizeof codes / sizeof codes[0]; k++)
        if (strcmp(codes[k].name, rows[i].name) == 0)
            return codes[k].code;
    assert_true(strncmp(rows[i].name, "Graph_", 6) == 0 || strncmp(rows[i].name, "Node_", 5) == 0 ||
                strncmp(rows[i].name, "ValueInfo_", 10) == 0);
    return ORT_NOT_IMPLEMENTED;
}

/* Only for inlay: ONNX Runtime would use the arguments. */
static void test_refused_entries_fail(void **state)
{
    size_t refused = 0;

    (void)state;
    for (size_t i = 0; i < COUNT && ours(); i++) {
        OrtStatus *(*fn)(void) = (OrtStatus * (*)(void)) entry(i);
        OrtStatus *status;

        if (strcmp(rows[i].state, "NOT_BUILT") != 0 && strcmp(rows[i].state, "REFUSED") != 0)
            continue;
        status = fn();
        assert_non_null(status);
        assert_int_equal(api->GetErrorCode(status), code_of(i));
        assert_non_null(strstr(api->GetErrorMessage(status), rows[i].name));
        api->ReleaseStatus(status);
        refused++;
    }
    assert_true(!ours() || refused > 0);
}

static void test_accepted_entries_succeed(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT && ours(); i++) {
        OrtStatus *(*fn)(void) = (OrtStatus * (*)(void)) entry(i);

        if (strcmp(rows[i].state, "ACCEPTED") == 0 || strcmp(rows[i].state, "NOTHING") == 0)
            assert_null(fn());
    }
}

/* What ONNX Runtime's build for CPUs answers to arguments that it can use. */
static void test_answers_of_both(void **state)
{
    const struct {
        uint32_t version;
        const void *members[5];
    } callbacks = { .version = ORT_VERSION_MINOR };
    OrtSessionOptions *options = NULL;
    struct wire wire = { 0 };
    OrtSession *session;
    wire_mark graph;

    (void)state;
    fails(api->SetPerSessionThreadPoolCallbacks(env, (const OrtThreadPoolCallbacksConfig *)(const void *)&callbacks),
          ORT_NOT_IMPLEMENTED, "requires ORT built with --enable_session_threadpool_callbacks");
    graph = mw_begin(&wire, 8, 17);
    mw_value(&wire, MW_INPUT, "x", 1, "2");
    mw_node(&wire, "Neg", "x", "y");
    mw_value(&wire, MW_OUTPUT, "y", 1, "2");
    wire_end(&wire, graph);
    ok(api->CreateSessionOptions(&options));
    session = session_of(&wire, options);
    wire_deinit(&wire);
    ok(api->SessionReleaseCapturedGraph(session, 0));
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
}

/* The tables that the main table returns have no NULL entries either. */
static void test_inner_tables(void **state)
{
    const void *tables[] = { api->GetInteropApi(), api->GetEpApi() }; /* test_ort_build.c calls the others */

    (void)state;
    for (size_t table = 0; table < 2 && ours(); table++)
        for (size_t i = 1; i < 128; i++) {
            OrtStatus *(*fn)(void);

            memcpy(&fn, (const char *)tables[table] + i * sizeof fn, sizeof fn);
            fails(fn(), ORT_NOT_IMPLEMENTED, "not implemented in inlay");
        }
}

/* A program requires the symbol version of the release that it was linked with. */
static void test_symbol_versions(void **state)
{
    static const char *const versions[] = {
#define VERSION(word, text) "VERS_" text,
#include "versions.def"
#undef VERSION
        "VERS_1.14.0", "VERS_1.21", "VERS_1.23", "VERS_1.28.2", "VERS_1.30.0"
    };

    (void)state;
    for (size_t i = 0; i < sizeof versions / sizeof versions[0] && ours(); i++) {
        const OrtApiBase *(*get_base)(void);
        void *symbol = dlvsym(library, "OrtGetApiBase", versions[i]);

        if (symbol == NULL)
            fail_msg("no OrtGetApiBase@%s", versions[i]);
        memcpy(&get_base, &symbol, sizeof symbol);
        assert_ptr_equal(get_base()->GetApi(16), api);
        assert_non_null(dlvsym(library, "OrtSessionOptionsAppendExecutionProvider_CPU", versions[i]));
    }
}

/* The numbers of entries in README.md are correct. */
static void test_readme(void **state)
{
    static const char *const states[] = { "WORKS", "KEPT", "ACCEPTED", "NOTHING", "NOT_BUILT", "REFUSED" };
    FILE *file = fopen(INLAY_SOURCE_DIR "/sdk/bindings/onnxruntime/README.md", "r");
    char text[20000];
    size_t length;

    (void)state;
    assert_non_null(file);
    length = fread(text, 1, sizeof text - 1, file);
    text[length] = '\0';
    (void)fclose(file);
    for (size_t state_index = 0; state_index < sizeof states / sizeof states[0]; state_index++) {
        char row[64];
        int count = 0;

        for (size_t i = 0; i < COUNT; i++)
            count += strcmp(rows[i].state, states[state_index]) == 0;
        (void)snprintf(row, sizeof row, "| %s | %d |", states[state_index], count);
        if (strstr(text, row) == NULL)
            fail_msg("README.md lacks '%s'", row);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_no_entry_is_null),
        cmocka_unit_test(test_refused_entries_fail),
        cmocka_unit_test(test_accepted_entries_succeed),
        cmocka_unit_test(test_answers_of_both),
        cmocka_unit_test(test_inner_tables),
        cmocka_unit_test(test_symbol_versions),
        cmocka_unit_test(test_readme),
    };

    return cmocka_run_group_tests(tests, ort_test_begin, ort_test_end);
}
