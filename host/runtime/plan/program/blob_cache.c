#include "plan/program/blob_cache.h"
#include "base/cache_folder.h"
#include "base/hash.h"
#include "base/output.h"
#include "base/owner.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The header of a cache file. Native byte order: files are valid only on the machine that wrote them. */
typedef struct blob_head {
    char magic[8];
    uint64_t format; /* FORMAT */
    region_key key;  /* includes provider and fingerprint */
    uint64_t blob_bytes;
    uint64_t checksum; /* hash_blocks() of the blob */
    char padding[BLOB_ALIGNMENT - 48];
} blob_head;

_Static_assert(sizeof(blob_head) == BLOB_ALIGNMENT, "the blob is aligned");

enum { FORMAT = 2, MAX_FOLDER_FILES = 4096 };
static const char magic[8] = { 'i', 'n', 'l', 'a', 'y', 'b', 'l', 'b' };
static const char suffix[] = ".blob";

INLAY_PRINTF(2, 3)
static void log_warning(const blob_slot *slot, const char *format, ...)
{
    char text[512];
    va_list args;

    if (slot->env->log == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    slot->env->log(slot->env->log_ctx, INLAY_LOG_WARNING, text);
}

static bool path_of(const blob_slot *slot, char *path, size_t bytes)
{
    int length = snprintf(path, bytes, "%s/%s-%016llx%016llx%s", slot->env->cache_dir, slot->provider->table->name,
                          (unsigned long long)slot->key.word[0], (unsigned long long)slot->key.word[1], suffix);

    return length > 0 && (size_t)length < bytes;
}

bool blob_key(const program_env *env, const partition_provider *provider, const inlay_compile_request *request,
              region_key *out_key)
{
    inlay_fingerprint fingerprint = { .struct_size = sizeof fingerprint };
    const blob_slot slot = { .env = env, .provider = provider };
    inlay_diag why = INLAY_DIAG_INIT;

    if (env->cache_dir == NULL || env->cache_dir[0] == '\0' || provider->table->fingerprint == NULL)
        return false;
    if (provider->table->fingerprint(provider->state, &fingerprint, &why) != INLAY_OK) {
        log_warning(&slot, "cache: no engine of provider %s is cached: %.300s", provider->name, why.text);
        return false;
    }
    return region_key_of(provider, &fingerprint, request, out_key);
}

static const blob_head *head_of(const blob_map *file)
{
    return file->address;
}

static bool is_intact(const blob_slot *slot, const blob_map *file)
{
    const blob_head *head = head_of(file);

    return memcmp(head->magic, magic, sizeof magic) == 0 && head->format == FORMAT &&
           memcmp(&head->key, &slot->key, sizeof head->key) == 0 && head->blob_bytes == file->bytes - sizeof *head &&
           head->checksum == hash_blocks(head + 1, (size_t)head->blob_bytes, 0);
}

/* Maps an open file. {0}: it is too small, or not a file. */
static blob_map map_file(int fd)
{
    blob_map file = { 0 };
    struct stat state;

    if (fstat(fd, &state) != 0 || !S_ISREG(state.st_mode) || state.st_size < (off_t)sizeof(blob_head))
        return file;
    file.address = mmap(NULL, (size_t)state.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file.address == MAP_FAILED)
        return (blob_map){ 0 };
    file.bytes = (uint64_t)state.st_size;
    return file;
}

void blob_unmap(blob_map *file)
{
    if (file->address != NULL)
        (void)munmap(file->address, (size_t)file->bytes);
    *file = (blob_map){ 0 };
}

/* Asks the provider whether it can start from the blob. */
static bool is_welcome(const blob_slot *slot, const char *path)
{
    inlay_cache_request request = { .struct_size = sizeof request, .blob = blob_data(slot), .bytes = blob_bytes(slot) };
    inlay_diag why = INLAY_DIAG_INIT;

    if (slot->provider->table->cache_verdict(slot->provider->state, &request, &why) == INLAY_OK &&
        request.verdict == INLAY_CACHE_OPTIMAL)
        return true;
    log_warning(slot, "cache: provider %s rejects %s: %.200s", slot->provider->name, path,
                why.text[0] != '\0' ? why.text : "no reason given; it will be compiled again");
    return false;
}

static void load_blob(blob_slot *slot)
{
    char path[PATH_MAX];
    int fd;

    if (!path_of(slot, path, sizeof path) || (fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) < 0)
        return; /* the usual case: not compiled before */
    slot->file = map_file(fd);
    if (slot->file.address == NULL || !is_intact(slot, &slot->file)) {
        log_warning(slot, "cache: %s is damaged, or from another version; it will be replaced", path);
        blob_unmap(&slot->file);
    } else if (is_welcome(slot, path)) {
        cache_folder_touch(fd);
    } else {
        blob_unmap(&slot->file);
    }
    (void)close(fd);
}

const void *blob_data(const blob_slot *slot)
{
    return slot->file.address != NULL ? head_of(&slot->file) + 1 : NULL;
}

uint64_t blob_bytes(const blob_slot *slot)
{
    return slot->file.address != NULL ? slot->file.bytes - sizeof(blob_head) : 0;
}

static void drop_unfinished(blob_slot *slot)
{
    if (slot->fd >= 0)
        (void)cache_folder_end("", slot->temporary, slot->fd, false);
    slot->fd = -1;
}

/* errno is the reason. */
static inlay_status store_failed(blob_slot *slot)
{
    log_warning(slot, "cache: an engine of provider %s is not stored in %s: %s", slot->provider->name,
                slot->env->cache_dir, strerror(errno));
    drop_unfinished(slot);
    return INLAY_IO_ERROR;
}

/* Checks that the folder may hold a blob of this size. */
static inlay_status check_size(blob_slot *slot, uint64_t bytes)
{
    const uint64_t max_bytes = slot->env->packs.max_bytes;

    if (bytes <= max_bytes && max_bytes - bytes >= sizeof(blob_head))
        return INLAY_OK;
    log_warning(slot,
                "cache: an engine of provider %s is not stored: it has %llu bytes, and option cache_max_bytes "
                "allows %llu",
                slot->provider->name, (unsigned long long)bytes, (unsigned long long)max_bytes);
    drop_unfinished(slot);
    return INLAY_LIMIT_EXCEEDED;
}

inlay_status blob_store_begin(blob_slot *slot, uint64_t bytes)
{
    inlay_status status;
    char path[PATH_MAX];

    drop_unfinished(slot);
    if (!path_of(slot, path, sizeof path))
        return INLAY_IO_ERROR;
    status = check_size(slot, bytes);
    if (status != INLAY_OK)
        return status;
    slot->written_bytes = 0;
    slot->fd = cache_folder_begin(path, slot->temporary, sizeof slot->temporary);
    /* The header is written last. */
    return slot->fd < 0 || lseek(slot->fd, sizeof(blob_head), SEEK_SET) < 0 ? store_failed(slot) : INLAY_OK;
}

inlay_status blob_store_write(blob_slot *slot, const void *data, uint64_t bytes)
{
    inlay_status status;

    if (slot->fd < 0)
        return INLAY_IO_ERROR;
    if (__builtin_add_overflow(slot->written_bytes, bytes, &slot->written_bytes))
        slot->written_bytes = UINT64_MAX;
    status = check_size(slot, slot->written_bytes);
    if (status != INLAY_OK)
        return status;
    return output_write(slot->fd, data, bytes) ? INLAY_OK : store_failed(slot);
}

/* Completes the header: the blob is hashed in the page cache, because pieces may have any size. */
static bool write_head(const blob_slot *slot)
{
    blob_head head = { .format = FORMAT, .key = slot->key, .blob_bytes = slot->written_bytes };
    blob_map file;

    memcpy(head.magic, magic, sizeof magic);
    if (slot->written_bytes == 0 && ftruncate(slot->fd, sizeof head) != 0)
        return false;
    file = map_file(slot->fd);
    if (file.address == NULL || file.bytes != sizeof head + slot->written_bytes) {
        blob_unmap(&file);
        errno = EIO;
        return false;
    }
    head.checksum = hash_blocks(head_of(&file) + 1, (size_t)head.blob_bytes, 0);
    blob_unmap(&file);
    return lseek(slot->fd, 0, SEEK_SET) == 0 && output_write(slot->fd, &head, sizeof head);
}

inlay_status blob_store_end(blob_slot *slot)
{
    char path[PATH_MAX];
    int fd = slot->fd;
    bool good;

    if (fd < 0 || !path_of(slot, path, sizeof path))
        return INLAY_IO_ERROR;
    good = write_head(slot);
    slot->fd = -1;
    if (!cache_folder_end(path, slot->temporary, fd, good))
        return store_failed(slot);
    cache_folder_trim(slot->env->cache_dir, suffix, slot->env->packs.max_bytes, MAX_FOLDER_FILES);
    return INLAY_OK;
}

/* Creates the folder if it is missing (not its parents). Other users must not be able to place blobs there. */
static bool dir_is_good(const blob_slot *slot)
{
    const char *dir = slot->env->cache_dir;
    struct stat state;

    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        log_warning(slot, "cache_dir '%s': %s", dir, strerror(errno));
        return false;
    }
    if (stat(dir, &state) != 0 || !S_ISDIR(state.st_mode) || owner_others_write(&state)) {
        log_warning(slot, "cache_dir '%s' is not used: it must be a folder that only this user can write to", dir);
        return false;
    }
    return true;
}

void blob_slot_open(blob_slot *slot, const program_env *env, const partition_provider *provider, const region_key *key)
{
    slot->env = env;
    slot->provider = provider;
    slot->file = (blob_map){ 0 };
    slot->fd = -1;
    slot->active = key != NULL && dir_is_good(slot);
    if (!slot->active)
        return;
    INLAY_CHECK(env->cache_dir != NULL);
    slot->key = *key;
    load_blob(slot);
}

blob_map blob_slot_close(blob_slot *slot)
{
    const blob_map file = slot->file;

    drop_unfinished(slot);
    slot->file = (blob_map){ 0 };
    return file;
}
