#include "spans.h"
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const span *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The lowest offset at which nothing placed before, sorted by offset, is in the way. */
static uint64_t lowest_gap(const span *placed, uint32_t count, const span *x)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (placed[i].first > x->last || x->first > placed[i].last)
            continue;
        if (placed[i].offset >= at + x->bytes)
            return at;
        if (placed[i].offset + placed[i].bytes > at)
            at = placed[i].offset + placed[i].bytes;
    }
    return at;
}

uint64_t spans_place(span *list, uint32_t count, uint64_t alignment)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < count; i++)
        list[i].bytes = (list[i].bytes + alignment - 1) & ~(alignment - 1);
    qsort(list, count, sizeof *list, by_size);
    for (uint32_t k = 0; k < count; k++) {
        span x = list[k];
        uint32_t at = k;

        x.offset = lowest_gap(list, k, &x);
        for (; at > 0 && list[at - 1].offset > x.offset; at--)
            list[at] = list[at - 1];
        list[at] = x;
        if (x.offset + x.bytes > all)
            all = x.offset + x.bytes;
    }
    return all;
}
