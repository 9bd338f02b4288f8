/* at_fork.h - locks that are free in a child of fork().
 *
 * The forking thread waits until the locks are free, so the data that they guard is consistent in the child. For locks
 * of the plugin, not of a session: a session in use during fork() is not usable in the child. */
#ifndef AT_FORK_H
#define AT_FORK_H
#include <pthread.h>

/* Registers a lock. Called by constructors, at most LOCKS_AT_FORK times in a plugin (both functions together). */
enum { LOCKS_AT_FORK = 8 };
void lock_at_fork(pthread_mutex_t *lock);
/* Registers a lock that is held for reading during calls of a library that uses internal locks. */
void rwlock_at_fork(pthread_rwlock_t *lock);
#endif
