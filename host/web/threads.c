/* The thread pool of a session: threads/pool.h, threads/gomp.h, threads/spread.h, base/cpus.h.
 *
 * WebAssembly cannot create threads. threads.js of the package starts workers, each with an instance of this module on
 * the memory of the session, a stack and thread-local variables (web_thread_memory()); they wait in web_serve(). One
 * loop runs at a time. The word `state` has the number of the loop, whether workers may join, and how many have. A
 * worker that comes late does not delay a loop: the caller closes it and waits only for those that have joined.
 *
 * Where the memory is not shared, there are no workers, and every loop runs on its caller. */
#include "base/cpus.h"
#include "threads/gomp.h"
#include "threads/pool.h"
#include "threads/spread.h"
#include <stddef.h>
#include <stdlib.h>

#define EXPORT(name) __attribute__((export_name(#name)))

/* Idle workers, and callers that wait for workers, test a word so often before they sleep: about 100 us. */
enum { SPINS = 100000 };
enum { STACK_BYTES = 1 << 20, LINE_BYTES = 64 };
enum { JOINED = 127, OPEN = 128, LOOP = 256 }; /* parts of `state` */

static uint32_t thread_count = 1; /* workers and the caller */
static bool may_wait;             /* the main thread of a page may not sleep */
static struct {
    _Alignas(LINE_BYTES) uint32_t state;
    _Alignas(LINE_BYTES) uint32_t ended; /* incremented when the last worker leaves a closed loop */
    uint32_t joins;                      /* how often workers have joined a loop */
    uint32_t sleepers;                   /* workers that sleep, or are about to */
    uint32_t stopped;                    /* a worker has failed */
    pool_fn fn;
    void *data;
    uint32_t wanted; /* workers 1 to `wanted` run the loop */
} team;

static _Thread_local bool in_team; /* a worker that has joined a loop */

uint32_t cpus_allowed(void)
{
    return thread_count;
}

/* A module's memory has at most 2^32 bytes. */
uint64_t memory_allowed(void)
{
    return UINT64_C(1) << 32;
}

/* Before web_create(): threads.js has started threads - 1 workers. */
EXPORT(threads) void web_threads(uint32_t threads, uint32_t caller_may_wait);
void web_threads(uint32_t threads, uint32_t caller_may_wait)
{
    thread_count = threads;
    may_wait = caller_may_wait != 0;
}

/* The memory of a worker: the end of its stack, where its thread-local variables begin. NULL: out of memory. */
EXPORT(thread_memory) void *web_thread_memory(void);
void *web_thread_memory(void)
{
    const size_t variables = (__builtin_wasm_tls_size() + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    char *memory = aligned_alloc(LINE_BYTES, STACK_BYTES + variables);

    return memory != NULL ? memory + STACK_BYTES : NULL;
}

pool_team pool_claim(uint32_t wanted)
{
    const uint32_t workers = thread_count - 1;

    return (pool_team){ .wanted = wanted < workers ? wanted : workers,
                        .is_awake = __atomic_load_n(&team.sleepers, __ATOMIC_RELAXED) == 0 };
}

void pool_run(pool_team *claimed, pool_fn fn, void *data)
{
    uint32_t state, ended;

    if (claimed->wanted == 0) {
        fn(data, 0);
        return;
    }
    team.fn = fn;
    team.data = data;
    team.wanted = claimed->wanted;
    state = __atomic_load_n(&team.state, __ATOMIC_RELAXED);
    __atomic_store_n(&team.state, state / LOOP * LOOP + LOOP + OPEN, __ATOMIC_RELEASE);
    (void)__builtin_wasm_memory_atomic_notify((int *)&team.state, UINT32_MAX);
    fn(data, 0);
    ended = __atomic_load_n(&team.ended, __ATOMIC_RELAXED);
    (void)__atomic_and_fetch(&team.state, ~(uint32_t)OPEN, __ATOMIC_ACQ_REL);
    for (uint32_t spins = 0; (__atomic_load_n(&team.state, __ATOMIC_ACQUIRE) & JOINED) != 0; spins++)
        if (spins >= SPINS && may_wait)
            (void)__builtin_wasm_memory_atomic_wait32((int *)&team.ended, (int)ended, -1);
    if (__atomic_load_n(&team.stopped, __ATOMIC_RELAXED) != 0)
        __builtin_trap();
}

void pool_release(const pool_team *claimed)
{
    (void)claimed;
}

void pool_rest(void)
{
}

void pool_forked(void)
{
}

static void leave(void)
{
    const uint32_t state = __atomic_sub_fetch(&team.state, 1, __ATOMIC_ACQ_REL);

    if ((state & (OPEN | JOINED)) != 0)
        return;
    (void)__atomic_add_fetch(&team.ended, 1, __ATOMIC_RELEASE);
    (void)__builtin_wasm_memory_atomic_notify((int *)&team.ended, UINT32_MAX);
}

/* Joins loops until the worker is terminated. */
EXPORT(serve) void web_serve(uint32_t thread);
void web_serve(uint32_t thread)
{
    uint32_t last = 0, spins = 0;

    for (;;) {
        uint32_t state = __atomic_load_n(&team.state, __ATOMIC_ACQUIRE);

        if ((state & OPEN) != 0 && state / LOOP != last) {
            if (!__atomic_compare_exchange_n(&team.state, &state, state + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
                continue;
            last = state / LOOP;
            (void)__atomic_add_fetch(&team.joins, 1, __ATOMIC_RELAXED);
            in_team = true;
            if (thread <= team.wanted)
                team.fn(team.data, thread);
            in_team = false;
            leave();
            spins = 0;
        } else if (spins < SPINS) {
            spins++;
        } else {
            (void)__atomic_add_fetch(&team.sleepers, 1, __ATOMIC_RELAXED);
            (void)__builtin_wasm_memory_atomic_wait32((int *)&team.state, (int)state, -1);
            (void)__atomic_sub_fetch(&team.sleepers, 1, __ATOMIC_RELAXED);
            spins = 0;
        }
    }
}

/* For tests. */
EXPORT(joins) uint32_t web_joins(void);
uint32_t web_joins(void)
{
    return __atomic_load_n(&team.joins, __ATOMIC_RELAXED);
}

/* After web_serve() has failed: the caller stops as well, instead of waiting for this worker. */
EXPORT(thread_stopped) void web_thread_stopped(void);
void web_thread_stopped(void)
{
    __atomic_store_n(&team.stopped, 1, __ATOMIC_RELAXED);
    if (in_team)
        leave();
    in_team = false;
}

uint32_t gomp_set_threads(uint32_t threads)
{
    return threads;
}

void gomp_dismiss(void)
{
}

bool gomp_in_team(void)
{
    return false;
}

void spread_team(uint32_t threads)
{
    (void)threads;
}
