/* Nothing is kept for later processes: base/cache_folder.h, plan/packs/packs.h, plan/program/blob_cache.h. */
#include "base/cache_folder.h"
#include "plan/packs/packs.h"
#include "plan/program/blob_cache.h"
#include <errno.h>

bool cache_folder_write(const char *path, const cache_folder_part *parts, uint32_t part_count)
{
    (void)path, (void)parts, (void)part_count;
    errno = ENOSYS;
    return false;
}

void cache_folder_trim(const char *path, const char *suffix, uint64_t max_bytes, uint32_t max_files)
{
    (void)path, (void)suffix, (void)max_bytes, (void)max_files;
}

void cache_folder_touch(int fd)
{
    (void)fd;
}

struct packs *packs_open(const packs_place *place, uint64_t model_hash, const partition_provider *providers,
                         uint32_t provider_count)
{
    (void)place, (void)model_hash, (void)providers, (void)provider_count;
    return NULL;
}

inlay_status packs_take(struct packs *packs, const partition_provider *provider, const void *key, uint64_t key_bytes,
                        uint64_t bytes, void **out_data, uint32_t *out_known)
{
    (void)packs, (void)provider, (void)key, (void)key_bytes, (void)bytes;
    *out_data = NULL;
    *out_known = 0;
    return INLAY_UNSUPPORTED;
}

bool packs_is_mapped(struct packs *packs, const void *data)
{
    (void)packs, (void)data;
    return false;
}

void packs_keep(struct packs *packs, const void *data)
{
    (void)packs, (void)data;
}

void packs_commit(struct packs *packs)
{
    (void)packs;
}

void packs_close(struct packs *packs)
{
    (void)packs;
}

void packs_inherit(struct packs *packs)
{
    (void)packs;
}

packs_count packs_counted(const struct packs *packs)
{
    (void)packs;
    return (packs_count){ 0 };
}

bool blob_key(const program_env *env, const partition_provider *provider, const inlay_compile_request *request,
              region_key *out_key)
{
    (void)env, (void)provider, (void)request, (void)out_key;
    return false;
}

void blob_slot_open(blob_slot *slot, const program_env *env, const partition_provider *provider, const region_key *key)
{
    (void)key;
    *slot = (blob_slot){ .env = env, .provider = provider, .fd = -1 };
}

const void *blob_data(const blob_slot *slot)
{
    (void)slot;
    return NULL;
}

uint64_t blob_bytes(const blob_slot *slot)
{
    (void)slot;
    return 0;
}

inlay_status blob_store_begin(blob_slot *slot, uint64_t bytes)
{
    (void)slot, (void)bytes;
    return INLAY_UNSUPPORTED;
}

inlay_status blob_store_write(blob_slot *slot, const void *data, uint64_t bytes)
{
    (void)slot, (void)data, (void)bytes;
    return INLAY_UNSUPPORTED;
}

inlay_status blob_store_end(blob_slot *slot)
{
    (void)slot;
    return INLAY_UNSUPPORTED;
}

void blob_unmap(blob_map *file)
{
    (void)file;
}

blob_map blob_slot_close(blob_slot *slot)
{
    (void)slot;
    return (blob_map){ 0 };
}
