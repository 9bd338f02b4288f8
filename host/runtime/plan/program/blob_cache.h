/* plan/program/blob_cache.h - compiled regions of providers, stored in files between runs of a program.
 *
 * A provider that can start from a blob has a fingerprint of device, driver and build. A blob is looked up by graph
 * contents, region, placements and fingerprint, checked for damage, and passed to the provider, whose verdict decides.
 * Errors of the cache never fail a session: they are logged, and the region is compiled. */
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

/* Sets cache_blob, cache_bytes, ctx and store_cache of an otherwise complete request. Does nothing without
 * env->cache_dir, or for a provider without a fingerprint. */
void blob_slot_open(blob_slot *slot, const program_env *env, const partition_provider *provider,
                    inlay_compile_request *request);
void blob_slot_close(blob_slot *slot);
#endif
