/* Limits of the device sample: a job of its chip takes 16 fences and 64 buffers. */
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include "onnx_bytes.h"
#include "run_context.h"
#include "session/session.h"
#include <stdio.h>

enum { MOST = 64, COUNT = 6, FENCES = 16 };

static const int64_t dims[] = { 2, 3 };

/* A session on the chip, whose other nodes run on the reference provider. */
struct rig {
    inlay_session *session;
    inlay_context *context;
    onnx_bytes file;
};

static void open_rig(struct rig *rig, onnx_bytes *graph)
{
    static const char *const settings[][2] = { { "plugin_dirs", SAMPLE_DIR },
                                               { "providers", "chip,reference" },
                                               { "policy", "priority" } };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options;

    rig->file.count = 0;
    assert_int_equal(onnx_file(&rig->file, graph, 17, NULL), 0);
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        assert_int_equal(inlay_options_set(options, settings[i][0], settings[i][1], &diag), INLAY_OK);
    if (inlay_session_create_from_bytes(rig->file.data, rig->file.count, options, &rig->session, &diag) != INLAY_OK ||
        inlay_context_create(rig->session, &rig->context, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
}

static void close_rig(struct rig *rig)
{
    inlay_context_destroy(rig->context);
    inlay_session_destroy(rig->session);
}

static void bind(struct rig *rig, uint32_t index, inlay_dtype dtype, uint32_t rank, const int64_t *shape, void *data,
                 uint64_t bytes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;

    assert_int_equal(inlay_value_borrow(dtype, rank, shape, data, bytes, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig->context, index, value, &diag), INLAY_OK);
    inlay_value_unref(value);
}

static void run(struct rig *rig)
{
    run_context(rig->context);
}

static uint32_t regions_on_chip(const struct rig *rig)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < rig->session->main->step_count; i++)
        count += strcmp(rig->session->main->steps[i].provider->name, "chip") == 0;
    return count;
}

/* Runs a chain of `inputs` inputs, each added to the sum of those before, on the chip. host_op, if not NULL, is applied
 * to each input on the host before. Returns the number of regions on the chip. */
static uint32_t add_on_chip(int inputs, const char *host_op)
{
    static onnx_bytes graph;
    static float x[MOST][COUNT];
    static struct rig rig;
    char names[32], output[16], input[16];
    uint32_t regions;

    graph.count = 0;
    for (int i = 0; i < inputs; i++) {
        (void)snprintf(input, sizeof input, "%s%d", host_op != NULL ? "in" : "x", i);
        onnx_input(&graph, input, INLAY_FLOAT, 2, dims);
        (void)snprintf(output, sizeof output, "x%d", i);
        if (host_op != NULL)
            onnx_node(&graph, host_op, "", input, output);
        for (int k = 0; k < COUNT; k++)
            x[i][k] = (float)(i * (k + 1));
    }
    for (int i = 1; i < inputs; i++) {
        (void)snprintf(names, sizeof names, "%s%d,x%d", i == 1 ? "x" : "s", i - 1, i);
        (void)snprintf(output, sizeof output, "s%d", i);
        onnx_node(&graph, "Add", "", names, output);
    }
    onnx_output(&graph, output, INLAY_FLOAT, 2, dims);
    open_rig(&rig, &graph);
    for (int i = 0; i < inputs; i++)
        bind(&rig, (uint32_t)i, INLAY_FLOAT, 2, dims, x[i], sizeof x[i]);
    run(&rig);
    for (int k = 0; k < COUNT; k++)
        assert_float_equal(((const float *)inlay_value_data(inlay_context_output(rig.context, 0)))[k],
                           (float)((k + 1) * inputs * (inputs - 1) / 2), 0);
    regions = regions_on_chip(&rig);
    close_rig(&rig);
    return regions;
}

static void many_inputs(void **state)
{
    (void)state;
    assert_int_equal(add_on_chip(2, NULL), 1);
    assert_int_equal(add_on_chip(16, NULL), 1);
    assert_int_equal(add_on_chip(24, NULL), 2);
    assert_int_equal(add_on_chip(40, NULL), 3);
    assert_int_equal(add_on_chip(MOST, NULL), 4);
    assert_int_equal(add_on_chip(FENCES + 1, "Ceil"), 1); /* each copy follows the node that writes its source */
}

/* A region whose inputs have a size that the host learns during the run: each has a copy, and a fence, of its own. */
static void many_inputs_of_unknown_size(void **state)
{
    enum { PRODUCTS = FENCES / 2 + 1 };
    static const int64_t square[] = { COUNT, COUNT }, line[] = { COUNT }, unknown[] = { -1, -1 };
    static onnx_bytes graph;
    static struct rig rig;
    float x[PRODUCTS][COUNT * COUNT];
    uint8_t take[COUNT] = { 1, 0, 1, 1, 0, 1 };
    char input[16], left[16], right[16], names[40], output[16];

    (void)state;
    graph.count = 0;
    onnx_input(&graph, "take", INLAY_BOOL, 1, line);
    for (int i = 0; i < PRODUCTS; i++) {
        (void)snprintf(input, sizeof input, "x%d", i);
        onnx_input(&graph, input, INLAY_FLOAT, 2, square);
        (void)snprintf(names, sizeof names, "%s,take", input);
        (void)snprintf(left, sizeof left, "rows%d", i);
        (void)snprintf(right, sizeof right, "columns%d", i);
        (void)snprintf(output, sizeof output, "y%d", i);
        onnx_node_int(&graph, "Compress", "", names, left, "axis", 0);
        onnx_node_int(&graph, "Compress", "", names, right, "axis", 1);
    }
    for (int i = 0; i < PRODUCTS; i++) {
        (void)snprintf(names, sizeof names, "rows%d,columns%d", i, i);
        (void)snprintf(output, sizeof output, "y%d", i);
        onnx_node(&graph, "MatMul", "", names, output);
        onnx_output(&graph, output, INLAY_FLOAT, 2, unknown);
    }
    open_rig(&rig, &graph);
    assert_int_equal(regions_on_chip(&rig), 1);
    bind(&rig, 0, INLAY_BOOL, 1, line, take, sizeof take);
    for (int i = 0; i < PRODUCTS; i++) {
        for (int k = 0; k < COUNT * COUNT; k++)
            x[i][k] = (float)((k * 7 + i) % 5);
        bind(&rig, 1 + (uint32_t)i, INLAY_FLOAT, 2, square, x[i], sizeof x[i]);
    }
    run(&rig);
    for (int i = 0; i < PRODUCTS; i++) {
        const float *got = inlay_value_data(inlay_context_output(rig.context, (uint32_t)i));

        for (int row = 0; row < COUNT; row++)
            for (int column = 0; take[row] && column < COUNT; column++) {
                float sum = 0;

                for (int k = 0; k < COUNT; k++)
                    sum += x[i][row * COUNT + k] * x[i][k * COUNT + column];
                if (take[column])
                    assert_float_equal(*got++, sum, 0);
            }
    }
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(many_inputs), cmocka_unit_test(many_inputs_of_unknown_size) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
