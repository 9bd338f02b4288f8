/* base/clock.h - the clocks of the host: CLOCK_MONOTONIC, which deadlines and traces use, and the CPU time of the
 * process. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read_ns(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

static inline double clock_ms(void)
{
    return (double)clock_ns() * 1e-6;
}

/* CPU time of this process. Time that other processes use is excluded. */
static inline double clock_cpu_ms(void)
{
    return (double)clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-6;
}
#endif
