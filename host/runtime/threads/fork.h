/* threads/fork.h - makes the library usable in a child of fork().
 *
 * A child has only the thread that forked. Locks that other threads held stay locked, and the data that they guard may
 * be inconsistent. So the forking thread first ends its OpenMP workers (parent and child start new ones) and acquires
 * the process-wide locks; the child starts new workers of the pool (pool.h). Objects that belong to a session are
 * repaired when the child first uses them (session/inherit.c). */
#ifndef THREADS_FORK_H
#define THREADS_FORK_H
#include <pthread.h>
#include <stdint.h>

/* Number of forks between this process and the one that loaded the library. */
extern uint32_t fork_count;
/* Registers a process-wide lock: fork() waits until it is free, and the child gets it unlocked. Cannot be undone.
 * Called by constructors, at most FORK_GUARDS times. */
enum { FORK_GUARDS = 16 };
void fork_guard(pthread_mutex_t *lock);
#endif
