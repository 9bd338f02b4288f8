/* Provider ort_ep with the library of an execution provider (test_ep.c): its groups and kernels compute what provider
 * reference computes; what fails or is refused has a message that names it. */
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include "keep_plugins.h"
#include "onnx_bytes.h"
#include <math.h>
#include <stdio.h>

enum { COUNT = 6 };
static const int64_t dims[] = { 2, 3 };

/* n = -((x * c + y) * x) and a = |n| + y: two groups of the library with its kernel and another provider between them.
 */
static void write_model(onnx_bytes *file)
{
    static const float constant[COUNT] = { 1, -2, 3, -4, 5, -6 };
    static onnx_bytes graph;

    graph = (onnx_bytes){ .count = 0 };
    *file = (onnx_bytes){ .count = 0 };
    onnx_node(&graph, "Mul", "", "x,c", "m");
    onnx_node(&graph, "Add", "", "m,y", "s");
    onnx_node(&graph, "Mul", "", "s,x", "p");
    onnx_node(&graph, "Neg", "", "p", "n");
    onnx_node(&graph, "Abs", "", "n", "b");
    onnx_node(&graph, "Add", "", "b,y", "a");
    onnx_constant(&graph, "c", INLAY_FLOAT, 2, dims, constant, sizeof constant);
    onnx_input(&graph, "x", INLAY_FLOAT, 2, dims);
    onnx_input(&graph, "y", INLAY_FLOAT, 2, dims);
    onnx_output(&graph, "n", INLAY_FLOAT, 2, dims);
    onnx_output(&graph, "a", INLAY_FLOAT, 2, dims);
    assert_int_equal(onnx_file(file, &graph, 13, NULL), 0);
}

/* Opens a session on the library, whose options are given as pairs that end with NULL. */
static inlay_status open_session(const char *providers, const char *const *pairs, inlay_session **out, inlay_diag *diag)
{
    static onnx_bytes file;
    inlay_options *options = NULL;
    inlay_status status;

    keep_plugins();
    write_model(&file);
    assert_int_equal(inlay_options_create(&options, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", providers, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "policy", "priority", diag), INLAY_OK);
    for (; pairs != NULL && pairs[0] != NULL; pairs += 2)
        if (inlay_options_set(options, pairs[0], pairs[1], diag) != INLAY_OK)
            fail_msg("%s: %s", pairs[0], diag->text);
    status = inlay_session_create_from_bytes(file.data, file.count, options, out, diag);
    inlay_options_destroy(options);
    return status;
}

static inlay_status run(inlay_session *session, float results[2][COUNT], inlay_diag *diag)
{
    float inputs[2][COUNT] = { { 0.5f, 1, -2, 3, 0.25f, 7 }, { 1, 0, -1, 2, 5, -3 } };
    inlay_context *context = NULL;
    inlay_status status;

    assert_int_equal(inlay_context_create(session, &context, diag), INLAY_OK);
    for (uint32_t i = 0; i < 2; i++) {
        inlay_value *value = NULL;

        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, inputs[i], sizeof inputs[i], &value, diag), INLAY_OK);
        assert_int_equal(inlay_context_set_input(context, i, value, diag), INLAY_OK);
        inlay_value_unref(value);
    }
    status = inlay_context_run(context, NULL, diag);
    for (uint32_t i = 0; status == INLAY_OK && i < 2; i++)
        memcpy(results[i], inlay_value_data(inlay_context_output(context, i)), sizeof results[i]);
    inlay_context_destroy(context);
    return status;
}

/* The results of provider reference and those of the library are equal. */
static void check_results(const char *const *pairs)
{
    float expected[2][COUNT], results[2][COUNT];
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;

    assert_int_equal(open_session("reference", NULL, &session, &diag), INLAY_OK);
    assert_int_equal(run(session, expected, &diag), INLAY_OK);
    inlay_session_destroy(session);
    if (open_session("ort_ep,reference", pairs, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    for (int i = 0; i < 3; i++) {
        if (run(session, results, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        assert_memory_equal(results, expected, sizeof results);
    }
    inlay_session_destroy(session);
}

static void test_constants_are_inputs(void **state)
{
    (void)state;
    check_results((const char *[]){ "ort_ep.library", TEST_EP, "require", "ort_ep", NULL });
}

static void test_constants_are_dropped(void **state)
{
    (void)state;
    check_results((const char *[]){ "ort_ep.library", TEST_EP, "ort_ep.options", "drop=1", "require", "ort_ep", NULL });
}

static void test_memory_of_a_device(void **state)
{
    (void)state;
    check_results(
        (const char *[]){ "ort_ep.library", TEST_EP, "ort_ep.environment", "memory=1", "require", "ort_ep", NULL });
}

/* The library copies its results to the host when its stream is flushed. */
static void test_stream_of_a_device(void **state)
{
    (void)state;
    check_results((const char *[]){ "ort_ep.library", TEST_EP, "ort_ep.environment", "memory=1;stream=1", "require",
                                    "ort_ep", NULL });
}

/* Two libraries under names, each with its own options and environment; the kernel of one runs between the fused nodes
 * of the other. */
static void test_two_libraries(void **state)
{
    float expected[2][COUNT], results[2][COUNT];
    const char *pairs[] = { "ort_ep#one.library",
                            TEST_EP,
                            "ort_ep#one.environment",
                            "memory=1;owner=test_ep",
                            "ort_ep#two.library",
                            OTHER_EP,
                            "ort_ep#two.environment",
                            "memory=1;stream=1;owner=other_ep",
                            "pin",
                            "op:Mul=ort_ep#one",
                            "pin",
                            "op:Add=ort_ep#one",
                            "pin",
                            "op:Neg=ort_ep#two",
                            "ort_ep#two.options",
                            NULL,
                            NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;

    (void)state;
    assert_int_equal(open_session("reference", NULL, &session, &diag), INLAY_OK);
    assert_int_equal(run(session, expected, &diag), INLAY_OK);
    inlay_session_destroy(session);
    for (int fails = 0; fails < 2; fails++) {
        pairs[15] = fails ? "fail=1" : "";
        if (open_session("ort_ep#one,ort_ep#two,reference", pairs, &session, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        for (int i = 0; i < 2; i++) {
            const inlay_status ran = run(session, results, &diag);

            assert_int_equal(ran, fails ? INLAY_INTERNAL : INLAY_OK);
            if (!fails)
                assert_memory_equal(results, expected, sizeof results);
            else if (strstr(diag.text, "provider ort_ep#two") == NULL || strstr(diag.text, "on fire") == NULL)
                fail_msg("%s", diag.text);
        }
        inlay_session_destroy(session);
    }
}

/* Runs that fail show that the library has run the nodes. */
static void test_a_run_fails(void **state)
{
    const char *pairs[] = { "ort_ep.library", TEST_EP, "ort_ep.options", "fail=1", NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    float results[2][COUNT];

    (void)state;
    assert_int_equal(open_session("ort_ep,reference", pairs, &session, &diag), INLAY_OK);
    assert_int_equal(run(session, results, &diag), INLAY_INTERNAL);
    assert_non_null(strstr(diag.text, "execution provider test_ep"));
    assert_non_null(strstr(diag.text, "the device is on fire"));
    inlay_session_destroy(session);
}

static void test_opening_is_refused(void **state)
{
    static const struct {
        const char *option, *value, *message;
    } rows[] = {
        { "ort_ep.library", "/nonexistent/libep.so", "cannot be opened" },
        { "ort_ep.library", "libm.so.6", "it has no CreateEpFactories" },
        { "ort_ep.environment", "refuse=1", "no licence" },
        { "ort_ep.environment", "none=1",
          "supports no device of this machine: test_ep says of the CPU: its firmware is too old (reasons 0x1, code "
          "7)" },
        { "ort_ep.environment", "old=1", "was built for version 1.22" },
        { "ort_ep.environment", "old", "'old' is not KEY=VALUE" },
        { "ort_ep.ep", "other", "supports no device of this machine for execution provider other" },
        { "ort_ep.device", "1", "supports 1 device of this machine; there is no number 1" },
        { "ort_ep.device", "0,7", "supports 1 device of this machine; there is no number 7" },
        { "ort_ep.device", "0,0", "'0,0' is not a list of at most 16 different numbers" },
        { "ort_ep.device", "0,", "'0,' is not a list of at most 16 different numbers" },
        { "ort_ep.device", "", "'' is not a list of at most 16 different numbers" },
        { "ort_ep.device", "-1", "'-1' is not a list of at most 16 different numbers" },
        { "ort_ep.device", "1 2", "'1 2' is not a list of at most 16 different numbers" },
        { "ort_ep.device", "99999999999999999999", "is not a list of at most 16 different numbers" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *pairs[] = { "ort_ep.library", TEST_EP, rows[i].option, rows[i].value, NULL };
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_session *session = NULL;

        assert_int_not_equal(open_session("ort_ep,reference", pairs, &session, &diag), INLAY_OK);
        if (strstr(diag.text, rows[i].message) == NULL)
            fail_msg("%s=%s: %s", rows[i].option, rows[i].value, diag.text);
    }
}

/* Without a library there is no such provider; sessions that do not name it are not affected. */
static void test_no_library(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    float results[2][COUNT];

    (void)state;
    assert_int_not_equal(open_session("ort_ep,reference", NULL, &session, &diag), INLAY_OK);
    assert_non_null(strstr(diag.text, "set its option library"));
    assert_int_equal(open_session("ort_ep?,reference", NULL, &session, &diag), INLAY_OK);
    assert_int_equal(run(session, results, &diag), INLAY_OK);
    inlay_session_destroy(session);
}

/* The session knows the device of the library. */
static void a_device_is_described(void **state)
{
    const char *const pairs[] = { "ort_ep.library", TEST_EP, NULL };
    inlay_session_provider_info info = { .struct_size = sizeof info };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;

    (void)state;
    assert_int_equal(open_session("ort_ep,reference", pairs, &session, &diag), INLAY_OK);
    assert_int_equal(inlay_session_provider(session, 0, &info), INLAY_OK);
    assert_string_equal(info.device, "test_ep");
    assert_non_null(strstr(info.device_facts, "type=CPU; "));
    assert_non_null(strstr(info.device_facts, "; devices=1"));
    assert_int_equal(info.device_kind, INLAY_DEVICE_OTHER);
    inlay_session_destroy(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_is_described),      cmocka_unit_test(test_constants_are_inputs),
        cmocka_unit_test(test_constants_are_dropped), cmocka_unit_test(test_memory_of_a_device),
        cmocka_unit_test(test_stream_of_a_device),    cmocka_unit_test(test_a_run_fails),
        cmocka_unit_test(test_opening_is_refused),    cmocka_unit_test(test_no_library),
        cmocka_unit_test(test_two_libraries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
