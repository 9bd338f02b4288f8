#include "base/core_speed.h"
#include "base/clock.h"
#include "base/isa.h"
#include "inlay/note.h"
#include "inlay/check.h"
#include <pthread.h>
#include <stdint.h>

/* Time slices are short, so that another process rarely preempts all of them. Together they are long enough for the CPU
 * to switch to the clock rate of its wide registers. */
enum { CHAINS = 10, ROUNDS = 2000, SLICES = 40 };
static const double MIN_FACTOR = 0.25, MAX_FACTOR = 16; /* a factor outside this range: the measurement has failed */

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

typedef struct speed_level {
    uint32_t isa;
    uint32_t lanes;
    double gflops; /* of the reference core */
    double (*run)(void);
} speed_level;

#if defined(__x86_64__)
#define FMA(x) __asm__ volatile("vfmadd213ps %2, %1, %0" : "+v"(x) : "v"(by), "v"(more))
#define MULTIPLY_ADD(x) __asm__ volatile("mulps %1, %0\n\taddps %2, %0" : "+x"(x) : "x"(by), "x"(more))
SPEED_LOOP(run_avx512, 64, __attribute__((target("avx512f"))), FMA)
SPEED_LOOP(run_avx2, 32, __attribute__((target("avx2,fma"))), FMA)
SPEED_LOOP(run_baseline, 16, , MULTIPLY_ADD)
static const speed_level levels[] = { { INLAY_ISA_X86_64_V4, 16, 320, run_avx512 },
                                      { INLAY_ISA_X86_64_V3, 8, 160, run_avx2 },
                                      { INLAY_ISA_BASELINE, 4, 80, run_baseline } };
#else
#if defined(__aarch64__)
#define FMA(x) __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(x) : "w"(by), "w"(more))
#else
#define FMA(x) (x) = (x)*by + more
#endif
SPEED_LOOP(run_baseline, 16, , FMA)
static const speed_level levels[] = { { INLAY_ISA_BASELINE, 4, 80, run_baseline } };
#endif

static double factor = 1;
static volatile double unused; /* keeps the compiler from removing the computation */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void measure(void)
{
    const speed_level *level = levels;
    uint64_t least_ns = UINT64_MAX;

    while (level->isa > isa_in_use())
        level++;
    INLAY_CHECK(level < levels + sizeof levels / sizeof levels[0]);
    for (int slice = 0; slice < SLICES; slice++) {
        const uint64_t start = clock_ns();
        uint64_t ns;

        unused = level->run();
        ns = clock_ns() - start;
        least_ns = ns < least_ns ? ns : least_ns;
    }
    if (least_ns > 0)
        factor = level->gflops * (double)least_ns / (2.0 * CHAINS * ROUNDS * level->lanes);
    factor = factor < MIN_FACTOR || factor > MAX_FACTOR ? 1 : factor;
}

double core_time_factor(void)
{
    (void)pthread_once(&once, measure);
    return factor;
}
