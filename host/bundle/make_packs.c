/* What the first runs of a bundle packed. */
#include "base/hash.h"
#include "bundle/maker.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Of bundle_level(), the part without products of bytes. */
enum { LEVEL_ALONE = 15 };
enum { MOST_LEVELS = 3 };

static int by_key(const void *a, const void *b)
{
    const bundle_pack_entry *x = a, *y = b;

    if (x->key[0] != y->key[0])
        return x->key[0] < y->key[0] ? -1 : 1;
    return x->key[1] < y->key[1] ? -1 : x->key[1] > y->key[1];
}

/* What a first run wrote. */
typedef struct pack_account {
    unsigned char *bytes; /* all of it, the heap's */
    uint64_t size;
    uint64_t level, arena_bytes;
    const unsigned char *fates, *packs, *end;
} pack_account;

static bool read_account(maker *m, uint32_t level, pack_account *out)
{
    char *path = arena_format(&m->c->a, "%s/account.%u", m->job->dir, level);
    FILE *f = path != NULL ? fopen(path, "rb") : NULL;
    uint64_t fates = 0;
    struct stat st;
    bool good = f != NULL && fstat(fileno(f), &st) == 0 && st.st_size >= 16;

    for (uint32_t i = 0; i < m->c->step_count; i++)
        if (m->c->steps[i].what == DO_RUN)
            fates += m->f.values[m->c->steps[i].part];
    out->size = good ? (uint64_t)st.st_size : 0;
    out->bytes = good ? malloc((size_t)out->size) : NULL;
    good = out->bytes != NULL && out->size >= 16 + fates && fread(out->bytes, 1, (size_t)out->size, f) == out->size;
    if (f != NULL)
        (void)fclose(f);
    if (!good)
        return false;
    memcpy(&out->level, out->bytes, 8);
    memcpy(&out->arena_bytes, out->bytes + 8, 8);
    out->fates = out->bytes + 16;
    out->packs = out->fates + fates;
    out->end = out->bytes + out->size;
    return true;
}

/* Regions come in the order of their steps: a constant is left out where all who read it packed it. */
static bool find_unread(maker *m, const unsigned char *fates)
{
    const bool first = m->f.unread == NULL;

    if (first)
        m->f.unread = arena_array(&m->c->a, (size_t)m->c->part_count + 1, sizeof *m->f.unread);
    for (uint32_t i = 0; first && m->f.unread != NULL && i < m->c->part_count; i++) {
        m->f.unread[i] = arena_alloc(&m->c->a, (size_t)m->c->parts[i].p->graph->value_count + 1);
        if (m->f.unread[i] == NULL)
            return false;
    }
    for (uint32_t i = 0; m->f.unread != NULL && i < m->c->step_count; i++) {
        const bundle_do *d = &m->c->steps[i];
        const graph *g = d->what == DO_RUN ? m->c->parts[d->part].p->graph : NULL;

        for (uint32_t k = 0; g != NULL && k < d->step->region->node_count; k++) {
            const inlay_node_info *n = &g->nodes[d->step->region->nodes[k]]->info;

            for (uint32_t x = 0; x < n->input_count; x++)
                if (n->inputs[x] != INLAY_NONE)
                    m->f.unread[d->part][n->inputs[x]] |=
                        fates[m->f.value[d->part][n->inputs[x]]] == INLAY_CONST_PACKED ? 1 : 2;
        }
        fates += g != NULL ? m->f.values[d->part] : 0;
    }
    return m->f.unread != NULL;
}

/* Adds the packs of an account to packs.bin and the table; what is there already is not written again. */
static bool add_packs(maker *m, const pack_account *a, FILE *to, uint64_t *at, uint32_t *capacity)
{
    static const char zeros[64];
    uint64_t head[3];

    for (const unsigned char *p = a->packs; p < a->end; p += head[2]) {
        bundle_pack_entry entry;
        uint32_t same = 0;

        if ((uint64_t)(a->end - p) < sizeof head)
            return false;
        memcpy(head, p, sizeof head);
        p += sizeof head;
        if ((uint64_t)(a->end - p) < head[2])
            return false;
        entry = (bundle_pack_entry){
            { head[0] ^ (a->level & m->f.packs_levels), head[1] }, head[2], *at, hash_blocks(p, (size_t)head[2], 0)
        };
        while (same < m->f.pack_count && (m->f.packs[same].bytes != entry.bytes || m->f.packs[same].hash != entry.hash))
            same++;
        if (m->f.pack_count == *capacity) {
            bundle_pack_entry *more = arena_array(&m->c->a, *capacity = *capacity * 2 + 64, sizeof *more);

            if (more == NULL)
                return false;
            if (m->f.pack_count > 0)
                memcpy(more, m->f.packs, m->f.pack_count * sizeof *more);
            m->f.packs = more;
        }
        if (same < m->f.pack_count) {
            entry.offset = m->f.packs[same].offset;
        } else {
            const uint64_t pad = (64 - head[2] % 64) % 64;

            if (fwrite(p, 1, (size_t)head[2], to) != head[2] || fwrite(zeros, 1, (size_t)pad, to) != pad)
                return false;
            *at += head[2] + pad;
        }
        m->f.packs[m->f.pack_count++] = entry;
    }
    return true;
}

/* Reads the accounts of `count` runs, those of a level once; how many there are, 0: one could not be read. */
static uint32_t read_accounts(maker *m, uint32_t count, pack_account *list, uint64_t *levels)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t same = 0;

        if (!read_account(m, i, &list[n]))
            return 0;
        if (list[n].arena_bytes > m->f.arena_bytes)
            m->f.arena_bytes = list[n].arena_bytes;
        while (levels[same] != list[n].level && same < n)
            same++;
        if (same < n) {
            free(list[n].bytes); /* this CPU cannot be taken for another one */
            list[n].bytes = NULL;
        } else {
            levels[n] = list[n].level;
            n++;
        }
    }
    m->f.arena_bytes = (m->f.arena_bytes + 4095) / 4096 * 4096;
    return n;
}

/* Do the packs differ from level to level? */
static bool differ(const pack_account *list, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (list[0].size != list[i].size ||
            memcmp(list[0].fates, list[i].fates, (size_t)(list[0].end - list[0].fates)) != 0)
            return true;
    return false;
}

/* Was every kind of CPU tried that multiplies bytes in a way of its own? See bundle_cap_bytes(). */
static bool is_whole(const maker *m, const uint64_t *levels, uint32_t count)
{
    static const uint64_t kinds[] = { 2, 2 + 32, 3 + 16 };
    uint32_t found = m->n.isa != NULL; /* for AVX2 the last is not needed */

    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < 3; k++)
            found += levels[i] == kinds[k];
    return found == 3;
}

inlay_status maker_read_accounts(maker *m, uint32_t count)
{
    pack_account list[MOST_LEVELS] = { { 0 } };
    uint64_t levels[MOST_LEVELS] = { 0 };
    const bundle_part_of *bytes = maker_part(m, "byte_set_of_cpu");
    uint64_t at = 0;
    uint32_t capacity = 0;
    FILE *to = NULL;
    inlay_status status;
    bool good;

    count = read_accounts(m, count, list, levels);
    good = count > 0;
    if (good && m->native)
        m->f.only_level = (uint32_t)levels[0];
    else if (good)
        maker_keep_untried(m, levels, count);
    if (good && !m->native && bytes != NULL && bytes->needed && strncmp(m->job->target, "x86_64", 6) == 0)
        m->f.packs_levels = UINT32_MAX; /* even with one account: other CPUs pack otherwise */
    else if (differ(list, count))
        m->f.packs_levels = LEVEL_ALONE;
    for (uint32_t i = 0; good && (m->f.packs_levels != UINT32_MAX || is_whole(m, levels, count)) && i < count; i++)
        good = find_unread(m, list[i].fates);
    INLAY_TRY(maker_write_file(m, "packs.bin", &to));
    for (uint32_t i = 0; good && i < (m->f.packs_levels == 0 ? 1 : count); i++)
        good = add_packs(m, &list[i], to, &at, &capacity);
    INLAY_TRY(maker_close_file(m, to, "packs.bin"));
    m->f.packs_bytes = at;
    m->job->pack_count = m->f.pack_count;
    if (m->f.pack_count > 0)
        qsort(m->f.packs, m->f.pack_count, sizeof *m->f.packs, by_key);
    if (!good)
        status = inlay_fail(m->diag, INLAY_IO_ERROR, "the bundle's first run left no readable account");
done:
    for (uint32_t i = 0; i < MOST_LEVELS; i++)
        free(list[i].bytes);
    return status;
}
