/* at_fork.h - locks of the process that a child of fork() finds free.
 *
 * The thread that forks waits for who holds one, so what it guards is whole in the child, too. For locks of the plugin,
 * not of a session: a session in use when the process forks is none in the child. */
#ifndef AT_FORK_H
#define AT_FORK_H
#include <pthread.h>

/* Called by constructors, at most LOCKS_AT_FORK times in a plugin. */
enum { LOCKS_AT_FORK = 8 };
void lock_at_fork(pthread_mutex_t *lock);
/* The same for calls of a library with locks of its own, which are made behind this one as a reader. */
void calls_at_fork(pthread_rwlock_t *lock);
#endif
