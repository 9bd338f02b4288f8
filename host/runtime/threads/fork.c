/* threads/fork.c - before a fork and after it, see fork.h. */
#include "threads/fork.h"
#include "base/clock.h"
#include "threads/gomp.h"
#include "threads/threads.h"
#include <stdbool.h>
#include <time.h>

uint32_t fork_count;

/* Whoever holds a lock longer waits for this thread, or is this thread: its child gets the lock as it is. */
#define PATIENCE_NS UINT64_C(1000000000)

static pthread_mutex_t *guarded[FORK_GUARDS];
static uint32_t guarded_count;
static bool taken; /* between the handlers of one fork, which glibc runs one at a time */

static void give_back(uint32_t count)
{
    while (count > 0)
        (void)pthread_mutex_unlock(guarded[--count]);
}

/* All of them or none, so that the order in which others take them does not matter. */
static bool take_all(void)
{
    for (uint32_t i = 0; i < guarded_count; i++) {
        if (pthread_mutex_trylock(guarded[i]) != 0) {
            give_back(i);
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
    while (!(taken = take_all()) && clock_ns() - begin < PATIENCE_NS)
        (void)nanosleep(&pause, NULL);
}

static void after_in_parent(void)
{
    if (taken)
        give_back(guarded_count);
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
    if (guarded_count < FORK_GUARDS)
        guarded[guarded_count++] = lock;
}
