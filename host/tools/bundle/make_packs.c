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

static bool read_account(struct maker *m, uint32_t level, pack_account *out)
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
static bool find_unread(struct maker *m, const unsigned char *fates)
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
        const struct graph *g = d->what == DO_RUN ? m->c->parts[d->part].p->graph : NULL;

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

/* ------------------------------------------------------------------ what is worth its bytes
 *
 * Either a constant is in the program, or all packs that were made of it are, at every level. Packs that are in the
 * program beside what they were made of save a start some time, and nothing else. */

/* A pack of an account. */
struct pack {
    bundle_pack_entry entry;
    const unsigned char *data;
    uint64_t source; /* content_hash of the constant that it was made of; 0: not known */
    uint64_t hash;   /* of its bytes */
    uint32_t twin;   /* the first of the same bytes: itself, or an earlier one */
};

/* What was made of one constant, or of constants that are not known. */
struct source {
    uint64_t hash;
    uint64_t packs, freed; /* bytes that its packs take, and those that go with it */
    bool kept;
};

struct choice {
    struct pack *packs;
    struct source *sources;
    uint32_t pack_count, source_count;
};

/* Lists the packs of an account. NULL out: counts them. */
static bool list_packs(const struct maker *m, const pack_account *a, struct pack *out, uint32_t *count)
{
    uint64_t head[4];

    for (const unsigned char *p = a->packs; p < a->end; p += head[3], ++*count) {
        if ((uint64_t)(a->end - p) < sizeof head)
            return false;
        memcpy(head, p, sizeof head);
        p += sizeof head;
        if ((uint64_t)(a->end - p) < head[3])
            return false;
        if (out != NULL)
            out[*count] = (struct pack){ { { head[0] ^ (a->level & m->f.packs_levels), head[1] }, head[3], 0, false },
                                         p,
                                         head[2],
                                         hash_blocks(p, (size_t)head[3], 0),
                                         *count };
    }
    return true;
}

static struct source *find_source(const struct choice *c, uint64_t hash)
{
    for (uint32_t i = 0; i < c->source_count; i++)
        if (c->sources[i].hash == hash)
            return &c->sources[i];
    return NULL;
}

/* How many bytes a program is smaller by without the constant: 0 where somebody reads it itself. */
static uint64_t freed_by(const struct maker *m, uint64_t hash)
{
    uint64_t bytes = 0;

    for (uint32_t p = 0; m->f.unread != NULL && p < m->c->part_count; p++) {
        const struct graph *g = m->c->parts[p].p->graph;

        for (uint32_t v = 0; v < g->value_count; v++) {
            if (g->values[v].info.content_hash != hash || g->values[v].info.data == NULL)
                continue;
            if (m->f.unread[p][v] > 1)
                return 0;
            bytes += m->f.unread[p][v] == 1 ? g->values[v].info.data_bytes : 0;
        }
    }
    return bytes;
}

static bool list_sources(struct maker *m, struct choice *c)
{
    c->sources = arena_array(&m->c->a, (size_t)c->pack_count + 1, sizeof *c->sources);
    if (c->sources == NULL)
        return false;
    for (uint32_t i = 0; i < c->pack_count; i++) {
        struct pack *p = &c->packs[i];
        struct source *s = find_source(c, p->source);

        for (uint32_t k = 0; k < i && p->twin == i; k++)
            if (c->packs[k].entry.bytes == p->entry.bytes && c->packs[k].hash == p->hash)
                p->twin = k;
        if (s == NULL) {
            s = &c->sources[c->source_count++];
            *s = (struct source){ p->source, 0, p->source != 0 ? freed_by(m, p->source) : 0, false };
        }
        s->packs += p->twin == i ? p->entry.bytes : 0;
    }
    return true;
}

/* What the program grows by for each byte of packs, the least first. Packs of constants that are not known come before
 * all: nothing can be left out while they are not in. */
static int by_growth(const void *a, const void *b)
{
    const struct source *x = a, *y = b;
    const double more_x = ((double)x->packs - (double)x->freed) / (double)(x->packs + 1);
    const double more_y = ((double)y->packs - (double)y->freed) / (double)(y->packs + 1);

    if ((x->hash == 0) != (y->hash == 0))
        return x->hash == 0 ? -1 : 1;
    return more_x != more_y ? (more_x < more_y ? -1 : 1) : x->hash < y->hash ? -1 : x->hash > y->hash;
}

static void choose_sources(const struct maker *m, struct choice *c)
{
    const double most = m->job->size * (double)m->job->constant_bytes;
    double total = (double)m->job->constant_bytes;
    bool all_known = true;

    qsort(c->sources, c->source_count, sizeof *c->sources, by_growth);
    for (uint32_t i = 0; i < c->source_count; i++) {
        struct source *s = &c->sources[i];

        if (!all_known)
            s->freed = 0;
        s->kept = s->packs <= s->freed || total + (double)s->packs - (double)s->freed <= most;
        total += s->kept ? (double)s->packs - (double)s->freed : 0;
        all_known = all_known && (s->hash != 0 || s->kept);
    }
}

/* Constants stay whose packs do not. */
static void keep_read(struct maker *m, const struct choice *c)
{
    m->f.drops = false;
    for (uint32_t p = 0; m->f.unread != NULL && p < m->c->part_count; p++) {
        const struct graph *g = m->c->parts[p].p->graph;

        for (uint32_t v = 0; v < g->value_count; v++) {
            const struct source *s = find_source(c, g->values[v].info.content_hash);

            if (m->f.unread[p][v] == 1 && (s == NULL || s->hash == 0 || !s->kept || s->freed == 0))
                m->f.unread[p][v] = 2;
            m->f.drops |= m->f.unread[p][v] == 1;
        }
    }
}

/* Writes what is kept to packs.bin, and the table. */
static bool write_packs(struct maker *m, struct choice *c, FILE *to)
{
    static const char zeros[64];
    uint64_t at = 0;

    m->f.packs = arena_array(&m->c->a, (size_t)c->pack_count + 1, sizeof *m->f.packs);
    for (uint32_t i = 0; m->f.packs != NULL && i < c->pack_count; i++) {
        struct pack *p = &c->packs[i], *twin = &c->packs[p->twin];
        const uint64_t pad = (64 - p->entry.bytes % 64) % 64;

        p->entry.kept = find_source(c, p->source)->kept;
        if (p->entry.kept && twin->entry.kept && twin != p) {
            p->entry.offset = twin->entry.offset;
        } else if (p->entry.kept) {
            p->entry.offset = at;
            if (fwrite(p->data, 1, (size_t)p->entry.bytes, to) != p->entry.bytes || fwrite(zeros, 1, pad, to) != pad)
                return false;
            at += p->entry.bytes + pad;
        }
        m->f.packs[m->f.pack_count++] = p->entry;
        m->job->pack_count += p->entry.kept;
    }
    m->f.packs_bytes = at;
    m->job->start_count = m->f.pack_count - m->job->pack_count;
    return m->f.packs != NULL;
}

/* Takes over the packs of `count` accounts. */
static inlay_status take_packs(struct maker *m, const pack_account *list, uint32_t count)
{
    struct choice c = { 0 };
    uint32_t total = 0;
    FILE *to = NULL;
    inlay_status status;
    bool good = true;

    for (uint32_t i = 0; i < count; i++)
        good = good && list_packs(m, &list[i], NULL, &total);
    c.packs = arena_array(&m->c->a, (size_t)total + 1, sizeof *c.packs);
    for (uint32_t i = 0; good && c.packs != NULL && i < count; i++)
        good = list_packs(m, &list[i], c.packs, &c.pack_count);
    if (c.packs == NULL || !good || !list_sources(m, &c))
        return inlay_fail(m->diag, INLAY_IO_ERROR, "the bundle's first run left no readable account");
    choose_sources(m, &c);
    keep_read(m, &c);
    INLAY_TRY(maker_write_file(m, "packs.bin", &to));
    good = write_packs(m, &c, to);
    INLAY_TRY(maker_close_file(m, to, "packs.bin"));
    if (!good)
        return inlay_fail(m->diag, INLAY_IO_ERROR, "cannot write the bundle's packs");
    if (m->f.pack_count > 0)
        qsort(m->f.packs, m->f.pack_count, sizeof *m->f.packs, by_key);
done:
    return status;
}

/* ------------------------------------------------------------------ what runs read
 *
 * Of one account: its packs, and the constants that are not packed alone. */

static bool count_memory(struct maker *m, const pack_account *a)
{
    uint64_t bytes = m->job->constant_bytes, head[4];
    const unsigned char *p = a->packs;
    bool good = find_unread(m, a->fates);

    for (uint32_t i = 0; good && i < m->c->part_count; i++)
        for (uint32_t v = 0; v < m->c->parts[i].p->graph->value_count; v++)
            bytes -= m->f.unread[i][v] == 1 ? m->c->parts[i].p->graph->values[v].info.data_bytes : 0;
    m->f.unread = NULL;
    for (; good && p < a->end; p += head[3]) {
        good = (uint64_t)(a->end - p) >= sizeof head;
        if (!good)
            break;
        memcpy(head, p, sizeof head);
        p += sizeof head;
        good = (uint64_t)(a->end - p) >= head[3];
        bytes += head[3];
    }
    m->job->memory_bytes = bytes > m->job->memory_bytes ? bytes : m->job->memory_bytes;
    return good;
}

/* ------------------------------------------------------------------ accounts */

/* Reads the accounts of `count` runs, those of a level once; how many there are, 0: one could not be read. */
static uint32_t read_accounts(struct maker *m, uint32_t count, pack_account *list, uint64_t *levels)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t same = 0;

        if (!read_account(m, i, &list[n]))
            return 0;
        if (list[n].arena_bytes > m->f.arena_bytes)
            m->f.arena_bytes = list[n].arena_bytes;
        while (same < n && levels[same] != list[n].level)
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
static bool is_whole(const struct maker *m, const uint64_t *levels, uint32_t count)
{
    static const uint64_t kinds[] = { 2, 2 + 32, 3 + 16 };
    uint32_t found = m->n.isa != NULL; /* for AVX2 the last is not needed */

    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < 3; k++)
            found += levels[i] == kinds[k];
    return found == 3;
}

inlay_status maker_read_accounts(struct maker *m, uint32_t count)
{
    pack_account list[MOST_LEVELS] = { { 0 } };
    uint64_t levels[MOST_LEVELS] = { 0 };
    const bundle_part_of *bytes = maker_part(m, "byte_set_of_cpu");
    inlay_status status;
    bool good;

    count = read_accounts(m, count, list, levels);
    good = count > 0;
    m->job->constant_bytes = m->job->data_bytes; /* the first program had all constants, no packs */
    for (uint32_t i = 0; good && i < count; i++)
        good = count_memory(m, &list[i]);
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
    status = good ? take_packs(m, list, m->f.packs_levels == 0 ? 1 : count)
                  : inlay_fail(m->diag, INLAY_IO_ERROR, "the bundle's first run left no readable account");
    for (uint32_t i = 0; i < MOST_LEVELS; i++)
        free(list[i].bytes);
    return status;
}

inlay_status maker_read_arena(struct maker *m, uint32_t count)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < count; i++) {
        pack_account a = { 0 };

        if (!read_account(m, i, &a))
            return inlay_fail(m->diag, INLAY_IO_ERROR, "the bundle's run left no readable account");
        most = a.arena_bytes > most ? a.arena_bytes : most;
        free(a.bytes);
    }
    m->f.arena_bytes = (most + 4095) / 4096 * 4096;
    return INLAY_OK;
}
