/* The kernel often wakes a thread on the CPU of the thread that wakes it. In a virtual machine the kernel does this
 * nearly always, because a halted CPU looks as if the hypervisor had taken it away. Caller and worker are then on one
 * CPU: each spins and thereby keeps the other from running, then sleeps, and is woken on the other's CPU. A run of 50
 * short loops takes 14 ms instead of 1 ms, every time that the program was idle before. The load balancer does not
 * separate them, because neither runs for long. So if a team may have slept, its threads meet in join_claims() first:
 * the second thread on a CPU pins itself to an unused CPU and then resets its affinity mask, which leaves it on that
 * CPU. */
#include "threads/spread.h"
#include "base/clock.h"
#include "threads/gomp.h"
#include "inlay/check.h"
#include <sched.h>
#include <stdbool.h>

enum {
    ROUNDS = 3,        /* while threads are being created, the caller sleeps and may wake up on another CPU */
    SPIN_NS = 30000,   /* waits so long without yielding, for workers that are awake already */
    WAIT_NS = 1000000, /* gives up after this time */
};

struct cpu_claims {
    uint32_t team;
    uint32_t arrived;          /* atomic: number of workers that have a CPU */
    bool claimed[CPU_SETSIZE]; /* atomic: a thread of the team is on that CPU */
};

static bool claim_cpu(struct cpu_claims *claims, int cpu)
{
    return cpu >= 0 && cpu < CPU_SETSIZE && !__atomic_exchange_n(&claims->claimed[cpu], true, __ATOMIC_RELAXED);
}

/* Moves the calling thread to the next unclaimed CPU after `here`, if any. That CPU probably shares caches with `here`,
 * and concurrent processes choose different CPUs. */
static void move_to_free_cpu(struct cpu_claims *claims, int here)
{
    cpu_set_t allowed, one;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) /* more CPUs than a cpu_set_t can hold */
        return;
    for (int i = 1; i < CPU_SETSIZE; i++) {
        const int cpu = (here + i) % CPU_SETSIZE;

        if (!CPU_ISSET(cpu, &allowed) || !claim_cpu(claims, cpu))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof one, &one) == 0)
            (void)sched_setaffinity(0, sizeof allowed, &allowed);
        return;
    }
}

/* Waits for the workers, and yields to one that waits for this CPU. A barrier would put the caller to sleep. */
static void wait_for_workers(struct cpu_claims *claims)
{
    const uint64_t begin = clock_ns();
    uint64_t waited = 0;

    while (__atomic_load_n(&claims->arrived, __ATOMIC_ACQUIRE) + 1 < claims->team && waited < WAIT_NS) {
        waited = clock_ns() - begin;
        if (waited > SPIN_NS)
            (void)sched_yield();
    }
}

static void join_claims(void *user)
{
    struct cpu_claims *claims = user;
    int here;

    if (gomp_worker() == 0) {
        wait_for_workers(claims);
        return;
    }
    here = sched_getcpu();
    if (here >= 0 && !claim_cpu(claims, here))
        move_to_free_cpu(claims, here);
    (void)__atomic_fetch_add(&claims->arrived, 1, __ATOMIC_RELEASE);
}

void spread_team(uint32_t team)
{
    INLAY_CHECK(team > 1);
    for (int round = 0; round < ROUNDS; round++) {
        struct cpu_claims claims = { .team = team };
        int cpu = sched_getcpu();

        (void)claim_cpu(&claims, cpu);
        gomp_team(join_claims, &claims, team);
        if (sched_getcpu() == cpu)
            return;
    }
}
