/* partition/cost/cost_key.h - keys of measurements.
 *
 * Every key starts with a provider's identity: name, build of its plugin, device, settings. There are three kinds of
 * measurements. They share one store (cost_store.h) and one reader (the cost book, cost.h), but use different models:
 *
 * - an offer, by cost_key_of(): the time of the offer within a region, for given sizes and threads. The host measures
 *   it (`inlay tune`, --record), and the solver chooses providers by it. Equal layers share one measurement, within a
 *   model and between models: the key is the structure of the offer, that is operators with version and attributes, the
 *   edges between the nodes, element types, sizes, and which inputs are constants. Weights are not part of it, but
 *   small constants are, since an exponent or a shape changes the work of a kernel. Names are never part of it.
 * - a variant of a kernel, by cost_key_of_timing(): measured by a provider within one of its regions (inlay.kernels/1),
 *   under a key that only the provider can read. The provider queries it when it compiles (inlay.timings/1), to choose
 *   among its variants. The solver does not use it: variants have no offers, and the time of a region is measured
 *   through its offers.
 * - a pair of providers within a whole model, by cost_key_without(): runs were faster without the first one, in an
 *   assignment that uses the second one. The time of such a record is the number of providers that this assignment uses
 *   (0: no longer valid), so that a session recognises whether it has all of them (cost_is_left_out()). It holds for
 *   one model, the sizes of its inputs and the threads, independent of other providers. */
#ifndef PARTITION_COST_KEY_H
#define PARTITION_COST_KEY_H
#include "partition/cost/cost.h"

/* Two independent 64-bit hashes. */
typedef struct cost_key {
    uint64_t word[2];
} cost_key;

/* The identity of a provider that is open in this process. device is the provider's fingerprint, or else the name of
 * the machine. */
uint64_t cost_identity(const char *name, const char *build_id, const void *device, size_t device_bytes,
                       uint64_t settings_hash);
/* The same for an open provider, for partition_provider.identity. */
uint64_t cost_identity_of(const partition_provider *provider);
/* The key of an offer at the question's shapes and threads. Any thread; does not allocate. */
cost_key cost_key_of(const cost_question *question);
/* The key of a kernel variant, from the provider's own key. */
cost_key cost_key_of_timing(const partition_provider *provider, const void *key, uint64_t key_bytes);
/* The key of a pair of providers within a whole model. */
cost_key cost_key_without(const cost_whole_model *model, uint32_t left_out, uint32_t used);
/* The order of records in the file. */
static inline bool cost_key_less(const cost_key *a, const cost_key *b)
{
    return a->word[0] != b->word[0] ? a->word[0] < b->word[0] : a->word[1] < b->word[1];
}
/* The same for qsort, for structs that start with a key. */
static inline int cost_key_order(const void *a, const void *b)
{
    return cost_key_less(a, b) ? -1 : cost_key_less(b, a);
}
#endif
