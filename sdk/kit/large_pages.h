/* kit/large_pages.h - large pages for blocks of memory, for the host and inlay's own providers. */
#ifndef KIT_LARGE_PAGES_H
#define KIT_LARGE_PAGES_H
#include <stdint.h>
#ifndef __wasm__ /* has no pages */
#include <sys/mman.h>
#include <unistd.h>
#endif

enum { PAGES_LARGE = 2 * 1024 * 1024 }; /* bytes, and the alignment at which a block has no small pages at its start */

/* Asks the system for large pages within [memory, memory + bytes), which has not been touched yet: they reduce TLB
 * misses of code that streams through many megabytes. Only a hint, so it cannot fail. */
static inline void pages_large(void *memory, uint64_t bytes)
{
#if defined(MADV_HUGEPAGE)
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)memory + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)memory + (uintptr_t)bytes) / page * page;

    if (bytes >= PAGES_LARGE && to > from)
        (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
    (void)memory;
    (void)bytes;
#endif
}

#endif
