/* rank.c - the best of many by their digits, see rank.h; no kernels here. */
#include "rank.h"
#include <string.h>

enum { DIGITS = 256, FEW = 24 };

/* Bits in which not all keys agree. */
static uint64_t rank_differences(const rank_entry *e, int64_t n)
{
    uint64_t any = 0, all = UINT64_MAX;

    for (int64_t i = 0; i < n; i++) {
        any |= e[i].key;
        all &= e[i].key;
    }
    return any ^ all;
}

/* The k-th largest key: from the highest byte down, the digit is found that has it. */
static uint64_t rank_kth(const rank_entry *e, int64_t n, int64_t k)
{
    const uint64_t differences = rank_differences(e, n);
    uint64_t prefix = 0, mask = 0;

    for (uint32_t shift = 64; shift > 0;) {
        int64_t counts[DIGITS] = { 0 };
        uint64_t digit = DIGITS - 1;

        shift -= 8;
        if ((differences >> shift & (DIGITS - 1)) == 0) {
            digit = e[0].key >> shift & (DIGITS - 1);
        } else {
            for (int64_t i = 0; i < n; i++)
                counts[e[i].key >> shift & (DIGITS - 1)] += (e[i].key & mask) == prefix;
            for (; counts[digit] < k; digit--)
                k -= counts[digit];
        }
        prefix |= digit << shift;
        mask |= (uint64_t)(DIGITS - 1) << shift;
    }
    return prefix;
}

uint64_t rank_keep(rank_entry *e, int64_t n, int64_t k)
{
    const uint64_t bar = rank_kth(e, n, k);
    int64_t equal = k, to = 0;

    for (int64_t i = 0; i < n; i++)
        equal -= e[i].key > bar;
    for (int64_t i = 0; i < n; i++) {
        const bool same = e[i].key == bar, keep = e[i].key > bar || (same && equal > 0);

        equal -= same;
        e[to] = e[i];
        to += keep;
        if (to == k)
            break;
    }
    return bar;
}

static void rank_insert(rank_entry *e, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const rank_entry moving = e[i];
        int64_t at = i;

        for (; at > 0 && e[at - 1].key < moving.key; at--)
            e[at] = e[at - 1];
        e[at] = moving;
    }
}

void rank_order(rank_entry *e, int64_t n, rank_entry *other)
{
    rank_entry *from = e, *to = other;
    uint64_t differences;

    if (n <= FEW) {
        rank_insert(e, n);
        return;
    }
    differences = rank_differences(e, n);
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
    if (from != e)
        memcpy(e, from, (size_t)n * sizeof *e);
}
