/* Packs matrices that are stored as values and indexes (sparse.h), without making them dense. */
#include "cpu/sparse/sparse.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

/* The row-major index of entry i. */
static int64_t place_of(const sparse_entries *entries, int64_t i)
{
    int64_t at;

    memcpy(&at, (const char *)entries->places + i * (int64_t)sizeof at, sizeof at);
    return at;
}

static float value_of(const sparse_entries *entries, int64_t i)
{
    float x;

    memcpy(&x, (const char *)entries->values + i * (int64_t)sizeof x, sizeof x);
    return x;
}

static int64_t panels_of(const sparse_entries *entries)
{
    return (entries->n + SPARSE_WIDTH - 1) / SPARSE_WIDTH;
}

bool sparse_entries_are_sound(const sparse_entries *entries)
{
    int64_t last = -1;

    for (int64_t i = 0; i < entries->count; i++) {
        const int64_t at = place_of(entries, i);

        if (at <= last || at / entries->n >= entries->k)
            return false;
        last = at;
    }
    return true;
}

/* The first entry whose index is at least `place`. */
static int64_t first_from(const sparse_entries *entries, int64_t place)
{
    int64_t from = 0, to = entries->count;

    while (from < to) {
        const int64_t middle = from + (to - from) / 2;

        if (place_of(entries, middle) < place)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool has_any(const sparse_entries *entries, int64_t begin, int64_t end)
{
    const int64_t i = first_from(entries, begin);

    return i < entries->count && place_of(entries, i) < end;
}

static bool is_zero(const sparse_entries *entries, int64_t k, int64_t panel)
{
    const int64_t begin = panel * SPARSE_WIDTH,
                  end = begin + SPARSE_WIDTH < entries->n ? begin + SPARSE_WIDTH : entries->n;

    if (entries->upright)
        return !has_any(entries, k * entries->n + begin, k * entries->n + end);
    for (int64_t j = begin; j < end; j++)
        if (has_any(entries, j * entries->k + k, j * entries->k + k + 1))
            return false;
    return true;
}

double sparse_entries_share(const sparse_entries *entries)
{
    const int64_t panels = panels_of(entries), blocks = entries->k * panels;
    int64_t zeros = 0;

    if (blocks < SPARSE_SAMPLE)
        return 1;
    for (int64_t i = 0; i < SPARSE_SAMPLE; i++) {
        const int64_t at = (int64_t)((double)blocks * (double)i / SPARSE_SAMPLE) + i % (blocks / SPARSE_SAMPLE);

        zeros += is_zero(entries, at / panels, at % panels);
    }
    return zeros < SPARSE_LEAST_ZEROS * SPARSE_SAMPLE ? 1 : 1 - (double)zeros / SPARSE_SAMPLE;
}

/* A pass over all entries, which counts the blocks or fills them. */
struct walk {
    const sparse_entries *entries;
    uint32_t *begins; /* [panels + 1] the first block of each panel */
    uint32_t *slot;   /* upright: [panels] the next block of a panel; otherwise [k] the block of each k in one panel */
    uint32_t *index;  /* the list of the pack; NULL: count only */
    float *blocks;
};

/* For matrices [k, n]: the entries of a block are consecutive. */
static void walk_upright(const struct walk *walk)
{
    const sparse_entries *entries = walk->entries;
    int64_t last = -1;

    for (int64_t i = 0; i < entries->count; i++) {
        const int64_t at = place_of(entries, i), k = at / entries->n, column = at % entries->n,
                      panel = column / SPARSE_WIDTH;
        const int64_t block = k * panels_of(entries) + panel;

        if (walk->index == NULL) {
            walk->begins[panel + 1] += block != last;
        } else {
            if (block != last)
                walk->index[walk->slot[panel]++] = (uint32_t)k;
            walk->blocks[(int64_t)(walk->slot[panel] - 1) * SPARSE_WIDTH + column % SPARSE_WIDTH] =
                value_of(entries, i);
        }
        last = block;
    }
}

/* For matrices [n, k]: a panel is 16 rows of the matrix; its nonzero blocks are found first. */
static void walk_turned(const struct walk *walk)
{
    const sparse_entries *entries = walk->entries;
    int64_t i = 0;

    for (int64_t panel = 0; panel < panels_of(entries); panel++) {
        const int64_t end = (panel + 1) * SPARSE_WIDTH * entries->k, first = i;
        uint32_t next = walk->index == NULL ? 0 : walk->begins[panel];

        memset(walk->slot, 0, (size_t)entries->k * sizeof *walk->slot);
        for (; i < entries->count && place_of(entries, i) < end; i++)
            walk->slot[place_of(entries, i) % entries->k] = 1;
        for (int64_t k = 0; k < entries->k; k++) {
            if (walk->slot[k] == 0)
                continue;
            walk->slot[k] = next;
            if (walk->index != NULL)
                walk->index[next] = (uint32_t)k;
            next++;
        }
        if (walk->index == NULL)
            walk->begins[panel + 1] = next;
        for (int64_t at = first; walk->index != NULL && at < i; at++)
            walk->blocks[(int64_t)walk->slot[place_of(entries, at) % entries->k] * SPARSE_WIDTH +
                         place_of(entries, at) / entries->k % SPARSE_WIDTH] = value_of(entries, at);
    }
}

/* Fills begins. false: the indexes are invalid, or there is no memory. The caller frees *out_slot. */
static bool count_blocks(const sparse_entries *entries, uint32_t *begins, uint32_t **out_slot)
{
    const int64_t panels = panels_of(entries), slot_count = entries->upright ? panels : entries->k;
    struct walk walk = { .entries = entries, .begins = begins, .slot = malloc((size_t)slot_count * sizeof *walk.slot) };

    INLAY_CHECK(entries->k > 0 && entries->n > 0);
    *out_slot = walk.slot;
    memset(begins, 0, (size_t)(panels + 1) * sizeof *begins);
    if (walk.slot == NULL || entries->k > UINT32_MAX || entries->count > UINT32_MAX ||
        !sparse_entries_are_sound(entries))
        return false;
    (entries->upright ? walk_upright : walk_turned)(&walk);
    for (int64_t p = 0; p < panels; p++)
        begins[p + 1] += begins[p];
    return true;
}

int64_t sparse_entries_count(const sparse_entries *entries, double most)
{
    const int64_t panels = panels_of(entries);
    uint32_t *begins = malloc((size_t)(panels + 1) * sizeof *begins), *slot = NULL;
    int64_t count = -1;

    if (begins != NULL && entries->k * panels >= SPARSE_SAMPLE && count_blocks(entries, begins, &slot) &&
        (double)begins[panels] <= most * (double)(entries->k * panels))
        count = begins[panels];
    free(begins);
    free(slot);
    return count;
}

bool sparse_entries_pack(const sparse_entries *entries, int64_t count, float *target)
{
    const int64_t panels = panels_of(entries);
    const sparse_packed_weights like = { .k = entries->k, .n = entries->n };
    uint32_t *begins = (uint32_t *)(void *)target, *slot = NULL;
    bool fits;

    memset(target, 0, (size_t)sparse_pack_floats(&like, count) * sizeof *target);
    fits = count_blocks(entries, begins, &slot) && begins[panels] == count;
    if (fits) {
        const struct walk walk = { entries, begins, slot, begins + panels + 1,
                                   target + sparse_blocks_at(entries->n, count) };

        if (entries->upright)
            memcpy(slot, begins, (size_t)panels * sizeof *slot);
        (entries->upright ? walk_upright : walk_turned)(&walk);
    }
    free(slot);
    return fits;
}

bool sparse_entries_expand(const sparse_entries *entries, float *target)
{
    if (!sparse_entries_are_sound(entries))
        return false;
    memset(target, 0, (size_t)(entries->k * entries->n) * sizeof *target);
    for (int64_t i = 0; i < entries->count; i++)
        target[place_of(entries, i)] = value_of(entries, i);
    return true;
}
