/* The speed of one core: arithmetic, and reads from each level of memory. */
#include "base/clock.h"
#include "base/isa.h"
#include "inlay/check.h"
#include "inlay/note.h"
#include "measure/measure_parts.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Time slices are short, so that another process rarely preempts all of them; the shortest counts. Together, those of
 * the first measurement are long enough for the CPU to switch to the clock rate of its wide registers. */
enum { CHAINS = 10, ROUNDS = 2000, SLICES = 24 };
/* Bytes that a slice reads: of a buffer that stays in the cache of the first level, and of one that only the second
 * level holds. */
enum {
    CORE_BYTES = 16 << 10,
    CORE_PASSES = 16,
    NEAR_BYTES = 128 << 10,
    NEAR_PASSES = 2,
    MEMORY_SLICES = 4,
    UNROLL = 8
};

/* Defines a function that executes STEP on each of CHAINS registers of `bytes` bytes, ROUNDS times. STEP multiplies and
 * adds once per lane, in assembly that compilers do not remove. The steps of one register depend on each other; CHAINS
 * is more than a core executes concurrently and fewer than its registers, so the loop measures throughput. */
#define SPEED_LOOP(name, bytes, target, STEP)                                                                          \
    target static double name(void)                                                                                    \
    {                                                                                                                  \
        typedef float lanes __attribute__((vector_size(bytes)));                                                       \
        const lanes by = { 0.5f }, more = { 1 };                                                                       \
        lanes a = more, b = by, c = more, d = by, e = more, f = by, g = more, h = by, i = more, j = by;                \
                                                                                                                       \
        for (int round = 0; round < ROUNDS; round++) {                                                                 \
            STEP(a);                                                                                                   \
            STEP(b);                                                                                                   \
            STEP(c);                                                                                                   \
            STEP(d);                                                                                                   \
            STEP(e);                                                                                                   \
            STEP(f);                                                                                                   \
            STEP(g);                                                                                                   \
            STEP(h);                                                                                                   \
            STEP(i);                                                                                                   \
            STEP(j);                                                                                                   \
        }                                                                                                              \
        a += b + c + d + e + f + g + h + i + j;                                                                        \
        return (double)a[0];                                                                                           \
    }

/* Defines a function that reads `count` bytes, a multiple of UNROLL registers, at an aligned address. */
#define READ_LOOP(name, bytes, target, LOAD)                                                                           \
    target static void name(const void *memory, size_t count)                                                          \
    {                                                                                                                  \
        typedef float lanes __attribute__((vector_size(bytes)));                                                       \
        const lanes *at = memory;                                                                                      \
        lanes a, b, c, d;                                                                                              \
                                                                                                                       \
        for (size_t i = 0; i < count / sizeof(lanes); i += UNROLL) {                                                   \
            LOAD(a, at[i]);                                                                                            \
            LOAD(b, at[i + 1]);                                                                                        \
            LOAD(c, at[i + 2]);                                                                                        \
            LOAD(d, at[i + 3]);                                                                                        \
            LOAD(a, at[i + 4]);                                                                                        \
            LOAD(b, at[i + 5]);                                                                                        \
            LOAD(c, at[i + 6]);                                                                                        \
            LOAD(d, at[i + 7]);                                                                                        \
        }                                                                                                              \
        (void)a, (void)b, (void)c, (void)d;                                                                            \
    }

typedef struct speed_level {
    uint32_t isa;
    uint32_t lanes;
    double (*run)(void);
    void (*read)(const void *memory, size_t count);
} speed_level;

#if defined(__x86_64__)
#define FMA(x) __asm__ volatile("vfmadd213ps %2, %1, %0" : "+v"(x) : "v"(by), "v"(more))
#define MULTIPLY_ADD(x) __asm__ volatile("mulps %1, %0\n\taddps %2, %0" : "+x"(x) : "x"(by), "x"(more))
#define WIDE_LOAD(x, from) __asm__ volatile("vmovups %1, %0" : "=v"(x) : "m"(from))
#define LOAD(x, from) __asm__ volatile("movups %1, %0" : "=x"(x) : "m"(from))
#define AVX512 __attribute__((target("avx512f")))
#define AVX2 __attribute__((target("avx2,fma")))
SPEED_LOOP(run_avx512, 64, AVX512, FMA)
SPEED_LOOP(run_avx2, 32, AVX2, FMA)
SPEED_LOOP(run_baseline, 16, , MULTIPLY_ADD)
READ_LOOP(read_avx512, 64, AVX512, WIDE_LOAD)
READ_LOOP(read_avx2, 32, AVX2, WIDE_LOAD)
READ_LOOP(read_baseline, 16, , LOAD)
static const speed_level levels[] = { { INLAY_ISA_X86_64_V4, 16, run_avx512, read_avx512 },
                                      { INLAY_ISA_X86_64_V3, 8, run_avx2, read_avx2 },
                                      { INLAY_ISA_BASELINE, 4, run_baseline, read_baseline } };
#else
#if defined(__aarch64__)
#define FMA(x) __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(x) : "w"(by), "w"(more))
#else
#define FMA(x) (x) = (x)*by + more
#endif
#define LOAD(x, from) (x) = *(const volatile lanes *)&(from)
SPEED_LOOP(run_baseline, 16, , FMA)
READ_LOOP(read_baseline, 16, , LOAD)
static const speed_level levels[] = { { INLAY_ISA_BASELINE, 4, run_baseline, read_baseline } };
#endif

static const speed_level *level_in_use(void)
{
    const speed_level *level = levels;

    while (level->isa > isa_in_use())
        level++;
    INLAY_CHECK(level < levels + sizeof levels / sizeof levels[0]);
    return level;
}

static volatile double unused; /* keeps the compiler from removing the computation */

/* Float operations per nanosecond at the level. */
static double measure_flops(const speed_level *level)
{
    uint64_t least_ns = UINT64_MAX;

    for (int slice = 0; slice < SLICES; slice++) {
        const uint64_t start = clock_ns();
        uint64_t ns;

        unused = level->run();
        ns = clock_ns() - start;
        least_ns = ns < least_ns ? ns : least_ns;
    }
    return least_ns > 0 ? 2.0 * CHAINS * ROUNDS * level->lanes / (double)least_ns : 0;
}

double measure_read_rate(const void *memory, size_t bytes, uint32_t passes, uint32_t slices)
{
    const speed_level *level = level_in_use();
    uint64_t least_ns = UINT64_MAX;

    INLAY_CHECK((uintptr_t)memory % MEASURE_ALIGN == 0 && bytes % (UNROLL * MEASURE_ALIGN) == 0);
    level->read(memory, bytes); /* into the caches */
    for (uint32_t slice = 0; slice < slices; slice++) {
        const uint64_t start = clock_ns();
        uint64_t ns;

        for (uint32_t pass = 0; pass < passes; pass++)
            level->read(memory, bytes);
        ns = clock_ns() - start;
        least_ns = ns < least_ns ? ns : least_ns;
    }
    return least_ns > 0 ? (double)bytes * passes / (double)least_ns : 0;
}

/* Bytes per nanosecond that one thread reads from main memory; 0 on CPUs without an instruction that removes data from
 * all caches. */
static double measure_memory(char *memory, size_t bytes)
{
    double most = 0;

#if defined(__x86_64__)
    for (int slice = 0; slice < MEMORY_SLICES; slice++) {
        uint64_t start, ns;

        for (size_t i = 0; i < bytes; i += MEASURE_ALIGN)
            __asm__ volatile("clflush %0" : "+m"(memory[i]));
        __asm__ volatile("mfence" ::: "memory");
        start = clock_ns();
        level_in_use()->read(memory, bytes);
        ns = clock_ns() - start;
        most = ns > 0 && (double)bytes / (double)ns > most ? (double)bytes / (double)ns : most;
    }
#else
    (void)memory, (void)bytes;
#endif
    return most;
}

void measure_core(inlay_speed *out)
{
    void *memory = aligned_alloc(MEASURE_ALIGN, NEAR_BYTES);

    *out = (inlay_speed){ .struct_size = sizeof *out };
    for (const speed_level *level = level_in_use(); level < levels + sizeof levels / sizeof levels[0]; level++) {
        double *flops = level->isa == INLAY_ISA_X86_64_V4   ? &out->flops_v4
                        : level->isa == INLAY_ISA_X86_64_V3 ? &out->flops_v3
                                                            : &out->flops_baseline;

        *flops = measure_flops(level);
    }
    if (memory == NULL) /* 0: not measured */
        return;
    memset(memory, 1, NEAR_BYTES); /* real pages, not the shared zero page */
    out->core_bytes = measure_read_rate(memory, CORE_BYTES, CORE_PASSES, SLICES);
    out->near_bytes = measure_read_rate(memory, NEAR_BYTES, NEAR_PASSES, SLICES);
    out->memory_bytes = measure_memory(memory, NEAR_BYTES);
    free(memory);
}
