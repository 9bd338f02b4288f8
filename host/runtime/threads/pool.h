/* threads/pool.h - the worker threads of the process, which help callers with their loops.
 *
 * A caller claims workers, runs a loop with them and releases them. A worker may have no CPU, because other
 * programs use them all. So a worker that has not begun when the caller has finished its share does not begin, and
 * the caller waits only for workers that have begun. So the loop's body takes its work in parts from a shared counter.
 *
 * Workers wait for a loop by spinning for POOL_SPIN_NS, then they sleep. Waking a worker takes tens of microseconds. */
#ifndef THREADS_POOL_H
#define THREADS_POOL_H
#include <stdbool.h>
#include <stdint.h>

#define POOL_SPIN_NS 100000u

struct pool_worker;

typedef struct pool_team {
    struct pool_worker *first; /* the claimed workers */
    uint32_t wanted, count;    /* workers that were asked for, and that are claimed */
    bool is_awake;             /* all wanted workers are claimed, and none slept when it was claimed */
} pool_team;

/* worker: 0 for the caller, otherwise the worker's number in the team, at most `wanted`. */
typedef void (*pool_fn)(void *data, uint32_t worker);

/* Claims up to `wanted` workers that no other thread has claimed, preferably those that this thread claimed before. */
pool_team pool_claim(uint32_t wanted);
/* Calls fn on the caller and on the team's workers; starts threads if workers are missing. Returns when all calls that
 * have begun have returned; the caller's always is one of them. */
void pool_run(pool_team *team, pool_fn fn, void *data);
void pool_release(const pool_team *team);
/* Lets all idle workers sleep now, before other threads use the CPUs. */
void pool_rest(void);
/* In a child of fork(), where no worker exists. */
void pool_forked(void);
#endif
