/* plan/program/blob_cache.h - what providers compiled, kept in files between runs of a program.
 *
 * A provider that can start from a blob states a fingerprint of device, driver and build; a blob is found again for the
 * same graph contents, region, placements and fingerprint, checked for damage, and shown to the provider, whose verdict
 * decides. Trouble with the cache never fails a session: it is logged, and the region is compiled. */
#ifndef PLAN_BLOB_CACHE_H
#define PLAN_BLOB_CACHE_H
#include "plan/program.h"

/* The cache during one compile call. */
typedef struct blob_slot {
    const program_env *env;
    const partition_provider *provider;
    uint64_t key[2];
    char fingerprint[64];
    uint32_t fingerprint_bytes;
    void *blob; /* owned */
} blob_slot;

/* Fills in cache_blob, cache_bytes, ctx and store_cache of a request that is complete otherwise; does nothing without
 * env->cache_dir, or for a provider that has no fingerprint. */
void blob_slot_open(blob_slot *slot, const program_env *env, const partition_provider *provider,
                    inlay_compile_request *request);
void blob_slot_close(blob_slot *slot);
#endif
