/* partition/partition.h - who runs what.
 *
 * Every open provider assesses the same snapshot; the offers, with their costs at the shapes at hand, compete; the
 * result is a list of regions in an order that can be executed, and the record of how it came about (offers, refusals)
 * from which `inlay explain` speaks.
 *
 * What is least is the sum of
 *     the offers chosen, each at its price for the shapes at hand,
 *     the copies: each value once into each domain that reads it; inputs and outputs of the graph lie in the host's,
 *         and two devices that know nothing of each other meet there,
 *     the launches of regions,
 * with the user's rules and the memory of each device as bounds. Prices are no better known than they are: a provider
 * replaces one that stands k places before it in the user's order only when it is cheaper by k times what either price
 * may be off by (cost.h). */
#ifndef PARTITION_PARTITION_H
#define PARTITION_PARTITION_H
#include "graph/graph.h"

/* An open provider, as the later stages see it. */
typedef struct partition_provider {
    const inlay_provider *table;
    void *state;
    const char *name;
    const char *plugin_path;                 /* for messages; may be NULL */
    const char *plugin_version, *build_id;   /* of the plugin; NULL = unknown */
    const struct provider_setting *settings; /* [setting_count] the options that it was opened with */
    uint64_t settings_hash;                  /* of them; 0 = none */
    uint64_t identity;                       /* what its measurements are filed under (partition/cost/cost_key.h) */
    uint32_t setting_count;
    uint32_t first_domain; /* host-wide id of its domains[0] */
    uint32_t abi_minor;    /* that its plugin was built for: it is not asked about operators that passes make since */
    bool unnamed;          /* a CPU stands in for its device, and no option names it: it runs what rules name it for */
} partition_provider;

/* The domain that a provider's values lie in unless a placement says otherwise. */
static inline uint32_t partition_default_domain(const partition_provider *owner)
{
    const uint32_t d = owner->table->default_domain;

    return d == 0 ? (uint32_t)INLAY_DOMAIN_HOST : owner->first_domain + d - 1;
}

/* Does the placement ask for what any two providers understand: row-major, elements of the model's type? */
static inline bool partition_is_plain(const inlay_placement *placement)
{
    return placement->layout.kind == INLAY_LAYOUT_ROW_MAJOR && placement->dtype == INLAY_UNDEFINED;
}

typedef struct partition_offer {
    uint32_t provider; /* index */
    uint32_t flags;    /* INLAY_OFFER_* */
    uint64_t cookie;
    const uint32_t *nodes; /* [node_count], ascending */
    uint32_t node_count;
    const inlay_placement *placements;
    uint32_t placement_count;
    uint64_t workspace_bytes, resident_bytes;
    inlay_cost cost;      /* at the shapes of partition.profile */
    uint32_t cost_source; /* COST_* of cost.h */
    double cost_error;    /* how far the price may be off, relative */
    bool chosen;
    bool declined; /* the provider took it back, see plan/program/declined.h: nobody chooses it */
} partition_offer;

typedef struct partition_refusal {
    uint32_t provider, node, code;
    const char *text;
    const char *accepted_if; /* or NULL */
} partition_refusal;

/* Nodes that are compiled and run as one. provider INLAY_NONE: one node that the host runs itself. */
typedef struct partition_region {
    uint32_t provider;
    const uint32_t *nodes; /* [node_count], ascending */
    uint32_t node_count;
    const uint32_t *offers; /* [offer_count] indexes into partition.offers */
    uint32_t offer_count;
    const uint32_t *inputs;  /* values that enter, without constants */
    const uint32_t *outputs; /* values that leave */
    uint32_t input_count, output_count;
    double cost_ns;   /* of the offers */
    double launch_ns; /* of starting it */
    double border_ns; /* of values that enter and leave, in layouts of its own */
} partition_region;

/* A value that has to be brought from one memory domain to another. */
typedef struct partition_copy {
    uint32_t value;
    uint32_t from_region, to_region; /* INLAY_NONE: an input, an output of the graph */
    uint32_t from_domain, to_domain;
    uint64_t bytes; /* at the shapes of partition.profile */
    double ns;
    bool once; /* not in each iteration: each time that the loop is entered whose body the graph is */
} partition_copy;

/* Where a value lies that enters a graph, or that one of the host's nodes makes; where one goes that leaves it. Values
 * stay where they are over If, Loop and Scan, so the graph around a body and the body know it of each other. */
#define PART_ANYWHERE (INLAY_NONE - 1) /* a domain: wherever the value is made */
typedef struct partition_home {
    uint32_t lies;   /* domain; of what is carried, before the first iteration. INLAY_NONE: not known yet */
    uint32_t next;   /* a body's input: the output that it is in the next iteration, and lies with; else INLAY_NONE */
    uint32_t wanted; /* an output: the domain that it goes to; PART_ANYWHERE: it is carried, and stays */
    uint32_t inside; /* where bodies read what is handed to them as it is; they copy it. INLAY_NONE: not known yet */
    bool stacked;    /* an output that comes home unless it is made where it is wanted */
    bool once;       /* its copies last for all iterations */
} partition_home;

/* Memory of one provider's device as it was planned, estimates of its offers. */
typedef struct partition_memory {
    uint64_t resident_bytes; /* weights that its offers keep */
    uint64_t peak_bytes;     /* the most that values and workspace need at a time */
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
    partition_memory *memory;              /* [provider_count] */
    const inlay_value_state *profile;      /* [value_count] the shapes that costs were asked for */
    const inlay_value_state *compiled_for; /* the same for compile: sizes that go together; NULL: unknown */
    uint64_t weight_bytes;                 /* of the graph's constants */
    const partition_home *homes; /* [value_count]; NULL: all that enters and leaves lies in the host's memory */
    double iterations;           /* of the loop whose body it is, expected; 1 where that is not known */
    double cost_ns;              /* all of it: offers, launches, copies; without margins */
    double once_ns;              /* what of it is for copies that last for all iterations */
    double launch_ns;            /* the launches in it */
    uint32_t stretch_count;      /* regions in a row that one provider runs count as one */
    bool idle;     /* a body of a node that a provider runs whole: nobody was asked, and nothing is assigned */
    bool unpriced; /* a saved plan was followed: only offers that it names have a price, the saved one */
};

/* A wish of the user's about some nodes: pattern is a glob on the node's name, or "op:GLOB" on its operator type. */
typedef struct partition_wish {
    const char *pattern;  /* "*" = every node */
    const char *provider; /* its name */
} partition_wish;

typedef struct partition_limit {
    const char *provider;
    uint64_t bytes;
} partition_limit;

/* What the user asks of an assignment, beyond that it be cheap. All lists may be empty; a rule that can't be kept is an
 * error that says which and why. */
typedef struct partition_rules {
    bool by_priority;              /* policy `priority`: the first provider that can, whatever it costs */
    const partition_wish *pins;    /* [pin_count] these nodes run there; the first that matches a node counts */
    const partition_wish *forbids; /* [forbid_count] these nodes do not run there */
    const char *const *requires;   /* [require_count] these providers run at least one node */
    const partition_limit *limits; /* [limit_count] hard bounds on device memory; others: the domain's own */
    uint32_t pin_count, forbid_count, require_count, limit_count;
    uint32_t max_partitions; /* at most so many stretches of one provider; 0 = any number */
    bool no_cpu;             /* no node on a provider whose device is a CPU */
    const char *saved_plan;  /* path of a plan to follow, as `inlay partition --save` wrote it; NULL = none */
} partition_rules;

typedef struct partition_request {
    const struct graph *graph;
    const inlay_graph *snapshot;
    const partition_provider *providers; /* in the user's order: the first wins a tie */
    uint32_t provider_count;
    uint32_t max_threads;                                     /* of a run */
    const partition_rules *rules;                             /* NULL = none */
    const struct cost_book *costs;                            /* see cost.h; may be NULL */
    struct cost_sizes *sizes;                                 /* likewise: what symbols are taken to be */
    void (*log)(void *ctx, uint32_t level, const char *text); /* or NULL */
    void *log_ctx;
    bool again; /* a rewrite was undone since the names in rules were checked: they may mean nodes that have gone */
    const uint8_t *barred; /* partition_again: [offer_count of base] 1 = not to be chosen; NULL = none */

    /* What the other graphs of the session leave to this one, set by partition_all. Zero = all of it. */
    const uint64_t *used_bytes;  /* [provider_count] device memory that others need; NULL = none */
    uint32_t max_partitions;     /* of this graph; 0 = that of the rules */
    const char *must_run;        /* a provider that runs at least one node of this graph; NULL = none */
    const partition_home *homes; /* become the partition's; NULL: partition_again takes those of base */
    double iterations;
} partition_request;

/* Fills *out; memory is the arena's. A node that nobody offers is INLAY_UNSUPPORTED, with every provider's reason. */
INLAY_NODISCARD inlay_status partition_graph(const partition_request *request, struct arena *arena,
                                             struct partition *out, inlay_diag *diag);

/* May the provider run the node, for all that the rules say? */
bool partition_may_run(const partition_request *request, uint32_t node, uint32_t provider);
/* [node_count] 1 = no offer that partition has heard covers the node, and the rules allow. NULL: no memory. */
uint8_t *partition_uncovered(const partition_request *request, const struct partition *partition, struct arena *arena);

/* Does a node of the host's hand v on to its bodies as it is, wherever that lies? So it does with what they capture,
 * and with what a Loop or a Scan begins with. All else the host reads itself. */
bool partition_hands_on(const graph_node *node, uint32_t v);
/* How often the body of a Loop or a Scan runs when the node does, at the shapes of partition; 1, and *out_known false,
 * where that depends on data. */
double partition_iterations(const struct partition *partition, const graph_node *node, bool *out_known);

/* Is the node, which the host would run itself with its bodies, a candidate of that provider (INLAY_EXT_BODIES)? */
bool partition_takes_bodies(const partition_provider *provider, const struct graph *graph, const graph_node *node);

/* One graph of a session: the main one, then the bodies, each behind the graph that holds it. */
typedef struct partition_job {
    partition_request request; /* of all jobs the same but for graph and snapshot */
    const char *path;          /* "" = the main graph; otherwise ".../NODE.ATTRIBUTE" of the bodies down to this one */
    struct arena *arena;       /* of the result */
    struct partition *out;
} partition_job;

/* Partitions all graphs of a session, and sees to it that the rules hold over them together: names in rules mean
 * something (INLAY_INVALID_ARGUMENT with the nearest that does), `require` is met somewhere, max_partitions is kept in
 * sum, and so is the memory of each device. Errors name the graph and node, or the rule. */
INLAY_NODISCARD inlay_status partition_all(partition_job *jobs, uint32_t count, inlay_diag *diag);

/* Chooses again, from the offers and prices that base has heard, under the rules of request: what a what-if and the
 * runner-up of a region are asked with. *out shares base's offers' memory but not their `chosen`. */
INLAY_NODISCARD inlay_status partition_again(const partition_request *request, const struct partition *base,
                                             struct arena *arena, struct partition *out, inlay_diag *diag);

/* ------------------------------------------------------------------ saved plans (saved.c)
 *
 * JSON: who runs which nodes, by name, for the main graph and every body, with the prices that were expected, and what
 * it was made with: the hash of each graph, plugins and their builds, threads. A plan is followed by node names, so it
 * may outlive small changes of a model; what no longer fits is an error that says what differs. */

/* Writes the plan of these graphs in pieces. */
typedef void (*partition_write_fn)(void *user, const char *text, size_t bytes);
INLAY_NODISCARD inlay_status partition_plan_save(const partition_job *jobs, uint32_t count, partition_write_fn write,
                                                 void *user, inlay_diag *diag);
#endif
