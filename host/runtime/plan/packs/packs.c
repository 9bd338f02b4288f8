#include "plan/packs/packs.h"
#include "base/hash.h"
#include "base/isa.h"
#include "base/kept.h"
#include "partition/cost/cost_profile.h"
#include "plan/packs/pack_file.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* A model whose sessions have other threads, options or shapes may need other packs of the same weights: each set of
 * what was missing is a file. */
enum { MAX_FILES = 8, MAX_FOLDER_FILES = 4096, ALIGN = 64, SMALL_FILE = 1 << 20 };
static const char suffix[] = ".packs";

struct pack {
    pack_key key;
    void *data;
    uint64_t bytes;
    uint32_t file; /* of files, and the number in its index, */
    uint32_t entry;
    bool fresh; /* unless it was made in this session: data is owned then */
    bool ready; /* filled, or found to be what was written */
};

struct packs {
    pthread_mutex_t lock;
    packs_place place;
    uint64_t model_hash;
    pack_file files[MAX_FILES];
    bool damaged[MAX_FILES]; /* some pack of the file is not what it was */
    int free_number;         /* of a file yet to be written; -1: there are MAX_FILES */
    uint64_t room_left;      /* bytes of fresh packs that may still be kept */
    bool has_writer;
    pthread_t writer; /* writes what is fresh, while the session is used already */
    uint64_t machine; /* hash of the CPU's name and instructions */
    struct pack *list;
    uint32_t count, capacity;
    uint32_t *slots; /* [slot_count] index + 1 into list, by key; a power of two, at most half full */
    uint32_t slot_count;
    packs_count counted;
};

INLAY_PRINTF(2, 3)
static void complain(const struct packs *p, const char *format, ...)
{
    char text[PATH_MAX + 200];
    va_list args;

    if (p->place.log == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    p->place.log(p->place.log_ctx, INLAY_LOG_WARNING, text);
}

/* ------------------------------------------------------------------ the table */

static uint32_t *slot_of(const struct packs *p, const pack_key *key)
{
    uint32_t at = (uint32_t)key->word[0] & (p->slot_count - 1);

    while (p->slots[at] != 0 && memcmp(&p->list[p->slots[at] - 1].key, key, sizeof *key) != 0)
        at = (at + 1) & (p->slot_count - 1);
    return &p->slots[at];
}

/* Room for one more. */
static bool reserve(struct packs *p)
{
    uint32_t capacity = p->capacity == 0 ? 64 : p->capacity * 2, *slots;
    struct pack *list;

    if (p->count < p->capacity)
        return true;
    list = realloc(p->list, capacity * sizeof *list);
    if (list == NULL)
        return false;
    p->list = list;
    slots = calloc(2 * (size_t)capacity, sizeof *slots);
    if (slots == NULL)
        return false;
    free(p->slots);
    p->slots = slots;
    p->slot_count = 2 * capacity;
    p->capacity = capacity;
    for (uint32_t i = 0; i < p->count; i++)
        *slot_of(p, &p->list[i].key) = i + 1;
    return true;
}

static struct pack *add(struct packs *p, const struct pack *entry)
{
    if (!reserve(p))
        return NULL;
    p->list[p->count] = *entry;
    *slot_of(p, &entry->key) = p->count + 1;
    return &p->list[p->count++];
}

/* ------------------------------------------------------------------ files */

static bool path_of(const struct packs *p, int number, char *path, size_t bytes)
{
    int n = snprintf(path, bytes, "%s/%016llx-%d%s", p->place.dir, (unsigned long long)p->model_hash, number, suffix);

    return n > 0 && (size_t)n < bytes;
}

/* The same number in all files of one model and build of the host. */
static pack_key file_key(const struct packs *p)
{
    return (pack_key){ { p->model_hash, p->machine } };
}

static bool add_entries(struct packs *p, uint32_t file)
{
    const pack_file *f = &p->files[file];

    for (uint32_t i = 0; i < f->entry_count; i++) {
        const pack_entry *e = &f->entries[i];
        struct pack entry = { .key = e->key, .data = f->map + e->offset, .bytes = e->bytes, .file = file, .entry = i };

        if (p->slot_count > 0 && *slot_of(p, &e->key) != 0)
            continue;
        if (add(p, &entry) == NULL)
            return false;
    }
    return true;
}

static void forget_file(const struct packs *p, const char *path)
{
    complain(p, "cache: %s is damaged, or from another version; it will be written anew", path);
    (void)unlink(path);
}

static bool open_files(struct packs *p)
{
    char path[PATH_MAX];

    p->free_number = -1;
    for (int i = 0; i < MAX_FILES; i++) {
        int error = path_of(p, i, path, sizeof path) ? pack_file_open(path, file_key(p), &p->files[i]) : ENAMETOOLONG;

        if (error == EBADMSG)
            forget_file(p, path);
        else if (error != 0 && error != ENOENT)
            complain(p, "cache: %s: %s", path, strerror(error));
        if (error != 0 && p->free_number < 0)
            p->free_number = i;
        if (error == 0 && !add_entries(p, (uint32_t)i))
            return false;
    }
    return true;
}

/* What may still be written: half of what is free, so that a disk is never filled. */
static uint64_t room_on_disk(const struct packs *p)
{
    struct statvfs s;
    uint64_t half;

    if (p->free_number < 0 || access(p->place.dir, W_OK | X_OK) != 0 || statvfs(p->place.dir, &s) != 0)
        return 0;
    half = (uint64_t)s.f_bavail * s.f_frsize / 2;
    return half < p->place.max_bytes ? half : p->place.max_bytes;
}

static uint64_t hash_machine(void)
{
    char cpu[160];
    uint32_t extra, level = isa_of_cpu(&extra);

    profile_cpu(cpu, sizeof cpu);
    return hash_bytes(cpu, strlen(cpu), (uint64_t)level << 32 | extra);
}

/* The providers of a session, as they are: sets of files are theirs. */
static uint64_t hash_providers(const part_provider *providers, uint32_t count)
{
    uint64_t h = count;

    for (uint32_t i = 0; i < count; i++) {
        const char *build = providers[i].build_id != NULL ? providers[i].build_id : "";

        h = hash_bytes(providers[i].name, strlen(providers[i].name), h);
        h = hash_u64(hash_bytes(build, strlen(build), h), providers[i].settings_hash);
    }
    return h;
}

struct packs *packs_open(const packs_place *place, uint64_t model_hash, const part_provider *providers,
                         uint32_t provider_count)
{
    struct packs *p;

    if (place->dir == NULL || place->dir[0] == '\0' || place->max_bytes == 0)
        return NULL;
    p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    (void)pthread_mutex_init(&p->lock, NULL);
    p->place = *place;
    p->machine = hash_machine();
    p->model_hash = hash_u64(hash_u64(model_hash, p->machine), hash_providers(providers, provider_count));
    if (!reserve(p) || !open_files(p)) {
        packs_close(p);
        return NULL;
    }
    p->room_left = room_on_disk(p);
    return p;
}

/* ------------------------------------------------------------------ packs */

static pack_key key_of(const struct packs *p, const part_provider *provider, const void *key, uint64_t key_bytes,
                       uint64_t bytes)
{
    pack_key made;

    for (int i = 0; i < 2; i++) {
        uint64_t h = hash_u64((uint64_t)i + 1, p->machine);

        if (provider != NULL) {
            h = hash_bytes(provider->name, strlen(provider->name), h);
            h = hash_bytes(provider->build_id, strlen(provider->build_id), h);
            h = hash_u64(h, provider->settings_hash);
        }
        made.word[i] = hash_u64(hash_bytes(key, (size_t)key_bytes, h), bytes);
    }
    return made;
}

/* What was read from a file, if it is what was written. Otherwise the file goes, and all that is used of it is written
 * again. */
static bool check(struct packs *p, struct pack *entry)
{
    char path[PATH_MAX];

    entry->ready = entry->ready || pack_file_check(&p->files[entry->file], entry->entry);
    if (!entry->ready && !p->damaged[entry->file]) {
        p->damaged[entry->file] = true;
        if (path_of(p, (int)entry->file, path, sizeof path))
            forget_file(p, path);
    }
    return entry->ready;
}

static inlay_status take(struct packs *p, const pack_key *key, uint64_t bytes, void **out_data, uint32_t *out_known)
{
    uint32_t at = *slot_of(p, key);
    struct pack entry = { .key = *key, .bytes = bytes, .fresh = true }, *there = at != 0 ? &p->list[at - 1] : NULL;

    if (there != NULL && (there->bytes != bytes || (there->fresh && !there->ready)))
        return INLAY_UNSUPPORTED; /* somebody is at it */
    if (there != NULL && (there->fresh || check(p, there))) {
        *out_data = there->data;
        *out_known = 1;
        p->counted.found++;
        p->counted.mapped_bytes += there->fresh ? 0 : bytes;
        return INLAY_OK;
    }
    if (bytes > p->room_left)
        return INLAY_UNSUPPORTED;
    /* Not on large pages. They would make runs a few percent faster where weights are most of what is read, but only in
     * the session that packs, for others map the file; and fresh blocks of 2 MB cost a virtual machine that returns
     * free memory to its host three times what used pages do. */
    if (!reserve(p) || posix_memalign(&entry.data, ALIGN, (size_t)bytes) != 0)
        return INLAY_OUT_OF_MEMORY;
    p->room_left -= bytes;
    *out_data = entry.data;
    if (at != 0)
        p->list[at - 1] = entry;
    else
        (void)add(p, &entry);
    return INLAY_OK;
}

inlay_status packs_take(struct packs *p, const part_provider *provider, const void *key, uint64_t key_bytes,
                        uint64_t bytes, void **out_data, uint32_t *out_known)
{
    inlay_status status;
    pack_key k;

    *out_data = NULL;
    *out_known = 0;
    if (p == NULL || bytes == 0 || bytes > (uint64_t)1 << 40)
        return INLAY_UNSUPPORTED;
    if (provider != NULL && provider->build_id == NULL)
        return INLAY_UNSUPPORTED; /* another build could not be told from this one */
    k = key_of(p, provider, key, key_bytes, bytes);
    (void)pthread_mutex_lock(&p->lock);
    status = take(p, &k, bytes, out_data, out_known);
    (void)pthread_mutex_unlock(&p->lock);
    return status;
}

void packs_keep(struct packs *p, const void *data)
{
    if (p == NULL)
        return;
    (void)pthread_mutex_lock(&p->lock);
    for (uint32_t i = p->count; i-- > 0;) { /* usually the last */
        if (p->list[i].data != data || !p->list[i].fresh)
            continue;
        p->counted.made += !p->list[i].ready;
        p->list[i].ready = true;
        break;
    }
    (void)pthread_mutex_unlock(&p->lock);
}

/* ------------------------------------------------------------------ writing */

/* Does it belong into the file that is to be written? */
static bool is_new(const struct packs *p, const struct pack *entry)
{
    return entry->ready && (entry->fresh || p->damaged[entry->file]);
}

static void write_file(struct packs *p)
{
    pack_entry *entries = malloc((p->count + 1u) * sizeof *entries);
    const void **data = malloc((p->count + 1u) * sizeof *data);
    char path[PATH_MAX];
    uint32_t count = 0;

    (void)pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; entries != NULL && data != NULL && i < p->count; i++) {
        if (!is_new(p, &p->list[i]))
            continue;
        data[count] = p->list[i].data;
        entries[count++] = (pack_entry){ .key = p->list[i].key, .bytes = p->list[i].bytes };
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (count > 0 && path_of(p, p->free_number, path, sizeof path)) {
        if (pack_file_write(path, file_key(p), entries, data, count))
            kept_trim(p->place.dir, suffix, p->place.max_bytes, MAX_FOLDER_FILES);
        else
            complain(p, "cache: %s: %s", path, strerror(errno));
    }
    free(entries);
    free(data);
}

/* Whoever is waiting for a result goes first. */
static void *write_aside(void *user)
{
    const struct sched_param none = { .sched_priority = 0 };

    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
    write_file(user);
    return NULL;
}

void packs_commit(struct packs *p)
{
    sigset_t all, before;
    uint64_t bytes = 0;

    if (p == NULL)
        return;
    p->room_left = 0;
    for (uint32_t i = 0; i < p->count; i++)
        bytes += is_new(p, &p->list[i]) ? p->list[i].bytes : 0;
    if (bytes == 0)
        return;
    if (bytes > SMALL_FILE) { /* signals are the application's */
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        p->has_writer = pthread_create(&p->writer, NULL, write_aside, p) == 0;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (!p->has_writer)
        write_file(p);
}

void packs_close(struct packs *p)
{
    if (p == NULL)
        return;
    if (p->has_writer)
        (void)pthread_join(p->writer, NULL);
    for (int i = 0; i < MAX_FILES; i++)
        pack_file_close(&p->files[i]);
    for (uint32_t i = 0; i < p->count; i++)
        if (p->list[i].fresh)
            free(p->list[i].data);
    free(p->slots);
    free(p->list);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

void packs_inherit(struct packs *p)
{
    if (p == NULL)
        return;
    p->has_writer = false;
    (void)pthread_mutex_init(&p->lock, NULL); /* the writer may have held it, and only reads */
}

packs_count packs_counted(const struct packs *p)
{
    return p != NULL ? p->counted : (packs_count){ 0 };
}
