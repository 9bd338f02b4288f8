/* Copies begin as soon as their source is ready, not when a consumer waits for it: each test checks the order in which
 * jobs were queued on the fake device. */
#include "fake_models.h"
#include <pthread.h>

static const float first[6] = { 3, 0, 0, 2, 9, -9 };

static void expect_order(const struct rig *rig, const char *expected)
{
    assert_string_equal(rig->counters->order, expected);
}

/* Inputs of later regions are uploaded before the host computes, and before other regions. */
static void inputs_go_first(void **state)
{
    float x[6], want[6];
    struct rig rig;

    (void)state;
    rig = open_script(NULL, "a : 2,3\n"
                            "b : 2,3\n"
                            "c : 2,3\n"
                            "n = Neg(a)\n"
                            "f = Floor(n)\n" /* on the host */
                            "s = Add(f,b)\n"
                            "t = Floor(s)\n"
                            "y = Add(t,c)\n"
                            "-> y : 2,3");
    for (int i = 0; i < 6; i++) {
        x[i] = (float)i;
        want[i] = -a[i] + x[i] + first[i];
    }
    set_floats(rig.context, 0, 2, dims, a);
    set_floats(rig.context, 1, 2, dims, x);
    set_floats(rig.context, 2, 2, dims, (float *)(uintptr_t)first);
    run(&rig);
    expect_floats(rig.context, 0, want, 6);
    expect_order(&rig, "(iii)xoixoixo");
    run(&rig);
    expect_floats(rig.context, 0, want, 6);
    close_rig(&rig);
}

/* Results of the host are uploaded when they are computed, even if other regions run before their consumer. Results of
 * a region for the host, and graph outputs, are downloaded before the next region begins. */
static void results_are_uploaded_when_computed(void **state)
{
    float want[2][6];
    struct rig rig;

    (void)state;
    rig = open_script(NULL, "a : 2,3\n"
                            "b : 2,3\n"
                            "f = Floor(b)\n"
                            "p = Mul(a,a)\n" /* a Mul followed by an Add is a separate region */
                            "q = Add(p,a)\n"
                            "u = Mul(q,q)\n"
                            "w = Add(u,q)\n"
                            "v = Mul(w,f)\n"
                            "y = Add(v,w)\n"
                            "z = Ceil(q)\n"
                            "-> y, z, w : 2,3");
    set_floats(rig.context, 0, 2, dims, a);
    set_floats(rig.context, 1, 2, dims, (float *)(uintptr_t)first);
    for (int i = 0; i < 6; i++) {
        const float q = a[i] * a[i] + a[i], w = q * q + q;

        want[0][i] = w * first[i] + w;
        want[1][i] = q;
    }
    for (int round = 0; round < 3; round++) {
        run(&rig);
        expect_floats(rig.context, 0, want[0], 6);
        expect_floats(rig.context, 1, want[1], 6);
    }
    assert_int_equal(rig.counters->groups, 3);
    assert_memory_equal(rig.counters->order, "iixoxoxo", 8);
    close_rig(&rig);
}

/* With a memory limit, nothing is prefetched into memory that other regions need. */
static void limits_restrict_prefetch(void **state)
{
    static const char *const limits[][3] = { { "memory_limit", "fake=768KiB", NULL }, { NULL } };
    static const int64_t shape[] = { 256, 256 }; /* 256 KiB */
    enum { COUNT = 256 * 256 };
    float *input = calloc(3 * COUNT, sizeof *input);

    (void)state;
    assert_non_null(input);
    for (int free = 0; free < 2; free++) {
        onnx_bytes bytes = { .count = 0 };
        struct rig rig;

        onnx_input(&bytes, "a", INLAY_FLOAT, 2, shape);
        onnx_input(&bytes, "b", INLAY_FLOAT, 2, shape);
        onnx_input(&bytes, "c", INLAY_FLOAT, 2, shape);
        onnx_node(&bytes, "Neg", "", "a", "n");
        onnx_node(&bytes, "Floor", "", "n", "f");
        onnx_node(&bytes, "Add", "", "f,b", "s");
        onnx_node(&bytes, "Floor", "", "s", "t");
        onnx_node(&bytes, "Add", "", "t,c", "y");
        onnx_output(&bytes, "y", INLAY_FLOAT, 2, shape);
        session_options = limits[free];
        rig = open_rig(&bytes, NULL);
        session_options = NULL;
        for (uint32_t i = 0; i < 3 * COUNT; i++)
            input[i] = (float)(i % 1000);
        for (uint32_t i = 0; i < 3; i++)
            set_floats(rig.context, i, 2, shape, input + i * COUNT);
        run(&rig);
        for (uint32_t i = 0; i < COUNT; i++)
            input[i] = input[COUNT + i] + input[2 * COUNT + i] - input[i];
        expect_floats(rig.context, 0, input, COUNT);
        assert_true(rig.counters->peak_kib <= (free ? 1280u : 768u));
        expect_order(&rig, free ? "iiixoixoixo" : "iixoixoiixo");
        close_rig(&rig);
    }
    free(input);
}

struct flight {
    inlay_context *context;
    inlay_status status;
    inlay_diag diag;
};

static void *run_in_thread(void *arg)
{
    struct flight *flight = arg;

    flight->status = inlay_context_run(flight->context, NULL, &flight->diag);
    return NULL;
}

/* Results of the host with data-dependent sizes are uploaded when they are computed: both copies, and the region that
 * reads the first, are queued before the device has processed any job. */
static void data_dependent_results_are_uploaded(void **state)
{
    static uint8_t take[] = { 1, 0, 1, 1, 0, 1 };
    static const int64_t length[] = { 6 };
    struct flight flight = { .diag = INLAY_DIAG_INIT };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;
    pthread_t thread;
    float want[4];
    struct rig rig;

    (void)state;
    rig = open_script(NULL, "a : 6\n"
                            "b : 6\n"
                            "take : bool 6\n"
                            "c = Compress(a,take)\n"
                            "e = Compress(b,take)\n"
                            "n = Neg(c)\n"
                            "h = Floor(n)\n"
                            "k = Neg(h)\n"
                            "w = Neg(e)\n"
                            "u = Floor(w)\n"
                            "-> k, u : n");
    set_floats(rig.context, 0, 1, length, a);
    set_floats(rig.context, 1, 1, length, (float *)(uintptr_t)first);
    assert_int_equal(inlay_value_borrow(INLAY_BOOL, 1, length, take, sizeof take, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig.context, 2, value, &diag), INLAY_OK);
    inlay_value_unref(value);
    for (int round = 0; round < 3; round++) {
        const uint32_t before = rig.counters->order_count;

        hold(rig.device, FAKE_HELD);
        flight.context = rig.context;
        assert_int_equal(pthread_create(&thread, NULL, run_in_thread, &flight), 0);
        await(&rig.counters->order_count, before + 3);
        assert_memory_equal(rig.counters->order + before, "iix", 3);
        hold(rig.device, FAKE_FREE);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (flight.status != INLAY_OK)
            fail_msg("%s", flight.diag.text);
        for (int i = 0, k = 0; i < 6; i++)
            if (take[i])
                want[k++] = a[i];
        expect_floats(rig.context, 0, want, 4);
        for (int i = 0, k = 0; i < 6; i++)
            if (take[i])
                want[k++] = -first[i];
        expect_floats(rig.context, 1, want, 4);
    }
    close_rig(&rig);
}

/* The device fails, or the run is stopped, during such copies: the run reports it, and the context can run again. */
static void data_dependent_copies_of_failed_runs(void **state)
{
    static uint8_t take[] = { 1, 0, 1, 1, 0, 1 };
    static const int64_t length[] = { 6 };

    (void)state;
    for (int at = 1; at <= 7; at++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_run_options options = INLAY_RUN_OPTIONS_INIT;
        inlay_value *value;
        char job[8];
        const char *const settings[] = { "lose_after", job, NULL };
        struct rig rig;

        (void)snprintf(job, sizeof job, "%d", at);
        rig = open_script(at < 7 ? settings : NULL, "a : 6\n"
                                                    "b : 6\n"
                                                    "take : bool 6\n"
                                                    "c = Compress(a,take)\n"
                                                    "e = Compress(b,take)\n"
                                                    "n = Neg(c)\n"
                                                    "h = Floor(n)\n"
                                                    "y = Add(h,e)\n"
                                                    "-> y : n");
        set_floats(rig.context, 0, 1, length, a);
        set_floats(rig.context, 1, 1, length, (float *)(uintptr_t)first);
        assert_int_equal(inlay_value_borrow(INLAY_BOOL, 1, length, take, sizeof take, &value, &diag), INLAY_OK);
        assert_int_equal(inlay_context_set_input(rig.context, 2, value, &diag), INLAY_OK);
        inlay_value_unref(value);
        if (at < 7) {
            assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
            assert_non_null(strstr(diag.text, "fake"));
        } else {
            options.timeout_ns = 50000000;
            hold(rig.device, FAKE_HELD);
            assert_int_equal(inlay_context_run(rig.context, &options, &diag), INLAY_DEADLINE_EXCEEDED);
            hold(rig.device, FAKE_FREE);
            for (int round = 0; round < 2; round++) {
                run(&rig);
                assert_int_equal(inlay_value_count(inlay_context_output(rig.context, 0)), 4);
            }
        }
        close_rig(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_go_first),
        cmocka_unit_test(results_are_uploaded_when_computed),
        cmocka_unit_test(limits_restrict_prefetch),
        cmocka_unit_test(data_dependent_results_are_uploaded),
        cmocka_unit_test(data_dependent_copies_of_failed_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
