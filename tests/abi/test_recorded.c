/* Plugins built with the headers of every released ABI minor version, and with the current ones, load in the current
 * host, and a model runs on all of them. RECORDED_DIR/<minor>/ contains the plugins of one minor version;
 * RECORDED_MINORS lists the versions. */
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include "onnx_bytes.h"
#include "text_buffer.h"

enum { COUNT = 4 };

static void model(onnx_bytes *file)
{
    static const int64_t dims[] = { COUNT };
    onnx_bytes bytes = { .count = 0 };

    onnx_input(&bytes, "x", INLAY_FLOAT, 1, dims);
    onnx_node_int(&bytes, "LeakyRelu", "", "x", "a", NULL, 0);
    onnx_node_int(&bytes, "Twice", "com.recorded", "a", "b", NULL, 0);
    onnx_node_int(&bytes, "Neg", "", "b", "c", NULL, 0); /* on the reference provider, between the recorded ones */
    onnx_node_int(&bytes, "Relu", "", "c", "y", NULL, 0);
    onnx_output(&bytes, "y", INLAY_FLOAT, 1, dims);
    file->count = 0;
    assert_int_equal(onnx_file(file, &bytes, 17, "com.recorded"), 0);
}

static void run(inlay_session *session, const char *minor)
{
    static const float want[COUNT] = { 0, 0.04f, 0, 0.02f };
    static const int64_t dims[] = { COUNT };
    float data[COUNT] = { 1, -2, 3, -1 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context = NULL;
    inlay_value *value = NULL;
    inlay_status status;

    INLAY_TRY(inlay_context_create(session, &context, &diag));
    INLAY_TRY(inlay_value_borrow(INLAY_FLOAT, 1, dims, data, sizeof data, &value, &diag));
    INLAY_TRY(inlay_context_set_input(context, 0, value, &diag));
    for (int i = 0; i < 2; i++) {
        const float *output;

        INLAY_TRY(inlay_context_run(context, NULL, &diag));
        output = inlay_value_data(inlay_context_output(context, 0));
        for (int k = 0; k < COUNT; k++)
            assert_true(output[k] > want[k] - 1e-6f && output[k] < want[k] + 1e-6f);
    }
done:
    inlay_value_unref(value);
    inlay_context_destroy(context);
    if (status != INLAY_OK)
        fail_msg("ABI %s: %s", minor, diag.text);
}

static void run_with(const char *minor)
{
    static const char *const names[] = { "recorded_provider", "recorded_operator", "recorded_kit", "reference" };
    static onnx_bytes file;
    struct text_buffer explanation = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    inlay_status status;
    char dir[4096];

    model(&file);
    (void)snprintf(dir, sizeof dir, "%s/%s", RECORDED_DIR, minor);
    INLAY_TRY(inlay_options_create(&options, &diag));
    INLAY_TRY(inlay_options_set(options, "plugin_dirs", dir, &diag));
    INLAY_TRY(
        inlay_options_set(options, "providers", "recorded_provider,recorded_operator,recorded_kit,reference", &diag));
    INLAY_TRY(inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag));
    INLAY_TRY(inlay_session_explain(session, NULL, text_buffer_append, &explanation, &diag));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strstr(explanation.data, names[i]) == NULL)
            fail_msg("ABI %s: %s has no part in:\n%s", minor, names[i], explanation.data);
    run(session, minor);
done:
    text_buffer_free(&explanation);
    inlay_session_destroy(session);
    inlay_options_destroy(options);
    if (status != INLAY_OK)
        fail_msg("ABI %s: %s", minor, diag.text);
}

static void plugins_of_every_minor(void **state)
{
    char list[] = RECORDED_MINORS, *next = NULL;
    int minors = 0;

    (void)state;
    for (char *minor = strtok_r(list, " ", &next); minor != NULL; minor = strtok_r(NULL, " ", &next), minors++)
        run_with(minor);
    assert_true(minors >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(plugins_of_every_minor) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
