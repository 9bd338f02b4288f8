/* The runtime with one thread: threads/gomp.h, threads/spread.h, base/cpus.h. */
#include "base/cpus.h"
#include "threads/gomp.h"
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
