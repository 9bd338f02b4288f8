#include "check/bench.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PATTERN = 0xca };

bool fenced_alloc(size_t bytes, size_t alignment, uint8_t fill, const char *what, struct fenced *out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room, pages;

    *out = (struct fenced){ .bytes = bytes };
    if (alignment == 0 || bytes > SIZE_MAX / 4)
        return false;
    if (alignment > page)
        page = alignment; /* then the mapping is cut from a larger one */
    room = (bytes + alignment - 1) / alignment * alignment;
    pages = (room + page - 1) / page * page;
    out->map_bytes = pages + 3 * page;
    out->map = mmap(NULL, out->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (out->map == MAP_FAILED) {
        out->map = NULL;
        return false;
    }
    out->data = out->map + page + (page - (uintptr_t)out->map % page) % page;
    if (pages > 0 && mprotect(out->data, pages, PROT_READ | PROT_WRITE) != 0) {
        fenced_free(out);
        return false;
    }
    memset(out->data, PATTERN, pages);
    out->data += pages - room;
    out->slack = room - bytes;
    memset(out->data, fill, bytes);
    crash_name_range(out->data + room, (size_t)(out->map + out->map_bytes - out->data) - room, what);
    return true;
}

bool fenced_is_hurt(const struct fenced *fenced)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = fenced->map == NULL ? 0 : (uintptr_t)fenced->data % page;

    for (size_t i = 0; i < before && fenced->bytes > 0; i++)
        if ((uint8_t)fenced->data[-(ptrdiff_t)i - 1] != PATTERN)
            return true;
    for (size_t i = 0; i < fenced->slack; i++)
        if ((uint8_t)fenced->data[fenced->bytes + i] != PATTERN)
            return true;
    return false;
}

void fenced_protect(struct fenced *fenced, bool read_only)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *start = fenced->data - (uintptr_t)fenced->data % page;

    if (fenced->bytes > 0)
        (void)mprotect(start, (size_t)(fenced->data + fenced->bytes + fenced->slack - start),
                       read_only ? PROT_READ : PROT_READ | PROT_WRITE);
}

void fenced_free(struct fenced *fenced)
{
    if (fenced->map == NULL)
        return;
    if (fenced->data != NULL)
        crash_forget_range(fenced->data + fenced->bytes + fenced->slack);
    (void)munmap(fenced->map, fenced->map_bytes);
    fenced->map = NULL;
}
