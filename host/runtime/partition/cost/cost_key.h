/* partition/cost/cost_key.h - what a measurement is filed under.
 *
 * Every key begins with the provider's identity: name, build of its plugin, device, settings. Two kinds follow, for two
 * kinds of measurements that have one store (cost_store.h) and one reader (the cost book, cost.h), but not one model:
 *
 *     an offer, by cost_key_of(): how long the offer takes within a region, at certain sizes and threads. The host
 *         measures it (inlay tune, --record), and the solver chooses providers by it. Equal layers share one
 *         measurement, within a model and between models: the key is the offer's structure, that is operators with
 *         version and attributes, how the nodes hang together, element types, sizes, and which inputs are constants.
 *         Weights do not count, but small constants do, since an exponent or a shape decides what a kernel does. Names
 *         never count.
 *     a variant of a kernel, by cost_key_of_timing(): what a provider measures within one of its regions
 *         (inlay.kernels/1), under a key of its own that the host cannot read. The provider asks for it when it
 *         compiles (inlay.timings/1), to choose among its variants. The solver never sees it: variants have no offers,
 *         and the time of the region that they are in is measured as that of its offers. */
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
/* The same of an open provider, for partition_provider.identity. */
uint64_t cost_identity_of(const partition_provider *provider);
/* The key of an offer at the question's shapes and threads. Any thread, no memory. */
cost_key cost_key_of(const cost_question *question);
/* The key of a variant of a kernel, from the provider's own key. */
cost_key cost_key_of_timing(const partition_provider *provider, const void *key, uint64_t key_bytes);
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
