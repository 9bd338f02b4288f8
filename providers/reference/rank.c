/* rank.c - the best of many by their digits, see rank.h; no kernels here. */
#include "rank.h"
#include <string.h>

enum { DIGITS = 256, FEW = 24 };

/* Bits in which not all keys agree. */
static uint64_t rank_differences(const rank_entry *entry, int64_t n)
{
    uint64_t any = 0, all = UINT64_MAX;

    for (int64_t i = 0; i < n; i++) {
        any |= entry[i].key;
        all &= entry[i].key;
    }
    return any ^ all;
}

/* The k-th largest key: from the highest byte down, the digit is found that has it. */
static uint64_t rank_kth(const rank_entry *entry, int64_t n, int64_t k)
{
    const uint64_t differences = rank_differences(entry, n);
    uint64_t prefix = 0, mask = 0;

    for (uint32_t shift = 64; shift > 0;) {
        int64_t counts[DIGITS] = { 0 };
        uint64_t digit = DIGITS - 1;

        shift -= 8;
        if ((differences >> shift & (DIGITS - 1)) == 0) {
            digit = entry[0].key >> shift & (DIGITS - 1);
        } else {
            for (int64_t i = 0; i < n; i++)
                counts[entry[i].key >> shift & (DIGITS - 1)] += (entry[i].key & mask) == prefix;
            for (; counts[digit] < k; digit--)
                k -= counts[digit];
        }
        prefix |= digit << shift;
        mask |= (uint64_t)(DIGITS - 1) << shift;
    }
    return prefix;
}

uint64_t rank_keep(rank_entry *entry, int64_t n, int64_t k)
{
    const uint64_t bar = rank_kth(entry, n, k);
    int64_t equal = k, to = 0;

    for (int64_t i = 0; i < n; i++)
        equal -= entry[i].key > bar;
    for (int64_t i = 0; i < n; i++) {
        const bool same = entry[i].key == bar, keep = entry[i].key > bar || (same && equal > 0);

        equal -= same;
        entry[to] = entry[i];
        to += keep;
        if (to == k)
            break;
    }
    return bar;
}

static void rank_insert(rank_entry *entry, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const rank_entry moving = entry[i];
        int64_t at = i;

        for (; at > 0 && entry[at - 1].key < moving.key; at--)
            entry[at] = entry[at - 1];
        entry[at] = moving;
    }
}

void rank_order(rank_entry *entry, int64_t n, rank_entry *other)
{
    rank_entry *from = entry, *to = other;
    uint64_t differences;

    if (n <= FEW) {
        rank_insert(entry, n);
        return;
    }
    differences = rank_differences(entry, n);
    for (uint32_t shift = 0; shift < 64; shift += 8) {
        int64_t starts[DIGITS] = { 0 }, sum = 0;
        rank_entry *swap = from;

        if ((differences >> shift & (DIGITS - 1)) == 0)
            continue;
        for (int64_t i = 0; i < n; i++)
            starts[from[i].key >> shift & (DIGITS - 1)]++;
        for (int d = DIGITS; d-- > 0;) {
            const int64_t count = starts[d];
            starts[d] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++)
            to[starts[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
        from = to;
        to = swap;
    }
    if (from != entry)
        memcpy(entry, from, (size_t)n * sizeof *entry);
}
