#include "plan/program/blob_cache.h"
#include "base/hash.h"
#include "base/cache_folder.h"
#include "base/owner.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The header of a cache file; the blob follows. Native byte order: files are valid only on the machine that wrote
 * them. */
typedef struct blob_head {
    char magic[8];
    uint32_t format; /* 1 */
    uint32_t fingerprint_bytes;
    char fingerprint[64];
    uint64_t key[2];
    uint64_t blob_bytes;
    uint64_t checksum; /* of the blob */
} blob_head;

enum { MAX_FOLDER_FILES = 4096 };
static const uint64_t max_folder_bytes = (uint64_t)1 << 30;
static const char magic[8] = { 'i', 'n', 'l', 'a', 'y', 'b', 'l', 'b' };

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

/* Hashes everything that determines the result of compile: contents, region, borders, and the thread count. */
static uint64_t hash_request(const inlay_compile_request *request, const blob_slot *slot, uint64_t seed)
{
    uint64_t hash = hash_u64(seed, request->graph->content_hash);

    hash = hash_bytes(slot->provider->name, strlen(slot->provider->name), hash);
    hash = hash_bytes(slot->fingerprint, slot->fingerprint_bytes, hash);
    hash = hash_bytes(request->nodes, request->node_count * sizeof *request->nodes, hash);
    hash = hash_bytes(request->cookies, request->offer_count * sizeof *request->cookies, hash);
    hash = hash_bytes(request->inputs, request->input_count * sizeof *request->inputs, hash);
    hash = hash_bytes(request->outputs, request->output_count * sizeof *request->outputs, hash);
    for (uint32_t i = 0; i < request->input_count + request->output_count; i++) {
        const inlay_placement *placement = INLAY_AT(inlay_placement, request->placements, request->placement_stride, i);

        /* Domain ids change between runs of the program; the index of the provider's domain does not. */
        hash =
            hash_u64(hash, placement->domain == INLAY_DOMAIN_HOST ? UINT64_MAX
                                                                  : placement->domain - slot->provider->first_domain);
        hash = hash_bytes(&placement->layout, sizeof placement->layout, hash);
        hash = hash_u64(hash, (uint64_t)placement->dtype);
    }
    return hash_u64(hash, request->max_threads);
}

static bool path_of(const blob_slot *slot, char *path, size_t bytes)
{
    int length = snprintf(path, bytes, "%s/%s-%016llx%016llx.blob", slot->env->cache_dir, slot->provider->name,
                          (unsigned long long)slot->key[0], (unsigned long long)slot->key[1]);

    return length > 0 && (size_t)length < bytes;
}

static bool head_fits(const blob_slot *slot, const blob_head *head, uint64_t file_bytes)
{
    return memcmp(head->magic, magic, sizeof magic) == 0 && head->format == 1 &&
           head->fingerprint_bytes == slot->fingerprint_bytes &&
           memcmp(head->fingerprint, slot->fingerprint, slot->fingerprint_bytes) == 0 && head->key[0] == slot->key[0] &&
           head->key[1] == slot->key[1] && head->blob_bytes == file_bytes - sizeof *head;
}

static bool read_all(int fd, void *data, uint64_t bytes)
{
    for (char *at = data; bytes > 0;) {
        ssize_t count = read(fd, at, bytes);

        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        at += count;
        bytes -= (uint64_t)count;
    }
    return true;
}

/* Reads the blob of an open file into slot->blob. False: the file is invalid. */
static bool read_blob(blob_slot *slot, int fd, uint64_t *out_bytes)
{
    blob_head head;
    struct stat state;

    if (fstat(fd, &state) != 0 || !S_ISREG(state.st_mode) || state.st_size < (off_t)sizeof head ||
        !read_all(fd, &head, sizeof head) || !head_fits(slot, &head, (uint64_t)state.st_size))
        return false;
    slot->blob = malloc(head.blob_bytes > 0 ? head.blob_bytes : 1);
    if (slot->blob == NULL || !read_all(fd, slot->blob, head.blob_bytes) ||
        hash_bytes(slot->blob, head.blob_bytes, 0) != head.checksum) {
        free(slot->blob);
        slot->blob = NULL;
        return false;
    }
    *out_bytes = head.blob_bytes;
    cache_folder_touch(fd);
    return true;
}

static void load_blob(blob_slot *slot, inlay_compile_request *request)
{
    inlay_diag why = INLAY_DIAG_INIT;
    char path[PATH_MAX];
    uint64_t bytes = 0;
    uint32_t verdict;
    int fd;

    if (!path_of(slot, path, sizeof path) || (fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) < 0)
        return; /* the usual case: not compiled before */
    if (!read_blob(slot, fd, &bytes)) {
        log_warning(slot, "cache: %s is damaged, or from another version; it will be replaced", path);
    } else {
        verdict = slot->provider->table->cache_verdict(slot->provider->state, slot->blob, bytes, &why);
        if (verdict == INLAY_CACHE_OPTIMAL) {
            request->cache_blob = slot->blob;
            request->cache_bytes = bytes;
        } else {
            log_warning(slot, "cache: provider %s rejects %s: %.200s", slot->provider->name, path,
                        why.text[0] != '\0' ? why.text : "no reason given; it will be compiled again");
        }
    }
    (void)close(fd);
}

static inlay_status store_blob(void *ctx, const void *blob, uint64_t bytes)
{
    blob_slot *slot = ctx;
    blob_head head = { .format = 1,
                       .fingerprint_bytes = slot->fingerprint_bytes,
                       .blob_bytes = bytes,
                       .checksum = hash_bytes(blob, bytes, 0) };
    char path[PATH_MAX];

    if (!path_of(slot, path, sizeof path))
        return INLAY_IO_ERROR;
    memcpy(head.magic, magic, sizeof magic);
    memcpy(head.fingerprint, slot->fingerprint, sizeof head.fingerprint);
    memcpy(head.key, slot->key, sizeof head.key);
    if (!cache_folder_write(path, (const cache_folder_part[]){ { &head, sizeof head }, { blob, bytes } }, 2)) {
        log_warning(slot, "cache: %s: %s", path, strerror(errno));
        return INLAY_IO_ERROR;
    }
    cache_folder_trim(slot->env->cache_dir, ".blob", max_folder_bytes, MAX_FOLDER_FILES);
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

void blob_slot_open(blob_slot *slot, const program_env *env, const partition_provider *provider,
                    inlay_compile_request *request)
{
    *slot = (blob_slot){ .env = env, .provider = provider };
    if (env->cache_dir == NULL || env->cache_dir[0] == '\0' || provider->table->fingerprint == NULL ||
        !dir_is_good(slot))
        return;
    if (provider->table->fingerprint(provider->state, slot->fingerprint, &slot->fingerprint_bytes) != INLAY_OK ||
        slot->fingerprint_bytes > sizeof slot->fingerprint) {
        log_warning(slot, "cache: provider %s returned no fingerprint", provider->name);
        return;
    }
    slot->key[0] = hash_request(request, slot, 1);
    slot->key[1] = hash_request(request, slot, 2);
    request->ctx = slot;
    request->store_cache = store_blob;
    load_blob(slot, request);
}

void blob_slot_close(blob_slot *slot)
{
    free(slot->blob);
    slot->blob = NULL;
}
