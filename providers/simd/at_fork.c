/* Locks that are free in a child of fork(), see at_fork.h. */
#include "simd/at_fork.h"
#include "inlay/check.h"
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* The fork waits at most MAX_ROUNDS * ROUND_NS (one second): the holder of a lock may itself wait for a lock that the
 * forking thread holds. */
enum { MAX_ROUNDS = 20000, ROUND_NS = 50000 };

struct guarded {
    pthread_mutex_t *mutex;
    pthread_rwlock_t *rwlock; /* exactly one of the two is set */
};

static struct guarded locks[LOCKS_AT_FORK];
static uint32_t lock_count;
static bool taken; /* valid between the handlers of one fork, which the C library serialises */

static void release_locks(uint32_t n)
{
    INLAY_CHECK(n <= lock_count);
    while (n-- > 0)
        (void)(locks[n].mutex != NULL ? pthread_mutex_unlock(locks[n].mutex) : pthread_rwlock_unlock(locks[n].rwlock));
}

/* Takes all locks or none, so that the order in which other threads take them does not matter. */
static bool take_all(void)
{
    for (uint32_t i = 0; i < lock_count; i++) {
        if ((locks[i].mutex != NULL ? pthread_mutex_trylock(locks[i].mutex)
                                    : pthread_rwlock_trywrlock(locks[i].rwlock)) != 0) {
            release_locks(i);
            return false;
        }
    }
    return true;
}

static void before_fork(void)
{
    const struct timespec pause = { .tv_nsec = ROUND_NS };

    taken = take_all();
    for (int i = 0; !taken && i < MAX_ROUNDS; i++) {
        (void)nanosleep(&pause, NULL);
        taken = take_all();
    }
}

static void after_in_parent(void)
{
    if (taken)
        release_locks(lock_count);
}

static void after_in_child(void)
{
    for (uint32_t i = 0; i < lock_count; i++)
        (void)(locks[i].mutex != NULL ? pthread_mutex_init(locks[i].mutex, NULL)
                                      : pthread_rwlock_init(locks[i].rwlock, NULL));
}

static void add(struct guarded guarded)
{
    INLAY_CHECK(lock_count < LOCKS_AT_FORK);
    if (lock_count == 0)
        (void)pthread_atfork(before_fork, after_in_parent, after_in_child);
    if (lock_count < LOCKS_AT_FORK)
        locks[lock_count++] = guarded;
}

void lock_at_fork(pthread_mutex_t *lock)
{
    add((struct guarded){ .mutex = lock });
}

void rwlock_at_fork(pthread_rwlock_t *lock)
{
    add((struct guarded){ .rwlock = lock });
}
