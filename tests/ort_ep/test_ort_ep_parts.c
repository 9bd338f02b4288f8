/* Provider ort_ep with the library of an execution provider (test_ep.c): its own operators, packed constants, type
 * constraints of kernels, control flow, and the events of its profiler. */
#include "assigned.h"
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include "keep_plugins.h"
#include "onnx_bytes.h"
#include "run_context.h"
#include "text_buffer.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 6 };
static const int64_t dims[] = { 2, 3 };
static const float x[COUNT] = { 0.5f, 1, -2, 3, 0.25f, 7 }, y[COUNT] = { 1, 0, -2, 2, 5, 7 };
/* Where the library computes: in host memory, in that of its device, and there with a stream. */
static const char *const memories[] = { "", "memory=1", "memory=1;stream=1" };

static onnx_bytes graph, file;
static const char *cache = ""; /* the cache folder */

static void begin(void)
{
    graph = file = (onnx_bytes){ .count = 0 };
    onnx_input(&graph, "x", INLAY_FLOAT, 2, dims);
    onnx_input(&graph, "y", INLAY_FLOAT, 2, dims);
}

static void end(const char *output, inlay_dtype dtype)
{
    onnx_output(&graph, output, dtype, 2, dims);
    assert_int_equal(onnx_file(&file, &graph, 17, "test_ep.operators"), 0);
}

/* The model with the library first, or with another list of providers. */
static inlay_status open_model(const char *providers, const char *environment, inlay_session **out, inlay_diag *diag)
{
    const char *const pairs[] = {
        "providers", providers, "policy", "priority", "level", "0", "cache_dir", cache, NULL
    };
    inlay_options *options = NULL;
    inlay_status status;

    keep_plugins();
    assert_int_equal(inlay_options_create(&options, diag), INLAY_OK);
    for (const char *const *pair = pairs; *pair != NULL; pair += 2)
        assert_int_equal(inlay_options_set(options, pair[0], pair[1], diag), INLAY_OK);
    if (strstr(providers, "ort_ep") != NULL) {
        assert_int_equal(inlay_options_set(options, "ort_ep.library", TEST_EP, diag), INLAY_OK);
        assert_int_equal(inlay_options_set(options, "ort_ep.environment", environment, diag), INLAY_OK);
        assert_int_equal(inlay_options_set(options, "ort_ep.context", cache[0] != '\0' ? "true" : "false", diag),
                         INLAY_OK);
    }
    status = inlay_session_create_from_bytes(file.data, file.count, options, out, diag);
    inlay_options_destroy(options);
    return status;
}

static inlay_session *open_with_library(const char *environment)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;

    if (open_model("ort_ep,reference", environment, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return session;
}

static inlay_context *bind(inlay_session *session)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context = NULL;

    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    for (uint32_t i = 0; i < inlay_session_input_count(session); i++) {
        inlay_value *value = NULL;

        assert_int_equal(
            inlay_value_borrow(INLAY_FLOAT, 2, dims, (void *)(uintptr_t)(i == 0 ? x : y), sizeof x, &value, &diag),
            INLAY_OK);
        assert_int_equal(inlay_context_set_input(context, i, value, &diag), INLAY_OK);
        inlay_value_unref(value);
    }
    return context;
}

/* Runs the model a few times on the library, in each kind of memory, and compares the output. */
static void check_runs(const void *expected, size_t bytes)
{
    for (size_t m = 0; m < sizeof memories / sizeof memories[0]; m++) {
        inlay_session *session = open_with_library(memories[m]);
        inlay_context *context = bind(session);

        assert_true(runs_on(session, "ort_ep"));
        for (int i = 0; i < 3; i++) {
            run_context(context);
            assert_int_equal(inlay_value_bytes(inlay_context_output(context, 0)), bytes);
            assert_memory_equal(inlay_value_data(inlay_context_output(context, 0)), expected, bytes);
        }
        inlay_context_destroy(context);
        inlay_session_destroy(session);
    }
}

/* Twice has a kernel, Product is fused with the operators around it. The host infers their shapes by the library's
 * function, without which Product would not be claimed. */
static void test_own_operators(void **state)
{
    float expected[COUNT];
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;

    (void)state;
    begin();
    onnx_node(&graph, "Twice", "test_ep.operators", "x", "t");
    onnx_node(&graph, "Product", "test_ep.operators", "t,y", "p");
    onnx_node(&graph, "Add", "", "p,x", "s");
    onnx_node(&graph, "Neg", "", "s", "n");
    end("n", INLAY_FLOAT);
    for (int i = 0; i < COUNT; i++)
        expected[i] = -(2 * x[i] * y[i] + x[i]);
    check_runs(expected, sizeof expected);
    assert_int_not_equal(open_model("reference", "", &session, &diag), INLAY_OK);
    if (strstr(diag.text, "Twice") == NULL || strstr(diag.text, "test_ep.operators") == NULL)
        fail_msg("%s", diag.text);
}

static void test_constants_are_packed(void **state)
{
    bool expected[COUNT];

    (void)state;
    for (int constant = 0; constant < 2; constant++) {
        begin();
        if (constant != 0)
            onnx_constant(&graph, "c", INLAY_FLOAT, 2, dims, y, sizeof y);
        onnx_node(&graph, "Equal", "", constant != 0 ? "x,c" : "x,y", "e");
        end("e", INLAY_BOOL);
        for (int i = 0; i < COUNT; i++)
            expected[i] = x[i] == y[i];
        check_runs(expected, sizeof expected);
    }
}

/* T of Equal is the type of its inputs, and T1 that of its output. */
static void test_type_constraints(void **state)
{
    const inlay_dtype types[] = { INLAY_FLOAT, INLAY_INT32 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        inlay_session *session;

        graph = file = (onnx_bytes){ .count = 0 };
        onnx_input(&graph, "x", types[i], 2, dims);
        onnx_input(&graph, "y", types[i], 2, dims);
        onnx_node(&graph, "Equal", "", "x,y", "e");
        end("e", INLAY_BOOL);
        session = open_with_library("");
        assert_int_equal(runs_on(session, "ort_ep"), types[i] == INLAY_FLOAT);
        inlay_session_destroy(session);
    }
}

static void add_branch(onnx_bytes *node, const char *attribute, const char *op_type)
{
    static onnx_bytes body;
    onnx_bytes message = { .count = 0 };

    body = (onnx_bytes){ .count = 0 };
    onnx_node(&body, op_type, "", "x,y", attribute);
    onnx_text(&body, 2, attribute);
    onnx_output(&body, attribute, INLAY_FLOAT, 2, dims);
    onnx_text(&message, 1, attribute);
    onnx_message(&message, 6, &body);
    onnx_number(&message, 20, 5); /* GRAPH */
    onnx_message(node, 5, &message);
}

/* The host runs If, although the library has registered a kernel for it, and the library runs the bodies. */
static void test_control_flow(void **state)
{
    onnx_bytes node = { .count = 0 };
    const bool flag = true;
    float expected[COUNT];

    (void)state;
    begin();
    onnx_constant(&graph, "f", INLAY_BOOL, 0, NULL, &flag, 1);
    onnx_node(&graph, "Neg", "", "x", "m");
    onnx_node(&graph, "ReduceMax", "", "m", "r");
    onnx_node(&graph, "IsNaN", "", "r", "g");
    onnx_node(&graph, "Squeeze", "", "g", "flag");
    onnx_text(&node, 1, "flag");
    onnx_text(&node, 2, "z");
    onnx_text(&node, 3, "branch");
    onnx_text(&node, 4, "If");
    add_branch(&node, "then_branch", "Mul");
    add_branch(&node, "else_branch", "Add");
    onnx_message(&graph, 1, &node);
    end("z", INLAY_FLOAT);
    for (int i = 0; i < COUNT; i++)
        expected[i] = x[i] + y[i];
    check_runs(expected, sizeof expected);
}

/* s = x * c + y, as one node of the library. prefix: of the names of values. */
static void write_fused(const char *prefix)
{
    char names[5][16], pair[2][32];

    for (int i = 0; i < 5; i++)
        (void)snprintf(names[i], sizeof names[i], "%.10s%c", prefix, "xycms"[i]);
    (void)snprintf(pair[0], sizeof pair[0], "%s,%s", names[0], names[2]);
    (void)snprintf(pair[1], sizeof pair[1], "%s,%s", names[3], names[1]);
    graph = file = (onnx_bytes){ .count = 0 };
    onnx_input(&graph, names[0], INLAY_FLOAT, 2, dims);
    onnx_input(&graph, names[1], INLAY_FLOAT, 2, dims);
    onnx_constant(&graph, names[2], INLAY_FLOAT, 2, dims, y, sizeof y);
    onnx_node(&graph, "Mul", "", pair[0], names[3]);
    onnx_node(&graph, "Add", "", pair[1], names[4]);
    end(names[4], INLAY_FLOAT);
}

/* The engine cache keeps the library's EPContext nodes, also for a model with other names. Those that the library does
 * not accept any more are compiled again. */
static void test_contexts(void **state)
{
    char folder[] = "/tmp/inlay_ort_ep_XXXXXX", command[128];
    float expected[COUNT];
    inlay_session *session;

    (void)state;
    assert_non_null(mkdtemp(folder));
    cache = folder;
    for (int i = 0; i < COUNT; i++)
        expected[i] = x[i] * y[i] + y[i];
    write_fused("first_");
    check_runs(expected, sizeof expected);
    assert_int_equal(setenv("TEST_EP_RESTORES", "1", 1), 0);
    check_runs(expected, sizeof expected);
    write_fused("other_");
    check_runs(expected, sizeof expected);
    /* The library prefers to compile again, and fails then: another provider runs the nodes. */
    assert_int_equal(setenv("TEST_EP_STALE", "1", 1), 0);
    session = open_with_library("");
    assert_false(runs_on(session, "ort_ep"));
    inlay_session_destroy(session);
    assert_int_equal(unsetenv("TEST_EP_RESTORES"), 0);
    check_runs(expected, sizeof expected);
    assert_int_equal(unsetenv("TEST_EP_STALE"), 0);
    cache = "";
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* The kernels of the library in the profile: how many rows with its event there are. */
static size_t count_kernels(const json_t *report, const char *node)
{
    const json_t *steps = json_object_get(report, "steps"), *step;
    size_t i, count = 0;

    json_array_foreach(steps, i, step) {
        if (strcmp(json_string_value(json_object_get(step, "op")), "test_ep_kernel") != 0)
            continue;
        assert_string_equal(json_string_value(json_object_get(step, "provider")), "ort_ep");
        assert_string_equal(json_string_value(json_object_get(step, "name")), node);
        assert_true(json_number_value(json_object_get(step, "ns")) > 0);
        assert_non_null(json_object_get(step, "region"));
        count++;
    }
    return count;
}

/* Events of the library's profiler are kernels of its regions: of fused nodes, and of a kernel. */
static void test_profile(void **state)
{
    const inlay_profile_options json = { .struct_size = sizeof json, .format = "json" };

    (void)state;
    for (size_t m = 0; m < 2 * sizeof memories / sizeof memories[0]; m++) {
        const bool fused = m % 2 == 0;
        struct text_buffer text = { 0 };
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_session *session;
        inlay_context *context;
        json_t *report;

        begin();
        onnx_node(&graph, fused ? "Mul" : "Neg", "", fused ? "x,y" : "x", "m");
        if (fused)
            onnx_node(&graph, "Add", "", "m,x", "s");
        end(fused ? "s" : "m", INLAY_FLOAT);
        session = open_with_library(memories[m / 2]);
        context = bind(session);
        assert_int_equal(inlay_context_run(context, NULL, &diag), INLAY_OK);
        assert_int_equal(inlay_context_profile(context, 1, 0, &diag), INLAY_OK);
        for (int i = 0; i < 2; i++)
            assert_int_equal(inlay_context_run(context, NULL, &diag), INLAY_OK);
        assert_int_equal(inlay_context_profile_write(context, &json, text_buffer_append, &text, &diag), INLAY_OK);
        report = json_loads(text.data, 0, NULL);
        assert_non_null(report);
        assert_int_equal(count_kernels(report, "m"), 1);
        json_decref(report);
        text_buffer_free(&text);
        inlay_context_destroy(context);
        inlay_session_destroy(session);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_operators),    cmocka_unit_test(test_constants_are_packed),
        cmocka_unit_test(test_type_constraints), cmocka_unit_test(test_control_flow),
        cmocka_unit_test(test_contexts),         cmocka_unit_test(test_profile)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
