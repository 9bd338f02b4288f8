/* A worker has one word, `state`, through which its claimer posts a call, withdraws it, and waits for its end. This
 * costs little on a busy machine: one store posts a call to a worker that waits for a CPU, and another store withdraws
 * the call.
 *
 * Placement. The kernel often wakes a thread on the CPU of the thread that wakes it. In a virtual machine the kernel
 * does this nearly always, because a halted CPU looks as if the hypervisor had taken it away. The worker then waits
 * until its claimer sleeps, since neither runs long enough for the load balancer. So a team with a thread for each CPU
 * is placed, worker k on the k-th CPU after the claimer's, before it is woken. A smaller team is left to the kernel,
 * which knows the idle CPUs; a worker of it is placed once it has missed a loop. A worker that starts on its claimer's
 * CPU moves itself. Placing means to pin the thread to a CPU; it resets its mask when it runs. */
#include "threads/pool.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/pin.h"
#include "inlay/check.h"
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>

enum {
    IDLE,    /* spins */
    ASLEEP,  /* sleeps, or is about to */
    POSTED,  /* a call is posted that the worker has not begun */
    RUNNING, /* has begun */
    AWAITED, /* RUNNING, and its claimer sleeps */
};
enum { LINE_BYTES = 64, PAUSES = 32 };

struct pool_worker {
    _Alignas(LINE_BYTES) uint32_t state; /* atomic, a futex */
    uint32_t index;                      /* atomic; the posted call: its number in the team, ... */
    int caller_cpu;                      /* atomic; ... its claimer's CPU, -1 = unknown, ... */
    pool_fn fn;
    void *data;

    _Alignas(LINE_BYTES) uint32_t claimed; /* atomic; not in the line that a spinning worker reads */
    uint32_t missed;                       /* loops since it last began one */
    bool has_thread;
    pthread_t thread;
    cpu_set_t allowed;         /* the mask to reset to; written while `placed` and `reset` are equal */
    uint32_t placed;           /* atomic: how often a claimer has pinned the thread */
    uint32_t reset;            /* atomic: `placed` when the thread last reset its mask */
    struct pool_worker *next;  /* in the team */
    struct pool_worker *older; /* in `workers` */
};

static struct pool_worker *workers;                 /* atomic: the list of all workers, which are never freed */
static _Thread_local struct pool_worker *preferred; /* the first worker that this thread claimed last */

/* The k-th allowed CPU after `cpu`; -1 = there are fewer others. */
static int cpu_after(int cpu, uint32_t k, const cpu_set_t *allowed)
{
    for (int i = 1; i < CPU_SETSIZE; i++) {
        const int other = (cpu + i) % CPU_SETSIZE;

        if (CPU_ISSET(other, allowed) && --k == 0)
            return other;
    }
    return -1;
}

/* Pins a worker that does not run, if it may use at most `cpus` CPUs. */
static void place(struct pool_worker *worker, uint32_t cpus)
{
    cpu_set_t one;
    int cpu;

    if (worker->caller_cpu < 0 || worker->placed != __atomic_load_n(&worker->reset, __ATOMIC_ACQUIRE))
        return; /* the worker has not run since it was placed */
    if (pthread_getaffinity_np(worker->thread, sizeof worker->allowed, &worker->allowed) != 0)
        return; /* more CPUs than a cpu_set_t can hold */
    if ((uint32_t)CPU_COUNT(&worker->allowed) > cpus)
        return;
    cpu = cpu_after(worker->caller_cpu, worker->index, &worker->allowed);
    if (cpu < 0)
        return;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (pthread_setaffinity_np(worker->thread, sizeof one, &one) == 0)
        __atomic_store_n(&worker->placed, worker->placed + 1, __ATOMIC_RELEASE);
}

/* By the worker: undoes place(). */
static void reset_mask(struct pool_worker *worker)
{
    const uint32_t placed = __atomic_load_n(&worker->placed, __ATOMIC_ACQUIRE);

    if (placed == worker->reset)
        return;
    (void)sched_setaffinity(0, sizeof worker->allowed, &worker->allowed);
    __atomic_store_n(&worker->reset, placed, __ATOMIC_RELEASE);
}

/* By the worker, before it begins: it may have to wait for the other CPU, and must not have begun then. */
static void leave_callers_cpu(const struct pool_worker *worker)
{
    const int caller_cpu = __atomic_load_n(&worker->caller_cpu, __ATOMIC_RELAXED);
    cpu_set_t allowed, one;
    int cpu;

    if (caller_cpu < 0 || sched_getcpu() != caller_cpu || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    cpu = cpu_after(caller_cpu, __atomic_load_n(&worker->index, __ATOMIC_RELAXED), &allowed);
    if (cpu < 0)
        return;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0)
        (void)sched_setaffinity(0, sizeof allowed, &allowed);
}

/* Spins while the state is `old`, for at most POOL_SPIN_NS. */
static void spin(const uint32_t *state, uint32_t old)
{
    uint64_t begin;

    if (__atomic_load_n(state, __ATOMIC_ACQUIRE) != old)
        return;
    begin = clock_ns();
    do {
        for (int i = 0; i < PAUSES; i++) {
            futex_pause();
            if (__atomic_load_n(state, __ATOMIC_ACQUIRE) != old)
                return;
        }
    } while (clock_ns() - begin < POOL_SPIN_NS);
}

/* Waits for a call. False: it was withdrawn, or the worker was woken without one. */
static bool wait_for_call(struct pool_worker *worker)
{
    uint32_t state = IDLE;

    spin(&worker->state, IDLE);
    reset_mask(worker);
    (void)__atomic_compare_exchange_n(&worker->state, &state, ASLEEP, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    while (__atomic_load_n(&worker->state, __ATOMIC_ACQUIRE) == ASLEEP)
        futex_sleep(&worker->state, ASLEEP);
    reset_mask(worker);
    leave_callers_cpu(worker);
    state = POSTED;
    return __atomic_compare_exchange_n(&worker->state, &state, RUNNING, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void *work(void *user)
{
    struct pool_worker *worker = user;

    for (;;) {
        if (!wait_for_call(worker))
            continue;
        worker->fn(worker->data, worker->index);
        if (__atomic_exchange_n(&worker->state, IDLE, __ATOMIC_ACQ_REL) == AWAITED)
            futex_wake(&worker->state);
    }
    return NULL;
}

static void pin(void)
{
    pin_library(&workers); /* threads execute its code */
}

static bool start_thread(struct pool_worker *worker)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, pin);
    worker->has_thread = pthread_create(&worker->thread, NULL, work, worker) == 0;
    if (worker->has_thread)
        (void)pthread_detach(worker->thread);
    return worker->has_thread;
}

/* A claimed worker without a thread; NULL: out of memory. */
static struct pool_worker *add_worker(void)
{
    struct pool_worker *worker = aligned_alloc(LINE_BYTES, sizeof *worker);

    if (worker == NULL)
        return NULL;
    *worker = (struct pool_worker){ .state = ASLEEP, .claimed = 1 };
    worker->older = __atomic_load_n(&workers, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&workers, &worker->older, worker, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return worker;
}

/* Appends unclaimed workers from `from` on, up to `until`, to the team. */
static void claim(pool_team *team, struct pool_worker *from, const struct pool_worker *until)
{
    struct pool_worker **end = &team->first;

    while (*end != NULL)
        end = &(*end)->next;
    for (struct pool_worker *worker = from; worker != until && team->count < team->wanted; worker = worker->older) {
        if (__atomic_load_n(&worker->claimed, __ATOMIC_RELAXED) != 0 ||
            __atomic_exchange_n(&worker->claimed, 1, __ATOMIC_ACQUIRE) != 0)
            continue;
        team->is_awake &= __atomic_load_n(&worker->state, __ATOMIC_RELAXED) != ASLEEP;
        team->count++;
        worker->next = NULL;
        *end = worker;
        end = &worker->next;
    }
}

pool_team pool_claim(uint32_t wanted)
{
    struct pool_worker *newest = __atomic_load_n(&workers, __ATOMIC_ACQUIRE);
    pool_team team = { .wanted = wanted, .is_awake = true };

    claim(&team, preferred, NULL);
    claim(&team, newest, preferred);
    team.is_awake &= team.count == wanted;
    if (team.first != NULL)
        preferred = team.first;
    return team;
}

static void post(struct pool_worker *worker, const pool_team *team, pool_fn fn, void *data, int cpu)
{
    const bool sleeps = __atomic_load_n(&worker->state, __ATOMIC_RELAXED) == ASLEEP;

    INLAY_CHECK(worker->index > 0 && worker->index <= team->wanted);
    worker->fn = fn;
    worker->data = data;
    __atomic_store_n(&worker->caller_cpu, cpu, __ATOMIC_RELAXED);
    if (sleeps || worker->missed == 1)
        place(worker, sleeps ? team->wanted + 1 : UINT32_MAX);
    if (__atomic_exchange_n(&worker->state, POSTED, __ATOMIC_ACQ_REL) == ASLEEP)
        futex_wake(&worker->state);
}

/* Withdraws the call, or waits until it has returned. */
static void finish(struct pool_worker *worker)
{
    uint32_t state = POSTED;

    if (__atomic_compare_exchange_n(&worker->state, &state, IDLE, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        worker->missed++;
        return;
    }
    worker->missed = 0;
    spin(&worker->state, RUNNING);
    state = RUNNING;
    if (!__atomic_compare_exchange_n(&worker->state, &state, AWAITED, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
        return;
    while (__atomic_load_n(&worker->state, __ATOMIC_ACQUIRE) == AWAITED)
        futex_sleep(&worker->state, AWAITED);
}

void pool_run(pool_team *team, pool_fn fn, void *data)
{
    const int cpu = sched_getcpu();
    struct pool_worker **end = &team->first;

    for (uint32_t index = 1; index <= team->wanted; index++, end = &(*end)->next) {
        if (*end == NULL) {
            *end = add_worker();
            if (*end == NULL)
                break;
            team->count++;
        }
        __atomic_store_n(&(*end)->index, index, __ATOMIC_RELAXED);
        if ((*end)->has_thread || start_thread(*end))
            post(*end, team, fn, data, cpu);
    }
    fn(data, 0);
    for (struct pool_worker *worker = team->first; worker != NULL; worker = worker->next)
        finish(worker);
}

void pool_release(const pool_team *team)
{
    for (struct pool_worker *worker = team->first, *next; worker != NULL; worker = next) {
        next = worker->next;
        __atomic_store_n(&worker->claimed, 0, __ATOMIC_RELEASE);
    }
}

void pool_rest(void)
{
    for (struct pool_worker *worker = __atomic_load_n(&workers, __ATOMIC_ACQUIRE); worker != NULL;
         worker = worker->older) {
        uint32_t state = IDLE;

        (void)__atomic_compare_exchange_n(&worker->state, &state, ASLEEP, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

void pool_forked(void)
{
    for (struct pool_worker *worker = workers; worker != NULL; worker = worker->older) {
        worker->state = ASLEEP;
        worker->claimed = 0;
        worker->missed = 0;
        worker->placed = worker->reset = 0;
        worker->has_thread = false;
    }
}
