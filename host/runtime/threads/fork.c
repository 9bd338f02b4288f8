/* threads/fork.c - handlers of pthread_atfork(), see fork.h. */
#include "threads/fork.h"
#include "base/clock.h"
#include "threads/gomp.h"
#include "threads/threads.h"
#include "inlay/check.h"
#include <stdbool.h>
#include <time.h>

uint32_t fork_count;

/* A thread that holds a lock longer than this probably waits for the forking thread, or is that thread. The fork then
 * proceeds without the locks. */
#define LOCK_TIMEOUT_NS UINT64_C(1000000000)

static pthread_mutex_t *guarded[FORK_GUARDS];
static uint32_t guarded_count;
static bool locks_held; /* between the handlers of one fork; glibc serialises forks */

static void unlock_first(uint32_t count)
{
    while (count > 0)
        (void)pthread_mutex_unlock(guarded[--count]);
}

/* Locks all or none, so that the lock order of other threads does not matter. */
static bool lock_all(void)
{
    for (uint32_t i = 0; i < guarded_count; i++) {
        if (pthread_mutex_trylock(guarded[i]) != 0) {
            unlock_first(i);
            return false;
        }
    }
    return true;
}

static void before_fork(void)
{
    const uint64_t begin = clock_ns();
    const struct timespec pause = { .tv_nsec = 50000 };

    gomp_dismiss();
    while (!(locks_held = lock_all()) && clock_ns() - begin < LOCK_TIMEOUT_NS)
        (void)nanosleep(&pause, NULL);
}

static void after_in_parent(void)
{
    if (locks_held)
        unlock_first(guarded_count);
    threads_dismissed();
}

static void after_in_child(void)
{
    fork_count++;
    for (uint32_t i = 0; i < guarded_count; i++)
        (void)pthread_mutex_init(guarded[i], NULL);
    threads_forked();
}

void fork_guard(pthread_mutex_t *lock)
{
    if (guarded_count == 0)
        (void)pthread_atfork(before_fork, after_in_parent, after_in_child);
    INLAY_CHECK(guarded_count < FORK_GUARDS);
    if (guarded_count < FORK_GUARDS)
        guarded[guarded_count++] = lock;
}
