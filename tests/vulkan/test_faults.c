/* Faults planted at every dispatch of a model of some twenty, with nodes of another provider between: a run gives the
 * right result or a status that says whose device it was, and what comes behind works. */
#include "beside.h"

/* Each MatMul has two nodes that are pinned to the reference behind it. */
static const char script[] = "x : 6,6\nw = [6,6]\n"
                             "a = MatMul(x, w)\nb = Tanh(a)\nc = Transpose(b)\nd = MatMul(c, w)\ne = Softmax(d)\n"
                             "f = Tanh(e)\ng = MatMul(f, x)\nh = ReduceMean(g) axes=1,\ni = Sub(g, h)\nj = Tanh(i)\n"
                             "k = MatMul(j, w)\nl = Softmax(k) axis=0\nm = Concat(l, j) axis=0\nn = Tanh(m)\n"
                             "o = MatMul(n, w)\nz = i[] 1\np = CumSum(o, z)\nq = Tanh(p)\nr = MatMul(q, w)\n"
                             "s = ReduceMax(r) axes=0,\nt = Softmax(r)\nu = Add(t, s)\n-> u, s";

enum { MOST = 60 };

static inlay_status open_faulty(const char *kind, int at, const char *timeout, rig *out, inlay_diag *diag)
{
    char fault[32] = "";
    wire w = { 0 };

    if (kind != NULL)
        (void)snprintf(fault, sizeof fault, "%s:%d", kind, at);
    script_model(&w, script, 13);
    return rig_try_open(&w,
                        (const char *const[]){ "providers", "vulkan,reference", "policy", "priority", "pin",
                                               "op:Tanh=reference", "vulkan.fault", fault, "vulkan.timeout_ms", timeout,
                                               NULL },
                        out, diag);
}

/* The same model without a fault, in a session of its own. */
static void still_works(const rig *want)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    rig r;

    assert_int_equal(open_faulty(NULL, 0, "0", &r, &diag), INLAY_OK);
    script_feed(&r, 1);
    rig_run(&r);
    beside_compare(&r, want, script);
    rig_close(&r);
}

/* How many faults of a kind strike before there are no more dispatches, or buffers, to strike at. */
static int plant(const char *kind, inlay_status expected, const char *timeout, int step)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    rig want = beside_open(script, 13, NULL, false), r;
    inlay_status status = expected;
    int at = 1;

    script_feed(&want, 1);
    rig_run(&want);
    for (; at < MOST && status == expected; at += step) {
        status = open_faulty(kind, at, timeout, &r, &diag);
        if (status == INLAY_OK) {
            script_feed(&r, 1);
            status = inlay_context_run(r.context, NULL, &diag);
            if (status == INLAY_OK)
                beside_compare(&r, &want, script);
            else
                assert_non_null(strstr(diag.text, "provider vulkan"));
            if (status == INLAY_OUT_OF_MEMORY) { /* the next run finds room */
                rig_run(&r);
                beside_compare(&r, &want, script);
            } else if (status == INLAY_DEVICE_LOST) { /* for good */
                assert_int_equal(inlay_context_run(r.context, NULL, &diag), INLAY_DEVICE_LOST);
            }
        }
        if (status != INLAY_OK && status != expected)
            fail_msg("%s:%d: %d: %s", kind, at, (int)status, diag.text);
        rig_close(&r);
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
    beside_need_device();
    assert_true(plant("lost", INLAY_DEVICE_LOST, "0", 1) > 12);
}

static void memory_ends(void **state)
{
    (void)state;
    beside_need_device();
    assert_true(plant("memory", INLAY_OUT_OF_MEMORY, "0", 1) > 2);
}

#ifndef __SANITIZE_ADDRESS__ /* what a device may still write to is not freed */
static void devices_hang(void **state)
{
    (void)state;
    beside_need_device();
    assert_true(plant("hang", INLAY_DEVICE_LOST, "3000", 6) > 12);
}
#endif

static void faults_are_named(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    rig r;

    (void)state;
    beside_need_device();
    assert_int_not_equal(open_faulty("fire", 1, "0", &r, &diag), INLAY_OK);
    assert_non_null(strstr(diag.text, "it takes lost:N, memory:N or hang:N"));
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_lost),
        cmocka_unit_test(memory_ends),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test(devices_hang),
#endif
        cmocka_unit_test(faults_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
