/* rank.h - selecting and sorting the best of many elements without allocating memory (TopK, NonMaxSuppression).
 *
 * Elements are ranked by an unsigned key with the same order as their values. Among equal keys the lower index comes
 * first. For a small k, a heap keeps the best elements found so far, with the worst of them on top. For a large k,
 * elements are selected and sorted by the digits of their keys (radix sort). */
#ifndef RANK_H
#define RANK_H
#include "operators/instance.h"
#include "inlay/check.h"
#include "simd/convert.h"
#include <stdint.h>

typedef struct rank_entry {
    uint64_t key;
    int64_t index;
} rank_entry;

/* The rank_key functions return keys with the order of the values: -0 equals 0, and NaN is the largest. */
static inline uint64_t rank_key_f32(float value)
{
    const uint32_t bits = f32_bits(value + 0.0f), key = bits ^ ((uint32_t)((int32_t)bits >> 31) | UINT32_C(1) << 31);

    return value != value ? UINT32_MAX : key;
}
static inline uint64_t rank_key_f64(double value)
{
    const uint64_t bits = f64_bits(value + 0.0);

    return value != value ? UINT64_MAX : bits ^ ((uint64_t)((int64_t)bits >> 63) | UINT64_C(1) << 63);
}
static inline uint64_t rank_key_i64(int64_t value)
{
    return (uint64_t)value ^ UINT64_C(1) << 63;
}

/* Selects the best `kept` of `count` entries and moves them to the front. The entries are sorted by index before and
 * after. Returns the key of the worst selected entry. 0 < kept <= count. */
uint64_t rank_keep(rank_entry *entry, int64_t count, int64_t kept);
/* Sorts by key, largest first. The sort is stable. other: scratch for `count` entries. */
void rank_order(rank_entry *entry, int64_t count, rank_entry *other);

/* Returns whether a comes after b. */
static inline bool rank_after(rank_entry a, rank_entry b)
{
    return a.key < b.key || (a.key == b.key && a.index > b.index);
}

/* Moves the entry at `at` down to its position in heap[0 .. count - 1]. */
static inline void rank_sink(rank_entry *heap, int64_t count, int64_t at)
{
    INLAY_CHECK(at >= 0 && at < count);
    const rank_entry moving = heap[at];

    for (;;) {
        int64_t child = 2 * at + 1;

        if (child >= count)
            break;
        if (child + 1 < count && rank_after(heap[child + 1], heap[child]))
            child++;
        if (!rank_after(heap[child], moving))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

/* Builds a heap from `count` entries in any order. */
static inline void rank_build(rank_entry *heap, int64_t count)
{
    for (int64_t i = count / 2; i-- > 0;)
        rank_sink(heap, count, i);
}

/* Sorts a heap, the best entry first. */
static inline void rank_sort(rank_entry *heap, int64_t count)
{
    for (int64_t last = count - 1; last > 0; last--) {
        const rank_entry worst = heap[0];

        heap[0] = heap[last];
        heap[last] = worst;
        rank_sink(heap, last, 0);
    }
}
#endif
