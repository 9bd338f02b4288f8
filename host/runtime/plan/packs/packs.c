#include "plan/packs/packs.h"
#include "base/hash.h"
#include "base/isa.h"
#include "base/cache_folder.h"
#include "base/pages.h"
#include "inlay/check.h"
#include "partition/cost/cost_profile.h"
#include "plan/packs/pack_file.h"
#include "threads/fork.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* MAX_FILES: a model has several files, because sessions with other threads, options or shapes may need other packs of
 * the same weights. Each session writes the packs that are missing in these files to a new file. */
enum { MAX_FILES = 8, MAX_FOLDER_FILES = 4096, ALIGN = 64, SMALL_FILE = 1 << 20, MIN_STREAMED = 1 << 16 };
#define WRITER_DELAY_NS 300000000 /* the first run of a large network ends in this time */
static const char suffix[] = ".packs";

struct pack {
    pack_key key;
    void *data;
    uint64_t bytes;
    uint32_t file; /* index into files, and index of the entry in that file */
    uint32_t entry;
    bool fresh;      /* created in this session: data is owned */
    bool ready;      /* filled, or validated */
    bool mapped;     /* fresh, in the file of the writer */
    uint64_t offset; /* there */
};

struct packs {
    struct packs *next;   /* in `live` */
    uint32_t references;  /* count of its session and the sessions that borrow from it; under live_lock */
    uint32_t forks;       /* fork_count of the process that may borrow from it */
    struct packs *lender; /* the first session's packs of this model in the process; a reference; NULL: these are */
    bool borrows;         /* packs of the lender are used */
    pthread_mutex_t lock;
    packs_place place;
    uint64_t model_hash; /* of the model's content, the machine and the providers; part of file names */
    pack_file files[MAX_FILES];
    bool damaged[MAX_FILES]; /* some pack of the file is invalid */
    int free_number;         /* number of the file to be written; -1: MAX_FILES exist */
    uint64_t room_left;      /* bytes of new packs that may still be stored */
    pack_writer *streamed;   /* the file of new packs if they are streamed; NULL: none was begun */
    bool has_writer;
    pthread_t writer;       /* writes the new packs while the session is already in use */
    pthread_cond_t closing; /* is_closing is set */
    bool is_closing;        /* the writer must not wait */
    uint64_t machine;       /* hash of the CPU's name and instruction sets */
    struct pack *list;
    uint32_t count, capacity;
    uint32_t *slots; /* [slot_count] index + 1 into list, by key; a power of two, at most half full */
    uint32_t slot_count;
    packs_count counted;
};

/* For each model, the packs of the first session of this process. Later sessions of the model borrow from them, so that
 * the process has one copy of each pack. Otherwise the process would have the packs that the first session made in its
 * memory, and in addition the file with these packs, mapped by each later session. The packs stay allocated until all
 * these sessions are closed.
 * */
static struct packs *live;
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_lock(void)
{
    fork_guard(&live_lock);
}

INLAY_PRINTF(2, 3)
static void log_warning(const struct packs *packs, const char *format, ...)
{
    char text[PATH_MAX + 200];
    va_list args;

    if (packs->place.log == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    packs->place.log(packs->place.log_ctx, INLAY_LOG_WARNING, text);
}

static uint32_t *slot_of(const struct packs *packs, const pack_key *key)
{
    uint32_t at = (uint32_t)key->word[0] & (packs->slot_count - 1);

    INLAY_CHECK(packs->slot_count > 0 && (packs->slot_count & (packs->slot_count - 1)) == 0);
    while (packs->slots[at] != 0 && memcmp(&packs->list[packs->slots[at] - 1].key, key, sizeof *key) != 0)
        at = (at + 1) & (packs->slot_count - 1);
    return &packs->slots[at];
}

/* Ensures capacity for one more entry. */
static bool reserve(struct packs *packs)
{
    uint32_t capacity = packs->capacity == 0 ? 64 : packs->capacity * 2, *slots;
    struct pack *list;

    if (packs->count < packs->capacity)
        return true;
    list = realloc(packs->list, capacity * sizeof *list);
    if (list == NULL)
        return false;
    packs->list = list;
    slots = calloc(2 * (size_t)capacity, sizeof *slots);
    if (slots == NULL)
        return false;
    free(packs->slots);
    packs->slots = slots;
    packs->slot_count = 2 * capacity;
    packs->capacity = capacity;
    for (uint32_t i = 0; i < packs->count; i++)
        *slot_of(packs, &packs->list[i].key) = i + 1;
    return true;
}

static struct pack *add_pack(struct packs *packs, const struct pack *entry)
{
    if (!reserve(packs))
        return NULL;
    INLAY_CHECK(packs->count < packs->capacity);
    packs->list[packs->count] = *entry;
    *slot_of(packs, &entry->key) = packs->count + 1;
    return &packs->list[packs->count++];
}

static bool path_of(const struct packs *packs, int number, char *path, size_t bytes)
{
    int length = snprintf(path, bytes, "%s/%016llx-%d%s", packs->place.dir, (unsigned long long)packs->model_hash,
                          number, suffix);

    return length > 0 && (size_t)length < bytes;
}

/* The key of a file: the same for all files of one model with the same providers on one CPU. */
static pack_key file_key(const struct packs *packs)
{
    return (pack_key){ { packs->model_hash, packs->machine } };
}

static bool add_entries(struct packs *packs, uint32_t file)
{
    const pack_file *opened = &packs->files[file];

    for (uint32_t i = 0; i < opened->entry_count; i++) {
        const pack_entry *stored = &opened->entries[i];
        struct pack entry = {
            .key = stored->key, .data = opened->map + stored->offset, .bytes = stored->bytes, .file = file, .entry = i
        };

        if (packs->slot_count > 0 && *slot_of(packs, &stored->key) != 0)
            continue;
        if (add_pack(packs, &entry) == NULL)
            return false;
    }
    return true;
}

static void forget_file(const struct packs *packs, const char *path)
{
    log_warning(packs, "cache: %s is damaged, or from another version; it will be replaced", path);
    (void)unlink(path);
}

static bool open_files(struct packs *packs)
{
    char path[PATH_MAX];

    packs->free_number = -1;
    for (int i = 0; i < MAX_FILES; i++) {
        int error = path_of(packs, i, path, sizeof path) ? pack_file_open(path, file_key(packs), &packs->files[i])
                                                         : ENAMETOOLONG;

        if (error == EBADMSG)
            forget_file(packs, path);
        else if (error != 0 && error != ENOENT)
            log_warning(packs, "cache: %s: %s", path, strerror(error));
        if (error != 0 && packs->free_number < 0)
            packs->free_number = i;
        if (error == 0 && !add_entries(packs, (uint32_t)i))
            return false;
    }
    return true;
}

/* Bytes that may still be written: half of the free space, so that the disk never fills up. */
static uint64_t room_on_disk(const struct packs *packs)
{
    struct statvfs disk;
    uint64_t half;

    if ((packs->free_number < 0 && !packs->place.streamed) || access(packs->place.dir, W_OK | X_OK) != 0 ||
        statvfs(packs->place.dir, &disk) != 0)
        return 0;
    half = (uint64_t)disk.f_bavail * disk.f_frsize / 2;
    return half < packs->place.max_bytes || packs->place.streamed ? half : packs->place.max_bytes;
}

static uint64_t hash_machine(void)
{
    char cpu[160];
    uint32_t extra, level = isa_of_cpu(&extra);

    profile_cpu(cpu, sizeof cpu);
    return hash_bytes(cpu, strlen(cpu), (uint64_t)level << 32 | extra);
}

/* Hash of the session's providers with builds and settings. Each set of providers has its own files. */
static uint64_t hash_providers(const partition_provider *providers, uint32_t count)
{
    uint64_t hash = count;

    for (uint32_t i = 0; i < count; i++) {
        const char *build = providers[i].build_id != NULL ? providers[i].build_id : "";

        hash = hash_bytes(providers[i].name, strlen(providers[i].name), hash);
        hash = hash_u64(hash_bytes(build, strlen(build), hash), providers[i].settings_hash);
    }
    return hash;
}

/* Finds the packs that this session borrows from; if there are none, later sessions borrow from the packs of this
 * one. */
static void find_lender(struct packs *packs)
{
    struct packs *first;

    (void)pthread_mutex_lock(&live_lock);
    first = live;
    while (first != NULL && (first->model_hash != packs->model_hash || first->forks != fork_count))
        first = first->next;
    packs->lender = first;
    packs->borrows = first != NULL;
    if (first != NULL) {
        first->references++;
    } else {
        packs->next = live;
        live = packs;
    }
    (void)pthread_mutex_unlock(&live_lock);
}

struct packs *packs_open(const packs_place *place, uint64_t model_hash, const partition_provider *providers,
                         uint32_t provider_count)
{
    struct packs *packs;

    if (place->dir == NULL || place->dir[0] == '\0' || place->max_bytes == 0)
        return NULL;
    packs = calloc(1, sizeof *packs);
    if (packs == NULL)
        return NULL;
    (void)pthread_mutex_init(&packs->lock, NULL);
    (void)pthread_cond_init(&packs->closing, NULL);
    packs->references = 1;
    packs->forks = fork_count;
    packs->place = *place;
    packs->machine = hash_machine();
    packs->model_hash = hash_u64(hash_u64(model_hash, packs->machine), hash_providers(providers, provider_count));
    if (!reserve(packs) || !open_files(packs)) {
        packs_close(packs);
        return NULL;
    }
    packs->room_left = room_on_disk(packs);
    if (!packs->place.streamed)
        find_lender(packs);
    return packs;
}

static pack_key key_of(const struct packs *packs, const partition_provider *provider, const void *key,
                       uint64_t key_bytes, uint64_t bytes)
{
    pack_key made;

    for (int i = 0; i < 2; i++) {
        uint64_t hash = hash_u64((uint64_t)i + 1, packs->machine);

        if (provider != NULL) {
            hash = hash_bytes(provider->name, strlen(provider->name), hash);
            hash = hash_bytes(provider->build_id, strlen(provider->build_id), hash);
            hash = hash_u64(hash, provider->settings_hash);
        }
        made.word[i] = hash_u64(hash_bytes(key, (size_t)key_bytes, hash), bytes);
    }
    return made;
}

/* Validates a pack that was read from a file. If it is invalid, the file is removed, and all packs used from it are
 * written again. */
static bool validate(struct packs *packs, struct pack *entry)
{
    char path[PATH_MAX];

    INLAY_CHECK(entry->file < MAX_FILES && entry->entry < packs->files[entry->file].entry_count);
    if (!entry->ready) {
        entry->ready = pack_file_check(&packs->files[entry->file], entry->entry, packs->place.streamed);
        if (packs->place.streamed)
            pages_drop(entry->data, entry->bytes);
    }
    if (!entry->ready && !packs->damaged[entry->file]) {
        packs->damaged[entry->file] = true;
        if (path_of(packs, (int)entry->file, path, sizeof path))
            forget_file(packs, path);
    }
    return entry->ready;
}

/* A filled pack of the lender; NULL: it has none. */
static void *borrow(struct packs *lender, const pack_key *key, uint64_t bytes)
{
    void *data = NULL;
    uint32_t at;

    (void)pthread_mutex_lock(&lender->lock);
    at = *slot_of(lender, key);
    if (at != 0 && lender->list[at - 1].ready && lender->list[at - 1].bytes == bytes)
        data = lender->list[at - 1].data;
    (void)pthread_mutex_unlock(&lender->lock);
    return data;
}

/* Places a new pack in the file of streamed packs, which is begun with the first one. False: it has to be in the
 * heap. */
static bool map_new(struct packs *packs, struct pack *entry)
{
    /* If all files exist, the name is not used: the file will be deleted. */
    const int number = packs->free_number < 0 ? MAX_FILES : packs->free_number;
    char path[PATH_MAX];

    if (packs->streamed == NULL) {
        packs->streamed = malloc(sizeof *packs->streamed);
        if (packs->streamed == NULL)
            return false;
        if (!path_of(packs, number, path, sizeof path) || !pack_writer_begin(packs->streamed, path)) {
            log_warning(packs, "cache: %s: a file for weights cannot be created: %s", packs->place.dir,
                        strerror(errno));
            packs->streamed->fd = -1;
        }
    }
    if (packs->streamed->fd < 0)
        return false;
    entry->data = pack_writer_map(packs->streamed, entry->bytes, &entry->offset);
    return entry->data != NULL;
}

static void free_new(const struct pack *entry)
{
    if (entry->mapped)
        pack_writer_unmap(entry->data, entry->bytes);
    else
        free(entry->data);
}

static inlay_status find_or_add(struct packs *packs, const pack_key *key, uint64_t bytes, void **out_data,
                                uint32_t *out_known)
{
    uint32_t at = *slot_of(packs, key);
    struct pack entry = { .key = *key, .bytes = bytes, .fresh = true },
                *existing = at != 0 ? &packs->list[at - 1] : NULL;

    *out_data = packs->borrows ? borrow(packs->lender, key, bytes) : NULL;
    if (*out_data != NULL) {
        *out_known = 1;
        packs->counted.found++;
        packs->counted.mapped_bytes += bytes;
        return INLAY_OK;
    }
    if (existing != NULL && (existing->bytes != bytes || (existing->fresh && !existing->ready)))
        return INLAY_UNSUPPORTED; /* another size, or another thread is filling the pack */
    if (existing != NULL && (existing->fresh || validate(packs, existing))) {
        *out_data = existing->data;
        *out_known = 1;
        packs->counted.found++;
        packs->counted.mapped_bytes += existing->fresh || packs->place.streamed ? 0 : bytes;
        return INLAY_OK;
    }
    if (bytes > packs->room_left)
        return INLAY_UNSUPPORTED;
    if (packs->place.streamed && bytes >= MIN_STREAMED)
        entry.mapped = map_new(packs, &entry);
    if (!reserve(packs) || (!entry.mapped && posix_memalign(&entry.data, bytes >= PAGES_LARGE ? PAGES_LARGE : ALIGN,
                                                            (size_t)bytes) != 0)) {
        free_new(&entry);
        return INLAY_OUT_OF_MEMORY;
    }
    if (!entry.mapped) /* this session runs with these pages; other sessions map the file */
        pages_large(entry.data, bytes);
    packs->room_left -= bytes;
    *out_data = entry.data;
    if (at != 0)
        packs->list[at - 1] = entry;
    else
        (void)add_pack(packs, &entry);
    return INLAY_OK;
}

inlay_status packs_take(struct packs *packs, const partition_provider *provider, const void *key, uint64_t key_bytes,
                        uint64_t bytes, void **out_data, uint32_t *out_known)
{
    inlay_status status;
    pack_key full_key;

    *out_data = NULL;
    *out_known = 0;
    if (packs == NULL || bytes == 0 || bytes > (uint64_t)1 << 40)
        return INLAY_UNSUPPORTED;
    if (provider != NULL && provider->build_id == NULL)
        return INLAY_UNSUPPORTED; /* other builds could not be distinguished */
    full_key = key_of(packs, provider, key, key_bytes, bytes);
    (void)pthread_mutex_lock(&packs->lock);
    status = find_or_add(packs, &full_key, bytes, out_data, out_known);
    (void)pthread_mutex_unlock(&packs->lock);
    return status;
}

void packs_keep(struct packs *packs, const void *data)
{
    if (packs == NULL)
        return;
    (void)pthread_mutex_lock(&packs->lock);
    for (uint32_t i = packs->count; i-- > 0;) { /* usually the last */
        if (packs->list[i].data != data || !packs->list[i].fresh)
            continue;
        packs->counted.made += !packs->list[i].ready;
        if (packs->list[i].mapped && !packs->list[i].ready)
            (void)pack_writer_keep(packs->streamed, packs->list[i].key, packs->list[i].data, packs->list[i].bytes,
                                   packs->list[i].offset); /* without its entry the pack is only not stored */
        packs->list[i].ready = true;
        break;
    }
    (void)pthread_mutex_unlock(&packs->lock);
}

bool packs_is_mapped(struct packs *packs, const void *data)
{
    bool mapped = false;

    if (packs == NULL)
        return false;
    (void)pthread_mutex_lock(&packs->lock);
    for (uint32_t i = packs->count; i-- > 0 && !mapped;)
        mapped = packs->list[i].data == data && (packs->list[i].mapped || !packs->list[i].fresh);
    (void)pthread_mutex_unlock(&packs->lock);
    return mapped;
}

/* Returns whether the pack belongs in the file to be written. */
static bool is_new(const struct packs *packs, const struct pack *entry)
{
    return entry->ready && (entry->fresh || packs->damaged[entry->file]);
}

/* The number of the file to be written. A session that borrows packs must not overwrite the lender's file, which holds
 * other packs and may have been written since this session was opened. */
static int number_to_write(const struct packs *packs)
{
    char path[PATH_MAX];
    int number = packs->free_number;

    while (packs->borrows && number < MAX_FILES && path_of(packs, number, path, sizeof path) && access(path, F_OK) == 0)
        number++;
    return number;
}

static void write_file(struct packs *packs)
{
    const int number = number_to_write(packs);

    pack_entry *entries = malloc((packs->count + 1u) * sizeof *entries);
    const void **data = malloc((packs->count + 1u) * sizeof *data);
    char path[PATH_MAX];
    uint32_t count = 0;

    (void)pthread_mutex_lock(&packs->lock);
    for (uint32_t i = 0; entries != NULL && data != NULL && i < packs->count; i++) {
        if (!is_new(packs, &packs->list[i]))
            continue;
        data[count] = packs->list[i].data;
        entries[count++] = (pack_entry){ .key = packs->list[i].key, .bytes = packs->list[i].bytes };
    }
    (void)pthread_mutex_unlock(&packs->lock);
    if (count > 0 && number < MAX_FILES && path_of(packs, number, path, sizeof path)) {
        if (pack_file_write(path, file_key(packs), entries, data, count))
            cache_folder_trim(packs->place.dir, suffix, packs->place.max_bytes, MAX_FOLDER_FILES);
        else
            log_warning(packs, "cache: %s: %s", path, strerror(errno));
    }
    free(entries);
    free(data);
}

/* Waits until the session's first runs have probably ended, or until it is closed: the writer reads all packs, and so
 * takes memory bandwidth and a CPU from them. */
static void wait_for_first_runs(struct packs *packs)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += WRITER_DELAY_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&packs->lock);
    while (!packs->is_closing && pthread_cond_timedwait(&packs->closing, &packs->lock, &until) == 0)
        ;
    (void)pthread_mutex_unlock(&packs->lock);
}

/* The writer thread. It takes no CPU from threads that wake up to compute results. Not SCHED_IDLE: packs_close() waits
 * for this thread, and on a busy machine an idle thread needs minutes for a second of work. */
static void *write_in_background(void *user)
{
    const struct sched_param none = { .sched_priority = 0 };

    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
    wait_for_first_runs(user);
    write_file(user);
    return NULL;
}

/* Adds the new packs that are not in the file of streamed packs yet, and ends the file. */
static void end_streamed(struct packs *packs)
{
    pack_writer *writer = packs->streamed;
    const bool fits = writer->end <= packs->place.max_bytes && packs->free_number >= 0;
    bool good = writer->fd >= 0;

    for (uint32_t i = 0; good && fits && i < packs->count; i++)
        if (is_new(packs, &packs->list[i]) && !packs->list[i].mapped)
            good = pack_writer_add(writer, packs->list[i].key, packs->list[i].data, packs->list[i].bytes);
    if (good && !fits && packs->free_number >= 0)
        log_warning(packs,
                    "cache: %s: packed weights of %llu bytes exceed cache_max_bytes, so each session writes them again",
                    packs->place.dir, (unsigned long long)writer->end);
    if (pack_writer_end(writer, file_key(packs), good && fits))
        cache_folder_trim(packs->place.dir, suffix, packs->place.max_bytes, MAX_FOLDER_FILES);
    free(writer);
    packs->streamed = NULL;
}

void packs_commit(struct packs *packs)
{
    sigset_t all, before;
    uint64_t bytes = 0;

    if (packs == NULL)
        return;
    packs->room_left = 0;
    if (packs->streamed != NULL) {
        end_streamed(packs);
        return;
    }
    for (uint32_t i = 0; i < packs->count; i++)
        bytes += is_new(packs, &packs->list[i]) ? packs->list[i].bytes : 0;
    if (bytes == 0)
        return;
    if (bytes > SMALL_FILE) { /* signals are handled by the application's threads */
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        packs->has_writer = pthread_create(&packs->writer, NULL, write_in_background, packs) == 0;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (!packs->has_writer)
        write_file(packs);
}

static void release(struct packs *packs)
{
    for (int i = 0; i < MAX_FILES; i++)
        pack_file_close(&packs->files[i]);
    for (uint32_t i = 0; i < packs->count; i++)
        if (packs->list[i].fresh)
            free_new(&packs->list[i]);
    if (packs->streamed != NULL)
        (void)pack_writer_end(packs->streamed, file_key(packs), false);
    free(packs->streamed);
    free(packs->slots);
    free(packs->list);
    (void)pthread_cond_destroy(&packs->closing);
    (void)pthread_mutex_destroy(&packs->lock);
    free(packs);
}

/* Drops a reference; the last one frees the packs. NULL is a no-op. */
static void unref(struct packs *packs)
{
    struct packs **link = &live;
    bool last;

    if (packs == NULL)
        return;
    (void)pthread_mutex_lock(&live_lock);
    INLAY_CHECK(packs->references > 0);
    last = --packs->references == 0;
    while (last && *link != NULL && *link != packs)
        link = &(*link)->next;
    if (last && *link == packs)
        *link = packs->next;
    (void)pthread_mutex_unlock(&live_lock);
    if (last)
        release(packs);
}

void packs_close(struct packs *packs)
{
    struct packs *lender;

    if (packs == NULL)
        return;
    if (packs->has_writer) {
        (void)pthread_mutex_lock(&packs->lock);
        packs->is_closing = true;
        (void)pthread_cond_signal(&packs->closing);
        (void)pthread_mutex_unlock(&packs->lock);
        (void)pthread_join(packs->writer, NULL);
    }
    packs->has_writer = false;
    packs->place.log = NULL; /* the session's */
    lender = packs->lender;
    unref(packs);
    unref(lender);
}

void packs_inherit(struct packs *packs)
{
    if (packs == NULL)
        return;
    packs->has_writer = false;
    packs->borrows = false; /* another thread may have held the lender's lock */
    packs->forks = fork_count;
    (void)pthread_mutex_init(&packs->lock, NULL); /* the writer, which only reads, may have held it */
    (void)pthread_cond_init(&packs->closing, NULL);
}

packs_count packs_counted(const struct packs *packs)
{
    pthread_mutex_t *lock = packs != NULL ? (pthread_mutex_t *)(uintptr_t)&packs->lock : NULL;
    packs_count counted = { 0 };

    if (packs == NULL)
        return counted;
    (void)pthread_mutex_lock(lock);
    counted = packs->counted;
    (void)pthread_mutex_unlock(lock);
    return counted;
}
