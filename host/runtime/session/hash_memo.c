#include "session/hash_memo.h"
#include "base/hash.h"
#include "base/cache_folder.h"
#include "base/memory.h"
#include "threads/hash_many.h"
#include "inlay/check.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FORMAT = 1, MIN_BYTES = 65536, RECENT_SECONDS = 3, MAX_MEMOS = 16, MAX_ENTRIES = 1 << 20, MAX_FILES = 1024 };
static const uint64_t batch_bytes = (uint64_t)64 << 20; /* bytes that are hashed before their pages are released */
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
    file_id id;
    uint64_t entry_count;
    uint64_t checksum; /* of the entries, seeded with the head before it */
} memo_head;

/* The hashes of one file. */
struct memo {
    file_id id;
    memo_entry *entries; /* [count]; the first known_count are sorted by offset */
    size_t count, known_count;
};

/* A constant that must be hashed. */
struct pending {
    inlay_value_info *info;
    struct memo *memo; /* NULL: not in a mapped file */
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

static int compare_entries(const void *a, const void *b)
{
    const memo_entry *first = a, *second = b;

    if (first->offset != second->offset)
        return first->offset < second->offset ? -1 : 1;
    if (first->bytes != second->bytes)
        return first->bytes < second->bytes ? -1 : 1;
    return first->seed != second->seed ? (first->seed < second->seed ? -1 : 1) : 0;
}

static bool path_of(const struct work *work, const file_id *id, char *path)
{
    int length = snprintf(path, PATH_MAX, "%s/%016llx%s", work->folder,
                          (unsigned long long)hash_bytes(id, sizeof *id, 0), suffix);

    return length > 0 && length < PATH_MAX;
}

static uint64_t checksum(const memo_head *head, const memo_entry *entries)
{
    return hash_bytes(entries, head->entry_count * sizeof *entries, hash_bytes(head, offsetof(memo_head, checksum), 0));
}

static bool read_entries(FILE *file, struct memo *memo)
{
    memo_head head;

    if (fread(&head, sizeof head, 1, file) != 1 || memcmp(head.magic, magic, sizeof magic) != 0 ||
        head.format != FORMAT || memcmp(&head.id, &memo->id, sizeof head.id) != 0 || head.entry_count > MAX_ENTRIES)
        return false;
    if (!list_reserve(&memo->entries, 0, head.entry_count + 1, sizeof *memo->entries) ||
        fread(memo->entries, sizeof *memo->entries, head.entry_count, file) != head.entry_count || fgetc(file) != EOF ||
        checksum(&head, memo->entries) != head.checksum)
        return false;
    memo->count = memo->known_count = head.entry_count;
    return true;
}

static void load(const struct work *work, struct memo *memo)
{
    char path[PATH_MAX];
    int fd = path_of(work, &memo->id, path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    FILE *file = fd >= 0 ? fdopen(fd, "rb") : NULL;

    if (file == NULL) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    if (read_entries(file, memo)) {
        cache_folder_touch(fd);
    } else {
        free(memo->entries);
        memo->entries = NULL;
    }
    (void)fclose(file);
}

/* Could a write since the timestamps of the file were read have left the timestamps as they were? */
static bool is_recent(const struct work *work, const file_id *id)
{
    int64_t last = id->modified[0] > id->changed[0] ? id->modified[0] : id->changed[0];

    return work->now - last < RECENT_SECONDS;
}

static void save(const struct work *work, struct memo *memo)
{
    memo_head head = { .format = FORMAT, .id = memo->id, .entry_count = memo->count };
    char path[PATH_MAX];

    if (memo->count == memo->known_count || memo->count > MAX_ENTRIES || is_recent(work, &memo->id) ||
        !path_of(work, &memo->id, path))
        return;
    qsort(memo->entries, memo->count, sizeof *memo->entries, compare_entries);
    memcpy(head.magic, magic, sizeof magic);
    head.checksum = checksum(&head, memo->entries);
    if (cache_folder_write(path,
                           (const cache_folder_part[]){ { &head, sizeof head },
                                                        { memo->entries, memo->count * sizeof *memo->entries } },
                           2))
        cache_folder_trim(work->folder, suffix, folder_bytes, MAX_FILES);
}

/* The memo of a file; NULL: too many files. */
static struct memo *memo_of(struct work *work, const file_id *id)
{
    struct memo *memo;

    for (uint32_t i = 0; i < work->memo_count; i++)
        if (memcmp(&work->memos[i].id, id, sizeof *id) == 0)
            return &work->memos[i];
    if (work->memo_count == MAX_MEMOS)
        return NULL;
    memo = &work->memos[work->memo_count++];
    memo->id = *id;
    load(work, memo);
    return memo;
}

static void add_entry(struct memo *memo, const memo_entry *entry)
{
    INLAY_CHECK(memo->known_count <= memo->count);
    if (!LIST_GROW(memo->entries, memo->count))
        return;
    memo->entries[memo->count++] = *entry;
}

static bool add(struct work *work, inlay_value_info *info)
{
    struct pending pending = { .info = info, .seed = graph_constant_seed(info) };
    const file_id *id = work->folder != NULL
                            ? graph_blob_file(work->model, info->data, (size_t)info->data_bytes, &pending.offset)
                            : NULL;

    pending.memo = id != NULL ? memo_of(work, id) : NULL;
    if (pending.memo != NULL && pending.memo->known_count > 0) {
        const memo_entry key = { .offset = pending.offset, .bytes = info->data_bytes, .seed = pending.seed };
        const memo_entry *found =
            bsearch(&key, pending.memo->entries, pending.memo->known_count, sizeof key, compare_entries);

        if (found != NULL) {
            info->content_hash = found->hash;
            return true;
        }
    }
    if (!LIST_GROW(work->list, work->count))
        return false;
    work->list[work->count++] = pending;
    return true;
}

static bool collect(struct work *work, struct graph *graph)
{
    for (uint32_t value = 0; value < graph->value_count; value++) {
        inlay_value_info *info = &graph->values[value].info;

        if ((info->flags & INLAY_VALUE_CONSTANT) != 0 && info->content_hash == 0 && info->dtype != INLAY_STRING &&
            info->data_bytes >= MIN_BYTES && !add(work, info))
            return false;
    }
    for (uint32_t node = 0; node < graph->node_count; node++)
        for (uint32_t b = 0; b < graph->nodes[node]->body_count; b++)
            if (!collect(work, graph->nodes[node]->bodies[b].graph))
                return false;
    return true;
}

static bool hash_batch(const struct work *work, uint32_t begin, uint32_t end, hash_job *jobs)
{
    INLAY_CHECK(begin < end && end <= work->count);
    for (uint32_t i = begin; i < end; i++) {
        const inlay_value_info *info = work->list[i].info;

        jobs[i - begin] =
            (hash_job){ .data = info->data,
                        .bytes = info->data_bytes,
                        .seed = work->list[i].seed,
                        .mapped = graph_blob_is_mapped(work->model, info->data, (size_t)info->data_bytes) };
    }
    if (!hash_many(jobs, end - begin))
        return false;
    for (uint32_t i = begin; i < end; i++) {
        const struct pending *pending = &work->list[i];

        pending->info->content_hash = jobs[i - begin].hash == 0 ? 1 : jobs[i - begin].hash;
        if (pending->memo != NULL)
            add_entry(pending->memo, &(memo_entry){ pending->offset, pending->info->data_bytes, pending->seed,
                                                    pending->info->content_hash });
        graph_blob_release_pages(work->model, pending->info->data, (size_t)pending->info->data_bytes);
    }
    return true;
}

static void hash_pending(const struct work *work)
{
    hash_job *jobs = malloc((work->count + 1u) * sizeof *jobs);
    uint32_t begin = 0;

    while (jobs != NULL && begin < work->count) {
        uint64_t bytes = 0;
        uint32_t end = begin;

        while (end < work->count && (end == begin || bytes < batch_bytes))
            bytes += work->list[end++].info->data_bytes;
        if (!hash_batch(work, begin, end, jobs))
            break;
        begin = end;
    }
    free(jobs);
}

uint32_t hash_constants(struct graph *graph, const char *folder, int64_t now)
{
    struct work work = { .model = graph->model,
                         .folder = folder != NULL && folder[0] != '\0' ? folder : NULL,
                         .now = now };

    if (collect(&work, graph))
        hash_pending(&work);
    for (uint32_t i = 0; i < work.memo_count; i++) {
        save(&work, &work.memos[i]);
        free(work.memos[i].entries);
    }
    free(work.list);
    return work.count;
}

/* The hashes of constants, by their addresses. */
struct known {
    memo_entry *entries; /* [count] offset: the address */
    uint32_t count;
};

static bool is_large_constant(const inlay_value_info *info)
{
    return (info->flags & INLAY_VALUE_CONSTANT) != 0 && info->dtype != INLAY_STRING && info->data_bytes >= MIN_BYTES;
}

static memo_entry entry_of(const inlay_value_info *info)
{
    return (memo_entry){ .offset = (uintptr_t)info->data,
                         .bytes = info->data_bytes,
                         .seed = graph_constant_seed(info),
                         .hash = info->content_hash };
}

static bool collect_known(struct known *known, const struct graph *graph)
{
    for (uint32_t value = 0; value < graph->value_count; value++) {
        const inlay_value_info *info = &graph->values[value].info;

        if (!is_large_constant(info) || info->content_hash == 0)
            continue;
        if (!LIST_GROW(known->entries, known->count))
            return false;
        known->entries[known->count++] = entry_of(info);
    }
    for (uint32_t node = 0; node < graph->node_count; node++)
        for (uint32_t b = 0; b < graph->nodes[node]->body_count; b++)
            if (!collect_known(known, graph->nodes[node]->bodies[b].graph))
                return false;
    return true;
}

static void set_known(const struct known *known, struct graph *graph)
{
    for (uint32_t value = 0; value < graph->value_count; value++) {
        inlay_value_info *info = &graph->values[value].info;
        const memo_entry key = entry_of(info), *found;

        if (!is_large_constant(info) || info->content_hash != 0)
            continue;
        found = bsearch(&key, known->entries, known->count, sizeof key, compare_entries);
        info->content_hash = found != NULL ? found->hash : 0;
    }
    for (uint32_t node = 0; node < graph->node_count; node++)
        for (uint32_t b = 0; b < graph->nodes[node]->body_count; b++)
            set_known(known, graph->nodes[node]->bodies[b].graph);
}

void hash_copy(const struct graph *from, struct graph *to)
{
    struct known known = { .count = 0 };

    if (collect_known(&known, from) && known.count > 0) {
        qsort(known.entries, known.count, sizeof *known.entries, compare_entries);
        set_known(&known, to);
    }
    free(known.entries);
}
