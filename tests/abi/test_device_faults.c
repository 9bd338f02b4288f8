/* Faults of the fake device while values are resident on it: lost, out of memory, or hung, at each of its jobs. */
#include "fake_models.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

/* A model with a branch, a loop and steps with data-dependent sizes. */
static const char all_kinds[] = "a : 8,8\n"
                                "b : 8,8\n"
                                "n : int64 -\n"
                                "which : bool -\n"
                                "take : bool 64\n"
                                "c = Relu(a)\n"
                                "m = If(which) then:Neg(c) else:Add(c,c)\n"
                                "z,s = Loop(n,_,m) body {\n"
                                "    i : int64 -\n"
                                "    go : bool -\n"
                                "    x : 8,8\n"
                                "    more = Add(x,b)\n"
                                "    less = Neg(more)\n"
                                "    on = Identity(go)\n"
                                "    -> on : bool -\n"
                                "    -> more, less : 8,8\n"
                                "}\n"
                                "k = Relu(z)\n"
                                "t = Compress(k,take)\n"
                                "u = Relu(t)\n"
                                "v = Mul(u,u)\n"
                                "y = Add(v,u)\n"
                                "w = Relu(s)\n"
                                "-> y : n\n"
                                "-> w : n,8,8";

static float faults_x[64], faults_b[64];
static uint8_t faults_take[64], faults_which = 1;
static int64_t faults_trips = 3;

static void bind_faults(struct rig *rig)
{
    static const int64_t shape[] = { 8, 8 }, flat[] = { 64 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;

    for (int i = 0; i < 64; i++) {
        faults_x[i] = (float)(i - 20);
        faults_b[i] = (float)(i % 7) + 50;
        faults_take[i] = i % 2 == 0;
    }
    set_floats(rig->context, 0, 2, shape, faults_x);
    set_floats(rig->context, 1, 2, shape, faults_b);
    set_one(rig, 2, INLAY_INT64, &faults_trips, sizeof faults_trips);
    set_one(rig, 3, INLAY_BOOL, &faults_which, 1);
    assert_int_equal(inlay_value_borrow(INLAY_BOOL, 1, flat, faults_take, 64, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig->context, 4, value, &diag), INLAY_OK);
    inlay_value_unref(value);
}

static void expect_faults(const struct rig *rig)
{
    float want[64 * 3];

    for (int k = 0; k < 3 * 64; k++) {
        const float c = faults_x[k % 64] < 0 ? 0 : faults_x[k % 64], s = c - (float)(k / 64 + 1) * faults_b[k % 64];

        want[k] = s < 0 ? 0 : s;
    }
    expect_floats(rig->context, 1, want, 3 * 64);
    for (int k = 0; k < 32; k++) {
        const float c = faults_x[2 * k] < 0 ? 0 : faults_x[2 * k], z = 3 * faults_b[2 * k] - c;

        want[k] = z < 0 ? 0 : z * z + z;
    }
    expect_floats(rig->context, 0, want, 32);
}

/* The device is lost, or out of memory, at each of its jobs: the error of the run names the device, or with fallback
 * other providers complete the run. No memory is leaked. */
static void faults_while_values_stay(void **state)
{
    static const char *const other[] = { "device_failure", "other", NULL };
    uint32_t jobs = 0;

    (void)state;
    for (uint32_t repeated = 0; repeated < 2; repeated++)
        for (uint32_t job = 0; job <= jobs; job++) {
            char number[16];
            const char *const options[] = { "lose_after", number, NULL };
            inlay_diag diag = INLAY_DIAG_INIT;
            struct rig rig;

            (void)snprintf(number, sizeof number, "%u", job);
            session_options = repeated ? other : NULL;
            rig = open_script(options, all_kinds);
            session_options = NULL;
            bind_faults(&rig);
            if (repeated || job == 0) {
                for (int round = 0; round < 2; round++) {
                    if (inlay_context_run(rig.context, NULL, &diag) != INLAY_OK)
                        fail_msg("job %u: %s", job, diag.text);
                    expect_faults(&rig);
                }
                jobs = job == 0 ? counted(&rig.counters->jobs) / 2 : jobs;
                assert_true(jobs > 10);
            } else {
                assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
                if (strstr(diag.text, "fake") == NULL)
                    fail_msg("job %u: %s", job, diag.text);
                assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
            }
            close_rig(&rig);
        }
    for (int bytes = 1; bytes <= 40; bytes++) { /* too little memory at some point */
        char number[32];
        const char *const limit[] = { "memory_limit", number, "device_failure", "other", NULL };
        struct rig rig;

        (void)snprintf(number, sizeof number, "fake=%d", bytes * 256);
        session_options = limit;
        rig = open_script(NULL, all_kinds);
        session_options = NULL;
        bind_faults(&rig);
        run(&rig);
        expect_faults(&rig);
        run(&rig);
        expect_faults(&rig);
        close_rig(&rig);
    }
}

/* The device hangs at each of its jobs, also within branches and loops. The error of the run names the device, the
 * context is unusable, and the next session has a working device; or with fallback other providers complete this run
 * and the next. */
static void hanging_while_values_stay(void **state)
{
    static const char *const other[] = { "device_failure", "other", NULL };
    uint32_t jobs = 0;

    (void)state;
    for (uint32_t repeated = 0; repeated < 2; repeated++)
        for (uint32_t job = 0; job <= jobs; job++) {
            char number[16];
            const char *const options[] = { "hang_at", number, NULL };
            inlay_diag diag = INLAY_DIAG_INIT;
            struct rig rig;

            (void)snprintf(number, sizeof number, "%u", job);
            session_options = repeated ? other : NULL;
            rig = open_script(options, all_kinds);
            session_options = NULL;
            bind_faults(&rig);
            if (job == 0) {
                run(&rig);
                expect_faults(&rig);
                jobs = counted(&rig.counters->jobs);
                close_rig(&rig);
                continue;
            }
            shorten_timeout(&rig);
            if (repeated) {
                for (int round = 0; round < 2; round++) {
                    if (inlay_context_run(rig.context, NULL, &diag) != INLAY_OK)
                        fail_msg("job %u: %s", job, diag.text);
                    expect_faults(&rig);
                }
            } else {
                assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
                if (strstr(diag.text, "fake") == NULL || strstr(diag.text, "device_timeout_ms") == NULL)
                    fail_msg("job %u: %s", job, diag.text);
                assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
            }
            leave_rig(&rig);
            if (job % 8 == 1) { /* the next session has a new device */
                (void)snprintf(number, sizeof number, "%u", 10000 + job);
                rig = open_script(options, all_kinds);
                bind_faults(&rig);
                run(&rig);
                expect_faults(&rig);
                close_rig(&rig);
            }
        }
    assert_true(jobs > 10);
}

/* Memory that a hung device may still write is deliberately never freed: LeakSanitizer must ignore it. */
static int disable_leak_check(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    __lsan_disable();
#endif
    return 0;
}

static int enable_leak_check(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    __lsan_enable();
#endif
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_while_values_stay),
        cmocka_unit_test_setup_teardown(hanging_while_values_stay, disable_leak_check, enable_leak_check),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
