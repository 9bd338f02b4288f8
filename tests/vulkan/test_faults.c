/* Injects faults at every dispatch of a model of about twenty, with nodes of another provider in between. A run
 * gives the right result or a status that names the device, and later runs work. */
#include "vulkan_case.h"
#include <stdlib.h>

/* A region of two dispatches, and a node that is pinned to the reference. All rounds have the same shaders: a session
 * creates few pipelines, which take nearly all of its time on Mesa's CPU driver. */
#define ROUND(from, product, rows, to)                                                                                 \
    product " = MatMul(" from ", w)\n" rows " = Softmax(" product ")\n" to " = Tanh(" rows ")\n"
/* More than twenty dispatches. */
static const char script[] = "x : 6,6\nw = [6,6]\n" ROUND("x", "a", "b", "c") ROUND("c", "d", "e", "f")
    ROUND("f", "g", "h", "i") ROUND("i", "j", "k", "l") ROUND("l", "m", "n", "o") ROUND("o", "p", "q", "r")
        ROUND("r", "s", "t", "u") ROUND("u", "v", "y", "z") ROUND("z", "aa", "ab", "ac") ROUND(
            "ac", "ad", "ae", "af") "ag = MatMul(af, w)\nah = ReduceMax(ag) axes=0,\nai = Add(ag, ah)\n-> e, ah, ai";

enum { LEAST = 20, MOST = 60 };

/* failure: option device_failure. */
static inlay_status open_faulty(const char *kind, int at, const char *timeout, const char *failure, struct rig *out,
                                inlay_diag *diag)
{
    char fault[32] = "";
    struct wire wire = { 0 };

    if (kind != NULL)
        (void)snprintf(fault, sizeof fault, "%s:%d", kind, at);
    script_model(&wire, 13, script);
    return rig_try_open(&wire,
                        (const char *const[]){ "providers", "vulkan,reference", "policy", "priority", "pin",
                                               "op:Tanh=reference", "vulkan.fault", fault, "vulkan.timeout_ms", timeout,
                                               "device_failure", failure, NULL },
                        out, diag);
}

/* Runs the same model without a fault, in another session. */
static void still_works(const struct rig *want)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    assert_int_equal(open_faulty(NULL, 0, "0", "fail", &rig, &diag), INLAY_OK);
    script_feed(&rig, 1);
    rig_run(&rig);
    vulkan_case_compare(&rig, want, script);
    rig_close(&rig);
}

/* Loses the device at every `step`th dispatch; returns the number of the first that does not exist. */
static int plant(const char *kind, const char *timeout, int step)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig want = vulkan_case_open(script, 13, NULL, false), rig;
    inlay_status status = INLAY_DEVICE_LOST;
    int at = 1;

    script_feed(&want, 1);
    rig_run(&want);
    for (; at < MOST && status == INLAY_DEVICE_LOST; at += step) {
        status = open_faulty(kind, at, timeout, "fail", &rig, &diag);
        if (status == INLAY_OK) {
            script_feed(&rig, 1);
            status = inlay_context_run(rig.context, NULL, &diag);
            if (status == INLAY_OK)
                vulkan_case_compare(&rig, &want, script);
            else
                assert_non_null(strstr(diag.text, "provider vulkan"));
            if (status == INLAY_DEVICE_LOST) /* permanent */
                assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
        }
        if (status != INLAY_OK && status != INLAY_DEVICE_LOST)
            fail_msg("%s:%d: %d: %s", kind, at, (int)status, diag.text);
        rig_close(&rig);
        if (at == 1 || status == INLAY_OK)
            still_works(&want);
    }
    rig_close(&want);
    assert_int_equal(status, INLAY_OK);
    return at;
}

static void devices_are_lost(void **state)
{
    (void)state;
    vulkan_case_require_device();
    assert_true(plant("lost", "0", 1) > LEAST);
}

/* A region whose weights do not fit into device memory runs on the other provider, and only that region. A run that
 * does not fit fails with the name of the device. The next run succeeds. */
static void memory_ends(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig want = vulkan_case_open(script, 13, NULL, false), rig;
    int declined = 0, failed = 0, at = 1, all;

    (void)state;
    vulkan_case_require_device();
    script_feed(&want, 1);
    rig_run(&want);
    assert_int_equal(open_faulty(NULL, 0, "0", "fail", &rig, &diag), INLAY_OK);
    all = vulkan_case_nodes(rig.session);
    rig_close(&rig);
    for (; at < MOST && declined + failed == at - 1; at++) {
        inlay_status status = open_faulty("memory", at, "0", "fail", &rig, &diag);

        if (status != INLAY_OK)
            fail_msg("memory:%d: %s", at, diag.text);
        declined += vulkan_case_nodes(rig.session) < all;
        assert_true(vulkan_case_nodes(rig.session) >= all - 3); /* a region has three nodes at most */
        script_feed(&rig, 1);
        status = inlay_context_run(rig.context, NULL, &diag);
        if (status != INLAY_OK) {
            assert_int_equal(status, INLAY_OUT_OF_MEMORY);
            assert_non_null(strstr(diag.text, "provider vulkan"));
            rig_run(&rig);
            failed++;
        }
        vulkan_case_compare(&rig, &want, script);
        rig_close(&rig);
    }
    rig_close(&want);
    assert_true(at < MOST && declined > 2 && failed > 0);
}

/* The host assigns no more memory than the driver reports as available, also with a higher memory_limit. */
static void budgets_are_kept(void **state)
{
    static const struct {
        const char *fault, *option, *value;
        int nodes;
    } rows[] = { { "budget:1000", "memory_limit", "vulkan=1M", 2 },
                 { "budget:100", "memory_limit", "vulkan=1M", 0 },
                 { "budget:100", "pin", "op:Gemm=vulkan", 1 } };
    const char *model = "x : 3,256\nw = [256,128]\ny = MatMul(x, w)\nv = [128,16]\nz = Gemm(y, v)\n-> z";
    struct rig want = vulkan_case_open(model, 13, NULL, false), rig;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };

    (void)state;
    vulkan_case_require_device();
    script_feed(&want, 1);
    rig_run(&want);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        script_model(&wire, 13, model);
        if (rig_try_open(&wire,
                         (const char *const[]){ "providers", "vulkan,reference", "policy", "priority", "vulkan.device",
                                                "0", "vulkan.fault", rows[i].fault, rows[i].option, rows[i].value,
                                                NULL },
                         &rig, &diag) != INLAY_OK)
            fail_msg("%s: %s", rows[i].fault, diag.text);
        if (vulkan_case_nodes(rig.session) != rows[i].nodes)
            fail_msg("row %zu: %d nodes", i, vulkan_case_nodes(rig.session));
        script_feed(&rig, 1);
        rig_run(&rig);
        vulkan_case_compare(&rig, &want, model);
        rig_close(&rig);
    }
    rig_close(&want);
    script_model(&wire, 13, model); /* no other provider: an error that says why */
    assert_int_equal(rig_try_open(&wire,
                                  (const char *const[]){ "providers", "vulkan", "vulkan.device", "0", "memory_limit",
                                                         "vulkan=1M", "vulkan.fault", "budget:100", NULL },
                                  &rig, &diag),
                     INLAY_UNSUPPORTED);
    if (strstr(diag.text, "102400 of 139264 bytes left for this process") == NULL)
        fail_msg("%s", diag.text);
    rig_close(&rig);
}

/* With device_failure=other another provider repeats the run: its result and that of the next run are right after
 * any fault. */
static void others_take_over(void **state)
{
    static const char *const kinds[] = { "lost", "memory" };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig want = vulkan_case_open(script, 13, NULL, false), rig;

    (void)state;
    vulkan_case_require_device();
    script_feed(&want, 1);
    rig_run(&want);
    for (size_t k = 0; k < 2; k++)
        for (int at = 1; at <= LEAST; at += 3) {
            assert_int_equal(open_faulty(kinds[k], at, "0", "other", &rig, &diag), INLAY_OK);
            for (int again = 0; again < 2; again++) {
                script_feed(&rig, 1);
                rig_run(&rig);
                vulkan_case_compare(&rig, &want, script);
            }
            rig_close(&rig);
        }
    rig_close(&want);
}

#ifndef __SANITIZE_ADDRESS__ /* memory that the device may still write to is not freed */
static void devices_hang(void **state)
{
    (void)state;
    vulkan_case_require_device();
    assert_true(plant("hang", "1500", 4) > LEAST); /* each waits for its time limit */
}

/* Measurements have the same time limit as runs. */
static void tuning_ends(void **state)
{
    const inlay_tune_options how = { .struct_size = sizeof how, .runs = 1 };
    char dir[] = "/tmp/inlay-tune-XXXXXX", line[64];
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    vulkan_case_require_device();
    assert_non_null(mkdtemp(dir)); /* no profile of the device exists */
    script_model(&wire, 13, script);
    assert_int_equal(
        rig_try_open(&wire,
                     (const char *const[]){ "providers", "vulkan", "vulkan.device", "auto", "vulkan.fault", "hang:2",
                                            "vulkan.timeout_ms", "1500", "cache_dir", dir, NULL },
                     &rig, &diag),
        INLAY_OK);
    assert_int_equal(inlay_tune(rig.session, &how, NULL, &diag), INLAY_DEVICE_LOST);
    if (strstr(diag.text, "did not end its work in 1500 ms (option timeout_ms)") == NULL)
        fail_msg("%s", diag.text);
    rig_close(&rig);
    (void)snprintf(line, sizeof line, "rm -r %s", dir);
    assert_int_equal(system(line), 0);
}
#endif

static void faults_are_named(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    vulkan_case_require_device();
    assert_int_not_equal(open_faulty("fire", 1, "0", "fail", &rig, &diag), INLAY_OK);
    assert_non_null(strstr(diag.text, "it takes lost:N, memory:N, hang:N"));
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_lost), cmocka_unit_test(memory_ends),
        cmocka_unit_test(budgets_are_kept), cmocka_unit_test(others_take_over),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test(devices_hang),     cmocka_unit_test(tuning_ends),
#endif
        cmocka_unit_test(faults_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, vulkan_case_end);
}
