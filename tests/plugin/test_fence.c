/* Timelines and fences. */
#include "cmocka_all.h"
#include "threads/fence.h"
#include "threads/run.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static void counting(void **state)
{
    uint64_t timeline;
    inlay_status status;

    (void)state;
    assert_int_equal(timeline_create(&timeline, NULL), INLAY_OK);
    assert_true(fence_reached((inlay_fence){ 0, 7 }, NULL));
    assert_true(fence_reached((inlay_fence){ timeline, 0 }, NULL));
    assert_false(fence_reached((inlay_fence){ timeline, 1 }, NULL));
    fence_signal((inlay_fence){ timeline, 3 }, INLAY_OK, NULL);
    fence_signal((inlay_fence){ timeline, 2 }, INLAY_OK, NULL); /* never backwards */
    assert_true(fence_reached((inlay_fence){ timeline, 3 }, &status));
    assert_int_equal(status, INLAY_OK);
    assert_int_equal(fence_wait((inlay_fence){ timeline, 3 }, NULL, NULL), INLAY_OK);
    assert_false(fence_reached((inlay_fence){ timeline, 4 }, NULL));
    timeline_destroy(timeline);
    timeline_destroy(0);
}

static void poison(void **state)
{
    inlay_diag why = INLAY_DIAG_INIT, diag = INLAY_DIAG_INIT;
    uint64_t timeline, old;

    (void)state;
    assert_int_equal(timeline_create(&timeline, NULL), INLAY_OK);
    fence_signal((inlay_fence){ timeline, 1 }, INLAY_OK, NULL);
    (void)inlay_fail(&why, INLAY_DEVICE_LOST, "it fell off the bus");
    (void)snprintf(why.node, sizeof why.node, "conv1");
    fence_signal((inlay_fence){ timeline, 2 }, why.code, &why);
    fence_signal((inlay_fence){ timeline, 3 }, INLAY_OK, NULL); /* too late */
    assert_int_equal(fence_wait((inlay_fence){ timeline, 1 }, NULL, &diag), INLAY_OK);
    assert_int_equal(fence_wait((inlay_fence){ timeline, 2 }, NULL, &diag), INLAY_DEVICE_LOST);
    assert_string_equal(diag.text, "it fell off the bus");
    assert_string_equal(diag.node, "conv1");
    assert_int_equal(diag.error_class, INLAY_CLASS_DEVICE_LOST);
    assert_int_equal(fence_wait((inlay_fence){ timeline, 3 }, NULL, NULL), INLAY_DEVICE_LOST);
    old = timeline;
    timeline_renew(&timeline);
    assert_true(timeline != old);
    fence_signal((inlay_fence){ old, 9 }, INLAY_INTERNAL, NULL); /* a point in the past: ignored */
    assert_false(fence_reached((inlay_fence){ timeline, 1 }, NULL));
    fence_signal((inlay_fence){ timeline, 1 }, INLAY_OK, NULL);
    assert_int_equal(fence_wait_uncancelled((inlay_fence){ timeline, 1 }, NULL), INLAY_OK);
    timeline_destroy(timeline);
    timeline = 0;
    timeline_renew(&timeline);
    assert_int_equal(timeline, 0);
}

static void stale_fence_values(void **state)
{
    uint64_t timeline[200], old;

    (void)state;
    assert_int_equal(timeline_create(&old, NULL), INLAY_OK);
    timeline_destroy(old);
    timeline_destroy(old);
    for (int i = 0; i < 200; i++) /* more than one block of slots */
        assert_int_equal(timeline_create(&timeline[i], NULL), INLAY_OK);
    fence_signal((inlay_fence){ old, 9 }, INLAY_INTERNAL, NULL);
    fence_signal((inlay_fence){ UINT64_MAX, 9 }, INLAY_INTERNAL, NULL);
    for (int i = 0; i < 200; i++) {
        assert_false(fence_reached((inlay_fence){ timeline[i], 1 }, NULL));
        for (int k = 0; k < i; k++)
            assert_true(timeline[i] != timeline[k]);
    }
    assert_int_equal(fence_wait((inlay_fence){ old, 9 }, NULL, NULL), INLAY_OK);
    for (int i = 0; i < 200; i++)
        timeline_destroy(timeline[i]);
}

static void *signal_later(void *arg)
{
    usleep(3000);
    fence_signal((inlay_fence){ *(uint64_t *)arg, 5 }, INLAY_OK, NULL);
    return NULL;
}
static void waiting(void **state)
{
    uint32_t cancel = 0;
    inlay_run run = { .cancel = &cancel, .max_threads = 1 };
    inlay_diag diag = INLAY_DIAG_INIT;
    pthread_t thread;
    uint64_t timeline;

    (void)state;
    for (int with_run = 0; with_run < 2; with_run++) {
        assert_int_equal(timeline_create(&timeline, NULL), INLAY_OK);
        assert_int_equal(pthread_create(&thread, NULL, signal_later, &timeline), 0);
        assert_int_equal(fence_wait((inlay_fence){ timeline, 5 }, with_run ? &run : NULL, NULL), INLAY_OK);
        assert_int_equal(pthread_join(thread, NULL), 0);
        timeline_destroy(timeline);
    }
    assert_int_equal(timeline_create(&timeline, NULL), INLAY_OK);
    cancel = 1;
    assert_int_equal(fence_wait((inlay_fence){ timeline, 1 }, &run, &diag), INLAY_CANCELLED);
    cancel = 0;
    run.deadline_ns = 1;
    assert_int_equal(fence_wait((inlay_fence){ timeline, 1 }, &run, &diag), INLAY_DEADLINE_EXCEEDED);
    assert_non_null(strstr(diag.text, "deadline"));
    timeline_destroy(timeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counting),
        cmocka_unit_test(poison),
        cmocka_unit_test(stale_fence_values),
        cmocka_unit_test(waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
