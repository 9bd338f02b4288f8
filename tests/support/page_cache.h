/* support/page_cache.h - which pages of a mapped file are in the system's cache of files. */
#ifndef SUPPORT_PAGE_CACHE_H
#define SUPPORT_PAGE_CACHE_H
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static inline size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* The number of pages of [data, data + bytes) in the cache. data is a multiple of the page size. */
static inline size_t page_cache_pages(const void *data, size_t bytes)
{
    const size_t pages = (bytes + page_bytes() - 1) / page_bytes();
    unsigned char *in = malloc(pages);
    size_t count = 0;

    if (in != NULL && mincore((void *)(uintptr_t)data, bytes, in) == 0)
        for (size_t i = 0; i < pages; i++)
            count += in[i] & 1;
    free(in);
    return count;
}

/* Removes the file, mapped at data, from the cache. False: its file system keeps it in memory. */
static inline bool page_cache_drop(const char *path, const void *data, size_t bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    (void)fsync(fd);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    (void)close(fd);
    return page_cache_pages(data, bytes) == 0;
}
#endif
