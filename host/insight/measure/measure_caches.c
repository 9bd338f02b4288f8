/* Sweeps the caches before a kernel is timed. */
#include "base/memory.h"
#include "inlay/check.h"
#include "measure/measure_parts.h"
#include "partition/cost/cost.h"
#include "threads/threads.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_SWEEP_BYTES = 256 << 20, MAX_SWEEP_THREADS = 64 };

inlay_status measure_sweep_init(measure_sweep *sweep, inlay_diag *diag)
{
    size_t shared = 4 * (size_t)cost_shared_bytes();

    sweep->near_bytes = (size_t)cost_near_bytes();
    sweep->bytes = shared > MAX_SWEEP_BYTES ? MAX_SWEEP_BYTES : shared < MEASURE_SWEEP_MIN ? MEASURE_SWEEP_MIN : shared;
    sweep->memory = malloc(sweep->bytes);
    if (sweep->memory == NULL)
        return no_memory(diag, "to measure");
    memset(sweep->memory, 1, sweep->bytes); /* real pages, not the shared zero page */
    return INLAY_OK;
}

void measure_sweep_deinit(measure_sweep *sweep)
{
    free(sweep->memory);
    sweep->memory = NULL;
}

void measure_read_through(const char *memory, size_t bytes)
{
    char sum = 0;

    for (size_t i = 0; i < bytes; i += 64)
        sum = (char)(sum ^ *(const volatile char *)(memory + i));
    (void)sum;
}

/* The memory that a thread reads. */
struct sweep_job {
    const char *memory;
    size_t bytes;
};

static inlay_status sweep_part(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct sweep_job *sweep_job = user;

    (void)worker;
    for (int64_t i = begin; i < end; i++)
        measure_read_through(sweep_job[i].memory, sweep_job[i].bytes);
    return INLAY_OK;
}

/* Every thread that the kernel may use reads all of the memory, so that neither private nor shared caches keep other
 * data. */
void measure_sweep_run(const measure_sweep *sweep, const inlay_run *run, size_t bytes)
{
    struct sweep_job parts[MAX_SWEEP_THREADS];
    uint32_t count = run->max_threads < MAX_SWEEP_THREADS ? run->max_threads : MAX_SWEEP_THREADS;

    count = count > 0 ? count : 1;
    for (uint32_t i = 0; i < count; i++)
        parts[i] = (struct sweep_job){ sweep->memory, bytes };
    INLAY_CHECK(sweep->memory != NULL && bytes <= sweep->bytes);
    (void)threads_parallel_for(run, count, 1, sweep_part, parts);
}
