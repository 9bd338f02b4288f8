/* inlay/kit_region.h - what providers need that compile whole regions themselves, as those of devices do.
 *
 * The graph that compile gets is gone when compile returns, while nodes are lowered when shapes are known. A kit_region
 * is what remains of it: the region's nodes with their attributes, and the values that they read and make under numbers
 * of the region's own.
 *
 *     INLAY_TRY(kit_region_keep(request, 4096, 0, &c->region, diag));
 *     for (uint32_t n = 0; n < c->region.node_count; n++)
 *         read_node(&c->region.nodes[n]); // inputs[i] is an index into c->region.values
 *     ...
 *     kit_region_free(&c->region); // in release_compiled
 */
#ifndef INLAY_KIT_REGION_H
#define INLAY_KIT_REGION_H
#include "inlay/kit.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kit_region_value {
    uint32_t snapshot;      /* its number in the graph that compile got; INLAY_NONE: a value of the provider's own */
    uint32_t input, output; /* of the region, or INLAY_NONE */
    uint32_t uses;          /* inputs of nodes that read it; one more for an output of the region */
    inlay_dtype dtype;
    bool constant;
    const void *data; /* elements of a small constant, not aligned; or NULL */
    uint64_t data_bytes;
} kit_region_value;

typedef struct kit_region {
    inlay_node_info *nodes;   /* [node_count] in the order of the request; without domain and strings lists */
    kit_region_value *values; /* [value_count], and behind them those of the provider's own */
    uint32_t node_count, value_count;
    uint32_t input_count, output_count;
    void *memory; /* internal */
} kit_region;

/* Keeps the region of a request: attributes (tensors and constants up to small_bytes with their elements, larger ones
 * without), names, and own_values values that no node has. INLAY_OUT_OF_MEMORY: *out is {0}. */
INLAY_NODISCARD inlay_status kit_region_keep(const inlay_compile_request *request, uint64_t small_bytes,
                                             uint32_t own_values, kit_region *out, inlay_diag *diag);
/* Zeroed memory that lives as long as the region; NULL: there is none left. Not from several threads at once. */
void *kit_region_take(kit_region *region, uint64_t bytes);
void kit_region_free(kit_region *region); /* of {0}: a no-op */

/* The body of assess for offers of one node each: calls fits for each candidate, and tells the host. fits may add to
 * the offer; false: why says the reason. */
typedef bool (*kit_fits_fn)(void *ctx, const kit_node *node, uint32_t n, inlay_offer *offer, kit_refusal *why);
inlay_status kit_assess_each(const kit_node *like, const inlay_graph *graph, const uint8_t *candidates,
                             const inlay_assess_sink *sink, kit_fits_fn fits, void *ctx); /* like: host and provider */

/* Bytes kept from one process to the next in a file of inlay_create_args.cache_dir (NULL or "": nowhere). identity
 * names all that decides whether they can be used, device and driver among it; a file with another, or one byte wrong,
 * is as if it were not there. Texts and bytes are read during the call. load: the caller frees; NULL: nothing. A reader
 * sees a whole file, whoever writes meanwhile. */
void *kit_kept_load(const char *dir, const char *name, const void *identity, size_t identity_bytes, size_t *out_bytes);
void kit_kept_save(const char *dir, const char *name, const void *identity, size_t identity_bytes, const void *data,
                   size_t bytes);

/* KIT_PLUGIN_NAMED for a plugin with a provider of its own (an inlay_provider), which is not made of a table. */
#define KIT_PROVIDER_PLUGIN(self, name, own, provider_name)                                                            \
    INLAY_PLUGIN_NOTE(name, provider_name, "")                                                                         \
    inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)          \
    {                                                                                                                  \
        static kit_exports exports;                                                                                    \
        inlay_status status = kit_open(&(self), &exports, host, out_plugin, diag);                                     \
        exports.provider = (own);                                                                                      \
        exports.plugin.providers = &exports.provider;                                                                  \
        exports.plugin.provider_count = 1;                                                                             \
        return status;                                                                                                 \
    }

#ifdef __cplusplus
}
#endif
#endif
