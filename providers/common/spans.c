#include "spans.h"
#include <stdbool.h>

static bool is_before(const struct span *x, const struct span *y)
{
    return x->bytes != y->bytes ? x->bytes > y->bytes : x->id < y->id;
}

/* The largest first. Not by qsort(), which allocates: instances for new shapes are made between runs of others. */
static void sort(struct span *list, uint32_t count)
{
    static const uint32_t gaps[] = { 701, 301, 132, 57, 23, 10, 4, 1 };

    for (uint32_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (uint32_t i = gaps[g]; i < count; i++) {
            const struct span x = list[i];
            uint32_t at = i;

            for (; at >= gaps[g] && is_before(&x, &list[at - gaps[g]]); at -= gaps[g])
                list[at] = list[at - gaps[g]];
            list[at] = x;
        }
}

/* The lowest offset at which nothing placed before, sorted by offset, is in the way. */
static uint64_t lowest_gap(const struct span *placed, uint32_t count, const struct span *x)
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

uint64_t spans_place(struct span *list, uint32_t count, uint64_t alignment)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < count; i++)
        list[i].bytes = (list[i].bytes + alignment - 1) & ~(alignment - 1);
    sort(list, count);
    for (uint32_t k = 0; k < count; k++) {
        struct span x = list[k];
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
