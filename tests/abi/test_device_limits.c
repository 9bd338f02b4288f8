/* What a provider states about its calls, on the fake device: the number of fences that it accepts, that an instance
 * executes once at a time, and the alignment of its workspace. */
#include "fake_models.h"
#include "threads/fence.h"
#include <string.h>

enum { INPUTS = 24, STREAMS = INPUTS / MAX_STREAM_FENCES, FEW = 16 };

/* The sum of all inputs. */
static void sum(onnx_bytes *bytes)
{
    char inputs[32], output[16];

    for (int i = 0; i < INPUTS; i++) {
        (void)snprintf(inputs, sizeof inputs, "x%d", i);
        onnx_input(bytes, inputs, INLAY_FLOAT, 2, dims);
    }
    for (int i = 1; i < INPUTS; i++) {
        (void)snprintf(inputs, sizeof inputs, "%s%d,x%d", i == 1 ? "x" : "s", i - 1, i);
        (void)snprintf(output, sizeof output, "s%d", i);
        onnx_node(bytes, "Add", "", inputs, output);
    }
    onnx_output(bytes, output, INLAY_FLOAT, 2, dims);
}

/* Inputs on the device that streams of another library still write: the region waits for a fence of each. */
static void bind_streams(struct rig *rig, fake_stream *streams)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    for (uint32_t i = 0; i < INPUTS; i++) {
        inlay_value *value, *home;

        assert_int_equal(inlay_session_value_create_on(rig->session, "fake", INLAY_FLOAT, 2, dims, &value, &diag),
                         INLAY_OK);
        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, a, sizeof a, &home, &diag), INLAY_OK);
        assert_int_equal(inlay_value_copy(home, value, &diag), INLAY_OK);
        assert_int_equal(inlay_value_wait_stream(value, (uintptr_t)&streams[i / MAX_STREAM_FENCES], &diag), INLAY_OK);
        assert_int_equal(inlay_context_set_input(rig->context, i, value, &diag), INLAY_OK);
        inlay_value_unref(home);
        inlay_value_unref(value);
    }
}

/* With max_waits, the host waits for the fences that the provider does not accept. */
static void the_host_joins_fences(void **state)
{
    static const char *const limits[] = { NULL, "16", "1" };
    float want[6];

    (void)state;
    for (int i = 0; i < 6; i++)
        want[i] = INPUTS * a[i];
    for (size_t k = 0; k < sizeof limits / sizeof limits[0]; k++) {
        const uint32_t limit = limits[k] != NULL ? (uint32_t)atoi(limits[k]) : INPUTS;
        fake_stream streams[STREAMS] = { { 0 } };
        onnx_bytes bytes = { .count = 0 };
        inlay_diag diag = INLAY_DIAG_INIT;
        struct rig rig;

        if (limits[k] != NULL)
            assert_int_equal(setenv("FAKE_MAX_WAITS", limits[k], 1), 0);
        sum(&bytes);
        rig = open_rig(&bytes, NULL);
        for (int failing = 0; failing < 2; failing++) {
            for (int i = 0; i < STREAMS; i++)
                streams[i] = (fake_stream){ .kind = FAKE_STREAM, .busy = 1 };
            bind_streams(&rig, streams);
            assert_int_equal(inlay_context_run_async(rig.context, NULL, NULL, NULL, &diag), INLAY_OK);
            for (int i = 0; i < STREAMS; i++) {
                assert_int_equal(inlay_context_wait(rig.context, 0, &diag), INLAY_BUSY);
                end_stream(&streams[i], failing != 0 && i == STREAMS - 1 ? INLAY_IO_ERROR : INLAY_OK);
            }
            assert_int_equal(inlay_context_wait(rig.context, UINT64_MAX, &diag), failing ? INLAY_IO_ERROR : INLAY_OK);
            if (!failing) {
                expect_floats(rig.context, 0, want, 6);
                assert_int_equal(counted(&rig.counters->most_waits), limit);
            }
        }
        assert_non_null(strstr(diag.text, "the external kernel failed"));
        for (uint32_t i = 0; i < INPUTS; i++)
            assert_int_equal(inlay_context_set_input(rig.context, i, NULL, &diag), INLAY_OK);
        close_rig(&rig);
        assert_int_equal(unsetenv("FAKE_MAX_WAITS"), 0);
    }
}

enum { UPLOADS = 6 };

/* Runs the model, whose first UPLOADS inputs are the same, while its copies to the device are held until all of them
 * are queued. The device runs the latest job that is ready, so a region that waits for too few of them comes before the
 * others. */
static void run_held(struct rig *rig, uint32_t copies)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    hold(rig->device, FAKE_HELD);
    assert_int_equal(inlay_context_run_async(rig->context, NULL, NULL, NULL, &diag), INLAY_OK);
    await(&rig->counters->order_count, copies);
    (void)usleep(5000);
    assert_int_equal(counted(&rig->counters->submitted), 0);
    hold(rig->device, FAKE_FREE);
    if (inlay_context_wait(rig->context, UINT64_MAX, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(counted(&rig->counters->most_waits), 1);
    assert_int_equal(counted(&rig->counters->submitted), 1);
}

/* The same for fences of the device itself: copies that follow the nodes of the host that write their sources. */
static void the_host_joins_copies(void **state)
{
    static const char *const unordered[] = { "unordered", "true", NULL };
    onnx_bytes bytes = { .count = 0 };
    char input[16], output[16], names[32];
    float want[6];
    struct rig rig;

    (void)state;
    assert_int_equal(setenv("FAKE_MAX_WAITS", "1", 1), 0);
    for (int i = 0; i < UPLOADS; i++) {
        (void)snprintf(input, sizeof input, "x%d", i);
        (void)snprintf(output, sizeof output, "c%d", i);
        onnx_input(&bytes, input, INLAY_FLOAT, 2, dims);
        onnx_node(&bytes, "Ceil", "", input, output);
    }
    for (int i = 1; i < UPLOADS; i++) {
        (void)snprintf(names, sizeof names, "%s%d,c%d", i == 1 ? "c" : "s", i - 1, i);
        (void)snprintf(output, sizeof output, "s%d", i);
        onnx_node(&bytes, "Add", "", names, output);
    }
    onnx_output(&bytes, output, INLAY_FLOAT, 2, dims);
    rig = open_rig(&bytes, unordered);
    for (uint32_t i = 0; i < UPLOADS; i++)
        set_floats(rig.context, i, 2, dims, a);
    for (int k = 0; k < 6; k++)
        want[k] = UPLOADS * a[k];
    run_held(&rig, UPLOADS);
    expect_floats(rig.context, 0, want, 6);
    close_rig(&rig);
    assert_int_equal(unsetenv("FAKE_MAX_WAITS"), 0);
}

/* The same for a region whose shapes are known during the run only. */
static void the_host_joins_copies_of_unknown_size(void **state)
{
    static const char *const unordered[] = { "unordered", "true", NULL };
    static const int64_t shape[] = { 6 }, unknown[] = { -1 };
    static const float want[] = { -1, -3, -5 };
    float x[] = { 1, 2, 3, 4, 5, 6 };
    uint8_t take[] = { 1, 0, 1, 0, 1, 0 };
    onnx_bytes bytes = { .count = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    char input[16], names[32], output[16];
    inlay_value *value;
    struct rig rig;

    (void)state;
    assert_int_equal(setenv("FAKE_MAX_WAITS", "1", 1), 0);
    for (int i = 0; i < UPLOADS; i++) {
        (void)snprintf(input, sizeof input, "x%d", i);
        onnx_input(&bytes, input, INLAY_FLOAT, 1, shape);
    }
    onnx_input(&bytes, "take", INLAY_BOOL, 1, shape);
    for (int i = 0; i < UPLOADS; i++) {
        (void)snprintf(names, sizeof names, "x%d,take", i);
        (void)snprintf(output, sizeof output, "c%d", i);
        onnx_node(&bytes, "Compress", "", names, output);
    }
    for (int i = 0; i < UPLOADS; i++) {
        (void)snprintf(names, sizeof names, "c%d", i);
        (void)snprintf(output, sizeof output, "y%d", i);
        onnx_node(&bytes, "Neg", "", names, output);
        onnx_output(&bytes, output, INLAY_FLOAT, 1, unknown);
    }
    rig = open_rig(&bytes, unordered);
    for (uint32_t i = 0; i < UPLOADS; i++)
        set_floats(rig.context, i, 1, shape, x);
    assert_int_equal(inlay_value_borrow(INLAY_BOOL, 1, shape, take, sizeof take, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig.context, UPLOADS, value, &diag), INLAY_OK);
    inlay_value_unref(value);
    run_held(&rig, UPLOADS);
    for (uint32_t i = 0; i < UPLOADS; i++)
        expect_floats(rig.context, i, want, 3);
    close_rig(&rig);
    assert_int_equal(unsetenv("FAKE_MAX_WAITS"), 0);
}

/* Two contexts run the same instance. Held jobs show whether the second execute comes before the end of the first. */
static void an_instance_executes_once_at_a_time(void **state)
{
    (void)state;
    for (uint32_t serial = 0; serial < 2; serial++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_context *other;
        struct rig rig;

        if (serial)
            assert_int_equal(setenv("FAKE_SERIAL", "1", 1), 0);
        rig = open_chain(NULL);
        assert_int_equal(inlay_context_create(rig.session, &other, &diag), INLAY_OK);
        set_floats(other, 0, 2, dims, a);
        set_floats(other, 1, 2, dims, b);
        hold(rig.device, FAKE_HELD);
        assert_int_equal(inlay_context_run_async(rig.context, NULL, NULL, NULL, &diag), INLAY_OK);
        await(&rig.counters->submitted, 1);
        assert_int_equal(inlay_context_run_async(other, NULL, NULL, NULL, &diag), INLAY_OK);
        if (serial)
            await(&rig.counters->order_count, 10); /* the copies of both runs are queued */
        else
            await(&rig.counters->submitted, 2);
        hold(rig.device, FAKE_FREE);
        assert_int_equal(inlay_context_wait(rig.context, UINT64_MAX, &diag), INLAY_OK);
        assert_int_equal(inlay_context_wait(other, UINT64_MAX, &diag), INLAY_OK);
        expect_floats(rig.context, 0, chain_result, 6);
        expect_floats(other, 0, chain_result, 6);
        assert_int_equal(counted(&rig.counters->submitted), 2);
        assert_int_equal(counted(&rig.counters->overlaps), serial ? 0 : 1);
        inlay_context_destroy(other);
        close_rig(&rig);
        assert_int_equal(unsetenv("FAKE_SERIAL"), 0);
    }
}

/* A run that waits for its turn can be cancelled; the other one is not affected. */
static void waiting_for_a_turn_is_cancelled(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t cancel = 0;
    const inlay_run_options stoppable = { .struct_size = sizeof stoppable, .cancel = &cancel };
    inlay_context *other;
    struct rig rig;

    (void)state;
    assert_int_equal(setenv("FAKE_SERIAL", "1", 1), 0);
    rig = open_chain(NULL);
    assert_int_equal(inlay_context_create(rig.session, &other, &diag), INLAY_OK);
    set_floats(other, 0, 2, dims, a);
    set_floats(other, 1, 2, dims, b);
    hold(rig.device, FAKE_HELD);
    assert_int_equal(inlay_context_run_async(rig.context, NULL, NULL, NULL, &diag), INLAY_OK);
    await(&rig.counters->submitted, 1);
    assert_int_equal(inlay_context_run_async(other, &stoppable, NULL, NULL, &diag), INLAY_OK);
    __atomic_store_n(&cancel, 1, __ATOMIC_RELEASE);
    hold(rig.device, FAKE_FREE);
    assert_int_equal(inlay_context_wait(other, UINT64_MAX, &diag), INLAY_CANCELLED);
    assert_int_equal(inlay_context_wait(rig.context, UINT64_MAX, &diag), INLAY_OK);
    expect_floats(rig.context, 0, chain_result, 6);
    assert_int_equal(inlay_context_run(other, NULL, &diag), INLAY_OK);
    expect_floats(other, 0, chain_result, 6);
    inlay_context_destroy(other);
    close_rig(&rig);
    assert_int_equal(unsetenv("FAKE_SERIAL"), 0);
}

static const char *const aligned[] = { "workspace_align", "4096", NULL };

/* The workspace of a small region lies behind two tensors that stay on the device meanwhile, whose sizes are not
 * multiples of its alignment. The device counts a misaligned workspace as misuse, which close_rig() reports. */
static void a_workspace_on_a_device_is_aligned(void **state)
{
    static const int64_t large[] = { 50, 100 }, axes[] = { 2 };
    static const int64_t both[] = { 0, 1 };
    static float x[5000];
    onnx_bytes bytes = { .count = 0 };
    struct rig rig;

    (void)state;
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = 1;
    onnx_input(&bytes, "x", INLAY_FLOAT, 2, large);
    onnx_constant(&bytes, "axes", INLAY_INT64, 1, axes, both, sizeof both);
    onnx_node(&bytes, "Neg", "", "x", "p");
    onnx_node(&bytes, "ReduceSum", "", "p,axes", "s"); /* on the host, as Div */
    onnx_node(&bytes, "Neg", "", "s", "n");
    onnx_node(&bytes, "Relu", "", "n", "r");
    onnx_node(&bytes, "Neg", "", "r", "u");
    onnx_node(&bytes, "Div", "", "p,u", "e");
    onnx_node(&bytes, "Add", "", "p,e", "y");
    onnx_node(&bytes, "Mul", "", "y,x", "z");
    onnx_output(&bytes, "z", INLAY_FLOAT, 2, large);
    rig = open_rig(&bytes, aligned);
    set_floats(rig.context, 0, 2, large, x);
    for (int i = 0; i < 2; i++) {
        run(&rig);
        assert_float_equal(((const float *)inlay_value_data(inlay_context_output(rig.context, 0)))[4999], -0.9998f,
                           1e-6);
    }
    assert_true(counted(&rig.counters->uses) & INLAY_USE_WORKSPACE);
    close_rig(&rig);
}

/* The same for a region whose sizes depend on data, and which therefore has memory of its own. */
static void a_workspace_of_unknown_size_is_aligned(void **state)
{
    struct rig rig;

    (void)state;
    rig = run_compressed("Relu", aligned);
    assert_true(counted(&rig.counters->uses) & INLAY_USE_WORKSPACE);
    close_rig(&rig);
}

/* 2 MiB is the largest alignment. */
static void a_workspace_is_aligned_to_two_mebibytes_at_most(void **state)
{
    static const char *const most[] = { "workspace_align", "2097152", NULL };
    static const char *const more[] = { "workspace_align", "4194304", NULL };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig rig;

        rig = open_chain(i == 0 ? most : more);
        assert_int_equal(inlay_context_run(rig.context, NULL, &diag), i == 0 ? INLAY_OK : INLAY_LIMIT_EXCEEDED);
        if (i == 1)
            assert_non_null(strstr(diag.text, "aligned to 4194304"));
        close_rig(&rig);
    }
}

/* Handle 0 means "no memory", so a provider that returns it fails the run, and is named. */
static void handle_zero_is_refused(void **state)
{
    static const char *const zero[] = { "zero_handle", "true", NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    rig = open_chain(zero);
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_INTERNAL);
    assert_non_null(strstr(diag.text, "provider fake: buffer_alloc succeeded with handle 0"));
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_joins_fences),
        cmocka_unit_test(the_host_joins_copies),
        cmocka_unit_test(the_host_joins_copies_of_unknown_size),
        cmocka_unit_test(an_instance_executes_once_at_a_time),
        cmocka_unit_test(waiting_for_a_turn_is_cancelled),
        cmocka_unit_test(handle_zero_is_refused),
        cmocka_unit_test(a_workspace_on_a_device_is_aligned),
        cmocka_unit_test(a_workspace_of_unknown_size_is_aligned),
        cmocka_unit_test(a_workspace_is_aligned_to_two_mebibytes_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
