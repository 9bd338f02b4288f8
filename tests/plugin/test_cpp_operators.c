/* operator.hpp: schemas derived from functions, attributes, omitted inputs, shapes, several types, exceptions. */
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include "inlay/plugin.h"
#include "onnx_bytes.h"
#include <dlfcn.h>
#include <stdlib.h>

enum { MOST = 64 };

struct trial {
    inlay_session *session;
    inlay_context *context;
    inlay_status status;
    inlay_diag diag;
};

static const char *node_text; /* attribute `text` of the next nodes, instead of attr; or NULL */

/* Opens a session with one node and runs it with the input. */
static struct trial try_node(const char *op, const char *inputs, const char *outputs, const char *attr, int64_t value,
                             inlay_dtype dtype, int64_t count, const void *input, uint32_t rank)
{
    static onnx_bytes file;
    onnx_bytes bytes = { .count = 0 };
    struct trial trial = { .diag = INLAY_DIAG_INIT };
    inlay_options *options;
    inlay_value *in = NULL;
    const int64_t dims[] = { count, 1 };
    inlay_status status;

    file.count = 0;
    onnx_input(&bytes, "x", dtype, rank, dims);
    if (node_text != NULL)
        onnx_node_text(&bytes, op, "com.example", inputs, outputs, "text", node_text);
    else if (attr != NULL)
        onnx_node_int(&bytes, op, "com.example", inputs, outputs, attr, value);
    else
        onnx_node(&bytes, op, "com.example", inputs, outputs);
    onnx_output(&bytes, "y", INLAY_UNDEFINED, 0, NULL);
    if (strstr(outputs, ",") != NULL)
        onnx_output(&bytes, "z", INLAY_UNDEFINED, 0, NULL);
    assert_int_equal(onnx_file(&file, &bytes, 17, "com.example"), 0);
    assert_int_equal(inlay_options_create(&options, NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "plugin_dirs", CPP_DIR, NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", "cpp", NULL), INLAY_OK);
    INLAY_TRY(inlay_session_create_from_bytes(file.data, file.count, options, &trial.session, &trial.diag));
    INLAY_TRY(inlay_context_create(trial.session, &trial.context, &trial.diag));
    INLAY_TRY(inlay_value_create(dtype, rank, dims, &in, &trial.diag));
    memcpy(inlay_value_data(in), input, (size_t)count * inlay_dtype_bits(dtype) / 8);
    INLAY_TRY(inlay_context_set_input(trial.context, 0, in, &trial.diag));
    INLAY_TRY(inlay_context_run(trial.context, NULL, &trial.diag));
done:
    trial.status = status;
    inlay_value_unref(in);
    inlay_options_destroy(options);
    return trial;
}

static void close_trial(struct trial *trial)
{
    inlay_context_destroy(trial->context);
    inlay_session_destroy(trial->session);
}

static void expect(struct trial *trial, uint32_t output, inlay_dtype dtype, int64_t count, const void *want)
{
    const inlay_value *value;

    if (trial->status != INLAY_OK)
        fail_msg("%s", trial->diag.text);
    value = inlay_context_output(trial->context, output);
    assert_int_equal(inlay_value_dtype(value), dtype);
    assert_int_equal(inlay_value_count(value), count);
    assert_memory_equal(inlay_value_data(value), want, (size_t)count * inlay_dtype_bits(dtype) / 8);
}

static const float some[] = { 1, 2.5f, -3, 4 };

static void test_attributes(void **state)
{
    const float threefold[] = { 3, 7.5f, -9, 12 };
    struct trial trial = try_node("Affine", "x", "y", "times", 3, INLAY_FLOAT, 4, some, 1);

    (void)state;
    expect(&trial, 0, INLAY_FLOAT, 4, threefold); /* scale is omitted, mode and shift have their defaults */
    close_trial(&trial);
    trial = try_node("Affine", "x,x", "y", NULL, 0, INLAY_FLOAT, 4, some, 1); /* scale is x[0], which is 1 */
    expect(&trial, 0, INLAY_FLOAT, 4, some);
    close_trial(&trial);
}

static void test_long_strings(void **state)
{
    const float none[] = { 0.5f, 0.5f }, many[] = { 1000.5f, 1000.5f };
    char text[1001];
    struct trial trial = try_node("Length", "x", "y", NULL, 0, INLAY_FLOAT, 2, some, 1);

    (void)state;
    expect(&trial, 0, INLAY_FLOAT, 2, none);
    close_trial(&trial);
    memset(text, 'x', 1000);
    text[1000] = '\0';
    node_text = text;
    trial = try_node("Length", "x", "y", NULL, 0, INLAY_FLOAT, 2, some, 1);
    node_text = NULL;
    expect(&trial, 0, INLAY_FLOAT, 2, many);
    close_trial(&trial);
}

static void test_shapes(void **state)
{
    const float twice[] = { 1, 2.5f, -3, 4, 1, 2.5f, -3, 4 };
    const int64_t ids[] = { 7, INT64_MIN }, thrice[] = { 7, INT64_MIN, 7, INT64_MIN, 7, INT64_MIN };
    struct trial trial = try_node("Repeat", "x", "y", "times", 2, INLAY_FLOAT, 4, some, 1);

    (void)state;
    expect(&trial, 0, INLAY_FLOAT, 8, twice);
    close_trial(&trial);
    trial = try_node("Repeat", "x", "y", "times", 3, INLAY_INT64, 2, ids, 1);
    expect(&trial, 0, INLAY_INT64, 6, thrice);
    close_trial(&trial);
    trial = try_node("Repeat", "x", "y", "times", 3, INLAY_FLOAT, 4, some, 2);
    assert_int_equal(trial.status, INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(trial.diag.text, "Repeat: x is no vector"));
    close_trial(&trial);
    trial = try_node("Repeat", "x", "y", NULL, 0, INLAY_FLOAT, 4, some, 1);
    assert_int_not_equal(trial.status, INLAY_OK); /* times has no default */
    assert_non_null(strstr(trial.diag.text, "times"));
    close_trial(&trial);
    trial = try_node("Repeat", "x", "y", "times", 1, INLAY_DOUBLE, 4, (double[]){ 1, 2, 3, 4 }, 1);
    assert_int_not_equal(trial.status, INLAY_OK); /* no function for doubles */
    close_trial(&trial);
}

static void test_two_outputs(void **state)
{
    const float whole[] = { 1, 2, -3, 4 };
    const uint8_t isnot[] = { 0, 1, 0, 0 };
    struct trial trial = try_node("Split2", "x", "y,z", NULL, 0, INLAY_FLOAT, 4, some, 1);

    (void)state;
    expect(&trial, 0, INLAY_FLOAT, 4, whole);
    expect(&trial, 1, INLAY_BOOL, 4, isnot);
    close_trial(&trial);
}

static void test_exceptions(void **state)
{
    static const struct {
        float x;
        inlay_status status;
        const char *text;
    } cases[] = { { 0, INLAY_INTERNAL, "Fail: it broke" },
                  { 1, INLAY_INVALID_ARGUMENT, "Fail: one is not wanted" },
                  { 2, INLAY_OUT_OF_MEMORY, "Fail: out of memory" },
                  { 3, INLAY_INTERNAL, "without a text" } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct trial trial = try_node("Fail", "x", "y", NULL, 0, INLAY_FLOAT, 1, &cases[i].x, 1);

        assert_int_equal(trial.status, cases[i].status);
        assert_non_null(strstr(trial.diag.text, cases[i].text));
        close_trial(&trial);
    }
}

/* Errors in the signature text are reported when the plugin is opened. */
static void test_wrong_texts(void **state)
{
    static const struct {
        const char *file, *text;
    } cases[] = { { "arrow", "needs '->' after the names of its 1 inputs and attributes" },
                  { "few", "has no name for parameter 1" },
                  { "many", "names more than its function has" },
                  { "state", "a state that is not of the type of with_state" } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_plugin_open_fn open;
        char path[500];
        void *handle;

        (void)snprintf(path, sizeof path, "%s/wrong/%s.so", CPP_DIR, cases[i].file);
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(handle);
        *(void **)&open = dlsym(handle, INLAY_PLUGIN_OPEN_SYMBOL);
        assert_non_null(open);
        assert_int_equal(inlay_plugin_register(open, &diag), INLAY_INVALID_ARGUMENT);
        if (strstr(diag.text, cases[i].text) == NULL)
            fail_msg("%s: %s", cases[i].file, diag.text);
        (void)dlclose(handle);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attributes),  cmocka_unit_test(test_long_strings), cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_two_outputs), cmocka_unit_test(test_exceptions),   cmocka_unit_test(test_wrong_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
