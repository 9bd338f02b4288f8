/* Memory from the system. */
#include "bundle.h"
#include <sys/mman.h>
#include <sys/resource.h>

void *pages_map(uint64_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return pages != MAP_FAILED ? pages : NULL;
}

void pages_drop(void *pages, uint64_t bytes)
{
    (void)madvise(pages, bytes, MADV_DONTNEED);
}

uint64_t pages_peak(void)
{
    struct rusage usage = { .ru_maxrss = 0 };

    (void)getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}
