/* threads/threads.h - parallel loops on the thread pool of the process (pool.h).
 *
 * The budget is the number of CPUs that this process may use. A loop leases workers from it and returns them. If
 * several threads run models concurrently, a later loop gets the workers that are left, at least its calling thread.
 * Ranges of a loop are taken from shared counters, so that a worker whose CPU other programs use delays the loop only
 * by the range that it has begun. Within a loop, OpenMP regions have one thread. */
#ifndef THREADS_H
#define THREADS_H
#include "inlay/types.h"

/* CPUs allowed by the affinity mask and by the quota of the control group, at least 1. */
uint32_t threads_budget(void);
/* Maximum number of workers of a loop of the run. If run is NULL: the limit of threads_set_limit(), or the budget. */
uint32_t threads_limit(const inlay_run *run);
/* Limits the workers of later loops of this thread that belong to no run; 0 = the budget. Returns the previous limit,
 * which the caller restores. Compilation uses it to respect the thread count of its session. */
uint32_t threads_set_limit(uint32_t limit);
/* See inlay_host.parallel_for. A run that is cancelled or past its deadline stops between ranges, with that status. */
inlay_status threads_parallel_for(const inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn, void *user);
/* Notes that the calling thread's OpenMP workers have ended. */
void threads_dismissed(void);
/* In a child of fork(): no worker exists, and no other thread is in a loop. */
void threads_forked(void);
/* See inlay_ext_team.gather. */
void threads_gather(const inlay_run *run);
#endif
