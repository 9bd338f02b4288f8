/* threads/fork.h - what fork() does to the library.
 *
 * A child has one thread, the memory as all threads left it, and locks that nobody will unlock whose owners are not
 * there. So the thread that forks ends its team of workers first, which parent and child make anew with their next
 * loop, and waits for the locks of the process; objects that belong to a session are looked at when the child first
 * uses them (session/inherit.c). */
#ifndef THREADS_FORK_H
#define THREADS_FORK_H
#include <pthread.h>
#include <stdint.h>

/* How many forks lie between this process and the one that loaded the library. */
extern uint32_t fork_count;
/* A lock of the process, for good: fork() waits for who holds it, and the child finds it free. Called by constructors,
 * at most FORK_GUARDS times. */
enum { FORK_GUARDS = 8 };
void fork_guard(pthread_mutex_t *lock);
#endif
