/* threads/run.c - run state and crash scenes, which this folder and plugin/ share. */
#include "threads/run.h"
#include "base/clock.h"
#include "threads/scene.h"
#include "inlay/check.h"

_Thread_local crash_scene crash_here __attribute__((tls_model("initial-exec")));

inlay_status run_poll(const inlay_run *run)
{
    /* The pointer changes when a device hangs (exec/device/in_flight.c), while that device may still poll. */
    const uint32_t *cancel = __atomic_load_n(&run->cancel, __ATOMIC_ACQUIRE);

    INLAY_CHECK(cancel != NULL);
    if (__atomic_load_n(cancel, __ATOMIC_RELAXED) != 0)
        return INLAY_CANCELLED;
    if (run->deadline_ns == 0)
        return INLAY_OK;
    return clock_ns() < run->deadline_ns ? INLAY_OK : INLAY_DEADLINE_EXCEEDED;
}
