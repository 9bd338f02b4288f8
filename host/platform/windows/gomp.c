/* threads/gomp.h and threads/spread.h where no library of plug-ins uses OpenMP. */
#include "threads/gomp.h"
#include "threads/spread.h"

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
