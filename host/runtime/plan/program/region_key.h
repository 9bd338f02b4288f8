/* plan/program/region_key.h - the key of a region in the engine cache.
 *
 * Two regions have the same key if a provider must compile them to the same engine, in whichever models they are; see
 * inlay_provider.fingerprint, which states what the key consists of. */
#ifndef PLAN_REGION_KEY_H
#define PLAN_REGION_KEY_H
#include "plan/program.h"
#include "inlay/plugin.h"

/* The key of the request's region. False: out of memory. Any thread. */
bool region_key_of(const partition_provider *provider, const inlay_fingerprint *fingerprint,
                   const inlay_compile_request *request, region_key *out_key);
/* The key of a region for concrete shapes, from the key of the region. Any thread. */
region_key region_key_with_shapes(const region_key *key, const inlay_graph *graph, const partition_region *region,
                                  const inlay_specialize_request *request);
#endif
