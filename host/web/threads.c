/* The runtime with one thread: threads/gomp.h, threads/pool.h, threads/spread.h, base/cpus.h. */
#include "base/cpus.h"
#include "threads/gomp.h"
#include "threads/pool.h"
#include "threads/spread.h"

uint32_t cpus_allowed(void)
{
    return 1;
}

void gomp_team(void (*fn)(void *data), void *data, uint32_t threads)
{
    (void)threads;
    fn(data);
}

uint32_t gomp_worker(void)
{
    return 0;
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

void spread_team(uint32_t team)
{
    (void)team;
}

pool_team pool_claim(uint32_t wanted)
{
    return (pool_team){ .wanted = wanted };
}

void pool_run(pool_team *team, pool_fn fn, void *data)
{
    (void)team;
    fn(data, 0);
}

void pool_release(const pool_team *team)
{
    (void)team;
}

void pool_rest(void)
{
}

void pool_forked(void)
{
}
