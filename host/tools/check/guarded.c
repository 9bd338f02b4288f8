#include "check/harness.h"
#include "inlay/check.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PATTERN = 0xca,
    GUARD_BYTES = 1 << 20 /* inaccessible on each side: an access far beyond the end does not reach another mapping */
};

static bool alloc(size_t bytes, size_t alignment, bool exact, uint8_t fill, const char *description,
                  struct guarded *out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room, pages;

    *out = (struct guarded){ .bytes = bytes };
    if (alignment == 0 || bytes > SIZE_MAX / 4)
        return false;
    if (alignment > page)
        page = alignment; /* the mapping is larger than needed then, and data is aligned within it */
    room = (bytes + alignment - 1) / alignment * alignment;
    if (exact && room / alignment % 2 == 0)
        room += alignment;
    pages = (room + page - 1) / page * page;
    out->map_bytes = pages + page + 2 * GUARD_BYTES;
    out->map = mmap(NULL, out->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (out->map == MAP_FAILED) {
        out->map = NULL;
        return false;
    }
    out->data = out->map + GUARD_BYTES;
    out->data += (page - (uintptr_t)out->data % page) % page;
    if (pages > 0 && mprotect(out->data, pages, PROT_READ | PROT_WRITE) != 0) {
        guarded_free(out);
        return false;
    }
    memset(out->data, PATTERN, pages);
    out->data += pages - room;
    out->slack = room - bytes;
    memset(out->data, fill, bytes);
    crash_describe_range(out->data + room, (size_t)(out->map + out->map_bytes - out->data) - room, description);
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

bool guarded_is_damaged(const struct guarded *guarded)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = guarded->map == NULL ? 0 : (uintptr_t)guarded->data % page;

    for (size_t i = 0; i < before && guarded->bytes > 0; i++)
        if ((uint8_t)guarded->data[-(ptrdiff_t)i - 1] != PATTERN)
            return true;
    for (size_t i = 0; i < guarded->slack; i++)
        if ((uint8_t)guarded->data[guarded->bytes + i] != PATTERN)
            return true;
    return false;
}

static void set_access(const struct guarded *guarded, int access)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *start = guarded->data - (uintptr_t)guarded->data % page;

    INLAY_CHECK(guarded->map != NULL && guarded->data > guarded->map);
    if (guarded->bytes > 0)
        (void)mprotect(start, (size_t)(guarded->data + guarded->bytes + guarded->slack - start), access);
}

void guarded_protect(struct guarded *guarded, bool read_only)
{
    set_access(guarded, read_only ? PROT_READ : PROT_READ | PROT_WRITE);
}

void guarded_hide(struct guarded *guarded, const char *description)
{
    set_access(guarded, PROT_NONE);
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
    (void)munmap(guarded->map, guarded->map_bytes);
    guarded->map = NULL;
}
