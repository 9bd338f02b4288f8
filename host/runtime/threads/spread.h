/* threads/spread.h - places the threads of an OpenMP team on different CPUs. */
#ifndef THREADS_SPREAD_H
#define THREADS_SPREAD_H
#include <stdint.h>

/* Wakes the calling thread's team of `team` threads and moves threads that share a CPU to unused CPUs of this process,
 * as far as it has any. The kernel may move them later. Takes about 1 us if the team is awake and spread, otherwise the
 * time to wake it, 50 to 100 us. */
void spread_team(uint32_t team);
#endif
