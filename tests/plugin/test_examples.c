/* Runs the examples of operators (inlay_op_example) as models of one node, on every provider that supports them. */
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include "inlay/plugin.h"
#include "onnx_bytes.h"
#include "plugin_dirs.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static void name_of(char text[32], const char *stem, uint32_t i)
{
    (void)snprintf(text, 32, "%s%u", stem, i);
}

/* The samples have integer and float attributes only. */
static void add_attrs(onnx_bytes *node, const inlay_op_example *example)
{
    for (uint32_t i = 0; i < example->attr_count; i++) {
        const inlay_attr_info *attribute = INLAY_AT(inlay_attr_info, example->attrs, example->attr_stride, i);
        onnx_bytes attr = { .count = 0 };

        onnx_blob(&attr, 1, attribute->name.data, attribute->name.bytes);
        if (attribute->kind == INLAY_ATTR_FLOAT) {
            const float value = (float)attribute->f;
            const uint8_t tag = 2 << 3 | 5; /* field f, 32 bits */

            onnx_put(&attr, &tag, 1);
            onnx_put(&attr, &value, sizeof value);
            onnx_number(&attr, 20, 1);
        } else {
            assert_int_equal(attribute->kind, INLAY_ATTR_INT);
            onnx_number(&attr, 3, attribute->i);
            onnx_number(&attr, 20, 2);
        }
        onnx_message(node, 5, &attr);
    }
}

static void model_of(const inlay_operator *op, const inlay_op_example *example, onnx_bytes *file)
{
    onnx_bytes bytes = { .count = 0 }, node = { .count = 0 };
    char name[32];

    for (uint32_t i = 0; i < example->input_count; i++) {
        name_of(name, "x", i);
        onnx_text(&node, 1, name);
        onnx_input(&bytes, name, example->inputs[i].dtype, example->inputs[i].rank, example->inputs[i].dims);
    }
    for (uint32_t output = 0; output < example->output_count; output++) {
        name_of(name, "y", output);
        onnx_text(&node, 2, name);
        onnx_output(&bytes, name, example->outputs[output].dtype, example->outputs[output].rank,
                    example->outputs[output].dims);
    }
    onnx_text(&node, 3, example->name);
    onnx_text(&node, 4, op->op_type);
    add_attrs(&node, example);
    onnx_text(&node, 7, op->domain);
    onnx_message(&bytes, 1, &node);
    assert_int_equal(onnx_file(file, &bytes, 17, op->domain), 0);
}

/* The samples have three types only. */
static double element(inlay_dtype dtype, const void *data, int64_t i)
{
    if (dtype == INLAY_BOOL)
        return ((const uint8_t *)data)[i];
    assert_true(dtype == INLAY_FLOAT || dtype == INLAY_DOUBLE);
    return dtype == INLAY_FLOAT ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

static void compare(const inlay_op_example *example, const inlay_tensor_view *want, const inlay_value *got)
{
    assert_non_null(got);
    assert_int_equal(inlay_value_dtype(got), want->dtype);
    assert_int_equal(inlay_value_rank(got), want->rank);
    assert_memory_equal(inlay_value_dims(got), want->dims, want->rank * sizeof *want->dims);
    for (int64_t i = 0; i < inlay_value_count(got); i++) {
        double w = element(want->dtype, want->data, i), g = element(want->dtype, inlay_value_data(got), i);

        if (!(fabs(g - w) <= example->atol + example->rtol * fabs(w)))
            fail_msg("%s: element %lld is %g instead of %g", example->name, (long long)i, g, w);
    }
}

/* Runs an example on a provider. Returns whether the provider supports the node; if so, checks the results. */
static bool run_example(const inlay_operator *op, const inlay_op_example *example, const char *runs_on)
{
    static onnx_bytes file;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_status status;

    file.count = 0;
    model_of(op, example, &file);
    INLAY_TRY(inlay_options_create(&options, &diag));
    INLAY_TRY(inlay_options_set(options, "plugin_dirs", SAMPLE_DIR, &diag));
    INLAY_TRY(inlay_options_set(options, "providers", runs_on, &diag));
    INLAY_TRY(inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag));
    INLAY_TRY(inlay_context_create(session, &context, &diag));
    for (uint32_t i = 0; i < example->input_count; i++) {
        const inlay_tensor_view *input = &example->inputs[i];
        inlay_value *value;

        INLAY_TRY(inlay_value_borrow(input->dtype, input->rank, input->dims, (void *)(uintptr_t)input->data,
                                     input->bytes, &value, &diag));
        status = inlay_context_set_input(context, i, value, &diag);
        inlay_value_unref(value);
        INLAY_TRY(status);
    }
    INLAY_TRY(inlay_context_run(context, NULL, &diag));
    for (uint32_t output = 0; output < example->output_count; output++)
        compare(example, &example->outputs[output], inlay_context_output(context, output));
done:
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    inlay_options_destroy(options);
    if (status != INLAY_OK && (status != INLAY_UNSUPPORTED || strstr(diag.text, "no provider runs") == NULL))
        fail_msg("%s.%s, %s, on %s: %s", op->domain, op->op_type, example->name, runs_on, diag.text);
    return status == INLAY_OK;
}

static void every_example_of_every_operator(void **state)
{
    const char *dirs[] = { SAMPLE_DIR };
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_set *set;
    uint32_t examples = 0, runs = 0, expected = 0;

    (void)state;
    assert_int_equal(plugin_set_create(dirs, 1, NULL, NULL, &set, &diag), INLAY_OK);
    for (uint32_t i = 0; i < plugin_set_operator_count(set); i++) {
        const inlay_operator *op = plugin_set_operator(set, i);

        /* moving_average and fast_average run the same operator; the skeleton has other kernels */
        expected += op->example_count * (strcmp(op->op_type, "Blend") == 0 ? 1 : 2);
        for (uint32_t k = 0; k < op->example_count; k++, examples++)
            for (uint32_t p = 0; p < plugin_set_provider_count(set); p++)
                runs += run_example(op, INLAY_AT(inlay_op_example, op->examples, op->example_stride, k),
                                    plugin_set_provider(set, p)->table->name);
    }
    assert_true(examples >= 5);
    assert_int_equal(runs, expected);
    plugin_set_destroy(set);
}

/* A wrong use of a plugin's operator is rejected with the plugin's message. */
static void wrong_uses_of_a_custom_operator(void **state)
{
    static const struct {
        const char *op_type;
        inlay_dtype dtype;
        int64_t window;
        const char *words;
    } rows[] = {
        { "MovingAverage", INLAY_FLOAT, 0, "window is 0" },
        { "MovingAverage", INLAY_FLOAT, -1, "window is -1" },
        { "MovingAverage", INLAY_INT8, 2, "int8" },
        { "MovingAverge", INLAY_FLOAT, 2, "did you mean MovingAverage?" },
    };
    static const int64_t dims[] = { 2, 4 };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        onnx_bytes bytes = { .count = 0 }, file = { .count = 0 };
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_options *options = NULL;
        inlay_session *session = NULL;

        onnx_input(&bytes, "x", rows[row].dtype, 2, dims);
        onnx_node_int(&bytes, rows[row].op_type, "com.example", "x", "y", "window", rows[row].window);
        onnx_output(&bytes, "y", rows[row].dtype, 2, dims);
        assert_int_equal(onnx_file(&file, &bytes, 17, "com.example"), 0);
        assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
        assert_int_equal(inlay_options_set(options, "plugin_dirs", SAMPLE_DIR, &diag), INLAY_OK);
        assert_int_not_equal(inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag),
                             INLAY_OK);
        if (strstr(diag.text, rows[row].words) == NULL)
            fail_msg("row %zu: '%s' does not contain '%s'", row, diag.text, rows[row].words);
        inlay_options_destroy(options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_of_every_operator),
        cmocka_unit_test(wrong_uses_of_a_custom_operator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
