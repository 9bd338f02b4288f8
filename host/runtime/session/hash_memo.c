#include "session/hash_memo.h"
#include "base/hash.h"
#include "base/kept.h"
#include "base/memory.h"
#include "threads/hash_many.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FORMAT = 1, LEAST_BYTES = 65536, RECENT_SECONDS = 3, MAX_MEMOS = 16, MAX_ENTRIES = 1 << 20, MAX_FILES = 1024 };
static const uint64_t batch_bytes = (uint64_t)64 << 20; /* hashed before pages are given back */
static const uint64_t folder_bytes = (uint64_t)64 << 20;
static const char suffix[] = ".hashes";
static const char magic[8] = { 'i', 'n', 'l', 'a', 'y', 'h', 's', 'h' };

typedef struct memo_entry {
    uint64_t offset, bytes; /* in the file */
    uint64_t seed;          /* type and dims */
    uint64_t hash;
} memo_entry;

typedef struct memo_head {
    char magic[8];
    uint64_t format;
    graph_file_id id;
    uint64_t entry_count;
    uint64_t checksum; /* of the entries, seeded with the head before it */
} memo_head;

/* What is known of one file. */
struct memo {
    graph_file_id id;
    memo_entry *entries; /* [count]; the first known_count by offset */
    size_t count, known_count;
};

struct pending {
    inlay_value_info *info;
    struct memo *memo; /* NULL: not of a file */
    uint64_t offset;
    uint64_t seed;
};

struct work {
    const graph_model *model;
    const char *folder;
    int64_t now;
    struct memo memos[MAX_MEMOS];
    uint32_t memo_count;
    struct pending *list;
    uint32_t count;
};

/* ------------------------------------------------------------------ files of memos */

static int by_place(const void *a, const void *b)
{
    const memo_entry *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->seed != y->seed ? (x->seed < y->seed ? -1 : 1) : 0;
}

static bool path_of(const struct work *w, const graph_file_id *id, char *path)
{
    int n =
        snprintf(path, PATH_MAX, "%s/%016llx%s", w->folder, (unsigned long long)hash_bytes(id, sizeof *id, 0), suffix);

    return n > 0 && n < PATH_MAX;
}

static uint64_t checksum(const memo_head *head, const memo_entry *entries)
{
    return hash_bytes(entries, head->entry_count * sizeof *entries, hash_bytes(head, offsetof(memo_head, checksum), 0));
}

static bool read_entries(FILE *f, struct memo *m)
{
    memo_head head;

    if (fread(&head, sizeof head, 1, f) != 1 || memcmp(head.magic, magic, sizeof magic) != 0 || head.format != FORMAT ||
        memcmp(&head.id, &m->id, sizeof head.id) != 0 || head.entry_count > MAX_ENTRIES)
        return false;
    if (!list_reserve(&m->entries, 0, head.entry_count + 1, sizeof *m->entries) ||
        fread(m->entries, sizeof *m->entries, head.entry_count, f) != head.entry_count || fgetc(f) != EOF ||
        checksum(&head, m->entries) != head.checksum)
        return false;
    m->count = m->known_count = head.entry_count;
    return true;
}

static void load(const struct work *w, struct memo *m)
{
    char path[PATH_MAX];
    int fd = path_of(w, &m->id, path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    FILE *f = fd >= 0 ? fdopen(fd, "rb") : NULL;

    if (f == NULL) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    if (read_entries(f, m)) {
        kept_touch(fd);
    } else {
        free(m->entries);
        m->entries = NULL;
    }
    (void)fclose(f);
}

/* Could the file have changed since it was looked at without looking so? */
static bool is_recent(const struct work *w, const graph_file_id *id)
{
    int64_t last = id->modified[0] > id->changed[0] ? id->modified[0] : id->changed[0];

    return w->now - last < RECENT_SECONDS;
}

static void save(const struct work *w, struct memo *m)
{
    memo_head head = { .format = FORMAT, .id = m->id, .entry_count = m->count };
    char path[PATH_MAX];

    if (m->count == m->known_count || m->count > MAX_ENTRIES || is_recent(w, &m->id) || !path_of(w, &m->id, path))
        return;
    qsort(m->entries, m->count, sizeof *m->entries, by_place);
    memcpy(head.magic, magic, sizeof magic);
    head.checksum = checksum(&head, m->entries);
    if (kept_write(path, (const kept_part[]){ { &head, sizeof head }, { m->entries, m->count * sizeof *m->entries } },
                   2))
        kept_trim(w->folder, suffix, folder_bytes, MAX_FILES);
}

/* ------------------------------------------------------------------ what is to be hashed */

/* The memo of a file; NULL: there are too many. */
static struct memo *memo_of(struct work *w, const graph_file_id *id)
{
    struct memo *m;

    for (uint32_t i = 0; i < w->memo_count; i++)
        if (memcmp(&w->memos[i].id, id, sizeof *id) == 0)
            return &w->memos[i];
    if (w->memo_count == MAX_MEMOS)
        return NULL;
    m = &w->memos[w->memo_count++];
    m->id = *id;
    load(w, m);
    return m;
}

static void remember(struct memo *m, const memo_entry *entry)
{
    if (!LIST_GROW(m->entries, m->count))
        return;
    m->entries[m->count++] = *entry;
}

static bool add(struct work *w, inlay_value_info *info)
{
    struct pending p = { .info = info, .seed = graph_constant_seed(info) };
    const graph_file_id *id =
        w->folder != NULL ? graph_blob_file(w->model, info->data, (size_t)info->data_bytes, &p.offset) : NULL;

    p.memo = id != NULL ? memo_of(w, id) : NULL;
    if (p.memo != NULL && p.memo->known_count > 0) {
        const memo_entry key = { .offset = p.offset, .bytes = info->data_bytes, .seed = p.seed };
        const memo_entry *found = bsearch(&key, p.memo->entries, p.memo->known_count, sizeof key, by_place);

        if (found != NULL) {
            info->content_hash = found->hash;
            return true;
        }
    }
    if (!LIST_GROW(w->list, w->count))
        return false;
    w->list[w->count++] = p;
    return true;
}

static bool collect(struct work *w, struct graph *g)
{
    for (uint32_t v = 0; v < g->value_count; v++) {
        inlay_value_info *info = &g->values[v].info;

        if ((info->flags & INLAY_VALUE_CONSTANT) != 0 && info->content_hash == 0 && info->dtype != INLAY_STRING &&
            info->data_bytes >= LEAST_BYTES && !add(w, info))
            return false;
    }
    for (uint32_t n = 0; n < g->node_count; n++)
        for (uint32_t b = 0; b < g->nodes[n]->body_count; b++)
            if (!collect(w, g->nodes[n]->bodies[b].graph))
                return false;
    return true;
}

/* ------------------------------------------------------------------ hashing */

static bool hash_batch(const struct work *w, uint32_t begin, uint32_t end, hash_job *jobs)
{
    for (uint32_t i = begin; i < end; i++)
        jobs[i - begin] =
            (hash_job){ .data = w->list[i].info->data, .bytes = w->list[i].info->data_bytes, .seed = w->list[i].seed };
    if (!hash_many(jobs, end - begin))
        return false;
    for (uint32_t i = begin; i < end; i++) {
        const struct pending *p = &w->list[i];

        p->info->content_hash = jobs[i - begin].hash == 0 ? 1 : jobs[i - begin].hash;
        if (p->memo != NULL)
            remember(p->memo, &(memo_entry){ p->offset, p->info->data_bytes, p->seed, p->info->content_hash });
        graph_blob_forget(w->model, p->info->data, (size_t)p->info->data_bytes);
    }
    return true;
}

static void hash_pending(const struct work *w)
{
    hash_job *jobs = malloc((w->count + 1u) * sizeof *jobs);
    uint32_t begin = 0;

    while (jobs != NULL && begin < w->count) {
        uint64_t bytes = 0;
        uint32_t end = begin;

        while (end < w->count && (end == begin || bytes < batch_bytes))
            bytes += w->list[end++].info->data_bytes;
        if (!hash_batch(w, begin, end, jobs))
            break;
        begin = end;
    }
    free(jobs);
}

uint32_t hash_constants(struct graph *g, const char *folder, int64_t now)
{
    struct work w = { .model = g->model, .folder = folder != NULL && folder[0] != '\0' ? folder : NULL, .now = now };

    if (collect(&w, g))
        hash_pending(&w);
    for (uint32_t i = 0; i < w.memo_count; i++) {
        save(&w, &w.memos[i]);
        free(w.memos[i].entries);
    }
    free(w.list);
    return w.count;
}
