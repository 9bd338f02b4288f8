/* sched.h with sets of processors, at most 64: those of one processor group; in system.c. */
#ifndef WINDOWS_SCHED_H
#define WINDOWS_SCHED_H
#include_next <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define SCHED_IDLE 5 /* which winpthreads refuses; setpriority() does not */
#define CPU_SETSIZE 64
typedef struct cpu_set_t {
    uint64_t bits;
} cpu_set_t;
#define CPU_ALLOC(count) ((cpu_set_t *)calloc(1, sizeof(cpu_set_t)))
#define CPU_ALLOC_SIZE(count) sizeof(cpu_set_t)
#define CPU_FREE(set) free(set)
#define CPU_ZERO(set) ((void)((set)->bits = 0))
#define CPU_SET(cpu, set) ((void)((set)->bits |= UINT64_C(1) << (cpu)))
#define CPU_ISSET(cpu, set) (((set)->bits >> (cpu)&1) != 0)
#define CPU_COUNT(set) __builtin_popcountll((set)->bits)
#define CPU_COUNT_S(bytes, set) CPU_COUNT(set)

/* pid 0: the calling thread, for which the set of the process is reported. */
int sched_getaffinity(int pid, size_t bytes, cpu_set_t *out);
int sched_setaffinity(int pid, size_t bytes, const cpu_set_t *set);
int sched_getcpu(void);
#endif
