#include "check/concurrent.h"
#include <pthread.h>

static void *run_in_thread(void *user)
{
    static const harness_options options = { .quiet = true };
    concurrent_run *run = user;

    run->status = harness_run(run->harness, &options, &run->result, &run->diag);
    return NULL;
}

uint32_t concurrent_runs(const struct harness *harness, concurrent_run out[CONCURRENT_RUNS])
{
    pthread_t threads[CONCURRENT_RUNS];
    uint32_t started = 0;

    for (uint32_t i = 0; i < CONCURRENT_RUNS; i++)
        out[i] = (concurrent_run){ .harness = harness, .diag = INLAY_DIAG_INIT };
    check_phase(harness->check, "execute in two threads at once");
    while (started < CONCURRENT_RUNS && pthread_create(&threads[started], NULL, run_in_thread, &out[started]) == 0)
        started++;
    for (uint32_t i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    check_phase(harness->check, "the checker");
    return started;
}
