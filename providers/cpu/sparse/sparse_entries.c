/* Packs of matrices that come as values and places (sparse.h): no dense matrix is made on the way. */
#include "sparse/sparse.h"
#include <stdlib.h>
#include <string.h>

static int64_t place_of(const sp_entries *e, int64_t i)
{
    int64_t at;

    memcpy(&at, (const char *)e->places + i * (int64_t)sizeof at, sizeof at);
    return at;
}

static float value_of(const sp_entries *e, int64_t i)
{
    float x;

    memcpy(&x, (const char *)e->values + i * (int64_t)sizeof x, sizeof x);
    return x;
}

static int64_t panels_of(const sp_entries *e)
{
    return (e->n + SP_WIDTH - 1) / SP_WIDTH;
}

bool sparse_entries_are_sound(const sp_entries *e)
{
    int64_t last = -1;

    for (int64_t i = 0; i < e->count; i++) {
        const int64_t at = place_of(e, i);

        if (at <= last || at / e->n >= e->k)
            return false;
        last = at;
    }
    return true;
}

/* The first entry that is not in front of `place`. */
static int64_t first_from(const sp_entries *e, int64_t place)
{
    int64_t from = 0, to = e->count;

    while (from < to) {
        const int64_t middle = from + (to - from) / 2;

        if (place_of(e, middle) < place)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool has_any(const sp_entries *e, int64_t begin, int64_t end)
{
    const int64_t i = first_from(e, begin);

    return i < e->count && place_of(e, i) < end;
}

static bool is_zero(const sp_entries *e, int64_t k, int64_t panel)
{
    const int64_t begin = panel * SP_WIDTH, end = begin + SP_WIDTH < e->n ? begin + SP_WIDTH : e->n;

    if (e->upright)
        return !has_any(e, k * e->n + begin, k * e->n + end);
    for (int64_t j = begin; j < end; j++)
        if (has_any(e, j * e->k + k, j * e->k + k + 1))
            return false;
    return true;
}

double sparse_entries_share(const sp_entries *e)
{
    const int64_t panels = panels_of(e), blocks = e->k * panels;
    int64_t zeros = 0;

    if (blocks < SP_SAMPLE)
        return 1;
    for (int64_t i = 0; i < SP_SAMPLE; i++) {
        const int64_t at = (int64_t)((double)blocks * (double)i / SP_SAMPLE) + i % (blocks / SP_SAMPLE);

        zeros += is_zero(e, at / panels, at % panels);
    }
    return zeros < SP_LEAST_ZEROS * SP_SAMPLE ? 1 : 1 - (double)zeros / SP_SAMPLE;
}

/* ------------------------------------------------------------------ one walk, to count and to fill */

struct walk {
    const sp_entries *e;
    uint32_t *begins; /* [panels + 1] */
    uint32_t *slot;   /* [k] of one panel, or [panels]: the next block */
    uint32_t *index;  /* NULL: blocks are counted */
    float *blocks;
};

/* Entries of a row follow each other, and with them those of a block. */
static void walk_upright(const struct walk *w)
{
    const sp_entries *e = w->e;
    int64_t last = -1;

    for (int64_t i = 0; i < e->count; i++) {
        const int64_t at = place_of(e, i), k = at / e->n, column = at % e->n, panel = column / SP_WIDTH;
        const int64_t block = k * panels_of(e) + panel;

        if (w->index == NULL) {
            w->begins[panel + 1] += block != last;
        } else {
            if (block != last)
                w->index[w->slot[panel]++] = (uint32_t)k;
            w->blocks[(int64_t)(w->slot[panel] - 1) * SP_WIDTH + column % SP_WIDTH] = value_of(e, i);
        }
        last = block;
    }
}

/* Those of a panel are 16 rows of the file, whose blocks are found first. */
static void walk_turned(const struct walk *w)
{
    const sp_entries *e = w->e;
    int64_t i = 0;

    for (int64_t panel = 0; panel < panels_of(e); panel++) {
        const int64_t end = (panel + 1) * SP_WIDTH * e->k, first = i;
        uint32_t next = w->index == NULL ? 0 : w->begins[panel];

        memset(w->slot, 0, (size_t)e->k * sizeof *w->slot);
        for (; i < e->count && place_of(e, i) < end; i++)
            w->slot[place_of(e, i) % e->k] = 1;
        for (int64_t k = 0; k < e->k; k++) {
            if (w->slot[k] == 0)
                continue;
            w->slot[k] = next;
            if (w->index != NULL)
                w->index[next] = (uint32_t)k;
            next++;
        }
        if (w->index == NULL)
            w->begins[panel + 1] = next;
        for (int64_t at = first; w->index != NULL && at < i; at++)
            w->blocks[(int64_t)w->slot[place_of(e, at) % e->k] * SP_WIDTH + place_of(e, at) / e->k % SP_WIDTH] =
                value_of(e, at);
    }
}

/* begins, as numbers of blocks; false: places are wrong, or no memory. *out_slot is the caller's to free. */
static bool count_blocks(const sp_entries *e, uint32_t *begins, uint32_t **out_slot)
{
    const int64_t panels = panels_of(e), room = e->upright ? panels : e->k;
    struct walk w = { .e = e, .begins = begins, .slot = malloc((size_t)room * sizeof *w.slot) };

    *out_slot = w.slot;
    memset(begins, 0, (size_t)(panels + 1) * sizeof *begins);
    if (w.slot == NULL || e->k > UINT32_MAX || e->count > UINT32_MAX || !sparse_entries_are_sound(e))
        return false;
    (e->upright ? walk_upright : walk_turned)(&w);
    for (int64_t p = 0; p < panels; p++)
        begins[p + 1] += begins[p];
    return true;
}

int64_t sparse_entries_count(const sp_entries *e, double most)
{
    const int64_t panels = panels_of(e);
    uint32_t *begins = malloc((size_t)(panels + 1) * sizeof *begins), *slot = NULL;
    int64_t count = -1;

    if (begins != NULL && e->k * panels >= SP_SAMPLE && count_blocks(e, begins, &slot) &&
        (double)begins[panels] <= most * (double)(e->k * panels))
        count = begins[panels];
    free(begins);
    free(slot);
    return count;
}

bool sparse_entries_pack(const sp_entries *e, int64_t count, float *target)
{
    const int64_t panels = panels_of(e);
    const sp_weights like = { .k = e->k, .n = e->n };
    uint32_t *begins = (uint32_t *)(void *)target, *slot = NULL;
    bool fits;

    memset(target, 0, (size_t)sparse_pack_floats(&like, count) * sizeof *target);
    fits = count_blocks(e, begins, &slot) && begins[panels] == count;
    if (fits) {
        const struct walk w = { e, begins, slot, begins + panels + 1, target + sparse_blocks_at(e->n, count) };

        if (e->upright)
            memcpy(slot, begins, (size_t)panels * sizeof *slot);
        (e->upright ? walk_upright : walk_turned)(&w);
    }
    free(slot);
    return fits;
}

bool sparse_entries_expand(const sp_entries *e, float *target)
{
    if (!sparse_entries_are_sound(e))
        return false;
    memset(target, 0, (size_t)(e->k * e->n) * sizeof *target);
    for (int64_t i = 0; i < e->count; i++)
        target[place_of(e, i)] = value_of(e, i);
    return true;
}
