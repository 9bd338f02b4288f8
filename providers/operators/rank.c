/* rank.c - selection and sorting by the digits (bytes) of keys, see rank.h. It contains no kernels. */
#include "operators/rank.h"
#include "inlay/check.h"
#include <string.h>

enum { DIGITS = 256, FEW = 24 };

/* Returns the bits in which the keys differ. */
static uint64_t rank_differences(const rank_entry *entry, int64_t count)
{
    uint64_t any = 0, all = UINT64_MAX;

    for (int64_t i = 0; i < count; i++) {
        any |= entry[i].key;
        all &= entry[i].key;
    }
    return any ^ all;
}

/* Returns the key at `position`, counted from 1 for the largest. The key is found one digit at a time, starting at the
 * highest. */
static uint64_t rank_kth(const rank_entry *entry, int64_t count, int64_t position)
{
    const uint64_t differences = rank_differences(entry, count);
    uint64_t prefix = 0, mask = 0;

    INLAY_CHECK(position > 0 && position <= count);
    for (uint32_t shift = 64; shift > 0;) {
        int64_t counts[DIGITS] = { 0 };
        uint64_t digit = DIGITS - 1;

        shift -= 8;
        if ((differences >> shift & (DIGITS - 1)) == 0) {
            digit = entry[0].key >> shift & (DIGITS - 1);
        } else {
            for (int64_t i = 0; i < count; i++)
                counts[entry[i].key >> shift & (DIGITS - 1)] += (entry[i].key & mask) == prefix;
            for (; counts[digit] < position; digit--)
                position -= counts[digit];
        }
        prefix |= digit << shift;
        mask |= (uint64_t)(DIGITS - 1) << shift;
    }
    return prefix;
}

uint64_t rank_keep(rank_entry *entry, int64_t count, int64_t kept)
{
    const uint64_t bar = rank_kth(entry, count, kept);
    int64_t equal = kept, to = 0;

    for (int64_t i = 0; i < count; i++)
        equal -= entry[i].key > bar;
    for (int64_t i = 0; i < count; i++) {
        const bool same = entry[i].key == bar, keep = entry[i].key > bar || (same && equal > 0);

        equal -= same;
        entry[to] = entry[i];
        to += keep;
        if (to == kept)
            break;
    }
    INLAY_CHECK(to == kept);
    return bar;
}

static void rank_insert(rank_entry *entry, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        const rank_entry moving = entry[i];
        int64_t at = i;

        for (; at > 0 && entry[at - 1].key < moving.key; at--)
            entry[at] = entry[at - 1];
        entry[at] = moving;
    }
}

void rank_order(rank_entry *entry, int64_t count, rank_entry *other)
{
    rank_entry *from = entry, *to = other;
    uint64_t differences;

    INLAY_CHECK(count >= 0);
    if (count <= FEW) {
        rank_insert(entry, count);
        return;
    }
    INLAY_CHECK(entry != other);
    differences = rank_differences(entry, count);
    for (uint32_t shift = 0; shift < 64; shift += 8) {
        int64_t starts[DIGITS] = { 0 }, sum = 0;
        rank_entry *swap = from;

        if ((differences >> shift & (DIGITS - 1)) == 0)
            continue;
        for (int64_t i = 0; i < count; i++)
            starts[from[i].key >> shift & (DIGITS - 1)]++;
        for (int digit = DIGITS; digit-- > 0;) {
            const int64_t digit_count = starts[digit];
            starts[digit] = sum;
            sum += digit_count;
        }
        for (int64_t i = 0; i < count; i++)
            to[starts[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
        from = to;
        to = swap;
    }
    if (from != entry)
        memcpy(entry, from, (size_t)count * sizeof *entry);
}
