#include "check/harness.h"
#include "inlay/check.h"
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PATTERN = 0xca,
    GUARD_BYTES = 1 << 20, /* inaccessible on each side: an access far beyond the end does not reach another mapping */
    POOLS = 5,             /* of mappings with 1, 2, 4, 8 and 16 pages between their guards */
    POOL_MAPS = 64
};

/* Mappings without a user, inaccessible as unmapped memory is. They are used again because the kernel needs most of the
 * time of an allocation to map, to clear and to unmap pages. As from the kernel, the highest one is the first, so that
 * a run with other values has the same addresses, which finds results that are kept by address. */
struct guarded_pool {
    char *maps[POOL_MAPS]; /* [count] */
    uint32_t count;
};

static struct guarded_pool pools[POOLS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The pool with the smallest mappings of at least `pages` pages. NULL: none. */
static struct guarded_pool *pool_of(size_t pages)
{
    for (uint32_t i = 0; i < POOLS; i++)
        if (pages <= (size_t)1 << i)
            return &pools[i];
    return NULL;
}

static char *take_map(struct guarded_pool *pool)
{
    uint32_t highest = 0;
    char *map = NULL;

    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < pool->count; i++)
        if (map == NULL || pool->maps[i] > map)
            map = pool->maps[highest = i];
    if (map != NULL)
        pool->maps[highest] = pool->maps[--pool->count];
    (void)pthread_mutex_unlock(&lock);
    return map;
}

static bool keep_map(struct guarded_pool *pool, char *map)
{
    bool kept;

    (void)pthread_mutex_lock(&lock);
    kept = pool->count < POOL_MAPS;
    if (kept)
        pool->maps[pool->count++] = map;
    (void)pthread_mutex_unlock(&lock);
    return kept;
}

/* Maps inaccessible memory: `bytes`, a multiple of the page size, which end at *out_end, and a guard on each side. */
static bool map_guarded(size_t bytes, size_t alignment, struct guarded *out, char **out_end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct guarded_pool *pool = alignment > page ? NULL : pool_of(bytes / page);
    size_t room = pool == NULL ? bytes : page << (pool - pools);

    if (alignment > page)
        room += alignment; /* so that the end can be aligned */
    out->map_bytes = room + 2 * GUARD_BYTES;
    out->pool = pool;
    out->map = pool == NULL ? NULL : take_map(pool);
    if (out->map == NULL) {
        out->map = mmap(NULL, out->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (out->map == MAP_FAILED)
            out->map = NULL;
    }
    *out_end = out->map + GUARD_BYTES + room;
    if (alignment > page)
        *out_end -= (uintptr_t)*out_end % alignment;
    return out->map != NULL;
}

static bool alloc(size_t bytes, size_t alignment, bool exact, uint8_t fill, const char *description,
                  struct guarded *out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room, pages;
    char *end;

    *out = (struct guarded){ .bytes = bytes };
    if (alignment == 0 || bytes > SIZE_MAX / 4)
        return false;
    room = (bytes + alignment - 1) / alignment * alignment;
    if (exact && room / alignment % 2 == 0)
        room += alignment;
    pages = (room + page - 1) / page * page;
    if (!map_guarded(pages, alignment, out, &end))
        return false;
    if (pages > 0 && mprotect(end - pages, pages, PROT_READ | PROT_WRITE) != 0) {
        guarded_free(out);
        return false;
    }
    out->data = end - room;
    out->slack = room - bytes;
    memset(end - pages, PATTERN, pages - room);
    memset(out->data, fill, bytes);
    memset(out->data + bytes, PATTERN, out->slack);
    crash_describe_range(end, (size_t)(out->map + out->map_bytes - end), description);
    return true;
}

bool guarded_alloc(size_t bytes, size_t alignment, uint8_t fill, const char *description, struct guarded *out)
{
    return alloc(bytes, alignment, false, fill, description, out);
}

bool guarded_alloc_exact(size_t bytes, size_t alignment, uint8_t fill, const char *description, struct guarded *out)
{
    return alloc(bytes, alignment, true, fill, description, out);
}

/* Do all bytes still have the pattern? */
static bool is_pattern(const char *bytes, size_t count)
{
    return count == 0 || ((uint8_t)bytes[0] == PATTERN && memcmp(bytes, bytes + 1, count - 1) == 0);
}

bool guarded_is_damaged(const struct guarded *guarded)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = guarded->map == NULL ? 0 : (uintptr_t)guarded->data % page;

    return (guarded->bytes > 0 && !is_pattern(guarded->data - before, before)) ||
           !is_pattern(guarded->data + guarded->bytes, guarded->slack);
}

static bool set_access(const struct guarded *guarded, int access)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *start = guarded->data - (uintptr_t)guarded->data % page;

    INLAY_CHECK(guarded->map != NULL && guarded->data > guarded->map);
    return guarded->bytes + guarded->slack == 0 ||
           mprotect(start, (size_t)(guarded->data + guarded->bytes + guarded->slack - start), access) == 0;
}

void guarded_protect(struct guarded *guarded, bool read_only)
{
    guarded->hidden = false;
    (void)set_access(guarded, read_only ? PROT_READ : PROT_READ | PROT_WRITE);
}

void guarded_hide(struct guarded *guarded, const char *description)
{
    guarded->hidden = set_access(guarded, PROT_NONE);
    crash_forget_range(guarded->data);
    if (guarded->bytes > 0)
        crash_describe_range(guarded->data, guarded->bytes, description);
}

void guarded_free(struct guarded *guarded)
{
    if (guarded->map == NULL)
        return;
    if (guarded->data != NULL) {
        crash_forget_range(guarded->data);
        crash_forget_range(guarded->data + guarded->bytes + guarded->slack);
    }
    if (guarded->data == NULL || guarded->pool == NULL || !(guarded->hidden || set_access(guarded, PROT_NONE)) ||
        !keep_map(guarded->pool, guarded->map))
        (void)munmap(guarded->map, guarded->map_bytes);
    guarded->map = NULL;
}
