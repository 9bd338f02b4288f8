/* base/cpus.h - how many CPUs this process may use. */
#ifndef BASE_CPUS_H
#define BASE_CPUS_H
#include <stdint.h>

/* Limited by the affinity mask of the calling thread and by the quota of the control group; at least 1. Reads files:
 * callers cache the result. */
uint32_t cpus_allowed(void);
/* Bytes of memory that this process may use: those of the machine, or the limit of its control groups if that is
 * less. */
uint64_t memory_allowed(void);
#endif
