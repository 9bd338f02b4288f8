/* Memory that sweeps the caches before a kernel is timed. */
#include "base/memory.h"
#include "measure/measure_parts.h"
#include "partition/cost/cost.h"
#include "threads/threads.h"
#include <stdlib.h>
#include <string.h>

enum { SWEEP_MOST = 256 << 20, MAX_SWEEPERS = 64 };

inlay_status measure_sweep_init(measure_sweep *sweep, inlay_diag *diag)
{
    size_t shared = 4 * (size_t)cost_shared_bytes();

    sweep->near_bytes = (size_t)cost_near_bytes();
    sweep->bytes = shared > SWEEP_MOST ? SWEEP_MOST : shared < MEASURE_SWEEP_LEAST ? MEASURE_SWEEP_LEAST : shared;
    sweep->memory = malloc(sweep->bytes);
    if (sweep->memory == NULL)
        return no_memory(diag, "to measure");
    memset(sweep->memory, 1, sweep->bytes); /* pages of their own, not all the same zeroes */
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

/* What a sweep reads, shared by its threads. */
struct sweeping {
    const char *memory;
    size_t bytes;
};

static inlay_status sweep_part(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct sweeping *sweeping = user;

    (void)worker;
    for (int64_t i = begin; i < end; i++)
        measure_read_through(sweeping[i].memory, sweeping[i].bytes);
    return INLAY_OK;
}

/* Every thread that the kernel may use reads all of it, so that nothing is left next to any of the cores, nor in the
 * caches that some of them share. */
void measure_sweep_run(const measure_sweep *sweep, const inlay_run *run, size_t bytes)
{
    struct sweeping parts[MAX_SWEEPERS];
    uint32_t count = run->max_threads < MAX_SWEEPERS ? run->max_threads : MAX_SWEEPERS;

    count = count > 0 ? count : 1;
    for (uint32_t i = 0; i < count; i++)
        parts[i] = (struct sweeping){ sweep->memory, bytes };
    (void)threads_parallel_for(run, count, 1, sweep_part, parts);
}
