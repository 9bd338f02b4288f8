/* partition/cost/cost_key.h - what a measurement is filed under.
 *
 * Equal layers share one measurement, within a model and between models: a key is made of who runs it (provider, build
 * of its plugin, device, settings), how many threads a run has, and the offer's structure: operators with version and
 * attributes, how the nodes hang together, element types, sizes, and which inputs are constants. Weights do not count,
 * but small constants do, since an exponent or a shape decides what a kernel does. Names never count. */
#ifndef PARTITION_COST_KEY_H
#define PARTITION_COST_KEY_H
#include "partition/cost/cost.h"

/* Two independent hashes of 64 bits. */
typedef struct cost_key {
    uint64_t word[2];
} cost_key;

/* Who measures: a provider as it is open in this process. device is provider.fingerprint, or else names the machine. */
uint64_t cost_identity(const char *name, const char *build_id, const void *device, size_t device_bytes,
                       uint64_t settings_hash);
/* The same of an open provider. */
uint64_t cost_identity_of(const part_provider *provider);
/* The key of an offer at the question's shapes and threads. Any thread, no memory. */
cost_key cost_key_of(uint64_t identity, const cost_question *question);
/* The key of what a provider measures of itself under a key of its own (inlay.timings/1). */
cost_key cost_key_of_timing(uint64_t identity, const void *key, uint64_t key_bytes);
/* Is a before b? The order of records in the file. */
static inline bool cost_key_less(const cost_key *a, const cost_key *b)
{
    return a->word[0] != b->word[0] ? a->word[0] < b->word[0] : a->word[1] < b->word[1];
}
/* The same for qsort, of things that begin with a key. */
static inline int cost_key_order(const void *a, const void *b)
{
    return cost_key_less(a, b) ? -1 : cost_key_less(b, a);
}
#endif
