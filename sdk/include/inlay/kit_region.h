/* inlay/kit_region.h - helpers for providers that compile whole regions themselves, as providers for devices do.
 *
 * The graph that compile gets is valid only until compile returns, but a provider often lowers nodes later, when shapes
 * are known. A kit_region is a copy of the region: its nodes with their attributes, and the values that they read and
 * write, renumbered within the region.
 *
 *     INLAY_TRY(kit_region_keep(request, 4096, 0, &compiled->region, diag));
 *     for (uint32_t i = 0; i < compiled->region.node_count; i++)
 *         read_node(&compiled->region.nodes[i]); // inputs[k] is an index into compiled->region.values
 *     ...
 *     kit_region_free(&compiled->region); // in release_compiled
 */
#ifndef INLAY_KIT_REGION_H
#define INLAY_KIT_REGION_H
#include "inlay/kit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A value of a region. */
typedef struct kit_region_value {
    uint32_t snapshot;      /* index in the graph that compile got; INLAY_NONE: a value added by the provider */
    uint32_t input, output; /* index among the region's inputs, and among its outputs; or INLAY_NONE */
    uint32_t uses;          /* number of node inputs that read it, plus one for an output of the region */
    inlay_dtype dtype;
    bool constant;       /* the elements of the value are known when the region is compiled */
    const void *data;    /* elements of a small constant, not aligned; or NULL */
    uint64_t data_bytes; /* size of data */
} kit_region_value;

/* A copy of a region. */
typedef struct kit_region {
    inlay_node_info *nodes;   /* [node_count] in the order of the request; without domain and lists of strings */
    kit_region_value *values; /* [value_count] values of the region, then values that the provider added */
    uint32_t node_count, value_count;
    uint32_t input_count, output_count;
    void *memory; /* internal */
} kit_region;

/* Copies the region of a request: its nodes with their names and attributes, and its values. Tensors and constants of
 * up to small_bytes bytes are copied with their elements, larger tensors without them. own_values values, which no node
 * uses, are appended for the provider. The provider frees *out by kit_region_free(). INLAY_OUT_OF_MEMORY: *out is
 * {0}. */
INLAY_NODISCARD inlay_status kit_region_keep(const inlay_compile_request *request, uint64_t small_bytes,
                                             uint32_t own_values, kit_region *out, inlay_diag *diag);
/* Returns zeroed memory that lives as long as the region; NULL: out of memory. Not from several threads at once. */
void *kit_region_take(kit_region *region, uint64_t bytes);
void kit_region_free(kit_region *region); /* a no-op for {0} */

/* Returns true if the provider can run the node, whose index in the graph is n. *offer is an offer of this node alone,
 * to which the function may add flags, placements and estimates. Otherwise fills *why with kit_refuse(). */
typedef bool (*kit_fits_fn)(void *ctx, const kit_node *node, uint32_t n, inlay_offer *offer, kit_refusal *why);
/* Implements assess for offers of one node each: calls fits for each candidate and reports the result to the host. fits
 * gets copies of *like, in which graph and info are set to the node. candidates NULL: all nodes are candidates. */
inlay_status kit_assess_each(const kit_node *like, const inlay_graph *graph, const uint8_t *candidates,
                             const inlay_assess_sink *sink, kit_fits_fn fits, void *ctx);

/* Loads and saves data in file `name` of folder dir (inlay_create_args.cache_dir; NULL or "": there is no folder, and
 * nothing is loaded or saved), so that later processes can use it. identity is any data that determines whether the
 * file can be used, such as device and driver; a file with another identity, or a damaged one, is ignored.
 * kit_kept_load returns memory that the caller passes to free(), and its size in *out_bytes; NULL: there is no such
 * data. A failure to save is ignored. Readers always see a complete file, even if another process writes it at the same
 * time. */
void *kit_kept_load(const char *dir, const char *name, const void *identity, size_t identity_bytes, size_t *out_bytes);
void kit_kept_save(const char *dir, const char *name, const void *identity, size_t identity_bytes, const void *data,
                   size_t bytes);

/* KIT_PLUGIN_NAMED (inlay/kit.h) for a plugin whose provider is a complete inlay_provider, `own`, instead of a table of
 * kernels. self is a kit_plugin; name and provider_name are string literals. */
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
