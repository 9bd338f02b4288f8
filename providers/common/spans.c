#include "inlay/check.h"
#include "common/spans.h"
#include <stdbool.h>

static bool is_before(const struct span *first, const struct span *second)
{
    return first->bytes != second->bytes ? first->bytes > second->bytes : first->id < second->id;
}

/* Sorts the spans, the largest first. qsort() is not used, because it may allocate, and instances for new shapes are
 * created between the runs of other instances. */
static void sort(struct span *list, uint32_t count)
{
    static const uint32_t gaps[] = { 701, 301, 132, 57, 23, 10, 4, 1 };

    for (uint32_t gap = 0; gap < sizeof gaps / sizeof gaps[0]; gap++)
        for (uint32_t i = gaps[gap]; i < count; i++) {
            const struct span span = list[i];
            uint32_t at = i;

            for (; at >= gaps[gap] && is_before(&span, &list[at - gaps[gap]]); at -= gaps[gap])
                list[at] = list[at - gaps[gap]];
            list[at] = span;
        }
}

/* The lowest offset at which the span overlaps no placed span of the same lifetime. placed: sorted by offset. */
static uint64_t lowest_gap(const struct span *placed, uint32_t count, const struct span *span)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (placed[i].first > span->last || span->first > placed[i].last)
            continue;
        if (placed[i].offset >= at + span->bytes)
            return at;
        if (placed[i].offset + placed[i].bytes > at)
            at = placed[i].offset + placed[i].bytes;
    }
    return at;
}

uint64_t spans_place(struct span *list, uint32_t count, uint64_t alignment)
{
    uint64_t all = 0;

    INLAY_CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0);
    for (uint32_t i = 0; i < count; i++)
        list[i].bytes = (list[i].bytes + alignment - 1) & ~(alignment - 1);
    sort(list, count);
    for (uint32_t k = 0; k < count; k++) {
        struct span span = list[k];
        uint32_t at = k;

        INLAY_CHECK(span.first <= span.last);
        span.offset = lowest_gap(list, k, &span);
        for (; at > 0 && list[at - 1].offset > span.offset; at--)
            list[at] = list[at - 1];
        list[at] = span;
        INLAY_CHECK(span.offset % alignment == 0);
        if (span.offset + span.bytes > all)
            all = span.offset + span.bytes;
    }
    return all;
}
