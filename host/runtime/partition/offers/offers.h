/* partition/offers/offers.h - the offers of providers, the user's rules, and the placement of values in bodies.
 *
 * - offers.c: collects offers from providers
 * - minor.c: what plugins built for an older ABI know
 * - bodies.c: nodes with bodies, for providers that support them
 * - graph_tree.c: the graphs of a session as a tree
 * - body_placement.c: placement of values that cross If, Loop and Scan bodies
 * - rules.c: pins, forbids and other rules, as unusable offers */
#ifndef PARTITION_OFFERS_H
#define PARTITION_OFFERS_H
#include "partition/partition.h"

/* Queries every provider; sets offers and refusals of *out. candidates: [node_count] 1 = may be offered. */
INLAY_NODISCARD inlay_status collect_offers(const partition_request *request, const uint8_t *candidates,
                                            struct arena *arena, struct partition *out, inlay_diag *diag);

/* Makes nodes with bodies candidates if a usable offer covers them; returns whether there are any. */
bool partition_cover_bodies(const struct graph *graph, const struct partition *partition, const uint8_t *usable,
                            uint8_t *candidates);
/* Makes offers of nodes with bodies unusable. */
void partition_drop_bodies(const struct graph *graph, const struct partition *partition, uint8_t *usable);

/* graph_tree.c.
 *
 * The graphs of a session as a tree, and where their values are computed and read: each body is partitioned with regard
 * to the graph around it, and that graph with regard to its bodies. Lookups take constant or logarithmic time, so that
 * the time for a model with many bodies does not grow with the square of their number. */

/* A region that reads a value. */
typedef struct tree_read {
    uint32_t region;
    uint32_t domain; /* where it reads the value; INLAY_DOMAIN_HOST if the host runs the node */
} tree_read;

/* Describes the partition of a job. */
typedef struct tree_places {
    const struct partition *parts;
    const partition_region *regions; /* parts->regions when this description was made */
    uint32_t *made_in;               /* [value_count] domain; INLAY_NONE: no provider computes the value */
    uint32_t *first_read;            /* [value_count + 1] into reads */
    tree_read *reads;                /* by value, in the order of regions */
    bool *taken;                     /* [node_count] a provider runs the node */
} tree_places;

typedef struct tree_graph {
    uint32_t around;      /* job of the surrounding graph; INLAY_NONE: the main graph */
    uint32_t node, index; /* it is body `index` of this node there */
    tree_places places;
} tree_graph;

typedef struct graph_tree {
    partition_job *jobs; /* [count] */
    uint32_t count;
    tree_graph *graphs; /* [count] */
    uint32_t *sorted;   /* [count] jobs, by address of their graph */
    struct arena arena;
    bool failed; /* out of memory: answers are wrong */
} graph_tree;

/* False: out of memory. Release with graph_tree_deinit() in either case. */
bool graph_tree_init(graph_tree *tree, partition_job *jobs, uint32_t count);
void graph_tree_deinit(graph_tree *tree);

/* The job of a graph; INLAY_NONE: none. */
uint32_t graph_tree_job(const graph_tree *tree, const struct graph *graph);
/* The node that has the job's graph as a body; not for the main graph. */
const graph_node *graph_tree_node(const graph_tree *tree, uint32_t job);
/* Valid until the job is partitioned again. NULL: not partitioned yet, or out of memory. */
const tree_places *graph_tree_places(graph_tree *tree, uint32_t job);
/* Returns whether the job's graph is a body of a node that a provider runs including its bodies. */
bool graph_tree_is_idle(graph_tree *tree, uint32_t job);

/* Returns whether the session has bodies and a provider with device memory, so that placements matter. */
bool partition_has_boundaries(const partition_job *jobs, uint32_t count);
/* Sets request.boundaries and request.iterations of the job from the surrounding graphs and from its bodies, as far as
 * these are partitioned. `final`: all of them are; the result of an If is then placed where it is read next, otherwise
 * where the branch computes it. False: out of memory. */
bool partition_find_boundaries(graph_tree *tree, uint32_t job, bool final);

/* [node_count] 1 = a provider must run the node; the host runs the others. NULL: out of memory. */
uint8_t *partition_candidates(const struct graph *graph, struct arena *arena);

/* Sets usable [offers]: not barred, and allowed by the rules. A pin that cannot be kept is INLAY_UNSUPPORTED. */
INLAY_NODISCARD inlay_status partition_apply_rules(const partition_request *request, const struct partition *partition,
                                                   struct arena *scratch, uint8_t *usable, inlay_diag *diag);
/* INLAY_UNSUPPORTED; the message has every provider's reason for this node, and names other uncovered nodes. */
INLAY_NODISCARD inlay_status report_uncovered_node(const partition_request *request, const struct partition *partition,
                                                   const uint8_t *candidates, const uint8_t *usable, uint32_t node,
                                                   struct arena *scratch, inlay_diag *diag);

/* Returns whether the request excludes the offer. */
static inline bool partition_is_barred(const partition_request *request, uint32_t offer)
{
    return request->barred != NULL && request->barred[offer] != 0;
}
/* Returns whether the policy is `priority`. */
static inline bool partition_by_priority(const partition_request *request)
{
    return request->rules != NULL && request->rules->by_priority;
}
static inline bool partition_has_margins(const partition_request *request)
{
    return request->rules == NULL || !request->rules->no_margins;
}

/* The node that computes the value; INLAY_NONE for inputs, constants and INLAY_NONE. */
static inline uint32_t partition_producer_of(const struct graph *graph, uint32_t value)
{
    return value == INLAY_NONE ? INLAY_NONE : graph->values[value].info.producer;
}
#endif
