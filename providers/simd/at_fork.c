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
    pthread_rwlock_t *calls; /* exactly one of the two is set */
};

static struct guarded list[LOCKS_AT_FORK];
static uint32_t count;
static bool taken; /* valid between the handlers of one fork, which the C library serialises */

static void release_locks(uint32_t n)
{
    INLAY_CHECK(n <= count);
    while (n-- > 0)
        (void)(list[n].mutex != NULL ? pthread_mutex_unlock(list[n].mutex) : pthread_rwlock_unlock(list[n].calls));
}

/* Takes all locks or none, so that the order in which other threads take them does not matter. */
static bool take_all(void)
{
    for (uint32_t i = 0; i < count; i++) {
        if ((list[i].mutex != NULL ? pthread_mutex_trylock(list[i].mutex) : pthread_rwlock_trywrlock(list[i].calls)) !=
            0) {
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
        release_locks(count);
}

static void after_in_child(void)
{
    for (uint32_t i = 0; i < count; i++)
        (void)(list[i].mutex != NULL ? pthread_mutex_init(list[i].mutex, NULL)
                                     : pthread_rwlock_init(list[i].calls, NULL));
}

static void add(struct guarded guarded)
{
    INLAY_CHECK(count < LOCKS_AT_FORK);
    if (count == 0)
        (void)pthread_atfork(before_fork, after_in_parent, after_in_child);
    if (count < LOCKS_AT_FORK)
        list[count++] = guarded;
}

void lock_at_fork(pthread_mutex_t *lock)
{
    add((struct guarded){ .mutex = lock });
}

void rwlock_at_fork(pthread_rwlock_t *lock)
{
    add((struct guarded){ .calls = lock });
}
