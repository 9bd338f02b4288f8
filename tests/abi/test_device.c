/* Models on the fake device (fake_device.c), run through inlay.h: device memory, copies, fences that are signalled
 * later on another thread, groups, merged regions, data-dependent output shapes, cancellation, and loss of the
 * device. */
#include "fake_rig.h"
#include "base/provider_calls.h"
#include "threads/fence.h"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Adjacent nodes become one region; only its two inputs and its output are copied. */
static void neighbours_merge(void **state)
{
    struct rig rig;

    (void)state;
    rig = open_chain(NULL);
    for (int i = 1; i <= 3; i++) {
        run(&rig);
        expect_floats(rig.context, 0, chain_result, 6);
        assert_int_equal(counted(&rig.counters->executed), i);
        assert_int_equal(counted(&rig.counters->copied_in), 2 * i);
        assert_int_equal(counted(&rig.counters->copied_out), i);
    }
    assert_int_equal(rig.counters->compiled, 1);
    assert_int_equal(rig.counters->largest, 4);
    close_rig(&rig);
}

/* Nodes that the device does not support run on the host, and values are copied in both directions. */
static void two_providers_share_a_model(void **state)
{
    static const float expected[] = { -1, 0, -3, 0, -5, 0 };
    static const char *const slow[] = { "delay_us", "300", NULL };
    struct rig rig;

    (void)state;
    rig = open_script(slow, "a : 2,3\n"
                            "r = Relu(a)\n"  /* device */
                            "f = Floor(r)\n" /* host */
                            "n = Neg(f)\n"   /* device */
                            "y = Ceil(n)\n"  /* host */
                            "-> y : 2,3");
    set_floats(rig.context, 0, 2, dims, a);
    for (int i = 0; i < 3; i++) {
        run(&rig);
        expect_floats(rig.context, 0, expected, 6);
    }
    assert_int_equal(rig.counters->compiled, 2);
    assert_int_equal(rig.counters->executed, 6);
    close_rig(&rig);
}

static void a_group_runs_as_one(void **state)
{
    static const float expected[] = { 2, -1, 4, -6, 12, -10 };
    struct rig rig;

    (void)state;
    rig = open_script(NULL, "a : 2,3\n"
                            "b : 2,3\n"
                            "m = Mul(a,b)\n"
                            "y = Add(m,b)\n"
                            "-> y : 2,3");
    set_floats(rig.context, 0, 2, dims, a);
    set_floats(rig.context, 1, 2, dims, b);
    run(&rig);
    expect_floats(rig.context, 0, expected, 6);
    assert_int_equal(rig.counters->compiled, 1);
    assert_int_equal(rig.counters->largest, 2);
    close_rig(&rig);
}

/* NonZero's output: written into a buffer of the largest size, or allocated by callback. */
static void shapes_that_depend_on_data(void **state)
{
    static const char *const modes[][3] = { { "bounded", "true", NULL }, { "bounded", "false", NULL } };
    static const int64_t expected[] = { 0, 0, 1, 0, 2, 1 };
    float x[] = { 7, 0, 7, 0, 7, 0 }, zeros[6] = { 0 };

    (void)state;
    for (int m = 0; m < 2; m++) {
        const inlay_value *value;
        struct rig rig;

        rig = open_script(modes[m], "a : 2,3\n"
                                    "n = Neg(a)\n"
                                    "y = NonZero(n)\n"
                                    "-> y : int64 n,n");
        for (int round = 0; round < 4; round++) {
            set_floats(rig.context, 0, 2, dims, round % 2 == 0 ? x : zeros);
            run(&rig);
            value = inlay_context_output(rig.context, 0);
            assert_non_null(value);
            assert_int_equal(inlay_value_rank(value), 2);
            assert_int_equal(inlay_value_dims(value)[1], round % 2 == 0 ? 3 : 0);
            if (round % 2 == 0)
                assert_memory_equal(inlay_value_data(value), expected, sizeof expected);
        }
        close_rig(&rig);
    }
}

/* Other shapes get another plan, which uses no data of the old one. */
static void several_shapes(void **state)
{
    float x[30], expected[30];
    struct rig rig;

    (void)state;
    rig = open_script(NULL, "a : n,3\n"
                            "n = Neg(a)\n"
                            "z = Add(n,a)\n"
                            "y = Add(z,n)\n"
                            "-> y : n,3");
    for (int i = 0; i < 30; i++) {
        x[i] = (float)i;
        expected[i] = -(float)i;
    }
    for (int round = 0; round < 12; round++) {
        const int64_t shape[] = { 1 + round * 7 % 10, 3 };

        set_floats(rig.context, 0, 2, shape, x);
        run(&rig);
        expect_floats(rig.context, 0, expected, shape[0] * 3);
    }
    close_rig(&rig);
}

struct canceller {
    const fake_counters *counters;
    uint32_t cancel;
};

/* Cancels once the device has begun. */
static void *cancel_later(void *arg)
{
    struct canceller *canceller = arg;

    await(&canceller->counters->begun, 1);
    __atomic_store_n(&canceller->cancel, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void cancelling_a_run_in_flight(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    pthread_t thread;
    struct canceller canceller = { .cancel = 0 };
    inlay_run_options options = { .struct_size = sizeof options, .cancel = &canceller.cancel };
    struct rig rig;

    (void)state;
    rig = open_chain(NULL);
    hold(rig.device, FAKE_HELD);
    canceller.counters = rig.counters;
    assert_int_equal(pthread_create(&thread, NULL, cancel_later, &canceller), 0);
    assert_int_equal(inlay_context_run(rig.context, &options, &diag), INLAY_CANCELLED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(diag.code, INLAY_CANCELLED);
    assert_null(inlay_context_output(rig.context, 0));
    /* The device cancelled its jobs, and the context can run again. */
    assert_true(counted(&rig.counters->cancelled) >= 1);
    hold(rig.device, FAKE_FREE);
    run(&rig);
    expect_floats(rig.context, 0, chain_result, 6);

    options = (inlay_run_options){ .struct_size = sizeof options, .timeout_ns = 1000 };
    assert_int_equal(inlay_context_run(rig.context, &options, &diag), INLAY_DEADLINE_EXCEEDED);
    run(&rig);
    expect_floats(rig.context, 0, chain_result, 6);
    close_rig(&rig);
}

/* A device that is lost during a run fails that run with its message; a new session opens the device again. */
static void losing_the_device(void **state)
{
    static const char *const losing[] = { "lose_after", "5", NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    int runs = 0;
    struct rig rig, again;

    (void)state;
    rig = open_chain(losing);
    for (; status == INLAY_OK && runs < 10; runs++)
        status = inlay_context_run(rig.context, NULL, &diag);
    assert_int_equal(status, INLAY_DEVICE_LOST);
    assert_int_equal(runs, 2); /* four jobs a run */
    assert_int_equal(diag.error_class, INLAY_CLASS_DEVICE_LOST);
    assert_non_null(strstr(diag.text, "fell off the bus"));
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
    again = open_chain(losing);
    assert_ptr_not_equal(again.device, rig.device);
    run(&again);
    expect_floats(again.context, 0, chain_result, 6);
    close_rig(&again);
    close_rig(&rig);
}

/* The output of a data-dependent step is copied back. No matter which job loses the device, no run succeeds without the
 * last copy. */
static void losing_a_copy_back(void **state)
{
    static const int64_t expected[] = { 0, 0, 1, 0, 2, 1 };
    float x[] = { 7, 0, 7, 0, 7, 0 };
    uint32_t per_run = 0;

    (void)state;
    for (int lose_after = 0; lose_after < 24; lose_after++) {
        char number[16];
        const char *const options[] = { "bounded", lose_after % 2 == 0 ? "true" : "false", "lose_after", number, NULL };
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status = INLAY_OK;
        uint32_t runs = 0;
        struct rig rig;

        (void)snprintf(number, sizeof number, "%d", lose_after == 0 ? 0 : (lose_after + 1) / 2);
        rig = open_script(options, "a : 2,3\n"
                                   "y = NonZero(a)\n"
                                   "-> y : int64 n,n");
        set_floats(rig.context, 0, 2, dims, x);
        for (; status == INLAY_OK && runs < 8; runs += status == INLAY_OK) {
            status = inlay_context_run(rig.context, NULL, &diag);
            if (status == INLAY_OK)
                assert_memory_equal(inlay_value_data(inlay_context_output(rig.context, 0)), expected, sizeof expected);
        }
        if (lose_after == 0)
            per_run = counted(&rig.counters->copied_out) / runs;
        assert_int_equal(status, lose_after == 0 ? INLAY_OK : INLAY_DEVICE_LOST);
        assert_int_equal(counted(&rig.counters->copied_out), per_run * runs);
        close_rig(&rig);
    }
    assert_true(per_run > 0);
}

/* A device lost during tuning: its measurements are dropped, and every buffer is freed exactly once. */
static void losing_the_device_while_tuning(void **state)
{
    char dir[] = "/tmp/inlay-tune-XXXXXX", line[64], number[16];
    const char *const options[] = { "lose_after", number, NULL };
    float x[] = { 7, 0, 7, 0, 7, 0 };

    (void)state;
    assert_non_null(mkdtemp(dir));
    cache_dir = dir;
    for (int lose_after = 1; lose_after <= 12; lose_after++) {
        inlay_tune_options how = { .struct_size = sizeof how, .runs = 3, .budget_s = 60 };
        inlay_tune_result result = { .struct_size = sizeof result };
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_value *value = NULL;
        struct rig rig;

        (void)snprintf(number, sizeof number, "%d", lose_after);
        rig = open_script(options, "a : 2,3\n"
                                   "y = NonZero(a)\n"
                                   "-> y : int64 n,n");
        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, x, sizeof x, &value, &diag), INLAY_OK);
        how.inputs = &value;
        how.input_count = 1;
        if (inlay_tune(rig.session, &how, &result, &diag) == INLAY_OK)
            assert_int_equal(result.known_count, 0);
        inlay_value_unref(value);
        close_rig(&rig);
        (void)snprintf(line, sizeof line, "rm -rf %s/*", dir);
        assert_int_equal(system(line), 0);
    }
    cache_dir = NULL;
    assert_int_equal(rmdir(dir), 0);
}

/* Closing a device with work in flight: it finishes, signals, and only then is closed. */
static void closing_with_work_in_flight(void **state)
{
    static const provider_setting other[] = { { "delay_us", "100" } };
    const char *dirs[] = { FAKE_DIR };
    inlay_diag diag = INLAY_DIAG_INIT;
    char from[64] = "hello, device", to[64] = "";
    inlay_buffer host_from = { .handle = (uintptr_t)from, .bytes = 64 },
                 host_to = { .handle = (uintptr_t)to, .bytes = 64 };
    inlay_buffer on_device;
    const struct provider *provider, *owner;
    const inlay_domain_info *info = NULL;
    plugin_set *set;
    struct rig keep;
    inlay_fence fences[3];

    (void)state;
    /* Another session, on another device of the same kind, is not affected. */
    keep = open_chain(NULL);
    log_text[0] = '\0';
    assert_int_equal(plugin_set_create(dirs, 1, keep_log, NULL, &set, &diag), INLAY_OK);
    assert_int_equal(provider_open(set, "fake", other, 1, &provider, &diag), INLAY_OK);
    assert_ptr_not_equal(provider, keep.device);
    owner = provider_of_domain(provider->first_domain, &info);
    assert_ptr_equal(owner, provider);
    assert_string_equal(info->name, "fake.memory");
    assert_null(provider_of_domain(INLAY_DOMAIN_HOST, NULL));
    assert_null(provider_of_domain(UINT32_MAX, NULL));

    for (int i = 0; i < 3; i++) {
        fences[i].value = 1;
        assert_int_equal(timeline_create(&fences[i].timeline, &diag), INLAY_OK);
    }
    assert_int_equal(call_alloc(provider->table, provider->state, provider->first_domain, provider->first_domain, 64,
                                (buffer_use){ .lifetime = INLAY_LIFETIME_RUN }, &on_device, &diag),
                     INLAY_OK);
    assert_true(on_device.handle < 0x10000); /* not an address */
    hold(provider, FAKE_HELD);
    assert_int_equal(call_copy(provider->table, provider->state, NULL, &host_from, &on_device, NULL, fences[0], &diag),
                     INLAY_OK);
    assert_int_equal(
        call_copy(provider->table, provider->state, NULL, &on_device, &host_to, &fences[0], fences[1], &diag),
        INLAY_OK);
    assert_false(fence_reached(fences[1], NULL));
    hold(provider, FAKE_FREE);
    provider->table->quiesce(provider->state);
    assert_true(fence_reached(fences[1], NULL));
    assert_string_equal(to, "hello, device");
    assert_int_equal(call_copy(provider->table, provider->state, NULL, &host_from, &on_device, NULL, fences[2], &diag),
                     INLAY_BUSY);
    call_free(provider->table, provider->state, &on_device);
    provider_close(provider);
    assert_null(provider_of_domain(on_device.domain, NULL));
    for (int i = 0; i < 3; i++)
        timeline_destroy(fences[i].timeline);
    plugin_set_destroy(set);
    assert_string_equal(log_text, "");

    set_floats(keep.context, 0, 2, dims, a);
    set_floats(keep.context, 1, 2, dims, b);
    run(&keep);
    expect_floats(keep.context, 0, chain_result, 6);
    close_rig(&keep);
}

static void *run_in_a_context_of_its_own(void *arg)
{
    inlay_session *session = arg;
    inlay_context *context = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    float x[6], y[6];
    bool good = inlay_context_create(session, &context, &diag) == INLAY_OK;

    for (int round = 0; round < 20 && good; round++) {
        inlay_value *vx = NULL, *vy = NULL;
        const float *out;

        for (int i = 0; i < 6; i++) {
            x[i] = -(float)(i + round);
            y[i] = 1;
        }
        good = inlay_value_borrow(INLAY_FLOAT, 2, dims, x, sizeof x, &vx, &diag) == INLAY_OK &&
               inlay_value_borrow(INLAY_FLOAT, 2, dims, y, sizeof y, &vy, &diag) == INLAY_OK &&
               inlay_context_set_input(context, 0, vx, &diag) == INLAY_OK &&
               inlay_context_set_input(context, 1, vy, &diag) == INLAY_OK &&
               inlay_context_run(context, NULL, &diag) == INLAY_OK;
        out = good ? inlay_value_data(inlay_context_output(context, 0)) : NULL;
        for (int i = 0; i < 6 && good; i++)
            good = out[i] == (float)(i + round) + 1 + b[i];
        inlay_value_unref(vx);
        inlay_value_unref(vy);
    }
    inlay_context_destroy(context);
    return good ? NULL : (void *)1;
}

static void many_threads_one_session(void **state)
{
    static const char *const slow[] = { "delay_us", "100", NULL };
    pthread_t threads[4];
    void *bad;
    struct rig rig;

    (void)state;
    rig = open_chain(slow);
    for (int thread = 0; thread < 4; thread++)
        assert_int_equal(pthread_create(&threads[thread], NULL, run_in_a_context_of_its_own, rig.session), 0);
    for (int thread = 0; thread < 4; thread++) {
        assert_int_equal(pthread_join(threads[thread], &bad), 0);
        assert_null(bad);
    }
    assert_int_equal(rig.counters->executed, 80);
    close_rig(&rig);
}

/* Compiled blobs are cached for the next session, until weights change or the file is damaged. */
static void compiled_blobs_are_kept(void **state)
{
    char dir[] = "/tmp/inlay-cache-XXXXXX", path[512] = "", line[512];
    uint32_t stored = 0, seen = 0;
    FILE *list, *file;

    (void)state;
    assert_non_null(mkdtemp(dir));
    cache_dir = dir;
    log_text[0] = '\0';
    for (int round = 0; round < 5; round++) {
        onnx_bytes bytes = { .count = 0 };
        float c[6] = { 1, 2, 3, 4, 5, 6 };
        struct rig rig;

        c[5] += (float)(round == 4); /* another model */
        onnx_input(&bytes, "a", INLAY_FLOAT, 2, dims);
        onnx_constant(&bytes, "c", INLAY_FLOAT, 2, dims, c, sizeof c);
        onnx_node(&bytes, "Add", "", "a,c", "y");
        onnx_output(&bytes, "y", INLAY_FLOAT, 2, dims);
        if (round == 3) { /* one byte is wrong */
            (void)snprintf(line, sizeof line, "ls %s/fake-*.blob", dir);
            list = popen(line, "r");
            assert_non_null(list);
            assert_non_null(fgets(path, sizeof path, list));
            assert_int_equal(pclose(list), 0);
            path[strcspn(path, "\n")] = '\0';
            file = fopen(path, "r+");
            assert_non_null(file);
            assert_int_equal(fseek(file, -3, SEEK_END), 0);
            assert_int_equal(fputc('X', file), 'X');
            assert_int_equal(fclose(file), 0);
        }
        rig = open_rig(&bytes, NULL);
        stored += rig.counters->stored_blobs;
        seen += rig.counters->seen_blobs;
        assert_int_equal(stored, round < 3 ? 1 : round - 1);
        assert_int_equal(seen, round == 0 ? 0 : round < 3 ? round : 2);
        close_rig(&rig);
    }
    assert_non_null(strstr(log_text, "is damaged"));
    cache_dir = NULL;
    (void)snprintf(line, sizeof line, "rm -r %s", dir);
    assert_int_equal(system(line), 0);
}

static void a_refusing_device_is_skipped(void **state)
{
    static const char *const refusing[] = { "refuse", "true", NULL };
    struct rig rig;

    (void)state;
    rig = open_chain(refusing);
    run(&rig);
    expect_floats(rig.context, 0, chain_result, 6);
    assert_int_equal(rig.counters->compiled + rig.counters->executed + rig.counters->copied_in, 0);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_merge),
        cmocka_unit_test(two_providers_share_a_model),
        cmocka_unit_test(a_group_runs_as_one),
        cmocka_unit_test(shapes_that_depend_on_data),
        cmocka_unit_test(several_shapes),
        cmocka_unit_test(cancelling_a_run_in_flight),
        cmocka_unit_test(losing_the_device),
        cmocka_unit_test(losing_a_copy_back),
        cmocka_unit_test(losing_the_device_while_tuning),
        cmocka_unit_test(closing_with_work_in_flight),
        cmocka_unit_test(many_threads_one_session),
        cmocka_unit_test(compiled_blobs_are_kept),
        cmocka_unit_test(a_refusing_device_is_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
