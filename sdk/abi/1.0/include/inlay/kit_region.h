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

/* assess: tells the host why node n is refused. */
inlay_status kit_refuse_node(const inlay_assess_sink *sink, uint32_t n, const kit_refusal *why);

#ifdef __cplusplus
}
#endif
#endif
