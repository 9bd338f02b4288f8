/* Requests of the application to an open provider: inlay_session_control(), priority and power of runs. */
#include "fake_rig.h"
#include "text_buffer.h"
#include "inlay/extensions.h"
#include <pthread.h>
#include <string.h>

static inlay_status ask(struct rig *rig, uint32_t action, inlay_control_request *request, inlay_diag *diag)
{
    request->struct_size = sizeof *request;
    if (request->provider == NULL)
        request->provider = "fake";
    request->action = action;
    return inlay_session_control(rig->session, request, diag);
}

static void runs_state_priority_and_power(void **state)
{
    inlay_run_options options = INLAY_RUN_OPTIONS_INIT;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig = open_chain(NULL);

    (void)state;
    run(&rig);
    assert_int_equal(counted(&rig.counters->priority), INLAY_PRIORITY_NORMAL);
    options.priority = INLAY_PRIORITY_HIGH;
    options.power = INLAY_POWER_EFFICIENCY;
    assert_int_equal(inlay_context_run(rig.context, &options, &diag), INLAY_OK);
    assert_int_equal(counted(&rig.counters->priority), INLAY_PRIORITY_HIGH);
    assert_int_equal(counted(&rig.counters->power), INLAY_POWER_EFFICIENCY);
    /* A caller that was built before these fields. */
    options.struct_size = offsetof(inlay_run_options, power);
    assert_int_equal(inlay_context_run(rig.context, &options, &diag), INLAY_OK);
    assert_int_equal(counted(&rig.counters->priority), INLAY_PRIORITY_NORMAL);
    assert_int_equal(counted(&rig.counters->power), INLAY_POWER_DEFAULT);
    options.struct_size = sizeof options;
    options.power = 3;
    assert_int_equal(inlay_context_run(rig.context, &options, &diag), INLAY_INVALID_ARGUMENT);
    close_rig(&rig);
}

/* Runs that state none have priority and power of the session's options, and so has its memory. */
static void sessions_state_priority_and_power(void **state)
{
    const char *settings[] = { "priority", "high", "power", "efficiency", NULL };
    inlay_run_options options = INLAY_RUN_OPTIONS_INIT;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;
    struct rig rig;

    (void)state;
    session_options = settings;
    rig = open_chain(NULL);
    session_options = NULL;
    run(&rig);
    assert_int_equal(counted(&rig.counters->priority), INLAY_PRIORITY_HIGH);
    assert_int_equal(counted(&rig.counters->power), INLAY_POWER_EFFICIENCY);
    assert_int_equal(counted(&rig.counters->memory_priority), INLAY_PRIORITY_HIGH);
    options.priority = INLAY_PRIORITY_LOW;
    assert_int_equal(inlay_context_run(rig.context, &options, &diag), INLAY_OK);
    assert_int_equal(counted(&rig.counters->priority), INLAY_PRIORITY_LOW);
    assert_int_equal(counted(&rig.counters->power), INLAY_POWER_EFFICIENCY);
    close_rig(&rig);
    settings[1] = "low", session_options = settings;
    rig = open_chain(NULL);
    session_options = NULL;
    assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, dims, &value, &diag), INLAY_OK);
    assert_int_equal(counted(&rig.counters->memory_priority), INLAY_PRIORITY_LOW);
    run(&rig);
    assert_int_equal(counted(&rig.counters->priority), INLAY_PRIORITY_LOW);
    inlay_value_unref(value);
    close_rig(&rig);
}

static void options_change(void **state)
{
    static const struct {
        const char *provider, *option, *value;
        inlay_status status;
        const char *words;
    } rows[] = {
        { NULL, "delay_us", "2000", INLAY_OK, "" },
        { NULL, "delay_us", NULL, INLAY_OK, "" },
        { NULL, "delay_us", "-1", INLAY_INVALID_ARGUMENT, "delay_us" },
        { NULL, "delay", "1", INLAY_INVALID_ARGUMENT, "did you mean 'delay_us'" },
        { NULL, "delay", NULL, INLAY_INVALID_ARGUMENT, "no option 'delay'" },
        { NULL, NULL, "1", INLAY_INVALID_ARGUMENT, "option is not set" },
        { NULL, "bounded", "true", INLAY_UNSUPPORTED, "option 'bounded' is fixed" },
        { "reference", "delay_us", "1", INLAY_INVALID_ARGUMENT, "no option" },
        { "nobody", "delay_us", "1", INLAY_NOT_FOUND, "no provider 'nobody'" },
    };
    struct rig rig = open_chain(NULL);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_control_request request = { .provider = rows[i].provider,
                                          .option = rows[i].option,
                                          .value = rows[i].value };
        inlay_diag diag = INLAY_DIAG_INIT;

        if (ask(&rig, INLAY_CONTROL_SET_OPTION, &request, &diag) != rows[i].status ||
            strstr(diag.text, rows[i].words) == NULL)
            fail_msg("row %zu: %s", i, diag.text);
    }
    {
        inlay_control_request request = { .option = "delay_us", .value = "1", .reserved = 1 };
        inlay_diag diag = INLAY_DIAG_INIT;

        assert_int_equal(ask(&rig, INLAY_CONTROL_SET_OPTION, &request, &diag), INLAY_INVALID_ARGUMENT);
        assert_non_null(strstr(diag.text, "reserved is not 0"));
    }
    assert_int_equal(counted(&rig.counters->controls), 3);
    run(&rig);
    expect_floats(rig.context, 0, chain_result, 6);
    close_rig(&rig);
}

static void memory_is_trimmed(void **state)
{
    inlay_control_request request = { .bytes = 4096 }, missing = { .provider = "reference" };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig = open_chain(NULL);

    (void)state;
    assert_int_equal(ask(&rig, INLAY_CONTROL_TRIM, &request, &diag), INLAY_OK);
    assert_int_equal(counted(&rig.counters->trimmed), 4096);
    assert_int_equal(request.freed_bytes, 2048);
    assert_int_equal(ask(&rig, INLAY_CONTROL_TRIM, &missing, &diag), INLAY_UNSUPPORTED);
    assert_int_equal(ask(&rig, 0, &request, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(ask(&rig, 5, &request, &diag), INLAY_INVALID_ARGUMENT);
    close_rig(&rig);
}

static void *suspend(void *rig)
{
    inlay_control_request request = { .provider = NULL };
    inlay_diag diag = INLAY_DIAG_INIT;

    return ask(rig, INLAY_CONTROL_SUSPEND, &request, &diag) == INLAY_OK ? rig : NULL;
}

/* SUSPEND waits for a run; then nothing uses the device until RESUME. */
static void a_device_is_suspended(void **state)
{
    const char *dirs[] = { FAKE_DIR };
    inlay_control_request request = { .provider = NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    const struct provider *provider;
    inlay_value *value, *home, *other;
    struct rig rig = open_chain(NULL);
    plugin_set *set;
    pthread_t thread;
    void *done;

    (void)state;
    assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, dims, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, a, sizeof a, &home, &diag), INLAY_OK);
    hold(rig.device, FAKE_HELD);
    assert_int_equal(inlay_context_run_async(rig.context, NULL, NULL, NULL, &diag), INLAY_OK);
    await(&rig.counters->submitted, 1);
    assert_int_equal(pthread_create(&thread, NULL, suspend, &rig), 0);
    (void)usleep(2000);
    assert_int_equal(counted(&rig.counters->suspended), 0); /* the run is in progress */
    hold(rig.device, FAKE_FREE);
    assert_int_equal(inlay_context_wait(rig.context, UINT64_MAX, &diag), INLAY_OK);
    assert_int_equal(pthread_join(thread, &done), 0);
    assert_non_null(done);
    assert_int_equal(counted(&rig.counters->suspended), 1);
    expect_floats(rig.context, 0, chain_result, 6);
    assert_int_equal(ask(&rig, INLAY_CONTROL_SUSPEND, &request, &diag), INLAY_OK); /* no effect */
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_BUSY);
    assert_non_null(strstr(diag.text, "provider fake is suspended"));
    assert_int_equal(inlay_value_copy(home, value, &diag), INLAY_BUSY);
    assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, dims, &other, &diag),
                     INLAY_BUSY);
    assert_int_equal(plugin_set_create(dirs, 1, NULL, NULL, &set, &diag), INLAY_OK);
    assert_int_equal(provider_open(set, "fake", NULL, 0, &provider, &diag), INLAY_BUSY);
    assert_int_equal(ask(&rig, INLAY_CONTROL_TRIM, &request, &diag), INLAY_OK);
    assert_int_equal(ask(&rig, INLAY_CONTROL_RESUME, &request, &diag), INLAY_OK);
    assert_int_equal(ask(&rig, INLAY_CONTROL_RESUME, &request, &diag), INLAY_OK); /* no effect */
    assert_int_equal(counted(&rig.counters->controls), 3);
    run(&rig);
    expect_floats(rig.context, 0, chain_result, 6);
    plugin_set_destroy(set);
    inlay_value_unref(home);
    inlay_value_unref(value);
    close_rig(&rig);
}

enum { RUNNERS = 3, RUNS = 40, REQUESTS = 60 };

struct runner_thread {
    struct rig *rig;
    pthread_t thread;
    uint32_t done, refused, failed; /* runs */
};

/* Runs in a separate context; a run that finds the device suspended is repeated. */
static void *run_often(void *user)
{
    struct runner_thread *runner = user;
    struct rig own = *runner->rig;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (inlay_context_create(own.session, &own.context, &diag) != INLAY_OK)
        return NULL;
    set_floats(own.context, 0, 2, dims, a);
    set_floats(own.context, 1, 2, dims, b);
    while (runner->done < RUNS && runner->failed == 0) {
        const inlay_status status = inlay_context_run(own.context, NULL, &diag);

        runner->done += status == INLAY_OK;
        runner->refused += status == INLAY_BUSY;
        runner->failed += status != INLAY_OK && status != INLAY_BUSY;
        runner->failed += status == INLAY_OK && memcmp(inlay_value_data(inlay_context_output(own.context, 0)),
                                                       chain_result, sizeof chain_result) != 0;
    }
    inlay_context_destroy(own.context);
    return NULL;
}

/* Requests while several threads run one instance, which executes once at a time. */
static void requests_among_runs(void **state)
{
    struct runner_thread runners[RUNNERS] = { { 0 } };
    struct rig rig;

    (void)state;
    assert_int_equal(setenv("FAKE_SERIAL", "1", 1), 0);
    rig = open_chain(NULL);
    run(&rig);
    for (int i = 0; i < RUNNERS; i++) {
        runners[i].rig = &rig;
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run_often, &runners[i]), 0);
    }
    for (int i = 0; i < REQUESTS; i++) {
        static const uint32_t actions[] = { INLAY_CONTROL_SET_OPTION, INLAY_CONTROL_SUSPEND, INLAY_CONTROL_TRIM,
                                            INLAY_CONTROL_RESUME };
        inlay_control_request request = { .option = "delay_us", .value = i % 8 == 0 ? "1" : "0" };
        inlay_diag diag = INLAY_DIAG_INIT;

        if (ask(&rig, actions[i % 4], &request, &diag) != INLAY_OK)
            fail_msg("request %d: %s", i, diag.text);
        (void)usleep(100);
    }
    for (int i = 0; i < RUNNERS; i++) {
        assert_int_equal(pthread_join(runners[i].thread, NULL), 0);
        assert_int_equal(runners[i].failed, 0);
        assert_int_equal(runners[i].done, RUNS);
    }
    assert_int_equal(counted(&rig.counters->overlaps), 0);
    close_rig(&rig);
    assert_int_equal(unsetenv("FAKE_SERIAL"), 0);
}

/* If a provider cannot list all kernels, the report holds those that it listed, and the log says why. */
static void a_failure_of_the_list_of_kernels_is_logged(void **state)
{
    static const char *const lists[] = { "lists_kernels", "true", NULL };
    const inlay_explain_options options = { .struct_size = sizeof options, .flags = INLAY_EXPLAIN_KERNELS };
    struct text_buffer text = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    rig = open_chain(lists);
    log_text[0] = '\0';
    assert_int_equal(inlay_session_explain(rig.session, &options, text_buffer_append, &text, &diag), INLAY_OK);
    assert_non_null(strstr(text.data, "fake_kernel"));
    assert_non_null(strstr(log_text, "the list of kernels is incomplete: provider fake"));
    assert_non_null(strstr(log_text, "the list of kernels cannot be read"));
    text_buffer_free(&text);
    close_rig(&rig);
}

/* inlay_session_update() on a device with memory of its own: old weights leave it with the last run that needs them. */
static void weights_are_replaced(void **state)
{
    inlay_control_request request = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig = open_chain(NULL);
    const char *name = "c";
    inlay_value *value;
    uint32_t regions, buffers;
    float weights[6], want[6];

    (void)state;
    run(&rig);
    expect_floats(rig.context, 0, chain_result, 6);
    regions = counted(&rig.counters->live_regions);
    buffers = counted(&rig.counters->live_buffers);
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, weights, sizeof weights, &value, &diag), INLAY_OK);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 6; i++) {
            weights[i] = (float)(10 * turn + i);
            want[i] = chain_result[i] - b[i] + weights[i];
        }
        assert_int_equal(inlay_session_update(rig.session, 1, &name, &value, &diag), INLAY_OK);
        memset(weights, 0, sizeof weights); /* update has copied the weights */
        run(&rig);
        expect_floats(rig.context, 0, want, 6);
        assert_int_equal(counted(&rig.counters->live_regions), regions);
        assert_int_equal(counted(&rig.counters->live_buffers), buffers);
    }
    assert_int_equal(ask(&rig, INLAY_CONTROL_SUSPEND, &request, &diag), INLAY_OK);
    assert_int_equal(inlay_session_update(rig.session, 1, &name, &value, &diag), INLAY_BUSY);
    request = (inlay_control_request){ 0 };
    assert_int_equal(ask(&rig, INLAY_CONTROL_RESUME, &request, &diag), INLAY_OK);
    run(&rig);
    expect_floats(rig.context, 0, want, 6);
    inlay_value_unref(value);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_state_priority_and_power),
        cmocka_unit_test(sessions_state_priority_and_power),
        cmocka_unit_test(options_change),
        cmocka_unit_test(memory_is_trimmed),
        cmocka_unit_test(a_device_is_suspended),
        cmocka_unit_test(requests_among_runs),
        cmocka_unit_test(a_failure_of_the_list_of_kernels_is_logged),
        cmocka_unit_test(weights_are_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
