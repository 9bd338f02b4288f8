/* partition/partition.h - assigns the nodes of a graph to providers.
 *
 * Every open provider assesses the same snapshot. The offers compete by their costs at the given shapes. The result is
 * a list of regions in executable order, with the offers and refusals that led to it, which `inlay explain` reports.
 *
 * The assignment minimises the objective of the rules. For latency that is the sum of
 * - the costs of the chosen offers at the given shapes,
 * - the copies: each value once into each memory domain that reads it; inputs and outputs of the graph are in host
 *   memory, and copies between devices of two providers go through host memory unless they share memory,
 * - the launches of regions;
 *
 * for energy, the same with each time multiplied by the power of the provider's device; for memory, the bytes of packed
 * weights and of all values in each memory domain that they are in. It is minimised within the user's rules and the
 * memory of each device. Prices are uncertain: a provider replaces another one that precedes it by k places in the
 * user's order only if it is cheaper by k margins, whose size depends on what is known about the prices (README.md,
 * Uncertainty). */
#ifndef PARTITION_PARTITION_H
#define PARTITION_PARTITION_H
#include "base/device_link.h"
#include "graph/graph.h"
#include "inlay/execution.h"

/* An open provider, as used after plug-ins are loaded. */
typedef struct partition_provider {
    const struct inlay_provider *table;
    void *state;
    const char *name;
    const char *plugin_path;                 /* for messages; may be NULL */
    const char *plugin_version, *build_id;   /* of the plugin; NULL = unknown */
    const struct provider_setting *settings; /* [setting_count] the options that it was opened with */
    uint64_t settings_hash;                  /* hash of the settings; 0 = none */
    uint64_t identity; /* identifies the provider in keys of measurements (partition/cost/cost_key.h) */
    uint32_t setting_count;
    uint32_t first_domain; /* host-wide id of its domains[0] */
    uint32_t place;        /* in the order of preference, ascending; equal: neither is preferred */
    double watts;          /* power of its device while it works, as the user states it; 0 = unknown */
    uint32_t abi_minor;    /* ABI version of its plugin: it is not asked about operators that were introduced later */
    /* a CPU emulates its device, and no option names the provider: it only runs nodes that rules assign to it */
    bool unnamed;
} partition_provider;

/* The domain of a provider's values unless a placement names another one. */
static inline uint32_t partition_default_domain(const partition_provider *owner)
{
    return link_default_domain(owner->table, owner->first_domain);
}

/* Returns whether the placement has the element type of the model, which all providers share. */
static inline bool partition_is_plain(const inlay_placement *placement)
{
    return placement->dtype == INLAY_UNDEFINED;
}

/* Limits of a region, 0 = none; see inlay_offer.max_nodes. */
typedef struct partition_limits {
    uint32_t nodes, inputs, outputs;
    uint64_t resident_bytes;
    uint64_t weight_bytes; /* partition_rules.max_weight_bytes; a single offer may exceed it */
} partition_limits;

typedef struct partition_offer {
    uint32_t provider; /* index */
    uint32_t flags;    /* INLAY_OFFER_* */
    uint64_t cookie;
    const uint32_t *nodes; /* [node_count], ascending */
    uint32_t node_count;
    const inlay_placement *placements;
    uint32_t placement_count;
    uint64_t workspace_bytes, resident_bytes;
    uint64_t weight_bytes;   /* packed or borrowed weights; 0 without limits.weight_bytes */
    partition_limits limits; /* of a region that contains it */
    inlay_cost cost;         /* at the shapes of partition.profile */
    uint32_t cost_source;    /* COST_* of cost.h */
    double cost_error;       /* relative error of the price */
    double threads_factor;   /* the price at the threads of a run / cost.ns, the mean that is compared (COST_THREADS) */
    double border_factor;    /* the same of enter_ns and leave_ns */
    double margin_ns;        /* added to the price in the search, for the order of providers and the error */
    bool region_price; /* the cost is the share of the provider's price of a region (inlay_provider.cost_region) */
    bool kept_whole;   /* chosen because the gain of dividing its region is doubtful (search/whole_regions.c) */
    bool chosen;
    bool declined; /* the provider withdrew the offer, see plan/program/declined.h: it must not be chosen */
} partition_offer;

typedef struct partition_refusal {
    uint32_t provider, node, code;
    const char *text;
    const char *accepted_if; /* or NULL */
} partition_refusal;

/* Nodes that are compiled and run as a unit. provider INLAY_NONE: a single node that the host runs itself. */
typedef struct partition_region {
    uint32_t provider;
    const uint32_t *nodes; /* [node_count], ascending */
    uint32_t node_count;
    const uint32_t *offers; /* [offer_count] indexes into partition.offers */
    uint32_t offer_count;
    const uint32_t *inputs;  /* values that enter, without constants */
    const uint32_t *outputs; /* values that leave */
    uint32_t input_count, output_count;
    double cost_ns;       /* sum of its offers */
    double launch_ns;     /* cost of launching the region */
    double border_ns;     /* cost of layout changes of values that enter and leave, ... */
    double run_border_ns; /* ... and at the threads of a run */
} partition_region;

/* A copy of a value from one memory domain to another. */
typedef struct partition_copy {
    uint32_t value;
    uint32_t from_region, to_region; /* INLAY_NONE: an input or an output of the graph */
    uint32_t from_domain, to_domain;
    uint64_t bytes; /* at the shapes of partition.profile */
    double ns;
    uint32_t link; /* LINK_* of base/device_link.h, from one provider to another; LINK_IMPORT: no copy at all */
    bool once;     /* executed only once each time that the loop with this body is entered, not in each iteration */
} partition_copy;

/* Placement of a value that crosses the boundary of a body, or is computed by a node that the host runs. If, Loop and
 * Scan pass values on without copying them, so the body and the graph around it must know each other's placement. */
#define PLACEMENT_ANY (INLAY_NONE - 1) /* a domain: any, wherever the value is computed */
typedef struct boundary_placement {
    uint32_t domain; /* its domain; of a carried value, before the first iteration. INLAY_NONE: not known yet */
    /* input of a body: the output that becomes this input in the next iteration and has the same domain; otherwise
     * INLAY_NONE */
    uint32_t carried_output;
    /* output: the domain where it is needed; PLACEMENT_ANY: a carried value, which stays where it is */
    uint32_t target;
    /* domain where bodies read a value that is passed to them; the body copies it. INLAY_NONE: not known yet */
    uint32_t body_domain;
    bool stacked; /* output that is copied to the host unless it is computed in its target domain */
    bool once;    /* its copies are valid for all iterations */
} boundary_placement;

/* Planned memory of a provider's device, estimated from its offers. */
typedef struct partition_memory {
    uint64_t resident_bytes; /* packed weights of its offers */
    uint64_t peak_bytes;     /* maximum of values and workspace at any time */
    uint64_t limit_bytes;    /* 0 = none */
} partition_memory;

struct partition {
    partition_offer *offers;
    uint32_t offer_count;
    partition_refusal *refusals;
    uint32_t refusal_count;
    partition_region *regions; /* in execution order */
    uint32_t region_count;
    partition_copy *copies;
    uint32_t copy_count;
    uint32_t import_count;                 /* copies with LINK_IMPORT */
    partition_memory *memory;              /* [provider_count] */
    const inlay_value_state *profile;      /* [value_count] the shapes that costs refer to */
    const inlay_value_state *compiled_for; /* shapes for compile: a consistent set; NULL: unknown */
    uint64_t weight_bytes;                 /* of all constants of the graph */
    const boundary_placement *boundaries;  /* [value_count]; NULL: all values that enter and leave are in host memory */
    double iterations;                     /* expected iterations of the loop with this body; 1 if unknown */
    double cost_ns;                        /* total of offers, launches and copies, without error margins */
    double once_ns;                        /* part of cost_ns for copies that are valid for all iterations */
    double launch_ns;                      /* part of cost_ns for launches */
    double energy_nj, once_nj; /* like cost_ns and once_ns: time multiplied by power; 0 if a power is unknown */
    double kept_bytes;         /* packed weights, and all values in each memory domain that they are in */
    uint32_t partition_count;  /* number of partitions: consecutive regions of one provider count as one */
    bool idle;     /* body of a node that a provider runs whole: no offers are collected, and no node is assigned */
    bool unpriced; /* follows a saved plan: only the offers of the plan have a price, the saved one */
};

/* A user rule for some nodes; pattern is a glob on the node's name, or "op:GLOB" on its operator type. */
typedef struct node_rule {
    const char *pattern;  /* "*" = every node */
    const char *provider; /* name of the provider */
} node_rule;

typedef struct partition_limit {
    const char *provider;
    uint64_t bytes;
} partition_limit;

/* What an assignment minimises (problem/objective.c). OBJECTIVE_ENERGY requires partition_provider.watts. */
enum { OBJECTIVE_LATENCY = 0, OBJECTIVE_ENERGY = 1, OBJECTIVE_MEMORY = 2, OBJECTIVE_COUNT = 3 };
static inline const char *partition_objective_name(uint32_t objective)
{
    return objective == OBJECTIVE_MEMORY ? "memory" : objective == OBJECTIVE_ENERGY ? "energy" : "latency";
}

/* The user's constraints on an assignment. All lists may be empty. A rule that cannot be met is an error that names the
 * rule and the reason. */
typedef struct partition_rules {
    uint32_t objective;          /* OBJECTIVE_* */
    bool by_priority;            /* policy `priority`: the first provider that supports the node, regardless of cost */
    bool no_margins;             /* only prices count, not their errors nor the order of providers; for questions */
    const node_rule *pins;       /* [pin_count] these nodes run on the provider; the first match counts */
    const node_rule *forbids;    /* [forbid_count] these nodes do not run on the provider */
    const char *const *requires; /* [require_count] each of these providers runs at least one node */
    const partition_limit *limits; /* [limit_count] hard limits of device memory; other devices: the domain's size */
    uint32_t pin_count, forbid_count, require_count, limit_count;
    uint32_t max_partitions;   /* maximum number of partitions; 0 = unlimited */
    bool no_cpu;               /* no node runs on a provider whose device is a CPU */
    uint64_t max_weight_bytes; /* of a region in host memory; 0 = unlimited */
    bool single_nodes;         /* each region is one node: offers for several nodes are ignored, and none are merged */
    const char *saved_plan;    /* path of a plan written by `inlay partition --save`; NULL = none */
    /* [provider_count] 1 = measured runs of the model are faster without the provider (cost_is_left_out): it runs
     * only nodes that no other provider offers, and those of rules that name it; NULL = none. Saved plans ignore it. */
    const uint8_t *left_out;
    /* [provider_count] where the provider was checked (option trust): it runs no node outside; an entry that is NULL
     * limits nothing; NULL = none. */
    const struct certificate_provider *const *trusted;
} partition_rules;

typedef struct partition_request {
    const struct graph *graph;
    const inlay_graph *snapshot;
    const partition_provider *providers; /* in the user's order: the first one wins a tie */
    uint32_t provider_count;
    uint32_t max_threads;                                     /* of a run */
    const partition_rules *rules;                             /* NULL = none */
    const struct cost_book *costs;                            /* see cost.h; may be NULL */
    struct cost_sizes *sizes;                                 /* likewise: the assumed sizes of symbols */
    void (*log)(void *ctx, uint32_t level, const char *text); /* or NULL */
    void *log_ctx;
    const graph_state *states; /* of the main graph; their appends stay in one region */
    uint32_t state_count;
    bool again; /* a rewrite was undone since the names in rules were checked: they may refer to removed nodes */
    const uint8_t *barred; /* partition_again: [offer_count of base] 1 = must not be chosen; NULL = none */

    /* Limits that the other graphs of the session leave for this one, set by partition_all. Zero = no further limit. */
    const uint64_t *used_bytes;           /* [provider_count] device memory used by other graphs; NULL = none */
    uint32_t max_partitions;              /* of this graph; 0 = the limit of the rules */
    const char *must_run;                 /* a provider that must run at least one node of this graph; NULL = none */
    const boundary_placement *boundaries; /* copied to the partition; NULL: partition_again uses those of base */
    double iterations;
} partition_request;

/* Partitions a graph; memory is from the arena. A node that no provider supports is INLAY_UNSUPPORTED, with the reason
 * of every provider. */
INLAY_NODISCARD inlay_status partition_graph(const partition_request *request, struct arena *arena,
                                             struct partition *out, inlay_diag *diag);

/* Returns why the rules do not allow the provider to run the node; NULL = it may. */
const char *partition_ban(const partition_request *request, uint32_t node, uint32_t provider);
/* [node_count] 1 = the node is not covered by any collected offer that the rules allow. NULL: out of memory. */
uint8_t *partition_uncovered(const partition_request *request, const struct partition *partition, struct arena *arena);

/* Returns whether a node that the host runs passes value `value` on to its bodies without reading it: captured values,
 * and the initial values of a Loop or a Scan. The host reads all other inputs itself. */
bool partition_passes_to_bodies(const graph_node *node, uint32_t value);
/* Number of iterations of a Loop or Scan at the shapes of the partition; 1, with *out_known false, if it depends on
 * data. */
double partition_iterations(const struct partition *partition, const graph_node *node, bool *out_known);

/* INLAY_DTYPE_COUNT of each minor version of the ABI; later versions know all types. */
typedef struct dtype_history {
    const inlay_dtype *types; /* [count] */
    uint32_t count;
} dtype_history;
/* The history of the host's types. Only tests replace it. */
extern dtype_history partition_dtypes;

/* Returns whether a plugin that was built for this minor version knows the element types of the node's inputs, outputs
 * and attributes. */
bool partition_knows_types(const struct graph *graph, const graph_node *node, uint32_t minor);
/* The same, and whether it knows the operator, if a pass created the node. */
bool partition_knows(const struct graph *graph, const graph_node *node, uint32_t minor);

/* Returns whether the provider accepts a node with bodies that the host would otherwise run itself
 * (INLAY_EXT_BODIES). */
bool partition_takes_bodies(const partition_provider *provider, const struct graph *graph, const graph_node *node);

/* One graph of a session: the main one, then the bodies, each after the graph that contains it. */
typedef struct partition_job {
    partition_request request; /* identical for all jobs except graph and snapshot */
    const char *path;          /* "" = the main graph; otherwise ".../NODE.ATTRIBUTE" of the bodies down to this one */
    struct arena *arena;       /* for the result */
    struct partition *out;
} partition_job;

/* Partitions all graphs of a session so that the rules hold for all of them together: names in rules exist (otherwise
 * INLAY_INVALID_ARGUMENT with the nearest name), `require` is met in some graph, and max_partitions and device memory
 * are kept in total. Errors name the graph and the node, or the rule. */
INLAY_NODISCARD inlay_status partition_all(partition_job *jobs, uint32_t count, inlay_diag *diag);

/* Chooses again from the offers and prices of base, under the rules of the request: for what-if questions and for the
 * second-best provider of a region. *out shares the memory of base's offers, but not their `chosen`. */
INLAY_NODISCARD inlay_status partition_again(const partition_request *request, const struct partition *base,
                                             struct arena *arena, struct partition *out, inlay_diag *diag);

/* Saved plans (saved.c).
 *
 * JSON: the provider of each node, by name, for the main graph and every body, with the expected prices, and the
 * conditions: the hash of each graph, plugins with their builds, threads. A plan is followed by node names, so it may
 * survive small changes of a model. An entry that no longer fits is an error that names the difference. */

/* Receives the text of the plan in pieces. */
typedef void (*partition_write_fn)(void *user, const char *text, size_t bytes);
INLAY_NODISCARD inlay_status partition_plan_save(const partition_job *jobs, uint32_t count, partition_write_fn write,
                                                 void *user, inlay_diag *diag);
#endif
