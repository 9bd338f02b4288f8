#include "plan/layout/memory.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

static uint64_t rounded(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) & ~(alignment - 1);
}

static int larger_first(const void *pa, const void *pb)
{
    const memory_item *a = *(memory_item *const *)pa, *b = *(memory_item *const *)pb;

    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* The lowest offset at which the item fits between the placed items that are live at the same time. placed is sorted by
 * offset. */
static uint64_t lowest_free(memory_item *const *placed, uint32_t count, const memory_item *item, uint64_t alignment)
{
    uint64_t at = 0, need = rounded(item->bytes, alignment);

    for (uint32_t i = 0; i < count; i++) {
        const memory_item *placed_item = placed[i];
        if (placed_item->last < item->first || placed_item->first > item->last)
            continue;
        if (placed_item->offset >= at + need)
            break;
        if (placed_item->offset + rounded(placed_item->bytes, alignment) > at)
            at = placed_item->offset + rounded(placed_item->bytes, alignment);
    }
    return at;
}

static void insert_by_offset(memory_item **placed, uint32_t count, memory_item *item)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (placed[mid]->offset <= item->offset)
            low = mid + 1;
        else
            high = mid;
    }
    memmove(placed + low + 1, placed + low, (count - low) * sizeof(memory_item *));
    placed[low] = item;
}

/* The maximum of live bytes over all steps. */
static bool lower_bound(const memory_item *items, uint32_t count, uint32_t step_count, uint64_t alignment,
                        struct arena *scratch, uint64_t *out)
{
    uint64_t *change = arena_array(scratch, (size_t)step_count + 2, sizeof *change), alive = 0;

    if (change == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        change[items[i].first] += rounded(items[i].bytes, alignment);
        change[items[i].last + 1] -= rounded(items[i].bytes, alignment); /* wraps around, and back when summed up */
    }
    *out = 0;
    for (uint32_t s = 0; s <= step_count; s++) {
        alive += change[s];
        if (alive > *out)
            *out = alive;
    }
    return true;
}

bool memory_place(memory_item *items, uint32_t count, uint32_t step_count, uint64_t alignment, struct arena *scratch,
                  uint64_t *out_bytes, uint64_t *out_lower_bound)
{
    memory_item **order = arena_array(scratch, (size_t)count + 1, sizeof(memory_item *));
    memory_item **placed = arena_array(scratch, (size_t)count + 1, sizeof(memory_item *));

    INLAY_CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0);
    *out_bytes = 0;
    *out_lower_bound = 0;
    if (order == NULL || placed == NULL || !lower_bound(items, count, step_count, alignment, scratch, out_lower_bound))
        return false;
    for (uint32_t i = 0; i < count; i++)
        order[i] = &items[i];
    qsort(order, count, sizeof(memory_item *), larger_first);
    for (uint32_t i = 0; i < count; i++) {
        memory_item *item = order[i];
        uint64_t end;

        INLAY_CHECK(item->first <= item->last && item->last <= step_count);
        item->offset = lowest_free(placed, i, item, alignment);
        end = item->offset + rounded(item->bytes, alignment);
        if (end > *out_bytes)
            *out_bytes = end;
        insert_by_offset(placed, i, item);
    }
    return true;
}
