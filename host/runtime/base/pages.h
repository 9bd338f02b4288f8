/* base/pages.h - hints about the pages of large blocks of memory. */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H
#include "kit/large_pages.h"
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Gives the pages that are completely within [data, data + bytes) of a file mapping back. They stay in the system's
 * cache of the file, and later accesses map them again. */
static inline void pages_unmap(const void *data, uint64_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)data + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)data + (uintptr_t)bytes) / page * page;

    if (from < end)
        (void)madvise((void *)from, end - from, MADV_DONTNEED);
}

/* The same, and if possible they also leave the system's cache of the file, which a control group counts as memory of
 * the process. Changes of a shared mapping must have been written to the file before. */
static inline void pages_drop(const void *data, uint64_t bytes)
{
#if defined(MADV_PAGEOUT)
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)data + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)data + (uintptr_t)bytes) / page * page;

    if (from < end)
        (void)madvise((void *)from, end - from, MADV_PAGEOUT);
#endif
    pages_unmap(data, bytes);
}
#endif
