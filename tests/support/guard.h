/* guard.h - zeroed memory that ends at an inaccessible page, so that reading one byte too far crashes the test. For
 * one thread. */
#ifndef GUARD_H
#define GUARD_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct guard {
    char *map; /* the whole mapping */
    size_t map_bytes;
    void *data; /* ends at the inaccessible page */
};

/* Small mappings are cached, since tests allocate hundreds of thousands of them. maps[i]: mappings with i pages of
 * data. */
enum { GUARD_KEPT_PAGES = 16, GUARD_KEPT = 16 };
typedef struct guard_spares {
    char *maps[GUARD_KEPT_PAGES + 1][GUARD_KEPT];
    uint32_t counts[GUARD_KEPT_PAGES + 1];
} guard_spares;

static inline guard_spares *guard_kept(void)
{
    static guard_spares spares;
    return &spares;
}

static inline struct guard guard_alloc(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page;
    struct guard guard = { .map_bytes = (pages + 2) * page };
    guard_spares *spares = guard_kept();

    if (pages <= GUARD_KEPT_PAGES && spares->counts[pages] > 0) {
        guard.map = spares->maps[pages][--spares->counts[pages]];
        memset(guard.map + page, 0, pages * page);
    } else {
        guard.map = mmap(NULL, guard.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (guard.map == MAP_FAILED)
            abort();
        mprotect(guard.map, page, PROT_NONE);
        mprotect(guard.map + page + pages * page, page, PROT_NONE);
    }
    guard.data = guard.map + page + pages * page - bytes;
    return guard;
}

static inline void guard_free(struct guard *guard)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = guard->map_bytes / page - 2;
    guard_spares *spares = guard_kept();

    if (pages <= GUARD_KEPT_PAGES && spares->counts[pages] < GUARD_KEPT)
        spares->maps[pages][spares->counts[pages]++] = guard->map;
    else
        munmap(guard->map, guard->map_bytes);
}
#endif
