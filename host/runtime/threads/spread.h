/* threads/spread.h - a team whose workers run on CPUs of their own. */
#ifndef THREADS_SPREAD_H
#define THREADS_SPREAD_H
#include <stdint.h>

/* Wakes the calling thread's team of so many threads and sees to it that no two of them share a CPU while there are
 * others that this process may use; the kernel is free to move them later. A microsecond with a team that is awake and
 * spread, else what waking takes, some 50 to 100 us. */
void spread_team(uint32_t team);
#endif
