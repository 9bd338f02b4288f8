#include "base/heap.h"
#include <malloc.h>

uint64_t heap_bytes(void)
{
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    const struct mallinfo2 info = mallinfo2();

    return (uint64_t)info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

void heap_trim(void)
{
#if defined(__GLIBC__)
    (void)malloc_trim(0);
#endif
}
