/* threads/threads.h - the one pool of the process, which is OpenMP's: libraries that plugins use (oneDNN, OpenBLAS)
 * bring loops of their own to the same threads.
 *
 * The budget is the number of CPUs that this process may use. A loop leases workers from it and gives them back; when
 * several threads run models at once, the second gets what the first left, at worst itself. */
#ifndef THREADS_H
#define THREADS_H
#include "inlay/plugin.h"

/* CPUs allowed by the affinity mask and by the quota of the control group, at least 1. */
uint32_t threads_budget(void);
/* The most workers of a loop of that run; run may be NULL: the budget, or what threads_hold said. */
uint32_t threads_limit(const inlay_run *run);
/* Loops of this thread that belong to no run use at most so many workers from now on; 0 = the budget. Returns what held
 * before, to be set again: how compiling keeps to the threads of its session. */
uint32_t threads_hold(uint32_t limit);
/* See inlay_host.parallel_for. Between ranges a cancelled or late run stops, with that status. */
inlay_status threads_parallel_for(const inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn, void *user);
/* The calling thread has no workers any more: its next team is made anew. */
void threads_dismissed(void);
/* The same in a child of fork(), where no other thread is in a loop. */
void threads_forked(void);
/* See inlay_ext_team.gather. */
void threads_gather(const inlay_run *run);
#endif
