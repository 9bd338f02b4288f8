/* plan/program/blob_cache.h - compiled regions of providers, stored in files between runs of a program.
 *
 * A provider that can start from a blob has a fingerprint of device, driver and build. A blob is looked up by the key
 * of the region (region_key.h), checked for damage, and passed to the provider, whose verdict decides. Errors of the
 * cache never fail a session: they are logged, and the region is compiled.
 *
 * A file is a header of BLOB_ALIGNMENT bytes and the blob. It is mapped, so that the blob is aligned and needs no
 * memory of its own, and written in pieces. */
#ifndef PLAN_BLOB_CACHE_H
#define PLAN_BLOB_CACHE_H
#include "plan/program/region_key.h"
#include "inlay/plugin.h"
#include <limits.h>

enum { BLOB_ALIGNMENT = 4096 };

/* The cache during one call of compile or specialize. */
typedef struct blob_slot {
    const program_env *env;
    const partition_provider *provider;
    region_key key;
    bool active;   /* the other members are valid, and blobs can be stored */
    blob_map file; /* with an accepted blob; {0} = none */
    int fd;        /* of the blob that is being stored; -1 = none */
    uint64_t written_bytes;
    char temporary[PATH_MAX];
} blob_slot;

/* Sets the key of the request's region. False: the provider has no engine cache, or the session none, or out of
 * memory. */
bool blob_key(const program_env *env, const partition_provider *provider, const inlay_compile_request *request,
              region_key *out_key);
/* Looks up the blob of the key; slot->file has it. key NULL: the slot is not active. */
void blob_slot_open(blob_slot *slot, const program_env *env, const partition_provider *provider, const region_key *key);
const void *blob_data(const blob_slot *slot); /* NULL: none */
uint64_t blob_bytes(const blob_slot *slot);
/* inlay_compile_request.store_begin, _write and _end. */
inlay_status blob_store_begin(blob_slot *slot, uint64_t bytes);
inlay_status blob_store_write(blob_slot *slot, const void *data, uint64_t bytes);
inlay_status blob_store_end(blob_slot *slot);
/* Drops a blob without end. Returns slot->file, which the caller unmaps once the provider has released what it built
 * from it. */
blob_map blob_slot_close(blob_slot *slot);
#endif
