/* Memory from the engine: the linear memory grows and never shrinks. */
#include "bundle.h"

enum { PAGE = 65536, MOST_PAGES = 65536 };

void *pages_map(uint64_t bytes)
{
    const uint64_t pages = (bytes + PAGE - 1) / PAGE;
    const size_t before = pages <= MOST_PAGES ? __builtin_wasm_memory_grow(0, (size_t)pages) : SIZE_MAX;

    return before != SIZE_MAX ? (void *)(before * PAGE) : NULL;
}

void pages_drop(void *pages, uint64_t bytes)
{
    (void)pages, (void)bytes;
}

uint64_t pages_peak(void)
{
    return (uint64_t)__builtin_wasm_memory_size(0) * PAGE;
}
