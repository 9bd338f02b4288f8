/* clock.h - the clock of providers: CLOCK_MONOTONIC, like the host's deadlines. */
#ifndef SIMD_CLOCK_H
#define SIMD_CLOCK_H
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
    struct timespec now = { 0, 0 };

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
#endif
