/* partition/partition.h - who runs what.
 *
 * Every open provider assesses the same snapshot; the offers, with their costs at the shapes at hand, compete; the
 * result is a list of regions in an order that can be executed, and the record of how it came about (offers, refusals)
 * from which `inlay explain` speaks.
 *
 * This version takes the cheapest offer per node (copies between domains included, greedily along the graph) and merges
 * neighbours of one provider; the solver that looks at the whole graph has the same interface. */
#ifndef PARTITION_PARTITION_H
#define PARTITION_PARTITION_H
#include "graph/graph.h"

/* An open provider, as the later stages see it. */
typedef struct part_provider {
    const inlay_provider *table;
    void *state;
    const char *name;
    const char *plugin_path; /* for messages; may be NULL */
    uint32_t first_domain;   /* host-wide id of its domains[0] */
} part_provider;

/* The domain that a provider's values lie in unless a placement says otherwise. */
uint32_t part_default_domain(const part_provider *provider);

typedef struct part_offer {
    uint32_t provider; /* index */
    uint32_t flags;    /* INLAY_OFFER_* */
    uint64_t cookie;
    const uint32_t *nodes; /* [node_count], ascending */
    uint32_t node_count;
    const inlay_placement *placements;
    uint32_t placement_count;
    uint64_t workspace_bytes, resident_bytes;
    inlay_cost cost; /* at the shapes that were known */
    bool chosen;
} part_offer;

typedef struct part_refusal {
    uint32_t provider, node, code;
    const char *text;
    const char *accepted_if; /* or NULL */
} part_refusal;

/* Nodes that are compiled and run as one. provider INLAY_NONE: one node that the host runs itself. */
typedef struct part_region {
    uint32_t provider;
    const uint32_t *nodes; /* [node_count], ascending */
    uint32_t node_count;
    const uint32_t *offers; /* [offer_count] indexes into partition.offers */
    uint32_t offer_count;
    const uint32_t *inputs;  /* values that enter, without constants */
    const uint32_t *outputs; /* values that leave */
    uint32_t input_count, output_count;
    double cost_ns;
} part_region;

typedef struct partition {
    part_offer *offers;
    uint32_t offer_count;
    part_refusal *refusals;
    uint32_t refusal_count;
    part_region *regions; /* in execution order */
    uint32_t region_count;
    const inlay_value_state *profile; /* [value_count] the shapes that costs were asked for */
    double cost_ns;
} partition;

typedef struct part_request {
    const graph *graph;
    const inlay_graph *snapshot;
    const part_provider *providers; /* in the user's order: the first wins a tie */
    uint32_t provider_count;
    uint32_t max_threads; /* of a run */
    bool by_priority; /* policy `priority`: the first provider that can, whatever it costs */
    void (*log)(void *ctx, uint32_t level, const char *text); /* or NULL */
    void *log_ctx;
} part_request;

/* Fills *out; memory is the arena's. A node that nobody offers is INLAY_UNSUPPORTED, with every provider's reason. */
INLAY_NODISCARD inlay_status partition_graph(const part_request *request, arena *a, partition *out, inlay_diag *diag);
#endif
