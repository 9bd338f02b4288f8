/* rank.h - choosing and sorting the best of many, without memory of its own (TopK, NonMaxSuppression).
 *
 * Elements are ranked by an unsigned key that orders as their values do; of equal keys the lower index comes first. A
 * heap keeps few so far with the worst of them on top; many are chosen and sorted by the digits of their keys. */
#ifndef RANK_H
#define RANK_H
#include "instance.h"
#include "simd/convert.h"
#include <stdint.h>

typedef struct rank_entry {
    uint64_t key;
    int64_t index;
} rank_entry;

/* Keys that order as the values: -0 is 0, NaN is the largest. */
static inline uint64_t rank_key_f32(float x)
{
    const uint32_t u = x == 0 ? 0 : f32_bits(x);

    return x != x ? UINT64_MAX : u ^ ((u >> 31) != 0 ? UINT32_MAX : UINT32_C(0x80000000));
}
static inline uint64_t rank_key_f64(double x)
{
    const uint64_t u = x == 0 ? 0 : f64_bits(x);

    return x != x ? UINT64_MAX : u ^ ((u >> 63) != 0 ? UINT64_MAX : UINT64_C(1) << 63);
}
static inline uint64_t rank_key_i64(int64_t x)
{
    return (uint64_t)x ^ UINT64_C(1) << 63;
}

/* Of n entries, told in the order of their indices, the best k stay, in that order; returns the key of the worst of
 * them. 0 < k <= n. */
uint64_t rank_keep(rank_entry *entries, int64_t n, int64_t k);
/* Sorts by key, largest first; equal ones keep their order. other: room for n. */
void rank_order(rank_entry *entries, int64_t n, rank_entry *other);

/* Does a come after b? */
static inline bool rank_after(rank_entry a, rank_entry b)
{
    return a.key < b.key || (a.key == b.key && a.index > b.index);
}

/* Lets the entry at `at` sink to its place in heap[0 .. count - 1]. */
static inline void rank_sink(rank_entry *heap, int64_t count, int64_t at)
{
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

/* Makes a heap of count entries in any order. */
static inline void rank_build(rank_entry *heap, int64_t count)
{
    for (int64_t i = count / 2; i-- > 0;)
        rank_sink(heap, count, i);
}

/* Sorts a heap, best first. */
static inline void rank_sort(rank_entry *heap, int64_t count)
{
    for (int64_t n = count - 1; n > 0; n--) {
        const rank_entry worst = heap[0];

        heap[0] = heap[n];
        heap[n] = worst;
        rank_sink(heap, n, 0);
    }
}
#endif
