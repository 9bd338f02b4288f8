/* guard.h - memory that ends where a forbidden page begins, so that reading one byte too far crashes the test. */
#ifndef GUARD_H
#define GUARD_H
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct guard {
    char *map; /* whole mapping */
    size_t map_bytes;
    void *data; /* ends at the forbidden page */
} guard;

static inline guard guard_alloc(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    guard g = { .map_bytes = room + 2 * page };

    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED)
        abort();
    mprotect(g.map, page, PROT_NONE);
    mprotect(g.map + page + room, page, PROT_NONE);
    g.data = g.map + page + room - bytes;
    return g;
}

static inline void guard_free(guard *g)
{
    munmap(g->map, g->map_bytes);
}
#endif
