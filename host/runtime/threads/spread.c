/* The kernel likes to put a thread that is woken on the CPU of who wakes it. In a virtual machine it does so nearly
 * always: a CPU that halted looks as if the hypervisor had taken it away. Then caller and worker are on one CPU, each
 * turns in a loop while it keeps the other from working, sleeps in the end, and is woken on the other's CPU: a run of
 * 50 short loops takes 14 ms instead of 1, every time that the program has been idle before. Nothing moves them apart,
 * since neither runs for long. So when the team may have slept, its threads meet here first: the second one on a CPU
 * asks for another that no one has, and then for all that it may use again, which leaves it where it is. */
#include "threads/spread.h"
#include "base/clock.h"
#include "threads/gomp.h"
#include <sched.h>
#include <stdbool.h>

enum {
    ROUNDS = 3,          /* while threads are being made, the caller sleeps, and wakes up elsewhere */
    PATIENCE_NS = 30000, /* for workers that are awake already */
    MOST_NS = 1000000,
};

struct meeting {
    uint32_t team;
    uint32_t there;          /* atomic: workers that came */
    bool taken[CPU_SETSIZE]; /* atomic: there is one on that CPU */
};

static bool take(struct meeting *meeting, int cpu)
{
    return cpu >= 0 && cpu < CPU_SETSIZE && !__atomic_exchange_n(&meeting->taken[cpu], true, __ATOMIC_RELAXED);
}

/* To the next CPU that none has taken, if there is one: near in the caches, and not the same for every process. */
static void step_aside(struct meeting *meeting, int here)
{
    cpu_set_t may, one;

    if (sched_getaffinity(0, sizeof may, &may) != 0) /* more CPUs than a cpu_set_t has room for */
        return;
    for (int i = 1; i < CPU_SETSIZE; i++) {
        const int cpu = (here + i) % CPU_SETSIZE;

        if (!CPU_ISSET(cpu, &may) || !take(meeting, cpu))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof one, &one) == 0)
            (void)sched_setaffinity(0, sizeof may, &may);
        return;
    }
}

/* Waits for the workers, and lets one run that is behind it on this CPU. A barrier would send it to sleep. */
static void wait_for_all(struct meeting *meeting)
{
    const uint64_t begin = clock_ns();
    uint64_t waited = 0;

    while (__atomic_load_n(&meeting->there, __ATOMIC_ACQUIRE) + 1 < meeting->team && waited < MOST_NS) {
        waited = clock_ns() - begin;
        if (waited > PATIENCE_NS)
            (void)sched_yield();
    }
}

static void meet(void *user)
{
    struct meeting *meeting = user;
    int here;

    if (gomp_worker() == 0) {
        wait_for_all(meeting);
        return;
    }
    here = sched_getcpu();
    if (here >= 0 && !take(meeting, here))
        step_aside(meeting, here);
    (void)__atomic_fetch_add(&meeting->there, 1, __ATOMIC_RELEASE);
}

void spread_team(uint32_t team)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct meeting meeting = { .team = team };
        int cpu = sched_getcpu();

        (void)take(&meeting, cpu);
        gomp_team(meet, &meeting, team);
        if (sched_getcpu() == cpu)
            return;
    }
}
