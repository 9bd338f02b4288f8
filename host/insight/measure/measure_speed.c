/* The speed of this machine, for its profile. */
#include "base/clock.h"
#include "inlay/check.h"
#include "measure/measure_parts.h"
#include "partition/cost/cost.h"
#include "threads/threads.h"
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { MEASUREMENTS = 8, CACHE_SLICES = 8, MEMORY_SLICES = 3, LOOPS = 64, LOOP_THREADS = 2 };

static void keep_larger(double *most, double value)
{
    *most = fmax(*most, value);
}

static inlay_status do_nothing(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    (void)user, (void)begin, (void)end, (void)worker;
    return INLAY_OK;
}

/* Nanoseconds of the shortest parallel loop of two threads; 0: there is one thread. */
static double loop_time(void)
{
    static const uint32_t not_cancelled;
    const inlay_run run = { .cancel = &not_cancelled, .max_threads = LOOP_THREADS };
    uint64_t least_ns = UINT64_MAX;

    if (threads_budget() < LOOP_THREADS)
        return 0;
    for (int i = 0; i < LOOPS; i++) {
        const uint64_t start = clock_ns();
        uint64_t ns;

        if (threads_parallel_for(&run, LOOP_THREADS, 1, do_nothing, NULL) != INLAY_OK)
            return 0;
        ns = clock_ns() - start;
        least_ns = i > 0 && ns < least_ns ? ns : least_ns; /* the first loop starts the threads */
    }
    return (double)least_ns;
}

/* Bytes per nanosecond that two threads read from memory together; 0: there is one thread. */
static double all_memory(const measure_sweep *sweep)
{
    static const uint32_t not_cancelled;
    const inlay_run run = { .cancel = &not_cancelled, .max_threads = LOOP_THREADS };
    double most = 0;

    for (int i = 0; threads_budget() >= LOOP_THREADS && i < MEMORY_SLICES; i++) {
        const uint64_t start = clock_ns();

        measure_sweep_run(sweep, &run, sweep->bytes);
        keep_larger(&most, LOOP_THREADS * (double)sweep->bytes / (double)(clock_ns() - start));
    }
    return most;
}

/* Bytes per nanosecond that one thread reads from memory in small pages; 0: pages are of one size. */
static double paged_memory(size_t bytes)
{
    double rate = 0;
#ifdef MADV_NOHUGEPAGE
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return 0;
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE);
    memset(memory, 1, bytes);
    rate = measure_read_rate(memory, bytes, 1, MEMORY_SLICES);
    (void)munmap(memory, bytes);
#else
    (void)bytes;
#endif
    return rate;
}

/* Bytes per nanosecond that one thread reads and writes when it copies data that the shared cache has. */
static double copied_bytes(char *memory, size_t bytes)
{
    uint64_t least_ns = UINT64_MAX;

    memcpy(memory + bytes, memory, bytes);
    for (int slice = 0; slice < CACHE_SLICES; slice++) {
        const uint64_t start = clock_ns();
        uint64_t ns;

        memcpy(memory + bytes, memory, bytes);
        ns = clock_ns() - start;
        least_ns = ns < least_ns ? ns : least_ns;
    }
    return least_ns > 0 ? 2 * (double)bytes / (double)least_ns : 0;
}

/* The best of several measurements, because other processes only make them slower. */
void measure_speed(const measure_sweep *sweep, inlay_speed *out, double out_memory[3])
{
    const uintptr_t unit = 8 * MEASURE_ALIGN, at = ((uintptr_t)sweep->memory + unit - 1) / unit * unit;
    const size_t bytes = (sweep->bytes - unit) / unit * unit, shared = (size_t)cost_shared_bytes() / 2 / unit * unit;

    *out = (inlay_speed){ .struct_size = sizeof *out };
    for (int i = 0; i < MEASUREMENTS; i++) {
        inlay_speed one;

        measure_core(&one);
        keep_larger(&out->flops_baseline, one.flops_baseline);
        keep_larger(&out->flops_v3, one.flops_v3);
        keep_larger(&out->flops_v4, one.flops_v4);
        keep_larger(&out->core_bytes, one.core_bytes);
        keep_larger(&out->near_bytes, one.near_bytes);
        keep_larger(&out->memory_bytes, one.memory_bytes);
    }
    INLAY_CHECK(sweep->memory != NULL && shared < bytes);
    out->shared_bytes = measure_read_rate((const void *)at, shared, 1, CACHE_SLICES);
    keep_larger(&out->memory_bytes, measure_read_rate((const void *)at, bytes, 1, MEMORY_SLICES));
    out->loop_ns = loop_time();
    measure_tiles(&out->tile_bytes, &out->tile_bfloat16);
    if (out_memory == NULL)
        return;
    out_memory[0] = all_memory(sweep);
    out_memory[1] = paged_memory(bytes);
    INLAY_CHECK(4 * sweep->near_bytes <= sweep->bytes);
    out_memory[2] = copied_bytes(sweep->memory, 2 * sweep->near_bytes);
}
