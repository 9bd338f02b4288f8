/* Calibrate and tune through the public interface: a device whose model is far too optimistic loses its nodes once it
 * was measured, and cancelled operations change nothing. No condition depends on the speed of the machine: the device
 * delays its jobs by much more than any kernel of a CPU takes. */
#include "assigned.h"
#include "folder.h"
#include "inlay/inlay.h"
#include "onnx_bytes.h"
#include "partition/cost/cost_profile.h"

static inlay_options *make_options(const char *providers, const char *delay_us)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options;

    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "plugin_dirs", FAKE_DIR, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", providers, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "intra_threads", "1", &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "level", "0", &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "cache_dir", folder, &diag), INLAY_OK);
    if (delay_us != NULL)
        assert_int_equal(inlay_options_set(options, "fake.delay_us", delay_us, &diag), INLAY_OK);
    inlay_options_set_log(options, keep_log, NULL);
    return options;
}

/* Many small steps on a large tensor. They are worth two copies to a device whose model reports no cost. */
static void chain(onnx_bytes *bytes)
{
    static const int64_t dims[] = { 1 << 9, 1 << 9 };
    static const char *const names[] = { "x", "a", "b", "c", "d", "e", "f", "y" };

    onnx_input(bytes, "x", INLAY_FLOAT, 2, dims);
    for (int i = 0; i < 7; i++)
        onnx_node(bytes, i % 2 == 0 ? "Neg" : "Relu", "", names[i], names[i + 1]);
    onnx_output(bytes, "y", INLAY_FLOAT, 2, dims);
}

static inlay_session *open_chain(const char *delay_us)
{
    inlay_options *options = make_options("fake,reference", delay_us);
    static onnx_bytes file; /* the session reads from it */
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    onnx_bytes bytes = { .count = 0 };

    chain(&bytes);
    file.count = 0;
    assert_int_equal(onnx_file(&file, &bytes, 17, NULL), 0);
    if (inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
    return session;
}

static uint32_t changes;
static void count_change(void *user, const inlay_tune_change *change)
{
    ++*(uint32_t *)user;
    assert_true(change->struct_size >= sizeof *change);
    assert_string_not_equal(change->from, change->to);
    assert_non_null(change->node);
    assert_true(strcmp(change->op_type, "Neg") == 0 || strcmp(change->op_type, "Relu") == 0);
    assert_true(change->from_ns > 0 && change->to_ns > 0);
}

static void measuring_changes_the_choice(void **state)
{
    inlay_tune_options how = { .struct_size = sizeof how, .runs = 3, .change = count_change, .change_user = &changes };
    inlay_tune_result result = { .struct_size = sizeof result };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = open_chain("60000");

    (void)state;
    assert_true(runs_on(session, "fake"));
    assert_false(runs_on(session, "reference"));
    changes = 0;
    if (inlay_tune(session, &how, &result, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(result.offer_count, 15);
    assert_int_equal(result.kernel_count, 4); /* Neg, Relu and their chain; the device's region of all nodes */
    assert_int_equal(result.known_count, 0);
    assert_int_equal(result.measured_count, 4);
    assert_int_equal(result.failed_count, 0);
    assert_int_equal(result.stopped, 0);
    assert_int_equal(result.changed_count, 7);
    assert_int_equal(changes, 7);
    assert_true(result.pruned_count <= result.offer_count && result.seconds > 0);
    assert_true(result.run_before_ns > 0 && result.run_after_ns > 0 &&
                result.run_after_ns < result.run_before_ns); /* both assignments were run */
    assert_true(result.measured_ns > result.before_ns && result.after_ns < result.measured_ns);
    /* This session does not change; the next one uses the measurements. */
    assert_true(runs_on(session, "fake"));
    inlay_session_destroy(session);
    session = open_chain("60000");
    assert_true(runs_on(session, "reference"));
    assert_false(runs_on(session, "fake"));
    /* Stored measurements count as known, and the assignment does not change. */
    assert_int_equal(inlay_tune(session, &how, &result, &diag), INLAY_OK);
    assert_int_equal(result.changed_count, 0);
    assert_true(result.known_count > 0);
    inlay_session_destroy(session);
    /* With other settings the device counts as another one. */
    session = open_chain("1");
    assert_int_equal(inlay_tune(session, &how, &result, &diag), INLAY_OK);
    assert_int_equal(result.kernel_count, 4);
    assert_int_equal(result.known_count, 3);
    inlay_session_destroy(session);
}

static int cancel_after(void *user, double fraction, const char *what)
{
    uint32_t *left = user;

    assert_true(fraction >= 0 && fraction <= 1);
    assert_non_null(what);
    return *left == 0 || --*left == 0;
}

/* After the first kernel, whose number of runs depends on what other processes do. */
static int cancel_after_kernel(void *user, double fraction, const char *what)
{
    (void)user, (void)what;
    return fraction > 0;
}

static void cancelled_tuning_keeps_results(void **state)
{
    uint32_t left = 1;
    inlay_tune_options how = { .struct_size = sizeof how, .runs = 2, .progress = cancel_after, .progress_user = &left };
    inlay_tune_result result = { .struct_size = sizeof result };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = open_chain("1");

    (void)state;
    assert_int_equal(inlay_tune(session, &how, &result, &diag), INLAY_OK);
    assert_int_equal(result.stopped, 1);
    assert_int_equal(result.measured_count, 0);
    how.progress = cancel_after_kernel;
    assert_int_equal(inlay_tune(session, &how, &result, &diag), INLAY_OK);
    assert_int_equal(result.stopped, 1);
    assert_true(result.measured_count > 0 && result.measured_count < result.kernel_count);
    how.progress = NULL;
    how.budget_s = 1e-9; /* is enough for the kernel with the longest expected time, and for no other one */
    assert_int_equal(inlay_tune(session, &how, &result, &diag), INLAY_OK);
    assert_int_equal(result.stopped, 1);
    assert_int_equal(result.measured_count, 1);
    assert_true(result.known_count > 0);
    assert_int_equal(inlay_tune(session, NULL, NULL, &diag), INLAY_OK);
    inlay_session_destroy(session);
}

/* Measurements of runs are known to the next session. */
static void runs_are_recorded(void **state)
{
    static const int64_t dims[] = { 1 << 9, 1 << 9 };
    inlay_tune_options how = { .struct_size = sizeof how, .budget_s = 1e-9 };
    inlay_tune_result result = { .struct_size = sizeof result };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = open_chain("1");
    inlay_context *context = NULL;
    inlay_value *value = NULL;
    uint32_t count = 99;

    (void)state;
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(context, 0, value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_record(context, &count, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(count, 0);
    assert_int_equal(inlay_context_measure(context, 1, &diag), INLAY_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(inlay_context_run(context, NULL, &diag), INLAY_OK);
    if (inlay_context_record(context, &count, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(inlay_tune(session, &how, &result, &diag), INLAY_OK);
    assert_int_equal(count, 2); /* the device's Neg and Relu, each with its share of the region */
    assert_int_equal(result.known_count, 1);
    inlay_context_destroy(context);
    inlay_value_unref(value);
    inlay_session_destroy(session);
}

/* Predictions and records of a run use the shapes that its data had. */
static void predictions_follow_the_data(void **state)
{
    static const int64_t dims[] = { 100, 100 }, found[] = { -1, 2 };
    inlay_tune_options how = { .struct_size = sizeof how, .budget_s = 60, .runs = 1 };
    inlay_tune_result result = { .struct_size = sizeof result };
    inlay_plan_info none = { .struct_size = sizeof none }, all = none;
    inlay_options *options = make_options("reference", NULL);
    onnx_bytes bytes = { .count = 0 }, file = { .count = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_value *value = NULL;
    uint32_t count = 0;

    (void)state;
    onnx_input(&bytes, "x", INLAY_FLOAT, 2, dims);
    onnx_node(&bytes, "NonZero", "", "x", "where");
    onnx_node(&bytes, "Transpose", "", "where", "rows");
    onnx_node(&bytes, "Neg", "", "rows", "y");
    onnx_output(&bytes, "y", INLAY_INT64, 2, found);
    assert_int_equal(onnx_file(&file, &bytes, 17, NULL), 0);
    if (inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(context, 0, value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_measure(context, 1, &diag), INLAY_OK);
    memset(inlay_value_data(value), 0, 10000 * sizeof(float));
    assert_int_equal(inlay_context_run(context, NULL, &diag), INLAY_OK);
    assert_int_equal(inlay_context_plan(context, &none), INLAY_OK);
    for (int i = 0; i < 10000; i++)
        ((float *)inlay_value_data(value))[i] = 1;
    assert_int_equal(inlay_context_run(context, NULL, &diag), INLAY_OK);
    assert_int_equal(inlay_context_plan(context, &all), INLAY_OK);
    assert_true(all.predicted_ns > 2 * none.predicted_ns);
    assert_int_equal(inlay_context_record(context, &count, &diag), INLAY_OK);
    assert_int_equal(count, 3);
    /* Tuned on the same data, all three kernels are known. */
    how.inputs = &value;
    how.input_count = 1;
    assert_int_equal(inlay_tune(session, &how, &result, &diag), INLAY_OK);
    assert_int_equal(result.kernel_count, 3);
    assert_int_equal(result.known_count, 3);
    inlay_context_destroy(context);
    inlay_value_unref(value);
    inlay_session_destroy(session);
}

/* A rank that depends on data: tuning determines the shapes by one run on the caller's inputs, and measurements of an
 * earlier run on them are known. */
static void ranks_follow_the_data(void **state)
{
    static const int64_t dims[] = { 6, 4 }, many[] = { -1 }, two[] = { 3, 8 }, count = 2;
    inlay_tune_options how = { .struct_size = sizeof how, .budget_s = 60, .runs = 1 };
    inlay_tune_result result = { .struct_size = sizeof result };
    inlay_options *options = make_options("reference", NULL);
    onnx_bytes bytes = { .count = 0 }, file = { .count = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *inputs[2] = { NULL, NULL };
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    uint32_t recorded = 0;

    (void)state;
    onnx_input(&bytes, "x", INLAY_FLOAT, 2, dims);
    onnx_input(&bytes, "shape", INLAY_INT64, 1, many);
    onnx_node(&bytes, "Reshape", "", "x,shape", "a");
    onnx_node(&bytes, "Neg", "", "a", "b");
    onnx_node(&bytes, "Abs", "", "b", "y");
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, two);
    assert_int_equal(onnx_file(&file, &bytes, 17, NULL), 0);
    if (inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &inputs[0], &diag), INLAY_OK);
    assert_int_equal(inlay_value_create(INLAY_INT64, 1, &count, &inputs[1], &diag), INLAY_OK);
    memset(inlay_value_data(inputs[0]), 0, 24 * sizeof(float));
    memcpy(inlay_value_data(inputs[1]), two, sizeof two);
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(inlay_context_set_input(context, i, inputs[i], &diag), INLAY_OK);
    assert_int_equal(inlay_context_measure(context, 1, &diag), INLAY_OK);
    assert_int_equal(inlay_context_run(context, NULL, &diag), INLAY_OK);
    assert_int_equal(inlay_context_record(context, &recorded, &diag), INLAY_OK);
    assert_int_equal(recorded, 3);
    how.inputs = inputs;
    how.input_count = 2;
    assert_int_equal(inlay_tune(session, &how, &result, &diag), INLAY_OK);
    assert_int_equal(result.known_count, result.kernel_count);
    inlay_context_destroy(context);
    inlay_value_unref(inputs[0]);
    inlay_value_unref(inputs[1]);
    inlay_session_destroy(session);
}

static void calibrate_measures_a_device(void **state)
{
    static const uint32_t one = 1;
    /* A budget of one day: with a small one, the number of skipped kernels would depend on the machine's load. */
    inlay_calibrate_options what = {
        .struct_size = sizeof what, .threads = &one, .thread_count = 1, .quick = 1, .budget_s = 86400
    };
    inlay_calibrate_result result = { .struct_size = sizeof result };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = make_options("fake", NULL);
    cost_profile profile;
    size_t bytes, again;
    uint32_t left = 20;
    char *data, *later;

    (void)state;
    if (inlay_calibrate(options, &what, &result, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(result.provider_count, 1);
    assert_int_equal(result.link_count, 2);
    assert_true(result.kernel_count >= 9 && result.line_count >= 3 && result.median_error >= 1 && result.seconds > 0);
    assert_string_equal(result.path, in_folder("costs/machine.json"));
    {
        char root[PATH_MAX + 8];
        (void)snprintf(root, sizeof root, "%s/costs", folder);
        assert_int_equal(profile_load(root, NULL, NULL, &profile), INLAY_OK);
    }
    assert_int_equal(profile.provider_count, 1);
    assert_int_equal(profile.providers[0].link_count, 1);
    assert_string_equal(profile.providers[0].links[0].domain, "fake.memory");
    assert_true(profile.providers[0].links[0].to.latency_ns + profile.providers[0].links[0].to.ns_per_byte > 0);
    profile_deinit(&profile);
    /* A cancelled calibration does not change the file. */
    data = read_file("costs/machine.json", &bytes);
    inlay_options_set_progress(options, cancel_after, &left);
    assert_int_equal(inlay_calibrate(options, &what, &result, &diag), INLAY_CANCELLED);
    later = read_file("costs/machine.json", &again);
    assert_int_equal(bytes, again);
    assert_memory_equal(data, later, bytes);
    free(later);
    /* A budget that is too short for one kernel does not change it either. */
    inlay_options_set_progress(options, NULL, NULL);
    what.budget_s = 1e-9;
    assert_int_equal(inlay_calibrate(options, &what, &result, &diag), INLAY_DEADLINE_EXCEEDED);
    assert_non_null(strstr(diag.text, "is too small to time one kernel"));
    later = read_file("costs/machine.json", &again);
    assert_int_equal(bytes, again);
    assert_memory_equal(data, later, bytes);
    free(data);
    free(later);
    inlay_options_destroy(options);
}

static void calibrate_rejects_invalid_options(void **state)
{
    static const uint32_t many = 100000;
    inlay_calibrate_options what = { .struct_size = sizeof what, .threads = &many, .thread_count = 1 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = make_options("fake", NULL);

    (void)state;
    assert_int_equal(inlay_calibrate(options, &what, NULL, &diag), INLAY_INVALID_ARGUMENT);
    what.thread_count = 0;
    assert_int_equal(inlay_options_set(options, "cache_dir", "", &diag), INLAY_OK);
    assert_int_equal(inlay_calibrate(options, &what, NULL, &diag), INLAY_IO_ERROR);
    assert_non_null(strstr(diag.text, "cache_dir"));
    assert_int_equal(inlay_options_set(options, "providers", "unknown", &diag), INLAY_OK);
    assert_int_not_equal(inlay_calibrate(options, &what, NULL, &diag), INLAY_OK);
    inlay_options_destroy(options);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(measuring_changes_the_choice),
        IN_FOLDER(cancelled_tuning_keeps_results),
        IN_FOLDER(runs_are_recorded),
        IN_FOLDER(predictions_follow_the_data),
        IN_FOLDER(ranks_follow_the_data),
        IN_FOLDER(calibrate_measures_a_device),
        IN_FOLDER(calibrate_rejects_invalid_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
